//! How far a long command is, with rate and time left, where standard error is a terminal.

use std::io::{IsTerminal, stderr};
use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::readiness::Readiness;

/// How often it is drawn while nothing happens.
const TICK: Duration = Duration::from_millis(200);

/// A line on the terminal; nothing at all elsewhere.
pub(super) struct Progress {
    bar: ProgressBar,
    lines: u64,
}

impl Progress {
    /// Progress over `bytes` in all, if that is known.
    pub(super) fn new(bytes: Option<u64>) -> Self {
        let bar = bytes.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let template = match bytes {
            Some(_) => "{wide_bar} {percent:>3} %  {msg}  {eta} left",
            None => "{spinner} {bytes}  {msg}  {elapsed}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Self { bar, lines: 0 }
    }

    /// So many bytes in all, and so many lines more, are done.
    pub(super) fn advance(&mut self, bytes: u64, lines: u64) {
        self.lines += lines;
        self.bar.set_position(bytes);
        let seconds = self.bar.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!("{} lines, {:.0}/s", self.lines, self.lines as f64 / seconds));
    }

    /// Lets something else be written to the terminal.
    pub(super) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A load shorter than this is not worth a line.
const LOAD_PATIENCE: Duration = Duration::from_millis(500);

/// Shows how far the load at the start is, where standard error is a terminal and it takes a while.
pub(super) fn watch_load(readiness: Readiness) {
    if !stderr().is_terminal() {
        return;
    }
    let watch = move || {
        thread::sleep(LOAD_PATIENCE);
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template("{spinner} loading: {human_pos} rows, {per_sec}, {elapsed}") {
            bar.set_style(style);
        }
        while !readiness.is_loaded() {
            bar.set_position(readiness.loaded_rows());
            thread::sleep(TICK);
        }
        bar.finish_and_clear();
    };
    // Without the thread there is no line, and nothing else is missing.
    let _watching = thread::Builder::new().name("progress".into()).spawn(watch);
}
