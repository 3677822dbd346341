//! The model of time against sequences written by hand, each with the contract's outcome. At random, against rules that hold
//! whatever the clocks do.

use super::{FUZZ_MS, HOLD_MS, Lines, NEAR_MS, Note, Reading, Start};
use crate::util::random::Random;

const BEGIN_MS: i64 = 1_000_000_000;

/// A service on two clocks by the model, which goes on in the first of the ways at each look.
struct Service {
    reading: Reading,
    lines: Lines,
    note: Note,
    noted_ms: i64,
}

impl Service {
    fn new() -> Service {
        let reading = Reading { wall_ms: BEGIN_MS, boot_ms: 0 };
        let lines = Lines::new(reading);
        Service { reading, lines, note: lines.note(), noted_ms: 0 }
    }

    /// Lets time pass, with a look each second. Where the time shown goes back, gives the line that has ended votes, and the new
    /// time.
    fn pass(&mut self, ms: i64) -> Option<(i64, i64)> {
        let (mut left_ms, mut back) = (ms, None);
        while left_ms > 0 {
            let run_ms = left_ms.min(1_000);
            left_ms -= run_ms;
            self.reading.wall_ms += run_ms;
            self.reading.boot_ms += run_ms;
            back = self.look(run_ms).or(back);
        }
        back
    }

    fn step(&mut self, ms: i64) -> Option<(i64, i64)> {
        self.reading.wall_ms += ms;
        let back = self.look(0);
        if ms.abs() > 1_000 {
            self.takes_note();
        }
        back
    }

    fn look(&mut self, run_ms: i64) -> Option<(i64, i64)> {
        // Where the time shown stands still, no reader sees it go on.
        let wall_ms = self.reading.wall_ms - run_ms;
        let stands = self.lines.shown_ms > if self.lines.is_apart() { self.lines.target_ms() } else { wall_ms };
        let before_ms = self.lines.shown_ms + if stands { 0 } else { run_ms };
        self.lines = self.lines.look(self.reading, before_ms, false)[0];
        let back = self.lines.goes_back().1.then(|| {
            let ended_by_ms = self.lines.ended_by_ms();
            self.lines = self.lines.back();
            (ended_by_ms, self.lines.shown_ms)
        });
        if back.is_some() || self.reading.boot_ms >= self.noted_ms + 60_000 {
            self.takes_note();
        }
        back
    }

    fn takes_note(&mut self) {
        (self.note, self.noted_ms) = (self.lines.note(), self.reading.boot_ms);
    }

    /// A kill, and a start from the note `off_ms` later.
    fn restart(&mut self, off_ms: i64, step_ms: i64, accepts: bool) -> Result<Option<(i64, i64)>, ()> {
        self.reading.wall_ms += off_ms + step_ms;
        self.reading.boot_ms += off_ms;
        match Lines::start(self.note, self.reading, accepts)[0] {
            Start::Behind => Err(()),
            Start::Lines(lines) => {
                self.lines = lines;
                let back = lines.goes_back().1.then(|| {
                    self.lines = lines.back();
                    (lines.ended_by_ms(), self.lines.shown_ms)
                });
                if back.is_some() {
                    self.takes_note();
                }
                self.noted_ms = self.reading.boot_ms - 60_000;
                Ok(back)
            }
        }
    }

    /// How far the time shown is ahead of the wall clock, and the certain line.
    fn ahead(&self) -> (i64, i64) {
        let wall_ms = self.reading.wall_ms;
        (self.lines.shown_ms - wall_ms, self.lines.certain_ms() - wall_ms)
    }
}

