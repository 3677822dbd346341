//! The health of the store as the recorder knows it, and when the recorder retries a store that has failed.
//!
//! Opening or writing anew a large store reads or writes all of it, so the recorder does not retry with every vote. On
//! a full disk it first asks for the free room, which costs next to nothing.

use super::Recorder;
use crate::clock::Now;
use crate::readiness::{Trouble, Work};
use crate::store::{RoomLeft, StoreError};

/// The pause after the first failure, in microseconds. It doubles with each further failure.
const PAUSE_US_MIN: u64 = 100_000;
/// The pause after the first failure on a full disk, in microseconds. It doubles too. The recorder retries even without
/// more room: the free room shows no quota, and a commit that did not fit may fit in parts.
const FULL_PAUSE_US_MIN: u64 = 1_000_000;
/// The longest pause between two tries, in microseconds. Unless the disk is full, a try that took longer is followed by
/// a pause of its own length.
const PAUSE_US_MAX: u64 = 30_000_000;
/// On a full disk, the pause is at least this multiple of the last try's duration, so that tries take 2 % of the time.
/// [`PAUSE_US_MAX`] bounds it.
const FULL_PAUSES: u64 = 50;
/// How long the store must work before a failure begins the pauses anew, in microseconds.
const WELL_US: u64 = 10_000_000;
/// The pause between two checks for room on a full disk, in microseconds.
const ASK_PAUSE_US: u64 = 100_000;

/// Whether the store takes changes. The store itself knows whether its file counts: see [`Store::is_void`].
///
/// [`Store::is_void`]: crate::store::Store::is_void
#[derive(Clone, Copy, Debug)]
pub(super) enum StoreHealth {
    /// The store has taken changes since this time of the monotonic clock. A failure soon after it continues from `last`.
    Well { since_us: u64, last: Retry },
    /// The last change failed.
    Failing(Retry),
    /// The store's file is no longer at its path.
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
    /// Failures in a row.
    failures: u32,
    /// The time of the next try, in microseconds of the monotonic clock.
    at_us: u64,
    /// Whether the last try found no room. A change without votes then proves nothing, so the recorder tries only votes
    /// while the disk has little room.
    is_full: bool,
    /// The earliest time of the next check for room, in microseconds of the monotonic clock.
    ask_at_us: u64,
}

impl Retry {
    /// The retry after a try that began at `start` and failed at `end`.
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

    /// Whether to try now. Checks the disk's room at most every 100 ms.
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

    /// Whether the last try found no room.
    pub(super) const fn is_full(self) -> bool {
        self.is_full
    }

    /// Notes that there is room again: on the disk, or in the store itself where expired votes were dropped.
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

    /// Notes the outcome of a change that began at `start`.
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

    /// Checks whether the store is still at its path, and whether a store that failed works again. To be called twice a second.
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
        // The recorder retries without votes too, so that the next vote finds a store that works again.
        if (!matches!(self.health, StoreHealth::Well { .. }) || self.is_store_void()) && self.may_write(false) {
            let _told = self.write(&[], self.lines.note());
        }
    }

    /// Whether the store is to be written anew, which [`Recorder::write`] does.
    pub(super) fn is_store_void(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_void())
    }
}

#[cfg(test)]
mod tests {
    use super::Retry;
    use crate::clock::Now;
    use crate::store::{RoomLeft, StoreError};
    use crate::vote::time::UnixSeconds;

    fn at(monotonic_us: u64) -> Now {
        Now { monotonic_ms: monotonic_us / 1_000, monotonic_us, wall: UnixSeconds(1_800_000_000) }
    }

    /// The pauses after failures in a row that took `took_us` each.
    fn pauses(error: &StoreError, took_us: u64) -> Vec<u64> {
        let mut retry = Retry::default();
        let pauses = (0..12).map(|_| {
            retry = retry.after(error, at(1_000_000), at(1_000_000 + took_us));
            retry.at_us - (1_000_000 + took_us)
        });
        pauses.collect()
    }

