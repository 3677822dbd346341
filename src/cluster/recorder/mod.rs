//! The recorder of a node that shares its store with others. It owns what is shown and the machine that knows the store, and
//! gives the machine its inputs: answers of the two lines, commands of the control service, and time.
//!
//! ```text
//! control ─ command ─→ recorder ─ question → line ─→ store
//!                        │  ↑                  │
//!              table ←───┘  └──── answer ──────┘
//! ```
//!
//! The store decides, so a change is durable before it is here. Its caller is told once it is shown.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use crate::clock::Clock;
use crate::cluster::STANDSTILL_MAX_US;
use crate::cluster::identity;
use crate::cluster::line::{Learnt, LineAnswer, LineNews, LineOrder};
use crate::cluster::node::NodeMachine;
use crate::cluster::node::changes::{ChangeOutcome, WantedChange};
use crate::cluster::node::output::{NodeLine, Output};
use crate::cluster::offset;
use crate::cluster::primary::Look;
use crate::cluster::reason::{Reason, RebuildCause};
use crate::cluster::state::{self, FullState, RemovedVotes};
use crate::cluster::status::NodeStatus;
use crate::cluster::wire::answer::StoreReply;
use crate::readiness::Readiness;
use crate::recorder::Respond;
use crate::recorder::command::{Command, Reply};
use crate::recorder::live_state::LiveState;
use crate::recorder::queue::Request;
use crate::recorder::{SWEEP_SHARDS_PER_TICK, TICK_MS};
use crate::store::{Event, StoreError};
use crate::vote::directory::Snapshot;
use crate::vote::lines::Shown;
use crate::vote::settings::Settings;

mod commands;
mod line_end;
mod notes;
mod watched;

use commands::{Commands, DecidedCommand, Following};
pub(super) use line_end::LineEnd;
use notes::{MEANWHILE, WITHOUT_VOTES};
use watched::EventObserver;

/// How long a digest waits until what is shown is the log up to an entry, in milliseconds. Its caller compares more than once.
const DIGEST_WAIT_MS: u64 = 1_000;
/// Messages that are taken in one round.
const MESSAGES_MAX: usize = 256;
/// Changes that are asked of the store at once. The time for a change begins here: a store that is slow or far away has to make all of
/// them within that time.
const CHANGES_MAX: usize = 512;
/// The store is told that the node leaves within so long, in milliseconds, or not at all.
const LEAVE_MAX_MS: u64 = 500;
/// The store's clock moves by more than this only where it was set, in microseconds.
const STEP_US: u64 = 500_000;
/// The time of the service is not corrected by less than this, in microseconds.
const DRIFT_MIN_US: i64 = 1_000;

/// What the recorder is told.
pub(super) enum NodeMessage {
    Request(Request),
    News(LineNews),
    NoMoreRequests,
}

/// What a recorder is made of.
pub(super) struct RecorderParts {
    pub(super) messages: Receiver<NodeMessage>,
    pub(super) live: LiveState,
    pub(super) machine: NodeMachine,
    /// To the feed and to the votes.
    pub(super) lines: [LineEnd; 2],
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) readiness: Readiness,
    /// A node whose state is older than this, in milliseconds, is not ready.
    pub(super) stale_max_ms: Option<u64>,
    /// Where the id of the store is kept over restarts, and the id that was.
    pub(super) id_path: PathBuf,
    pub(super) kept_id: Result<Option<String>, StoreError>,
}

/// The state of a node, and what it knows of its store.
pub struct NodeRecorder {
    messages: Receiver<NodeMessage>,
    live: LiveState,
    machine: NodeMachine,
    lines: [LineEnd; 2],
    clock: Clock,
    settings: Settings,
    readiness: Readiness,
    status: Arc<NodeStatus>,
    stale_max_ms: Option<u64>,
    id_path: PathBuf,
    next_tick_ms: u64,
    commands: Commands,
    /// Digests that were asked for, and until when they wait for a moment in which what is shown is the log up to an entry.
    digests: Vec<(Respond, u64)>,
    /// Commands, and changes of the command that was taken last, that wait until fewer changes are on their way.
    queue: VecDeque<Request>,
    changes: VecDeque<(u64, WantedChange)>,
    /// The store's time minus the monotonic clock, in microseconds.
    offset_us: Option<i64>,
    /// The store's process that was seen last, and how many keys it had dropped by then; and whether it has dropped keys
    /// since the state was read.
    evicted: Option<(String, u64)>,
    is_eaten: bool,
    /// When the log was asked last, by the answer that came last, in microseconds of the monotonic clock.
    log_asked_us: u64,
    /// When the reading of the whole state began, in milliseconds of the monotonic clock.
    reading_since_ms: Option<u64>,
    /// Whether a state is shown, or why there is none.
    loaded: Option<Result<(), StoreError>>,
    /// No command comes any more.
    is_ending: bool,
}

