//! What every integration test needs: a real server on ports of its own, a raw client with
//! deadlines, and a wall clock to compare with. It knows the wire and the command line only; it
//! must not use the library under test, or both could be wrong together.

pub(crate) mod client;
pub(crate) mod control;
pub(crate) mod endpoint;
pub(crate) mod random;
pub(crate) mod response;
pub(crate) mod server;
pub(crate) mod time;
#[cfg(feature = "tls")]
pub(crate) mod tls;

use std::time::Duration;

/// How far the server's clock may be from the one that the tests read, in milliseconds: it reads
/// its own once a turn, and follows the system's when that has gone this far.
pub(crate) const CLOCK_SLACK_MS: i64 = 50;

/// The longest wait for anything that should happen at once. Generous, since a loaded machine is
/// slow, and never reached by a test that passes.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);
