//! A node of a shared store, as a machine without input and output. It takes instants of a monotonic clock, answers, lost
//! connections and callers' changes. It gives questions, changes of the shown state, and outcomes of callers' changes.
//!
//! ```text
//!             ┌────────────── the connection is lost, or has to be judged ─────────────┐
//! Connecting ─→ Judging ─ the store holds my last entry ─────────────→ Following ──────┤
//!                  └───── it does not, or I know nothing ─→ Loading ─────┘  owes? waits?
//! ```
//!
//! The node follows the log in every part of `Following`. It takes changes once it owes nothing and waits for no other node. The
//! caller carries out all of [`NodeMachine::outputs`] before the next input.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::cluster::entry::EntryId;
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::StoreAnswer;
use crate::cluster::wire::fact::Said;
use crate::cluster::wire::last::Last;
use crate::vote::id::ServerId;
use crate::vote::settings::Settings;
use crate::vote::table::CooldownView;
use crate::vote::time::UnixSeconds;

pub mod bounds;
#[cfg(test)]
mod caller_tests;
pub mod changes;
#[cfg(test)]
mod comparing_tests;
mod connection;
mod draws;
mod feed;
mod giving;
#[cfg(test)]
mod giving_tests;
mod knowledge;
mod others;
pub mod output;
pub(super) mod reading;
mod share;
mod store_listings;
#[cfg(test)]
mod tests;
mod votes;
#[cfg(test)]
mod votes_tests;

use bounds::Bounds;
use changes::{ChangeOutcome, Pending, WantedChange};
use connection::StoreConnection;
use draws::Draws;
use giving::Owed;
use knowledge::{Join, Knowledge, Overlay};
use others::Others;
use output::{NodeLine, NodeStanding, Note, Output, Unfit};
use reading::StateReading;
use store_listings::StoreListings;

/// The phase of the feed.
enum FeedPhase {
    /// There is no connection.
    Connecting,
    /// The node asks whether the store holds the last entry that it knows.
    Judging,
    /// The node reads the whole state.
    Loading(Box<StateReading>),
    /// The node follows the log.
    Following,
}

/// An entry that a reply told of, and that the log has not brought yet.
#[derive(Debug)]
struct UnseenEntry {
    last: Last,
    facts: Vec<Said>,
    /// Whether all of its facts are shown already.
    is_shown: bool,
}

/// The start of a node.
pub struct Start {
    /// The limits of the node.
    pub bounds: Bounds,
    /// The cooldown and the IPv6 prefix.
    pub settings: Settings,
    /// The node's name, which no other process has or had.
    pub name: String,
    /// The id of the store that the node followed before, if any.
    pub store: Option<String>,
    /// The version of the functions that the node calls.
    pub version: String,
    /// Random numbers that no other process has.
    pub seed: [u64; 2],
    /// The shown votes.
    pub shown: CooldownView,
}

/// A node.
pub struct NodeMachine {
    bounds: Bounds,
    settings: Settings,
    name: String,
    store: Option<String>,
    version: String,
    draws: Draws,
    shown: CooldownView,
    known: Knowledge,
    /// The changes of the shown state by outputs that are not carried out yet.
    overlay: Overlay,
    /// The entry up to which the state is shown, and the one behind which the log is read on.
    position: Last,
    cursor: EntryId,
    /// The entries to ask for at once now: see [`Bounds::entries_max`].
    entries_max: usize,
    is_at_end: bool,
    has_left: bool,
    unseen: Vec<UnseenEntry>,
    /// The number of the store's last entry, at the last renewal of this node's record.
    head_n: u64,
    store_listings: StoreListings,
    phase: FeedPhase,
    /// Whether the node has read a state.
    is_loaded: bool,
    /// Why the node has to read the whole state at the next chance, whatever the store holds.
    doubt: Option<RebuildCause>,
    /// Whether other nodes may know facts that the store has lost, although it holds the last entry that this node knows.
    may_others_know: bool,
    /// Whether the votes' connection has seen a loss: the node asks on the feed whether the feed's store has lost something, too.
    is_suspect: bool,
    /// Whether the votes' connection leads to a machine that takes no changes.
    is_elsewhere: bool,
    owed: Owed,
    others: Others,
    /// Whether this node waits for the others, as after a start.
    is_waiting: bool,
    /// The number of records that this node has written, and the instant of the next one.
    count: u64,
    heartbeat_at_ms: u64,
    feed: StoreConnection<feed::FeedPurpose>,
    votes: StoreConnection<votes::VotesPurpose>,
    /// Why the node cannot follow the store.
    unfit: Option<Unfit>,
    /// Whether the store has functions of another version.
    is_foreign: bool,
    barrier: Option<String>,
    /// Changes on their way, by their callers' numbers, and their deadlines, each with its caller.
    pending: BTreeMap<u64, Pending>,
    deadlines: BTreeSet<(u64, u64)>,
    /// The callers of queued changes: nothing was asked for these yet.
    queued: Vec<u64>,
    /// Callers, by the bits of their changes.
    callers: HashMap<i64, u64>,
    /// The instant of the last input, and the instant at which this process last resumed after a pause.
    input_at_ms: Option<u64>,
    resumed_at_ms: Option<u64>,
    outputs: Vec<Output>,
}

