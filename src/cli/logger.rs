//! Log lines on standard error, for people or for machines. What is in them is said elsewhere; no
//! line holds a token or a key.

use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::{panic, thread};

use log::{LevelFilter, Log, Metadata, Record};
use serde::Serialize;

use super::CliError;
use super::log_queue::LogQueue;
use crate::clock;
use crate::metrics::SharedCounter;
use crate::vote::time::UnixSeconds;

/// How lines are spelled.
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
}

/// The levels that can be asked for.
pub(super) const LEVELS: [(&str, LevelFilter); 4] = [
    ("error", LevelFilter::Error),
    ("warn", LevelFilter::Warn),
    ("info", LevelFilter::Info),
    ("debug", LevelFilter::Debug),
];

/// The log, once it is started. Dropping it waits a moment for its last lines.
#[derive(Debug)]
pub(super) struct Logger {
    queue: LogQueue,
}

/// What the crate `log` hands every message of the program to.
struct Facade {
    format: LogFormat,
    queue: LogQueue,
}

#[derive(Serialize)]
struct LogLine<'l> {
    time: &'l str,
    level: &'l str,
    message: &'l str,
}

impl Logger {
    /// Starts logging what is at least as grave as `level`; once in a process.
    ///
    /// # Errors
    /// Where there is no thread to be had.
    pub(super) fn start(format: LogFormat, level: LevelFilter) -> Result<Self, CliError> {
        let queue = LogQueue::start();
        let queue = queue.map_err(|error| CliError::new(format_args!("cannot start the log's thread: {error}")))?;
        if log::set_boxed_logger(Box::new(Facade { format, queue: queue.clone() })).is_ok() {
            log::set_max_level(level);
        }
        // A panic is logged like anything else, but for a message that may quote a request.
        panic::set_hook(Box::new(|panic| {
            let thread = thread::current();
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let message = literal(panic.payload()).unwrap_or("its message may quote a request and is left out");
            log::error!(
                "a thread ({}) panicked at {place}: {message}; this is a bug, please report it",
                thread.name().unwrap_or("without a name")
            );
        }));
        Ok(Self { queue })
    }

    /// How many lines were dropped, as nobody took them in time.
    pub(super) fn dropped(&self) -> Arc<SharedCounter> {
        self.queue.dropped()
    }
}

impl Drop for Logger {
    fn drop(&mut self) {
        self.queue.flush();
    }
}

impl LogFormat {
    fn line(self, time: &str, level: &str, message: &str) -> Vec<u8> {
        let mut line = match self {
            Self::Text => format!("{time} {level} {}", on_one_line(message)).into(),
            // Text can always be written as JSON.
            Self::Json => {
                serde_json::to_vec(&LogLine { time, level: &level.to_lowercase(), message }).unwrap_or_default()
            }
        };
        line.push(b'\n');
        line
    }
}

impl Log for Facade {
    /// Whether a line is this program's own: those of libraries are for their authors. The crate `log` has
    /// filtered by level already.
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with(env!("CARGO_CRATE_NAME"))
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            let time = timestamp(clock::system_wall_ms());
            self.queue.push(self.format.line(&time, record.level().as_str(), &record.args().to_string()));
        }
    }

    fn flush(&self) {
        self.queue.flush();
    }
}

/// A message that stands in the program as it is; one that was put together may quote anything.
fn literal(payload: &dyn Any) -> Option<&'static str> {
    payload.downcast_ref::<&'static str>().copied()
}

/// As `2026-11-20T12:34:56.789Z`.
fn timestamp(unix_ms: u64) -> String {
    let seconds = UnixSeconds(u32::try_from(unix_ms / 1_000).unwrap_or(u32::MAX)).to_string();
    format!("{}.{:03}Z", seconds.trim_end_matches('Z'), unix_ms % 1_000)
}

/// The message without control characters: a path may hold a line end, which would begin a second line.
fn on_one_line(message: &str) -> Cow<'_, str> {
    if message.contains(char::is_control) { message.replace(char::is_control, " ").into() } else { message.into() }
}

#[cfg(test)]
mod tests {
    use super::{LogFormat, literal, timestamp};

    #[test]
    fn a_line_in_both_spellings() {
        let time = timestamp(1_795_178_096_007);
        for (format, expected) in [
            (LogFormat::Text, "2026-11-20T12:34:56.007Z INFO it is \"ready\"\n"),
            (
                LogFormat::Json,
                "{\"time\":\"2026-11-20T12:34:56.007Z\",\"level\":\"info\",\"message\":\"it is\\n\\\"ready\\\"\"}\n",
            ),
        ] {
            let line = format.line(&time, "INFO", "it is\n\"ready\"");
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
}
