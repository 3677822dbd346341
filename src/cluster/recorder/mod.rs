//! The recorder of a node that shares its store with others. It owns the state that is shown and the machine that knows
//! the store. The machine's inputs are answers of the two lines, commands of the control service, and time.
//!
//! ```text
//! control ─ command ─→ recorder ─ question → line ─→ store
//!                        │  ↑                  │
//!              table ←───┘  └──── answer ──────┘
//! ```
//!
//! The store decides, so a change is durable before it is here. The recorder answers the caller once the change is shown.

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

/// The longest wait of a digest until the shown state is the log up to one entry, in milliseconds. The caller of a
/// digest compares more than once.
const DIGEST_WAIT_MS: u64 = 1_000;
/// The most messages in one round, besides the first one.
const MESSAGES_MAX: usize = 256;
/// The most changes that wait for the store. The time for a change begins with its start: a slow or distant store has to make all
/// of them within that time.
const CHANGES_MAX: usize = 512;
/// The longest wait for the store to learn that the node leaves, in milliseconds.
const LEAVE_MAX_MS: u64 = 500;
/// A step of the store's clock above this means that the clock was set, in microseconds.
const STEP_US: u64 = 500_000;
/// The smallest correction of the service's time, in microseconds.
const DRIFT_MIN_US: i64 = 1_000;

/// A message to the recorder.
pub(super) enum NodeMessage {
    Request(Request),
    News(LineNews),
    NoMoreRequests,
}

/// The parts of a recorder.
pub(super) struct RecorderParts {
    pub(super) messages: Receiver<NodeMessage>,
    pub(super) live: LiveState,
    pub(super) machine: NodeMachine,
    /// The ends of the feed's line and of the votes' line.
    pub(super) lines: [LineEnd; 2],
    pub(super) clock: Clock,
    pub(super) settings: Settings,
    pub(super) readiness: Readiness,
    /// The greatest age of the state of a node that is ready, in milliseconds.
    pub(super) stale_max_ms: Option<u64>,
    /// The file that keeps the store's id over restarts, and the id that it held.
    pub(super) id_path: PathBuf,
    pub(super) kept_id: Result<Option<String>, StoreError>,
}

/// The recorder: the state of a node, and its knowledge of its store.
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
    /// Questions for a digest, each with the end of its wait. Each waits until the shown state is the log up to
    /// one entry.
    digests: Vec<(Respond, u64)>,
    /// Commands, and changes of commands that were taken: they wait until fewer changes are on their way.
    queue: VecDeque<Request>,
    changes: VecDeque<(u64, WantedChange)>,
    /// The store's time minus the monotonic clock, in microseconds.
    offset_us: Option<i64>,
    /// The id of the store's process, and the number of keys that it had evicted, at the last look.
    evicted: Option<(String, u64)>,
    /// Whether evicted keys still have to lead to another reading of the state.
    is_eaten: bool,
    /// The time of the log's last answered question, in microseconds of the monotonic clock.
    log_asked_us: u64,
    /// The start of the reading of the whole state, in milliseconds of the monotonic clock.
    reading_since_ms: Option<u64>,
    /// Whether a state is shown, or why there is none.
    loaded: Option<Result<(), StoreError>>,
    /// Whether no command can come any more.
    is_ending: bool,
}

impl NodeRecorder {
    /// A recorder with an empty state.
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

    /// The shown state and the counters.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
    }

    /// The node's standing with its store.
    #[must_use]
    pub fn status(&self) -> Arc<NodeStatus> {
        Arc::clone(&self.status)
    }

    /// Waits for the first state, and marks the service as ready.
    ///
    /// # Errors
    /// If the store cannot be used with this node's settings.
    pub fn load(&mut self) -> Result<(), StoreError> {
        let start_ms = self.now_ms();
        while self.loaded.is_none() && !self.is_ending {
            self.round();
        }
        self.loaded.take().unwrap_or(Ok(()))?;
        self.live.counters.load_ms.set(self.now_ms() - start_ms);
        self.readiness.set_loaded();
        Ok(())
    }

    /// Runs until no command can come any more, and all are answered.
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
        // Closing ends a line that waits for an answer at once.
        self.lines.iter_mut().for_each(LineEnd::close);
    }

    /// Takes the messages that have come, or the passage of time, and carries out the machine's outputs.
    fn round(&mut self) {
        match self.messages.recv_timeout(self.pause()) {
            Ok(message) => {
                self.take(message);
                // Further messages share the rest of the round.
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
            NodeMessage::Request(Request { command: Command::Digest, respond }) => {
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
            Learnt::Connected(closer, host, process) => {
                let end = &mut self.lines[line as usize];
                (end.closer, end.host) = (Some(closer), Some(host));
                self.machine.connected(line, &process, now_ms);
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
            self.status.unconfirmed.add(u64::from(answer.reply.is_vote()));
        }
        if line == NodeLine::Votes && matches!(answer.reply, StoreReply::Head { .. }) {
            // Without votes, nothing else shows that the line works again.
            self.status.votes_reason.note_answer(now_ms);
        }
        self.machine.answered(line, answer, now_ms);
    }

    /// Takes the primary's report of itself: whether votes may be sent to it, and whether it has evicted keys.
    fn look(&mut self, look: Look, now_ms: u64) {
        let Look { barrier, run_id, evicted } = look;
        let before = self.evicted.replace((run_id, evicted));
        let (is_same, dropped_before) = match (&before, &self.evicted) {
            (Some((before_id, before)), Some((run_id, _))) => (before_id == run_id, *before),
            _ => (true, 0),
        };
        self.is_eaten |= is_same && evicted > dropped_before;
        if !is_same {
            // The former process may have evicted keys after the last look.
            self.machine.doubt(RebuildCause::History, now_ms);
        }
        self.status.barrier.note(barrier.as_ref(), now_ms, WITHOUT_VOTES);
        if barrier.is_none() && std::mem::take(&mut self.is_eaten) {
            // A node still knows the evicted facts, and gives them back once the store evicts no more.
            self.machine.doubt(RebuildCause::Eviction, now_ms);
        }
        self.machine.bar(barrier.map(|barrier| barrier.to_string()));
        if self.machine.is_following() {
            self.status.feed_reason.note(None, now_ms, MEANWHILE);
        }
    }

    /// The store's clock stamps votes, so the node answers by it. If the clock goes back further than the node waits
    /// out, votes that had ended may be live again, and the node reads the state.
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
        // A clock that the node waits out is no news.
        let is_waited_for = shown.is_still(monotonic_us) && followed.is_some();
        if !is_waited_for && moved_us.unsigned_abs() > STEP_US && self.readiness.is_loaded() {
            self.live.counters.clock_steps.add(1);
            let moved_ms = moved_us / 1_000;
            log::warn!("the store's clock moved by {moved_ms} ms; let chrony slew it instead of stepping it");
        }
    }

    /// Gives the machine the waiting commands, as long as there is room for their changes.
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

    /// Carries out the machine's outputs.
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

    /// Shows the servers, and then the votes. A request looks up its server first: a vote of a server that is not
    /// listed answers nothing.
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
