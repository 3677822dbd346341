//! The recorder, the only writer. One thread owns the table, the directory and the store; other threads send it commands.
//!
//! Durable, then visible, then acknowledged: see [`Recorder::step`]. The recorder also keeps the clock, because a step
//! of the wall clock must meet the table at one moment.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::clock::{Clock, Now};
use crate::limits::{COMMIT_EVENTS_MAX, RENEWAL_SLICE_ROWS};
use crate::readiness::{Readiness, Work};
use crate::slices::Slices;
use crate::store::{Store, StoreError};
use crate::vote::hasher::TableHasher;
use crate::vote::id::ServerId;
use crate::vote::lines::{ClockReading, TimeLines};
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownTable, SHARDS};
use crate::vote::time::UnixSeconds;

pub mod command;
pub mod counters;
mod draft;
pub mod ended;
mod filling;
pub mod frequent;
mod health;
mod invariants;
pub mod live_state;
mod opening;
pub mod queue;
mod relisting;
pub mod shared;
mod spent;
mod timekeeping;
mod writing;

use command::{Command, GenerateToken, Reply, generate_token};
use draft::{Changes, Draft};
use health::{Retry, StoreHealth};
use invariants::StoreCheck;
use live_state::LiveState;
use opening::LoadPhase;
use queue::Request;
pub use queue::{Overloaded, RecorderHandle, Respond};
use relisting::Relisting;
use spent::SpentInstants;

/// How often the recorder looks at the clock and sweeps, in milliseconds.
pub const TICK_MS: u64 = 50;
/// Shards swept at a tick: the whole table in some 6 s.
pub const SWEEP_SHARDS_PER_TICK: usize = 8;
/// The most missed ticks that one sweep makes up for after a long round.
const TICKS_MADE_UP_MAX: u64 = 32;
/// Expired rows dropped from the store at a tick, and rows of an earlier listing taken away in one commit.
const ROWS_PER_PART: usize = 8_192;
/// How long after a start votes wait for the instants that an earlier process has spent, in milliseconds. These lie at
/// most 5 s ahead.
const SPENT_WAIT_MS: u64 = 6_000;
/// The pause between two checks of the store and its path, in milliseconds.
const TEND_MS: u64 = 500;

/// Opens the store on the recorder's thread: opening may take a while, and other threads answer clients meanwhile. The
/// recorder calls it again where the store could not be opened or read.
pub type OpenStore = Box<dyn FnMut() -> Result<Box<dyn Store>, StoreError> + Send>;

/// What an operator lets a start accept, where the start would otherwise be refused or wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accepts {
    /// The wall clock counts as certain, whatever time the store has noted.
    pub clock: bool,
    /// The store takes the settings of this start for good, even if it was made with others.
    pub settings: bool,
}

/// Every source of randomness, and the sizes of batches. A simulation sets them: it repeats itself, and the batches are small.
#[derive(Clone, Debug)]
pub struct Tuning {
    /// How the table finds its entries.
    pub hasher: TableHasher,
    /// Shards of each family of the table: a power of two, up to [`SHARDS`].
    pub shards: usize,
    /// How often the recorder looks at the clock and sweeps, in milliseconds.
    pub tick_ms: u64,
    /// Generates the token of a server that is listed without one, or gets a new one.
    pub generate_token: GenerateToken,
    /// Shards of the table swept at a tick.
    pub sweep_shards: usize,
    /// Votes and changes from which on a commit takes no further command. From this many rows on, a time that goes back
    /// has the store written anew.
    pub commit_events_max: usize,
    /// Expired rows dropped from the store at a tick, and rows of an earlier listing taken away in one commit.
    pub part_rows: usize,
    /// Votes that are sorted at once where the store is written anew.
    pub renewal_slice_rows: usize,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            hasher: TableHasher::random(),
            shards: SHARDS,
            tick_ms: TICK_MS,
            generate_token,
            sweep_shards: SWEEP_SHARDS_PER_TICK,
            commit_events_max: COMMIT_EVENTS_MAX,
            part_rows: ROWS_PER_PART,
            renewal_slice_rows: RENEWAL_SLICE_ROWS,
        }
    }
}

