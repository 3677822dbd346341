//! The public part of the contract, byte for byte: every path and method of the tables, every
//! error of HTTP, both outcomes from the first minute to the last.

pub(crate) mod cooldown;
mod pages;

use crate::util::answers::{CAN_VOTE, IN_COOLDOWN, REQUEST_TIMEOUT, UNKNOWN_SERVER, UNKNOWN_TOKEN, prepare};
use crate::util::checks::{self, Closed, Open, PATH, expect, expect_response};
use crate::util::client::{Client, get};
use crate::util::server::Server;
use crate::util::watch::Watching;

#[test]
fn every_path_and_method_has_its_answer() {
    let server = Server::in_memory(&[]);
    let next = prepare(&server);
    checks::every_path_and_method(&server.publics()[0], &next);
}

#[test]
fn every_kind_of_request_has_its_answer_and_leaves_the_connection_as_told() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    checks::every_kind_of_request(&server.publics()[0]);
}

#[test]
fn heads_past_their_limits_are_refused() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    checks::heads_past_their_limits(&server.publics()[0]);
}

#[test]
fn a_body_that_was_asked_about_is_asked_for() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    checks::body_asked_about(&server.publics()[0]);
}

#[test]
fn what_is_awaited_is_decided_when_it_is_answered() {
    let server = Server::in_memory(&["--workers", "1"]);
    for framed in [checks::BY_LENGTH].into_iter().chain(checks::OTHERWISE) {
        checks::decided_when_it_is_answered(&server, framed);
    }
}

/// Regression: what stands between the engine and the service kept nothing of such a request.
#[test]
fn what_is_awaited_is_decided_when_it_is_answered_while_somebody_watches_too() {
    let server = Server::in_memory(&["--workers", "1"]);
    let _watching = Watching::begin(&server, "");
    checks::decided_when_it_is_answered(&server, checks::BY_LENGTH);
}

#[test]
fn a_request_begun_and_not_finished_times_out() {
    let server = Server::in_memory(&["--head-timeout", "0.3"]);
    let mut client = Client::connect(server.public());
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n"));
    expect("half a head", &mut client, &REQUEST_TIMEOUT, Closed);
}

#[test]
fn a_connection_too_many_is_answered_and_ends_who_was_not_done() {
    let server = Server::in_memory(&["--workers", "1", "--max-connections", "1"]);
    prepare(&server);
    // The first is in the middle of a request; the interim answer proves that the server knows.
    let mut first = Client::connect(server.public());
    first.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(first.read_response(false).status, 100);
    let mut second = Client::connect(server.public());
    second.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect("second", &mut second, &CAN_VOTE, Open);
    expect("first", &mut first, &REQUEST_TIMEOUT, Closed);
}

#[test]
fn without_servers_nothing_is_known() {
    let server = Server::in_memory(&[]);
    for (path, outcome) in [
        ("/api/vote/28/status/203.0.113.7", &UNKNOWN_SERVER),
        ("/api/servers/demo/vote-status/203.0.113.7", &UNKNOWN_TOKEN),
    ] {
        expect_response(path, &get(server.public(), path), outcome, Open);
    }
}

#[test]
fn all_public_listeners_answer_alike() {
    let server = Server::in_memory(&["--listen", "127.0.0.1:0", "--listen", "[::1]:0"]);
    let next = prepare(&server);
    assert_eq!(server.publics().len(), 3);
    for addr in server.publics() {
        let response = get(addr, "/api/vote/28/status/203.0.113.8");
        let body = IN_COOLDOWN.body.replace("NEXT", &next);
        assert_eq!(response.text(), body, "{addr}");
    }
}

#[test]
fn answers_in_one_write_come_in_order() {
    let server = Server::in_memory(&[]);
    let next = prepare(&server);
    checks::answers_in_one_write(&server.publics()[0], &next);
}

#[test]
fn half_a_close_still_gets_the_answer() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    checks::half_a_close(&server.publics()[0]);
}