impl NodeMachine {
    /// A node that has no connection yet.
    #[must_use]
    pub fn new(start: Start) -> Self {
        let Start { bounds, settings, name, store, version, seed, shown } = start;
        let (feed, votes) = (StoreConnection::new(&bounds), StoreConnection::new(&bounds));
        let (known, overlay, position, cursor, unseen, owed, others, pending, deadlines, queued, callers, outputs) =
            Default::default();
        Self {
            entries_max: bounds.entries_max,
            is_at_end: false,
            has_left: false,
            bounds,
            settings,
            name,
            store,
            version,
            draws: Draws::of(seed),
            shown,
            known,
            overlay,
            position,
            cursor,
            unseen,
            head_n: 0,
            store_listings: StoreListings::default(),
            phase: FeedPhase::Connecting,
            is_loaded: false,
            doubt: None,
            may_others_know: false,
            is_suspect: false,
            is_elsewhere: false,
            owed,
            others,
            is_waiting: false,
            count: 0,
            heartbeat_at_ms: 0,
            feed,
            votes,
            unfit: None,
            is_foreign: false,
            barrier: None,
            pending,
            deadlines,
            queued,
            callers,
            input_at_ms: None,
            resumed_at_ms: None,
            outputs,
        }
    }

    /// The outputs to carry out now, in this order.
    pub fn outputs(&mut self) -> Vec<Output> {
        self.overlay = Overlay::default();
        std::mem::take(&mut self.outputs)
    }

    /// The instant of the next tick, if no input comes before.
    #[must_use]
    pub fn due_ms(&self) -> u64 {
        let is_asked = self.votes.asked.iter().any(|asked| matches!(asked.purpose, votes::VotesPurpose::Beat));
        let votes_heard_ms = self.votes.heard_ms().filter(|_| !is_asked);
        let votes_heartbeat = votes_heard_ms.map(|heard_ms| heard_ms + self.bounds.heartbeat_ms);
        let pending = self.deadlines.first().map(|(deadline_ms, _)| *deadline_ms);
        let says = self.feed.is_up() && self.is_loaded && !matches!(self.phase, FeedPhase::Judging);
        let heartbeat = says.then_some(self.heartbeat_at_ms);
        let votes_due = if self.is_loaded || self.feed.is_up() { self.votes.due_ms() } else { None };
        // A paused process shows by missing inputs.
        let alive = self.input_at_ms.map(|at_ms| at_ms + self.bounds.pause_max_ms / 2);
        let all = [self.feed.due_ms(), votes_due, votes_heartbeat, pending, heartbeat, alive];
        all.into_iter().flatten().min().unwrap_or(u64::MAX)
    }

    /// Takes the passage of time.
    pub fn tick(&mut self, now_ms: u64) {
        self.note_input(now_ms);
        self.proceed(now_ms);
    }

    /// Takes the news that a connection was made, to the process of the store with this id. Votes go to the process that
    /// the feed reads. If the other connection leads to another process, it was made before the store's name moved.
    pub fn connected(&mut self, line: NodeLine, process: &str, now_ms: u64) {
        self.note_input(now_ms);
        let (is_awaited, earlier) = match line {
            NodeLine::Feed => (self.feed.open(process), NodeLine::Votes),
            NodeLine::Votes => (self.votes.open(process), NodeLine::Feed),
        };
        if self.feed.is_apart_from(&self.votes) {
            self.close(earlier, now_ms);
        }
        if is_awaited && line == NodeLine::Feed {
            self.judge();
        }
        self.proceed(now_ms);
    }

    /// Takes the news that a connection could not be made, or is lost.
    pub fn lost(&mut self, line: NodeLine, now_ms: u64) {
        self.note_input(now_ms);
        self.drop_line(line, now_ms);
        self.proceed(now_ms);
    }

    fn drop_line(&mut self, line: NodeLine, now_ms: u64) {
        match line {
            NodeLine::Feed => self.drop_feed(now_ms),
            NodeLine::Votes => self.drop_votes(now_ms),
        }
    }

    fn close(&mut self, line: NodeLine, now_ms: u64) {
        self.outputs.push(Output::Close(line));
        self.drop_line(line, now_ms);
    }

