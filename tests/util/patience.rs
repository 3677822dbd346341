//! The longest waits of a test and of a caller, judged fairly on a busy machine.

use std::sync::Once;
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

/// How long a machine may be too slow for a test that has to be done within a moment.
const SLOW_MAX: Duration = Duration::from_secs(300);

static LATE_NS: AtomicU64 = AtomicU64::new(0);

/// The total delay in waking a thread that only sleeps, since the first call: for this time the machine was
/// busy with other work.
fn late() -> Duration {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        spawn(|| {
            loop {
                let from = Instant::now();
                sleep(TICK);
                let late = from.elapsed().saturating_sub(TICK);
                LATE_NS.fetch_add(u64::try_from(late.as_nanos()).expect("not for centuries"), Ordering::Relaxed);
            }
        });
    });
    Duration::from_nanos(LATE_NS.load(Ordering::Relaxed))
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
