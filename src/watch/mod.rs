//! A live view of questions and changes: the events, the filter of each watcher, and the lines that wait for it. This
//! module knows no socket. Of a token, it keeps only the first characters, and only if no server has the token.
//!
//! Most of the time there are no watchers. A thread that could see an event then reads one number a turn, and nothing
//! is kept. With watchers, an event that fits none of them is not kept either. If a watcher does not take its lines,
//! further lines are dropped and counted, and the watcher is told their number.

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

/// The most watchers at a time: each event is compared with what each of them watches for.
pub const WATCHERS_MAX: usize = 8;
/// The most bytes of lines that wait for one watcher: some hundred lines.
pub const WAITING_BYTES_MAX: usize = 64 * 1024;
/// The longest time without a line to a watcher, in milliseconds. If a watcher has gone without a word, sending the
/// line fails and frees its seat.
pub const ALIVE_MS: u64 = 15_000;
/// The pause between two deliveries to watchers, in milliseconds: at once for a human reader, and seldom enough to cost
/// a busy service next to nothing.
pub const PACE_MS: u64 = 50;

/// An event that a watcher can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A question was answered.
    Question {
        /// The question.
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
        /// The server and the voter's address.
        pair: Pair,
        /// When the vote was cast.
        voted_at: UnixSeconds,
        /// When its cooldown ends.
        expires_at: UnixSeconds,
    },
    /// A vote was reported and not recorded.
    Attempt(Attempt),
    /// A live vote gave way to a later one of the caller's records.
    Replacement {
        /// The server and the voter's address.
        pair: Pair,
        /// When the replaced vote was cast.
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

/// The content of a question, as far as it was understood. The default is a path that is no question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WatchedQuestion {
    /// `id` or `token`.
    pub variant: Option<&'static str>,
    /// The server that the token names, or the number that was given, listed or not.
    pub server: Option<ServerId>,
    /// The first characters of a token that no server has.
    pub token_begins: Option<String>,
    /// The address asked about.
    pub address: Option<VoterAddress>,
}

/// A vote that was not recorded, for one of its addresses. The default is a vote that could not be read at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The server that the token names, or the number that was given, listed or not.
    pub server: Option<ServerId>,
    /// The first characters of a token that no server has.
    pub token_begins: Option<String>,
    /// The voter's address.
    pub address: Option<VoterAddress>,
    /// When the vote was cast, if the caller said so.
    pub voted_at: Option<UnixSeconds>,
    /// Why the vote was not recorded, in a word.
    pub outcome: &'static str,
    /// The cooldown that refused the vote.
    pub held: Option<HeldCooldown>,
}

/// A cooldown that refuses a vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeldCooldown {
    /// The address in cooldown. Of several in one vote, the one whose cooldown ends last.
    pub of: VoterAddress,
    /// When its vote was cast.
    pub since: UnixSeconds,
    /// When the cooldown ends.
    pub until: UnixSeconds,
}

/// The first characters of a token that `servers` do not have, to recognise it: four at most, and half of it at most.
/// `None` where such a beginning is itself a token of a server.
#[must_use]
pub fn token_beginning(token: &[u8], servers: &Snapshot) -> Option<String> {
    let legal = token.iter().take_while(|byte| is_token_character(**byte)).count();
    let shown = &token[..legal.min(token.len() / 2).min(4)];
    let is_token = (1..=shown.len()).any(|length| servers.find(&shown[..length]).is_some());
    (!shown.is_empty() && !is_token).then(|| String::from_utf8_lossy(shown).into_owned())
}

/// The events that a watcher watches for; by default all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFilter {
    /// Only events about this server.
    pub server: Option<ServerId>,
    /// Only events about this address.
    pub address: Option<VoterAddress>,
    /// Only questions and votes that name no listed server.
    pub is_unknown_only: bool,
}

impl WatchFilter {
    /// Whether the watcher watches for this event.
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

/// The watchers, and the lines that wait for them. Cheap to clone.
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

/// A watcher, and the lines that wait for it.
#[derive(Debug)]
struct Seat {
    filter: WatchFilter,
    /// Names the watcher's connection.
    ticket: u64,
    /// The waiting lines: at most [`WAITING_BYTES_MAX`], and one that says how many were dropped.
    lines: String,
    /// Lines that were dropped since the last one that fitted.
    dropped: u64,
    /// When the watcher was last sent something.
    told_at_ms: u64,
    /// Whether the watcher was woken, and has not taken its lines since.
    is_woken: bool,
}

impl Seat {
    /// If lines were dropped, adds a line that says how many.
    fn tell_dropped(&mut self) {
        let dropped = std::mem::take(&mut self.dropped);
        if dropped > 0 {
            // Writing to a `String` never fails.
            let _written = writeln!(self.lines, r#"{{"kind":"dropped","lines":{dropped}}}"#);
        }
    }
}

impl WatchBoard {
    /// A seat for one more watcher, whose connection has this ticket; `None` where all are taken. The seat is free
    /// again once it is dropped.
    #[must_use]
    pub fn sit(&self, filter: WatchFilter, ticket: u64, now_ms: u64) -> Option<WatchSeat> {
        let mut seats = self.0.seats.lock();
        let index = seats.iter().position(Option::is_none)?;
        let (lines, dropped) = Default::default();
        seats[index] = Some(Seat { filter, ticket, lines, dropped, told_at_ms: now_ms, is_woken: false });
        self.0.version.fetch_add(1, Ordering::Release);
        Some(WatchSeat { board: self.clone(), index })
    }

    /// A post for one more thread that notes events.
    #[must_use]
    pub fn post(&self) -> WatchPost {
        WatchPost { board: self.clone(), ..WatchPost::default() }
    }

    /// The tickets of the watchers to wake: lines wait for them, or they were sent nothing for [`ALIVE_MS`].
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

    /// The number of watchers, of lines written for watchers, and of lines dropped.
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

    /// The most servers that one address has asked about, in samples of the questions.
    #[must_use]
    pub fn one_address_servers(&self) -> usize {
        self.0.sample.lock().shown()
    }

    fn add(&self, at: UnixSeconds, seen: &Seen) {
        let mut line = String::new();
        for seat in self.0.seats.lock().iter_mut().flatten().filter(|seat| seat.filter.fits(seen)) {
            // In a flood of questions, a line that no watcher has room for is only counted.
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
    /// Takes the waiting lines. If none was sent for long, gives a line that says that the service is alive.
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

/// Where one thread notes events. The default has no watchers.
#[derive(Clone, Debug, Default)]
pub struct WatchPost {
    board: WatchBoard,
    /// The board's version when `filters` were copied.
    version: u64,
    filters: Vec<WatchFilter>,
    /// Whether questions were sampled then.
    is_sampling: bool,
}

impl WatchPost {
    /// Looks for watchers; gives whether there are any. To be called before an event is noted.
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

    /// Whether there were watchers at the last look.
    #[must_use]
    pub const fn is_watched(&self) -> bool {
        !self.filters.is_empty()
    }

    /// Whether any watcher watches for this event.
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

    /// Notes an event for the watchers that watch for it.
    pub fn note(&self, at: UnixSeconds, seen: Seen) {
        if self.is_wanted(&seen) {
            self.board.add(at, &seen);
        }
    }
}

#[cfg(test)]
mod tests;
