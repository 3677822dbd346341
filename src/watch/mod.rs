//! Live sight of what is asked and recorded: what can be seen, what each watcher watches for, and the lines
//! that wait for each. Knows no socket, and of a token never more than how one that no server has begins.
//!
//! Most of the time nobody watches. A thread that could see something then reads one number a turn,
//! and nothing is kept. Where somebody does, what fits no watcher is not kept either. A watcher that does not take
//! its lines has a bound on what waits for it: what is beyond is counted, and told once there is room.

mod line;
mod sample;

use std::fmt::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use sample::QuestionSample;

use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, is_token_character};
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

/// Watchers at a time: what is seen is compared with what each of them watches for.
pub const WATCHERS_MAX: usize = 8;
/// How many bytes of lines may wait for one watcher: some hundred lines.
pub const WAITING_BYTES_MAX: usize = 64 * 1024;
/// A watcher is sent a line at least this often, in milliseconds: to one that has gone without a word the sending
/// fails, and its seat is free again.
pub const ALIVE_MS: u64 = 15_000;
/// How often what was seen is told, in milliseconds: at once for a reader, and seldom enough
/// that a busy service spends next to nothing on it.
pub const PACE_MS: u64 = 50;

/// What can be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A question was answered.
    Question {
        /// What was asked.
        asked: WatchedQuestion,
        /// The answer in a word.
        answer: &'static str,
        /// Its HTTP status.
        status: u16,
        /// The other end of the connection; a proxy where one stands in front.
        peer: Option<SocketAddr>,
    },
    /// A vote was recorded.
    Vote {
        /// For which server, from where.
        pair: Pair,
        /// When it was given.
        voted_at: UnixSeconds,
        /// End of its cooldown.
        expires_at: UnixSeconds,
    },
    /// A vote was reported and not recorded.
    Attempt(Attempt),
    /// A live vote gave way to a later one of the caller's records.
    Replacement {
        /// Of which server, from where.
        pair: Pair,
        /// When the vote was given that counts no longer.
        voted_at: UnixSeconds,
        /// When its cooldown would have ended.
        expires_at: UnixSeconds,
    },
    /// A vote was cancelled.
    Cancellation(Pair),
    /// A server was listed.
    Registration(ServerId),
    /// A server got another token.
    Rotation(ServerId),
    /// A server was removed.
    Removal(ServerId),
}

/// What a question was about, as far as it was understood. The default is a path that is no question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedQuestion {
    /// `id` or `token`.
    pub variant: Option<&'static str>,
    /// The server: the one that the token names, or the number that was said, listed or not.
    pub server: Option<ServerId>,
    /// How a token begins that no server has.
    pub token_begins: Option<String>,
    /// The address asked about.
    pub address: Option<VoterAddress>,
}

/// A vote that was not recorded, for one of its addresses. The default is one of which nothing could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The server: the one that the token names, or the number that was said, listed or not.
    pub server: Option<ServerId>,
    /// How a token begins that no server has.
    pub token_begins: Option<String>,
    /// The voter's address.
    pub address: Option<VoterAddress>,
    /// When the vote was given, where the caller said that.
    pub voted_at: Option<UnixSeconds>,
    /// Why it was not recorded, in a word.
    pub outcome: &'static str,
    /// The cooldown that refused it.
    pub held: Option<HeldCooldown>,
}

/// A cooldown that refuses a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCooldown {
    /// The address in cooldown: of several that a vote names, the one that is so for longest.
    pub of: VoterAddress,
    /// When its vote was given.
    pub since: UnixSeconds,
    /// When it ends.
    pub until: UnixSeconds,
}

/// The first characters of a token that `servers` do not have, to know it again by: four at most, half of it at most.
/// Nothing of it where so few characters are a token themselves.
#[must_use]
pub fn token_beginning(token: &[u8], servers: &Snapshot) -> Option<String> {
    let legal = token.iter().take_while(|byte| is_token_character(**byte)).count();
    let shown = &token[..legal.min(token.len() / 2).min(4)];
    let is_token = (1..=shown.len()).any(|length| servers.find(&shown[..length]).is_some());
    (!shown.is_empty() && !is_token).then(|| String::from_utf8_lossy(shown).into_owned())
}

