//! The one place that reads the system's clocks.
//!
//! Readers see the output of the rule of time (`vote/lines`). The recorder reads both clocks here, and shows here the
//! rule's result. Between two readings the time runs on by the monotonic clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::vote::lines::{ClockReading, Shown, seconds};
use crate::vote::time::UnixSeconds;

/// The longest time that reading both clocks takes, in microseconds, unless the thread was held up.
const READING_MAX_US: i64 = 5_000;

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

/// The time shown, in two words that each reader loads: see [`Shown`].
struct Time {
    /// In microseconds: in milliseconds, both clocks would be truncated, and the time of the service would lag.
    offset_us: AtomicI64,
    still_us: AtomicI64,
    /// The certain line as the recorder last read it, in seconds since 1970.
    certain_s: AtomicU32,
}

impl Time {
    fn shown(&self) -> Shown {
        // In this order: see `Clock::show`.
        let offset_us = self.offset_us.load(Ordering::Acquire);
        Shown { offset_us, still_us: self.still_us.load(Ordering::Acquire) }
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

    /// A clock over these readers, set by their wall clock.
    #[must_use]
    pub fn of(readers: Arc<dyn Readers>) -> Self {
        let (origin_us, wall_us) = (readers.boot_us(), readers.wall_us());
        let (offset_us, still_us) = (AtomicI64::new(wall_us), AtomicI64::new(i64::MIN));
        let time = Time { offset_us, still_us, certain_s: AtomicU32::new(u32::MAX) };
        Self { readers, origin_us, time: Arc::new(time) }
    }

    /// The time of the service and the monotonic clock, now.
    #[must_use]
    pub fn now(&self) -> Now {
        let monotonic_us = self.monotonic_us();
        let wall = seconds(self.time.shown().at_us(monotonic_us));
        let monotonic_us = monotonic_us.unsigned_abs();
        Now { monotonic_ms: monotonic_us / 1_000, monotonic_us, wall }
    }

    /// The time of the service in milliseconds since 1970.
    #[must_use]
    pub fn shown_ms(&self) -> u64 {
        self.time.shown().at_us(self.monotonic_us()).max(0).unsigned_abs() / 1_000
    }

    /// Microseconds since `earlier`.
    #[must_use]
    #[inline]
    pub fn since_us(&self, earlier: Now) -> u64 {
        self.monotonic_us().unsigned_abs().saturating_sub(earlier.monotonic_us)
    }

    /// Both of the system's clocks, at one moment. `None` where the thread was held up between the two readings: these
    /// cannot be compared then.
    #[must_use]
    pub fn read(&self) -> Option<ClockReading> {
        let before_us = self.monotonic_us();
        let wall_us = self.readers.wall_us();
        let monotonic_us = self.monotonic_us();
        (monotonic_us - before_us <= READING_MAX_US).then_some(ClockReading { wall_us, monotonic_us })
    }

    /// Shows this time from now on, to every reader at once.
    pub fn show(&self, shown: Shown) {
        // A standstill is stored before the offset, and its end after the offset: a reader that meets half of the
        // change sees no time that goes back.
        let begins = shown.still_us > self.time.still_us.load(Ordering::Acquire);
        if begins {
            self.time.still_us.store(shown.still_us, Ordering::Release);
        }
        self.time.offset_us.store(shown.offset_us, Ordering::Release);
        if !begins {
            self.time.still_us.store(shown.still_us, Ordering::Release);
        }
    }

    /// Shows the certain line.
    pub fn show_certain(&self, certain: UnixSeconds) {
        self.time.certain_s.store(certain.0, Ordering::Relaxed);
    }

    /// The certain line: a cooldown that has ended by it has ended for good. Until the line is first shown, this is the
    /// time shown.
    #[must_use]
    pub fn certain(&self) -> UnixSeconds {
        UnixSeconds(self.time.certain_s.load(Ordering::Relaxed)).min(self.now().wall)
    }

    /// The time shown.
    #[must_use]
    pub fn shown(&self) -> Shown {
        self.time.shown()
    }

    /// The time of the service minus the monotonic clock, in microseconds: for a node that goes by another clock
    /// than the system's.
    #[must_use]
    pub fn offset_us(&self) -> i64 {
        let monotonic_us = self.monotonic_us();
        self.time.shown().at_us(monotonic_us) - monotonic_us
    }

    /// The system's wall clock minus the monotonic clock, in microseconds.
    #[must_use]
    pub fn system_offset_us(&self) -> i64 {
        self.readers.wall_us() - self.monotonic_us()
    }

    fn monotonic_us(&self) -> i64 {
        self.readers.boot_us() - self.origin_us
    }
}

/// The system's wall clock, in milliseconds since 1970: for log lines, which are compared with those of other programs.
#[must_use]
pub fn system_wall_ms() -> u64 {
    SystemReaders.wall_us().unsigned_abs() / 1_000
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicI64, Ordering};