#[test]
fn within_a_minute_the_certain_line_follows_and_waits() {
    let mut service = Service::new();
    service.step(50_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
    service.pass(10_000);
    service.step(-50_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((50_000, 50_000), false));
    service.pass(20_000);
    assert_eq!(service.ahead(), (30_000, 30_000));
    service.pass(40_000);
    assert_eq!(service.ahead(), (0, 0));
}

#[test]
fn further_apart_the_later_line_is_shown_and_the_certain_one_goes_on() {
    let mut service = Service::new();
    service.step(3_600_000);
    service.pass(300_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, -3_600_000), true));
    service.step(-3_600_000);
    // The time shown stands still for 10 minutes at most: this is more.
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));

    let mut service = Service::new();
    service.step(-3_600_000);
    service.pass(599_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((3_600_000, 3_600_000), true));
    let back = service.pass(2_000).expect("it goes back");
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
    let (ended_by_ms, to_ms) = back;
    assert_eq!(ended_by_ms - to_ms, 3_600_000);
}

#[test]
fn up_to_ten_minutes_the_time_stands_still() {
    let mut service = Service::new();
    service.step(-500_000);
    assert_eq!(service.pass(601_000), None);
    assert!(!service.lines.is_apart());
    let (shown_ms, certain_ms) = service.ahead();
    assert_eq!(certain_ms, 0);
    assert!((490_000..500_000).contains(&shown_ms), "{shown_ms}");
    assert_eq!(service.pass(510_000), None);
    assert_eq!(service.ahead(), (0, 0));
}

#[test]
fn a_clock_that_comes_back_in_small_steps_is_one_line_again() {
    let mut service = Service::new();
    service.step(-100_000);
    assert!(service.lines.is_apart());
    service.pass(200);
    service.step(50_000);
    service.pass(200);
    service.step(50_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));

    let mut service = Service::new();
    service.step(-1_200_000);
    for _ in 0..20 {
        service.pass(1_000);
        service.step(59_000);
    }
    assert!(!service.lines.is_apart());
    let (shown_ms, _) = service.ahead();
    assert!((0..=20_000).contains(&shown_ms), "{shown_ms}");
}

#[test]
fn small_steps_back_part_the_lines_once_they_are_a_minute_in_all() {
    let mut service = Service::new();
    service.step(-59_000);
    assert!(!service.lines.is_apart());
    service.pass(1_000);
    service.step(-59_000);
    assert!(service.lines.is_apart());
    // From there on the certain line goes on.
    assert_eq!(service.ahead().1, 117_000);
}

#[test]
fn the_ten_minutes_begin_anew_when_the_clock_has_moved_by_a_minute_in_all() {
    let mut service = Service::new();
    service.step(3_600_000);
    service.pass(500_000);
    service.step(40_000);
    assert!(service.lines.is_apart());
    service.step(40_000);
    service.pass(500_000);
    assert!(service.lines.is_apart());
    service.pass(101_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
}

#[test]
fn a_start_goes_on_from_the_note() {
    let mut service = Service::new();
    assert_eq!(service.restart(50_000, 0, false), Ok(None));
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
    // After it was off, the machine shows the true time at once, and is certain of a minute.
    service.takes_note();
    assert_eq!(service.restart(1_000_000, 0, false), Ok(None));
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, -940_000), true));
    service.pass(601_000);
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
    // A clock behind its note adds a minute to the time shown.
    service.takes_note();
    assert_eq!(service.restart(0, -30_000, false), Ok(None));
    assert_eq!((service.ahead(), service.lines.is_apart()), ((90_000, 30_000), false));
}

#[test]
fn a_start_waits_for_a_clock_that_is_behind_both_lines() {
    let mut service = Service::new();
    assert_eq!(service.restart(0, -61_000, false), Err(()));
    assert_eq!(service.restart(2_000, 0, false), Ok(None));
    let mut service = Service::new();
    service.step(3_600_000);
    // The clock is behind the later of the noted lines only.
    assert_eq!(service.restart(0, -3_600_000, false), Ok(Some((BEGIN_MS, BEGIN_MS))));
    let mut service = Service::new();
    assert_eq!(service.restart(0, -3_600_000, true), Ok(Some((BEGIN_MS, BEGIN_MS - 3_600_000))));
    assert_eq!((service.ahead(), service.lines.is_apart()), ((0, 0), false));
}

