//! Live sight of what is asked and recorded: what can be seen, what each watcher watches for, and the queues
//! between the threads that see something and the one that tells it. Knows no socket, and of a token
//! never more than how one that no server has begins.
//!
//! Most of the time nobody watches. A thread that could see something then reads one number a turn,
//! and nothing is kept. Where somebody does, what fits no watcher is not kept either.

mod line;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, is_unreserved};
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

/// Watchers at a time: what is seen is compared with what each of them watches for.
pub const WATCHERS_MAX: usize = 8;
/// What waits of one thread until it is told, some 200 KB. It is taken every [`PACE_MS`], so one thread can
/// see some 40,000 things a second before any is dropped.
pub const QUEUE_SIGHTINGS_MAX: usize = 2_048;
/// How often what was seen is told, in milliseconds: at once for a reader, and seldom enough
/// that a busy service spends next to nothing on it.
pub const PACE_MS: u64 = 50;

/// Something that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// In which second, by the service's time.
    pub at: UnixSeconds,
    /// What it was.
    pub seen: Seen,
}

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
    pub token_begins: TokenBeginning,
    /// The address asked about.
    pub address: Option<VoterAddress>,
}

/// The first characters of a token that nobody has, to know it again by: four at most, half of it at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenBeginning([u8; 4]);

impl TokenBeginning {
    /// Of a token that `servers` do not have. Nothing of it where so few characters are a token themselves.
    #[must_use]
    pub fn of(token: &[u8], servers: &Snapshot) -> Self {
        let legal = token.iter().take_while(|byte| is_unreserved(**byte)).count();
        let shown = &token[..legal.min(token.len() / 2).min(4)];
        let mut beginning = Self::default();
        if (1..=shown.len()).all(|length| servers.find(&shown[..length]).is_none()) {
            beginning.0[..shown.len()].copy_from_slice(shown);
        }
        beginning
    }

    fn as_str(&self) -> &str {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        std::str::from_utf8(&self.0[..length]).unwrap_or_default()
    }
}

/// What somebody watches for; by default everything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WatchFilter {
    /// Only what is about this server.
    pub server: Option<ServerId>,
    /// Only what is about this address.
    pub address: Option<VoterAddress>,
    /// Only questions that name no listed server.
    pub is_unknown_only: bool,
}

impl WatchFilter {
    /// Whether that is watched for.
    #[must_use]
    pub fn fits(&self, seen: &Seen) -> bool {
        let (server, address) = match seen {
            Seen::Question { asked, .. } => (asked.server, asked.address),
            Seen::Vote { pair, .. } | Seen::Cancellation(pair) => (Some(pair.server), Some(pair.address)),
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
        matches!(self, Self::Question { answer, .. } if ANSWERS.contains(answer))
    }
}

type Seats = [Option<WatchFilter>; WATCHERS_MAX];

/// The watchers, and what was seen for them. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct WatchBoard(Arc<BoardState>);

#[derive(Debug, Default)]
struct BoardState {
    /// Changes whenever a watcher comes or goes.
    version: AtomicU64,
    seats: Mutex<Seats>,
    queues: Mutex<Vec<Arc<Mutex<WatchQueue>>>>,
    /// Counts what was seen: the queues are told in this order.
    order: AtomicU64,
}

/// At most [`QUEUE_SIGHTINGS_MAX`] sightings.
#[derive(Debug, Default)]
struct WatchQueue {
    /// Each with its rank among those of all queues.
    sightings: Vec<(u64, Sighting)>,
    /// What found the queue full, by the watchers that it was for.
    dropped: [u64; WATCHERS_MAX],
}

impl WatchQueue {
    fn push(&mut self, order: u64, sighting: Sighting, seats: &Seats) {
        if self.sightings.len() < QUEUE_SIGHTINGS_MAX {
            return self.sightings.push((order, sighting));
        }
        let fits = |seat: &Option<WatchFilter>| seat.is_some_and(|filter| filter.fits(&sighting.seen));
        self.dropped.iter_mut().zip(seats).for_each(|(sum, seat)| *sum += u64::from(fits(seat)));
    }

