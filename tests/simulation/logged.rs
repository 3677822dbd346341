//! The recorder's log lines, kept for each thread on its own between `keep` and `drop_all`.

use std::cell::RefCell;
use std::sync::Once;

thread_local! {
    /// None where the thread keeps no lines.
    static LINES: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

struct Logger;

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        LINES.with_borrow(Option::is_some)
    }

    fn log(&self, record: &log::Record<'_>) {
        LINES.with_borrow_mut(|lines| {
            if let Some(lines) = lines {
                lines.push(format!("{}: {}", record.level(), record.args()));
            }
        });
    }

    fn flush(&self) {}
}

/// Keeps the lines of this thread from now on.
pub(crate) fn keep() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if log::set_logger(&Logger).is_ok() {
            log::set_max_level(log::LevelFilter::Debug);
        }
    });
    LINES.with_borrow_mut(|lines| *lines = Some(Vec::new()));
}

/// The lines since this was last called.
pub(crate) fn take() -> Vec<String> {
    LINES.with_borrow_mut(|lines| lines.as_mut().map(std::mem::take).unwrap_or_default())
}

/// Stops keeping lines.
pub(crate) fn drop_all() {
    LINES.with_borrow_mut(|lines| *lines = None);
}
