//! Wall clock and boot clock that the simulation sets: steps of both signs, drift, suspends.

use super::model::time::Reading;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use vote_status::clock::Readers;

/// The two clocks of a machine.
#[derive(Debug)]
pub(crate) struct Clocks {
    wall_us: AtomicI64,
    boot_us: AtomicI64,
    /// How much the wall clock is fast, in parts per million.
    drift_ppm: AtomicI64,
    has_stepped: AtomicBool,
    /// Both clocks at the service's first reading of the wall clock since `take_read_first`.
    read_first: Mutex<Option<Reading>>,
}

impl Clocks {
    pub(crate) fn at(wall_ms: i64) -> Clocks {
        Clocks {
            wall_us: AtomicI64::new(wall_ms * 1_000),
            boot_us: AtomicI64::new(1_000_000_000),
            drift_ppm: AtomicI64::new(0),
            has_stepped: AtomicBool::new(false),
            read_first: Mutex::new(None),
        }
    }

    /// Both clocks go on: the machine runs, or is suspended.
    pub(crate) fn pass(&self, ms: i64) {
        let drift_us = ms * self.drift_ppm.load(Ordering::Relaxed) / 1_000;
        self.boot_us.fetch_add(ms * 1_000, Ordering::Relaxed);
        self.wall_us.fetch_add(ms * 1_000 + drift_us, Ordering::Relaxed);
    }

    /// Sets the wall clock forward or back.
    pub(crate) fn step(&self, ms: i64) {
        self.wall_us.fetch_add(ms * 1_000, Ordering::Relaxed);
        self.has_stepped.fetch_or(ms != 0, Ordering::Relaxed);
    }

    /// Whether the wall clock was ever set.
    pub(crate) fn has_stepped(&self) -> bool {
        self.has_stepped.load(Ordering::Relaxed)
    }

    pub(crate) fn drift(&self, ppm: i64) {
        self.drift_ppm.store(ppm, Ordering::Relaxed);
    }

    pub(crate) fn reading(&self) -> Reading {
        let wall_us = self.wall_us.load(Ordering::Relaxed);
        Reading { wall_ms: wall_us.div_euclid(1_000), boot_ms: self.boot_us().div_euclid(1_000) }
    }

    /// Both clocks at the service's first reading of the wall clock since the last call.
    pub(crate) fn take_read_first(&self) -> Option<Reading> {
        self.read_first.lock().expect("no reading panics").take()
    }
}

impl Readers for Clocks {
    fn wall_us(&self) -> i64 {
        self.read_first.lock().expect("no reading panics").get_or_insert_with(|| self.reading());
        self.wall_us.load(Ordering::Relaxed)
    }

    fn boot_us(&self) -> i64 {
        self.boot_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::Clocks;
    use vote_status::clock::Readers;

    #[test]
    fn the_wall_clock_drifts_and_is_set_and_the_other_goes_on() {
        let clocks = Clocks::at(5_000);
        let before = clocks.reading();
        clocks.drift(100);
        clocks.pass(60_000);
        clocks.step(-3_600_000);
        let after = clocks.reading();
        assert_eq!(after.boot_ms - before.boot_ms, 60_000);
        assert_eq!(after.wall_ms - before.wall_ms, 60_006 - 3_600_000);
    }

    #[test]
    fn the_first_reading_of_the_service_is_remembered_until_it_is_taken() {
        let clocks = Clocks::at(5_000);
        let first = clocks.reading();
        assert_eq!((clocks.take_read_first(), clocks.wall_us()), (None, 5_000_000));
        clocks.pass(1_000);
        assert_eq!((clocks.wall_us(), clocks.take_read_first()), (6_000_000, Some(first)));
        assert_eq!(clocks.take_read_first(), None);
    }
}