/// What somebody watches for; by default everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFilter {
    /// Only what is about this server.
    pub server: Option<ServerId>,
    /// Only what is about this address.
    pub address: Option<VoterAddress>,
    /// Only questions and votes that name no listed server.
    pub is_unknown_only: bool,
}

impl WatchFilter {
    /// Whether that is watched for.
    #[must_use]
    pub fn fits(&self, seen: &Seen) -> bool {
        let (server, address) = match seen {
            Seen::Question { asked, .. } => (asked.server, asked.address),
            Seen::Attempt(attempt) => (attempt.server, attempt.address),
            Seen::Vote { pair, .. } | Seen::Replacement { pair, .. } | Seen::Cancellation(pair) => {
                (Some(pair.server), Some(pair.address))
            }
            Seen::Registration(server) | Seen::Rotation(server) | Seen::Removal(server) => (Some(*server), None),
        };
        (self.server.is_none() || self.server == server)
            && (self.address.is_none() || self.address == address)
            && (!self.is_unknown_only || seen.names_no_server())
    }
}

impl Seen {
    fn names_no_server(&self) -> bool {
        const ANSWERS: [&str; 4] = ["unknown_server", "unknown_token", "invalid_server_id", "not_found"];
        match self {
            Self::Question { answer, .. } => ANSWERS.contains(answer),
            Self::Attempt(attempt) => attempt.server.is_none() || ANSWERS.contains(&attempt.outcome),
            _ => false,
        }
    }
}

/// The watchers, and what was seen for them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WatchBoard(Arc<BoardState>);

#[derive(Debug, Default)]
struct BoardState {
    /// Changes whenever a watcher comes or goes, and whenever a sample of the questions begins or ends.
    version: AtomicU64,
    seats: Mutex<[Option<Seat>; WATCHERS_MAX]>,
    lines: AtomicU64,
    dropped: AtomicU64,
    sample: Mutex<QuestionSample>,
}

/// What waits for one watcher.
#[derive(Debug)]
struct Seat {
    filter: WatchFilter,
    /// Names the watcher's connection.
    ticket: u64,
    /// At most [`WAITING_BYTES_MAX`], and a line that says how many were dropped.
    lines: String,
    /// Lines that did not fit since the last that did.
    dropped: u64,
    /// When the watcher was last sent something.
    told_at_ms: u64,
    /// The watcher was woken, and has not taken its lines since.
    is_woken: bool,
}

impl Seat {
    /// Where lines were dropped, puts one in their place that says how many.
    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            // A String takes whatever is written to it.
            let _written = writeln!(self.lines, r#"{{"kind":"dropped","lines":{dropped}}}"#);
        }
    }
}

impl WatchBoard {
    /// A seat for one more watcher, whose connection has this ticket, until it is dropped; `None` where all are taken.
    #[must_use]
    pub fn sit(&self, filter: WatchFilter, ticket: u64, now_ms: u64) -> Option<WatchSeat> {
        let mut seats = self.0.seats.lock();
        let index = seats.iter().position(Option::is_none)?;
        let (lines, dropped) = Default::default();
        seats[index] = Some(Seat { filter, ticket, lines, dropped, told_at_ms: now_ms, is_woken: false });
        self.0.version.fetch_add(1, Ordering::Release);
        Some(WatchSeat { board: self.clone(), index })
    }

    /// For one more thread that sees something.
    #[must_use]
    pub fn post(&self) -> WatchPost {
        WatchPost { board: self.clone(), ..WatchPost::default() }
    }

    /// The tickets of the watchers to wake: something waits for them, or they were sent nothing for [`ALIVE_MS`].
    #[must_use]
    pub fn due(&self, now_ms: u64) -> Vec<u64> {
        let mut seats = self.0.seats.lock();
        let is_due = |seat: &&mut Seat| {
            let has_news = !seat.lines.is_empty() || seat.dropped > 0;
            !seat.is_woken && (has_news || now_ms >= seat.told_at_ms + ALIVE_MS)
        };
        let due = seats.iter_mut().flatten().filter(is_due);
        due.map(|seat| {
            seat.is_woken = true;
            seat.ticket
        })
        .collect()
    }

