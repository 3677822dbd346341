//! The one place that reads the system's clocks.
//!
//! The time of the service is the monotonic clock plus an offset. The recorder sets the offset, so that
//! a step of the wall clock takes effect for every reader at one moment: see `recorder`.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::vote::time::UnixSeconds;

/// Reading both clocks takes less than this, in microseconds, unless the thread was held up.
const READING_MAX_US: i64 = 5_000;

/// A clock that goes back by no more than this is waited for, in microseconds.
pub const STANDSTILL_MAX_US: i64 = 60_000_000;
/// A standstill begins so much later than it is decided, in microseconds: more than a reader is held up between
/// reading a clock and using what it has read.
const STANDSTILL_AFTER_US: i64 = 100_000;

/// The two clocks that a [`Clock`] is made of: the system's, or those of a test.
pub trait Readers: Send + Sync {
    /// The wall clock, in microseconds since 1970.
    fn wall_us(&self) -> i64;

    /// The monotonic clock, in microseconds. It goes on while the machine is suspended.
    fn boot_us(&self) -> i64;
}

/// The system's clocks.
struct SystemReaders;

impl Readers for SystemReaders {
    #[expect(clippy::disallowed_methods, reason = "the one place")]
    fn wall_us(&self) -> i64 {
        // Before 1970 there is no time to tell; the epoch is the nearest.
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX)
    }

    fn boot_us(&self) -> i64 {
        let since_boot = clock_gettime(ClockId::Boottime);
        since_boot.tv_sec * 1_000_000 + since_boot.tv_nsec / 1_000
    }
}

/// One reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds since the clock was made; never goes back. For deadlines.
    pub monotonic_ms: u64,
    /// The same in microseconds, for measuring.
    pub monotonic_us: u64,
    /// Time of the service. For cooldowns and dates.
    pub wall: UnixSeconds,
}

/// Reads the time of the service. Cheap to clone; all clones tell the same time.
#[derive(Clone)]
pub struct Clock {
    readers: Arc<dyn Readers>,
    origin_us: i64,
    time: Arc<Time>,
}

/// The time of the service, by the monotonic clock.
struct Time {
    /// Wall clock minus monotonic clock, in microseconds: whole milliseconds would make the time of
    /// the service lag by what is cut off on both sides.
    offset_us: AtomicI64,
    /// The time is at least this, in microseconds since 1970: a clock that was set back a little is waited for. The
    /// time goes on by itself then, whatever holds up the recorder.
    still_us: AtomicI64,
}

impl Time {
    fn at_us(&self, monotonic_us: i64) -> i64 {
        // In this order: see `Clock::follow`.
        let running_us = self.offset_us.load(Ordering::Acquire).saturating_add(monotonic_us);
        running_us.max(self.still_us.load(Ordering::Acquire))
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// A clock set by the system's wall clock.
    #[must_use]
    pub fn new() -> Self {
        Self::of(Arc::new(SystemReaders))
    }

    /// A clock over these two, set by the first.
    #[must_use]
    pub fn of(readers: Arc<dyn Readers>) -> Self {
        let (origin_us, wall_us) = (readers.boot_us(), readers.wall_us());
        let time = Time { offset_us: AtomicI64::new(wall_us), still_us: AtomicI64::new(i64::MIN) };
        Self { readers, origin_us, time: Arc::new(time) }
    }

    /// Both clocks, now.
    #[must_use]
    pub fn now(&self) -> Now {
        let monotonic_us = self.monotonic_us();
        let wall = seconds(self.time.at_us(monotonic_us));
        let monotonic_us = monotonic_us.unsigned_abs();
        Now { monotonic_ms: monotonic_us / 1_000, monotonic_us, wall }
    }

    /// The time of the service in milliseconds since 1970.
    #[must_use]
    pub fn wall_ms(&self) -> u64 {
        self.wall_us().max(0).unsigned_abs() / 1_000
    }

    /// Microseconds since `earlier`.
    #[must_use]
    #[inline]
    pub fn since_us(&self, earlier: Now) -> u64 {
        self.monotonic_us().unsigned_abs().saturating_sub(earlier.monotonic_us)
    }

    /// How far the system's wall clock is ahead of the time of the service, in milliseconds.
    #[must_use]
    pub fn drift_ms(&self) -> i64 {
        let before_us = self.monotonic_us();
        let wall_us = self.readers.wall_us();
        let after_us = self.monotonic_us();
        // The thread was held up between the two readings: their difference says nothing.
        if after_us - before_us > READING_MAX_US {
            return 0;
        }
        (wall_us - self.time.at_us(after_us)) / 1_000
    }

    /// Moves the time of the service by `ms`, for every reader at once.
    pub fn adjust(&self, ms: i64) {
        self.move_us(ms * 1_000);
    }

    /// Follows a clock that is `drift_us` ahead of the time of the service: forward at once, and back as well where
    /// that is more than [`STANDSTILL_MAX_US`]. Else the time stands still until that clock has caught up, and no
    /// reader sees it go back. Gives whether this is news: a clock that is waited for is none.
    pub fn follow(&self, drift_us: i64) -> bool {
        if drift_us == 0 {
            return false;
        }
        let stands_still = self.stands_still();
        let is_waited_for = (-STANDSTILL_MAX_US..0).contains(&drift_us);
        if is_waited_for {
            let offset_us = self.offset_us().saturating_add(drift_us);
            if !stands_still {
                // A little later than now: no reader has read so late a time.
                self.time.still_us.store(self.wall_us().saturating_add(STANDSTILL_AFTER_US), Ordering::Release);
            }
            // Behind it: a reader that finds the new offset finds the standstill as well.
            self.time.offset_us.store(offset_us, Ordering::Release);
        } else {
            self.move_us(drift_us);
        }
        !stands_still || drift_us < -STANDSTILL_MAX_US
    }

    /// Whether the time waits for a clock that is behind.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        let running_us = self.time.offset_us.load(Ordering::Acquire).saturating_add(self.monotonic_us());
        running_us < self.time.still_us.load(Ordering::Acquire)
    }

