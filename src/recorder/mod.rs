//! The only writer. One thread owns the table, the directory and the store; everybody else asks.
//!
//! Durable, then visible, then acknowledged: see [`Recorder::run`]. It also keeps the clock,
//! because a step of the wall clock has to meet the table at one moment.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Now};
use crate::limits::{COMMIT_EVENTS_MAX, RECORDER_LINES_MAX, RECORDER_QUEUE_MAX};
use crate::readiness::Readiness;
use crate::store::{Event, Store, StoreError};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::lengths::Lengths;
use crate::vote::table::{CooldownTable, Cooling};
use crate::vote::time::Cooldown;

pub mod batch;
pub mod command;
pub mod counters;
pub mod follower;
pub mod gone;
pub mod live_state;
mod opening;
mod patience;
pub mod removal;
mod tending;
mod timekeeping;
mod watched;

use batch::{Batch, Changes};
use command::{Command, Reply};
use gone::CancelledVotes;
use live_state::LiveState;
use patience::Patience;
use removal::Removals;
use timekeeping::Jump;

/// How often the recorder looks at the clock and sweeps, in milliseconds.
const TICK_MS: u64 = 50;
/// Shards swept at a tick: the whole table in some 6 s.
const SWEEP_SHARDS_PER_TICK: usize = 8;
/// Expired rows dropped from the store at a tick.
const DROP_ROWS_PER_TICK: usize = 8_192;
/// A full disk may have no room for dropping so many at once. Then fewer are tried, but at least this many.
const DROP_ROWS_MIN: usize = 64;
/// How often the store and its place are looked after, in milliseconds.
const TEND_MS: u64 = 500;
/// After a takeover that failed, the process that had the store may still be ending: opening it is tried for so
/// long, in milliseconds.
const REOPEN_PATIENCE_MS: u64 = 5_000;
/// The pause between two of those tries, in milliseconds.
const REOPEN_PAUSE_MS: u64 = 10;

/// Opens the store, on the recorder's thread: it may take a while, and clients are answered meanwhile.
/// Called again after a takeover that failed, when the store has come back.
pub type OpenStore = Box<dyn FnMut() -> Result<Box<dyn Store>, StoreError> + Send>;

/// Called with the answer, on the recorder's thread.
pub type Respond = Box<dyn FnOnce(Reply) + Send>;

/// What became of a commit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitOutcome {
    Yes,
    No,
    /// It failed at its sync or after it: the events may be on the disk.
    Perhaps,
}

struct Request {
    command: Command,
    respond: Respond,
    /// Freed when the request is taken out of the queue.
    _place: QueuePlace,
}

/// The room that a waiting command takes, in lines. The number of commands says little: one may hold a single
/// vote or some thousand, and it waits on when its client has gone.
struct QueuePlace {
    lines: usize,
    waiting: Arc<AtomicUsize>,
}

impl Drop for QueuePlace {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.lines, Ordering::Relaxed);
    }
}

/// Where commands go. Cheap to clone; the recorder ends when the last one is dropped.
#[derive(Clone)]
pub struct RecorderHandle {
    requests: SyncSender<Request>,
    /// Lines of all commands that wait.
    waiting: Arc<AtomicUsize>,
}

/// The recorder has too much to do, or is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overloaded;

impl RecorderHandle {
    fn new() -> (Self, Receiver<Request>) {
        let (sender, requests) = sync_channel(RECORDER_QUEUE_MAX);
        (Self { requests: sender, waiting: Arc::default() }, requests)
    }

    /// Asks for `command`; never waits.
    ///
    /// # Errors
    /// [`Overloaded`]: the command was not taken and `respond` will not be called.
    pub fn submit(&self, command: Command, respond: Respond) -> Result<(), Overloaded> {
        let lines = command.lines();
        let place = QueuePlace { lines, waiting: Arc::clone(&self.waiting) };
        // Where the command is refused, dropping `place` gives its lines back.
        if self.waiting.fetch_add(lines, Ordering::Relaxed) + lines > RECORDER_LINES_MAX {
            return Err(Overloaded);
        }
        match self.requests.try_send(Request { command, respond, _place: place }) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Overloaded),
        }
    }
}

