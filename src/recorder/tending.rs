//! What the recorder looks after beside votes: whether the store is still at its place, and whether
//! one that failed works again.

use super::Recorder;
use crate::clock::Now;
use crate::readiness::Trouble;
use crate::store::StoreError;

impl Recorder {
    /// To be called twice a second.
    pub(super) fn tend(&mut self, now: Now) {
        match self.store.as_mut().map(|store| store.tend()) {
            Some(Err(error)) => return self.note_gone(&error),
            Some(Ok(())) if self.is_store_gone => {
                self.is_store_gone = false;
                self.readiness.settle(Trouble::StoreGone);
                log::info!("the store is back at its path: votes and changes are taken again");
            }
            Some(Ok(())) | None => {}
        }
        // Votes find a store that works again, whether one came meanwhile or not.
        if self.patience.is_failing && self.may_try(now) {
            let committed = self.store().and_then(|store| store.commit(&[]));
            self.note_commit(&committed, now);
        }
    }

    /// No change is taken from here on, until the store is back at its place.
    pub(super) fn note_gone(&mut self, error: &StoreError) {
        self.is_store_gone = true;
        self.readiness.note(Trouble::StoreGone, &error.to_string(), self.clock.now().monotonic_ms);
    }
}
