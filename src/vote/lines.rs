//! The rule of time (contract, "Time"): two lines of time, the wall line and the certain line, and the time that is
//! shown. A pure state machine: readings of both clocks go in. The time shown comes out, and the change that must be
//! durable first. It reads no clock and writes no store.
//!
//! The service shows the later line, and forgets by the certain line only. So an error of the clock may end a cooldown
//! early, but loses no vote.

use super::time::{UnixSeconds, VOTE_AHEAD_MAX_S};

/// The wall clock is certain within this distance of the certain line, in microseconds.
const NEAR_US: i64 = 60_000_000;
/// How long the lines are apart before the wall line becomes the certain one, in microseconds.
const APART_MAX_US: i64 = 600_000_000;
/// The longest standstill of the time shown, in microseconds; to avoid a longer one the time goes back.
pub const STANDSTILL_MAX_US: i64 = 600_000_000;
/// The bound on how far spent instants lie ahead, in microseconds. A time that stands still for longer than this would
/// keep votes waiting for instants that are not given any more.
const SPENT_US: i64 = 1_000_000 * (VOTE_AHEAD_MAX_S as i64 + 1);
/// A step of the wall clock by more than this is noted at once, in microseconds.
const STEP_US: i64 = 1_000_000;
/// A smaller difference between the two clocks is the error of the readings, in microseconds.
const READING_ERROR_US: i64 = 20_000;
/// The delay between the decision for a standstill and its beginning, in microseconds. No reader is held up for longer
/// between reading a clock and using the reading.
const STANDSTILL_AFTER_US: i64 = 100_000;

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The system's wall clock, in microseconds since 1970.
    pub wall_us: i64,
    /// The monotonic clock, in microseconds.
    pub monotonic_us: i64,
}

/// The time as the store keeps it, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeNote {
    /// The certain line.
    pub certain_ms: u64,
    /// The wall line.
    pub wall_ms: u64,
    /// The time shown.
    pub shown_ms: u64,
}

/// The time shown, as a function of the monotonic clock: it runs on by itself until the next reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The time minus the monotonic clock, in microseconds.
    pub offset_us: i64,
    /// The time is at least this, in microseconds since 1970: it stands still until the line has caught up.
    pub still_us: i64,
}

impl Shown {
    /// The time that is `time_us` now and runs.
    #[must_use]
    pub const fn running(time_us: i64, monotonic_us: i64) -> Self {
        Self { offset_us: time_us - monotonic_us, still_us: i64::MIN }
    }

    /// The time at a moment of the monotonic clock, in microseconds since 1970.
    #[must_use]
    pub fn at_us(self, monotonic_us: i64) -> i64 {
        self.offset_us.saturating_add(monotonic_us).max(self.still_us)
    }

    /// Whether the time stands still.
    #[must_use]
    pub const fn is_still(self, monotonic_us: i64) -> bool {
        self.offset_us.saturating_add(monotonic_us) < self.still_us
    }

    /// Follows a line that is at `line_us` now: forward at once, and by a standstill where the line is behind by at most
    /// `standstill_max_us`. `None` where the time would have to go back.
    #[must_use]
    pub fn follow(self, line_us: i64, monotonic_us: i64, standstill_max_us: i64) -> Option<Self> {
        let (now_us, is_still) = (self.at_us(monotonic_us), self.is_still(monotonic_us));
        // The instant of the standstill stays the minimum: a reader that meets half of a change sees no time that goes back.
        let line = Self { still_us: self.still_us, ..Self::running(line_us, monotonic_us) };
        // A standstill begins late, so one that has begun may last that much longer.
        let ahead_max_us = standstill_max_us + if is_still { STANDSTILL_AFTER_US } else { 0 };
        match now_us - line_us {
            ..=0 => Some(line),
            ahead_us if ahead_us <= ahead_max_us => Some(Self { still_us: self.stop_us(monotonic_us), ..line }),
            _ => None,
        }
    }

    /// The instant at which a standstill stands that begins now or has begun: no reader has read a later time.
    fn stop_us(self, monotonic_us: i64) -> i64 {
        if self.is_still(monotonic_us) { self.still_us } else { self.at_us(monotonic_us) + STANDSTILL_AFTER_US }
    }
}

