//! Follows the store: reads the state whole where it must, and the log where it can. Everything
//! that it learns goes through the recorder's door. Runs on a thread of its own, for ever.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::address::StoreAddress;
use super::admin;
use super::entry::Position;
use super::feed_error::FeedError;
use super::follower::{FeedDoor, FollowerMessage};
use super::identity;
use super::link::{ENTRIES_MAX, ENTRIES_MIN, LinkError, StoreRole};
use super::offset;
use super::peers::Peers;
use super::primary::Primary;
use super::reason::{Reason, RebuildCause};
use super::reoffer::Reoffer;
use super::snapshot::{self, Listings, LogEnd, StoreState};
use super::stream::{self, Tail};
use crate::cluster::STANDSTILL_MAX_US;
use crate::store::StoreError;

/// How often the store is asked where its log ends, what it is and how late it is, in milliseconds.
const HEARTBEAT_MS: u64 = 1_000;
/// A sentinel is asked at each such heartbeat whether the primary is still the one: a primary that
/// has been cut off from all others does not know that it is none any more.
const SENTINEL_HEARTBEATS: usize = 5;
/// The other nodes are told at each such heartbeat that this one is still there.
const PEER_HEARTBEATS: usize = 10;
/// The pause between two looks at the other nodes, while this one waits for them.
const PEER_PAUSE: Duration = Duration::from_millis(20);
/// The pause after entries have come. Every entry wakes every node: a moment's rest lets several come together,
/// and leaves the store time for votes.
const NAP: Duration = Duration::from_millis(1);
/// The pause before the next connection: this at first, and twice as long each time.
const BACKOFF_MIN: Duration = Duration::from_millis(100);
/// See [`BACKOFF_MIN`].
const BACKOFF_MAX: Duration = Duration::from_millis(500);
/// Questions of which the first estimate of the store's time is made.
const SAMPLES_AT_FIRST: usize = 8;
/// The time of the service is not corrected by less than this, in microseconds.
const DRIFT_MIN_US: i64 = 1_000;
/// What the log says of status requests while the store fails.
const MEANWHILE: &str = "status requests are answered by what is known";
/// The same before the first state.
const NOT_READY: &str = "status requests are answered 503";
/// What the log says of votes while the store may not be given any.
const WITHOUT_VOTES: &str = "votes and changes are answered 503";

/// What the node has followed so far.
struct Known {
    replid: String,
    tail: Tail,
}

/// Follows a store.
pub struct Feed {
    address: StoreAddress,
    door: FeedDoor,
    /// Where the id of the store is kept over restarts.
    id_path: PathBuf,
    known: Option<Known>,
    /// Under which listings the servers are viewed, and were before the state was read whole last.
    listings: Listings,
    earlier_listings: Listings,
    /// Why the state has to be read whole at the next chance.
    due: Option<RebuildCause>,
    /// What the store has lost and is to be offered again.
    reoffer: Reoffer,
    /// The other nodes: they may know what this one does not.
    peers: Peers,
    heartbeat_at_ms: u64,
    heartbeats: usize,
    /// The store's time minus the monotonic clock, in microseconds.
    offset_us: Option<i64>,
    /// The store's process that was seen last, and how many keys it had dropped by then.
    evicted: Option<(String, u64)>,
    /// Whether the store has dropped keys since the state was read.
    is_eaten: bool,
    backoff: Duration,
    /// Entries of the log that are read at once. A store with a limit on what waits for a client closes the connection of
    /// one that asks for more: after each loss the node asks for half as many, until it has caught up.
    entries_max: usize,
}

impl Feed {
    /// One that has not connected yet.
    #[must_use]
    pub fn new(address: StoreAddress, door: FeedDoor, id_path: PathBuf) -> Self {
        // Until the store was asked, the two clocks are taken for one.
        door.status.clock_offset_us.store(door.clock.system_offset_us(), Ordering::Relaxed);
        Self {
            address,
            door,
            peers: Peers::new(id_path.with_file_name("store.history")),
            id_path,
            known: None,
            listings: Listings::default(),
            earlier_listings: Listings::default(),
            due: None,
            reoffer: Reoffer::default(),
            heartbeat_at_ms: 0,
            heartbeats: 0,
            offset_us: None,
            evicted: None,
            is_eaten: false,
            backoff: BACKOFF_MIN,
            entries_max: ENTRIES_MAX,
        }
    }

