//! The progress of a long command, with rate and time left, if standard error is a terminal.

use std::io::{IsTerminal, Write, stderr};

use crate::clock::Clock;

/// The least time between two drawings, in milliseconds: nobody could read faster ones.
const DRAW_PERIOD_MS: u64 = 200;

/// A line on the terminal; nothing at all elsewhere.
pub(super) struct Progress {
    clock: Clock,
    is_terminal: bool,
    bytes_total: Option<u64>,
    lines: u64,
    draw_at_ms: u64,
}

impl Progress {
    /// Progress over `bytes_total`, if that is known.
    pub(super) fn new(bytes_total: Option<u64>) -> Self {
        Self { clock: Clock::new(), is_terminal: stderr().is_terminal(), bytes_total, lines: 0, draw_at_ms: 0 }
    }

    /// Notes that `bytes` in all, and `lines` more than before, are done.
    pub(super) fn advance(&mut self, bytes: u64, lines: u64) {
        self.lines += lines;
        let elapsed_ms = self.clock.now().monotonic_ms;
        if self.is_terminal && elapsed_ms >= self.draw_at_ms {
            self.draw_at_ms = elapsed_ms + DRAW_PERIOD_MS;
            draw(&told(bytes, self.bytes_total, self.lines, elapsed_ms));
        }
    }

    /// Makes room for another line on the terminal; the next advance draws below it.
    pub(super) fn clear(&self) {
        if self.is_terminal {
            draw("");
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

fn told(bytes: u64, bytes_total: Option<u64>, lines: u64, elapsed_ms: u64) -> String {
    let rate = lines as f64 * 1e3 / elapsed_ms.max(1) as f64;
    match bytes_total {
        Some(total) => {
            // A file may grow while it is read.
            let left = total.saturating_sub(bytes) as f64 / bytes.max(1) as f64;
            let percent = bytes.min(total) * 100 / total.max(1);
            format!("{percent:3} %  {lines} lines, {rate:.0}/s  {:.0} s left", elapsed_ms as f64 / 1e3 * left)
        }
        None => format!("{:.1} MB  {lines} lines, {rate:.0}/s  {} s", bytes as f64 / 1e6, elapsed_ms / 1_000),
    }
}

/// Writes `text` over the line of the cursor.
fn draw(text: &str) {
    let mut terminal = stderr().lock();
    // A closed terminal misses nothing.
    let _closed = write!(terminal, "\r\x1b[K{text}").and_then(|()| terminal.flush());
}

#[cfg(test)]
mod tests {
    use super::told;

    #[test]
    fn how_far_it_is() {
        for (bytes, total, lines, elapsed_ms, expected) in [
            (0, Some(2_000_000), 0, 0, "  0 %  0 lines, 0/s  0 s left"),
            (500_000, Some(2_000_000), 20_000, 1_000, " 25 %  20000 lines, 20000/s  3 s left"),
            (3_000_000, Some(2_000_000), 120_000, 6_000, "100 %  120000 lines, 20000/s  0 s left"),
            (12_340_000, None, 400_000, 2_500, "12.3 MB  400000 lines, 160000/s  2 s"),
        ] {
            assert_eq!(told(bytes, total, lines, elapsed_ms), expected);
        }
    }
}
