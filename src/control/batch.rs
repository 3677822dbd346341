//! A batch as it streams in: lines to commands, commands to the recorder, outcomes to a summary.
//!
//! The commands under way bound the memory, not the batch: while too many wait for the recorder,
//! the client is not read.

use std::collections::VecDeque;
use std::sync::mpsc::Receiver;

use super::body::{self, BodyLine, Invalid};
use super::export_header;
use super::reply::{self, CANCELLED, ControlAnswer, EXPIRED, IN_FUTURE, TOKEN_DIFFERS, TOO_MANY_CHANGES};
use super::summary::Summary;
use crate::http::session::Intake;
use crate::limits::{BATCH_LINE_BYTES_MAX, COMMIT_EVENTS_MAX};
use crate::recorder::command::{Command, Mode, NewServer, Reply, ServerOutcome, Tokens, Vote, VoteOutcome};
use crate::vote::address::VoterAddress;
use crate::vote::settings::Settings;

/// The most lines that go to the recorder as one command.
const COMMAND_LINES_MAX: usize = 8_192;
/// The most commands under way before the client has to wait. Together they make one commit: votes of
/// many instants lie all over the file, and a commit rewrites every page that it touches.
const COMMANDS_MAX: usize = COMMIT_EVENTS_MAX / COMMAND_LINES_MAX;
/// The reason to refuse a vote of a batch.
const WITHOUT_TIME: &str = "voted_at is missing: a vote that is taken over says when it was cast";

/// About the memory that a line's token takes beside the line, in bytes.
const TOKEN_BYTES: usize = 48;

/// The kind of a batch's lines, and the lines until they are sent.
pub enum Gathered {
    /// `POST /v1/votes/batch`
    Votes(Vec<Vote>, Mode),
    /// `POST /v1/servers/batch`
    Servers(Vec<NewServer>, Tokens),
}

impl Gathered {
    const fn word(&self) -> &'static str {
        match self {
            Self::Votes(..) => "invalid_vote",
            Self::Servers(..) => "invalid_server",
        }
    }
}

/// The options of a batch.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// The most refused lines that the answer lists.
    pub errors_max: usize,
    /// Takes the lines of an export that was made with other settings.
    pub accepts_settings: bool,
}

/// Sends a command to the recorder; `None` if the recorder takes no more.
pub type SubmitCommand<'a> = &'a dyn Fn(Command) -> Option<Receiver<Reply>>;

/// A command that was sent to the recorder.
struct SentCommand {
    reply: Receiver<Reply>,
    /// The numbers of its lines.
    lines: Vec<u64>,
    /// See [`BatchRequest::tokenless`].
    tokenless: Vec<u64>,
}

/// One batch between its first byte and its answer.
pub struct BatchRequest {
    gathered: Gathered,
    /// A line whose end has not come yet.
    partial: Vec<u8>,
    is_overlong: bool,
    line: u64,
    lines: Vec<u64>,
    /// The lines among them that are servers without a token.
    tokenless: Vec<u64>,
    /// Commands that the recorder has, in the order of their lines.
    under_way: VecDeque<SentCommand>,
    is_store_unavailable: bool,
    /// Whether lines without an acknowledgement may have been recorded all the same.
    is_rest_in_doubt: bool,
    /// The settings of this service's store.
    settings: Settings,
    accepts_settings: bool,
    /// The settings for reading the lines: those of the last header.
    read_by: Settings,
    /// The reason to take no line from here on.
    refusal: Option<Invalid>,
    summary: Summary,
}

impl BatchRequest {
    /// A batch before its first line.
    #[must_use]
    pub fn new(gathered: Gathered, options: BatchOptions, settings: Settings) -> Self {
        Self {
            gathered,
            partial: Vec::new(),
            is_overlong: false,
            line: 0,
            lines: Vec::new(),
            tokenless: Vec::new(),
            under_way: VecDeque::new(),
            is_store_unavailable: false,
            is_rest_in_doubt: false,
            settings,
            accepts_settings: options.accepts_settings,
            read_by: settings,
            refusal: None,
            summary: Summary::new(options.errors_max),
        }
    }

    /// The memory of the batch, in bytes: gathered lines, lines that the recorder has, and the summary for the
    /// answer.
    #[must_use]
    pub fn used_bytes(&self) -> usize {
        let under_way: usize = self.under_way.iter().map(|sent| sent.lines.len() + sent.tokenless.len()).sum();
        let gathered = match &self.gathered {
            Gathered::Votes(votes, _) => votes.capacity() * size_of::<Vote>(),
            Gathered::Servers(servers, _) => servers.capacity() * size_of::<NewServer>(),
        };
        let line_bytes = size_of::<u64>() + size_of::<Vote>().max(size_of::<NewServer>()) + size_of::<VoteOutcome>();
        let gathered = gathered + (self.lines.capacity() + self.tokenless.capacity()) * size_of::<u64>();
        self.partial.capacity() + gathered + under_way * (line_bytes + TOKEN_BYTES) + self.summary.used_bytes()
    }

