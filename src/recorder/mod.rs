//! The only writer. One thread owns the table, the directory and the store; everybody else asks.
//!
//! Durable, then visible, then acknowledged: see [`Recorder::step`]. It also keeps the clock,
//! because a step of the wall clock has to meet the table at one moment.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Now};
use crate::limits::COMMIT_EVENTS_MAX;
use crate::readiness::Readiness;
use crate::store::{Event, Kept, Store, StoreError};
use crate::vote::settings::Settings;
use crate::vote::table::{Cooling, SHARDS};
use crate::vote::time::{Cooldown, UnixSeconds};

mod cancelled;
pub mod command;
pub mod counters;
mod cut;
mod draft;
pub mod live_state;
mod opening;
mod patience;
pub mod queue;
mod removal;
pub mod shared;
mod tending;
mod timekeeping;
mod watched;

use cancelled::CancelledVotes;
use command::{Command, Reply};
use cut::CutVotes;
use draft::{Changes, Draft};
use live_state::LiveState;
use opening::LoadPhase;
use patience::Patience;
use queue::Request;
pub use queue::{Overloaded, RecorderHandle, Respond};
use removal::Removals;
use timekeeping::ProvisionalStep;

/// How often the recorder looks at the clock and sweeps, in milliseconds.
pub const TICK_MS: u64 = 50;
/// Shards swept at a tick: the whole table in some 6 s.
pub const SWEEP_SHARDS_PER_TICK: usize = 8;
/// Expired rows dropped from the store at a tick.
const DROP_ROWS_PER_TICK: usize = 8_192;
/// A full disk may have no room for dropping so many at once. Then fewer are tried, but at least this many.
const DROP_ROWS_MIN: usize = 64;
/// How often the store and its path are looked after, in milliseconds.
const TEND_MS: u64 = 500;

/// Opens the store, on the recorder's thread: it may take a while, and clients are answered meanwhile.
/// Called again where the store could not be opened or read.
pub type OpenStore = Box<dyn FnMut() -> Result<Box<dyn Store>, StoreError> + Send>;

/// What a start takes as it is, where it would be refused or wait otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepts {
    /// A clock that is behind the store.
    pub clock: bool,
    /// The settings of this start, for good, where the store was made with others.
    pub settings: bool,
}

/// The state and its store.
pub struct Recorder {
    requests: Receiver<Request>,
    live: LiveState,
    open: OpenStore,
    /// `None` once the state is loaded.
    start: Option<LoadPhase>,
    /// Recorded before the service is ready.
    seed: Vec<Command>,
    /// `None` until the state is loaded.
    store: Option<Box<dyn Store>>,
    clock: Clock,
    cooldown: Cooldown,
    readiness: Readiness,
    accepts: Accepts,
    /// What the rows of the store are kept by: of this start, once a change has been committed.
    kept_by: Settings,
    /// A step of the clock that may be a mistake.
    provisional: Option<ProvisionalStep>,
    /// Cooldowns that a step back has cut.
    cut: CutVotes,
    /// Rows of cooldowns that have ended by then have to go before anything else is written.
    owed_drop: Option<UnixSeconds>,
    /// When the store last noted the time, by the monotonic clock.
    noted_at_ms: u64,
    next_tick_ms: u64,
    /// Votes that were cancelled or removed lately.
    cancelled: CancelledVotes,
    /// Changes that the table has and the store has not: they go with the next commit.
    owed: Vec<Event>,
    /// When to try again a store that takes no changes.
    patience: Patience,
    /// When to try again to drop expired votes: a full disk may refuse that and still take votes, or the other
    /// way round.
    drop_patience: Patience,
    /// Votes of removed servers, which go in parts.
    removals: Removals,
    /// Expired rows that are dropped at the next tick.
    drop_rows: usize,
    next_tend_ms: u64,
}