/// The state and its store.
pub struct Recorder {
    requests: Receiver<Request>,
    live: LiveState,
    open: OpenStore,
    /// `None` until it is opened, and while another process has it.
    store: Option<Box<dyn Store>>,
    clock: Clock,
    cooldown: Cooldown,
    readiness: Readiness,
    /// Whether a clock that is behind the store is taken as it is.
    accepts_clock: bool,
    /// For how long votes are kept, in table and store alike.
    lengths: Lengths,
    jump: Option<Jump>,
    /// When the store last noted the time, by the monotonic clock.
    noted_at_ms: u64,
    next_tick_ms: u64,
    /// Votes that were cancelled or removed lately.
    gone: CancelledVotes,
    /// Changes that the table has and the store has not: they go with the next commit.
    owed: Vec<Event>,
    /// When to try again a store that takes no changes.
    patience: Patience,
    /// When to try again to drop expired votes: a full disk may refuse that and still take votes, or the other
    /// way round.
    drop_patience: Patience,
    /// Votes of servers that were struck off, which go in parts.
    removals: Removals,
    has_more_to_remove: bool,
    /// Whether the store's file is no longer at its path.
    is_store_gone: bool,
    /// Expired rows that are dropped at the next tick.
    drop_rows: usize,
    next_tend_ms: u64,
}

impl Recorder {
    /// A recorder with an empty state, and no store until [`Recorder::load`].
    #[must_use]
    pub fn new(clock: Clock, cooldown: Cooldown, readiness: Readiness, open: OpenStore) -> (Self, RecorderHandle) {
        let (handle, requests) = RecorderHandle::new();
        let recorder = Self {
            requests,
            live: LiveState::default(),
            open,
            store: None,
            clock,
            cooldown,
            readiness,
            accepts_clock: false,
            lengths: Lengths::of(cooldown),
            jump: None,
            noted_at_ms: 0,
            next_tick_ms: 0,
            gone: CancelledVotes::default(),
            owed: Vec::new(),
            patience: Patience::default(),
            drop_patience: Patience::default(),
            removals: Removals::default(),
            has_more_to_remove: false,
            is_store_gone: false,
            drop_rows: DROP_ROWS_PER_TICK,
            next_tend_ms: 0,
        };
        (recorder, handle)
    }

    /// Tells IPv6 voters apart by so many bits. To be said before anybody views the table.
    pub fn set_ipv6_prefix(&mut self, prefix: Ipv6Prefix) {
        self.live.table = CooldownTable::with_prefix(prefix);
    }

    /// Takes the clock as it is, where a start finds it behind the store.
    pub const fn accept_clock(&mut self) {
        self.accepts_clock = true;
    }

