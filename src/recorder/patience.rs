//! When a store that has failed is tried again. To open or write a large one again takes a while and reads
//! or writes all of it, so it is not tried with every vote; and a disk that is full is asked first, which
//! costs next to nothing, whether it has room.

use crate::clock::Now;
use crate::store::StoreError;

/// The pause after a failure, in microseconds. It doubles with each one that follows.
const PAUSE_US_MIN: u64 = 100_000;
/// The longest pause, in microseconds, unless a try takes longer than this.
const PAUSE_US_MAX: u64 = 30_000_000;
/// A failure follows another one unless the store has worked for so long in between, in microseconds.
const WELL_US: u64 = 10_000_000;
/// A full disk is asked so often whether it has room.
const ASK_PAUSE_US: u64 = 100_000;
/// A full disk is tried again after so many times what the last try took: 2 % of the time goes there.
const FULL_PAUSES: u64 = 50;
/// But not sooner than this, twice as long after each failure that follows, and not later than
/// that: a quota cannot be asked for, and what one large commit found no room for may fit in parts.
const FULL_PAUSE_US_MIN: u64 = 1_000_000;
/// See [`FULL_PAUSE_US_MIN`].
const FULL_PAUSE_US_MAX: u64 = 30_000_000;

/// What is known of a store that fails.
#[derive(Debug, Default)]
pub(super) struct Patience {
    /// Whether the last try failed: said once, not for every vote.
    pub(super) is_failing: bool,
    /// There was no room for a vote, and nothing says that there is more now: a commit without votes proves nothing.
    pub(super) is_as_full: bool,
    /// So many failures in a row.
    failures: u32,
    /// So often in a row there was no room.
    full: u32,
    /// When it last worked.
    well_at_us: u64,
    /// Not before this.
    ask_at_us: u64,
    /// Then at any rate.
    try_at_us: u64,
}

impl Patience {
    /// Whether to try now. `has_more_room` is asked at most every 100 ms.
    pub(super) fn may_try(&mut self, now: Now, has_more_room: impl FnOnce() -> bool) -> bool {
        let now_us = now.monotonic_us;
        let is_due = !self.is_failing || now_us >= self.try_at_us;
        if self.full == 0 || (!is_due && now_us < self.ask_at_us) {
            return is_due;
        }
        self.ask_at_us = now_us + ASK_PAUSE_US;
        let has_room = has_more_room();
        self.is_as_full &= !has_room;
        is_due || has_room
    }

    /// A try that began at `start` and ended at `end` went so.
    pub(super) fn note<T>(&mut self, outcome: &Result<T, StoreError>, start: Now, end: Now) {
        let took_us = end.monotonic_us - start.monotonic_us;
        let is_first = !self.is_failing && start.monotonic_us > self.well_at_us + WELL_US;
        self.is_failing = outcome.is_err();
        self.full = if matches!(outcome, Err(StoreError::Full(_))) { self.full + 1 } else { 0 };
        let doubled = |least_us: u64, times: u32, shift_max: u32| least_us << times.saturating_sub(1).min(shift_max);
        let pause_us = match outcome {
            Ok(_) => {
                self.well_at_us = end.monotonic_us;
                0
            }
            Err(StoreError::Full(_)) => {
                self.is_as_full = true;
                (FULL_PAUSES * took_us).max(doubled(FULL_PAUSE_US_MIN, self.full, 5)).min(FULL_PAUSE_US_MAX)
            }
            Err(_) => {
                self.failures = if is_first { 1 } else { self.failures + 1 };
                doubled(PAUSE_US_MIN, self.failures, 10).min(PAUSE_US_MAX).max(took_us)
            }
        };
        self.ask_at_us = end.monotonic_us + pause_us.min(ASK_PAUSE_US);
        self.try_at_us = end.monotonic_us + pause_us;
    }

    /// There is room for votes, in the store itself: expired ones have made it.
    pub(super) fn try_now(&mut self) {
        self.is_as_full = false;
        self.try_at_us = 0;
    }
}
