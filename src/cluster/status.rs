//! A node's standing with the shared store, and its counters. The recorder writes them, any thread may read them.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use parking_lot::Mutex;

use super::entry::EntryId;
use super::failure_log::FailureLog;
use super::link::refusal;
use super::reason::{Reason, RebuildCause};
use crate::metrics::Counter;

/// Where a node stands with its store.
#[derive(Debug, Default)]
pub struct NodeStatus {
    /// The id of the store that the node follows; set once.
    pub store: OnceLock<String>,
    is_following: AtomicBool,
    /// Why the machine would refuse a change at this moment, in its words.
    refusal: Mutex<Option<String>>,
    /// How far the log was read. The two parts are one value, read together: neither says anything alone.
    position: Mutex<(u64, EntryId)>,
    /// The store's clock minus the monotonic clock, in microseconds.
    clock_offset_us: AtomicI64,
    /// The time at which the state held everything that the store knew, in microseconds of the monotonic clock.
    pub fresh_at_us: Counter,
    /// The number of whole readings of the state, by the order of [`RebuildCause::ALL`].
    pub rebuilds: [Counter; RebuildCause::ALL.len()],
    /// The number of the log's newest entry, at the last answer.
    pub head_n: Counter,
    /// Entries of the log that have come.
    pub events: Counter,
    /// Entries of the log that another program wrote.
    pub strange: Counter,
    /// Facts that the store had lost and has taken back.
    pub restored: Counter,
    /// Facts that the store has lost and has neither taken back nor refused yet.
    pub owed: Counter,
    /// Lost facts that the store refused: it has facts that outweigh them, or they are over.
    pub not_restored: Counter,
    /// Failures of the feed's connection.
    pub feed_failures: Counter,
    /// Time that the store took to answer last, in microseconds.
    pub round_trip_us: Counter,
    /// Votes taken that too few replicas had confirmed in time.
    pub unconfirmed: Counter,
    /// Failures of the votes' connection.
    pub submitter_failures: Counter,
    /// Why the log is not followed.
    pub feed_reason: FailureLog,
    /// Why the last refused vote was refused.
    pub votes_reason: FailureLog,
    /// Why no vote may be sent to the primary.
    pub barrier: FailureLog,
}

impl NodeStatus {
    /// Whether the log is followed.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.is_following.load(Ordering::Acquire)
    }

    /// See [`NodeStatus::is_following`].
    pub(super) fn set_following(&self, is_following: bool) {
        self.is_following.store(is_following, Ordering::Release);
    }

    /// How far the log was read: the entry's number and its name.
    #[must_use]
    pub fn position(&self) -> (u64, EntryId) {
        *self.position.lock()
    }

    pub(super) fn set_position(&self, n: u64, id: EntryId) {
        *self.position.lock() = (n, id);
    }

    /// The store's clock minus the monotonic clock, in microseconds.
    #[must_use]
    pub fn clock_offset_us(&self) -> i64 {
        self.clock_offset_us.load(Ordering::Relaxed)
    }

    pub(super) fn set_clock_offset(&self, offset_us: i64) {
        self.clock_offset_us.store(offset_us, Ordering::Relaxed);
    }

    pub(super) fn set_refusal(&self, refusal: Option<String>) {
        *self.refusal.lock() = refusal;
    }

    /// Why votes are refused at this moment, or why the last refused vote was; `None` if votes are taken.
    #[must_use]
    pub fn refusal(&self) -> Option<(Reason, String)> {
        if let Some(barred) = self.barrier.get() {
            return Some(barred);
        }
        let now = self.refusal.lock().clone();
        let Some(now) = now else { return self.votes_reason.get() };
        // Votes wait for the feed, so the feed's trouble is the reason.
        let told = self.feed_reason.get().or_else(|| self.votes_reason.get());
        Some(told.unwrap_or_else(|| (refusal(&now), now)))
    }

    /// The greatest possible age of the state at this moment, in microseconds.
    #[must_use]
    pub fn staleness_us(&self, monotonic_us: u64) -> u64 {
        monotonic_us.saturating_sub(self.fresh_at_us.get())
    }

    /// The number of entries that the store had at its last answer and the table lacks.
    #[must_use]
    pub fn lag_events(&self) -> u64 {
        self.head_n.get().saturating_sub(self.position().0)
    }
}
