//! The longest waits of a test and of a caller, judged fairly on a busy machine.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The longest wait for anything that should happen at once. No passing test reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// The pause between two looks at something that gives no signal of its own.
const POLL: Duration = Duration::from_millis(2);
/// The longest wait of the least patient caller.
pub(crate) const CALLER_PATIENCE: Duration = Duration::from_secs(5);
/// The number of threads that have to be woken one after the other for an answer.
const ON_THE_WAY: u32 = 4;
/// How long the thread that measures late wake-ups sleeps.
const TICK: Duration = Duration::from_millis(10);

/// How long a machine may be too slow for a test that has to be done within a moment, and for a command that a test runs.
pub(crate) const SLOW_MAX: Duration = Duration::from_secs(300);
/// A wake-up that is this late is a stall: a node may see it as a second for which it stood still.
const STALL_MIN: Duration = Duration::from_millis(250);
/// For how long a stall is the reason of what a node refuses.
#[cfg(feature = "redis")]
const STALL_FELT: Duration = Duration::from_secs(2);

static LATE_NS: AtomicU64 = AtomicU64::new(0);
/// When the last stall ended, in nanoseconds since the first call of [`late`]; 0 before the first stall.
static STALLED_AT_NS: AtomicU64 = AtomicU64::new(0);

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("not for centuries")
}

/// The total delay in waking a thread that only sleeps, since the first call: for this time the machine was
/// busy with other work.
fn late() -> Duration {
    watched_since();
    Duration::from_nanos(LATE_NS.load(Ordering::Relaxed))
}

/// The instant of the first call, which starts that thread.
fn watched_since() -> Instant {
    static SINCE: OnceLock<Instant> = OnceLock::new();
    *SINCE.get_or_init(|| {
        let since = Instant::now();
        spawn(move || {
            loop {
                let from = Instant::now();
                sleep(TICK);
                let late = from.elapsed().saturating_sub(TICK);
                LATE_NS.fetch_add(nanoseconds(late), Ordering::Relaxed);
                if late >= STALL_MIN {
                    STALLED_AT_NS.store(nanoseconds(since.elapsed()), Ordering::Relaxed);
                }
            }
        });
        since
    })
}

/// Whether the machine kept a thread waiting a moment ago for so long that a node refuses changes.
#[cfg(feature = "redis")]
pub(crate) fn has_stalled() -> bool {
    let since = watched_since();
    // The thread that measures wakes up after the same stall, perhaps later than this one.
    sleep(3 * TICK);
    let stalled_at_ns = STALLED_AT_NS.load(Ordering::Relaxed);
    stalled_at_ns > 0 && since.elapsed() < Duration::from_nanos(stalled_at_ns) + STALL_FELT
}

/// A wait that was begun. Time for which the machine kept every thread waiting does not count, as nothing on the way spent
/// it: the client, the proxy, the service and the proxy again, one after the other.
pub(crate) struct Wait {
    from: Instant,
    late_before: Duration,
}

impl Wait {
    pub(crate) fn begin() -> Wait {
        Wait { late_before: late(), from: Instant::now() }
    }

    /// The time that counts, at most [`SLOW_MAX`] less than all of it.
    pub(crate) fn counted(&self) -> Duration {
        let late = late().saturating_sub(self.late_before);
        self.from.elapsed().saturating_sub((ON_THE_WAY * late).min(SLOW_MAX))
    }
}

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, is_so);
}

/// The same with a longer deadline.
#[track_caller]
pub(crate) fn wait_within(deadline: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let wait = Wait::begin();
    while !is_so() {
        assert!(wait.counted() < deadline, "not within {deadline:?}: {what} (waited for {:?})", wait.from.elapsed());
        sleep(POLL);
    }
}

/// Requires that the answer comes within a caller's patience.
#[track_caller]
pub(crate) fn in_time<T>(label: &str, asked: impl FnOnce() -> T) -> T {
    let wait = Wait::begin();
    let answer = asked();
    let counted = wait.counted();
    assert!(counted < CALLER_PATIENCE, "{label}: {:?}, of which {counted:?} count", wait.from.elapsed());
    answer
}

/// Tries until the machine was quick enough for one try to be judged: `try_once` says so.
#[track_caller]
pub(crate) fn until_judged(what: &str, try_once: impl FnMut() -> bool) {
    wait_within(SLOW_MAX, what, try_once);
}