    /// Follows until the recorder is gone.
    pub fn run(mut self) {
        loop {
            let Err(end) = self.follow();
            self.door.status.set_following(false);
            match end {
                FeedError::Gone => return,
                FeedError::Broken(cause) => {
                    let is_hole = matches!(cause, RebuildCause::Gap | RebuildCause::History);
                    self.door.status.gaps.add(u64::from(is_hole));
                    log::warn!("the log of the store does not go on from where this node is ({})", cause.label());
                    self.want(cause);
                }
                FeedError::Link(error) => {
                    match &error {
                        LinkError::Lost(..) => self.entries_max = (self.entries_max / 2).max(ENTRIES_MIN),
                        LinkError::Refused(Reason::WrongStore, _) => self.want(RebuildCause::Store),
                        LinkError::Refused(Reason::Unfit, why)
                            if self.door.tell(FollowerMessage::Failed(StoreError::Unusable(why.clone()))).is_err() =>
                        {
                            return;
                        }
                        _ => {}
                    }
                    let meanwhile = if self.known.is_some() { MEANWHILE } else { NOT_READY };
                    self.door.status.feed_failures.add(1);
                    self.door.status.feed_reason.note(Some(&error), self.now_ms(), meanwhile);
                }
            }
            thread::sleep(self.backoff);
            self.backoff = (self.backoff * 2).min(BACKOFF_MAX);
        }
    }

    /// Notes that the state has to be read whole.
    fn want(&mut self, cause: RebuildCause) {
        if self.known.is_some() {
            self.due = RebuildCause::graver(self.due, Some(cause));
        }
        if cause.may_have_lost() {
            self.door.status.unsettle();
        }
    }

    fn now_ms(&self) -> u64 {
        self.door.clock.now().monotonic_ms
    }

    /// One connection, as long as it is good for something.
    fn follow(&mut self) -> Result<std::convert::Infallible, FeedError> {
        let mut primary = Primary::open(&self.address)?;
        primary.link.entries_max = self.entries_max;
        self.door.status.connections.add(1);
        let unfit = primary.unfit()?;
        self.watch(&primary, unfit)?;
        if self.known.is_none() {
            for _ in 0..SAMPLES_AT_FIRST {
                self.heartbeat(&mut primary)?;
            }
        }
        let head = self.heartbeat(&mut primary)?;
        if let (Some(_), Some(store)) = (&self.known, self.door.status.store.get()) {
            // A node that starts meanwhile has to know that there is a node to wait for.
            self.peers.repeat(&mut primary, store)?;
        }
        if let Some(cause) = RebuildCause::graver(self.due, self.judge(&primary.role.replid, &head)) {
            if self.known.is_some() {
                // What the store has dropped is still known here, and goes back once it drops no more.
                primary.check_eviction()?;
            }
            self.rebuild(&mut primary, cause)?;
        }
        self.door.status.set_following(true);
        self.settle(&mut primary)?;
        self.note_well();
        loop {
            self.turn(&mut primary)?;
        }
    }

    /// Notes that all is well at this moment.
    fn note_well(&mut self) {
        let now_ms = self.now_ms();
        self.door.status.feed_reason.note(None, now_ms, MEANWHILE);
        self.door.status.votes_reason.forget_connection();
    }

