//! A server with very many votes is struck off in parts: votes for others go on between them, and
//! nothing of it comes back, whenever the process is killed and however soon the id is listed again.

use crate::util::control::Control;
use crate::util::ledger::{Ledger, SERVER, address, next_votes, serve};
use crate::util::server::Server;
use crate::util::time::now_unix;
use rustix::process::Signal;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{sleep, spawn};
use std::time::{Duration, Instant};

/// The server that is struck off.
const LARGE: u32 = 7;
/// And its votes: some 25 parts.
const VOTES: u32 = 200_000;

/// A large server, and a small one with twenty votes.
fn prepared(folder: &Path) -> (Server, Ledger) {
    let server = serve(folder, &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    control.add_server(LARGE, "large");
    let now = now_unix();
    for first in (0..VOTES).step_by(20_000) {
        let mut body = String::new();
        for number in first..first + 20_000 {
            let (ip, voted_at) = (address(number), now - i64::from(number % 2_000));
            writeln!(body, r#"{{"server_id":{LARGE},"ip":"{ip}","voted_at":{voted_at}}}"#).expect("a line");
        }
        assert_eq!(control.post("/v1/votes/batch", &body).status, 200);
    }
    let mut ledger = Ledger::default();
    for number in 0..20 {
        ledger.cast(&control, (SERVER, address(number)), now);
    }
    (server, ledger)
}

fn strike_off(control: &Control) {
    let response = control.delete(&format!("/v1/servers/{LARGE}"));
    assert_eq!(response.status, 200, "{response:?}");
}

/// The server is listed again, and all of its old voters may vote.
fn expect_none_back(server: &Server, ledger: &Ledger, what: &str) {
    let pairs: Vec<_> = (0..VOTES).step_by(997).map(|number| (LARGE, address(number))).collect();
    let back = next_votes(server, &pairs).into_iter().flatten().count();
    assert_eq!(back, 0, "{what}: votes of the old server are back");
    ledger.expect(server, what);
}

/// Regression: one commit took all of it, and held up everybody's votes for as long.
#[test]
fn votes_go_on_while_a_large_server_is_struck_off() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = prepared(folder.path());
    let (control, is_over) = (server.control_client(), Arc::new(AtomicBool::new(false)));
    let (submitter, over) = (control.clone(), Arc::clone(&is_over));
    let casting = spawn(move || {
        let (mut number, mut longest, mut cast) = (1_000, Duration::ZERO, Vec::new());
        while !over.load(Ordering::Relaxed) {
            let (start, voted_at) = (Instant::now(), now_unix());
            assert_eq!(submitter.cast_at(SERVER, &address(number).to_string(), voted_at).status, 201);
            longest = longest.max(start.elapsed());
            cast.push((number, voted_at));
            number += 1;
        }
        (longest, cast)
    });
    sleep(Duration::from_millis(100));
    let start = Instant::now();
    strike_off(&control);
    let answered = start.elapsed();
    let large = || server.metric("vote_status_cooldowns") > 50_000;
    assert!(large(), "it goes in parts: most is there when the answer comes");
    while large() {
        sleep(Duration::from_millis(5));
    }
    let took = start.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let (longest, cast) = casting.join().expect("all were taken");
    println!(
        "{VOTES} votes went in {took:?}, answered after {answered:?}; {} cast, the slowest in {longest:?}",
        cast.len()
    );
    ledger.recorded.extend(cast.into_iter().map(|(number, at)| ((SERVER, address(number)), at)));
    ledger.expect(&server, "after it");
}

#[test]
fn nothing_comes_back_after_a_kill_between_two_parts() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, ledger) = prepared(folder.path());
    strike_off(&server.control_client());
    server.signal(Signal::KILL);
    drop(server);
    let server = serve(folder.path(), &[]);
    server.control_client().add_server(LARGE, "large");
    expect_none_back(&server, &ledger, "listed again after a kill");
    server.signal(Signal::KILL);
    drop(server);
    expect_none_back(&serve(folder.path(), &[]), &ledger, "after one more kill");
}

#[test]
fn nothing_comes_back_where_it_is_listed_again_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = prepared(folder.path());
    let control = server.control_client();
    strike_off(&control);
    control.add_server(LARGE, "large");
    // By another second than that of the old vote of this address.
    let voted_at = now_unix();
    ledger.cast(&control, (LARGE, address(1)), voted_at);
    expect_none_back(&server, &Ledger { recorded: ledger.recorded.clone(), ..Ledger::default() }, "listed again");
    sleep(Duration::from_millis(300));
    ledger.expect(&server, "a vote for the new server");
    server.signal(Signal::KILL);
    drop(server);
    ledger.expect(&serve(folder.path(), &[]), "after a kill and a restart");
}
