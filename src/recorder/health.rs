//! How the store is, as far as the recorder knows, and when one that has failed is tried again.
//!
//! To open or write a large store again takes a while and reads or writes all of it, so it is not tried with every vote. A
//! disk that is full is asked first, which costs next to nothing, whether it has room.

use super::Recorder;
use crate::clock::Now;
use crate::readiness::{Trouble, Work};
use crate::store::{RoomLeft, StoreError};

/// The pause after a failure, in microseconds. It doubles with each one that follows.
const PAUSE_US_MIN: u64 = 100_000;
/// The pause after a failure for want of room, in microseconds. It doubles too: a quota cannot be asked for, and what one
/// large commit found no room for may fit in parts.
const FULL_PAUSE_US_MIN: u64 = 1_000_000;
/// The longest pause, in microseconds, unless a try takes longer than this.
const PAUSE_US_MAX: u64 = 30_000_000;
/// A full disk is tried again after so many times what the last try took, at most: 2 % of the time goes there.
const FULL_PAUSES: u64 = 50;
/// A failure follows another one unless the store has worked for so long since, in microseconds.
const WELL_US: u64 = 10_000_000;
/// A full disk is asked so often whether it has room, in microseconds.
const ASK_PAUSE_US: u64 = 100_000;

/// Whether the store takes changes. Whether its file counts, the store itself knows: see [`Store::is_void`].
///
/// [`Store::is_void`]: crate::store::Store::is_void
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreHealth {
    /// It takes changes, since so many microseconds of the monotonic clock. A failure soon after that goes on from the last.
    Well { since_us: u64, last: Retry },
    /// The last change failed.
    Failing(Retry),
    /// Its file is no longer at its path.
    Gone,
}

impl Default for StoreHealth {
    fn default() -> Self {
        Self::Well { since_us: 0, last: Retry::default() }
    }
}

/// When to try again.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Retry {
    /// So many failures in a row.
    failures: u32,
    /// By the monotonic clock, in microseconds.
    at_us: u64,
    /// Whether there was no room. Then a change without votes proves nothing: while the disk says that little is left, only
    /// votes are tried.
    is_full: bool,
    /// The disk is asked not before this.
    ask_at_us: u64,
}

impl Retry {
    /// After a try that began at `start` and failed at `end`.
    pub(super) fn after(self, error: &StoreError, start: Now, end: Now) -> Self {
        let (took_us, now_us) = (end.monotonic_us - start.monotonic_us, end.monotonic_us);
        let is_full = matches!(error, StoreError::Full(_));
        let least_us = if is_full { FULL_PAUSE_US_MIN } else { PAUSE_US_MIN };
        let doubled_us = (least_us << self.failures.min(10)).min(PAUSE_US_MAX);
        let pause_us =
            if is_full { doubled_us.max(FULL_PAUSES * took_us).min(PAUSE_US_MAX) } else { doubled_us.max(took_us) };
        let ask_at_us = now_us + pause_us.min(ASK_PAUSE_US);
        Self { failures: self.failures + 1, at_us: now_us + pause_us, is_full, ask_at_us }
    }

    /// Whether to try now. The disk is asked for its room at most every 100 ms.
    pub(super) fn is_due(&mut self, now: Now, has_votes: bool, room: impl FnOnce() -> RoomLeft) -> bool {
        let now_us = now.monotonic_us;
        if self.is_full && now_us >= self.ask_at_us {
            self.ask_at_us = now_us + ASK_PAUSE_US;
            match room() {
                RoomLeft::Little => {}
                RoomLeft::Unchanged => self.is_full = now_us < self.at_us,
                RoomLeft::More => self.has_room(),
            }
        }
        now_us >= self.at_us && (has_votes || !self.is_full)
    }

    /// Whether there was no room.
    pub(super) const fn is_full(self) -> bool {
        self.is_full
    }

