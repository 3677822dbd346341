//! Lines on their way to standard error: a bounded queue and the one thread that may wait for
//! whoever reads them. It knows neither what a line says nor how it is spelled.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::thread::Builder;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::limits::{LOG_FLUSH_MS, LOG_QUEUE_MAX};
use crate::metrics::SharedCounter;

/// The queue. Cheap to clone; all clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    lane: Arc<Lane>,
}

#[derive(Debug, Default)]
struct Lane {
    state: Mutex<QueueState>,
    changed: Condvar,
    dropped: Arc<SharedCounter>,
}

#[derive(Debug, Default)]
struct QueueState {
    /// At most [`LOG_QUEUE_MAX`].
    waiting: VecDeque<Vec<u8>>,
    is_writing: bool,
}

impl LogQueue {
    /// A queue that is written to standard error from here on.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub(super) fn start() -> io::Result<Self> {
        let lane = Arc::<Lane>::default();
        let writing = Arc::clone(&lane);
        // It goes with the process: there is no end to wait for that could not be a long one.
        let _running = Builder::new().name("log".into()).spawn(move || writing.write_on(&mut io::stderr()))?;
        Ok(Self { lane })
    }

    /// How many lines found it full, and were dropped.
    pub(super) fn dropped(&self) -> Arc<SharedCounter> {
        Arc::clone(&self.lane.dropped)
    }

    /// Takes a line; never waits.
    pub(super) fn push(&self, line: Vec<u8>) {
        self.lane.push(line);
    }

    /// Waits until all lines are written, but not long: who reads them may have stopped doing so.
    pub(super) fn flush(&self) {
        self.lane.flush(Duration::from_millis(LOG_FLUSH_MS));
    }
}

impl Lane {
    fn push(&self, line: Vec<u8>) {
        let mut state = self.state.lock();
        if state.waiting.len() >= LOG_QUEUE_MAX {
            return self.dropped.add(1);
        }
        state.waiting.push_back(line);
        self.changed.notify_all();
    }

    fn write_on(&self, out: &mut impl Write) -> ! {
        let mut state = self.state.lock();
        loop {
            let Some(line) = state.waiting.pop_front() else {
                state.is_writing = false;
                self.changed.notify_all();
                self.changed.wait(&mut state);
                continue;
            };
            state.is_writing = true;
            drop(state);
            // Where standard error is gone there is nobody to tell.
            let _gone = out.write_all(&line);
            state = self.state.lock();
        }
    }

    fn flush(&self, patience: Duration) {
        let is_busy = |state: &mut QueueState| state.is_writing || !state.waiting.is_empty();
        let _late = self.changed.wait_while_for(&mut self.state.lock(), is_busy, patience);
    }
}

#[cfg(test)]
mod tests {
    use super::Lane;
    use crate::limits::LOG_QUEUE_MAX;
    use std::io::{Read, pipe};
    use std::sync::Arc;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn what_finds_it_full_is_dropped_and_counted() {
        let lane = Arc::new(Lane::default());
        for _ in 0..LOG_QUEUE_MAX + 3 {
            lane.push(b"a\n".to_vec());
        }
        assert_eq!(lane.dropped.get(), 3);
        // Nobody writes: the wait ends all the same.
        lane.flush(Duration::from_millis(1));
        let (mut reader, mut writer) = pipe().expect("a pipe");
        let writing = Arc::clone(&lane);
        thread::spawn(move || writing.write_on(&mut writer));
        lane.push(b"last\n".to_vec());
        lane.flush(Duration::from_secs(20));
        let mut told = vec![0; 2 * LOG_QUEUE_MAX];
        reader.read_exact(&mut told).expect("it was written");
        assert_eq!(told, b"a\n".repeat(LOG_QUEUE_MAX));
    }
}
