//! Restarts under load that no client notices: a service manager holds the listening sockets. Black box; knows
//! the command line, signals, and how sockets are passed.

pub(crate) mod util;

use crate::util::client::{Client, get};
use crate::util::wait_until;
use std::thread::sleep;
use std::time::{Duration, Instant};
use util::manager::Manager;
use util::under_load;

/// Longer than the time that an ending process gives to idle clients.
const LONG: Duration = Duration::from_millis(1_500);

#[test]
fn no_request_and_no_vote_is_lost() {
    for (way, options) in [("over TCP", 0), ("over Unix sockets", 2)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let sockets = ["--unix", &folder.path().display().to_string()];
        let Some(manager) = Manager::start(folder.path(), &sockets[..options], &["--workers", "2"]) else { return };
        under_load(way, &manager, &manager.server.publics()[0]);
    }
}

const BEGUN: &str = "GET /api/vote/1/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n";

/// Regression: a client that had begun a request made all newcomers wait in the socket until its own deadline.
#[test]
fn a_slow_request_makes_no_newcomer_wait() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let patient = ["--workers", "2", "--head-timeout", "60", "--drain-timeout", "60"];
    let Some(manager) = Manager::start(folder.path(), &[], &patient) else { return };
    let server = &manager.server;
    let mut slow = Client::connect(server.public());
    slow.expect_open();
    slow.send(BEGUN);
    let before = manager.processes();
    manager.signal();
    wait_until("it stops", || get(server.public(), "/readyz").status == 503);
    let since = Instant::now();
    while since.elapsed() < LONG {
        assert_eq!(get(server.public(), "/api/vote/1/status/203.0.113.7").status, 200);
        assert_eq!(get(server.control(), "/healthz").status, 200);
        sleep(Duration::from_millis(10));
    }
    assert_eq!(manager.processes(), before, "the old process waits for it");
    slow.send("\r\n");
    let response = slow.read_response(false);
    assert_eq!((response.status, response.says_close()), (200, true), "{response:?}");
    manager.await_process(before + 1);
    assert_eq!(get(server.public(), "/api/vote/1/status/203.0.113.7").status, 200);
}
