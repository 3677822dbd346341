//! Log lines for people, on standard error.

use std::io::Write;

use log::{LevelFilter, Log, Metadata, Record};

use crate::clock::Clock;

struct Logger {
    clock: Clock,
}

impl Log for Logger {
    /// The facade has filtered by level already. What libraries say is for those who write them.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(env!("CARGO_CRATE_NAME"))
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (now, level, message) = (self.clock.now().wall, record.level(), record.args());
        let line = format!("{now} {level} {message}\n");
        // Where standard error is gone there is nobody to tell.
        let _gone = std::io::stderr().lock().write_all(line.as_bytes());
    }

    fn flush(&self) {}
}

/// Starts logging; once in a process.
pub(super) fn start() {
    if log::set_boxed_logger(Box::new(Logger { clock: Clock::new() })).is_ok() {
        log::set_max_level(LevelFilter::Info);
    }
}
