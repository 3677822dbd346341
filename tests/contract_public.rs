//! The public part of the contract, byte for byte: every path and method of the tables, every
//! error of HTTP, both outcomes from the first minute to the last.

pub(crate) mod cooldown;
mod pages;
pub(crate) mod table;

use crate::util::client::{Client, get};
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::time::imf_fixdate_near_now;
use table::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, EXPECTATION_FAILED, HEADERS_TOO_LARGE, IN_COOLDOWN, METHOD_NOT_ALLOWED,
    NOT_FOUND, NOT_IMPLEMENTED, NOT_READY, OPTIONS, OTHER_METHODS, Outcome, REQUEST_TIMEOUT, UNKNOWN_SERVER,
    UNKNOWN_TOKEN, URI_TOO_LONG, VERSION_NOT_SUPPORTED, answer_to, prepare, rows,
};

/// What the answer says of the connection, and what then happens to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Nothing said, and it stays open, as HTTP/1.1 has it.
    Open,
    /// `Connection: keep-alive`, for the HTTP/1.0 client that asked, and it stays open.
    KeptAlive,
    /// `Connection: close`, and closed.
    Closed,
}

use After::{Closed, KeptAlive, Open};

/// Requests as raw bytes, with `PATH` where the path of 203.0.113.7 and server 28 belongs.
pub(crate) const REQUESTS: &[(&str, &Outcome, After)] = &[
    // Heads seen in the field, and how each leaves the connection.
    ("GET PATH HTTP/1.1\r\nHost: a\r\n\r\n", &CAN_VOTE, Open),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &CAN_VOTE, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", &CAN_VOTE, Open),
    ("GET PATH HTTP/1.0\r\n\r\n", &CAN_VOTE, Closed),
    ("GET PATH HTTP/1.0\r\nHost: a\r\n\r\n", &CAN_VOTE, Closed),
    ("GET PATH HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &CAN_VOTE, KeptAlive),
    ("GET PATH HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", &CAN_VOTE, KeptAlive),
    ("GET PATH HTTP/1.0\r\nConnection: close\r\n\r\n", &CAN_VOTE, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nAccept: application/json\r\n\r\n", &CAN_VOTE, Open),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nAccept: text/html\r\nAccept-Encoding: gzip\r\n\r\n", &CAN_VOTE, Open),
    (
        "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nUser-Agent: GuzzleHttp/7\r\n\r\n",
        &CAN_VOTE,
        Open,
    ),
    ("GET PATH HTTP/1.1\r\nHost: other.example:8080\r\nOrigin: https://site.example\r\n\r\n", &CAN_VOTE, Open),
    (
        "GET PATH HTTP/1.1\r\nHost: a\r\nIf-None-Match: *\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1\r\n\r\n",
        &CAN_VOTE,
        Open,
    ),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\n\r\n", &CAN_VOTE, Open),
    ("GET http://a/api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n", &CAN_VOTE, Open),
    // A body that no method of ours wants is skipped.
    ("GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /", &CAN_VOTE, Open),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n", &CAN_VOTE, Open),
    ("POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", &METHOD_NOT_ALLOWED, Open),
    ("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", &NOT_FOUND, Open),
    // Errors keep the connection as the request wants it, unless they are of HTTP itself.
    ("GET /nothing HTTP/1.0\r\n\r\n", &NOT_FOUND, Closed),
    ("DELETE PATH HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", &METHOD_NOT_ALLOWED, Closed),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", &OPTIONS, Open),
    ("OPTIONS PATH HTTP/1.1\r\nHost: a\r\nOrigin: null\r\nAccess-Control-Request-Method: GET\r\n\r\n", &OPTIONS, Open),
    ("GET PATH HTTP/1.1\r\n\r\n", &BAD_REQUEST, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &BAD_REQUEST, Closed),
    ("GET  PATH HTTP/1.1\r\nHost: a\r\n\r\n", &BAD_REQUEST, Closed),
    ("GET PATH HTTP/1.1\r\nHost : a\r\n\r\n", &BAD_REQUEST, Closed),
    ("GET PATH HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: x\r\n\r\n", &BAD_REQUEST, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", &CONTENT_TOO_LARGE, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", &EXPECTATION_FAILED, Closed),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", &NOT_IMPLEMENTED, Closed),
    ("GET PATH HTTP/2.0\r\nHost: a\r\n\r\n", &VERSION_NOT_SUPPORTED, Closed),
];

/// Stands for `PATH` in the requests.
pub(crate) const PATH: &str = "/api/vote/28/status/203.0.113.7";

#[test]
fn every_path_and_method_has_its_answer() {
    let server = Server::in_memory(&[]);
    let next = prepare(&server);
    let mut client = Client::connect(server.public());
    let mut count = 0;
    for (path, to_get) in rows() {
        for method in ["GET", "HEAD", "OPTIONS"].iter().chain(OTHER_METHODS) {
            let outcome = answer_to(method, to_get);
            let label = format!("{method} {path}");
            client.send(format!("{label} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.read_response(*method == "HEAD");
            let after = if outcome.closes { Closed } else { Open };
            expect_head(&label, &response, outcome, &next, after);
            let body = if *method == "HEAD" { "" } else { outcome.body };
            assert_eq!(response.text(), body.replace("NEXT", &next), "{label}");
            if outcome.closes {
                client.expect_closed();
                client = Client::connect(server.public());
            }
            count += 1;
        }
    }
    client.expect_open();
    println!("{count} requests");
}

#[test]
fn every_kind_of_request_has_its_answer_and_leaves_the_connection_as_told() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    for (request, outcome, after) in REQUESTS {
        let request = request.replace("PATH", PATH);
        let mut client = Client::connect(server.public());
        client.send(&request);
        expect(&request, &mut client, outcome, *after);
    }
}

#[test]
fn heads_past_their_limits_are_refused() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let lines = |count: usize| "X-Line: 1\r\n".repeat(count);
    let big = "b".repeat(17_000);
    for (request, outcome, after) in [
        // Host and 99 more make the hundred that is served.
        (format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(99)), &CAN_VOTE, Open),
        (format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}\r\n", lines(100)), &HEADERS_TOO_LARGE, Closed),
        (format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nX-Big: {big}\r\n\r\n"), &HEADERS_TOO_LARGE, Closed),
        (format!("GET {PATH}?{big} HTTP/1.1\r\nHost: a\r\n\r\n"), &URI_TOO_LONG, Closed),
    ] {
        let mut client = Client::connect(server.public());
        client.send(&request);
        expect(&request, &mut client, outcome, after);
    }
}

#[test]
fn a_body_that_was_asked_about_is_asked_for() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let mut client = Client::connect(server.public());
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    let interim = client.read_response(false);
    assert_eq!(interim.raw_head, "HTTP/1.1 100 Continue\r\n\r\n");
    client.send("body");
    expect("the answer after 100", &mut client, &CAN_VOTE, Open);
}

