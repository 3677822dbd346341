//! The write side in its two forms: a store of this process alone, or one that nodes share. The
//! rest of the program does not see which it is.

use std::sync::Arc;

use super::Config;
use super::threads::ThreadKind;
use crate::clock::Clock;
use crate::control::cluster::ClusterView;
use crate::recorder::counters::RecorderCounters;
use crate::recorder::follower::status::Freshness;
use crate::recorder::follower::submitter::Submitter;
use crate::recorder::follower::{FeedDoor, Follower, FollowerParts, OpenSharedStore};
use crate::recorder::live_state::LiveState;
use crate::recorder::{OpenStore, Recorder, RecorderHandle};
use crate::store::StoreError;
use crate::vote::directory::DirectoryView;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::CooldownView;
use crate::waiting::WaitingRoom;
use crate::watch::WatchBoard;

/// Where votes and servers are kept.
pub enum StoreChoice {
    /// By this process alone.
    Own {
        /// How it is opened.
        open: OpenStore,
        /// Whether a clock that is behind the store is taken as it is.
        accepts_clock: bool,
        /// Whether a store that was made with other settings takes those of this start.
        accepts_settings: bool,
        /// By how many bits IPv6 voters are told apart.
        ipv6_prefix: Ipv6Prefix,
    },
    /// By a service that other nodes use as well.
    Shared {
        /// How it is opened.
        open: OpenSharedStore,
        /// A node whose state is older than this, in milliseconds, is not ready.
        stale_max_ms: Option<u64>,
        /// By how many bits IPv6 voters are told apart: it has to be the store's.
        ipv6_prefix: Ipv6Prefix,
    },
}

/// Read-only views of the state, for those who answer from it.
#[derive(Clone)]
pub(super) struct Views {
    pub(super) directory: DirectoryView,
    pub(super) cooldowns: CooldownView,
    pub(super) waiting: WaitingRoom,
    /// Who watches what is asked and recorded.
    pub(super) board: WatchBoard,
    /// Where the recorder stands with other nodes, if there are any.
    pub(super) cluster: Option<ClusterView>,
}

impl Views {
    fn of(live: &LiveState, cluster: Option<ClusterView>) -> Self {
        Self {
            directory: live.directory(),
            cooldowns: live.cooldowns(),
            waiting: live.waiting(),
            board: live.board(),
            cluster,
        }
    }
}

/// The work of a thread.
pub(super) type Work = Box<dyn FnOnce() + Send>;

/// Reads the state and marks the service as ready. What it gives is the recorder's work from then on: it ends when
/// nobody can ask any more.
pub(super) type Load = Box<dyn FnOnce() -> Result<Work, StoreError> + Send>;

/// The write side, before its threads are started.
pub(super) struct WriteSide {
    /// What is viewed of the state.
    pub(super) views: Views,
    pub(super) counters: Arc<RecorderCounters>,
    /// Where commands go. The recorder ends once this and its clones are dropped.
    pub(super) handle: RecorderHandle,
    pub(super) load: Load,
    /// The threads that the recorder needs besides its own.
    pub(super) helpers: Vec<(ThreadKind, Work)>,
}

impl WriteSide {
    /// A recorder with an empty state. A demonstration's `seed` goes into a store of this process alone.
    pub(super) fn new(store: StoreChoice, clock: &Clock, config: &mut Config) -> Self {
        let (cooldown, readiness, seed) = (config.cooldown, &config.readiness, std::mem::take(&mut config.seed));
        match store {
            StoreChoice::Own { open, accepts_clock, accepts_settings, ipv6_prefix } => {
                let (mut recorder, handle) = Recorder::new(clock.clone(), cooldown, readiness.clone(), open);
                recorder.set_ipv6_prefix(ipv6_prefix);
                if accepts_clock {
                    recorder.accept_clock();
                }
                if accepts_settings {
                    recorder.accept_settings();
                }
                let (views, counters) = (Views::of(recorder.live(), None), recorder.live().counters());
                let load = move || {
                    recorder.load(seed)?;
                    Ok(Box::new(move || recorder.run()) as Work)
                };
                Self { views, counters, handle, load: Box::new(load), helpers: Vec::new() }
            }
            StoreChoice::Shared { open, stale_max_ms, ipv6_prefix } => {
                let FollowerParts { mut recorder, submitter, door, handle } =
                    Follower::parts(clock.clone(), cooldown, ipv6_prefix, readiness.clone());
                let freshness = Freshness { status: recorder.status(), clock: clock.clone(), stale_max_ms };
                let cluster = ClusterView { freshness, cooldown, ipv6_prefix };
                let (views, counters) = (Views::of(recorder.live(), Some(cluster)), recorder.live().counters());
                let load = move || {
                    recorder.load()?;
                    Ok(Box::new(move || recorder.run()) as Work)
                };
                let helpers = helpers(open, submitter, door);
                Self { views, counters, handle, load: Box::new(load), helpers }
            }
        }
    }
}

fn helpers(open: OpenSharedStore, submitter: Submitter, door: FeedDoor) -> Vec<(ThreadKind, Work)> {
    let (decider, follow) = open(door);
    vec![(ThreadKind::Feed, follow), (ThreadKind::Submitter, Box::new(move || submitter.run(decider)))]
}