    fn add_dropped(&mut self, dropped: [u64; WATCHERS_MAX]) {
        self.dropped.iter_mut().zip(dropped).for_each(|(sum, more)| *sum += more);
    }
}

/// What was seen since it was last asked for.
#[derive(Debug, Default)]
pub struct Taken {
    /// In the order in which it was seen: nothing before what it came of.
    pub sightings: Vec<Sighting>,
    /// What was not kept, by the watchers that it was for.
    pub dropped: [u64; WATCHERS_MAX],
}

impl WatchBoard {
    /// A seat for one more watcher, until it is dropped; `None` where all are taken.
    #[must_use]
    pub fn sit(&self, filter: WatchFilter) -> Option<WatchSeat> {
        let mut seats = self.0.seats.lock();
        let index = seats.iter().position(Option::is_none)?;
        seats[index] = Some(filter);
        self.0.version.fetch_add(1, Ordering::Release);
        Some(WatchSeat { board: self.clone(), index })
    }

    /// What each watcher watches for, by seat.
    #[must_use]
    pub fn filters(&self) -> [Option<WatchFilter>; WATCHERS_MAX] {
        *self.0.seats.lock()
    }

    /// For one more thread that sees something.
    #[must_use]
    pub fn post(&self) -> WatchPost {
        let queue = Arc::default();
        self.0.queues.lock().push(Arc::clone(&queue));
        WatchPost { board: self.clone(), queue, ..WatchPost::default() }
    }

    /// Takes all that was seen.
    #[must_use]
    pub fn take(&self) -> Taken {
        let mut queues = self.0.queues.lock();
        let mut all = WatchQueue::default();
        let mut lists = Vec::new();
        {
            // All of them at one moment: a client that learns of a vote and then asks has its question behind the vote.
            let locked: Vec<_> = queues.iter().map(|queue| queue.lock()).collect();
            for mut queue in locked {
                lists.push(std::mem::take(&mut queue.sightings));
                all.add_dropped(std::mem::take(&mut queue.dropped));
            }
        }
        // A thread that has ended sees nothing more.
        queues.retain(|queue| Arc::strong_count(queue) > 1);
        let mut ordered: Vec<_> = lists.into_iter().flatten().collect();
        ordered.sort_unstable_by_key(|(order, _)| *order);
        let sightings = ordered.into_iter().map(|(_, sighting)| sighting).collect();
        Taken { sightings, dropped: all.dropped }
    }
}

/// A watcher's seat, free again once this is dropped.
#[derive(Debug)]
pub struct WatchSeat {
    board: WatchBoard,
    index: usize,
}

impl WatchSeat {
    /// Which one it is.
    #[must_use]
    pub const fn index(&self) -> usize {
        self.index
    }
}

impl Drop for WatchSeat {
    fn drop(&mut self) {
        self.board.0.seats.lock()[self.index] = None;
        self.board.0.version.fetch_add(1, Ordering::Release);
    }
}

/// Where one thread notes what it sees. The default is watched by nobody.
#[derive(Debug, Default)]
pub struct WatchPost {
    board: WatchBoard,
    queue: Arc<Mutex<WatchQueue>>,
    /// As it was when `seats` was copied.
    version: u64,
    seats: Seats,
    is_watched: bool,
    /// What will have been seen once it has happened.
    staged: WatchQueue,
}

impl WatchPost {
    /// Looks for watchers; whether there are any. To be called before something is noted.
    #[inline]
    pub fn look(&mut self) -> bool {
        let version = self.board.0.version.load(Ordering::Acquire);
        if version != self.version {
            self.seats = self.board.filters();
            self.version = version;
            self.is_watched = self.seats.iter().any(Option::is_some);
        }
        self.is_watched
    }

    /// Notes something for its watchers.
    pub fn note(&self, at: UnixSeconds, seen: Seen) {
        if self.is_wanted(&seen) {
            let order = self.next();
            self.queue.lock().push(order, Sighting { at, seen }, &self.seats);
        }
    }

    /// Keeps something back until [`WatchPost::finish_staged`] says whether it has happened.
    pub fn stage(&mut self, at: UnixSeconds, seen: Seen) {
        if self.is_wanted(&seen) {
            let order = self.next();
            self.staged.push(order, Sighting { at, seen }, &self.seats);
        }
    }

    /// What was staged has happened, or never will.
    pub fn finish_staged(&mut self, has_happened: bool) {
        if self.staged.sightings.is_empty() {
            return;
        }
        let WatchQueue { sightings, dropped } = std::mem::take(&mut self.staged);
        if has_happened {
            let mut queue = self.queue.lock();
            // Its order is that of the moment in which it is seen.
            sightings.into_iter().for_each(|(_, sighting)| queue.push(self.next(), sighting, &self.seats));
            queue.add_dropped(dropped);
        }
    }

    fn is_wanted(&self, seen: &Seen) -> bool {
        self.seats.iter().flatten().any(|filter| filter.fits(seen))
    }

    fn next(&self) -> u64 {
        self.board.0.order.fetch_add(1, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
