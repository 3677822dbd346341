//! What HAProxy answers by itself, or used to leave without an answer: requests that it does not take,
//! chunked ones, and each page that it has. Where a node answers, the node's own words are the measure.

use crate::proxies::expected::{Answer, BAD_GATEWAY, GATEWAY_TIMEOUT, INTERNAL_ERROR, NO_NODE, TOO_MANY};
use crate::proxies::front::{Front, Kind};
use crate::proxies::{before, expect};
use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, METHOD_NOT_ALLOWED, NOT_FOUND, Outcome, REQUEST_TIMEOUT, prepare,
};
use crate::util::checks::{PATH, REQUESTS};
use crate::util::client::{Client, exchange, get};
use crate::util::patience::in_time;
use crate::util::random::Random;
use crate::util::server::Server;
use crate::util::stub::Stub;
use std::net::SocketAddr;

/// First requests that HAProxy 2.6 refuses with a page of its own.
const REFUSED: &[&str] = &[
    "GET PATH\r\n",
    "GET PATH HTTP/1.10\r\nHost: a\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: two\r\n\r\n{}",
    "GET PATH HTTP/1.0\r\nContent-Length: 2\r\n\r\n{}",
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nno chunk\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}}\r\n0\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\0\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nX : 1\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nX: \u{1}\r\n\r\n",
    "GET /\u{e9} HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n",
    "CONNECT PATH HTTP/1.1\r\nHost: a\r\n\r\n",
    "nonsense\r\n\r\n",
    "\u{16}\u{3}\u{1}\u{0}\r\n\r\n",
];

/// Each of them got a page, which callers take for a vote.
#[test]
fn what_haproxy_refuses_is_answered_by_the_service() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(front) = before(Kind::Haproxy, &server) else { return };
    let many_fields = format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(255));
    let long_head = format!("GET {PATH}?{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(32_000));
    let long_name = format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}: 1\r\n\r\n", "X".repeat(9_000));
    let requests = REFUSED.iter().map(|request| request.replace("PATH", PATH));
    let requests = requests.chain([many_fields, long_head, long_name]);
    for request in requests {
        let [through, direct] = [front.plain, server.public()].map(|addr| exchange(addr, &request));
        assert_eq!((through.status, through.text()), (direct.status, direct.text()), "{request:?}");
        assert_eq!(through.header("Connection"), Some("close"), "{request:?}");
        assert_eq!(through.header("Content-Length"), direct.header("Content-Length"), "{request:?}");
    }
}

/// What is put into requests that are right, between their lines or anywhere.
const PIECES: &[&str] = &[
    "\r\n",
    "\n",
    "\r",
    "\0",
    " ",
    ":",
    ";",
    "%",
    "\u{e9}",
    "\u{7f}",
    "X Y: 1\r\n",
    "X:\r\n 1\r\n",
    "Host: b\r\n",
    "Host: [::1\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: -1\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: identity\r\n",
    "Upgrade: websocket\r\nConnection: Upgrade\r\n",
    "Expect: 100-continue\r\n",
    "HTTP/1.1",
    "CONNECT ",
];

/// No first request gets a page, whatever it is.
#[test]
fn no_mutilated_first_request_gets_a_page() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    // What is not whole is waited for.
    let edits = [("inspect-delay 10s", "inspect-delay 100ms"), ("timeout server 4s", "timeout server 500ms")];
    let Some(front) = Front::start_edited(Kind::Haproxy, &[server.public()], &edits) else { return };
    let mut random = Random::from_environment();
    let requests: Vec<String> = (0..400).map(|_| mutilated(&mut random)).collect();
    std::thread::scope(|scope| {
        for part in requests.chunks(25) {
            let addr = front.plain;
            scope.spawn(move || part.iter().for_each(|request| gets_no_page(addr, request)));
        }
    });
}

fn mutilated(random: &mut Random) -> String {
    let whole: Vec<&str> =
        REQUESTS.iter().map(|row| row.0).filter(|request| !request.contains("100-continue")).collect();
    let mut request = random.pick(&whole).replace("PATH", PATH);
    for _ in 0..=random.below(2) {
        let starts: Vec<usize> = request.match_indices("\r\n").map(|(at, _)| at + 2).collect();
        let at = if random.below(2) == 0 { *random.pick(&starts) } else { random.below(request.len()) };
        if request.is_char_boundary(at) {
            let piece: &&str = random.pick(PIECES);
            request.insert_str(at, piece);
        }
    }
    request
}

fn gets_no_page(addr: SocketAddr, request: &str) {
    let mut client = Client::connect(addr);
    client.send(request);
    let is_head = request.starts_with("HEAD ");
    let mut read = || client.try_read_response(is_head).unwrap_or_else(|error| panic!("{request:?}: {error}"));
    let mut response = read();
    while response.status == 100 {
        response = read();
    }
    let is_json = response.header("Content-Type") == Some("application/json; charset=utf-8");
    assert!(is_json || response.status == 204, "{request:?}: {response:?}");
    assert!(is_head || response.status == 204 || response.json()["can_vote"] == true, "{request:?}: {response:?}");
}

