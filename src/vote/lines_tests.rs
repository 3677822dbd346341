//! The rule of time by random sequences: a true time, a wall clock that steps, a machine that sleeps, a process that is
//! killed between any two changes, a store and a table. After each event:
//!
//! * a vote that had ended by the certain line of a running process is never live again;
//! * a visible vote is in the store;
//! * where the wall clock never was wrong, each answer is true;
//! * a clock that is behind for less than 10 minutes changes no answer, kills included;
//! * on one line, no vote lies further ahead of the time shown than a standstill lasts.

use std::collections::{BTreeMap, BTreeSet};

use super::{Behind, ClockReading, NEAR_US, STANDSTILL_MAX_US, Shown, TimeLines, TimeNote};
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

const COOLDOWN: Cooldown = Cooldown::USUAL;
const SECOND_US: i64 = 1_000_000;
const SEEDS: u64 = 400;

/// Numbers from a seed (xorshift64*).
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    fn pick(&mut self, among: &[i64]) -> i64 {
        among[usize::try_from(self.below(among.len() as u64)).expect("small")]
    }
}

type Votes = BTreeMap<u64, UnixSeconds>;

#[derive(Clone, Default)]
struct Store {
    rows: Votes,
    note: Option<TimeNote>,
}

struct Process {
    lines: TimeLines,
    table: Votes,
}

/// The process was killed before its next change.
struct Killed;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Calm,
    Glitch,
    Wild,
    Back,
    Behind,
}

struct World {
    draw: Draw,
    /// In microseconds.
    true_us: i64,
    off_us: i64,
    monotonic_us: i64,
    store: Store,
    process: Option<Process>,
    kills: bool,
}

impl World {
    fn reading(&self) -> ClockReading {
        ClockReading { wall_us: self.true_us + self.off_us, monotonic_us: self.monotonic_us }
    }

    fn may_die(&mut self) -> Result<(), Killed> {
        if self.kills && self.draw.percent(30) { Err(Killed) } else { Ok(()) }
    }

    fn boot(&mut self, accepts_clock: bool) -> Result<(), Killed> {
        match TimeLines::start(self.store.note, UnixSeconds(0), self.reading(), accepts_clock) {
            Err(Behind(_)) => Ok(()),
            Ok((lines, then)) => {
                let mut process = Process { lines, table: self.store.rows.clone() };
                then.map_or(Ok(()), |lines| self.change(&mut process, lines))?;
                self.note(&mut process)?;
                self.process = Some(process);
                Ok(())
            }
        }
    }

    fn note(&mut self, process: &mut Process) -> Result<(), Killed> {
        self.may_die()?;
        self.store.note = Some(process.lines.note());
        process.lines.noted();
        Ok(())
    }

    /// As the contract has it: store, ended votes, clock, instants.
    fn change(&mut self, process: &mut Process, lines: TimeLines) -> Result<(), Killed> {
        self.may_die()?;
        self.store.note = Some(lines.note());
        let (certain, to) = (process.lines.certain(), lines.now());
        if to < process.lines.now() {
            let is_over = |at: UnixSeconds| COOLDOWN.expires_at(at) <= certain;
            let moved = |at: UnixSeconds| if at > to.plus(VOTE_AHEAD_MAX_S) { to } else { at };
            self.store.rows =
                process.table.iter().filter(|(_, at)| !is_over(**at)).map(|(k, at)| (*k, moved(*at))).collect();
            self.may_die()?;
            process.table = self.store.rows.clone();
        }
        process.lines = lines;
        Ok(())
    }

    fn look(&mut self, process: &mut Process) -> Result<(), Killed> {
        let before = process.lines.now();
        let then = process.lines.read(self.reading());
        assert!(process.lines.now() >= before, "the time shown goes back only by a change");
        if let Some(lines) = then {
            self.change(process, lines)?;
        }
        if process.lines.is_step_unnoted() {
            self.note(process)?;
        }
        Ok(())
    }

    fn vote(&mut self, process: &mut Process, voter: u64) -> Result<Option<UnixSeconds>, Killed> {
        let now = process.lines.now();
        if is_live(process, voter) {
            return Ok(None);
        }
        self.may_die()?;
        self.store.rows.insert(voter, now);
        self.store.note = Some(process.lines.note());
        self.may_die()?;
        process.table.insert(voter, now);
        Ok(Some(now))
    }
}

