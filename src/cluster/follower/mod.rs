//! The recorder of a node that shares its store with others. It is the one door to table and
//! directory here too, and events of this node and of others come through it alike:
//!
//! ```text
//! control ─ command → submitter ─ decides ─→ store ─ log → feed ─ events → recorder → table
//!                        └─ what was decided, and by which entry ───────→ recorder ─ answer → control
//! ```
//!
//! The store decides, so a change is durable before it is here. It is acknowledged once the own
//! feed has brought it: visible before anybody is told. See [`Follower::run`].

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::clock::Clock;
use crate::cluster::STANDSTILL_MAX_US;
use crate::cluster::digest::{Digest, NodeDigest};
use crate::cluster::entry::{EntryId, Position};
use crate::cluster::feed_error::FeedError;
use crate::cluster::state::{self, FullState, RemovedVotes};
use crate::cluster::status::SharedStatus;
use crate::cluster::watched::EventObserver;
use crate::readiness::Readiness;
use crate::recorder::command::{Recorded, Reply, VoteOutcome};
use crate::recorder::live_state::LiveState;
use crate::recorder::{RecorderHandle, Respond, SWEEP_SHARDS_PER_TICK, TICK_MS};
use crate::store::{Event, StoreError, StoredVote};
use crate::vote::directory::{DirectoryView, Snapshot};
use crate::vote::lines::Shown;
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownTable, CooldownView, Pair};
use crate::vote::time::Cooldown;

pub mod submitter;

use submitter::Submitter;

/// Messages that wait for the recorder. A sender waits while there are so many.
const MESSAGES_MAX: usize = 64;
/// How long an answer waits for the own feed, in milliseconds, since the feed last brought something: what is behind
/// a large batch comes later. A feed that does not follow is not waited for.
const ACKNOWLEDGE_FOLLOWING_MS: u64 = 1_000;
/// How long it waits in all, in milliseconds: the least patient callers give up after 5 s.
const ACKNOWLEDGE_MAX_MS: u64 = 4_000;
/// See [`ACKNOWLEDGE_FOLLOWING_MS`].
const ACKNOWLEDGE_AWAY_MS: u64 = 50;
/// Votes that are kept in mind as taken and not seen; while the feed does not follow none is taken.
const UNSEEN_MAX: usize = 262_144;
/// The store's clock moves by more than this only where it was set, in microseconds.
const STEP_US: u64 = 500_000;

/// A command that the store has decided.
pub(super) struct Settled {
    reply: Reply,
    /// In which of the store's histories it was decided: see [`SharedStatus::history`].
    history: u64,
    /// Votes in the command, for counting.
    votes: u64,
    entry: Option<EntryId>,
    settled_ms: u64,
    respond: Respond,
}

/// What the recorder is told.
pub(super) enum FollowerMessage {
    /// Entries of the log in their order, and how far they go. Without a position it is what the store has where this
    /// node showed something else, and no entry says it.
    Changes(Vec<Event>, Option<Position>),
    /// Nothing: it is answered once all before it is in what is viewed.
    Taken(SyncSender<()>),
    /// A whole state in place of the one that is viewed, which is given back.
    Replace(Box<FullState>, Position, SyncSender<FullState>),
    /// The store's time minus the monotonic clock, in microseconds: the time of the service.
    Time(i64),
    /// The store cannot be used as this node was started: it has to end. Counts only before the first state.
    Failed(StoreError),
    Settled {
        settled: Vec<Settled>,
        entries: u64,
        took_us: u64,
    },
    Digest(Respond),
    NoMoreRequests,
}

/// A vote that the store has taken and that is not in the table.
struct Unseen {
    /// The history of the store in which it was taken: see [`SharedStatus::history`].
    history: u64,
    /// The entry of the log that brings it.
    entry: EntryId,
    vote: StoredVote,
}

/// Where what follows the store tells what it has learnt.
#[derive(Clone)]
pub struct FeedDoor {
    messages: SyncSender<FollowerMessage>,
    unseen: Arc<Mutex<Vec<Unseen>>>,
    /// What is viewed.
    pub cooldowns: CooldownView,
    /// The servers that are viewed.
    pub directory: DirectoryView,
    /// Where the node stands.
    pub status: Arc<SharedStatus>,
    /// For the progress of the first load.
    pub readiness: Readiness,
    /// The time of the service.
    pub clock: Clock,
    /// The cooldown's length.
    pub cooldown: Cooldown,
}

