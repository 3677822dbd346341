//! Lines gathered into batches and posted, and the service's answers. Knows the batch calls of the
//! control interface, not the source of the lines.

use std::borrow::Cow;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use ureq::http::Method;

use super::CliError;
use super::client::ControlClient;
use crate::control::export_header::SETTINGS_DIFFER;
use crate::json::echo;
use crate::limits::{BATCH_LINE_BYTES_MAX, ECHO_BYTES_MAX};

/// The most lines in one request.
const LINES_MAX: usize = 50_000;
/// The reason to refuse a server's line.
const TOKEN_DIFFERS: &str = "the server has another token and keeps it; --replace-tokens takes the file's";
/// The most further tries of a batch that is answered 429, each after a second, before the answer is reported.
const LATER_TRIES: u32 = 5;
/// Bytes in one request after which no line is added.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// The outcomes of the lines of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Totals {
    /// Taken.
    pub recorded: u64,
    /// Recorded before.
    pub unchanged: u64,
    /// Older than the cooldown: of no use any more, and no fault of the file.
    pub expired: u64,
    /// Refused: of no listed server.
    pub unknown_server: u64,
    /// Refused: a listed server keeps its own token.
    #[serde(default)]
    pub token_differs: u64,
    /// Refused: of a wrong form, or in conflict with the store.
    pub invalid: u64,
    /// Of the other kind, and left to its own call.
    #[serde(default)]
    pub skipped: u64,
}

impl Totals {
    /// Lines that were refused.
    pub(super) const fn refused(&self) -> u64 {
        self.unknown_server + self.token_differs + self.invalid
    }

    /// Lines that were not taken: the service lists each of them.
    const fn listed(&self) -> u64 {
        self.refused() + self.expired
    }

    /// Lines that were taken, held already or refused: all but those of the other kind.
    pub(super) const fn judged(&self) -> u64 {
        self.recorded + self.unchanged + self.listed()
    }

    fn join(&mut self, other: &Self) {
        self.recorded += other.recorded;
        self.unchanged += other.unchanged;
        self.expired += other.expired;
        self.unknown_server += other.unknown_server;
        self.token_differs += other.token_differs;
        self.invalid += other.invalid;
        self.skipped += other.skipped;
    }
}

/// The answer to a batch, which counts the lines of `token_differs` as invalid too.
#[derive(Deserialize)]
struct BatchAnswer {
    #[serde(flatten)]
    counts: Totals,
    errors: Vec<Refusal>,
}

/// A refused line.
#[derive(Deserialize)]
pub(super) struct Refusal {
    /// Its number, in the batch or in its file.
    pub line: u64,
    /// The stable word.
    #[serde(rename = "error")]
    pub word: String,
    /// For people.
    pub message: String,
}

/// Lines of one kind on their way.
pub(super) struct UploadBatch {
    /// The call that takes them.
    path: String,
    /// The header of the lines' export, if the file has one, and the lines: at most `BYTES_MAX` and one line.
    body: Vec<u8>,
    /// Bytes of the header in it, with its line end.
    header_bytes: usize,
    /// The number of each line in its file, at most `LINES_MAX`.
    numbers: Vec<u64>,
    /// The outcomes of the lines of all batches so far.
    pub totals: Totals,
}

impl UploadBatch {
    /// An empty batch.
    pub(super) fn new(path: String) -> Self {
        Self { path, body: Vec::new(), header_bytes: 0, numbers: Vec::new(), totals: Totals::default() }
    }

    /// Begins the lines of an export with this header, or of a file without one. No line may be waiting.
    pub(super) fn begin(&mut self, header: Option<&[u8]>) {
        debug_assert!(self.numbers.is_empty());
        self.body.clear();
        if let Some(header) = header {
            self.body.extend_from_slice(header);
            self.body.push(b'\n');
        }
        self.header_bytes = self.body.len();
    }

    /// Whether the lines are of an export with a header.
    pub(super) const fn has_header(&self) -> bool {
        self.header_bytes > 0
    }

