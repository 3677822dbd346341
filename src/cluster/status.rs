//! Where a node stands with the store that it shares with others, and what is counted of it. Each
//! number has one writer; everybody may read.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::entry::Position;
use super::failure_log::FailureLog;
use super::reason::{Reason, RebuildCause};
use crate::metrics::Counter;

/// A process that does nothing for so long, in milliseconds, was paused: by its machine, or by a signal.
const PAUSE_MAX_MS: u64 = 1_000;
/// What was sent to it meanwhile has been read after so long, in milliseconds.
const WAKING_MS: u64 = 250;

/// Where a node stands with its store.
#[derive(Debug, Default)]
pub struct SharedStatus {
    /// The store that is followed; set at the first load and never again.
    pub store: OnceLock<String>,
    is_following: AtomicBool,
    /// The history of the store to which this node owes nothing: see [`SharedStatus::settle`].
    settled: Mutex<Option<String>>,
    /// How far the table has come; the recorder's to say. One value, read whole: its parts say nothing without each
    /// other.
    pub position: Mutex<Position>,
    /// The store's clock minus the monotonic clock, in microseconds; the recorder's to say, once it goes by it.
    pub clock_offset_us: AtomicI64,
    /// When the recorder was last seen to work, in milliseconds of the monotonic clock, and when that was after a pause.
    alive_ms: AtomicU64,
    resumed_ms: AtomicU64,
    /// When everything that the store knew was in the state or on the way to the recorder, in microseconds of the
    /// monotonic clock. The feed writes this and all that follow, up to `unconfirmed`.
    pub fresh_at_us: Counter,
    /// How often the state was read whole, by the order of [`RebuildCause::ALL`].
    pub rebuilds: [Counter; RebuildCause::ALL.len()],
    /// How many histories of the store the feed has met: each may lack votes of the one before.
    pub history: Counter,
    /// The newest entry's number when it was last asked for.
    pub head_n: Counter,
    /// Entries that were passed on to the recorder.
    pub events: Counter,
    /// Entries whose number was not the next one.
    pub gaps: Counter,
    /// Entries of the log that another program wrote.
    pub strange: Counter,
    /// Recent votes that the store had lost and took again.
    pub restored: Counter,
    /// Votes and servers that the store has lost and has neither taken back nor refused yet.
    pub owed: Counter,
    /// Those that it refused: cancelled, voted again, or of a server that is gone.
    pub not_restored: Counter,
    /// Failures of the feed's connection.
    pub feed_failures: Counter,
    /// Connections that the feed has made. When this rises the submitter connects anew as well.
    pub connections: Counter,
    /// Time that the store took to answer last, in microseconds.
    pub round_trip_us: Counter,
    /// Votes taken that too few replicas had confirmed in time. Written by the submitter, as is the next.
    pub unconfirmed: Counter,
    /// Failures of the submitter's connection.
    pub submitter_failures: Counter,
    /// Why the log is not followed.
    pub feed_reason: FailureLog,
    /// Why votes are refused, at the last one that was.
    pub votes_reason: FailureLog,
    /// Why the feed wants no votes to be sent, whatever the submitter thinks.
    pub barrier: FailureLog,
}

impl SharedStatus {
    /// Whether the feed is connected and what it brings is believed.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.is_following.load(Ordering::Acquire)
    }

    /// See [`SharedStatus::is_following`].
    pub fn set_following(&self, is_following: bool) {
        self.is_following.store(is_following, Ordering::Release);
    }

    /// The feed has read the state of a store with this history, and what it knew and the store had
    /// lost is given back. Until then no vote may be sent there: one that was lost would be taken again.
    pub fn settle(&self, history: &str) {
        *self.settled.lock() = Some(history.to_owned());
    }

    /// The store may have lost something.
    pub fn unsettle(&self) {
        *self.settled.lock() = None;
    }

    /// Whether votes may be sent to a store with this history.
    #[must_use]
    pub fn is_settled(&self, history: &str) -> bool {
        self.settled.lock().as_deref() == Some(history)
    }

    /// Why votes are refused at this moment, or were at the last one that was; `None` where they are taken.
    #[must_use]
    pub fn refusal(&self) -> Option<(Reason, String)> {
        if let Some(barred) = self.barrier.get() {
            return Some(barred);
        }
        let is_settled = self.settled.lock().is_some();
        if self.is_following() && is_settled {
            return self.votes_reason.get();
        }
        // Votes wait for the feed, so the feed's trouble is the reason.
        let waiting = || (Reason::Unsettled, "votes wait until this node follows the store again".to_owned());
        Some(self.feed_reason.get().or_else(|| self.votes_reason.get()).unwrap_or_else(waiting))
    }

    /// How old the state may be at this moment, in microseconds.
    #[must_use]
    pub fn staleness_us(&self, monotonic_us: u64) -> u64 {
        monotonic_us.saturating_sub(self.fresh_at_us.get())
    }

    /// The recorder works, as it does many times a second: if it did not for long, nothing of this process did.
    pub(super) fn set_alive(&self, now_ms: u64) {
        let before_ms = self.alive_ms.swap(now_ms, Ordering::Relaxed);
        if before_ms > 0 && now_ms > before_ms + PAUSE_MAX_MS {
            log::warn!(
                "this process stood still for {} ms: changes that were sent meanwhile are answered 503",
                now_ms - before_ms
            );
            self.resumed_ms.store(now_ms, Ordering::Relaxed);
        }
    }

    /// Whether this process stands still, or did a moment ago: what is read now may have been sent long before, by
    /// callers that have gone elsewhere since.
    pub(super) fn is_waking(&self, now_ms: u64) -> bool {
        let [alive_ms, resumed_ms] = [&self.alive_ms, &self.resumed_ms].map(|at| at.load(Ordering::Relaxed));
        alive_ms > 0 && now_ms > alive_ms + PAUSE_MAX_MS || resumed_ms > 0 && now_ms < resumed_ms + WAKING_MS
    }

    /// Entries that the store had when it was last asked and the table has not.
    #[must_use]
    pub fn lag_events(&self) -> u64 {
        self.head_n.get().saturating_sub(self.position.lock().n)
    }
}