    /// The time of the service minus the monotonic clock, in microseconds: for a node that goes by another clock
    /// than the system's.
    #[must_use]
    pub fn offset_us(&self) -> i64 {
        let monotonic_us = self.monotonic_us();
        self.time.at_us(monotonic_us) - monotonic_us
    }

    /// The system's wall clock minus the monotonic clock, in microseconds.
    #[must_use]
    pub fn system_offset_us(&self) -> i64 {
        self.readers.wall_us() - self.monotonic_us()
    }

    fn move_us(&self, us: i64) {
        self.time.offset_us.store(self.offset_us().saturating_add(us), Ordering::Release);
        self.time.still_us.store(i64::MIN, Ordering::Release);
    }

    fn wall_us(&self) -> i64 {
        self.time.at_us(self.monotonic_us())
    }

    fn monotonic_us(&self) -> i64 {
        self.readers.boot_us() - self.origin_us
    }
}

/// What the system's wall clock says, in milliseconds since 1970: for log lines, which are compared
/// with those of other programs.
#[must_use]
pub fn system_wall_ms() -> u64 {
    SystemReaders.wall_us().unsigned_abs() / 1_000
}

fn seconds(us: i64) -> UnixSeconds {
    UnixSeconds(u32::try_from(us.max(0) / 1_000_000).unwrap_or(u32::MAX))
}

/// Clocks that a test sets.
#[cfg(test)]
#[derive(Default)]
pub struct HandReaders {
    wall_us: AtomicI64,
    boot_us: AtomicI64,
}

#[cfg(test)]
impl HandReaders {
    /// The wall clock stands at that second.
    pub fn at(wall: u32) -> Arc<Self> {
        Arc::new(Self { wall_us: AtomicI64::new(i64::from(wall) * 1_000_000), ..Self::default() })
    }

    /// Time passes.
    pub fn pass_ms(&self, ms: i64) {
        self.boot_us.fetch_add(ms * 1_000, Ordering::Relaxed);
        self.step_ms(ms);
    }

    /// The wall clock is set.
    pub fn step_ms(&self, ms: i64) {
        self.wall_us.fetch_add(ms * 1_000, Ordering::Relaxed);
    }
}

#[cfg(test)]
impl Readers for HandReaders {
    fn wall_us(&self) -> i64 {
        self.wall_us.load(Ordering::Relaxed)
    }

    fn boot_us(&self) -> i64 {
        self.boot_us.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::{Clock, HandReaders, Readers};

    /// Regression: while a sync hung the time stood still, and cooldowns that had ended were shown.
    #[test]
    fn the_time_goes_on_by_itself_once_the_clock_has_caught_up() {
        let readers = HandReaders::at(1_000);
        let clock = Clock::of(readers.clone());
        readers.step_ms(-20);
        assert!(clock.follow(-20_000) && clock.stands_still());
        readers.pass_ms(30_000);
        assert_eq!(clock.wall_ms(), 1_029_980);
        assert!(!clock.stands_still());
        assert_eq!(clock.drift_ms(), 0);
    }

    #[test]
    fn a_step_back_of_a_minute_makes_the_time_stand_still_and_nobody_sees_it_go_back() {
        let readers = HandReaders::at(1_000);
        let clock = Clock::of(readers.clone());
        assert!(!clock.follow(0));
        readers.step_ms(-60_000);
        assert!(clock.follow(clock.drift_ms() * 1_000), "it is news");
        let mut last_ms = clock.wall_ms();
        for _ in 0..240 {
            readers.pass_ms(500);
            assert!(clock.wall_ms() >= last_ms, "{} after {last_ms}", clock.wall_ms());
            last_ms = clock.wall_ms();
            clock.follow(clock.drift_ms() * 1_000);
            let wall_ms = u64::try_from(readers.wall_us() / 1_000).expect("after 1970");
            assert!(clock.wall_ms() == wall_ms.max(1_000_100), "{} at {wall_ms}", clock.wall_ms());
        }
        assert!(!clock.stands_still());
        readers.step_ms(-60_001);
        clock.follow(clock.drift_ms() * 1_000);
        assert_eq!(clock.wall_ms(), u64::try_from(readers.wall_us() / 1_000).expect("after 1970"), "followed at once");
    }
}
