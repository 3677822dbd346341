//! Restarts under load that no client notices: by a new process that takes over from the running
//! one, and by a service manager that holds the listening sockets. Black box; knows the command
//! line, signals, and how sockets are passed.

mod caller;
mod load;
mod probes;
mod unfinished;

use crate::util::DEADLINE;
use crate::util::client::{Client, get};
use crate::util::needs::{has, left_out};
use crate::util::server::Server;
use crate::util::watch::Watching;
use caller::{Caller, lock};
use load::{Habit, Load};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Restarts in a row, unless `VOTE_STATUS_UPGRADES` says otherwise.
const RESTARTS_DEFAULT: u32 = 3;
/// Requests between two restarts, at least.
const REQUESTS_BETWEEN: u64 = 500;
/// Idle clients are given this long to ask once more by a process that ends; these ask in time.
const SHORT_PAUSE: Duration = Duration::from_millis(200);
/// These do not, and are closed in order where they cannot be handed over.
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
    let number = std::env::var("VOTE_STATUS_UPGRADES").ok();
    number.map_or(RESTARTS_DEFAULT, |number| number.parse().expect("VOTE_STATUS_UPGRADES is a number"))
}

/// A process on `data`, on the addresses of `before` if there is one, from which it takes over.
fn process(data: &Path, before: Option<&Server>, args: &[&str]) -> Server {
    let mut command = Server::command();
    let (public, control) = match before {
        Some(before) => (before.public().to_string(), before.control().to_string()),
        None => ("127.0.0.1:0".to_owned(), "127.0.0.1:0".to_owned()),
    };
    command
        .args(["serve", "--takeover", "--listen", &public, "--control", &control, "--data-dir"])
        .arg(data)
        .args(args);
    Server::spawn(command)
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
fn a_new_process_takes_over_without_a_lost_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let load = under_load("taking over", process(&data, None, &["--workers", "2"]), |old, number| {
        // Other numbers of workers than the sockets were made for.
        let workers = ["2", "3", "1"][number as usize % 3];
        let new = process(&data, Some(&old), &["--workers", workers]);
        assert_eq!((new.public(), new.control()), (old.public(), old.control()));
        assert_gone_well(old);
        new
    });
    assert!(load.votes().len() > 10, "too few votes: {}", load.votes().len());
    assert_eq!(load.ended(), 0, "idle connections change hands");
}

#[test]
fn a_service_manager_restarts_it_without_a_lost_request() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    if !has(&["python3"]) {
        return;
    }
    let mut command = Command::new("python3");
    command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/upgrade/parent.py"));
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