impl NodeRecorder {
    /// One with an empty state.
    pub(super) fn new(parts: RecorderParts) -> Self {
        let RecorderParts {
            messages,
            live,
            machine,
            lines,
            clock,
            settings,
            readiness,
            stale_max_ms,
            id_path,
            kept_id,
        } = parts;
        let status = Arc::new(NodeStatus::default());
        let loaded = match kept_id {
            Ok(Some(store)) => {
                let _first = status.store.set(store);
                None
            }
            Ok(None) => None,
            Err(error) => Some(Err(error)),
        };
        Self {
            messages,
            live,
            machine,
            lines,
            clock,
            settings,
            readiness,
            status,
            stale_max_ms,
            id_path,
            next_tick_ms: 0,
            commands: Commands::default(),
            digests: Vec::new(),
            queue: VecDeque::new(),
            changes: VecDeque::new(),
            offset_us: None,
            evicted: None,
            is_eaten: false,
            log_asked_us: 0,
            reading_since_ms: None,
            loaded,
            is_ending: false,
        }
    }

    /// What is viewed and counted.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
    }

    /// Where the node stands.
    #[must_use]
    pub fn status(&self) -> Arc<NodeStatus> {
        Arc::clone(&self.status)
    }

    /// Waits for the first state, and says that the service is ready.
    ///
    /// # Errors
    /// Where the store cannot be used as this node was started.
    pub fn load(&mut self) -> Result<(), StoreError> {
        let start_ms = self.now_ms();
        while self.loaded.is_none() && !self.is_ending {
            self.round();
        }
        self.loaded.take().unwrap_or(Ok(()))?;
        self.live.counters.load_ms.set(self.now_ms() - start_ms);
        self.readiness.set_ready();
        Ok(())
    }

    /// Works until no command comes any more and every one is answered.
    pub fn run(mut self) {
        while !(self.is_ending && self.queue.is_empty() && self.commands.changes_len() == 0) {
            self.round();
        }
        self.live.end();
        let until_ms = self.now_ms() + LEAVE_MAX_MS;
        self.machine.leave(self.now_ms());
        self.carry_out();
        while !self.machine.has_left() && self.now_ms() < until_ms {
            self.round();
        }
        // A line that waits for an answer ends at once.
        self.lines.iter_mut().for_each(LineEnd::close);
    }

    /// Takes what has come, or time that has passed, and does what the machine makes of it.
    fn round(&mut self) {
        match self.messages.recv_timeout(self.pause()) {
            Ok(message) => {
                self.take(message);
                // What has come besides shares the rest of the round.
                for message in self.messages.try_iter().take(MESSAGES_MAX).collect::<Vec<_>>() {
                    self.take(message);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                self.machine.tick(self.now_ms());
                self.carry_out();
            }
            Err(RecvTimeoutError::Disconnected) => self.is_ending = true,
        }
        self.take_commands();
        self.tell_digests();
        self.show_standing();
        self.sweep();
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().monotonic_ms
    }

    fn pause(&self) -> Duration {
        let due_ms = self.next_tick_ms.min(self.machine.due_ms());
        Duration::from_millis(due_ms.saturating_sub(self.now_ms()))
    }

    fn take(&mut self, message: NodeMessage) {
        match message {
            NodeMessage::Request(Request { command: Command::Digest, respond, .. }) => {
                self.digests.push((respond, self.now_ms() + DIGEST_WAIT_MS));
            }
            NodeMessage::Request(request) => self.queue.push_back(request),
            NodeMessage::NoMoreRequests => self.is_ending = true,
            NodeMessage::News(LineNews { line, connection, what }) => {
                if self.lines[line as usize].connection == connection {
                    self.learn(line, what);
                    self.carry_out();
                }
            }
        }
    }

    fn learn(&mut self, line: NodeLine, what: Learnt) {
        let now_ms = self.now_ms();
        match what {
            Learnt::Connected(closer, host) => {
                let end = &mut self.lines[line as usize];
                (end.closer, end.host) = (Some(closer), Some(host));
                self.machine.connected(line, now_ms);
            }
            Learnt::Lost(error) => {
                self.note_lost(line, &error);
                self.lines[line as usize].close();
                self.machine.lost(line, now_ms);
            }
            Learnt::Progressed => self.machine.progressed(line, now_ms),
            Learnt::Looked(look) => self.look(look, now_ms),
            Learnt::Answered(answer) => self.answered(line, answer, now_ms),
        }
    }

    fn answered(&mut self, line: NodeLine, answered: LineAnswer, now_ms: u64) {
        let LineAnswer { answer, asked_us, answered_us, unconfirmed } = answered;
        if let Some(store_ms) = answer.now_ms {
            self.keep_clock(store_ms, asked_us, answered_us);
        }
        match &answer.reply {
            StoreReply::Head { last, .. } | StoreReply::Nodes { last, .. } => {
                self.status.head_n.set(last.n);
                self.status.round_trip_us.set(answered_us - asked_us);
            }
            StoreReply::Log(items) => {
                self.log_asked_us = asked_us;
                self.status.events.add(items.len() as u64);
            }
            StoreReply::Votes(votes) if !self.machine.is_loaded() => {
                self.readiness.add_loaded_rows(votes.len() as u64);
            }
            _ => {}
        }
        if let Some(caller) = unconfirmed.and_then(|bits| self.machine.caller(bits)) {
            self.commands.note_unconfirmed(caller);
            self.status.unconfirmed.add(1);
        }
        self.machine.answered(line, answer, now_ms);
    }

    /// What the primary says of itself: whether votes may be sent to it, and whether it has dropped anything.
    fn look(&mut self, look: Look, now_ms: u64) {
        let Look { barrier, run_id, evicted } = look;
        let before = self.evicted.replace((run_id, evicted));
        let (is_same, dropped_before) = match (&before, &self.evicted) {
            (Some((before_id, before)), Some((run_id, _))) => (before_id == run_id, *before),
            _ => (true, 0),
        };
        self.is_eaten |= is_same && evicted > dropped_before;
        if !is_same {
            // Nothing says what the process before has dropped in its last moments.
            self.machine.doubt(RebuildCause::History, now_ms);
        }
        self.status.barrier.note(barrier.as_ref(), now_ms, WITHOUT_VOTES);
        if barrier.is_none() && std::mem::take(&mut self.is_eaten) {
            // What it has dropped is still known to a node, and goes back once it drops no more.
            self.machine.doubt(RebuildCause::Eviction, now_ms);
        }
        self.machine.bar(barrier.map(|barrier| barrier.to_string()));
        if self.machine.is_following() {
            self.status.feed_reason.note(None, now_ms, MEANWHILE);
        }
    }

    /// The store's clock stamps votes, so the node answers by it. Where it goes back, votes that were over are not: the
    /// store is asked which.
    fn keep_clock(&mut self, store_ms: u64, asked_us: u64, answered_us: u64) {
        let us = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        let store_us = us(store_ms.saturating_mul(1_000));
        let offset_us = offset::estimate(self.offset_us, store_us, us(asked_us), us(answered_us));
        let is_first = self.offset_us.replace(offset_us).is_none();
        let drift_us = offset_us - self.clock.offset_us();
        if is_first || drift_us.abs() >= DRIFT_MIN_US {
            self.set_time(offset_us);
        }
        if drift_us < -STANDSTILL_MAX_US && self.machine.is_loaded() {
            self.machine.doubt(RebuildCause::Clock, self.now_ms());
        }
    }

    fn set_time(&mut self, offset_us: i64) {
        let (shown, monotonic_us) = (self.clock.shown(), self.clock.now().monotonic_us.cast_signed());
        let line_us = offset_us.saturating_add(monotonic_us);
        let moved_us = line_us - shown.at_us(monotonic_us);
        let followed = shown.follow(line_us, monotonic_us, STANDSTILL_MAX_US);
        self.clock.show(followed.unwrap_or(Shown::running(line_us, monotonic_us)));
        self.status.set_clock_offset(offset_us);
        // A clock that is waited for is no news.
        let is_waited_for = shown.is_still(monotonic_us) && followed.is_some();
        if !is_waited_for && moved_us.unsigned_abs() > STEP_US && self.readiness.is_loaded() {
            self.live.counters.clock_steps.add(1);
            let moved_ms = moved_us / 1_000;
            log::warn!("the store's clock moved by {moved_ms} ms; let chrony slew it instead of stepping it");
        }
    }

    /// Gives the machine the commands that wait, as long as there is room for their changes.
    fn take_commands(&mut self) {
        while self.machine.changes_len() < CHANGES_MAX {
            let now = self.clock.now();
            if let Some((number, change)) = self.changes.pop_front() {
                self.machine.change(number, change, now.monotonic_ms);
                self.carry_out();
            } else if let Some(request) = self.queue.pop_front() {
                let cooldowns = self.live.table.view();
                match self.commands.take(request, &cooldowns, now.wall, now.monotonic_us) {
                    Ok(changes) => self.changes.extend(changes),
                    Err(decided) => self.finish(decided),
                }
            } else {
                return;
            }
        }
    }

    /// Does what the machine wants done.
    fn carry_out(&mut self) {
        for output in self.machine.outputs() {
            match output {
                Output::Connect(line) => {
                    // Votes have to go to the machine that has the log.
                    let host = self.lines[NodeLine::Feed as usize].host.clone();
                    let end = &mut self.lines[line as usize];
                    end.connection += 1;
                    end.order(LineOrder::Connect(end.connection, host.filter(|_| line == NodeLine::Votes)));
                }
                Output::Close(line) => self.lines[line as usize].close(),
                Output::Ask(line, question) => {
                    let end = &self.lines[line as usize];
                    end.order(LineOrder::Ask(end.connection, question));
                }
                Output::Show(events) => self.change(&events),
                Output::Replace(state) => self.replace(*state),
                Output::Answer(caller, outcome) => self.decide(caller, outcome),
                Output::Keep(store) => self.keep(store),
                Output::Note(note) => self.note(note),
            }
        }
    }

    fn change(&mut self, events: &[Event]) {
        let now = self.clock.now().wall;
        let cooldown = self.settings.cooldown;
        let mut observer = EventObserver::new(&mut self.live, cooldown, now);
        let current = self.live.directory.snapshot();
        let mut servers = Cow::Borrowed(&*current);
        let mut removed = RemovedVotes::of(events, &self.live.table);
        for event in events {
            observer.comes(event, &removed, &self.live);
            state::apply(event, &mut self.live.table, &mut servers, &mut removed, cooldown);
        }
        if let Cow::Owned(next) = servers {
            self.live.publish(next);
        }
        let seen = observer.end(&self.live);
        seen.into_iter().for_each(|seen| self.live.watch.note(now, seen));
        events.iter().filter_map(state::voted).for_each(|pair| self.live.waiting.tell(pair));
    }

    /// Shows new servers before their votes, and takes old votes away before their servers: no request is told of a
    /// vote for a server that is not listed.
    fn replace(&mut self, mut state: FullState) {
        let servers = Snapshot::clone(&self.live.directory.snapshot());
        self.live.publish(std::mem::replace(&mut state.servers, servers));
        self.live.table.exchange(&mut state.table);
        self.loaded.get_or_insert(Ok(()));
        self.live.waiting.tell_where(|_| true);
    }

    fn decide(&mut self, caller: u64, outcome: ChangeOutcome) {
        let now_ms = self.now_ms();
        match &outcome {
            ChangeOutcome::Unavailable(why) => {
                // Votes wait for the feed, so the feed's trouble is the reason.
                let error = notes::refused(self.lines[NodeLine::Votes as usize].host.as_ref(), why);
                let is_own = matches!(error.reason(), Reason::Unsettled | Reason::Unreachable);
                if !(is_own && (self.status.feed_reason.get().is_some() || self.status.votes_reason.get().is_some())) {
                    self.status.votes_reason.note(Some(&error), now_ms, WITHOUT_VOTES);
                }
            }
            ChangeOutcome::Silent => {}
            ChangeOutcome::Decided(..) => self.status.votes_reason.note(None, now_ms, WITHOUT_VOTES),
        }
        match self.commands.decide(caller, outcome, self.settings.cooldown) {
            Some(Following::Change(number, change)) => self.changes.push_front((number, change)),
            Some(Following::End(decided)) => self.finish(decided),
            None => {}
        }
    }

    fn finish(&mut self, decided: DecidedCommand) {
        let DecidedCommand { reply, made, votes, taken_us, respond } = decided;
        let now = self.clock.now();
        if made > 0 {
            self.live.counters.commit_us.record(now.monotonic_us - taken_us);
            self.live.counters.commit_events.record(made);
        }
        match &reply {
            Reply::StoreUnavailable | Reply::StoreSilent => {
                self.live.counters.commit_failures.add(1);
                self.live.counters.count_unavailable(votes);
            }
            reply => self.live.count(reply, true, now.wall, self.settings.cooldown),
        }
        respond(reply);
    }

    fn keep(&self, store: String) {
        if let Err(why) = identity::keep(&self.id_path, &store) {
            log::warn!("cannot keep the store's id in {why}; a restart will follow any store");
        }
        let _first = self.status.store.set(store);
    }

    fn sweep(&mut self) {
        let now = self.clock.now();
        if now.monotonic_ms < self.next_tick_ms {
            return;
        }
        self.next_tick_ms = now.monotonic_ms + TICK_MS;
        self.live.tend(now.monotonic_ms);
        self.live.counters.swept.add(self.live.table.sweep(now.wall, SWEEP_SHARDS_PER_TICK) as u64);
    }
}