    /// Looks whether votes may be sent. A store that drops keys gets none; once it drops no more the state is
    /// read whole, and what it has dropped is given back like anything that is lost. Nor does a store with
    /// other functions or too few rights get any.
    fn watch(&mut self, primary: &Primary, unfit: Option<LinkError>) -> Result<(), FeedError> {
        let status = &self.door.status;
        let StoreRole { run_id, evicted, .. } = &primary.role;
        if self.evicted.as_ref().is_some_and(|(seen, count)| seen == run_id && evicted > count) {
            self.is_eaten = true;
            status.unsettle();
        }
        self.evicted = Some((run_id.clone(), *evicted));
        let now_ms = self.door.clock.now().monotonic_ms;
        status.barrier.note(primary.check_eviction().err().or(unfit).as_ref(), now_ms, WITHOUT_VOTES);
        if self.is_eaten && status.barrier.get().is_none() {
            self.is_eaten = false;
            return Err(FeedError::Broken(RebuildCause::Eviction));
        }
        Ok(())
    }

    /// Allows votes once this node has given back all that it knew. A node that has just started knows nothing,
    /// and waits until the others have done so.
    fn settle(&mut self, primary: &mut Primary) -> Result<(), FeedError> {
        let Some(store) = self.door.status.store.get().filter(|_| self.reoffer.is_empty()) else { return Ok(()) };
        if self.is_eaten {
            // What was dropped is not known before the state is read anew.
            return Ok(());
        }
        // No other node has to wait for this one, which owes nothing.
        self.peers.tell(primary, store)?;
        if self.door.status.is_settled(&primary.role.replid) {
            return Ok(());
        }
        if self.peers.is_waiting() {
            if !self.peers.is_told || self.door.status.barrier.get().is_some() {
                // The others cannot give anything back either: the time begins once they can.
                self.peers.begin_again(self.now_ms());
            }
            if !self.peers.is_over(primary, self.now_ms())? {
                return Ok(());
            }
        }
        self.door.status.settle(&primary.role.replid);
        self.peers.keep();
        Ok(())
    }

    /// Whether what is known goes on in a store with this history and this end of its log.
    fn judge(&self, replid: &str, head: &LogEnd) -> Option<RebuildCause> {
        let Some(Known { replid: known, tail: Tail { position, .. } }) = &self.known else {
            return Some(RebuildCause::Start);
        };
        let is_same_end = head.position.n != position.n || head.position.id == position.id;
        (known != replid || head.position.n < position.n || !is_same_end).then_some(RebuildCause::History)
    }

    /// Asks where the log ends: what that says of the store, of the time, and of how far behind this is.
    fn heartbeat(&mut self, primary: &mut Primary) -> Result<LogEnd, FeedError> {
        self.heartbeat_at_ms = self.now_ms() + HEARTBEAT_MS;
        let sent_us = self.door.clock.now().monotonic_us;
        let head = snapshot::head(&mut primary.link)?;
        let received_us = self.door.clock.now().monotonic_us;
        self.check_store(&head.store, primary)?;
        self.door.status.head_n.set(head.position.n);
        self.door.status.round_trip_us.set(received_us - sent_us);
        self.keep_clock(&head, sent_us, received_us)?;
        Ok(head)
    }

    /// A node never follows an empty store or another one than it knows: what it serves is worth more.
    fn check_store(&self, store: &str, primary: &Primary) -> Result<(), FeedError> {
        let host = primary.link.host();
        let refuse = |why: String| Err(LinkError::Refused(Reason::WrongStore, why).into());
        let kept = match self.door.status.store.get() {
            Some(store) => Some(store.clone()),
            None => identity::read(&self.id_path).map_err(|error| {
                let path = self.id_path.display();
                FeedError::unfit(format!(
                    "cannot read {path}, which says what store this node follows: {error}; put that right, or remove it to follow the store at {host}"
                ))
            })?,
        };
        match kept {
            _ if store.is_empty() && kept.is_none() => refuse(format!(
                "EMPTY store at {host}: it has no id yet; run `vote-status cluster init` once, for all nodes"
            )),
            Some(kept) if store.is_empty() => refuse(format!(
                "EMPTY store at {host}: it has lost all of store {kept}; run `vote-status reseed`, which fills it from a node"
            )),
            kept if admin::filled_for(store).is_some_and(|id| kept.as_deref().is_none_or(|kept| kept == id)) => {
                refuse(format!("EMPTY store at {host}: it is being filled"))
            }
            Some(kept) if kept != store => refuse(format!(
                "OTHER store at {host}: it has the id {store}, and this node follows {kept}; to follow it all the same stop the node and remove {}",
                self.id_path.display()
            )),
            _ => Ok(()),
        }
    }