    /// Takes an answer.
    pub fn answered(&mut self, line: NodeLine, answer: StoreAnswer, now_ms: u64) {
        self.note_input(now_ms);
        match line {
            NodeLine::Feed => self.take_feed(answer, now_ms),
            NodeLine::Votes => self.take_votes(answer, now_ms),
        }
        self.proceed(now_ms);
    }

    /// Takes the news that a part of an answer has come. A long reading has a least rate in place of a deadline.
    pub fn progressed(&mut self, line: NodeLine, now_ms: u64) {
        if line == NodeLine::Feed && matches!(self.phase, FeedPhase::Loading(_)) {
            self.feed.extend(now_ms + self.bounds.patience_ms);
        }
    }

    /// Takes a change that a caller wants. The outcome names the caller by its number, which no other change has.
    pub fn change(&mut self, caller: u64, change: WantedChange, now_ms: u64) {
        self.note_input(now_ms);
        match self.refusal(changes::is_vote(&change), now_ms).filter(|_| !self.may_wait(now_ms)) {
            Some(why) => self.outputs.push(Output::Answer(caller, ChangeOutcome::Unavailable(why))),
            None => {
                let bits = self.draws.next();
                let deadline_ms = now_ms + self.bounds.patience_ms;
                self.pending.insert(caller, Pending::new(change, bits, deadline_ms));
                self.deadlines.insert((deadline_ms, caller));
                self.callers.insert(bits, caller);
                self.queued.push(caller);
            }
        }
        self.proceed(now_ms);
    }

    /// Whether a change waits, within its deadline, for a state that ends soon. Such states are the wait for other
    /// nodes and the opening of the votes' connection.
    fn may_wait(&self, now_ms: u64) -> bool {
        self.closed(now_ms).is_none()
            && self.pending.len() < self.bounds.changes_max
            && match self.standing() {
                NodeStanding::Waiting => true,
                NodeStanding::Following => self.votes.is_opening(),
                _ => false,
            }
    }

    /// Takes a reason for a whole reading, from the store's report of itself or from its clock. The store may hold the
    /// last entry and still lack facts. If other nodes may know these facts, the node waits for them as after a start.
    pub fn doubt(&mut self, cause: RebuildCause, now_ms: u64) {
        self.note_doubt(cause);
        self.may_others_know |= cause.may_have_lost();
        self.proceed(now_ms);
    }

    /// Takes the caller's reason to make no changes, or `None` if there is none any more.
    pub fn bar(&mut self, why: Option<String>) {
        self.barrier = why;
    }

    /// The number of changes without an outcome.
    #[must_use]
    pub fn changes_len(&self) -> usize {
        self.pending.len()
    }

    /// The caller of the change with these bits, as long as it has no outcome.
    #[must_use]
    pub fn caller(&self, bits: i64) -> Option<u64> {
        self.callers.get(&bits).copied()
    }

    /// The node's standing with the store.
    #[must_use]
    pub fn standing(&self) -> NodeStanding {
        match &self.phase {
            FeedPhase::Connecting => NodeStanding::Away(self.unfit.clone()),
            FeedPhase::Judging => NodeStanding::Judging,
            FeedPhase::Loading(_) => NodeStanding::Loading,
            FeedPhase::Following if self.doubt.is_some() || self.is_suspect => NodeStanding::Judging,
            FeedPhase::Following if !self.owed.is_empty() => NodeStanding::GivingBack(self.owed.len()),
            FeedPhase::Following if self.is_waiting => NodeStanding::Waiting,
            FeedPhase::Following => NodeStanding::Following,
        }
    }

    /// Whether a state is shown.
    #[must_use]
    pub const fn is_loaded(&self) -> bool {
        self.is_loaded
    }

    /// Why a vote or another change is refused now; `None` if it is made.
    #[must_use]
    pub fn refusal(&self, is_vote: bool, now_ms: u64) -> Option<String> {
        let is_full = self.pending.len() >= self.bounds.changes_max;
        let full = || is_full.then(|| "UNSETTLED store: too many changes wait for it".to_owned());
        self.barred(is_vote, now_ms).or_else(full)
    }

    /// Why a change that waits may not be made now.
    fn barred(&self, is_vote: bool, now_ms: u64) -> Option<String> {
        self.closed(now_ms).or_else(|| self.not_settled(is_vote))
    }

    /// Why no change may be made, whatever the node's standing with the store.
    fn closed(&self, now_ms: u64) -> Option<String> {
        if self.resumed_at_ms.is_some_and(|at_ms| now_ms < at_ms + self.bounds.waking_ms) {
            return Some("PAUSED process: it stood still a moment ago".to_owned());
        }
        if let Some(why) = &self.barrier {
            return Some(why.clone());
        }
        if self.is_foreign {
            return Some("FUNCTIONS of another version are in the store".to_owned());
        }
        None
    }