impl FeedDoor {
    /// Tells what was learnt.
    ///
    /// # Errors
    /// [`FeedError::Gone`]
    pub(super) fn tell(&self, message: FollowerMessage) -> Result<(), FeedError> {
        self.messages.send(message).map_err(|_| FeedError::Gone)
    }

    /// Tells it, and waits until that and all that was told before is in what is viewed.
    ///
    /// # Errors
    /// As [`FeedDoor::tell`].
    pub(super) fn hand_in<T>(&self, message: impl FnOnce(SyncSender<T>) -> FollowerMessage) -> Result<T, FeedError> {
        let (sender, taken) = sync_channel(1);
        self.tell(message(sender))?;
        taken.recv().map_err(|_| FeedError::Gone)
    }

    /// Takes the votes that the store took in an earlier history and that the feed never brought: where the
    /// store has lost them no other node knows them. Votes of the present history come by the feed, or have come.
    #[must_use]
    pub fn take_unseen(&self) -> Vec<StoredVote> {
        let mut unseen = self.unseen.lock();
        if unseen.is_empty() {
            return Vec::new();
        }
        let (history, reached) = (self.status.history.get(), self.status.position.lock().id);
        let lost = unseen.extract_if(.., |unseen| unseen.history != history).map(|unseen| unseen.vote).collect();
        unseen.retain(|unseen| unseen.entry > reached);
        lost
    }
}

/// The state of a node.
pub struct Follower {
    messages: Receiver<FollowerMessage>,
    live: LiveState,
    clock: Clock,
    cooldown: Cooldown,
    readiness: Readiness,
    status: Arc<SharedStatus>,
    /// A node whose state is older than this, in milliseconds, is not ready.
    stale_max_ms: Option<u64>,
    next_tick_ms: u64,
    /// When the feed last brought something, in milliseconds of the monotonic clock.
    fed_ms: u64,
    /// Commands that are decided and not acknowledged yet, in the order of their entries: one submitter decides
    /// them.
    waiting: VecDeque<Settled>,
    /// See [`FeedDoor::take_unseen`].
    unseen: Arc<Mutex<Vec<Unseen>>>,
    /// Whether the feed has brought a state, or why it cannot.
    loaded: Option<Result<(), StoreError>>,
    /// No command comes any more.
    is_ending: bool,
}

impl Follower {
    /// One with an empty state until the feed has brought one; what takes commands to the store; and the doors of the
    /// feed and of the control service.
    #[must_use]
    pub fn parts(
        clock: Clock,
        Settings { cooldown, ipv6_prefix }: Settings,
        readiness: Readiness,
        stale_max_ms: Option<u64>,
    ) -> (Self, Submitter, FeedDoor, RecorderHandle) {
        let (sender, messages) = sync_channel(MESSAGES_MAX);
        let (handle, requests) = RecorderHandle::new();
        let recorder = Self {
            messages,
            live: LiveState::new(CooldownTable::with_prefix(ipv6_prefix)),
            clock: clock.clone(),
            cooldown,
            readiness: readiness.clone(),
            status: Arc::default(),
            stale_max_ms,
            next_tick_ms: 0,
            fed_ms: 0,
            waiting: VecDeque::new(),
            unseen: Arc::default(),
            loaded: None,
            is_ending: false,
        };
        let door = FeedDoor {
            messages: sender,
            unseen: Arc::clone(&recorder.unseen),
            cooldowns: recorder.live.table.view(),
            directory: recorder.live.directory.view(),
            status: Arc::clone(&recorder.status),
            readiness,
            clock,
            cooldown,
        };
        let submitter = Submitter { requests, door: door.clone() };
        (recorder, submitter, door, handle)
    }

    /// What is viewed and counted.
    #[must_use]
    pub const fn live(&self) -> &LiveState {
        &self.live
    }

    /// Where the node stands.
    #[must_use]
    pub fn status(&self) -> Arc<SharedStatus> {
        Arc::clone(&self.status)
    }

    /// Waits for the first state, and says that the service is ready.
    ///
    /// # Errors
    /// Where the store cannot be used as this node was started.
    pub fn load(&mut self) -> Result<(), StoreError> {
        let start_ms = self.clock.now().monotonic_ms;
        while self.loaded.is_none() {
            let Ok(message) = self.messages.recv() else { break };
            self.take(message);
        }
        self.loaded.take().unwrap_or(Ok(()))?;
        self.live.counters.load_ms.set(self.clock.now().monotonic_ms - start_ms);
        self.readiness.set_ready();
        Ok(())
    }

