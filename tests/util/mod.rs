//! Tools of every integration test: a real server on ports of its own, a raw client with
//! deadlines, and a wall clock to compare with. They know only the wire and the command line, and
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

/// The largest distance of the server's clock from the tests', in milliseconds. The server reads
/// its clock once a turn, and follows the system's when that has gone this far.
pub(crate) const CLOCK_SLACK_MS: i64 = 50;

/// The longest wait for anything that should happen at once. It is generous, as a loaded machine
/// is slow, and no passing test reaches it.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
/// The pause between two looks at something that gives no signal of its own.
const POLL: Duration = Duration::from_millis(2);

/// Waits until the condition holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, is_so: impl FnMut() -> bool) {
    wait_within(DEADLINE, what, is_so);
}

/// The same with a longer deadline.
#[track_caller]
pub(crate) fn wait_within(deadline: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + deadline;
    while !is_so() {
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        sleep(POLL);
    }
}
