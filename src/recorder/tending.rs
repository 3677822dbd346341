//! The recorder looks after the store: whether it is still at its path, and whether one that failed works again.

use super::Recorder;
use crate::clock::Now;
use crate::readiness::Trouble;
use crate::store::StoreError;

impl Recorder {
    /// To be called twice a second.
    pub(super) fn tend(&mut self, now: Now) {
        match self.store.as_mut().map(|store| store.tend()) {
            Some(Err(error @ StoreError::Gone(_))) => return self.note_gone(&error),
            Some(Err(error)) if !self.patience.is_failing => return self.note_commit(&Err(error), now),
            Some(Ok(())) if self.is_store_gone() => {
                self.readiness.clear(Trouble::StoreGone);
                log::info!("the store is back at its path: votes and changes are taken again");
            }
            Some(Ok(()) | Err(_)) | None => {}
        }
        // Votes find a store that works again, whether one came meanwhile or not.
        let is_due = if self.patience.is_failing || self.is_store_void() {
            self.may_try(now)
        } else if self.readiness.has(Trouble::StoreFailing) {
            // A commit without votes has worked, which says nothing of room for votes.
            self.patience.is_as_full &= !self.store.as_ref().is_some_and(|store| store.has_more_room());
            !self.patience.is_as_full
        } else {
            false
        };
        if is_due {
            let _told = self.write(Vec::new());
        }
    }

    pub(super) fn may_try(&mut self, now: Now) -> bool {
        let store = &self.store;
        self.patience.may_try(now, || store.as_ref().is_none_or(|store| store.has_more_room()))
    }

    /// A commit went so, or a look at the store. Where no vote was in it and there was no room for the last one, its
    /// success does not end the trouble.
    pub(super) fn note_commit(&mut self, committed: &Result<(), StoreError>, start: Now) {
        if let Err(error @ StoreError::Gone(_)) = committed {
            self.live.counters.commit_failures.add(1);
            return self.note_gone(error);
        }
        let now = self.clock.now();
        let is_proof = !self.owed.is_empty() || !self.patience.is_as_full;
        self.patience.note(committed, start, now);
        self.live.counters.commit_failures.add(u64::from(committed.is_err()));
        self.live.counters.store_failing.set(u64::from(self.is_store_failing()));
        match committed {
            Err(error) => {
                let message = format!("{error}; until it works again votes and changes are answered 503");
                self.readiness.note(Trouble::StoreFailing, &message, now.monotonic_ms);
            }
            Ok(()) if is_proof && self.readiness.has(Trouble::StoreFailing) => {
                self.patience.is_as_full = false;
                self.readiness.clear(Trouble::StoreFailing);
                log::info!("the store works again");
            }
            Ok(()) => {}
        }
    }

    /// Whether the store is to be written anew, which commits do.
    pub(super) fn is_store_void(&self) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_void())
    }

    pub(super) fn is_store_failing(&self) -> bool {
        self.patience.is_failing || self.drop_patience.is_failing
    }

    /// Says once that votes cannot be dropped, and once that they can be again.
    pub(super) fn say_dropped(&self, was_failing: bool, error: Option<&StoreError>) {
        match error {
            Some(error) if !was_failing => {
                log::error!("{error}; until it works again expired votes stay on disk");
            }
            None if was_failing && !self.is_store_failing() => log::info!("the store works again"),
            _ => {}
        }
        self.live.counters.store_failing.set(u64::from(self.is_store_failing()));
    }

    /// Whether the store's file is no longer at its path: no change is taken until it is back there.
    pub(super) fn is_store_gone(&self) -> bool {
        self.readiness.has(Trouble::StoreGone)
    }

    pub(super) fn note_gone(&self, error: &StoreError) {
        self.readiness.note(Trouble::StoreGone, &error.to_string(), self.clock.now().monotonic_ms);
    }
}
