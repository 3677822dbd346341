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

pub(crate) use patience::{DEADLINE, wait_until, wait_within};

/// The largest distance of the server's clock from the tests', in milliseconds. The server reads
/// its clock once a turn, and follows the system's when that has gone this far.
pub(crate) const CLOCK_SLACK_MS: i64 = 50;
