//! Callers that go on until they are told to stop, and their shared notes. Does not know what the callers do.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{JoinHandle, spawn};

/// The work that a caller repeats. All callers share one place for their notes.
pub(crate) type Caller<Tally> = Box<dyn FnMut(&Notes<Tally>) + Send>;

/// Callers at work. They stop with a test that fails.
#[derive(Debug)]
pub(crate) struct Load<Tally> {
    notes: Arc<Notes<Tally>>,
    callers: Vec<JoinHandle<()>>,
}

/// The notes of all callers.
#[derive(Debug, Default)]
pub(crate) struct Notes<Tally> {
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

impl<Tally> Notes<Tally> {
    /// Locks the notes, to read or to add.
    pub(crate) fn open(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("a caller failed")
    }
}

impl<Tally: Clone + Default + Send + 'static> Load<Tally> {
    /// Starts callers, each on a thread of its own.
    pub(crate) fn start(callers: impl IntoIterator<Item = Caller<Tally>>) -> Load<Tally> {
        let notes: Arc<Notes<Tally>> = Arc::default();
        let start = |mut caller: Caller<Tally>| {
            let notes = Arc::clone(&notes);
            spawn(move || {
                while !notes.is_over.load(Ordering::Relaxed) {
                    caller(&notes);
                }
            })
        };
        let callers = callers.into_iter().map(start).collect();
        Load { notes, callers }
    }

    /// The notes so far.
    pub(crate) fn known(&self) -> MutexGuard<'_, Tally> {
        self.notes.open()
    }

    /// Lets the callers finish their current work, and gives the notes.
    pub(crate) fn stop(mut self) -> Tally {
        self.notes.is_over.store(true, Ordering::Relaxed);
        for caller in self.callers.drain(..) {
            caller.join().expect("a caller failed");
        }
        self.known().clone()
    }
}

impl<Tally> Drop for Load<Tally> {
    fn drop(&mut self) {
        self.notes.is_over.store(true, Ordering::Relaxed);
    }
}