    use std::fs::{read_to_string, write};
    use std::time::UNIX_EPOCH;

    use super::{Clock, ClockReading, HandReaders, Readers, Shown, SystemReaders, UnixSeconds, system_wall_ms};

    /// How long each look at the monotonic clock takes, in microseconds.
    struct HeldUp {
        look_us: i64,
        boot_us: AtomicI64,
    }

    impl Readers for HeldUp {
        fn wall_us(&self) -> i64 {
            1_795_000_000_000_000
        }

        fn boot_us(&self) -> i64 {
            self.boot_us.fetch_add(self.look_us, Ordering::Relaxed)
        }
    }

    /// The kernel reports both clocks in files too, up to 10 ms late.
    #[test]
    fn the_system_has_the_time_that_its_files_say() {
        const COARSE_US: i64 = 50_000;
        let folder = tempfile::tempdir().expect("there is a disk");
        let before_us = SystemReaders.wall_us();
        let before_ms = i64::try_from(system_wall_ms()).expect("a time of this age");
        write(folder.path().join("file"), "").expect("it can be written");
        let written = folder.path().join("file").metadata().and_then(|file| file.modified()).expect("it has a time");
        let written_us = written.duration_since(UNIX_EPOCH).expect("it is later").as_micros();
        let written_us = i64::try_from(written_us).expect("a time of this age");
        let possible_us = before_us - COARSE_US..=SystemReaders.wall_us();
        assert!(possible_us.contains(&written_us), "{written_us} {possible_us:?}");
        assert!((before_us / 1_000..=possible_us.end() / 1_000).contains(&before_ms), "{before_ms} {possible_us:?}");

        let before_us = SystemReaders.boot_us();
        let uptime = read_to_string("/proc/uptime").expect("Linux has it");
        let uptime_s: f64 = uptime.split(' ').next().expect("a number").parse().expect("a number");
        let possible_us = before_us - COARSE_US..=SystemReaders.boot_us();
        assert!(possible_us.contains(&((uptime_s * 1e6) as i64)), "{uptime_s} {possible_us:?}");
    }

    #[test]
    fn the_time_since_a_moment_is_that_of_the_monotonic_clock() {
        let readers = HandReaders::at(1_795_000_000);
        let clock = Clock::of(readers.clone());
        readers.pass_ms(3);
        let then = clock.now();
        assert_eq!(clock.since_us(then), 0);
        readers.pass_ms(7);
        readers.step_ms(3_600_000);
        assert_eq!((clock.since_us(then), clock.now().monotonic_us), (7_000, 10_000));
        assert_eq!((clock.offset_us(), clock.system_offset_us()), (1_795_000_000_000_000, 1_795_003_600_000_000));
    }

    #[test]
    fn the_certain_line_is_the_time_shown_until_it_is_told_and_never_later() {
        let clock = Clock::of(HandReaders::at(1_795_000_000));
        assert_eq!(clock.certain(), UnixSeconds(1_795_000_000));
        clock.show_certain(UnixSeconds(1_794_999_000));
        assert_eq!(clock.certain(), UnixSeconds(1_794_999_000));
        clock.show_certain(UnixSeconds(1_795_000_001));
        assert_eq!(clock.certain(), UnixSeconds(1_795_000_000));
    }

    #[test]
    fn the_time_that_is_shown_stands_still_as_told() {
        let readers = HandReaders::at(1_795_000_000);
        let clock = Clock::of(readers.clone());
        let still_us = 1_795_000_002_000_000;
        clock.show(Shown { offset_us: 1_795_000_000_000_000, still_us });
        assert_eq!(clock.now().wall, UnixSeconds(1_795_000_002));
        readers.pass_ms(3_000);
        assert_eq!(clock.now().wall, UnixSeconds(1_795_000_003));
        let earlier = Shown { offset_us: 1_795_000_000_000_000, still_us: i64::MIN };
        clock.show(earlier);
        assert_eq!((clock.shown(), clock.now().wall), (earlier, UnixSeconds(1_795_000_003)));
    }

    #[test]
    fn clocks_that_were_read_far_apart_say_nothing() {
        let read = |look_us| Clock::of(Arc::new(HeldUp { look_us, boot_us: AtomicI64::default() })).read();
        let wall_us = 1_795_000_000_000_000;
        assert_eq!(read(5_000), Some(ClockReading { wall_us, monotonic_us: 10_000 }));
        assert_eq!(read(5_001), None);
    }
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