    /// There is room: expired votes have made it in the store itself.
    pub(super) const fn has_room(&mut self) {
        if self.is_full {
            (self.is_full, self.at_us) = (false, 0);
        }
    }
}

impl Recorder {
    /// Whether a change may be tried now.
    pub(super) fn may_write(&mut self, has_votes: bool) -> bool {
        let (now, store) = (self.clock.now(), &self.store);
        match &mut self.health {
            StoreHealth::Well { .. } => true,
            StoreHealth::Gone => false,
            StoreHealth::Failing(retry) => {
                retry.is_due(now, has_votes, || store.as_ref().map_or(RoomLeft::More, |store| store.room()))
            }
        }
    }

    /// A change went so.
    pub(super) fn note_outcome(&mut self, outcome: &Result<(), StoreError>, start: Now) {
        let end = self.clock.now();
        match outcome {
            Ok(()) => self.note_well(end),
            Err(error) => {
                self.live.counters.commit_failures.add(1);
                self.note_failure(error, start, end);
            }
        }
    }

    fn note_well(&mut self, now: Now) {
        let last = match self.health {
            StoreHealth::Well { .. } => return,
            StoreHealth::Failing(retry) => retry,
            StoreHealth::Gone => Retry::default(),
        };
        self.health = StoreHealth::Well { since_us: now.monotonic_us, last };
        self.readiness.clear(Trouble::StoreFailing);
        self.readiness.clear(Trouble::StoreGone);
        self.readiness.clear(Trouble::StoreInUse);
        log::info!("the store works again: votes and changes are taken");
    }

    pub(super) fn note_failure(&mut self, error: &StoreError, start: Now, end: Now) {
        if matches!(error, StoreError::Gone(_)) {
            self.health = StoreHealth::Gone;
            self.readiness.note(Trouble::StoreGone, &error.to_string(), end.monotonic_ms);
            return;
        }
        let before = match self.health {
            StoreHealth::Failing(retry) => retry,
            // A store that fails again and again, with successes in between, is tried as seldom as one that only fails.
            StoreHealth::Well { since_us, last } if start.monotonic_us < since_us + WELL_US => last,
            StoreHealth::Well { .. } | StoreHealth::Gone => Retry::default(),
        };
        self.health = StoreHealth::Failing(before.after(error, start, end));
        let message = format!("{error}; until it works again votes and changes are answered 503");
        let is_in_use = matches!(error, StoreError::InUse(_));
        let (trouble, other) = match is_in_use {
            true => (Trouble::StoreInUse, Trouble::StoreFailing),
            false => (Trouble::StoreFailing, Trouble::StoreInUse),
        };
        self.readiness.clear(other);
        self.readiness.note(trouble, &message, end.monotonic_ms);
    }

    /// Looks after the store: whether it is still at its path, and whether one that failed works again. To be called twice
    /// a second.
    pub(super) fn tend(&mut self, now: Now) {
        self.readiness.begin(Work::Upkeep, now.monotonic_ms);
        let looked = self.store.as_mut().map_or(Ok(()), |store| store.tend());
        self.readiness.end();
        match (looked, &self.health) {
            (Err(error @ StoreError::Gone(_)), _) => self.note_failure(&error, now, now),
            (Err(error), StoreHealth::Well { .. }) => self.note_failure(&error, now, self.clock.now()),
            (Ok(()), StoreHealth::Gone) => {
                self.health = StoreHealth::Failing(Retry::default());
                self.readiness.clear(Trouble::StoreGone);
                log::info!("the store is back at its path");
            }
            (Ok(()) | Err(_), _) => {}
        }
        // Votes find a store that works again, whether one came meanwhile or not.
        if (!matches!(self.health, StoreHealth::Well { .. }) || self.is_store_void()) && self.may_write(false) {
            let _told = self.write(&[], self.lines.note());
        }
    }

    /// Whether the store is to be written anew, which [`Recorder::write`] does.
    pub(super) fn is_store_void(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_void())
    }
}
