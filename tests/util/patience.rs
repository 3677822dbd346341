//! What a caller waits for at most, judged fairly where the machine is busy.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// What the least patient caller waits for.
pub(crate) const CALLER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the thread sleeps that sees how late it is woken.
const TICK: Duration = Duration::from_millis(10);

static LATE_NS: AtomicU64 = AtomicU64::new(0);

/// How late a thread that only sleeps has been woken, all in all, since the first call: so much the machine was
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

/// The answer, which comes within a caller's patience. Time for which the machine kept every thread waiting is not
/// counted: it is neither the service's nor a proxy's.
#[track_caller]
pub(crate) fn in_time<T>(label: &str, asked: impl FnOnce() -> T) -> T {
    let (late_before, from) = (late(), Instant::now());
    let answer = asked();
    let took = from.elapsed();
    let late = late().saturating_sub(late_before);
    assert!(took.saturating_sub(late) < CALLER_PATIENCE, "{label}: {took:?}, the machine late by {late:?}");
    answer
}
