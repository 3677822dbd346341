//! The public contract as exchanges with one listener of any kind. Each check sends requests and
//! compares byte for byte. The tests of the listeners call the checks.

use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, EXPECTATION_FAILED, METHOD_NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED,
    OPTIONS, OTHER_METHODS, OneVote, Outcome, VERSION_NOT_SUPPORTED, answer_to, rows,
};
use crate::util::client::{Client, get};
use crate::util::endpoint::Endpoint;
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::time::is_imf_fixdate_of_now;
use std::sync::atomic::{AtomicU32, Ordering};

/// The `Connection` field of the answer, and the fate of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// No field, and the connection stays open, as HTTP/1.1 has it.
    Open,
    /// `Connection: keep-alive`, for an HTTP/1.0 client that asked for it, and the connection stays open.
    KeptAlive,
    /// `Connection: close`, and the server closes it.
    Closed,
}

pub(crate) use After::{Closed, KeptAlive, Open};

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
    // The server skips a body that none of its methods wants.
    ("GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /", &CAN_VOTE, Open),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n", &CAN_VOTE, Open),
    ("POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", &METHOD_NOT_ALLOWED, Open),
    ("POST /nothing HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", &NOT_FOUND, Open),
    // Errors leave the connection as the request wants it, unless they are errors of HTTP itself.
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

/// Replaces `PATH` in the requests: the path of a pair that may vote.
pub(crate) const PATH: &str = "/api/vote/28/status/203.0.113.7";

/// Every check of one listener of any kind.
pub(crate) fn whole_contract(endpoint: &Endpoint, vote: &OneVote) {
    every_path_and_method(endpoint, vote);
    every_kind_of_request(endpoint);
    answers_in_one_write(endpoint, vote);
}

/// Wishes of a browser or a client. An HTML page pays a reward, so no path of the interface gives one.
const WISHES: &str = "Accept: text/html,application/xhtml+xml;q=0.9\r\nAccept-Encoding: gzip\r\nIf-None-Match: *\r\n\
    Sec-Fetch-Dest: document\r\nUpgrade-Insecure-Requests: 1\r\n";

/// Asks for every path of the tables by every method, and lets `check` judge each answer, with its label and its expected
/// body. `check` also checks the close of a connection.
pub(crate) fn each_path_and_method(
    endpoint: &Endpoint,
    vote: &OneVote,
    check: impl Fn(&str, &Response, &Outcome, &str, &mut Client),
) {
    let mut client = Client::connect(endpoint);
    for (path, to_get) in rows() {
        for method in ["GET", "HEAD", "OPTIONS"].iter().chain(OTHER_METHODS) {
            let outcome = answer_to(method, to_get);
            let label = format!("{method} {path}");
            let body = if *method == "HEAD" { String::new() } else { vote.body(outcome) };
            client.send(format!("{label} HTTP/1.1\r\nHost: a\r\n{WISHES}\r\n"));
            let response = client.read_response(*method == "HEAD");
            check(&label, &response, outcome, &body, &mut client);
            if outcome.closes {
                client = Client::connect(endpoint);
            }
        }
    }
    client.expect_open();
}

/// Every path by every method, and that the connection is closed where it should be.
pub(crate) fn every_path_and_method(endpoint: &Endpoint, vote: &OneVote) {
    each_path_and_method(endpoint, vote, |label, response, outcome, body, client| {
        expect_bytes(label, response, outcome, body, if outcome.closes { Closed } else { Open });
        if outcome.closes {
            client.expect_closed();
        }
    });
}

/// Sends every kind of request, and checks the answer and the connection.
pub(crate) fn every_kind_of_request(endpoint: &Endpoint) {
    for (request, outcome, after) in REQUESTS {
        let request = request.replace("PATH", PATH);
        let mut client = Client::connect(endpoint);
        client.send(&request);
        expect(&request, &mut client, outcome, *after);
    }
}