    /// Adds a line, which contains no line end.
    pub(super) fn push(&mut self, number: u64, text: &[u8]) {
        debug_assert!(!text.contains(&b'\n') && !text.trim_ascii().is_empty());
        self.body.extend_from_slice(text);
        self.body.push(b'\n');
        self.numbers.push(number);
    }

    /// Lines that wait.
    pub(super) const fn len(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Whether it is time to post.
    pub(super) fn is_full(&self) -> bool {
        self.numbers.len() >= LINES_MAX || self.body.len() >= BYTES_MAX
    }

    /// Posts the lines and leaves the batch empty. Gives the refused lines.
    ///
    /// # Errors
    /// Where the service cannot be reached, or refuses the whole batch.
    pub(super) fn post(&mut self, client: &ControlClient) -> Result<Vec<Refusal>, CliError> {
        if self.numbers.is_empty() {
            return Ok(Vec::new());
        }
        let mut refusals = Vec::new();
        // The number of lines that the answers so far have covered, and the start of the rest in the body.
        let (mut told, mut start) = (0, self.header_bytes);
        loop {
            let answer = self.send(client, start)?;
            let strange = |why| CliError::new(format_args!("{}: not the answer to a batch: {why}", client.url()));
            let answer = BatchAnswer::deserialize(answer).map_err(|error| strange(error.to_string()))?;
            let BatchAnswer { mut counts, errors } = answer;
            counts.invalid = counts.invalid.saturating_sub(counts.token_differs);
            if told == 0 {
                self.totals.join(&counts);
            }
            let (told_errors, last) = (errors.len() as u64, errors.last().map(|error| error.line));
            for error in errors {
                let refusal = self.refusal(told, error);
                refusals.push(refusal.ok_or_else(|| strange("it names a line that was not sent".to_owned()))?);
            }
            // An answer lists a bounded number of errors, and says nothing of the lines behind the last one
            // listed. These are posted again: lines that were recorded already change nothing.
            let Some(last) = last.filter(|_| told_errors < counts.listed()) else { break };
            for _ in u64::from(self.has_header())..last {
                start += memchr::memchr(b'\n', &self.body[start..]).map_or(0, |end| end + 1);
                told += 1;
            }
        }
        self.body.truncate(self.header_bytes);
        self.numbers.clear();
        Ok(refusals)
    }

    /// Posts the header and the lines from `start` on; if the answer is 429, again later.
    fn send(&self, client: &ControlClient, start: usize) -> Result<Value, CliError> {
        let body = match start == self.header_bytes {
            true => Cow::Borrowed(&*self.body),
            false => Cow::Owned([&self.body[..self.header_bytes], &self.body[start..]].concat()),
        };
        let mut tries = 0;
        loop {
            let answer = client.send(Method::POST, &self.path, &body)?;
            if answer.status == 409 && answer.text("error") == SETTINGS_DIFFER {
                // The service names its own parameter; here it is an option.
                let message = answer.text("message").replace("accept_settings=1", "--accept-settings");
                return Err(CliError::new(message));
            }
            if answer.status != 429 || tries == LATER_TRIES {
                return Ok(answer.expect(&[200])?.body);
            }
            tries += 1;
            thread::sleep(Duration::from_secs(1));
        }
    }

    /// One error of an answer. The answer was to all lines but the first `told`.
    fn refusal(&self, told: usize, error: Refusal) -> Option<Refusal> {
        let index = usize::try_from(error.line.checked_sub(1 + u64::from(self.has_header()))?).ok()?;
        let [word, message] = [error.word, error.message].map(|text| echo(&text, ECHO_BYTES_MAX));
        // The service names the remedy of its interface; here it is an option.
        let message = if word == "token_differs" { TOKEN_DIFFERS.to_owned() } else { message };
        Some(Refusal { line: *self.numbers.get(told + index)?, word, message })
    }
}

const _: () = assert!(BYTES_MAX > BATCH_LINE_BYTES_MAX);