    /// Takes a piece of the stream.
    pub fn content(&mut self, mut bytes: &[u8], ask: SubmitCommand<'_>) -> Intake {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = (&bytes[..end], &bytes[end + 1..]);
            if self.partial.is_empty() && !self.is_overlong {
                self.take_line(line, ask);
            } else {
                self.hold(line);
                self.end_line(ask);
            }
            bytes = rest;
        }
        self.hold(bytes);
        self.collect();
        if self.under_way.len() < COMMANDS_MAX { Intake::Open } else { Intake::Parked }
    }

    /// Goes on after the last piece. Gives the answer once every command has come back.
    pub fn answer(&mut self, ask: SubmitCommand<'_>) -> Option<ControlAnswer> {
        self.end_line(ask);
        self.send(ask);
        self.collect();
        if !self.under_way.is_empty() {
            return None;
        }
        self.note();
        if self.is_store_unavailable {
            let rest = if self.is_rest_in_doubt { "of the rest some may have been" } else { "the rest was not" };
            let message = format!(
                "the store takes no changes now: {} lines were recorded, {rest}; send the batch again",
                self.summary.recorded
            );
            return Some(ControlAnswer::store_unavailable_saying(&message));
        }
        Some(match self.refusal.take() {
            Some(refusal) => refusal.into(),
            None => ControlAnswer::json(200, &self.summary),
        })
    }

    /// Waits no longer for the recorder's commands: their outcome is unknown.
    pub fn give_up(&mut self) {
        self.under_way.clear();
        self.is_store_unavailable = true;
        self.is_rest_in_doubt = true;
    }

    /// Logs the changes; votes are counted elsewhere.
    fn note(&self) {
        let Summary { recorded, unchanged, invalid, .. } = self.summary;
        let (what, level) = match self.gathered {
            Gathered::Servers(..) => ("servers", log::Level::Info),
            Gathered::Votes(..) => ("votes", log::Level::Debug),
        };
        log::log!(level, "a batch of {what}: {recorded} recorded, {unchanged} unchanged, {invalid} invalid");
    }

    fn hold(&mut self, bytes: &[u8]) {
        if self.partial.len() + bytes.len() > BATCH_LINE_BYTES_MAX {
            self.is_overlong = true;
            self.partial.clear();
        }
        if !self.is_overlong {
            self.partial.extend_from_slice(bytes);
        }
    }

    fn end_line(&mut self, ask: SubmitCommand<'_>) {
        if std::mem::take(&mut self.is_overlong) {
            self.line += 1;
            self.refuse_overlong();
        } else if !self.partial.is_empty() {
            let line = std::mem::take(&mut self.partial);
            self.take_line(&line, ask);
        }
    }

    fn take_line(&mut self, text: &[u8], ask: SubmitCommand<'_>) {
        self.line += 1;
        if text.len() > BATCH_LINE_BYTES_MAX {
            return self.refuse_overlong();
        }
        // Some programs write a byte order mark before the first line.
        let text = text.strip_prefix(b"\xEF\xBB\xBF").filter(|_| self.line == 1).unwrap_or(text).trim_ascii();
        if text.is_empty() || self.is_store_unavailable || self.refusal.is_some() {
            return;
        }
        if export_header::is_header(text) {
            return self.take_header(text);
        }
        let [theirs, ours] = [self.read_by, self.settings].map(|settings| settings.ipv6_prefix.bits());
        match (body::line(text, self.gathered.word()), &mut self.gathered) {
            // If these were recorded as of now, each import of the same file would move its votes.
            (Ok(BodyLine::Vote(Vote { voted_at: None, .. })), Gathered::Votes(_, Mode::Record)) => {
                return self.summary.refuse(self.line, "invalid_vote", WITHOUT_TIME);
            }
            (Ok(BodyLine::Vote(vote)), Gathered::Votes(..)) if theirs < ours && has_ipv6(&vote) => {
                let message = format!(
                    "the export has IPv6 networks of {theirs} bits, and this store tells those of {ours} apart: which one voted is not known"
                );
                return self.summary.refuse(self.line, "invalid_vote", &message);
            }
            (Ok(BodyLine::Vote(vote)), Gathered::Votes(votes, _)) => votes.push(vote),
            (Ok(BodyLine::Server(server)), Gathered::Servers(servers, _)) => {
                if server.token.is_none() {
                    self.tokenless.push(self.line);
                }
                servers.push(server);
            }
            (Ok(_), _) => {
                self.summary.skipped += 1;
                return;
            }
            (Err(Invalid { word, message, .. }), _) => return self.summary.refuse(self.line, word, &message),
        }
        self.lines.push(self.line);
        if self.lines.len() == COMMAND_LINES_MAX {
            self.send(ask);
        }
    }

    /// Takes the header of an export. It may come again if files were joined.
    fn take_header(&mut self, text: &[u8]) {
        match export_header::take(text, self.settings, self.accepts_settings) {
            Ok(theirs) => self.read_by = theirs,
            Err(Invalid { status, word, message }) => {
                let line = self.line;
                let message = format!("line {line}: {message}; nothing was taken from this line on");
                self.refusal = Some(Invalid { status, word, message: message.into() });
            }
        }
    }

    /// Gives the gathered lines to the recorder.
    fn send(&mut self, ask: SubmitCommand<'_>) {
        if self.lines.is_empty() {
            return;
        }
        let command = match &mut self.gathered {
            Gathered::Votes(votes, mode) => Command::Votes(std::mem::take(votes), *mode),
            Gathered::Servers(servers, tokens) => Command::Servers(std::mem::take(servers), *tokens),
        };
        let [lines, tokenless] = [&mut self.lines, &mut self.tokenless].map(std::mem::take);
        match ask(command) {
            Some(reply) => self.under_way.push_back(SentCommand { reply, lines, tokenless }),
            None => self.is_store_unavailable = true,
        }
    }

    /// Counts the outcomes that have come back.
    fn collect(&mut self) {
        while let Some(sent) = self.under_way.pop_front() {
            let Some(reply) = reply::arrived(&sent.reply) else { return self.under_way.push_front(sent) };
            let SentCommand { lines, tokenless, .. } = sent;
            match reply {
                Reply::Votes(outcomes) => {
                    lines.into_iter().zip(outcomes).for_each(|(line, outcome)| self.count_vote(line, outcome));
                }
                Reply::Servers(outcomes) => {
                    for (line, outcome) in lines.into_iter().zip(outcomes) {
                        let is_tokenless = tokenless.binary_search(&line).is_ok();
                        self.count_server(line, outcome, is_tokenless);
                    }
                }
                reply => {
                    self.is_store_unavailable = true;
                    self.is_rest_in_doubt |= reply == Reply::StoreSilent;
                }
            }
        }
    }

    fn count_vote(&mut self, line: u64, outcome: VoteOutcome) {
        match outcome {
            VoteOutcome::Recorded(vote) => {
                self.summary.recorded += 1;
                self.summary.unconfirmed += u64::from(!vote.is_confirmed);
            }
            VoteOutcome::Unchanged(vote) => {
                self.summary.unchanged += 1;
                self.summary.unconfirmed += u64::from(!vote.is_confirmed);
            }
            VoteOutcome::InCooldown(address, expires_at) => {
                self.summary.refuse(line, "in_cooldown", &format!("{address} is in cooldown until {expires_at}"));
            }
            VoteOutcome::Expired => self.summary.refuse(line, "expired", EXPIRED),
            VoteOutcome::UnknownServer => self.summary.refuse(line, "unknown_server", "no such server"),
            VoteOutcome::InFuture => self.summary.refuse(line, "invalid_vote", IN_FUTURE),
            VoteOutcome::Cancelled => self.summary.refuse(line, "cancelled", CANCELLED),
            VoteOutcome::TooManyChanges => self.summary.refuse(line, "too_many_changes", TOO_MANY_CHANGES),
        }
    }

    fn count_server(&mut self, line: u64, outcome: ServerOutcome, is_tokenless: bool) {
        match outcome {
            ServerOutcome::Created(server, token) if is_tokenless => {
                self.summary.recorded += 1;
                self.summary.tell_token(server, token);
            }
            ServerOutcome::Created(..) | ServerOutcome::Changed(..) => self.summary.recorded += 1,
            ServerOutcome::Unchanged(..) => self.summary.unchanged += 1,
            ServerOutcome::TokenDiffers => self.summary.refuse(line, "token_differs", TOKEN_DIFFERS),
            ServerOutcome::TokenInUse | ServerOutcome::Unknown => {
                self.summary.refuse(line, "token_in_use", "this token is another server's");
            }
            ServerOutcome::NotGenerated => {
                self.summary.refuse(line, "internal_error", "no token could be generated");
            }
        }
    }

    fn refuse_overlong(&mut self) {
        let message = format!("the line is longer than {BATCH_LINE_BYTES_MAX} bytes");
        self.summary.refuse(self.line, self.gathered.word(), &message);
    }
}

/// Whether one of the voter's addresses is a network of IPv6.
fn has_ipv6(vote: &Vote) -> bool {
    vote.voter.addresses().any(|address| matches!(address, VoterAddress::V6(_)))
}