/// How long the lines have been apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Apart {
    /// When the 10 minutes began, by the monotonic clock in microseconds.
    since_us: i64,
    /// The wall clock minus the monotonic clock then.
    offset_us: i64,
}

/// The two lines and the time shown, at the last reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeLines {
    /// The last reading; its wall clock is the wall line.
    last: ClockReading,
    /// The certain line, in microseconds since 1970.
    certain_us: i64,
    shown: Shown,
    /// `None` while the lines are one.
    apart: Option<Apart>,
    /// Whether the wall clock has stepped since the lines were last noted.
    is_step_unnoted: bool,
}

/// The wall clock is this many microseconds behind the time that a store has noted: one of them is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Behind(pub i64);

impl TimeLines {
    /// One line that begins with this reading.
    #[must_use]
    pub const fn new(reading: ClockReading) -> Self {
        let ClockReading { wall_us, monotonic_us } = reading;
        let shown = Shown::running(wall_us, monotonic_us);
        Self { last: reading, certain_us: wall_us, shown, apart: None, is_step_unnoted: false }
    }

    /// Continues from the note of a store; `None` where the store is new. `accepts_clock` makes the wall line certain.
    /// Gives the lines of afterwards too, as [`TimeLines::read`] does. A long standstill begins at `free_from`, the
    /// second after the instants that are not given any more: otherwise votes would wait until the time runs.
    ///
    /// # Errors
    /// [`Behind`]: the wall clock is more than a minute behind the earlier of the noted lines.
    pub fn start(
        note: Option<TimeNote>,
        free_from: UnixSeconds,
        reading: ClockReading,
        accepts_clock: bool,
    ) -> Result<(Self, Option<Self>), Behind> {
        let ClockReading { wall_us, monotonic_us } = reading;
        let us = |ms: u64| i64::try_from(ms.saturating_mul(1_000)).unwrap_or(i64::MAX / 2);
        let Some(TimeNote { certain_ms, wall_ms, shown_ms }) = note else {
            return Ok((Self::new(reading), None));
        };
        let behind_us = us(certain_ms.min(wall_ms)) - wall_us;
        if behind_us > NEAR_US && !accepts_clock {
            return Err(Behind(behind_us));
        }
        let moved_us = wall_us - us(wall_ms);
        let certain_us = us(certain_ms) + moved_us.clamp(0, NEAR_US);
        // A note may be a minute old.
        let noted_us = us(shown_ms) + if moved_us < -READING_ERROR_US { NEAR_US } else { 0 };
        let later_us = if accepts_clock { wall_us } else { wall_us.max(certain_us) };
        let free_us = i64::from(free_from.0) * 1_000_000;
        // After the time went back, the note still has instants of before.
        let is_behind_free = noted_us - later_us > SPENT_US && free_us - us(shown_ms) <= SPENT_US;
        let still_us = if is_behind_free { noted_us.max(free_us) } else { noted_us };
        let mut lines = Self {
            last: reading,
            certain_us,
            shown: Shown { offset_us: wall_us.min(still_us) - monotonic_us, still_us },
            apart: Some(Apart { since_us: monotonic_us, offset_us: wall_us - monotonic_us }),
            is_step_unnoted: false,
        };
        if accepts_clock {
            return Ok((lines, Some(lines.with_certain(wall_us, None))));
        }
        if (wall_us - certain_us).abs() <= NEAR_US {
            (lines.certain_us, lines.apart) = (certain_us.max(wall_us), None);
        }
        let then = lines.show();
        Ok((lines, then))
    }

    /// The line that has ended votes for a start, where [`TimeLines::start`] gave `started` for this note: the certain line
    /// before or after the change of that start. If the clock is behind the note, the noted line.
    #[must_use]
    pub fn ended_by_at_start(note: TimeNote, started: Result<(Self, Option<Self>), Behind>) -> UnixSeconds {
        let noted = UnixSeconds(u32::try_from(note.certain_ms / 1_000).unwrap_or(u32::MAX));
        started.map_or(noted, |(lines, then)| then.unwrap_or(lines).certain().max(lines.certain()))
    }

