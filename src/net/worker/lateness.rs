//! How late the loop is for a client that comes at some instant. The loop samples ten instants a second, in a turn or
//! between two. Both causes of delay count: the turn before, and the wait of the thread for a processor.

use crate::metrics::Histogram;

/// The time from one instant to the next, in microseconds.
const EVERY_US: u64 = 100_000;
/// The most instants that are counted for one turn that begins late.
const INSTANTS_MAX: u64 = 100;

/// The next instant, and the last wait.
pub(super) struct Lateness {
    due_us: u64,
    /// When a thread that waited for the instant was due to run. The kernel counts whole milliseconds of a wait.
    awaited_us: u64,
}

impl Lateness {
    /// The state of a loop that begins now.
    pub(super) const fn new(now_us: u64) -> Self {
        Self { due_us: now_us + EVERY_US, awaited_us: now_us + EVERY_US }
    }

    /// The loop is about to wait. Gives the longest wait, in milliseconds.
    pub(super) const fn begin_wait(&mut self, now_us: u64) -> u64 {
        let wait_ms = self.due_us.saturating_sub(now_us).div_ceil(1_000);
        self.awaited_us = if wait_ms == 0 { self.due_us } else { now_us + wait_ms * 1_000 };
        wait_ms
    }

    /// A turn begins: counts the instants that have come.
    #[inline]
    pub(super) fn end_wait(&mut self, now_us: u64, late_us: &Histogram<11>) {
        if now_us < self.due_us {
            return;
        }
        let instants = (now_us - self.due_us) / EVERY_US + 1;
        for nth in 0..instants.min(INSTANTS_MAX) {
            late_us.record(now_us.saturating_sub(self.awaited_us + nth * EVERY_US));
        }
        self.due_us += instants * EVERY_US;
    }
}

#[cfg(test)]
mod tests {
    use super::{EVERY_US, INSTANTS_MAX, Lateness};
    use crate::metrics::Histogram;

    #[test]
    fn an_instant_counts_by_the_time_from_it_to_the_turn() {
        let counted = |begins_us: u64, turn_us: u64| {
            let late_us = Histogram::new([0; 11]);
            let mut lateness = Lateness::new(0);
            let wait_ms = lateness.begin_wait(begins_us);
            lateness.end_wait(turn_us, &late_us);
            let (count, sum_us) = late_us.totals();
            (wait_ms, sum_us, count)
        };
        // The loop was woken before the instant.
        assert_eq!(counted(10, EVERY_US - 1), (100, 0, 0));
        // The loop waited for the instant: rounding to the kernel's milliseconds is no lateness.
        assert_eq!(counted(10, EVERY_US + 10), (100, 0, 1));
        assert_eq!(counted(10, EVERY_US + 310), (100, 300, 1));
        // A turn held the loop up until three instants had passed.
        assert_eq!(counted(EVERY_US + 5, 3 * EVERY_US + 400), (0, 300_000 + 3 * 400, 3));
        assert_eq!(counted(10, 1_000_000 * EVERY_US).2, INSTANTS_MAX);
    }
}
