//! `?wait=N`: a question that waits for a vote. The contract over every kind of listener, causes that end a wait
//! before its time, and races of voters against waiters. Black box.

mod abuse;
mod races;

use crate::util::DEADLINE;
use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, exchange, get};
use crate::util::endpoint::Endpoint;
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::watch::Watching;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The longest time of an immediate answer: long before the end of a wait of 50 s.
const AT_ONCE: Duration = DEADLINE;

fn request(method: &str, path: &str) -> String {
    format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// The question of one of many players: `host` is the last part of an address.
fn question(host: u8, query: &str) -> String {
    request("GET", &format!("/api/vote/28/status/203.0.113.{host}{query}"))
}

/// Waits until this many waits were told, timed out, ended before their time, and refused. A scrape may be a moment old, as
/// all scrapes in one turn of the control listener get one page.
#[track_caller]
fn until_outcomes(server: &Server, counts: [u64; 4]) {
    for (outcome, count) in ["told", "timed_out", "ended", "refused"].into_iter().zip(counts) {
        server.await_metric(&format!(r#"vote_status_waits_total{{outcome="{outcome}"}}"#), count);
    }
}

/// Waits until this many requests are waiting.
#[track_caller]
fn until_waiting(server: &Server, count: u64) {
    server.await_metric("vote_status_waiting", count);
}

fn cast(server: &Server, host: u8) -> String {
    let response = server.control_client().cast(28, [203, 0, 113, host]);
    assert_eq!(response.status, 201, "{response:?}");
    response.json()["next_vote_at"].as_str().expect("an instant").to_owned()
}

fn cooldown(next: &str) -> String {
    format!(
        r#"{{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans 90 minutes","next_vote_at":"{next}","cooldown_minutes":90}}"#
    )
}

#[track_caller]
fn expect_can_vote(response: &Response) {
    assert_eq!((response.status, response.text()), (200, CAN_VOTE.body));
}

/// The contract over this endpoint.
fn holds(server: &Server, endpoint: &Endpoint) {
    told_in_every_form(server, endpoint);
    told_after_its_time(endpoint);
    all_else_comes_at_once(server, endpoint);
    those_behind_are_held_in_order(server, endpoint);
}

fn told_in_every_form(server: &Server, endpoint: &Endpoint) {
    let path = |host: u8| format!("/api/vote/28/status/203.0.113.{host}?wait=50");
    let by_token = "/api/servers/demo/vote-status/%32%30%33.0.113.4/?_=1&wait=099999999999999999999";
    let requests = [
        (1, request("GET", &path(1)), false),
        (2, request("HEAD", &path(2)), false),
        (3, format!("GET {} HTTP/1.0\r\n\r\n", path(3)), true),
        (4, request("GET", by_token), false),
        (5, format!("GET {} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", path(5)), true),
        (6, format!("GET {} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi", path(6)), false),
        (7, format!("GET {} HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", path(7)), false),
    ];
    let mut clients: Vec<Client> = requests.iter().map(|_| Client::connect(endpoint)).collect();
    for (client, (_, request, _)) in clients.iter_mut().zip(&requests) {
        client.send(request);
    }
    until_waiting(server, requests.len() as u64);
    let since = Instant::now();
    for (client, (host, request, closes)) in clients.iter_mut().zip(&requests) {
        let next = cast(server, *host);
        let response = client.read_response(request.starts_with("HEAD"));
        let body = cooldown(&next);
        assert_eq!((response.status, response.header("content-length")), (200, Some(&*body.len().to_string())));
        assert_eq!(response.text(), if request.starts_with("HEAD") { "" } else { &body }, "{request}");
        assert_eq!(response.says_close(), *closes, "{request}");
        if *closes { client.expect_closed() } else { client.expect_open() }
    }
    assert!(since.elapsed() < AT_ONCE);
    until_waiting(server, 0);
}

fn told_after_its_time(endpoint: &Endpoint) {
    let since = Instant::now();
    let mut client = Client::connect(endpoint);
    client.send([question(8, "?wait=1"), question(8, "?wait=1")].concat());
    for seconds in [1, 2] {
        expect_can_vote(&client.read_response(false));
        // The second request has a time of its own.
        assert!(since.elapsed() >= Duration::from_secs(seconds), "{:?}", since.elapsed());
    }
    client.expect_open();
}

fn all_else_comes_at_once(server: &Server, endpoint: &Endpoint) {
    let since = Instant::now();
    for (line, status) in [
        ("GET /api/vote/28/status/203.0.113.1?wait=50", 200),
        ("GET /api/vote/28/status/203.0.113.9?wait=0", 200),
        ("GET /api/vote/28/status/203.0.113.9?wait=5s", 200),
        ("GET /api/vote/28/status/203.0.113.9?wait=5&wait=5", 200),
        ("GET /api/vote/28/status/203.0.113.9?await=5&wait", 200),
        ("GET /api/vote/28/status/203.0.113.9?_=5", 200),
        ("GET /api/vote/29/status/203.0.113.9?wait=50", 404),
        ("GET /api/vote/028/status/203.0.113.9?wait=50", 400),
        ("GET /api/servers/nobody/vote-status/203.0.113.9?wait=50", 404),
        ("GET /api/vote/28/status/203.0.113?wait=50", 400),
        ("OPTIONS /api/vote/28/status/203.0.113.9?wait=50", 204),
        ("POST /api/vote/28/status/203.0.113.9?wait=50", 405),
        ("GET /readyz?wait=50", 200),
        ("GET /?wait=50", 200),
    ] {
        let answer = exchange(endpoint, format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert_eq!(answer.status, status, "{line}: {answer:?}");
    }
    assert!(since.elapsed() < AT_ONCE);
    until_waiting(server, 0);
}

fn those_behind_are_held_in_order(server: &Server, endpoint: &Endpoint) {
    let mut client = Client::connect(endpoint);
    client.send([question(9, ""), question(10, "?wait=50"), question(9, ""), question(11, "?wait=50")].concat());
    expect_can_vote(&client.read_response(false));
    until_waiting(server, 1);
    // Sent while the request before waits.
    client.send(question(12, ""));
    let first = cast(server, 10);
    assert_eq!(client.read_response(false).text(), cooldown(&first));
    expect_can_vote(&client.read_response(false));
    until_waiting(server, 1);
    let second = cast(server, 11);
    assert_eq!(client.read_response(false).text(), cooldown(&second));
    expect_can_vote(&client.read_response(false));
    client.expect_open();
}

#[test]
fn the_contract_holds_with_one_worker_and_with_two() {
    for workers in ["1", "2"] {
        let server = Server::listed(&["--workers", workers]);
        holds(&server, &server.publics()[0]);
        until_outcomes(&server, [9, 2, 0, 0]);
    }
}

#[test]
fn it_holds_on_a_unix_socket_and_while_somebody_watches() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = format!("unix:{}", folder.path().join("public").display());
    let server = Server::listening(&["--listen", &socket, "--control", "127.0.0.1:0"]);
    let _watching = Watching::begin(&server, "");
    server.control_client().add_server(28, "demo");
    holds(&server, &server.publics()[0]);
}

#[cfg(feature = "may_minihttp")]
#[test]
fn the_second_engine_answers_at_once() {
    let server = Server::listed(&["--engine", "may_minihttp"]);
    let since = Instant::now();
    expect_can_vote(&get(server.public(), "/api/vote/28/status/203.0.113.7?wait=50"));
    assert!(since.elapsed() < AT_ONCE);
}

/// Regression: a waiting client learned of a new token and of the end of a server only when its wait was over.
#[test]
fn everything_is_decided_anew_and_at_once() {
    let server = Server::listed(&["--workers", "1"]);
    let control = server.control_client();
    control.add_server(29, "other");
    control.add_server(31, "third");
    let ask = |path: &str| {
        let mut client = Client::connect(server.public());
        client.send(request("GET", &format!("{path}/203.0.113.7?wait=50")));
        client
    };
    let mut by_id = ask("/api/vote/28/status");
    let mut by_token = ask("/api/servers/other/vote-status");
    let mut of_the_same = ask("/api/vote/29/status");
    let mut of_the_third = ask("/api/vote/31/status");
    until_waiting(&server, 4);
    // A vote for another address, and one for another server, end no wait.
    cast(&server, 8);
    assert_eq!(control.cast(30, [203, 0, 113, 7]).status, 404);
    until_waiting(&server, 4);
    assert_eq!(control.post("/v1/servers/29/token", "").status, 200);
    let response = by_token.read_response(false);
    assert_eq!((response.status, &response.json()["error"]), (404, &"unknown_token".into()));
    assert_eq!(control.delete("/v1/servers/31").status, 200);
    let response = of_the_third.read_response(false);
    assert_eq!((response.status, &response.json()["error"]), (404, &"unknown_server".into()));
    // The client that waits for the server by its id was woken, and waits on.
    until_waiting(&server, 2);
    let next = cast(&server, 7);
    assert_eq!(by_id.read_response(false).text(), cooldown(&next));
    assert_eq!(control.cast(29, [203, 0, 113, 7]).status, 201);
    assert_eq!(of_the_same.read_response(false).json()["can_vote"], false);
    until_outcomes(&server, [2, 0, 2, 0]);
}

/// A token moves to another server: a client that waits under it is told of a vote for that server.
#[test]
fn a_token_that_changes_hands_takes_those_who_wait_along() {
    let server = Server::listed(&["--workers", "1"]);
    let control = server.control_client();
    let mut client = Client::connect(server.public());
    client.send(request("GET", "/api/servers/demo/vote-status/203.0.113.7?wait=50"));
    until_waiting(&server, 1);
    let lines = "{\"server_id\":28,\"token\":\"new\"}\n{\"server_id\":29,\"token\":\"demo\"}\n";
    assert_eq!(control.post("/v1/servers/batch?replace_tokens=1", lines).status, 200);
    until_waiting(&server, 1);
    cast(&server, 7);
    until_waiting(&server, 1);
    assert_eq!(control.cast(29, [203, 0, 113, 7]).status, 201);
    assert_eq!(client.read_response(false).json()["can_vote"], false);
}

/// One vote with the addresses of both families: each is told, and may ask for the other at once.
#[test]
fn a_vote_for_several_addresses_tells_all() {
    let server = Server::listed(&["--workers", "2"]);
    let addresses = ["203.0.113.7", "2001:db8::7", "198.51.100.9"];
    let asked = ["203.0.113.7", "2001:db8:0:0:ffff::1", "::ffff:198.51.100.9"];
    let question = |address: &str| request("GET", &format!("/api/vote/28/status/{address}?wait=50"));
    let mut clients = asked.map(|_| Client::connect(server.public()));
    for (client, address) in clients.iter_mut().zip(asked) {
        client.send(question(address));
    }
    until_waiting(&server, 3);
    let vote = format!(r#"{{"server_id":28,"ips":{addresses:?}}}"#);
    let response = server.control_client().post("/v1/votes", &vote);
    let next = response.json()["next_vote_at"].as_str().expect("an instant").to_owned();
    for (client, other) in clients.iter_mut().zip(asked.into_iter().rev()) {
        assert_eq!(client.read_response(false).text(), cooldown(&next));
        client.send(question(other));
        assert_eq!(client.read_response(false).text(), cooldown(&next));
    }
}

#[test]
fn past_the_bound_the_answer_comes_at_once() {
    let server = Server::listed(&["--max-waiting", "2", "--workers", "1"]);
    let mut held: Vec<Client> = (1..=2).map(|_| Client::connect(server.public())).collect();
    held.iter_mut().for_each(|client| client.send(question(7, "?wait=50")));
    until_waiting(&server, 2);
    expect_can_vote(&exchange(server.public(), question(7, "?wait=50")));
    until_outcomes(&server, [0, 0, 0, 1]);
    // A place that becomes free can be used again.
    drop(held.pop());
    until_waiting(&server, 1);
    let mut next = Client::connect(server.public());
    next.send(question(7, "?wait=50"));
    until_waiting(&server, 2);
    assert_eq!(server.metric("vote_status_waiting_max"), 2);
}

/// All places are taken and no connection is idle: a waiting request is answered and makes room.
#[test]
fn held_requests_make_room_and_are_answered() {
    let server = Server::listed(&["--max-connections", "4", "--max-waiting", "4", "--workers", "1"]);
    let mut held: Vec<Client> = (1..=4).map(|_| Client::connect(server.public())).collect();
    for (client, seconds) in held.iter_mut().zip([50, 49, 48, 50]) {
        client.send(question(7, &format!("?wait={seconds}")));
    }
    until_waiting(&server, 4);
    expect_can_vote(&get(server.public(), "/api/vote/28/status/203.0.113.7"));
    // The wait that would have ended first.
    let response = held[2].read_response(false);
    expect_can_vote(&response);
    assert!(response.says_close(), "{response:?}");
    held[2].expect_closed();
    until_waiting(&server, 3);
    let next = cast(&server, 7);
    for index in [0, 1, 3] {
        assert_eq!(held[index].read_response(false).text(), cooldown(&next));
    }
}

/// A client that has shut its sending side is answered at once, as it may have gone. A client that has gone leaves nothing
/// behind.
#[test]
fn a_client_that_shuts_its_side_is_answered_and_one_that_goes_is_taken_out() {
    let server = Server::listed(&["--workers", "1"]);
    let mut half_closed = Client::connect(server.public());
    half_closed.send(question(7, "?wait=50"));
    until_waiting(&server, 1);
    half_closed.shutdown_write();
    expect_can_vote(&half_closed.read_response(false));
    half_closed.expect_closed();

    let mut at_once = Client::connect(server.public());
    at_once.send([question(7, "?wait=50"), question(8, "?wait=50")].concat());
    at_once.shutdown_write();
    for _ in 0..2 {
        expect_can_vote(&at_once.read_response(false));
    }
    at_once.expect_closed();

    let mut gone = Client::connect(server.public());
    gone.send([question(7, "?wait=50"), question(8, "")].concat());
    until_waiting(&server, 1);
    drop(gone);
    until_waiting(&server, 0);
    server.await_metric(r#"vote_status_connections_open{listener="public"}"#, 0);
    // Regression: a wait that had to end as soon as it was asked was in no count.
    until_outcomes(&server, [0, 0, 4, 0]);
}

#[test]
fn a_stop_answers_those_who_wait() {
    let mut server = Server::listed(&["--workers", "2"]);
    let mut held: Vec<Client> = (0..100).map(|_| Client::connect(server.public())).collect();
    held.iter_mut().for_each(|client| client.send(question(7, "?wait=50")));
    until_waiting(&server, 100);
    let since = Instant::now();
    server.signal(Signal::TERM);
    for client in &mut held {
        let response = client.read_response(false);
        expect_can_vote(&response);
        assert!(response.says_close(), "{response:?}");
        client.expect_closed();
    }
    assert_eq!(server.wait_exit(DEADLINE).code(), Some(0), "{}", server.stderr());
    assert!(since.elapsed() < AT_ONCE);
}