    /// Works until no command comes any more and every one is acknowledged. A round, in this order
    /// and why:
    ///
    /// 1. take a message: of the feed it changes what is visible, of the submitter it adds commands that wait;
    /// 2. answer the commands whose entries are visible now, and those that have waited long enough;
    /// 3. sweep a little, behind all that others wait for.
    pub fn run(mut self) {
        while !(self.is_ending && self.waiting.is_empty()) {
            match self.messages.recv_timeout(self.pause()) {
                Ok(message) => self.take(message),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let now = self.clock.now();
            self.status.set_alive(now.monotonic_ms);
            let staleness_ms = self.status.staleness_us(now.monotonic_us) / 1_000;
            self.readiness.set_stale(self.stale_max_ms.is_some_and(|max_ms| staleness_ms > max_ms));
            self.acknowledge();
            self.sweep();
        }
    }

    /// Until the next tick, or until the first command has waited long enough.
    fn pause(&self) -> Duration {
        let now_ms = self.clock.now().monotonic_ms;
        let first = self.waiting.front().map_or(u64::MAX, |first| self.due_ms(first));
        Duration::from_millis(self.next_tick_ms.min(first).saturating_sub(now_ms))
    }

    /// When it is answered, visible or not.
    fn due_ms(&self, settled: &Settled) -> u64 {
        let since_ms = settled.settled_ms;
        if !self.status.is_following() {
            return since_ms + ACKNOWLEDGE_AWAY_MS;
        }
        (since_ms.max(self.fed_ms) + ACKNOWLEDGE_FOLLOWING_MS).min(since_ms + ACKNOWLEDGE_MAX_MS)
    }

    fn take(&mut self, message: FollowerMessage) {
        match message {
            FollowerMessage::Changes(events, position) => {
                self.change(&events);
                if let Some(position) = position {
                    *self.status.position.lock() = position;
                    self.fed_ms = self.clock.now().monotonic_ms;
                }
            }
            FollowerMessage::Taken(sender) => {
                // The feed has gone, and needs no answer.
                let _gone = sender.send(());
            }
            FollowerMessage::Replace(state, position, replaced) => {
                let old = self.replace(*state, position);
                // The feed has gone: the old state is dropped here.
                let _gone = replaced.send(old);
            }
            FollowerMessage::Time(offset_us) => self.set_time(offset_us),
            FollowerMessage::Failed(error) => self.loaded = Some(Err(error)),
            FollowerMessage::Settled { settled, entries, took_us } => {
                if entries > 0 {
                    self.live.counters.commit_us.record(took_us);
                    self.live.counters.commit_events.record(entries);
                }
                self.waiting.extend(settled);
            }
            FollowerMessage::Digest(respond) => respond(Reply::Digest(self.digest())),
            FollowerMessage::NoMoreRequests => self.is_ending = true,
        }
    }

    fn change(&mut self, events: &[Event]) {
        let now = self.clock.now().wall;
        let mut observer = EventObserver::new(&mut self.live, self.cooldown, now);
        let current = self.live.directory.snapshot();
        let mut servers = Cow::Borrowed(&*current);
        let mut removed = RemovedVotes::of(events, &self.live.table);
        for (index, event) in events.iter().enumerate() {
            observer.comes(event, events.get(index + 1), &removed, &self.live);
            state::apply(event, &mut self.live.table, &mut servers, &mut removed, self.cooldown);
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
    fn replace(&mut self, mut state: FullState, position: Position) -> FullState {
        let servers = Snapshot::clone(&self.live.directory.snapshot());
        self.live.publish(std::mem::replace(&mut state.servers, servers));
        self.live.table.exchange(&mut state.table);
        self.loaded = Some(Ok(()));
        for settled in &self.waiting {
            self.note_unseen(settled);
        }
        *self.status.position.lock() = position;
        self.live.waiting.tell_where(|_| true);
        state
    }

    /// The store's clock stamps votes, so the node answers by it. The table is left as it is: it
    /// mirrors the store, and what a step back would revive is read anew by the feed.
    fn set_time(&mut self, offset_us: i64) {
        let (shown, monotonic_us) = (self.clock.shown(), self.clock.now().monotonic_us.cast_signed());
        let line_us = offset_us.saturating_add(monotonic_us);
        let moved_us = line_us - shown.at_us(monotonic_us);
        let followed = shown.follow(line_us, monotonic_us, STANDSTILL_MAX_US);
        self.clock.show(followed.unwrap_or(Shown::running(line_us, monotonic_us)));
        self.status.clock_offset_us.store(offset_us, Ordering::Relaxed);
        // A clock that is waited for is no news.
        let is_waited_for = shown.is_still(monotonic_us) && followed.is_some();
        if !is_waited_for && moved_us.unsigned_abs() > STEP_US && self.readiness.is_loaded() {
            self.live.counters.clock_steps.add(1);
            let moved_ms = moved_us / 1_000;
            log::warn!("the store's clock moved by {moved_ms} ms; let chrony slew it instead of stepping it");
        }
    }

    /// Answers the commands whose entries are visible, and those that have waited long enough, in their order. What is
    /// not visible is not acknowledged: the store has it, but this node may not show it for a while.
    fn acknowledge(&mut self) {
        let now = self.clock.now();
        while let Some(first) = self.waiting.front() {
            let is_visible = self.is_visible(first);
            if !is_visible && now.monotonic_ms < self.due_ms(first) {
                return;
            }
            let Some(first) = self.waiting.pop_front() else { return };
            self.note_unseen(&first);
            let Settled { reply, votes, respond, .. } = first;
            let reply = if is_visible { reply } else { Reply::StoreSilent };
            match &reply {
                Reply::StoreUnavailable | Reply::StoreSilent => {
                    self.live.counters.commit_failures.add(1);
                    self.live.counters.count_unavailable(votes);
                }
                reply => self.live.count(reply, true, now.wall, self.cooldown),
            }
            respond(reply);
        }
    }

    /// Whether the feed has brought what was decided. Names of entries say so within one history of the
    /// store only: in another one there may be a later entry, and not this one.
    fn is_visible(&self, settled: &Settled) -> bool {
        let Some(entry) = settled.entry else { return true };
        let is_reached = entry <= self.status.position.lock().id;
        let holds_votes = || matches!(settled.reply, Reply::Votes(_)) && self.missing(settled).next().is_none();
        is_reached && (settled.history == self.status.history.get() || holds_votes())
    }

    /// Votes that the store has taken and the table does not hold.
    fn missing<'a>(&'a self, settled: &'a Settled) -> impl Iterator<Item = StoredVote> + 'a {
        let outcomes = if let Reply::Votes(outcomes) = &settled.reply { outcomes.as_slice() } else { &[] };
        let recorded = outcomes.iter().filter_map(|outcome| match outcome {
            VoteOutcome::Recorded(recorded) => Some(recorded),
            _ => None,
        });
        let votes = recorded.flat_map(|Recorded { server, voter, voted_at, expires_at, .. }| {
            let pairs = voter.addresses().map(|address| Pair { server: *server, address });
            pairs.map(|pair| (StoredVote { pair, voted_at: *voted_at }, *expires_at))
        });
        votes.filter_map(|(vote, expires_at)| {
            let held = self.live.table.expires_at(vote.pair);
            held.is_none_or(|held| held < expires_at).then_some(vote)
        })
    }

    /// Keeps in mind the votes that the store has taken and the table does not hold: they are on their way, or
    /// lost with the store that took them.
    fn note_unseen(&self, settled: &Settled) {
        let Some(entry) = settled.entry else { return };
        let mut unseen = self.unseen.lock();
        let room = UNSEEN_MAX - unseen.len();
        let history = settled.history;
        unseen.extend(self.missing(settled).take(room).map(|vote| Unseen { history, entry, vote }));
        if room > 0 && unseen.len() == UNSEEN_MAX {
            log::warn!(
                "{UNSEEN_MAX} votes are on their way from the store; were it to fail now, this node could not give back more"
            );
        }
    }

    /// The digest of all that is viewed, and of which moment.
    fn digest(&self) -> Value {
        let (now, position) = (self.clock.now().wall, *self.status.position.lock());
        let state = Digest::of(&self.live.directory.snapshot(), &self.live.table.view(), self.cooldown, now);
        let store_id = self.status.store.get().cloned().unwrap_or_default();
        let (n, id) = (position.n, position.id.to_string());
        json!(NodeDigest { store_id, n, id, now: now.0, state })
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

#[cfg(test)]
mod tests;