#[test]
fn a_boot_that_was_ahead_and_is_corrected_stands_still() {
    for ahead_ms in [61_000, 599_000] {
        let mut service = Service::new();
        assert_eq!(service.restart(0, ahead_ms, false), Ok(None));
        assert_eq!(service.ahead().0, 0);
        service.pass(5_000);
        assert_eq!(service.step(-ahead_ms), None);
        let (shown_ms, _) = service.ahead();
        assert_eq!(shown_ms, ahead_ms);
    }
}

#[test]
fn a_restart_during_a_standstill_is_ready() {
    let mut service = Service::new();
    service.step(-500_000);
    service.pass(601_000);
    service.takes_note();
    assert_eq!(service.restart(1_000, 0, false), Ok(None));
    assert!(service.ahead().0 > 400_000);
}

#[test]
fn near_a_limit_both_ways_are_allowed() {
    let lines = Lines::new(Reading { wall_ms: BEGIN_MS, boot_ms: 0 });
    let at = |step_ms: i64| lines.look(Reading { wall_ms: BEGIN_MS + step_ms, boot_ms: 0 }, BEGIN_MS, false);
    assert_eq!(at(NEAR_MS).len(), 2);
    assert_eq!(at(NEAR_MS - 2 * FUZZ_MS).len(), 1);
    assert_eq!(at(NEAR_MS + 2 * FUZZ_MS).len(), 1);
}

/// A vote of the random check: its instant, and whether the certain line of a running service has ended it.
struct Vote {
    at_ms: i64,
    has_ended: bool,
}

/// Cooldowns of the random check.
const COOLDOWN_MS: i64 = 5_400_000;

/// At random: a vote that the certain line of a running service has ended is never live again. The time shown goes back
/// by more than 10 minutes or not at all. Lines that are one lie no more than 10 minutes ahead of the wall clock.
#[test]
fn whatever_the_clocks_do_an_ended_vote_stays_ended() {
    for seed in 0..300 {
        let mut random = Random::seeded(seed);
        let mut service = Service::new();
        let mut votes: Vec<Vote> = Vec::new();
        for number in 0..150 {
            let before_ms = service.lines.shown_ms;
            let back = match random.below(8) {
                0..=2 => service.pass(*random.pick(&[1_000, 20_000, 61_000, 300_000, 900_000])),
                3 | 4 => service.step(*random.pick(&[
                    -7_200_000, -600_000, -90_000, -61_000, -59_000, -10_000, 10_000, 59_000, 61_000, 90_000, 600_000,
                    7_200_000,
                ])),
                5 => {
                    // A kill and a step back that fall into one minute are the contract's exception.
                    let off_ms = *random.pick(&[1_000, 30_000, 200_000, 3_000_000]);
                    service.restart(off_ms, 0, false).unwrap_or(None)
                }
                _ => {
                    votes.push(Vote { at_ms: service.lines.shown_ms, has_ended: false });
                    service.takes_note();
                    None
                }
            };
            if let Some((ended_by_ms, to_ms)) = back {
                votes.retain(|vote| vote.at_ms + COOLDOWN_MS > ended_by_ms);
                let ahead = votes.iter_mut().filter(|vote| vote.at_ms > to_ms + 5_000);
                ahead.for_each(|vote| vote.at_ms = to_ms);
            } else {
                assert!(service.lines.shown_ms >= before_ms, "seed {seed}, {number}: it went back");
            }
            let (shown_ms, certain_ms) = (service.lines.shown_ms, service.lines.certain_ms());
            for vote in &mut votes {
                let is_live = shown_ms < vote.at_ms + COOLDOWN_MS;
                assert!(!(is_live && vote.has_ended), "seed {seed}, {number}: live again, {:?}", service.lines);
                vote.has_ended |= vote.at_ms + COOLDOWN_MS <= certain_ms;
            }
            if !service.lines.is_apart() {
                let (ahead_ms, _) = service.ahead();
                assert!(ahead_ms <= HOLD_MS + NEAR_MS + FUZZ_MS, "seed {seed}, {number}: {ahead_ms} ms ahead");
            }
        }
    }
}
