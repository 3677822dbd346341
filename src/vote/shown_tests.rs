//! The edges of a standstill, to the microsecond, which random sequences do not hit, and the distance of the lines.

use super::{ClockReading, STANDSTILL_AFTER_US, Shown, TimeLines};

#[test]
fn a_standstill_ends_when_the_line_has_caught_up() {
    let shown = Shown { offset_us: 0, still_us: 60 };
    assert!(shown.is_still(59) && !shown.is_still(60));
}

#[test]
fn a_line_that_is_ahead_keeps_what_the_time_stood_still_at() {
    let shown = Shown { offset_us: 0, still_us: 60 };
    assert_eq!(shown.follow(75, 70, 0), Some(Shown { offset_us: 5, still_us: 60 }));
}

#[test]
fn a_standstill_that_has_begun_may_last_as_much_longer_as_it_began_late() {
    let max_us = 60_000_000;
    let stands = Shown::running(max_us, 0).follow(0, 0, max_us).expect("it stands still");
    assert_eq!(stands, Shown { offset_us: 0, still_us: max_us + STANDSTILL_AFTER_US });
    assert_eq!(stands.follow(0, 0, max_us), Some(stands));
    assert_eq!(stands.follow(-1, 0, max_us), None);
}

#[test]
fn a_clock_that_goes_back_is_behind_the_certain_line() {
    let mut lines = TimeLines::new(ClockReading { wall_us: 1_000_000_000, monotonic_us: 0 });
    assert_eq!(lines.distance_us(), 0);
    lines.read(ClockReading { wall_us: 901_000_000, monotonic_us: 1_000_000 });
    assert_eq!(lines.distance_us(), -100_000_000);
}