fn is_live(process: &Process, voter: u64) -> bool {
    process.table.get(&voter).is_some_and(|at| process.lines.now() < COOLDOWN.expires_at(*at))
}

/// Does `work` with the process; a kill ends it.
fn with(world: &mut World, work: impl FnOnce(&mut World, &mut Process) -> Result<(), Killed>) {
    if let Some(mut process) = world.process.take()
        && work(world, &mut process).is_ok()
    {
        world.process = Some(process);
    }
}

#[expect(clippy::too_many_lines, reason = "one table of events")]
fn run(seed: u64) -> Result<(), String> {
    let mut draw = Draw(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
    let mode = [Mode::Calm, Mode::Glitch, Mode::Wild, Mode::Back, Mode::Behind]
        [usize::try_from(draw.below(5)).expect("small")];
    let mut world = World {
        draw,
        true_us: 1_000_000 * SECOND_US,
        off_us: 0,
        monotonic_us: 0,
        store: Store::default(),
        process: None,
        kills: false,
    };
    let (mut ended, mut truth) = (BTreeMap::<(u64, UnixSeconds), i64>::new(), BTreeMap::<u64, i64>::new());
    let (mut is_good, mut off_since_us, mut note_at_us) = (true, 0, 0);
    let mut alive = (world.true_us, world.off_us);
    let _started = world.boot(false);
    for step in 0..50 + world.draw.below(350) {
        let mut pass_us = if world.draw.percent(95) {
            world.draw.pick(&[1, 5, 20, 60, 300])
        } else {
            600 + i64::try_from(world.draw.below(3_400)).expect("small")
        } * SECOND_US;
        if mode == Mode::Behind && world.off_us != 0 {
            pass_us = pass_us.min((590 * SECOND_US - (world.true_us - off_since_us)).max(SECOND_US));
        }
        while pass_us > 0 {
            let part_us = pass_us.min(10 * SECOND_US);
            pass_us -= part_us;
            world.true_us += part_us;
            world.monotonic_us += part_us;
            let is_due = world.true_us >= note_at_us;
            with(&mut world, |world, process| {
                world.look(process)?;
                if is_due { world.note(process) } else { Ok(()) }
            });
            if is_due && world.process.is_some() {
                note_at_us = world.true_us + 60 * SECOND_US;
            }
            match &mut world.process {
                None => is_good &= mode != Mode::Behind || world.off_us == 0,
                Some(process) => {
                    alive = (world.true_us, world.off_us);
                    let certain = process.lines.certain();
                    let is_over = |at: &UnixSeconds| COOLDOWN.expires_at(*at) <= certain;
                    for (voter, at) in process.table.iter().filter(|(_, at)| is_over(at)) {
                        ended.entry((*voter, *at)).or_insert(world.true_us);
                    }
                    if world.draw.percent(30) {
                        let over: Vec<u64> =
                            process.table.iter().filter(|(_, at)| is_over(at)).map(|(k, _)| *k).take(3).collect();
                        for voter in over {
                            process.table.remove(&voter);
                            world.store.rows.remove(&voter);
                        }
                    }
                }
            }
        }
        if mode == Mode::Behind && world.off_us != 0 && world.true_us - off_since_us >= 580 * SECOND_US {
            world.off_us = 0;
        }
        match world.draw.below(100) {
            0..35 => {
                let voter = world.draw.below(12);
                let mut cast = None;
                let was_there = world.process.is_some();
                let before = world.store.rows.get(&voter).copied();
                with(&mut world, |world, process| {
                    cast = world.vote(process, voter)?;
                    Ok(())
                });
                let is_killed_later =
                    was_there && world.process.is_none() && world.store.rows.get(&voter).copied() != before;
                if cast.is_some() || is_killed_later {
                    ended.retain(|(of, _), _| *of != voter);
                    if is_good {
                        truth.insert(voter, world.true_us);
                    }
                }
            }
            35..45 => {
                world.process = None;
                let is_behind = mode == Mode::Behind && world.off_us != 0;
                // The downtime is measured by the clock that is wrong.
                is_good &= !is_behind;
                if world.draw.percent(50) && !is_behind {
                    let off_us = world.draw.pick(&[1, 30, 200, 3_000]) * SECOND_US;
                    world.true_us += off_us;
                    world.monotonic_us += off_us;
                }
            }
            45..50 if mode != Mode::Calm => {
                match mode {
                    Mode::Glitch => {
                        world.off_us = if world.off_us == 0 {
                            world.draw.pick(&[-3_600, -100, 100, 3_600, 86_400, -70, 70]) * SECOND_US
                        } else {
                            0
                        }
                    }
                    Mode::Wild => {
                        let steps = [-7_200, -600, -90, -61, -59, -10, 10, 59, 61, 90, 600, 7_200];
                        world.off_us += world.draw.pick(&steps) * SECOND_US;
                    }
                    Mode::Behind if world.off_us != 0 => world.off_us = 0,
                    Mode::Behind => {
                        if world.process.as_ref().is_some_and(|process| process.lines.is_one()) {
                            world.off_us = -world.draw.pick(&[30, 59, 61, 100, 1_000, 5_000]) * SECOND_US;
                            off_since_us = world.true_us;
                        }
                    }
                    Mode::Back | Mode::Calm => world.off_us = if world.off_us == 0 { 3_600 * SECOND_US } else { 0 },
                }
                is_good &= mode == Mode::Behind || world.off_us.abs() <= 5 * SECOND_US;
            }
            50..53 if mode != Mode::Behind || world.off_us == 0 => {
                let asleep_us = world.draw.pick(&[30, 90, 4_000]) * SECOND_US;
                world.true_us += asleep_us;
                if world.draw.percent(50) {
                    world.monotonic_us += asleep_us;
                }
                with(&mut world, World::look);
            }
            53..56 => world.kills = !world.kills,
            _ => {}
        }
        if world.process.is_none() {
            let accepts_clock = world.draw.percent(2) && world.off_us == 0;
            if accepts_clock {
                ended.clear();
            } else if world.off_us != alive.1 {
                // The contract's exception: a step back while the service was down, for its last minute.
                ended.retain(|_, at_us| *at_us <= alive.0 - 70 * SECOND_US);
            }
            let _started = world.boot(accepts_clock);
            is_good &= world.process.is_some() || mode != Mode::Behind || world.off_us == 0;
        }
        let Some(process) = &world.process else { continue };
        for (voter, at) in process.table.iter().filter(|(voter, _)| is_live(process, **voter)) {
            if ended.contains_key(&(*voter, *at)) {
                return Err(format!(
                    "step {step}: the vote of {voter} at {at} had ended and is live: {:?}",
                    process.lines
                ));
            }
            if world.store.rows.get(voter) != Some(at) {
                return Err(format!("step {step}: the vote of {voter} is not in the store"));
            }
            let ahead_max_s = u32::try_from(STANDSTILL_MAX_US / SECOND_US).expect("small") + VOTE_AHEAD_MAX_S;
            if process.lines.is_one() && *at > process.lines.now().plus(ahead_max_s) {
                return Err(format!("step {step}: the vote of {voter} lies ahead at {at}"));
            }
        }
        for (voter, at_us) in truth.iter().filter(|_| is_good) {
            let left_us = at_us + i64::from(COOLDOWN.seconds()) * SECOND_US - world.true_us;
            if is_live(process, *voter) != (left_us > 0) && left_us.abs() > 125 * SECOND_US {
                return Err(format!("step {step}: the vote of {voter} has {left_us} us left: {:?}", process.lines));
            }
        }
    }
    Ok(())
}

#[test]
fn the_rule_holds_in_random_sequences() {
    let from: u64 = std::env::var("VOTE_STATUS_LINES_FROM").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    let count: u64 = std::env::var("VOTE_STATUS_LINES_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS);
    let failed: Vec<String> = (from..from + count)
        .filter_map(|seed| run(seed).err().map(|why| format!("seed {seed}, {why}")))
        .take(3)
        .collect();
    assert_eq!(failed, Vec::<String>::new());
}

/// A service whose clocks are set by hand.
struct Hand {
    lines: TimeLines,
    reading: ClockReading,
}

impl Hand {
    fn new() -> Self {
        let reading = ClockReading { wall_us: 1_000_000 * SECOND_US, monotonic_us: 0 };
        let (lines, back) = TimeLines::start(None, UnixSeconds(0), reading, false).expect("a new store");
        assert_eq!(back, None);
        Self { lines, reading }
    }

    /// The clocks go on for `pass_s` seconds, with a reading each second; then the wall clock steps by `step_s`.
    fn pass_and_step(&mut self, pass_s: i64, step_s: i64) -> Option<TimeLines> {
        for _ in 0..pass_s {
            self.reading.wall_us += SECOND_US;
            self.reading.monotonic_us += SECOND_US;
            if let Some(lines) = self.lines.read(self.reading) {
                return Some(lines);
            }
        }
        self.reading.wall_us += step_s * SECOND_US;
        if step_s == 0 { None } else { self.lines.read(self.reading) }
    }

    fn shown_minus_wall_s(&self) -> i64 {
        (self.lines.shown().at_us(self.reading.monotonic_us) - self.reading.wall_us) / SECOND_US
    }
}

#[test]
fn one_line_follows_forward_and_waits_where_the_clock_goes_back() {
    let mut hand = Hand::new();
    assert_eq!(hand.pass_and_step(5, 60), None);
    assert!(hand.lines.is_one());
    assert_eq!(hand.lines.certain(), UnixSeconds(1_000_065));
    assert_eq!(hand.pass_and_step(5, -60), None);
    assert!(hand.lines.is_one());
    assert_eq!((hand.lines.certain(), hand.shown_minus_wall_s()), (UnixSeconds(1_000_070), 60));
    assert_eq!(hand.pass_and_step(59, 0), None);
    assert_eq!(hand.lines.certain(), UnixSeconds(1_000_070));
    assert_eq!(hand.pass_and_step(10, 0), None);
    assert_eq!((hand.lines.certain(), hand.shown_minus_wall_s()), (UnixSeconds(1_000_079), 0));
}

/// When the 10 minutes began.
fn since_us(lines: &TimeLines) -> Option<i64> {
    lines.apart.map(|apart| apart.since_us)
}

#[test]
fn the_ten_minutes_begin_anew_when_the_wall_clock_moves_again() {
    let mut hand = Hand::new();
    assert_eq!(hand.pass_and_step(1, 3_600), None);
    assert_eq!(hand.shown_minus_wall_s(), 0);
    assert_eq!(hand.lines.certain(), UnixSeconds(1_000_001));
    // Small steps add up.
    assert_eq!(hand.pass_and_step(300, 59), None);
    assert_eq!(since_us(&hand.lines), Some(SECOND_US));
    assert_eq!(hand.pass_and_step(1, 2), None);
    assert_eq!(since_us(&hand.lines), Some(302 * SECOND_US));
    assert_eq!(hand.pass_and_step(599, 0), None);
    let then = hand.pass_and_step(1, 0).expect("the wall line becomes certain");
    assert!(then.is_one() && !hand.lines.is_one());
    assert!(hand.lines.read(hand.reading).is_some(), "until it is made");
    hand.lines = then;
    assert_eq!(hand.lines.certain(), hand.lines.now());
}

/// Regression: 1.0.0 restored nothing where a clock came back in small steps.
#[test]
fn a_clock_that_comes_back_in_small_steps_has_come_back() {
    for steps in
        [&[-100, 50, 50][..], &[-1_200, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59, 59]]
    {
        let mut hand = Hand::new();
        for step_s in steps {
            assert_eq!(hand.pass_and_step(1, *step_s), None);
        }
        assert!(hand.lines.is_one() && hand.shown_minus_wall_s() <= 20, "{:?}", hand.lines);
    }
}

#[test]
fn the_time_goes_back_only_where_it_is_ten_minutes_ahead_and_by_a_change() {
    let mut hand = Hand::new();
    assert_eq!(hand.pass_and_step(1, 3_600), None);
    let back = hand.pass_and_step(60, -3_600).expect("the time shown has to go back");
    assert!(back.is_one() && hand.lines.is_one());
    assert_eq!((back.now(), hand.lines.certain()), (UnixSeconds(1_000_061), UnixSeconds(1_000_061)));
    assert_eq!(hand.shown_minus_wall_s(), 3_600, "it stays until the change is made");
    assert!(hand.lines.read(hand.reading).is_some(), "and each reading asks for it");
    hand.lines = back;
    assert_eq!(hand.shown_minus_wall_s(), 0);
    assert_eq!(hand.pass_and_step(1, 600), None);
    assert_eq!(hand.pass_and_step(1, -600), None, "it stands still for up to 10 minutes");
    assert_eq!(hand.shown_minus_wall_s(), 600);
}

#[test]
fn a_start_goes_on_from_the_note() {
    let ms = |s: u64| s * 1_000;
    let note = TimeNote { certain_ms: ms(10_000), wall_ms: ms(10_000), shown_ms: ms(10_000) };
    let at = |wall_s: i64| ClockReading { wall_us: wall_s * SECOND_US, monotonic_us: 7 };
    let start = |note, wall_s, accepts| TimeLines::start(Some(note), UnixSeconds(0), at(wall_s), accepts);
    // After a minute and after an hour of downtime, the true time is shown at once.
    let (lines, back) = start(note, 10_060, false).expect("not behind");
    assert_eq!(
        (back, lines.is_one(), lines.certain(), lines.now()),
        (None, true, UnixSeconds(10_060), UnixSeconds(10_060))
    );
    let (lines, back) = start(note, 13_600, false).expect("not behind");
    assert_eq!(
        (back, lines.is_one(), lines.certain(), lines.now()),
        (None, false, UnixSeconds(10_060), UnixSeconds(13_600))
    );
    assert_eq!(since_us(&lines), Some(7));
    // Behind the note: a minute is added to the time shown, as the note may be a minute old.
    let (lines, back) = start(note, 9_940, false).expect("not too far behind");
    assert_eq!((back, lines.certain(), lines.now()), (None, UnixSeconds(10_000), UnixSeconds(10_060)));
    assert_eq!(start(note, 9_939, false), Err(Behind(NEAR_US + SECOND_US)));
    // The earlier of the noted lines counts: a clock is not behind after a restart during a standstill.
    let standing = TimeNote { wall_ms: ms(9_500), ..note };
    assert!(start(standing, 9_500, false).is_ok());
    let (lines, back) = start(note, 5_000, true).expect("accepted");
    let back = back.expect("the time shown goes back");
    assert_eq!((back.is_one(), back.now()), (true, UnixSeconds(5_000)));
    assert_eq!((lines.is_one(), lines.certain(), lines.now()), (false, UnixSeconds(10_000), UnixSeconds(10_060)));
}

/// Regression: if all instants that a vote might get had been given, a start during a standstill refused votes until the
/// standstill ended.
#[test]
fn a_start_during_a_standstill_is_behind_the_instants_that_were_given() {
    let note = TimeNote { certain_ms: 9_500_000, wall_ms: 9_500_000, shown_ms: 10_000_000 };
    let reading = |wall_s: i64| ClockReading { wall_us: wall_s * SECOND_US, monotonic_us: 7 };
    let now = |free_from, wall_s| {
        let started = TimeLines::start(Some(note), UnixSeconds(free_from), reading(wall_s), false);
        let (lines, then) = started.expect("none is behind");
        assert_eq!(then, None);
        lines.now()
    };
    assert_eq!(now(10_006, 9_501), UnixSeconds(10_006));
    assert_eq!(now(9_999, 9_501), UnixSeconds(10_000));
    assert_eq!([10_007, 17_206].map(|stale| now(stale, 9_501)), [UnixSeconds(10_000); 2], "of before");
    assert_eq!(now(10_006, 9_995), UnixSeconds(10_000), "the time runs soon");
    assert_eq!(now(10_006, 10_001), UnixSeconds(10_001), "the time runs");
}

#[test]
fn a_standstill_goes_on_by_itself_and_no_reader_sees_it_go_back() {
    let shown =
        Shown::running(1_000 * SECOND_US, 0).follow(940 * SECOND_US, 0, 60 * SECOND_US).expect("it stands still");
    let times: BTreeSet<i64> = (0..120).map(|s| shown.at_us(s * SECOND_US) / SECOND_US).collect();
    assert_eq!(times.first().zip(times.last()), Some((&1_000, &1_059)));
    assert!(shown.is_still(60 * SECOND_US) && !shown.is_still(61 * SECOND_US));
    assert_eq!(shown.follow(939 * SECOND_US, 0, 60 * SECOND_US), None);
}
