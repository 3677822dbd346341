//! The longest wait of a caller, judged fairly on a busy machine.

use crate::util::wait_within;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

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

/// Requires that the answer comes within a caller's patience. Time for which the machine kept every thread waiting does
/// not count, as nothing on the way spent it: the client, the proxy, the service and the proxy again, one after the other.
#[track_caller]
pub(crate) fn in_time<T>(label: &str, asked: impl FnOnce() -> T) -> T {
    let (late_before, from) = (late(), Instant::now());
    let answer = asked();
    let took = from.elapsed();
    let late = late().saturating_sub(late_before);
    assert!(
        took.saturating_sub(ON_THE_WAY * late) < CALLER_PATIENCE,
        "{label}: {took:?}, the machine late by {late:?}"
    );
    answer
}

/// Tries until the machine was quick enough for one try to be judged: `try_once` says so.
#[track_caller]
pub(crate) fn until_judged(what: &str, try_once: impl FnMut() -> bool) {
    wait_within(SLOW_MAX, what, try_once);
}