/// The fields that frame content, and its two halves.
pub(crate) type Framed = (&'static str, &'static str, &'static str);

/// Content framed by its length, which every engine reads.
pub(crate) const BY_LENGTH: Framed = ("Content-Length: 4\r\n", "bo", "dy");

/// Content framed in other ways.
pub(crate) const OTHERWISE: [Framed; 3] = [
    ("Content-Length: 4\r\nExpect: 100-continue\r\n", "bo", "dy"),
    ("Transfer-Encoding: chunked\r\n", "2\r\nbo\r\n", "2\r\ndy\r\n0\r\n\r\n"),
    ("Transfer-Encoding: chunked\r\nExpect: 100-continue\r\n", "2\r\nbo\r\n0\r\nX: y\r\n", "\r\n"),
];

/// Regression: a request was decided with its head, and its content may come minutes later. The answer then
/// still told of a vote that was cancelled meanwhile, which pays a reward. Vote, server and token must all be
/// decided when the request is answered. `server` has one worker.
pub(crate) fn decided_when_it_is_answered(server: &Server, (lines, first, last): Framed) {
    // A server of its own for each call, as the cancelled votes of one pair within a second are bounded.
    static SERVER: AtomicU32 = AtomicU32::new(61);
    let id = SERVER.fetch_add(1, Ordering::Relaxed);
    let escaped: String = id.to_string().bytes().map(|digit| format!("%{digit:x}")).collect();
    let paths = [
        format!("/api/vote/{id}/status/203.0.113.61"),
        "/api/servers/awaited/vote-status/203.0.113.61".to_owned(),
        format!("/api/vote/{escaped}/status/203.0.113.61/"),
    ];
    let (endpoint, control) = (&server.publics()[0], server.control_client());
    let meanwhile = |what: &str, change: &dyn Fn() -> Response, expected: [(u16, bool); 3]| {
        let mut clients = paths.each_ref().map(|path| {
            let mut client = Client::connect(endpoint);
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n{first}"));
            if lines.contains("Expect") {
                assert_eq!(client.read_response(false).status, 100, "{lines}");
            }
            client
        });
        // The one worker answers these after it has read the heads that were sent before.
        for _ in 0..10 {
            get(endpoint, &paths[0]);
        }
        let changed = change();
        assert!(changed.status < 300, "{what}: {changed:?}");
        let answers = clients.each_mut().map(|client| {
            client.send(last);
            let response = client.read_response(false);
            (response.status, response.json()["can_vote"] == true)
        });
        assert_eq!(answers, expected, "{lines:?} {what}");
        clients.iter_mut().for_each(Client::expect_open);
    };
    control.add_server(id, "awaited");
    let cast = || control.cast(id, [203, 0, 113, 61]);
    let cancel = || control.delete(&format!("/v1/votes/{id}/203.0.113.61"));
    meanwhile("cast", &cast, [(200, false); 3]);
    meanwhile("cancelled", &cancel, [(200, true); 3]);
    cast();
    let rotate = || control.post(&format!("/v1/servers/{id}/token"), "");
    meanwhile("given another token", &rotate, [(200, false), (404, true), (200, false)]);
    meanwhile("removed", &|| control.delete(&format!("/v1/servers/{id}")), [(404, true); 3]);
}

/// Asks for all paths that leave the connection open, in one write.
pub(crate) fn answers_in_one_write(endpoint: &Endpoint, vote: &OneVote) {
    let all: Vec<_> = rows().into_iter().filter(|row| !row.1.closes).collect();
    let mut client = Client::connect(endpoint);
    let mut bytes = String::new();
    for (path, _) in &all {
        bytes += &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let next = vote.next();
    client.send(&bytes);
    for (path, outcome) in &all {
        let response = client.read_response(false);
        expect_bytes(path, &response, outcome, &outcome.body.replace("NEXT", &next), Open);
    }
    client.expect_open();
}

/// Reads and checks the whole answer, and then checks that the connection is as `after` says.
pub(crate) fn expect(label: &str, client: &mut Client, outcome: &Outcome, after: After) {
    let response = client.read_response(false);
    expect_response(label, &response, outcome, after);
    match after {
        Open | KeptAlive => client.expect_open(),
        Closed => client.expect_closed(),
    }
}

/// The same check of a response that was read before.
pub(crate) fn expect_response(label: &str, response: &Response, outcome: &Outcome, after: After) {
    expect_bytes(label, response, outcome, outcome.body, after);
}

/// Compares the whole answer byte for byte, except for the date, which must be now. The body comes first: a wrong body
/// would else show only as a wrong length in the head.
fn expect_bytes(label: &str, response: &Response, outcome: &Outcome, body: &str, after: After) {
    assert_eq!(response.text(), body, "{label}");
    let date = response.header("Date").unwrap_or_default();
    assert!(is_imf_fixdate_of_now(date), "{label}: Date is {date:?}, which is not now");
    assert_eq!(response.raw_head, head(outcome, date, after), "{label}");
}

/// The expected head of this answer, with this date.
pub(crate) fn head(outcome: &Outcome, date: &str, after: After) -> String {
    let (content_type, content_length) = if outcome.status.starts_with("204") {
        ("", String::new())
    } else {
        let length = outcome.body.replace("NEXT", "2026-11-20T12:34:56Z").len();
        ("Content-Type: application/json; charset=utf-8\r\n", format!("Content-Length: {length}\r\n"))
    };
    let connection = match after {
        Open => "",
        KeptAlive => "Connection: keep-alive\r\n",
        Closed => "Connection: close\r\n",
    };
    format!(
        "HTTP/1.1 {status}\r\nDate: {date}\r\n{content_type}Cache-Control: no-store\r\n\
         Access-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n\
         {extra}{content_length}{connection}\r\n",
        status = outcome.status,
        extra = outcome.extra,
    )
}
