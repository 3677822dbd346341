//! Log lines on standard error, for people or for machines: their format, the bounded queue, and the one thread that
//! may wait for a reader. Other modules write the messages; no line contains a token or a key.

use std::any::Any;
use std::io::{self, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, Builder};
use std::time::Duration;

use log::{LevelFilter, Log, Metadata, Record};
use serde::Serialize;

use super::CliError;
use crate::clock;
use crate::json::escaped;
use crate::limits::{LOG_FLUSH_MS, LOG_QUEUE_MAX};
use crate::vote::time::UnixSeconds;

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogFormat {
    /// Time, level, message.
    Text,
    /// An object on each line.
    Json,
}

impl LogFormat {
    /// Both, by name.
    pub(super) const ALL: [(&str, Self); 2] = [("text", Self::Text), ("json", Self::Json)];

    fn line(self, time: &str, level: &str, message: &str) -> Vec<u8> {
        let mut line = match self {
            Self::Text => format!("{time} {level} {message}"),
            // Text can always be written as JSON.
            Self::Json => {
                serde_json::to_string(&LogLine { time, level: &level.to_lowercase(), message }).unwrap_or_default()
            }
        };
        // A path may contain a line end, which would begin a second line.
        line = escaped(&line).into_owned();
        line.push('\n');
        line.into_bytes()
    }
}

/// The levels that an operator can choose.
pub(super) const LEVELS: [(&str, LevelFilter); 4] = [
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("info", LevelFilter::Info),
    ("debug", LevelFilter::Debug),
];

/// The log, once it is started. All clones are the same log. Dropping one waits a moment for the last lines.
#[derive(Clone, Debug)]
pub(super) struct Logger {
    format: LogFormat,
    lines: SyncSender<Vec<u8>>,
    /// Lines that were taken and are not written yet.
    unwritten: Arc<AtomicUsize>,
    dropped: Arc<AtomicU64>,
}

#[derive(Serialize)]
struct LogLine<'l> {
    time: &'l str,
    level: &'l str,
    message: &'l str,
}

impl Logger {
    /// Starts logging messages that are at least as grave as `level`. Call it once in a process.
    ///
    /// # Errors
    /// Where the system gives no thread.
    pub(super) fn start(format: LogFormat, level: LevelFilter) -> Result<Self, CliError> {
        let (logger, lines) = Self::new(format);
        let unwritten = Arc::clone(&logger.unwritten);
        // The thread ends with the process. It is never joined: it may wait for a reader for ever.
        let running = Builder::new().name("log".into()).spawn(move || write(&lines, &unwritten, &mut io::stderr()));
        running.map_err(|error| CliError::new(format_args!("cannot start the log's thread: {error}")))?;
        if log::set_boxed_logger(Box::new(logger.clone())).is_ok() {
            log::set_max_level(level);
        }
        // A panic is logged too, but without a message that may quote a request.
        panic::set_hook(Box::new(|panic| {
            let thread = thread::current();
            let location = panic.location().map(ToString::to_string).unwrap_or_default();
            let message = literal(panic.payload()).unwrap_or("its message may quote a request and is left out");
            log::error!(
                "a thread ({}) panicked at {location}: {message}; this is a bug, please report it",
                thread.name().unwrap_or("without a name")
            );
        }));
        Ok(logger)
    }

    fn new(format: LogFormat) -> (Self, Receiver<Vec<u8>>) {
        let (lines, received) = sync_channel(LOG_QUEUE_MAX);
        (Self { format, lines, unwritten: Arc::default(), dropped: Arc::default() }, received)
    }

    /// The number of lines that found the queue full and were dropped.
    pub(super) fn dropped(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.dropped)
    }

    /// Takes a line; never waits.
    fn push(&self, line: Vec<u8>) {
        self.unwritten.fetch_add(1, Ordering::AcqRel);
        if self.lines.try_send(line).is_err() {
            self.unwritten.fetch_sub(1, Ordering::AcqRel);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.flush();
    }
}

fn write(lines: &Receiver<Vec<u8>>, unwritten: &AtomicUsize, out: &mut impl Write) {
    for line in lines {
        // If standard error is closed, there is no reader to tell.
        let _closed = out.write_all(&line);
        unwritten.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Log for Logger {
    /// Whether a line is this program's own: lines of libraries are for their authors. The crate `log` has
    /// filtered by level already.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(env!("CARGO_CRATE_NAME"))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let time = timestamp(clock::system_wall_ms());
            self.push(self.format.line(&time, record.level().as_str(), &record.args().to_string()));
        }
    }

    /// Waits until all lines are written, for a second at most: their reader may have stopped.
    fn flush(&self) {
        for _millisecond in 0..LOG_FLUSH_MS {
            if self.unwritten.load(Ordering::Acquire) == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// A message that is a literal of the program; a formatted one may quote anything.
fn literal(payload: &dyn Any) -> Option<&'static str> {
    payload.downcast_ref::<&'static str>().copied()
}

/// As `2026-11-20T12:34:56.789Z`.
fn timestamp(unix_ms: u64) -> String {
    let seconds = UnixSeconds(u32::try_from(unix_ms / 1_000).unwrap_or(u32::MAX)).to_string();
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), unix_ms % 1_000)
}

#[cfg(test)]
mod tests {
    use super::{LogFormat, Logger, literal, timestamp, write};
    use crate::limits::LOG_QUEUE_MAX;
    use log::Log;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    #[test]
    fn a_line_in_both_spellings() {
        let time = timestamp(1_795_178_096_007);
        for (format, expected) in [
            (LogFormat::Text, "2026-11-20T12:34:56.007Z INFO it is\\u000a\"ready\"\\u202e\n"),
            (
                LogFormat::Json,
                "{\"time\":\"2026-11-20T12:34:56.007Z\",\"level\":\"info\",\"message\":\"it is\\n\\\"ready\\\"\\u202e\"}\n",
            ),
        ] {
            let line = format.line(&time, "INFO", "it is\n\"ready\"\u{202e}");
            assert_eq!(String::from_utf8(line).expect("text"), expected);
        }
    }

    #[test]
    fn a_panic_tells_only_what_stands_in_the_program() {
        let secret = String::from("4f3c2b1a");
        let quoting = std::panic::catch_unwind(|| std::panic::panic_any(format!("no {secret}"))).expect_err("planted");
        assert_eq!(literal(&*quoting), None);
        let plain = std::panic::catch_unwind(|| std::panic::panic_any("planted")).expect_err("planted");
        assert_eq!(literal(&*plain), Some("planted"));
    }

    #[test]
    fn what_finds_it_full_is_dropped_and_counted() {
        let (logger, lines) = Logger::new(LogFormat::Text);
        for _ in 0..LOG_QUEUE_MAX + 3 {
            logger.push(b"a\n".to_vec());
        }
        assert_eq!(logger.dropped.load(Ordering::Relaxed), 3);
        // No thread writes: the wait ends all the same.
        logger.flush();
        let unwritten = Arc::clone(&logger.unwritten);
        drop(logger);
        let mut told = Vec::new();
        write(&lines, &unwritten, &mut told);
        assert_eq!(told, b"a\n".repeat(LOG_QUEUE_MAX));
        assert_eq!(unwritten.load(Ordering::Acquire), 0);
    }
}
