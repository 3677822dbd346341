//! A store that nodes share: Redis or Valkey. The second implementation of what the recorder needs.
//!
//! ```text
//! decider ─ calls ─→ functions in the store ─→ a ZSET for each server: the truth
//!                                          └─→ log ─→ feed ─→ the recorder's door
//! ```
//!
//! One primary, and replicas of it; a read never comes here.

use std::path::PathBuf;

use crate::recorder::follower::FeedDoor;
use crate::recorder::follower::submitter::Decider;

pub mod access;
pub mod address;
pub mod admin;
pub mod bulk_reader;
pub mod calls;
pub mod decider;
pub mod entry;
pub mod failure_log;
pub mod feed;
pub mod feed_error;
pub mod functions;
pub mod identity;
pub mod keys;
pub mod link;
pub mod mirror;
pub mod offer;
pub mod offset;
pub mod peers;
pub mod primary;
pub mod reoffer;
pub mod snapshot;
pub mod socket;
pub mod stream;
#[cfg(feature = "tls")]
pub mod tls;

use address::StoreAddress;
use decider::StoreDecider;
use feed::Feed;

/// Votes are held by so many replicas before they count as confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirmation {
    /// How many; at least one.
    pub replicas: u32,
    /// How long is waited for them, in milliseconds; at least one.
    pub wait_ms: u64,
}

/// The store, before it is started.
pub struct RedisStore {
    /// Where it is.
    pub address: StoreAddress,
    /// What confirms a vote besides the primary.
    pub confirmation: Option<Confirmation>,
    /// Where the id of the store is kept over restarts.
    pub id_path: PathBuf,
}

impl RedisStore {
    /// The decider, and the work of the feed: see [`OpenSharedStore`](crate::recorder::follower::OpenSharedStore).
    #[must_use]
    pub fn open(self, door: FeedDoor) -> (Box<dyn Decider>, Box<dyn FnOnce() + Send>) {
        let decider = StoreDecider::new(self.address.clone(), door.clone(), self.confirmation);
        let feed = Feed::new(self.address, door, self.id_path);
        (Box::new(decider), Box::new(|| feed.run()))
    }
}