impl Recorder {
    /// A recorder with an empty state, and no store until [`Recorder::load`].
    #[must_use]
    pub fn new(
        clock: Clock,
        settings: Settings,
        accepts: Accepts,
        readiness: Readiness,
        open: OpenStore,
    ) -> (Self, RecorderHandle) {
        let (handle, requests) = RecorderHandle::new();
        let recorder = Self {
            requests,
            live: LiveState::new(settings.ipv6_prefix),
            open,
            start: Some(LoadPhase::default()),
            seed: Vec::new(),
            store: None,
            clock,
            cooldown: settings.cooldown,
            readiness,
            accepts,
            kept_by: settings,
            provisional: None,
            cut: CutVotes::default(),
            owed_drop: None,
            noted_at_ms: 0,
            next_tick_ms: 0,
            cancelled: CancelledVotes::default(),
            owed: Vec::new(),
            patience: Patience::default(),
            drop_patience: Patience::default(),
            removals: Removals::default(),
            drop_rows: DROP_ROWS_PER_TICK,
            next_tend_ms: 0,
        };
        (recorder, handle)
    }

    fn settings(&self) -> Settings {
        Settings { cooldown: self.cooldown, ipv6_prefix: self.live.table.view().prefix() }
    }

    /// What is viewed and counted.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
    }

    /// The store, written anew if it is void and without the rows that have to go, and what is kept in it besides.
    fn store(&mut self) -> Result<(&mut dyn Store, Kept), StoreError> {
        self.cut.pass(self.clock.now().wall);
        let kept = Kept {
            shown_ms: self.clock.wall_ms(),
            settled_ms: self.settled_ms(),
            settings: self.kept_by,
            cuts: self.cut.steps().to_vec(),
        };
        let Some(store) = &mut self.store else { return Err(StoreError::Unavailable("it is not open".to_owned())) };
        if store.is_void() {
            store.renew(&mut self.live.rows(self.cooldown, &self.cut, &self.cancelled), &kept)?;
            let (servers, entries) = (self.live.directory.snapshot().len(), self.live.table.view().len());
            log::warn!(
                "the store was written anew from memory, with {servers} servers and up to {entries} votes; those that a step of the clock has ended or cut in the last 10 minutes are among them"
            );
        }
        if let Some(ended_by) = self.owed_drop {
            drop_ended(&mut **store, &kept, ended_by, usize::MAX)?;
            self.owed_drop = None;
        }
        Ok((&mut **store, kept))
    }

    /// Works until the state is loaded, and records `seed`.
    ///
    /// # Errors
    /// See [`Recorder::step`].
    pub fn load(&mut self, seed: Vec<Command>) -> Result<(), StoreError> {
        self.seed = seed;
        let mut call_at_ms = 0;
        while self.start.is_some() {
            let Some(asked) = self.wait(call_at_ms) else { break };
            call_at_ms = self.step(asked)?;
        }
        Ok(())
    }

    /// Works until every handle is dropped, and closes the store.
    pub fn run(mut self) {
        let mut call_at_ms = 0;
        while let Some(asked) = self.wait(call_at_ms) {
            // Once the state is loaded, no step fails.
            call_at_ms = self.step(asked).unwrap_or(u64::MAX);
        }
        self.close();
    }

    /// The commands that wait, as many as one commit has room for. Waits for the first until `until_ms` of the
    /// monotonic clock. `None` once every handle is dropped.
    fn wait(&self, until_ms: u64) -> Option<Vec<(Command, Respond)>> {
        let pause_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
        let first = match self.requests.recv_timeout(Duration::from_millis(pause_ms)) {
            Ok(first) => {
                // Another client may be about to send a command: sixty votes in one commit cost little more than one.
                thread::yield_now();
                first
            }
            Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
            Err(RecvTimeoutError::Disconnected) => return None,
        };
        let mut lines = 0;
        let mut asked = Vec::new();
        let mut next = Some(first);
        while let Some(Request { command, respond, .. }) = next {
            lines += command.lines();
            asked.push((command, respond));
            next = if lines < COMMIT_EVENTS_MAX { self.requests.try_recv().ok() } else { None };
        }
        Some(asked)
    }

    /// Does what is due by the clock, and carries out what is `asked`: each command is answered through its
    /// [`Respond`] before this returns. Gives the time of the monotonic clock, in milliseconds, at which it wants
    /// to be called again; a command may be brought earlier. It never waits: all that takes time is the store.
    ///
    /// Until the state is loaded, each step goes on with the start, and commands are answered
    /// [`Reply::StoreUnavailable`]. From then on a step is a round, in this order and why:
    ///
    /// 1. keep the clock: what follows happens at one moment;
    /// 2. check what is asked, each command against the state and against those before it: one commit carries
    ///    all of it;
    /// 3. commit: durable before anybody sees it;
    /// 4. apply: visible before anybody is told, the requests that wait for the vote included;
    /// 5. answer;
    /// 6. sweep a little, when nobody waits on it any more;
    /// 7. take away a part of the votes of removed servers.
    ///
    /// # Errors
    /// Only before the state is loaded: the start is refused, and no further step is to be made.
    /// [`StoreError::InUse`] at the first try: an operator that starts a second process on one store has to be told.
    pub fn step(&mut self, asked: Vec<(Command, Respond)>) -> Result<u64, StoreError> {
        if let Some(start) = self.start.take() {
            self.start = self.go_on(start)?;
            if let Some(start) = &self.start {
                asked.into_iter().for_each(|(_, respond)| respond(Reply::StoreUnavailable));
                return Ok(start.next_ms());
            }
        }
        self.keep_clock();
        let (changes, replies) = self.check(asked);
        self.round(changes, replies);
        self.sweep_when_due();
        Ok(if self.remove_part() { 0 } else { self.next_tick_ms })
    }

    /// Commits changes that were checked, shows them, and answers; whether they are durable.
    fn round(&mut self, mut changes: Changes, replies: Vec<(Respond, Reply)>) -> bool {
        let (seen, now) = (self.live.seen(&changes.events, self.cooldown), self.clock.now().wall);
        let outcome = self.commit(std::mem::take(&mut changes.events));
        let is_durable = outcome.is_ok();
        if is_durable {
            self.apply(changes);
            seen.into_iter().for_each(|seen| self.live.watch.note(now, seen));
        }
        self.answer(replies, &outcome);
        is_durable
    }

    /// Closes the store, with the time in it. Where the state is not loaded, it was not told any.
    pub fn close(mut self) {
        if self.start.is_none() {
            self.note_time();
        }
    }

    /// What commands change, and what each is answered.
    fn check(&self, asked: Vec<(Command, Respond)>) -> (Changes, Vec<(Respond, Reply)>) {
        let mut draft = self.draft();
        let replies = asked.into_iter().map(|(command, respond)| (respond, draft.check(command))).collect();
        (draft.changes, replies)
    }

    /// An empty draft on top of the state of this moment.
    fn draft(&self) -> Draft<'_> {
        Draft {
            table: &self.live.table,
            servers: self.live.directory.snapshot(),
            cooldown: self.cooldown,
            now: self.clock.now().wall,
            cancelled_before: &self.cancelled,
            removals: &self.removals,
            cut: &self.cut,
            changes: Changes::default(),
        }
    }

    /// Commits what is owed together with `events`, all or nothing. Where that is not durable now, with the reply to all
    /// that it carried.
    fn commit(&mut self, events: Vec<Event>) -> Result<(), Reply> {
        if events.is_empty() && self.owed.is_empty() {
            return Ok(());
        }
        if self.is_store_gone() || !self.may_try(self.clock.now()) {
            return Err(Reply::StoreUnavailable);
        }
        self.write(events)
    }

    /// Writes what is owed, `events`, the time and the settings of this start in one commit.
    fn write(&mut self, events: Vec<Event>) -> Result<(), Reply> {
        let (start, settings) = (self.clock.now(), self.settings());
        let owed = self.owed.len();
        self.owed.extend(events);
        let events = std::mem::take(&mut self.owed);
        let committed = self.store().and_then(|(store, kept)| store.commit(&events, &Kept { settings, ..kept }));
        self.owed = events;
        self.note_commit(&committed, start);
        if let Err(error) = committed {
            self.owed.truncate(owed);
            // It failed at its sync or after it: the events may be on the disk.
            let is_in_doubt = matches!(error, StoreError::InDoubt(_));
            return Err(if is_in_doubt { Reply::StoreSilent } else { Reply::StoreUnavailable });
        }
        self.kept_by = settings;
        self.cut.end_steps();
        self.noted_at_ms = start.monotonic_ms;
        if !self.owed.is_empty() {
            self.live.counters.commit_us.record(self.clock.now().monotonic_us - start.monotonic_us);
            self.live.counters.commit_events.record(self.owed.len() as u64);
        }
        self.owed.clear();
        Ok(())
    }

    /// Shows what is durable.
    fn apply(&mut self, changes: Changes) {
        let Changes { events: _, pairs, servers, cancelled, removed } = changes;
        self.cancelled.extend(cancelled);
        pairs.keys().for_each(|pair| self.cut.forget(*pair));
        // Before the directory: a server that is listed again has none of its earlier votes, whatever comes after.
        for (pair, _) in pairs.iter().filter(|(pair, held)| held.is_none() || removed.contains_key(&pair.server)) {
            self.live.table.remove(*pair);
        }
        if let Some(servers) = servers {
            self.live.publish(servers);
        }
        for Cooling { pair, expires_at } in pairs.values().flatten() {
            self.live.table.insert(*pair, *expires_at);
        }
        // Last: a client that is told of one address of a vote may ask for the others.
        pairs.into_values().flatten().for_each(|held| self.live.tell(held.pair));
        self.note_removed_servers(removed);
    }

    fn answer(&self, replies: Vec<(Respond, Reply)>, outcome: &Result<(), Reply>) {
        for (respond, reply) in replies {
            self.live.counters.count(&reply, outcome.is_ok());
            respond(outcome.clone().err().unwrap_or(reply));
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
        let is_full = self.store.as_ref().is_some_and(|store| !store.has_more_room());
        // On a full disk ended votes may leave at once.
        let over_by = if is_full { now.wall } else { self.over_by() };
        let swept = self.live.table.sweep(over_by, SWEEP_SHARDS_PER_TICK);
        self.live.counters.swept.add(swept as u64);
        self.cancelled.prune(now.wall, self.cooldown);
        self.live.counters.store_bytes.set(self.store.as_ref().map_or(0, |store| store.size_bytes()));
        if now.monotonic_ms >= self.next_tend_ms {
            self.next_tend_ms = now.monotonic_ms + TEND_MS;
            self.tend(now);
        }
        self.note_time_when_due(now);
        self.drop_over(now, over_by);
    }

    /// Drops rows of cooldowns that are over.
    fn drop_over(&mut self, now: Now, over_by: UnixSeconds) {
        let store = &self.store;
        if self.is_store_gone()
            || self.is_store_void()
            || !self.drop_patience.may_try(now, || store.as_ref().is_none_or(|store| store.has_more_room()))
        {
            return;
        }
        let rows_max = self.drop_rows;
        let dropped = self.store().and_then(|(store, kept)| drop_ended(store, &kept, over_by, rows_max));
        let was_failing = self.is_store_failing();
        match &dropped {
            // Nothing was written, which is no sign that the store works. But what could not be dropped has gone: a store
            // that is written anew leaves it out.
            Ok(0) => self.drop_patience.is_failing = false,
            Ok(rows) => {
                if over_by > self.over_by() {
                    // The clock may come back: what the table holds then has to be in the store.
                    self.live.table.sweep(over_by, SHARDS);
                }
                self.drop_patience.note(&dropped, now, self.clock.now());
                self.live.counters.dropped.add(*rows as u64);
                self.drop_rows = (2 * rows_max).min(DROP_ROWS_PER_TICK);
                self.patience.try_now();
            }
            // Fewer rows change fewer pages, for which there may be room.
            Err(_) => {
                self.drop_patience.note(&dropped, now, self.clock.now());
                self.drop_rows = (rows_max / 4).max(DROP_ROWS_MIN);
            }
        }
        self.say_dropped(was_failing, dropped.as_ref().err());
    }
}

/// Drops up to `rows_max` rows of cooldowns that have ended by then; how many.
fn drop_ended(store: &mut dyn Store, kept: &Kept, ended_by: UnixSeconds, rows_max: usize) -> Result<usize, StoreError> {
    match ended_by.0.checked_sub(kept.settings.cooldown.seconds()) {
        Some(until) => store.drop_cast(UnixSeconds(until), rows_max, kept),
        None => Ok(0),
    }
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod removal_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod time_tests;