    #[test]
    fn pauses_double_up_to_their_bounds_and_are_no_shorter_than_tries() {
        let (failed, full) = (StoreError::Unavailable("no sync".into()), StoreError::Full("no room".into()));
        let doubled = |least: u64| (0..12).map(|times| (least << times).min(30_000_000)).collect::<Vec<_>>();
        assert_eq!(pauses(&failed, 0), doubled(100_000));
        assert_eq!(pauses(&failed, 3_000_000)[..6], [3_000_000, 3_000_000, 3_000_000, 3_000_000, 3_000_000, 3_200_000]);
        assert_eq!(pauses(&failed, 40_000_000), [40_000_000; 12]);
        assert_eq!(pauses(&full, 0), doubled(1_000_000));
        assert_eq!(pauses(&full, 100_000)[..4], [5_000_000, 5_000_000, 5_000_000, 8_000_000]);
        assert_eq!(pauses(&full, 40_000_000), [30_000_000; 12]);
    }

    /// On a full disk the first pause is one second, and the disk is asked for room every 100 ms.
    #[test]
    fn on_a_full_disk_votes_are_tried_after_a_pause_and_the_rest_once_there_is_room() {
        let full = StoreError::Full("no room".into());
        let (failed_at, pause_us, ask_us) = (5_000_000, 1_000_000, 100_000);
        let failed = || Retry::default().after(&full, at(failed_at), at(failed_at));
        // Asks at an instant after the failure, with votes or without, where the disk says this.
        let asked = |retry: &mut Retry, after_us, has_votes, said: RoomLeft| {
            let mut is_asked = false;
            let is_due = retry.is_due(at(failed_at + after_us), has_votes, || {
                is_asked = true;
                said
            });
            (is_due, is_asked)
        };
        let mut retry = failed();
        assert!(retry.is_full());
        assert_eq!(asked(&mut retry, ask_us - 1, true, RoomLeft::More), (false, false));
        assert_eq!(asked(&mut retry, ask_us, true, RoomLeft::Little), (false, true));
        assert_eq!(asked(&mut retry, 2 * ask_us - 1, true, RoomLeft::More), (false, false));
        assert_eq!(asked(&mut retry, 2 * ask_us, true, RoomLeft::More), (true, true));
        assert!(!retry.is_full());

        let mut retry = failed();
        assert_eq!(asked(&mut retry, pause_us - 1, true, RoomLeft::Little), (false, true));
        assert_eq!(asked(&mut retry, pause_us, false, RoomLeft::Little), (false, false), "nothing but votes is tried");
        assert_eq!(asked(&mut retry, pause_us, true, RoomLeft::Little), (true, false));
        assert_eq!(asked(&mut retry, pause_us + ask_us - 2, false, RoomLeft::Little), (false, false));
        assert_eq!(asked(&mut retry, pause_us + ask_us - 1, false, RoomLeft::Unchanged), (true, true));
        assert!(!retry.is_full(), "the pause is over, and no other writer has taken room");

        let mut retry = failed();
        assert_eq!(asked(&mut retry, pause_us - ask_us, false, RoomLeft::Little), (false, true));
        assert_eq!(asked(&mut retry, pause_us, false, RoomLeft::Unchanged), (true, true), "the pause is just over");

        let mut retry = failed();
        assert_eq!(asked(&mut retry, pause_us - 1, false, RoomLeft::Unchanged), (false, true));
        assert!(retry.is_full(), "the pause is not over");
        retry.has_room();
        assert_eq!(asked(&mut retry, 0, false, RoomLeft::Little), (true, false));
        // A store that failed otherwise is tried after its pause, and nothing is asked.
        let mut retry =
            Retry::default().after(&StoreError::Unavailable("no sync".into()), at(failed_at), at(failed_at));
        retry.has_room();
        assert_eq!(asked(&mut retry, 100_000 - 1, false, RoomLeft::More), (false, false));
        assert_eq!(asked(&mut retry, 100_000, false, RoomLeft::More), (true, false));
    }
}
