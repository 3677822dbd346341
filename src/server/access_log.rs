//! The access log's own thread: it takes the workers' entries and has them written, so that no
//! worker waits for whoever reads them.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::Builder;
use std::time::Duration;

use crate::clock::Clock;
use crate::limits::{ACCESS_LOG_QUEUE_MAX, LOG_FLUSH_MS};
use crate::net::access_log::{AccessCounters, AccessEntry, AccessLog, Sampler};

/// The access log that was asked for.
pub struct AccessConfig {
    /// One request in so many is logged.
    pub one_in: NonZeroU32,
    /// Writes an entry.
    pub write: Box<dyn FnMut(&AccessEntry) + Send>,
}

/// The access log's thread, and what workers need to reach it.
pub(super) struct AccessLogger {
    one_in: NonZeroU32,
    entries: SyncSender<AccessEntry>,
    /// The counters of each worker's log.
    pub(super) counters: Vec<Arc<AccessCounters>>,
    /// Carries no message: its other end is dropped when the last entry is written.
    ended: Receiver<()>,
}

impl AccessLogger {
    /// Starts the thread.
    pub(super) fn start(config: AccessConfig) -> io::Result<Self> {
        let AccessConfig { one_in, mut write } = config;
        let (entries, received) = sync_channel(ACCESS_LOG_QUEUE_MAX);
        let (until_the_end, ended) = sync_channel(0);
        let work = move || {
            let _until_the_end: SyncSender<()> = until_the_end;
            received.into_iter().for_each(|entry| write(&entry));
        };
        let _running = Builder::new().name("access-log".into()).spawn(work)?;
        Ok(Self { one_in, entries, counters: Vec::new(), ended })
    }

    /// The log of one more worker.
    pub(super) fn log(&mut self, listener: &'static str, clock: &Clock) -> AccessLog {
        let counters = Arc::new(AccessCounters::default());
        self.counters.push(Arc::clone(&counters));
        // The random seed of the standard library's hasher is good enough for a sample.
        let sampler = Sampler::new(self.one_in, RandomState::new().hash_one(listener));
        AccessLog { listener, clock: clock.clone(), sampler, entries: self.entries.clone(), counters }
    }

    /// Waits until the last entry is written, but not long: the reader may have stopped reading. The workers
    /// must have ended.
    pub(super) fn end(self) {
        drop(self.entries);
        // A panic while writing has been told already, and costs nothing but lines.
        let _late = self.ended.recv_timeout(Duration::from_millis(LOG_FLUSH_MS));
    }
}