    /// The store's clock stamps votes, so the node answers by it. Where that goes back, votes that
    /// were over are not: the store is asked which.
    fn keep_clock(&mut self, head: &LogEnd, sent_us: u64, received_us: u64) -> Result<(), FeedError> {
        let us = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
        let offset_us = offset::estimate(self.offset_us, head.now_us, us(sent_us), us(received_us));
        let is_first = self.offset_us.replace(offset_us).is_none();
        let drift_us = offset_us - self.door.clock.offset_us();
        if is_first || drift_us.abs() >= DRIFT_MIN_US {
            self.door.tell(FollowerMessage::Time(offset_us))?;
        }
        if drift_us < -STANDSTILL_MAX_US && self.known.is_some() {
            return Err(FeedError::Broken(RebuildCause::Clock));
        }
        Ok(())
    }

    /// Reads the state whole and has it take the place of the one that is served.
    fn rebuild(&mut self, primary: &mut Primary, cause: RebuildCause) -> Result<(), FeedError> {
        let start = self.door.clock.now();
        let was_stale_us = cause.may_have_lost().then(|| self.door.status.staleness_us(start.monotonic_us));
        if was_stale_us.is_some() {
            self.door.status.unsettle();
        }
        let (mut state, fresh_at_us) = self.read_state(primary)?;
        let position = state.position;
        if cause == RebuildCause::Start {
            let is_new = position == Position::default() && state.full.servers.is_empty();
            self.peers.begin(primary, is_new, self.now_ms());
            // Votes may come as soon as the node is ready, and would be refused while it does not follow.
            self.door.status.set_following(true);
            self.settle(primary)?;
        }
        self.door.status.fresh_at_us.set(fresh_at_us);
        if let Some(was_stale_us) = was_stale_us {
            self.note_losses(primary, &state, was_stale_us)?;
        }
        self.reoffer.lay_over(&mut state.full, self.door.cooldown);
        let replace = |sender| FollowerMessage::Replace(Box::new(state.full), position, sender);
        drop(self.door.hand_in(replace)?);
        self.earlier_listings = std::mem::replace(&mut self.listings, state.listings);
        self.known = Some(Known { replid: primary.role.replid.clone(), tail: Tail::at(position) });
        self.due = None;
        self.door.status.rebuilds[cause as usize].add(1);
        self.owe_unseen();
        let took_ms = self.now_ms() - start.monotonic_ms;
        let (label, owed) = (cause.label(), self.reoffer.len());
        let offers = if owed > 0 {
            format!("; {owed} votes and servers that it has lost are offered to it")
        } else {
            String::new()
        };
        log::info!("the state was read from the store in {took_ms} ms ({label}){offers}");
        Ok(())
    }

    /// Reads the state whole, of the store that is followed, while it is one and the same. Gives as of when it is, too,
    /// in microseconds of the monotonic clock.
    fn read_state(&mut self, primary: &mut Primary) -> Result<(StoreState, u64), FeedError> {
        let door = self.door.clone();
        let table = door.cooldowns.shadow();
        let mut state = snapshot::read(primary, &self.address, table, door.cooldown, &door.readiness)?;
        // Reads the log once more, for what came while the state was read: the state is as fresh as this
        // question.
        let fresh_at_us = door.clock.now().monotonic_us;
        snapshot::catch_up(&mut primary.link, &mut state, door.cooldown, None)?;
        self.check_store(&state.store, primary)?;
        primary.check_unchanged()?;
        if self.door.status.store.set(state.store.clone()).is_ok()
            && let Err(why) = identity::keep(&self.id_path, &state.store)
        {
            log::warn!("cannot keep the store's id in {why}; a restart will follow any store");
        }
        Ok((state, fresh_at_us))
    }