    /// Takes a reading. If the wall line becomes certain, or the time shown must go back, gives the lines of
    /// afterwards, which must be durable before they count. Until then the lines stay as they are, the time shown does
    /// not go back, and each reading gives them anew.
    pub fn read(&mut self, reading: ClockReading) -> Option<Self> {
        let monotonic_us = reading.monotonic_us;
        let run_us = monotonic_us - self.last.monotonic_us;
        let carried_us = self.last.wall_us + run_us;
        let step_us = reading.wall_us - carried_us;
        let wall_us = if step_us.abs() < READING_ERROR_US { carried_us } else { reading.wall_us };
        self.last = ClockReading { wall_us, monotonic_us };
        self.is_step_unnoted |= step_us.abs() > STEP_US;

        let is_one = self.apart.is_none();
        // While the lines are one, the certain line waits for a wall clock that is behind it.
        let certain_us = self.certain_us + if is_one && wall_us <= self.certain_us { 0 } else { run_us };
        if (wall_us - certain_us).abs() <= NEAR_US {
            self.certain_us = wall_us.max(if is_one { self.certain_us } else { certain_us });
            self.apart = None;
        } else {
            self.certain_us += run_us;
            let offset_us = wall_us - monotonic_us;
            let is_same = |apart: &Apart| (offset_us - apart.offset_us).abs() <= NEAR_US;
            self.apart = self.apart.filter(is_same).or(Some(Apart { since_us: monotonic_us, offset_us }));
        }
        self.show()
    }

    /// Shows the later line, as far as that needs no durable change. Gives the lines of such a change.
    fn show(&mut self) -> Option<Self> {
        let ClockReading { wall_us, monotonic_us } = self.last;
        let is_over = |apart: &Apart| monotonic_us - apart.since_us >= APART_MAX_US;
        let is_taken = self.apart.as_ref().is_some_and(is_over);
        let then =
            if is_taken { self.with_certain(wall_us, None) } else { self.with_certain(self.certain_us, self.apart) };
        let goes_back = then.now() < self.now();
        let later_us = self.certain_us.max(wall_us);
        let stands = Shown { still_us: self.shown.stop_us(monotonic_us), ..Shown::running(later_us, monotonic_us) };
        self.shown = self.shown.follow(later_us, monotonic_us, STANDSTILL_MAX_US).unwrap_or(stands);
        (is_taken || goes_back).then_some(then)
    }

    fn with_certain(&self, certain_us: i64, apart: Option<Apart>) -> Self {
        let ClockReading { wall_us, monotonic_us } = self.last;
        let later_us = certain_us.max(wall_us);
        let followed = self.shown.follow(later_us, monotonic_us, STANDSTILL_MAX_US);
        Self { certain_us, shown: followed.unwrap_or(Shown::running(later_us, monotonic_us)), apart, ..*self }
    }

    /// Whether the lines are one.
    #[must_use]
    pub const fn is_one(&self) -> bool {
        self.apart.is_none()
    }

    /// The wall line minus the certain line, in microseconds.
    #[must_use]
    pub const fn distance_us(&self) -> i64 {
        self.last.wall_us - self.certain_us
    }

    /// The certain line.
    #[must_use]
    pub fn certain(&self) -> UnixSeconds {
        seconds(self.certain_us)
    }

    /// The time shown.
    #[must_use]
    pub const fn shown(&self) -> Shown {
        self.shown
    }

    /// The time shown, at the last reading.
    #[must_use]
    pub fn now(&self) -> UnixSeconds {
        seconds(self.shown.at_us(self.last.monotonic_us))
    }

    /// The note for the store.
    #[must_use]
    pub fn note(&self) -> TimeNote {
        let ms = |us: i64| us.max(0).unsigned_abs() / 1_000;
        TimeNote {
            certain_ms: ms(self.certain_us),
            wall_ms: ms(self.last.wall_us),
            shown_ms: ms(self.shown.at_us(self.last.monotonic_us)),
        }
    }

    /// Whether the wall clock has stepped since the lines were last noted.
    #[must_use]
    pub const fn is_step_unnoted(&self) -> bool {
        self.is_step_unnoted
    }

    /// Marks the lines as noted in the store.
    pub const fn noted(&mut self) {
        self.is_step_unnoted = false;
    }
}

/// The second of an instant in microseconds since 1970.
#[must_use]
pub fn seconds(us: i64) -> UnixSeconds {
    UnixSeconds(u32::try_from(us.max(0) / 1_000_000).unwrap_or(u32::MAX))
}

#[cfg(test)]
#[path = "shown_tests.rs"]
mod shown_tests;
#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