    fn not_settled(&self, is_vote: bool) -> Option<String> {
        let why = match self.standing() {
            NodeStanding::Away(_) => "UNREACHABLE store: it is not followed".to_owned(),
            NodeStanding::Judging => "UNSETTLED store: it is not known yet whether it has lost anything".to_owned(),
            NodeStanding::Loading => "UNSETTLED store: its state is read".to_owned(),
            NodeStanding::GivingBack(count) => {
                format!("UNSETTLED store: {count} facts that it has lost are being given back")
            }
            NodeStanding::Waiting => "UNSETTLED store: other nodes may have something to give back".to_owned(),
            NodeStanding::Following if !self.votes.is_up() => {
                "UNREACHABLE store: there is no connection for votes".to_owned()
            }
            NodeStanding::Following => {
                let owing = self.others.owing(self.bounds.silence_ms).next().filter(|_| !is_vote)?;
                format!("UNSETTLED store: the node {owing} has something to give back")
            }
        };
        Some(why)
    }

    /// The records of the servers.
    pub fn servers(&self) -> impl Iterator<Item = (ServerId, String)> {
        self.known.servers().map(|(server, record)| (server, record.to_string()))
    }

    /// Whether the node follows the log.
    #[must_use]
    pub const fn is_following(&self) -> bool {
        matches!(self.phase, FeedPhase::Following)
    }

    /// Whether the last answer of the log reached its end.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.is_following() && self.is_at_end
    }

    /// Whether the node is reading the whole state.
    #[must_use]
    pub const fn is_reading(&self) -> bool {
        matches!(self.phase, FeedPhase::Loading(_))
    }

    /// The number of facts that the store has lost and this node owes it.
    #[must_use]
    pub const fn owed_len(&self) -> usize {
        self.owed.len()
    }

    /// The entry up to which the node shows the whole log, if it shows nothing behind that entry. `None` if there is no such
    /// entry: a node shows its own votes before the log brings them.
    #[must_use]
    pub fn shown_to(&self) -> Option<Last> {
        let mut ahead: Vec<&UnseenEntry> = self.unseen.iter().collect();
        ahead.sort_unstable_by_key(|entry| entry.last.n);
        let follows = |(entry, n): (&&UnseenEntry, u64)| entry.is_shown && entry.last.n == n;
        let is_whole = ahead.iter().zip(self.position.n + 1..).all(follows);
        is_whole.then(|| ahead.last().map_or(self.position, |entry| entry.last))
    }

    /// The last entry of the log that the node has read.
    #[must_use]
    pub const fn position(&self) -> Last {
        self.position
    }

    fn note_input(&mut self, now_ms: u64) {
        let before_ms = self.input_at_ms.replace(now_ms);
        if before_ms.is_some_and(|before_ms| now_ms > before_ms + self.bounds.pause_max_ms) {
            self.resumed_at_ms = Some(now_ms);
            self.outputs.push(Output::Note(Note::StoodStill(now_ms - before_ms.unwrap_or(now_ms))));
        }
    }

    fn proceed(&mut self, now_ms: u64) {
        let late = [(NodeLine::Feed, self.feed.is_late(now_ms)), (NodeLine::Votes, self.votes.is_late(now_ms))];
        for (line, _) in late.into_iter().filter(|(_, is_late)| *is_late) {
            self.outputs.push(Output::Note(Note::Late(line)));
            self.close(line, now_ms);
        }
        self.proceed_feed(now_ms);
        self.proceed_votes(now_ms);
    }

    /// The last entry that the node knows, also from a reply.
    fn newest(&self) -> Last {
        let unseen = self.unseen.iter().map(|unseen| unseen.last);
        unseen.fold(self.position, |newest, last| if last.n > newest.n { last } else { newest })
    }

    /// The store's time now, in seconds; 0 if the node does not know it.
    fn now_s(&self, now_ms: u64) -> UnixSeconds {
        let store_ms = self.feed.store_ms(now_ms).or_else(|| self.votes.store_ms(now_ms)).unwrap_or_default();
        UnixSeconds(u32::try_from(store_ms / 1_000).unwrap_or(u32::MAX))
    }

    /// Joins facts to the known and shown ones.
    fn join<T>(&mut self, now: UnixSeconds, take: impl FnOnce(&mut Join<'_>) -> T) -> (T, Vec<Said>) {
        let mut join = Join::new(&mut self.known, &self.shown, &mut self.overlay, self.settings.cooldown, now);
        let taken = take(&mut join);
        let (events, fresh) = join.end();
        if !events.is_empty() {
            self.outputs.push(Output::Show(events));
        }
        (taken, fresh)
    }
}