/// The state and its store.
pub struct Recorder {
    requests: Receiver<Request>,
    live: LiveState,
    open: OpenStore,
    /// `None` once the state is loaded.
    start: Option<LoadPhase>,
    /// Commands that are recorded before the service is ready.
    seed: Vec<Command>,
    /// `None` until the state is loaded.
    store: Option<Box<dyn Store>>,
    clock: Clock,
    /// The lines of time. Until the state is loaded, they know no store.
    lines: TimeLines,
    settings: Settings,
    readiness: Readiness,
    accepts: Accepts,
    tuning: Tuning,
    health: StoreHealth,
    /// When to retry dropping expired votes after a failure. A full disk may refuse that and still take votes, or the
    /// other way round.
    drop_retry: Option<Retry>,
    /// The number of expired rows to drop at the next tick.
    drop_rows: usize,
    /// Instants of votes that were taken away.
    spent: SpentInstants,
    /// When the load of the state began, by the monotonic clock.
    load_began_ms: u64,
    /// Unlisted servers, and until when they may have votes.
    removed: HashMap<ServerId, UnixSeconds>,
    /// Commands that list servers again; the first one is in work.
    relistings: VecDeque<Relisting>,
    /// When the store last noted the time, by the monotonic clock.
    noted_at_ms: u64,
    store_check: StoreCheck,
    next_tick_ms: u64,
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
        tuning: Tuning,
        open: OpenStore,
    ) -> (Self, RecorderHandle) {
        let (handle, requests) = RecorderHandle::new();
        let now_us = clock.now().monotonic_us.cast_signed();
        let reading = ClockReading { wall_us: clock.shown().at_us(now_us), monotonic_us: now_us };
        let table = CooldownTable::build(tuning.hasher.clone(), tuning.shards, settings.ipv6_prefix);
        let recorder = Self {
            requests,
            live: LiveState::new(table),
            open,
            start: Some(LoadPhase::default()),
            seed: Vec::new(),
            store: None,
            clock,
            lines: TimeLines::new(reading),
            settings,
            readiness,
            accepts,
            drop_rows: tuning.part_rows,
            tuning,
            health: StoreHealth::default(),
            drop_retry: None,
            spent: SpentInstants::default(),
            load_began_ms: 0,
            removed: HashMap::new(),
            relistings: VecDeque::new(),
            noted_at_ms: 0,
            store_check: StoreCheck::default(),
            next_tick_ms: 0,
            next_tend_ms: 0,
        };
        (recorder, handle)
    }

    /// The state that other threads read, and its counters.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
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

    /// The waiting commands, as many as one commit has room for. Waits for the first one until `until_ms` of the
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
        while let Some(Request { command, respond }) = next {
            lines += command.lines();
            asked.push((command, respond));
            next = if lines < self.tuning.commit_events_max { self.requests.try_recv().ok() } else { None };
        }
        Some(asked)
    }

    /// Does the work that is due, and carries out the `asked` commands. Each command is answered through its [`Respond`] before
    /// this returns, unless it lists a server again: that may wait. Gives the time of the next call, in milliseconds of the
    /// monotonic clock; a command may come earlier. A step never waits: only the store takes time.
    ///
    /// Until the state is loaded, each step continues the start, and commands are answered [`Reply::StoreUnavailable`].
    /// From then on a step is a round, in this order and for these reasons:
    ///
    /// 1. keep the time: what follows happens at one moment;
    /// 2. check the commands, each against the state and the commands before it: one commit carries all of them;
    /// 3. commit: durable before visible;
    /// 4. apply: visible before any answer, those to the requests that wait for the vote included;
    /// 5. answer;
    /// 6. sweep a little, once no client waits for it;
    /// 7. take away a part of the votes left of servers that are to be listed again.
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
        self.keep_time();
        let (changes, replies) = self.check(asked);
        self.round(changes, replies);
        self.sweep_when_due();
        let has_more = self.relist_part();
        self.check_invariants();
        Ok(if has_more { 0 } else { self.next_tick_ms })
    }

    /// Commits checked changes, shows them, and answers; gives whether they are durable.
    fn round(&mut self, mut changes: Changes, replies: Vec<(Respond, Reply)>) -> bool {
        let (events, spent) = (std::mem::take(&mut changes.events), std::mem::take(&mut changes.spent));
        let outcome = self.commit(&events, spent);
        let is_durable = outcome.is_ok();
        if is_durable {
            self.apply(changes);
        }
        self.answer(replies, &outcome);
        is_durable
    }

    /// Notes the time in the store, and closes it. If the state is not loaded, the time is not noted.
    pub fn close(mut self) {
        if self.start.is_none() {
            self.note_time();
        }
        self.live.end();
        for relisting in self.relistings.drain(..) {
            relisting.refuse();
        }
        if let Some(store) = &mut self.store {
            // This makes files beside the store again that were just deleted. The next start reports everything else.
            if let Err(error) = store.tend() {
                log::debug!("the store could not be looked after before its end: {error}");
            }
            log::info!("the store is closed: commit {}", store.commit_number());
        }
        self.readiness.begin(Work::Closing, self.clock.now().monotonic_ms);
        drop(self.store.take());
        self.readiness.end();
    }

    /// The changes of the commands, and the reply to each. A command that lists a server again may have to wait.
    fn check(&mut self, asked: Vec<(Command, Respond)>) -> (Changes, Vec<(Respond, Reply)>) {
        let is_watched = self.live.watch.look();
        let mut draft = self.draft(is_watched);
        let (mut replies, mut waiting) = (Vec::with_capacity(asked.len()), Vec::new());
        for (command, respond) in asked {
            match draft.check(command) {
                Ok(reply) => replies.push((respond, reply)),
                Err(command) => waiting.push(Relisting::new(command, respond)),
            }
        }
        let changes = draft.changes;
        self.relistings.extend(waiting);
        (changes, replies)
    }

    /// An empty draft on top of the state of this moment.
    fn draft(&self, is_watched: bool) -> Draft<'_> {
        Draft {
            table: &self.live.table,
            servers: self.live.directory.snapshot(),
            cooldown: self.settings.cooldown,
            now: self.clock.now().wall,
            certain: self.lines.certain(),
            spent: &self.spent,
            is_after_start: self.clock.now().monotonic_ms < self.load_began_ms + SPENT_WAIT_MS,
            removed: &self.removed,
            generate_token: self.tuning.generate_token,
            is_watched,
            changes: Changes::default(),
            slices: Slices::default(),
        }
    }

    /// Shows changes that are durable.
    fn apply(&mut self, changes: Changes) {
        self.note_removed(&changes);
        let Changes { pairs, servers, seen, removed, mut ended, .. } = changes;
        for pair in pairs.iter().filter(|(_, expires_at)| expires_at.is_none()).map(|(pair, _)| *pair) {
            self.live.table.remove(pair);
        }
        if let Some(servers) = servers {
            self.live.publish(servers);
        }
        let recorded: Vec<_> = pairs.into_iter().filter_map(|(pair, until)| Some((pair, until?))).collect();
        let mut slices = Slices::default();
        for (pair, expires_at) in &recorded {
            self.live.table.insert(*pair, *expires_at);
            slices.done(1);
        }
        // Last, because a client that is told of one address of a vote may ask for the others.
        for (pair, _) in &recorded {
            self.live.waiting.tell(*pair);
            slices.done(1);
        }
        let now = self.clock.now().wall;
        // The votes of removed servers stay in the table. One walk counts them, however many servers a commit removes.
        if !removed.is_empty() {
            ended.removed = self.live.table.view().count(|server| removed.contains(&server), now) as u64;
        }
        self.live.counters.end(ended);
        seen.into_iter().for_each(|seen| self.live.watch.note(now, seen));
    }

    fn answer(&mut self, replies: Vec<(Respond, Reply)>, outcome: &Result<(), Reply>) {
        let now = self.clock.now().wall;
        for (respond, reply) in replies {
            self.live.count(&reply, outcome.is_ok(), now, self.settings.cooldown);
            respond(outcome.clone().err().unwrap_or(reply));
        }
    }

    fn sweep_when_due(&mut self) {
        let now = self.clock.now();
        if now.monotonic_ms < self.next_tick_ms {
            return;
        }
        // A round may take many ticks. Votes that expired meanwhile would make the table grow.
        let ticks = 1 + ((now.monotonic_ms - self.next_tick_ms) / self.tuning.tick_ms).min(TICKS_MADE_UP_MAX);
        self.next_tick_ms = now.monotonic_ms + self.tuning.tick_ms;
        self.sweep(now, ticks as usize * self.tuning.sweep_shards);
        self.live.counters.sweep_us.add(self.clock.since_us(now));
    }

    fn sweep(&mut self, now: Now, shards: usize) {
        // Votes are forgotten by the certain line only.
        let mut slices = Slices::default();
        for _ in 0..shards.min(self.live.table.shards()) {
            let swept = self.live.table.sweep(self.lines.certain(), 1);
            self.live.counters.swept.add(swept as u64);
            slices.done(swept);
        }
        // By the time of the next note, which is older than `now` behind a long commit: a start shows that time again.
        self.spent.prune(self.lines.now());
        let [bytes, commit] =
            self.store.as_ref().map_or_else(Default::default, |store| [store.size_bytes(), store.commit_number()]);
        self.live.counters.store_bytes.set(bytes);
        self.live.counters.store_commit.set(commit);
        if now.monotonic_ms >= self.next_tend_ms {
            self.next_tend_ms = now.monotonic_ms + TEND_MS;
            self.prune_removed();
            self.live.tend(now.monotonic_ms);
            self.tend(now);
        }
        self.note_time_when_due(now);
        self.drop_ended(now);
    }
}

#[cfg(test)]
mod batch_tests;
#[cfg(test)]
mod opening_tests;
#[cfg(test)]
mod relisting_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod thread_tests;
#[cfg(test)]
mod time_tests;