#[test]
fn an_idle_client_and_a_half_sent_request_go_with_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let old = process(folder.path(), None, &[]);
    let control = old.control_client();
    control.add_server(1, "t");
    let mut idle: Vec<Client> = (0..200).map(|_| Client::connect(old.public())).collect();
    let mut begun = Client::connect(old.public());
    begun.send("GET /api/vote/1/sta");
    let vote = control.request_bytes("POST", "/v1/votes", Some(r#"{"server_id":1,"ip":"203.0.113.7"}"#));
    let mut voter = Client::connect(old.control());
    voter.send(&vote[..20]);
    // It has come that far where it is known to be idle.
    idle.iter_mut().for_each(Client::expect_open);
    let new = process(folder.path(), Some(&old), &[]);
    assert_gone_well(old);
    idle.iter_mut().for_each(Client::expect_open);
    begun.send("tus/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n");
    let response = begun.read_response(false);
    assert!(response.text().contains(r#""can_vote":true"#) && !response.says_close(), "{response:?}");
    voter.send(&vote[20..]);
    assert_eq!(voter.read_response(false).status, 201);
    voter.expect_open();
    drop(new);
}

/// What has no end of its own comes to one, and keeps nobody from ending.
#[test]
fn a_watch_ends_in_order_where_another_process_takes_over() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let old = process(&data, None, &[]);
    old.control_client().add_server(1, "t");
    let mut watching = Watching::begin(&old, "");
    get(old.public(), "/api/vote/1/status/203.0.113.7");
    assert!(watching.line().contains("can_vote"));
    let new = process(&data, Some(&old), &[]);
    assert_eq!(watching.rest(), "");
    assert_gone_well(old);
    let mut watching = Watching::begin(&new, "?server_id=1");
    get(new.public(), "/api/vote/1/status/203.0.113.7");
    assert!(watching.line().contains("can_vote"));
}

#[test]
fn where_the_new_process_fails_the_running_one_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut old = process(&data, None, &[]);
    let control = old.control_client();
    control.add_server(1, "t");
    assert_eq!(control.cast(1, [203, 0, 113, 7]).status, 201);
    let mut idle = Client::connect(old.control());
    idle.expect_open();

    // The store cannot be read by the new one: it sees another data directory, with the same gate.
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("made");
    std::fs::write(other.join("votes.redb"), "no store").expect("written");
    std::os::unix::fs::symlink(data.join("takeover"), other.join("takeover")).expect("linked");
    let mut command = Server::command();
    let (public, private) = (old.public().to_string(), old.control().to_string());
    command.args(["serve", "--takeover", "--listen", &public, "--control", &private, "--data-dir"]).arg(&other);
    let ended = Server::try_spawn(command).expect_err("its store is none");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");

    let until = Instant::now() + DEADLINE;
    while !old.stderr().contains("this one goes on") {
        assert!(Instant::now() < until, "{}", old.stderr());
        sleep(Duration::from_millis(5));
    }
    assert!(old.is_running());
    idle.expect_open();
    assert_eq!(control.cast(1, [203, 0, 113, 7]).status, 409);
    assert_eq!(control.cast(1, [203, 0, 113, 8]).status, 201);
    assert!(get(old.public(), "/api/vote/1/status/203.0.113.8").text().contains(r#""can_vote":false"#));

    // And the next one that is well takes over after all.
    let new = process(&data, Some(&old), &[]);
    assert_gone_well(old);
    assert_eq!(new.control_client().cast(1, [203, 0, 113, 8]).status, 409);
}

/// The moments at which it can end: before it has said anything, before and while it has the store.
#[test]
fn a_caller_that_ends_on_its_way_changes_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path();
    let mut server = process(data, None, &[]);
    let control = server.control_client();
    control.add_server(1, "t");
    drop(Caller::call(data));
    let refused = Caller::call(data).say("hello 0");
    assert_eq!(refused, "refused it is of a version that gives nothing to this one");
    assert_eq!(Caller::call(data).say("nonsense"), "");
    let (public, private) = (server.public(), server.control());
    let listening = format!("listening\tpublic plain {public}\tcontrol plain {private}");
    assert_eq!(Caller::call(data).say("hello 2"), listening);

    let mut idle = Client::connect(private);
    idle.expect_open();
    let caller = Caller::call(data);
    assert_eq!(caller.say("hello 2"), listening);
    assert_eq!(caller.say("release"), "released");
    let held = lock(data);
    scope(|scope| {
        let cast = scope.spawn(|| control.cast(1, [203, 0, 113, 7]).status);
        idle.send("GET /healthz HTTP/1.1\r\nHost: h\r\n\r\n");
        let status = get(public, "/api/vote/1/status/203.0.113.7");
        assert!(status.text().contains(r#""can_vote":true"#), "{status:?}");
        drop(caller);
        // The file is still locked for a moment, by a process that is ending.
        sleep(Duration::from_millis(300));
        assert!(!cast.is_finished(), "a vote was answered while the store was away");
        drop(held);
        assert_eq!(cast.join().expect("no panic"), 201);
    });
    assert_eq!(idle.read_response(false).status, 200);
    let status = get(public, "/api/vote/1/status/203.0.113.7");
    assert!(status.text().contains(r#""can_vote":false"#), "{status:?}");
    assert!(server.is_running());
    drop(server);
    assert_eq!(process(data, None, &[]).control_client().cast(1, [203, 0, 113, 7]).status, 409);
}

#[test]
fn unix_sockets_change_hands_with_their_files() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (public, control) = (folder.path().join("public"), folder.path().join("control"));
    let start = || {
        let mut command = Server::command();
        command.args(["serve", "--takeover", "--data-dir"]).arg(folder.path().join("data"));
        command.arg("--listen").arg(format!("unix:{}", public.display()));
        command.arg("--control").arg(format!("unix:{}", control.display()));
        Server::spawn(command)
    };
    let old = start();
    let mut idle = [Client::connect(&old.publics()[0]), Client::connect(old.control_endpoint())];
    idle.iter_mut().for_each(Client::expect_open);
    let mut new = start();
    assert_gone_well(old);
    idle.iter_mut().for_each(Client::expect_open);
    Client::connect(&new.publics()[0]).expect_open();
    Client::connect(new.control_endpoint()).expect_open();
    assert!(public.exists() && control.exists());
    new.signal(Signal::TERM);
    assert_eq!(new.wait_exit(DEADLINE).code(), Some(0), "{}", new.stderr());
    assert!(!public.exists() && !control.exists());
}

#[test]
fn where_nobody_runs_it_starts_as_ever() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut killed = process(folder.path(), None, &[]);
    killed.control_client().add_server(1, "t");
    killed.signal(Signal::KILL);
    killed.wait_exit(DEADLINE);
    // What it has left answers nobody.
    assert!(folder.path().join("takeover").exists());
    let new = process(folder.path(), None, &[]);
    assert_eq!(new.control_client().cast(1, [203, 0, 113, 7]).status, 201);
}