#[test]
fn a_request_begun_and_not_finished_times_out() {
    let server = Server::in_memory(&["--head-timeout", "0.3"]);
    let mut client = Client::connect(server.public());
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n"));
    expect("half a head", &mut client, &REQUEST_TIMEOUT, Closed);
}

#[test]
fn a_connection_too_many_is_answered() {
    let server = Server::in_memory(&["--workers", "1", "--max-connections", "1"]);
    prepare(&server);
    // The first is in the middle of a request, so that it cannot be closed to make room; the
    // interim answer proves that the server knows.
    let mut first = Client::connect(server.public());
    first.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(first.read_response(false).status, 100);
    let mut second = Client::connect(server.public());
    second.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect("second", &mut second, &NOT_READY, Closed);
    first.send("body");
    expect("first", &mut first, &CAN_VOTE, Open);
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
        let response = get(*addr, "/api/vote/28/status/203.0.113.8");
        let body = IN_COOLDOWN.body.replace("NEXT", &next);
        assert_eq!(response.text(), body, "{addr}");
    }
}

#[test]
fn answers_in_one_write_come_in_order() {
    let server = Server::in_memory(&[]);
    let next = prepare(&server);
    let all: Vec<_> = rows().into_iter().filter(|row| !row.1.closes).collect();
    let mut client = Client::connect(server.public());
    let mut bytes = String::new();
    for (path, _) in &all {
        bytes += &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    client.send(&bytes);
    for (path, outcome) in &all {
        let response = client.read_response(false);
        expect_head(path, &response, outcome, &next, Open);
        assert_eq!(response.text(), outcome.body.replace("NEXT", &next), "{path}");
    }
    client.expect_open();
}

#[test]
fn half_a_close_still_gets_the_answer() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let mut client = Client::connect(server.public());
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.shutdown_write();
    let response = client.read_response(false);
    assert_eq!(response.text(), CAN_VOTE.body);
    client.expect_closed();
}

/// Reads the answer, checks all of it, and then that the connection is left as it says.
fn expect(label: &str, client: &mut Client, outcome: &Outcome, after: After) {
    let response = client.read_response(false);
    expect_response(label, &response, outcome, after);
    match after {
        Open | KeptAlive => client.expect_open(),
        Closed => client.expect_closed(),
    }
}

fn expect_response(label: &str, response: &Response, outcome: &Outcome, after: After) {
    expect_head(label, response, outcome, "", after);
    assert_eq!(response.text(), outcome.body, "{label}");
}

/// Compares the whole head, byte for byte but for the date, which must be now.
fn expect_head(label: &str, response: &Response, outcome: &Outcome, next: &str, after: After) {
    let date = response.header("Date").unwrap_or_default();
    assert!(imf_fixdate_near_now(date, 2).is_some(), "{label}: Date is {date:?}, which is not now");
    let (content_type, content_length) = if outcome.status.starts_with("204") {
        ("", String::new())
    } else {
        let length = outcome.body.replace("NEXT", next).len();
        ("Content-Type: application/json; charset=utf-8\r\n", format!("Content-Length: {length}\r\n"))
    };
    let connection = match after {
        Open => "",
        KeptAlive => "Connection: keep-alive\r\n",
        Closed => "Connection: close\r\n",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nDate: {date}\r\n{content_type}Cache-Control: no-store\r\n\
         Access-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n\
         {extra}{content_length}{connection}\r\n",
        status = outcome.status,
        extra = outcome.extra,
    );
    assert_eq!(response.raw_head, head, "{label}");
}
