//! Takeovers that come to no end: a signal in between, a caller that falls silent, a running process
//! that hangs up or ends. Somebody listens all the time. Black box.

use super::caller::{Callee, Caller, lock};
use super::{assert_gone_well, process};
use crate::util::client::{Client, get};
use crate::util::server::Server;
use rustix::process::Signal;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// A caller that has the store of a process that it has called.
fn release(data: &Path) -> Caller {
    let caller = Caller::call(data);
    assert!(caller.say("hello 2").starts_with("listening\tpublic "));
    assert_eq!(caller.say("release"), "released");
    caller
}

/// Status, votes and its idle clients are as they were.
#[track_caller]
fn assert_goes_on(server: &mut Server, idle: &mut [Client]) {
    server.wait_for_lines("this one goes on", 1);
    idle.iter_mut().for_each(Client::expect_open);
    assert_eq!(server.control_client().cast(1, [203, 0, 113, 7]).status, 201);
    assert!(get(server.public(), "/api/vote/1/status/203.0.113.7").text().contains(r#""can_vote":false"#));
    assert!(server.is_running());
}

fn with_idle_clients(data: &Path) -> (Server, [Client; 2]) {
    let server = process(data, None, &["--workers", "2"]);
    server.control_client().add_server(1, "t");
    let mut idle = [Client::connect(server.public()), Client::connect(server.control())];
    idle.iter_mut().for_each(Client::expect_open);
    (server, idle)
}

#[test]
fn a_signal_to_stop_waits_for_a_caller_that_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = process(folder.path(), None, &[]);
    let caller = release(folder.path());
    server.signal(Signal::TERM);
    sleep(Duration::from_millis(300));
    assert!(server.is_running());
    assert_eq!(get(server.public(), "/api/vote/1/status/203.0.113.7").status, 404);
    drop(caller);
    assert_gone_well(server);
}

#[test]
fn a_signal_to_stop_does_not_keep_a_caller_from_all_there_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, _idle) = with_idle_clients(folder.path());
    let caller = release(folder.path());
    server.signal(Signal::TERM);
    caller.tell("loading");
    caller.tell("ready");
    let heard = caller.hear_until("moved");
    assert_eq!(heard, ["listeners", "listeners", "clients", "clients", "moved"]);
    caller.tell("taken");
    assert_eq!(caller.hear(), "done");
    assert_gone_well(server);
}

#[test]
fn a_caller_that_is_silent_with_the_store_gets_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut server, mut idle) = with_idle_clients(folder.path());
    let greeted = Caller::call(folder.path());
    assert!(greeted.say("hello 2").starts_with("listening\tpublic "));
    assert_eq!(greeted.hear(), "", "the gate is free for the next");
    let caller = release(folder.path());
    assert_eq!(caller.hear(), "");
    assert_goes_on(&mut server, &mut idle);
    let new = process(folder.path(), Some(&server), &[]);
    assert_gone_well(server);
    idle.iter_mut().for_each(Client::expect_open);
    drop(new);
}

#[test]
fn what_a_caller_does_not_take_is_taken_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut server, mut idle) = with_idle_clients(folder.path());
    let caller = release(folder.path());
    caller.tell("ready");
    // It keeps the wire, and says nothing more.
    assert_goes_on(&mut server, &mut idle);
    caller.hear_until("moved");
    assert_eq!(caller.hear(), "");
    // And one that ends there.
    let caller = release(folder.path());
    caller.tell("ready");
    caller.hear_until("moved");
    drop(caller);
    server.wait_for_lines("this one goes on", 2);
    idle.iter_mut().for_each(Client::expect_open);
    // It has its store again: only then can it give it away.
    assert_eq!(server.control_client().cast(1, [203, 0, 113, 7]).status, 409);
    let new = process(folder.path(), Some(&server), &[]);
    assert_gone_well(server);
    idle.iter_mut().for_each(Client::expect_open);
    assert_eq!(new.control_client().cast(1, [203, 0, 113, 7]).status, 409);
}

fn new_process(data: &Path) -> std::process::Command {
    let mut command = Server::command();
    command
        .args(["serve", "--takeover", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--data-dir"])
        .arg(data);
    command
}

#[test]
fn a_new_process_does_not_serve_where_the_running_one_goes_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let callee = Callee::open(folder.path());
    let answers = std::thread::spawn(move || {
        callee.answer(&["listening", "released"]);
        callee
    });
    let ended = Server::try_spawn(new_process(folder.path())).expect_err("the other one goes on");
    assert_eq!(ended.status.code(), Some(2), "{ended:?}");
    assert!(ended.stderr.contains("it has waited for too long, and goes on by itself"), "{ended:?}");
    drop(answers.join().expect("no panic"));
    drop(lock(folder.path()));
}

#[test]
fn a_new_process_serves_where_the_running_one_ends() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let callee = Callee::open(folder.path());
    let answers = std::thread::spawn(move || callee.answer(&["listening", "released"]));
    let server = Server::spawn(new_process(folder.path()));
    answers.join().expect("no panic");
    assert_eq!(get(server.public(), "/api/vote/1/status/203.0.113.7").status, 404);
}
