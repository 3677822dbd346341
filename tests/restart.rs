//! Restarts under load that no client notices: a service manager holds the listening sockets. Black box; knows
//! the command line, signals, and how sockets are passed.

mod load;

use crate::util::DEADLINE;
use crate::util::needs::{has, left_out};
use crate::util::server::Server;
use load::{Habit, Load};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Restarts in a row, unless `VOTE_STATUS_RESTARTS` says otherwise.
const RESTARTS_DEFAULT: u32 = 3;
/// Requests between two restarts, at least.
const REQUESTS_BETWEEN: u64 = 500;
/// Idle clients are given this long to ask once more by a process that ends; these ask in time.
const SHORT_PAUSE: Duration = Duration::from_millis(200);
/// These do not, and are closed in order.
const LONG_PAUSE: Duration = Duration::from_millis(1_500);

const HABITS: [Habit; 9] = [
    Habit::Kept,
    Habit::Kept,
    Habit::Kept,
    Habit::Fresh,
    Habit::Fresh,
    Habit::FreshSaid,
    Habit::Dribbling,
    Habit::Pausing(SHORT_PAUSE),
    Habit::Pausing(LONG_PAUSE),
];

fn restarts() -> u32 {
    let number = std::env::var("VOTE_STATUS_RESTARTS").ok();
    number.map_or(RESTARTS_DEFAULT, |number| number.parse().expect("VOTE_STATUS_RESTARTS is a number"))
}

#[track_caller]
fn assert_gone_well(mut server: Server) {
    let status = server.wait_exit(DEADLINE);
    assert_eq!(status.code(), Some(0), "{status:?}, {}", server.stderr());
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

/// wrk beside the clients of our own: more connections than we have threads. None if it is missing.
fn wrk(server: &Server, args: &[&str]) -> Option<Wrk> {
    let url = format!("http://{}/api/vote/1/status/203.0.113.7", server.public());
    let mut command = Command::new("wrk");
    command.args(["--threads", "1", "--duration", "300s", "--timeout", "5s"]).args(args).arg(url);
    let started = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    if let Err(error) = &started {
        left_out(&format!("wrk: {error}"));
    }
    started.ok().map(Wrk)
}

/// Does not outlive the test that has started it.
struct Wrk(Child);

impl Drop for Wrk {
    fn drop(&mut self) {
        // An error here means that it has ended already, which is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends wrk, and gives what it reports: requests, and the lines about errors.
fn wrk_report(mut wrk: Wrk) -> (u64, Vec<String>) {
    kill_process(Pid::from_child(&wrk.0), Signal::INT).expect("wrk runs until it is told to end");
    let mut report = String::new();
    wrk.0.stdout.take().expect("piped").read_to_string(&mut report).expect("wrk writes text");
    let requests = report.lines().find_map(|line| line.trim().split_once(" requests in ")?.0.parse().ok());
    let errors = report.lines().filter(|line| line.contains("Socket errors") || line.contains("Non-2xx"));
    (requests.unwrap_or_else(|| panic!("wrk: {report}")), errors.map(|line| line.trim().to_owned()).collect())
}

/// Restarts again and again by `restart` while all kinds of clients ask, then checks every vote.
fn under_load(way: &str, mut server: Server, mut restart: impl FnMut(Server, u32) -> Server) -> Load {
    server.control_client().add_server(1, "t");
    let load = Load::new(&server.publics()[0], server.control_endpoint());
    let kept = wrk(&server, &["--connections", "32"]);
    let fresh = wrk(&server, &["--connections", "4", "--header", "Connection: close"]);
    let server = scope(|scope| {
        let _ends_on_panic = load.start(scope, &HABITS);
        for number in 1..=restarts() {
            let enough = load.requests() + REQUESTS_BETWEEN;
            let until = Instant::now() + DEADLINE;
            while load.requests() < enough && Instant::now() < until {
                sleep(Duration::from_millis(5));
            }
            server = restart(server, number);
        }
        sleep(LONG_PAUSE);
        server
    });
    let mut of_wrk = 0;
    for (requests, errors) in [kept, fresh].into_iter().flatten().map(wrk_report) {
        assert_eq!(errors, [""; 0], "wrk, {way}");
        of_wrk += requests;
    }
    let votes = load.votes();
    let (failures, longest) = (load.failures(), load.longest());
    writeln!(
        std::io::stderr(),
        "{} restarts by {way}: {} requests and {of_wrk} of wrk, {} votes, {} failures, longest answer {} ms, {} idle connections closed",
        restarts(),
        load.requests(),
        votes.len(),
        failures.len(),
        longest.as_millis(),
        load.ended(),
    )
    .expect("standard error can be written to");
    assert_eq!(failures, [""; 0], "{way}");
    assert_all_kept(&server, &votes);
    server.signal(Signal::TERM);
    assert_gone_well(server);
    load
}

/// Every vote that was answered 201 is there, and nothing else is.
#[track_caller]
fn assert_all_kept(server: &Server, votes: &[Ipv4Addr]) {
    let export = server.control_client().get("/v1/export");
    let lines = export.text().lines().filter_map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        line.get("ip").map(|ip| ip.as_str().expect("a text").parse().expect("an address"))
    });
    let kept: Vec<Ipv4Addr> = lines.collect();
    let distinct: BTreeSet<Ipv4Addr> = kept.iter().copied().collect();
    assert_eq!(kept.len(), distinct.len(), "a vote is there twice");
    assert_eq!(distinct, votes.iter().copied().collect());
}

#[test]
fn a_service_manager_restarts_it_without_a_lost_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !has(&["python3"]) {
        return;
    }
    let mut command = Command::new("python3");
    command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/restart/manager.py"));
    command.args([env!("CARGO_BIN_EXE_vote-status"), "serve", "--workers", "2", "--data-dir"]).arg(folder.path());
    under_load("a service manager", Server::spawn(command), |parent, number| {
        parent.signal(Signal::HUP);
        let lines = (number as usize + 1) * 2;
        let until = Instant::now() + DEADLINE;
        while parent.stdout().lines().count() < lines {
            assert!(Instant::now() < until, "no restart: {}{}", parent.stdout(), parent.stderr());
            sleep(Duration::from_millis(5));
        }
        parent
    });
}