/// It was sent on to the backend for what is not HTTP, and the connection ended without an answer.
#[test]
fn a_chunked_request_after_a_plain_one_is_answered() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(mut front) = before(Kind::Haproxy, &server) else { return };
    for addr in [front.plain, front.tunnel()] {
        let mut client = Client::connect(addr);
        for count in 0..3 {
            for (request, outcome, _) in REQUESTS.iter().take(1).chain(REQUESTS.iter().filter(|row| is_chunked(row.0)))
            {
                client.send(request.replace("PATH", PATH));
                expect(&format!("{count}: {request}"), &client.read_response(false), Answer::Safe(outcome), "", false);
            }
        }
    }
}

fn is_chunked(request: &str) -> bool {
    request.contains("Transfer-Encoding: chunked\r\n")
}

/// They got the end of the connection, and no answer.
#[test]
fn what_haproxy_refuses_is_answered_while_no_node_answers() {
    let nobody = Stub::nobody();
    let Some(front) = Front::start(Kind::Haproxy, &[nobody.addr()]) else { return };
    for request in REFUSED {
        without_a_node(front.plain, request, &[&NO_NODE]);
    }
    let server = Server::in_memory(&[]);
    let Some(front) = before(Kind::Haproxy, &server) else { return };
    server.pause();
    for request in REFUSED {
        // A node that is there may wait for the rest of a head that has no end.
        without_a_node(front.plain, request, &[&NO_NODE, &REQUEST_TIMEOUT]);
    }
}

fn without_a_node(addr: SocketAddr, request: &str, outcomes: &[&'static Outcome]) {
    let response = in_time(request, || exchange(addr, request.replace("PATH", PATH)));
    let outcome = outcomes.iter().find(|outcome| outcome.status.starts_with(&response.status.to_string()));
    let outcome = outcome.unwrap_or_else(|| panic!("{request:?}: {response:?}"));
    expect(request, &response, Answer::Safe(outcome), "", false);
}

/// A connection on which nothing is asked for longer than HAProxy looks at it, as browsers make them.
#[test]
fn a_connection_that_is_late_to_ask_is_served() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let edits = [("inspect-delay 10s", "inspect-delay 200ms")];
    let Some(front) = Front::start_edited(Kind::Haproxy, &[server.public()], &edits) else { return };
    let mut client = Client::connect(front.plain);
    // Two that each wait for as long on connections of their own show that the time has passed.
    for _ in 0..2 {
        let half = exchange(front.plain, format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n"));
        expect("half a head", &half, Answer::Safe(&REQUEST_TIMEOUT), "", false);
    }
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect("late", &client.read_response(false), Answer::Safe(&CAN_VOTE), "", false);
}

#[test]
fn each_page_of_haproxy_is_the_safe_body() {
    let pages: [(u16, &'static Outcome); 12] = [
        (400, &BAD_REQUEST),
        (403, &BAD_REQUEST),
        (404, &NOT_FOUND),
        (405, &METHOD_NOT_ALLOWED),
        (408, &REQUEST_TIMEOUT),
        (413, &CONTENT_TOO_LARGE),
        (429, &TOO_MANY),
        (500, &INTERNAL_ERROR),
        (501, &crate::util::answers::NOT_IMPLEMENTED),
        (502, &BAD_GATEWAY),
        (503, &NO_NODE),
        (504, &GATEWAY_TIMEOUT),
    ];
    let rules =
        pages.map(|(status, _)| format!("http-request deny deny_status {status} if {{ path /{status} }}\n    "));
    let edits = [("    option httpchk\n", format!("    {}option httpchk\n", rules.concat()))];
    let edits = edits.each_ref().map(|(from, to)| (*from, to.as_str()));
    let nobody = Stub::nobody();
    let Some(front) = Front::start_edited(Kind::Haproxy, &[nobody.addr()], &edits) else { return };
    for (status, outcome) in pages {
        let response = get(front.plain, &format!("/{status}"));
        assert_eq!(response.status, status);
        let body = (response.text(), response.header("Content-Length").map(str::to_owned));
        assert_eq!(body, (outcome.body, Some(outcome.body.len().to_string())), "{status}");
        for (name, value) in [
            ("Content-Type", "application/json; charset=utf-8"),
            ("Cache-Control", "no-store"),
            ("Access-Control-Allow-Origin", "*"),
            ("X-Content-Type-Options", "nosniff"),
        ] {
            assert_eq!(response.header(name), Some(value), "{status}");
        }
    }
}

/// What nothing in the file can change, as docs/OPERATIONS.md says.
#[test]
fn what_haproxy_cannot_do_is_as_documented() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(front) = before(Kind::Haproxy, &server) else { return };
    let mut later = Client::connect(front.plain);
    later.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(later.read_response(false).status, 200);
    later.send(format!("GET {PATH} HTTP/1.1\r\nHost : a\r\n\r\n"));
    assert_eq!(later.read_response(false).status, 400);
    let mut plain = Client::connect(front.tls);
    plain.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert!(plain.try_read_to_end().map_or(true, |bytes| bytes.is_empty()), "it answers now: say so");
}
