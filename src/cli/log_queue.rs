//! Lines on their way to standard error: a bounded queue and the one thread that may wait for
//! whoever reads them. It knows neither what a line says nor how it is spelled.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};
use std::time::Duration;

use crate::limits::{LOG_FLUSH_MS, LOG_QUEUE_MAX};
use crate::metrics::SharedCounter;

/// The queue. Cheap to clone; all clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct LogQueue {
    lines: SyncSender<Vec<u8>>,
    /// Lines that were taken and are not written yet.
    unwritten: Arc<AtomicUsize>,
    dropped: Arc<SharedCounter>,
}

impl LogQueue {
    /// A queue that is written to standard error from here on.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub(super) fn start() -> io::Result<Self> {
        let (queue, lines) = Self::new();
        let unwritten = Arc::clone(&queue.unwritten);
        // The thread ends with the process. Nobody joins it: it may wait for ever for whoever reads the lines.
        let _running = Builder::new().name("log".into()).spawn(move || write(&lines, &unwritten, &mut io::stderr()))?;
        Ok(queue)
    }

    fn new() -> (Self, Receiver<Vec<u8>>) {
        let (lines, received) = sync_channel(LOG_QUEUE_MAX);
        (Self { lines, unwritten: Arc::default(), dropped: Arc::default() }, received)
    }

    /// How many lines found it full, and were dropped.
    pub(super) fn dropped(&self) -> Arc<SharedCounter> {
        Arc::clone(&self.dropped)
    }

    /// Takes a line; never waits.
    pub(super) fn push(&self, line: Vec<u8>) {
        self.unwritten.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.unwritten.fetch_sub(1, Ordering::AcqRel);
            self.dropped.add(1);
        }
    }

    /// Waits until all lines are written, for a second at most: whoever reads them may have stopped.
    pub(super) fn flush(&self) {
        for _millisecond in 0..LOG_FLUSH_MS {
            if self.unwritten.load(Ordering::Acquire) == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

fn write(lines: &Receiver<Vec<u8>>, unwritten: &AtomicUsize, out: &mut impl Write) {
    for line in lines {
        // Where standard error is gone there is nobody to tell.
        let _gone = out.write_all(&line);
        unwritten.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::{LogQueue, write};
    use crate::limits::LOG_QUEUE_MAX;

    #[test]
    fn what_finds_it_full_is_dropped_and_counted() {
        let (queue, lines) = LogQueue::new();
        for _ in 0..LOG_QUEUE_MAX + 3 {
            queue.push(b"a\n".to_vec());
        }
        assert_eq!(queue.dropped.get(), 3);
        // Nobody writes: the wait ends all the same.
        queue.flush();
        let LogQueue { lines: sender, unwritten, .. } = queue;
        drop(sender);
        let mut told = Vec::new();
        write(&lines, &unwritten, &mut told);
        assert_eq!(told, b"a\n".repeat(LOG_QUEUE_MAX));
        assert_eq!(unwritten.load(std::sync::atomic::Ordering::Acquire), 0);
    }
}
