//! Where the service stands between start and stop.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// Where the service stands between start and stop. Shared by all threads.
#[derive(Clone, Default)]
pub struct Readiness(Arc<State>);

#[derive(Default)]
struct State {
    /// Of the flags below, those that hold.
    flags: AtomicU8,
    loaded_rows: AtomicU64,
}

const LOADED: u8 = 1;
const STOPPING: u8 = 2;
const SUCCEEDED: u8 = 4;

impl Readiness {
    /// Progress of the load: `rows` more have been read.
    pub fn add_loaded_rows(&self, rows: u64) {
        self.0.loaded_rows.fetch_add(rows, Ordering::Relaxed);
    }

    /// How many rows of the store have been read since the start.
    #[must_use]
    pub fn loaded_rows(&self) -> u64 {
        self.0.loaded_rows.load(Ordering::Relaxed)
    }

    /// The state is loaded: answers are true from now on.
    pub fn set_ready(&self) {
        self.0.flags.fetch_or(LOADED, Ordering::AcqRel);
    }

    /// The service is going away; what is asked until then is still answered.
    pub fn set_stopping(&self) {
        self.0.flags.fetch_or(STOPPING, Ordering::AcqRel);
    }

    /// Another process records from now on: what is known here is no longer all.
    pub fn set_succeeded(&self) {
        self.0.flags.fetch_or(SUCCEEDED, Ordering::AcqRel);
    }

    /// Whether the state is loaded, and the truth.
    #[must_use]
    #[inline]
    pub fn is_loaded(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & (LOADED | SUCCEEDED) == LOADED
    }

    /// Whether a load balancer should send requests here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) == LOADED
    }

    /// Whether the service is going away.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.0.flags.load(Ordering::Acquire) & STOPPING != 0
    }
}

#[cfg(test)]
mod tests {
    use super::Readiness;

    #[test]
    fn a_stop_during_the_load_makes_nothing_known() {
        let readiness = Readiness::default();
        readiness.set_stopping();
        assert!(readiness.is_stopping() && !readiness.is_loaded() && !readiness.is_ready());
        readiness.set_ready();
        assert!(readiness.is_stopping() && readiness.is_loaded() && !readiness.is_ready());
    }

    #[test]
    fn what_a_successor_records_is_not_known() {
        let readiness = Readiness::default();
        readiness.set_ready();
        assert!(readiness.is_ready() && readiness.is_loaded());
        readiness.set_succeeded();
        assert!(!readiness.is_ready() && !readiness.is_loaded());
    }
}