    /// What is viewed and counted.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
    }

    /// Opens the store again, after [`Recorder::run`] has closed it. The state in memory stays as it is: nobody
    /// else has recorded anything meanwhile.
    ///
    /// # Errors
    /// Where it cannot be opened yet. The next commit tries again.
    pub fn reopen(&mut self) -> Result<(), StoreError> {
        let until_ms = self.clock.now().monotonic_ms + REOPEN_PATIENCE_MS;
        loop {
            match self.store().map(drop) {
                Ok(()) => return Ok(()),
                Err(StoreError::InUse(_)) if self.clock.now().monotonic_ms < until_ms => {
                    thread::sleep(Duration::from_millis(REOPEN_PAUSE_MS));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// A new handle, so that [`Recorder::run`] can be called again after every handle was dropped.
    pub fn handle(&mut self) -> RecorderHandle {
        let (handle, requests) = RecorderHandle::new();
        self.requests = requests;
        handle
    }

    /// The store, opened if it is not, and told the time that goes into the next commit.
    fn store(&mut self) -> Result<&mut dyn Store, StoreError> {
        let store = match &mut self.store {
            Some(store) => store,
            none => none.insert((self.open)()?),
        };
        store.keep(self.clock.wall_ms(), &self.lengths);
        Ok(&mut **store)
    }

    /// Works until every handle is dropped, and closes the store. A round, in this order and why:
    ///
    /// 1. wait for the first who asks, or for a tick;
    /// 2. keep the clock: what follows happens at one moment;
    /// 3. check what waits by now, each command against the state and against those before it: one
    ///    commit carries all of it;
    /// 4. commit: durable before anybody sees it;
    /// 5. apply: visible before anybody is told, whoever waits for the vote included;
    /// 6. answer;
    /// 7. sweep a little, when nobody waits on it any more;
    /// 8. take away a part of what goes with a server that was struck off.
    pub fn run(&mut self) {
        while let Some(first) = self.wait() {
            self.keep_clock();
            let waiting = first.into_iter().chain(self.requests.try_iter());
            let (mut changes, replies) = self.check(waiting.map(|Request { command, respond, .. }| (command, respond)));
            self.live.stage(&changes.events, self.cooldown, self.clock.now().wall);
            let kept = self.commit(std::mem::take(&mut changes.events));
            if kept == CommitOutcome::Yes {
                self.apply(changes);
            }
            self.live.watch.settle(kept == CommitOutcome::Yes);
            self.answer(replies, kept);
            self.sweep_when_due();
            self.has_more_to_remove = self.remove_part();
        }
        self.note_time();
        // Looks once more whether the file is still at its path: a successor opens whatever it finds there.
        self.tend(self.clock.now());
        self.store = None;
    }

    /// The first request, `Some(None)` after a tick without one, `None` at the end.
    fn wait(&self) -> Option<Option<Request>> {
        let until_tick_ms =
            if self.has_more_to_remove { 0 } else { self.next_tick_ms.saturating_sub(self.clock.now().monotonic_ms) };
        match self.requests.recv_timeout(Duration::from_millis(until_tick_ms)) {
            Ok(first) => {
                // Who is about to send a command can do so first: sixty votes in one commit cost little more than one.
                thread::yield_now();
                Some(Some(first))
            }
            Err(RecvTimeoutError::Timeout) => Some(None),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    /// What commands change, of as many as one commit has room for, and what each is answered.
    fn check(&self, asked: impl Iterator<Item = (Command, Respond)>) -> (Changes, Vec<(Respond, Reply)>) {
        let mut batch = self.batch();
        let mut replies = Vec::new();
        for (command, respond) in asked {
            replies.push((respond, batch.check(command)));
            if batch.events_len() >= COMMIT_EVENTS_MAX {
                break;
            }
        }
        (batch.into_changes(), replies)
    }

    /// An empty batch on top of the state of this moment.
    fn batch(&self) -> Batch<'_> {
        let (now, servers) = (self.clock.now().wall, self.live.directory.snapshot());
        Batch::new(&self.live.table, servers, &self.gone, &self.removals, self.cooldown, now)
    }

    /// Commits what is owed together with `events`, all or nothing, and says whether that is durable now.
    fn commit(&mut self, events: Vec<Event>) -> CommitOutcome {
        if events.is_empty() && self.owed.is_empty() {
            return CommitOutcome::Yes;
        }
        let start = self.clock.now();
        if self.is_store_gone || !self.may_try(start) {
            return CommitOutcome::No;
        }
        let owed = self.owed.len();
        self.owed.extend(events);
        let events = std::mem::take(&mut self.owed);
        let committed = self.store().and_then(|store| store.commit(&events));
        self.owed = events;
        self.note_commit(&committed, start);
        match committed {
            Ok(()) => {
                self.noted_at_ms = start.monotonic_ms;
                self.live.counters.commit_us.record(self.clock.now().monotonic_us - start.monotonic_us);
                self.live.counters.commit_events.record(self.owed.len() as u64);
                self.owed.clear();
                return CommitOutcome::Yes;
            }
            Err(_) => self.owed.truncate(owed),
        }
        match committed {
            Err(StoreError::InDoubt(_)) => CommitOutcome::Perhaps,
            _ => CommitOutcome::No,
        }
    }

    /// Shows what is durable.
    fn apply(&mut self, changes: Changes) {
        let Changes { events: _, pairs, servers, gone, struck } = changes;
        self.gone.extend(gone);
        if let Some(servers) = servers {
            self.live.publish(servers);
        }
        for (pair, held) in &pairs {
            match held {
                Some(Cooling { pair, expires_at }) => self.live.table.insert(*pair, *expires_at),
                None => {
                    self.live.table.remove(*pair);
                }
            }
        }
        // Behind all: who is told of one address of a vote may ask for the others.
        pairs.into_values().flatten().for_each(|held| self.live.tell(held.pair));
        self.note_struck(struck);
    }

    fn answer(&self, replies: Vec<(Respond, Reply)>, kept: CommitOutcome) {
        for (respond, reply) in replies {
            self.live.counters.count(&reply, kept == CommitOutcome::Yes);
            respond(match kept {
                CommitOutcome::Yes => reply,
                CommitOutcome::Perhaps => Reply::StoreSilent,
                CommitOutcome::No => Reply::StoreUnavailable,
            });
        }
    }

    fn sweep_when_due(&mut self) {
        let now = self.clock.now();
        if now.monotonic_ms < self.next_tick_ms {
            return;
        }
        self.next_tick_ms = now.monotonic_ms + TICK_MS;
        self.sweep(now);
        self.live.counters.sweep_us.add(self.clock.since_us(now));
    }

    fn sweep(&mut self, now: Now) {
        let is_held = self.is_held(now);
        if !is_held {
            let (lengths, cooldown) = (&self.lengths, self.cooldown);
            let is_over = |expires_at| lengths.is_over(cooldown.voted_at(expires_at), now.wall);
            self.live.counters.swept.add(self.live.table.sweep_if(SWEEP_SHARDS_PER_TICK, is_over) as u64);
        }
        self.gone.prune(now.wall, self.cooldown);
        self.live.counters.store_bytes.set(self.store.as_ref().map_or(0, |store| store.size_bytes()));
        if now.monotonic_ms >= self.next_tend_ms {
            self.next_tend_ms = now.monotonic_ms + TEND_MS;
            self.tend(now);
        }
        self.note_time_when_due(now);
        if !is_held {
            self.drop_expired(now);
        }
    }

    fn drop_expired(&mut self, now: Now) {
        let store = &self.store;
        if self.is_store_gone
            || !self.drop_patience.may_try(now, || store.as_ref().is_none_or(|store| store.has_more_room()))
        {
            return;
        }
        let (over, rows_max) = (self.lengths.over(now.wall).collect::<Vec<_>>(), self.drop_rows);
        let dropped =
            self.store().and_then(|store| over.iter().map(|(from, to)| store.drop_cast(*from, *to, rows_max)).sum());
        // Where nothing was to drop, nothing was written: that is no sign that the store works.
        if matches!(dropped, Ok(0)) {
            return;
        }
        let was_failing = self.is_store_failing();
        self.drop_patience.note(&dropped, now, self.clock.now());
        match &dropped {
            Ok(rows) => {
                self.live.counters.dropped.add(*rows as u64);
                self.drop_rows = (2 * rows_max).min(DROP_ROWS_PER_TICK);
                self.patience.try_now();
            }
            // Fewer rows change fewer pages, for which there may be room.
            Err(_) => self.drop_rows = (rows_max / 4).max(DROP_ROWS_MIN),
        }
        self.say_store(was_failing, dropped.as_ref().err(), "expired votes stay on disk");
    }
}

#[cfg(test)]
mod tests {
    use super::{COMMIT_EVENTS_MAX, Overloaded, RECORDER_LINES_MAX, RecorderHandle};
    use crate::recorder::command::{Command, Mode, ServerName, Vote};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;

    /// Regression: commands were counted, not what they hold. Clients that sent batches and went away left
    /// 65,536 of them behind, each with thousands of lines, where the store was slow.
    #[test]
    fn so_many_lines_wait_and_no_more() {
        let (handle, requests) = RecorderHandle::new();
        let vote =
            Vote { server: ServerName::Id(ServerId(1)), voter: VoterAddress::V4(Ipv4(1)).into(), voted_at: None };
        let submit = || {
            let votes = vec![vote.clone(); COMMIT_EVENTS_MAX];
            handle.submit(Command::Votes(votes, Mode::Record), Box::new(drop))
        };
        for _ in 0..RECORDER_LINES_MAX / COMMIT_EVENTS_MAX {
            assert_eq!(submit(), Ok(()));
        }
        assert_eq!(submit(), Err(Overloaded));
        drop(requests.recv());
        assert_eq!(submit(), Ok(()));
        assert_eq!(submit(), Err(Overloaded));
    }
}
