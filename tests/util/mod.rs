//! What every integration test needs: a real server on ports of its own, a raw client with
//! deadlines, and a wall clock to compare with. It knows the wire and the command line only; it
//! must not use the library under test, or both could be wrong together.

pub(crate) mod answers;
pub(crate) mod checks;
pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod endpoint;
pub(crate) mod figures;
pub(crate) mod kept;
pub(crate) mod ledger;
pub(crate) mod load;
pub(crate) mod needs;
pub(crate) mod package;
pub(crate) mod patience;
pub(crate) mod promtool;
pub(crate) mod random;
pub(crate) mod response;
pub(crate) mod server;
pub(crate) mod stub;
pub(crate) mod time;
pub(crate) mod watch;

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How far the server's clock may be from the one that the tests read, in milliseconds: it reads
/// its own once a turn, and follows the system's when that has gone this far.
pub(crate) const CLOCK_SLACK_MS: i64 = 50;

/// The longest wait for anything that should happen at once. Generous, since a loaded machine is
/// slow, and never reached by a test that passes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// Between two looks at what gives no signal of its own.
const POLL: Duration = Duration::from_millis(2);

/// Waits until it is so.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, is_so);
}

/// The same, of what takes longer for a reason.
#[track_caller]
pub(crate) fn wait_within(deadline: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + deadline;
    while !is_so() {
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        sleep(POLL);
    }
}
