//! A store that nodes share: Redis or Valkey. The second implementation of what the recorder needs.
//!
//! ```text
//! decider ─ calls ─→ functions in the store ─→ a ZSET for each server: the truth
//!                                          └─→ log ─→ feed ─→ the recorder's door
//! ```
//!
//! One primary, and replicas of it; a read never comes here.

use std::path::PathBuf;
use std::sync::Arc;

use crate::clock::Clock;
use crate::readiness::Readiness;
use crate::recorder::RecorderHandle;
use crate::vote::settings::Settings;

pub mod access;
pub mod address;
pub mod admin;
pub mod bulk_reader;
pub mod calls;
pub mod decider;
pub mod digest;
pub mod entry;
pub mod failure_log;
pub mod feed;
pub mod feed_error;
pub mod follower;
pub mod functions;
pub mod identity;
pub mod keys;
pub mod link;
pub mod mirror;
pub mod node;
pub mod offset;
pub mod peers;
pub mod preflight;
pub mod primary;
pub mod reason;
pub mod reoffer;
pub mod snapshot;
pub mod socket;
pub mod state;
pub mod status;
pub mod stream;
#[cfg(feature = "tls")]
pub mod tls;
pub mod view;
mod watched;
pub mod wire;

use address::StoreAddress;
use decider::StoreDecider;
use feed::Feed;
use follower::Follower;
use view::ClusterView;

/// A store's clock that goes back by no more than this is waited for, in microseconds (contract, "Time").
const STANDSTILL_MAX_US: i64 = 60_000_000;

/// The store that a node is to share, and how.
#[derive(Clone)]
pub struct RedisStore {
    /// Where it is.
    pub address: StoreAddress,
    /// A vote is confirmed once a replica holds it too; how long is waited for that, in milliseconds.
    pub confirm_ms: Option<u64>,
    /// Where the id of the store is kept over restarts.
    pub id_path: PathBuf,
    /// A node whose state is older than this, in milliseconds, is not ready.
    pub stale_max_ms: Option<u64>,
}

/// The parts of a node, before its threads are started.
pub struct Node {
    /// Owns the state.
    pub recorder: Follower,
    /// For the control service.
    pub handle: RecorderHandle,
    /// Where the node stands.
    pub view: Arc<ClusterView>,
    /// Follows the store's log. Ends with the recorder.
    pub feed: Box<dyn FnOnce() + Send>,
    /// Takes commands to the store. Ends with the last handle.
    pub submitter: Box<dyn FnOnce() + Send>,
}

impl RedisStore {
    /// A node on this store, which has these settings.
    #[must_use]
    pub fn open(self, clock: &Clock, settings: Settings, readiness: Readiness) -> Node {
        let Self { address, confirm_ms, id_path, stale_max_ms } = self;
        let (recorder, submitter, door, handle) = Follower::parts(clock.clone(), settings, readiness, stale_max_ms);
        let view = ClusterView { status: recorder.status(), clock: clock.clone(), settings };
        let mut decider = StoreDecider::new(address.clone(), door.clone(), confirm_ms);
        let feed = Feed::new(address, door, id_path);
        Node {
            recorder,
            handle,
            view: Arc::new(view),
            feed: Box::new(|| feed.run()),
            submitter: Box::new(move || submitter.run(|commands| decider.decide(commands))),
        }
    }
}
