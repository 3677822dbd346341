//! The edges of a standstill and of a start, to the microsecond, which random sequences do not hit, and the distance of
//! the lines.

use super::{APART_MAX_US, Behind, ClockReading, STANDSTILL_AFTER_US, Shown, TimeLines, TimeNote};
use crate::vote::time::UnixSeconds;

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

const NOTED_MS: u64 = 1_800_000_000_000;
const NOTED_US: i64 = 1_800_000_000_000_000;

fn note([certain_ms, wall_ms, shown_ms]: [u64; 3]) -> TimeNote {
    TimeNote { certain_ms, wall_ms, shown_ms }
}

/// The instant that the time shown stands still at behind a start.
fn stands_at_us(note: TimeNote, free_from: UnixSeconds, wall_us: i64) -> i64 {
    let reading = ClockReading { wall_us, monotonic_us: 0 };
    TimeLines::start(Some(note), free_from, reading, false).expect("it is not behind").0.shown.still_us
}

#[test]
fn a_clock_that_is_behind_by_more_than_the_error_of_a_reading_has_gone_back() {
    let noted = note([NOTED_MS; 3]);
    assert_eq!(stands_at_us(noted, UnixSeconds(0), NOTED_US - 20_000), NOTED_US);
    assert_eq!(stands_at_us(noted, UnixSeconds(0), NOTED_US - 20_001), NOTED_US + 60_000_000);
}

#[test]
fn a_time_that_is_more_than_six_seconds_ahead_stands_behind_the_spent_instants() {
    let free_from = UnixSeconds(1_800_000_003);
    let ahead_by = |ms: u64| {
        let wall_ms = NOTED_MS - ms;
        let wall_us = NOTED_US - 1_000 * i64::try_from(ms).expect("small");
        stands_at_us(note([wall_ms, wall_ms, NOTED_MS]), free_from, wall_us)
    };
    assert_eq!(ahead_by(6_000), NOTED_US);
    assert_eq!(ahead_by(6_001), NOTED_US + 3_000_000);
}

#[test]
fn the_ten_minutes_of_lines_that_are_apart_begin_with_the_start() {
    let start = ClockReading { wall_us: NOTED_US + 1_000_000_000, monotonic_us: 100_000_000 };
    let at = |after_us| ClockReading { wall_us: start.wall_us + after_us, monotonic_us: start.monotonic_us + after_us };
    let noted = note([NOTED_MS, NOTED_MS + 1_000_000, NOTED_MS]);
    let (mut lines, _) = TimeLines::start(Some(noted), UnixSeconds(0), start, false).expect("it is not behind");
    let is_certain = |then: Option<TimeLines>| then.is_some_and(|then| then.is_one());
    assert!(!is_certain(lines.clone().read(at(APART_MAX_US - 1))));
    assert!(is_certain(lines.read(at(APART_MAX_US))));
}

#[test]
fn a_noted_time_that_no_clock_can_reach_is_ahead_of_each() {
    let started = TimeLines::start(
        Some(note([u64::MAX; 3])),
        UnixSeconds(0),
        ClockReading { wall_us: NOTED_US, monotonic_us: 0 },
        false,
    );
    assert!(matches!(started, Err(Behind(_))), "{started:?}");
}

#[test]
fn behind_the_noted_time_votes_end_by_the_note() {
    let noted = note([NOTED_MS + 999, NOTED_MS + 5_000, NOTED_MS + 5_000]);
    assert_eq!(TimeLines::ended_by_at_start(noted, Err(Behind(1))), UnixSeconds(1_800_000_000));
}

#[test]
fn a_small_difference_of_the_clocks_is_the_error_of_a_reading_and_a_step_is_noted() {
    let after_a_step_of = |step_us: i64| {
        let mut lines = TimeLines::new(ClockReading { wall_us: NOTED_US, monotonic_us: 0 });
        lines.read(ClockReading { wall_us: NOTED_US + 5 + step_us, monotonic_us: 5 });
        (lines.last.wall_us - NOTED_US, lines.is_step_unnoted)
    };
    assert_eq!(after_a_step_of(19_999), (5, false));
    assert_eq!(after_a_step_of(20_000), (20_005, false));
    assert_eq!(after_a_step_of(1_000_000), (1_000_005, false));
    assert_eq!(after_a_step_of(1_000_001), (1_000_006, true));
}

#[test]
fn while_the_lines_are_one_the_certain_line_waits_for_a_wall_clock_that_is_behind() {
    let mut lines = TimeLines::new(ClockReading { wall_us: NOTED_US, monotonic_us: 0 });
    lines.read(ClockReading { wall_us: NOTED_US - 45_000_000, monotonic_us: 30_000_000 });
    assert!(lines.is_one());
}