    /// Notes what is viewed and not in the state that the store has now, and was not taken away either. This node
    /// was up to date so long ago.
    fn note_losses(&mut self, primary: &mut Primary, state: &StoreState, was_stale_us: u64) -> Result<(), FeedError> {
        let door = &self.door;
        door.status.history.add(1);
        self.peers.begin_again(door.clock.now().monotonic_ms);
        // What is viewed is compared: all that the feed has brought so far has to be in it.
        door.hand_in(FollowerMessage::Taken)?;
        self.reoffer.note_votes(&state.full, door, &self.listings);
        if was_stale_us < u64::from(door.cooldown.seconds()) * 1_000_000 {
            let known = self.known.as_ref().map(|known| known.tail.position);
            let has_all = known.map_or(Ok(false), |known| stream::has(&mut primary.link, known))?;
            self.reoffer.note_servers(&state.full.servers, door, &self.listings, has_all);
        }
        Ok(self.reoffer.forget_gone(primary)?)
    }

    /// Owes the store what it took in an earlier history that ended before it came to this node.
    fn owe_unseen(&mut self) {
        if self.reoffer.note_unseen(&self.door, &self.earlier_listings) {
            self.door.status.unsettle();
        }
    }

    /// Asks the log once, and does what else is due.
    fn turn(&mut self, primary: &mut Primary) -> Result<(), FeedError> {
        self.owe_unseen();
        let Some(known) = &mut self.known else { return Err(FeedError::Broken(RebuildCause::Start)) };
        let now = self.door.clock.now();
        let is_offering = self.reoffer.is_due(now.monotonic_ms);
        let is_patient = !is_offering && !self.peers.is_waiting();
        let read = known.tail.advance(&mut primary.link, is_patient)?;
        let (is_all, strange) = (read.is_all, read.strange);
        let is_news = !read.entries.is_empty() || !strange.is_empty();
        if let (Some(id), 0) = (strange.first(), self.door.status.strange.get()) {
            let host = primary.link.host();
            log::error!(
                "STRANGE entry {id} in the log of the store at {host}: another program wrote it; the node skips such entries, find that program"
            );
        }
        self.door.status.strange.add(strange.len() as u64);
        if !read.entries.is_empty() {
            self.door.status.events.add(read.entries.len() as u64);
            let events = self.listings.take_in(read.entries);
            self.door.tell(FollowerMessage::Changes(events, Some(known.tail.position)))?;
            self.backoff = BACKOFF_MIN;
        }
        if is_all {
            self.door.status.fresh_at_us.set(now.monotonic_us);
            (self.entries_max, primary.link.entries_max) = (ENTRIES_MAX, ENTRIES_MAX);
        }
        if is_offering {
            self.reoffer.offer(primary, &self.door)?;
        }
        if is_offering || self.peers.is_waiting() {
            self.settle(primary)?;
        }
        if self.now_ms() >= self.heartbeat_at_ms {
            let head = self.heartbeat(primary)?;
            primary.check_unchanged()?;
            let unfit = match primary.unfit() {
                Err(error @ LinkError::Lost(..)) => return Err(error.into()),
                unfit => unfit.unwrap_or_else(Some),
            };
            self.watch(primary, unfit)?;
            if let Some(known) = &mut self.known {
                // The same history may have another name by now.
                known.replid.clone_from(&primary.role.replid);
            }
            self.heartbeats += 1;
            if self.heartbeats.is_multiple_of(SENTINEL_HEARTBEATS) {
                primary.check_named(&self.address, self.heartbeats / SENTINEL_HEARTBEATS)?;
            }
            let is_due = self.heartbeats.is_multiple_of(PEER_HEARTBEATS) || !self.peers.is_told;
            if let (true, Some(store)) = (is_due, self.door.status.store.get()) {
                self.peers.repeat(primary, store)?;
            }
            if let Some(cause) = self.judge(&primary.role.replid, &head) {
                return Err(FeedError::Broken(cause));
            }
            self.settle(primary)?;
            self.note_well();
            self.backoff = BACKOFF_MIN;
        }
        if self.peers.is_waiting() {
            thread::sleep(PEER_PAUSE);
        } else if is_news {
            thread::sleep(NAP);
        }
        Ok(())
    }
}
