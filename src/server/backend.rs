//! The write side in its two forms: a store of this process alone, or one that nodes share. The
//! rest of the program does not see which it is.

use super::threads::ThreadKind;
use crate::clock::Clock;
use crate::control::cluster::ClusterView;
use crate::readiness::Readiness;
use crate::recorder::command::Command;
use crate::recorder::follower::status::Freshness;
use crate::recorder::follower::submitter::{Decider, Submitter};
use crate::recorder::follower::{FeedDoor, Follower, SharedStore};
use crate::recorder::live_state::LiveState;
use crate::recorder::{OpenStore, Recorder, RecorderHandle};
use crate::store::StoreError;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::time::Cooldown;

/// Where votes and servers are kept.
pub enum StoreChoice {
    /// By this process alone.
    Own {
        /// How it is opened.
        open: OpenStore,
        /// Whether a clock that is behind the store is taken as it is.
        accepts_clock: bool,
        /// By how many bits IPv6 voters are told apart.
        ipv6_prefix: Ipv6Prefix,
    },
    /// By a service that other nodes use as well.
    Shared {
        /// That service.
        store: Box<dyn SharedStore>,
        /// A node whose state is older than this, in milliseconds, is not ready.
        stale_max_ms: Option<u64>,
        /// By how many bits IPv6 voters are told apart: it has to be the store's.
        ipv6_prefix: Ipv6Prefix,
    },
}

/// A thread that the recorder needs besides its own, and its work.
pub(super) type Helper = (ThreadKind, Box<dyn FnOnce() + Send>);

/// The write side, before its threads are started.
pub(super) struct WriteSide {
    pub(super) backend: Backend,
    /// Where commands go. The recorder ends once this and its clones are dropped.
    pub(super) handle: RecorderHandle,
    /// Where the recorder stands with other nodes, if there are any.
    pub(super) cluster: Option<ClusterView>,
    pub(super) helpers: Vec<Helper>,
}

/// The recorder, and what it works with.
pub(super) enum Backend {
    Own(Box<Recorder>),
    Shared(Box<Follower>),
}

impl WriteSide {
    /// A recorder with an empty state.
    pub(super) fn new(store: StoreChoice, clock: &Clock, cooldown: Cooldown, readiness: &Readiness) -> Self {
        match store {
            StoreChoice::Own { open, accepts_clock, ipv6_prefix } => {
                let (mut recorder, handle) = Recorder::new(clock.clone(), cooldown, readiness.clone(), open);
                recorder.set_ipv6_prefix(ipv6_prefix);
                if accepts_clock {
                    recorder.accept_clock();
                }
                Self { backend: Backend::Own(Box::new(recorder)), handle, cluster: None, helpers: Vec::new() }
            }
            StoreChoice::Shared { store, stale_max_ms, ipv6_prefix } => {
                let parts = Follower::parts(clock.clone(), cooldown, ipv6_prefix, readiness.clone());
                let freshness = Freshness { status: parts.recorder.status(), clock: clock.clone(), stale_max_ms };
                let cluster = Some(ClusterView { freshness, cooldown, ipv6_prefix });
                let helpers = helpers(store, parts.submitter, parts.door);
                Self { backend: Backend::Shared(Box::new(parts.recorder)), handle: parts.handle, cluster, helpers }
            }
        }
    }
}

impl Backend {
    /// What is viewed and counted.
    pub(super) fn live(&self) -> &LiveState {
        match self {
            Self::Own(recorder) => recorder.live(),
            Self::Shared(recorder) => recorder.live(),
        }
    }

    /// Reads the state and marks the service as ready. A demonstration's `seed` goes into a store of this
    /// process alone.
    pub(super) fn load(&mut self, seed: Vec<Command>) -> Result<(), StoreError> {
        match self {
            Self::Own(recorder) => recorder.load(seed),
            Self::Shared(recorder) => recorder.load(),
        }
    }

    /// Opens the store again, after [`Backend::run`] has closed it. A shared store was never closed.
    pub(super) fn reopen(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Own(recorder) => recorder.reopen(),
            Self::Shared(_) => Ok(()),
        }
    }

    /// Where commands go from now on, in place of the handles that were dropped; `None` for a shared
    /// store, as it is never handed over.
    pub(super) fn handle(&mut self) -> Option<RecorderHandle> {
        match self {
            Self::Own(recorder) => Some(recorder.handle()),
            Self::Shared(_) => None,
        }
    }

    /// Works until nobody can ask any more.
    pub(super) fn run(&mut self) {
        match self {
            Self::Own(recorder) => recorder.run(),
            Self::Shared(recorder) => recorder.run(),
        }
    }
}

fn helpers(store: Box<dyn SharedStore>, submitter: Submitter, door: FeedDoor) -> Vec<Helper> {
    let (decider, follow): (Box<dyn Decider>, _) = store.open(door);
    vec![(ThreadKind::Feed, follow), (ThreadKind::Submitter, Box::new(move || submitter.run(decider)))]
}
