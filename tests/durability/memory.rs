//! The memory of a start: a machine with just enough memory for a run has enough for the next start.

use crate::durability::files::{await_ready, furnished};
use crate::durability::hangs::serve_shimmed;
use crate::util::DEADLINE;
use crate::util::client::Client;
use crate::util::figures::peak_kib;
use crate::util::ledger::{SERVER, serve};
use crate::util::needs::has;
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use crate::util::wait_until;
use rustix::process::Signal;
use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

const VOTES: u32 = 200_000;
/// Lines of a batch.
const LINES: u32 = 5_000;
/// The largest peak of a start, in percent of the peak of the run before it.
const PEAK_PERCENT_MAX: u64 = 115;

/// Regression: after a kill in a commit, a start took more memory than the run before it. On a machine with just enough
/// memory for the run, every start was killed.
#[test]
fn a_start_behind_a_kill_in_a_commit_takes_the_memory_of_the_run() {
    if !has(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, at) = (folder.path().join("data"), |name| folder.path().join(name));
    furnished(&data, 1);
    let mut server = serve_shimmed(folder.path(), &data);
    let run_kib = import(&server);
    fs::write(at("hang"), "").expect("the folder takes a file");
    let mut caster = Client::connect(server.control());
    let vote = format!(r#"{{"server_id":{SERVER},"ip":"192.0.2.1"}}"#);
    caster.send(server.control_client().request_bytes("POST", "/v1/votes", Some(&vote)));
    wait_until("a sync hangs", || at("hung").exists());
    server.signal(Signal::KILL);
    server.wait_exit(DEADLINE);
    drop(server);
    expect_start(&data, &[], run_kib);
}

/// Regression: a start with other settings writes the store anew. It had two files open, each with a cache of half the run's
/// memory.
#[test]
fn a_start_with_other_settings_takes_the_memory_of_the_run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    furnished(folder.path(), 1);
    let server = serve(folder.path(), &[]);
    let run_kib = import(&server);
    server.stop();
    expect_start(folder.path(), &["--cooldown-minutes", "120", "--accept-settings"], run_kib);
}

/// Imports [`VOTES`], and gives the peak memory of the process, in KiB.
fn import(server: &Server) -> u64 {
    let control = server.control_client();
    let voted_at = rfc3339(now_unix());
    for first in (0..VOTES).step_by(LINES as usize) {
        let mut lines = String::new();
        for number in first..first + LINES {
            let ip = Ipv4Addr::from(0x0B00_0000 + number);
            writeln!(lines, r#"{{"server_id":{SERVER},"ip":"{ip}","voted_at":"{voted_at}"}}"#).expect("there is room");
        }
        assert_eq!(control.post("/v1/votes/batch", &lines).json()["recorded"], LINES);
    }
    peak_kib(server.pid())
}

/// Requires that a start takes at most [`PEAK_PERCENT_MAX`] of the peak of the run before it.
fn expect_start(data: &Path, options: &[&str], run_kib: u64) {
    let server = serve(data, options);
    await_ready(&server);
    let start_kib = peak_kib(server.pid());
    assert!(start_kib * 100 <= run_kib * PEAK_PERCENT_MAX, "{start_kib} KiB of {run_kib}");
    server.stop();
}
