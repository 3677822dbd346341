//! Lines gathered into batches and posted, and what the service says of them. Knows the batch
//! calls of the control interface, not where the lines come from.

use serde_json::{Value, json};
use ureq::http::Method;

use super::CliError;
use super::client::ControlClient;
use super::lines::LINE_BYTES_MAX;

/// Lines in one request; the service is asked to tell of as many refused ones.
const LINES_MAX: usize = 50_000;
/// Bytes in one request after which no line is added.
const BYTES_MAX: usize = 4 * 1024 * 1024;

/// What a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A server.
    Server,
    /// A vote that says when it was cast.
    Vote,
    /// A vote that does not. It is cast now, and where the address is in cooldown nothing changes:
    /// recorded as of now, the same file would prolong the cooldown each time.
    VoteNow,
}

impl Kind {
    const fn path(self) -> &'static str {
        match self {
            Self::Server => "/v1/servers/batch?errors_max=50000",
            Self::Vote => "/v1/votes/batch?errors_max=50000",
            Self::VoteNow => "/v1/votes/batch?mode=cast&errors_max=50000",
        }
    }
}

/// What became of the lines of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Totals {
    /// Taken.
    pub recorded: u64,
    /// Held already.
    pub unchanged: u64,
    /// Refused: older than the cooldown.
    pub expired: u64,
    /// Refused: of no listed server.
    pub unknown_server: u64,
    /// Refused: of a wrong form.
    pub invalid: u64,
    /// Of the other kind, and left to its own call.
    pub skipped: u64,
}

impl Totals {
    /// Lines that were refused.
    pub(super) const fn refused(&self) -> u64 {
        self.expired + self.unknown_server + self.invalid
    }

    /// The same as JSON.
    pub(super) fn object(&self) -> Value {
        let Self { recorded, unchanged, expired, unknown_server, invalid, skipped } = self;
        json!({
            "recorded": recorded, "unchanged": unchanged, "expired": expired,
            "unknown_server": unknown_server, "invalid": invalid, "skipped": skipped,
        })
    }

    /// Adds what the answer to a batch counts, or gives the name of what it does not.
    fn add(&mut self, answer: &Value) -> Result<(), &'static str> {
        let count = |name| answer[name].as_u64().ok_or(name);
        self.recorded += count("recorded")?;
        // Only a vote that does not say when can be refused for a cooldown.
        self.unchanged += count("unchanged")? + count("in_cooldown")?;
        self.expired += count("expired")?;
        self.unknown_server += count("unknown_server")?;
        self.invalid += count("invalid")?;
        // Counted only where there are some.
        self.skipped += count("skipped").unwrap_or_default();
        Ok(())
    }
}

/// A refused line.
pub(super) struct Refusal {
    /// Its number in its file.
    pub line: u64,
    /// The stable word.
    pub word: String,
    /// For people.
    pub message: String,
}

/// Lines of one kind on their way.
pub(super) struct Batch {
    kind: Kind,
    /// At most `BYTES_MAX` and one line.
    body: Vec<u8>,
    /// The number of each line in its file, at most `LINES_MAX`.
    numbers: Vec<u64>,
}

impl Batch {
    /// An empty batch.
    pub(super) const fn new(kind: Kind) -> Self {
        Self { kind, body: Vec::new(), numbers: Vec::new() }
    }

    /// Adds a line, which holds no line end.
    pub(super) fn push(&mut self, number: u64, text: &[u8]) {
        debug_assert!(!text.contains(&b'\n') && !text.trim_ascii().is_empty());
        self.body.extend_from_slice(text);
        self.body.push(b'\n');
        self.numbers.push(number);
    }

    /// What it is for.
    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Lines that wait.
    pub(super) const fn len(&self) -> u64 {
        self.numbers.len() as u64
    }

    /// Whether it is time to post.
    pub(super) fn is_full(&self) -> bool {
        self.numbers.len() >= LINES_MAX || self.body.len() >= BYTES_MAX
    }

    /// Posts what is there and leaves the batch empty; gives what was refused.
    ///
    /// # Errors
    /// Where the service cannot be asked, or takes none of it.
    pub(super) fn post(&mut self, client: &ControlClient, totals: &mut Totals) -> Result<Vec<Refusal>, CliError> {
        if self.numbers.is_empty() {
            return Ok(Vec::new());
        }
        let answer = client.send(Method::POST, self.kind.path(), &self.body)?.expect(&[200])?;
        let refused = totals.add(&answer.body).and_then(|()| self.refused(&answer.body)).map_err(|name| {
            CliError::new(format_args!("{}: not the answer to a batch: {name} is missing or wrong", client.url()))
        })?;
        self.body.clear();
        self.numbers.clear();
        Ok(refused)
    }

    /// The refused lines that an answer tells, or the name of what is wrong with it.
    fn refused(&self, answer: &Value) -> Result<Vec<Refusal>, &'static str> {
        let errors = answer["errors"].as_array().ok_or("errors")?;
        let held = |error: &&Value| self.kind == Kind::VoteNow && error["error"] == "in_cooldown";
        errors.iter().filter(|error| !held(error)).map(|error| self.refusal(error).ok_or("errors")).collect()
    }

    fn refusal(&self, error: &Value) -> Option<Refusal> {
        let index = usize::try_from(error["line"].as_u64()?.checked_sub(1)?).ok()?;
        Some(Refusal {
            line: *self.numbers.get(index)?,
            word: error["error"].as_str()?.to_owned(),
            // Every body is one line: the number that matters is the one in the file.
            message: error["message"].as_str()?.replace(" at line 1 column ", " at column "),
        })
    }
}

const _: () = assert!(BYTES_MAX > LINE_BYTES_MAX);