    /// The present watchers, the lines that were written for watchers, and the lines that watchers have missed.
    #[must_use]
    pub fn counted(&self) -> [u64; 3] {
        let watchers = self.0.seats.lock().iter().flatten().count() as u64;
        [watchers, self.0.lines.load(Ordering::Relaxed), self.0.dropped.load(Ordering::Relaxed)]
    }

    /// Begins a sample of the questions, if it is time for one. To be called twice a second.
    pub fn sample_questions(&self, now_ms: u64) {
        if self.0.sample.lock().open(now_ms) {
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Most servers that one address was seen to ask about, by samples of the questions.
    #[must_use]
    pub fn one_address_servers(&self) -> usize {
        self.0.sample.lock().shown()
    }

    fn add(&self, at: UnixSeconds, seen: &Seen) {
        let mut line = String::new();
        for seat in self.0.seats.lock().iter_mut().flatten().filter(|seat| seat.filter.fits(seen)) {
            // A flood of questions is counted, and not written out for nobody.
            if line.is_empty() && seat.lines.len() < WAITING_BYTES_MAX {
                line = format!("{{\"at\":\"{at}\",{seen}}}\n");
            }
            if line.is_empty() || seat.lines.len() + line.len() > WAITING_BYTES_MAX {
                seat.dropped += 1;
                self.0.dropped.fetch_add(1, Ordering::Relaxed);
            } else {
                seat.tell_dropped();
                seat.lines.push_str(&line);
                self.0.lines.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A watcher's seat, free again once this is dropped.
#[derive(Debug)]
pub struct WatchSeat {
    board: WatchBoard,
    index: usize,
}

impl WatchSeat {
    /// Takes the lines that wait, or one that says that the service is there where none was sent for long.
    #[must_use]
    pub fn take(&self, at: UnixSeconds, now_ms: u64) -> String {
        let mut seats = self.board.0.seats.lock();
        let Some(seat) = &mut seats[self.index] else { return String::new() };
        seat.is_woken = false;
        seat.tell_dropped();
        if seat.lines.is_empty() && now_ms >= seat.told_at_ms + ALIVE_MS {
            let _written = writeln!(seat.lines, r#"{{"at":"{at}","kind":"alive"}}"#);
        }
        if !seat.lines.is_empty() {
            seat.told_at_ms = now_ms;
        }
        std::mem::take(&mut seat.lines)
    }
}

impl Drop for WatchSeat {
    fn drop(&mut self) {
        self.board.0.seats.lock()[self.index] = None;
        self.board.0.version.fetch_add(1, Ordering::Release);
    }
}

/// Where one thread notes what it sees. The default is watched by nobody.
#[derive(Clone, Debug, Default)]
pub struct WatchPost {
    board: WatchBoard,
    /// As it was when `filters` were copied.
    version: u64,
    filters: Vec<WatchFilter>,
    /// Whether questions were sampled then.
    is_sampling: bool,
}

impl WatchPost {
    /// Looks for watchers; whether there are any. To be called before something is noted.
    #[inline]
    pub fn look(&mut self) -> bool {
        let version = self.board.0.version.load(Ordering::Acquire);
        if version != self.version {
            self.filters = self.board.0.seats.lock().iter().flatten().map(|seat| seat.filter).collect();
            self.is_sampling = self.board.0.sample.lock().is_open();
            self.version = version;
        }
        self.is_watched()
    }

    /// As [`WatchPost::look`], before a question is noted or sampled.
    #[inline]
    pub fn look_for_questions(&mut self) -> bool {
        self.look() || self.is_sampling
    }

    /// Whether questions were sampled at the last look.
    #[must_use]
    pub const fn is_sampling(&self) -> bool {
        self.is_sampling
    }

    /// Whether there were any at the last look.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Whether somebody watches for that.
    #[must_use]
    pub fn is_wanted(&self, seen: &Seen) -> bool {
        self.filters.iter().any(|filter| filter.fits(seen))
    }

    /// Puts a question about a listed server into the sample, while one is taken.
    pub fn sample(&self, asked: Pair) {
        if self.board.0.sample.lock().take(asked) {
            self.board.0.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Notes something for its watchers.
    pub fn note(&self, at: UnixSeconds, seen: Seen) {
        if self.is_wanted(&seen) {
            self.board.add(at, &seen);
        }
    }
}

#[cfg(test)]
mod tests;
