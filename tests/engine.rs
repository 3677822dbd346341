//! The second engine, `serve --engine may_minihttp`: the public contract as far as it can hold
//! there, and the engine's other answers, as docs/DEPENDENCIES.md lists them.

use crate::util::DEADLINE;
use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, IN_COOLDOWN, OPTIONS, Outcome, UNKNOWN_SERVER, UNKNOWN_TOKEN, prepare,
};
use crate::util::checks::{self, After, Closed, KeptAlive, Open, PATH};
use crate::util::client::{Client, get};
use crate::util::response::Response;
use crate::util::server::{Server, expect_refusal};
use crate::util::time::{is_imf_fixdate_of_now, now_unix};
use rustix::process::Signal;
use std::io::ErrorKind;
use std::time::Duration;

const REQUEST: &str = "GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n";

/// How long nothing must come where the test expects silence.
const SILENCE: Duration = Duration::from_millis(300);

/// Requests that the engine cannot parse. It closes without an answer, and earlier answers on the connection are lost, too.
const UNREADABLE: [&str; 7] = [
    "GET  PATH HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET PATH HTTP/2.0\r\nHost: a\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost : a\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nX: \0\r\n\r\n",
    "\0",
    // The engine knows no chunked content, and its first line is no request.
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nGET /\r\n0\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\n\r\n\0",
];

#[test]
fn what_is_awaited_is_decided_when_it_is_answered() {
    checks::decided_when_it_is_answered(&start(&["--workers", "1"]), checks::BY_LENGTH);
}

#[test]
fn every_path_and_method_has_the_contract_s_answer() {
    let server = start(&[]);
    let vote = prepare(&server);
    checks::each_path_and_method(&server.publics()[0], &vote, |label, response, outcome, body, _client| {
        expect(label, response, outcome, body, if outcome.closes { Closed } else { Open });
    });
}

#[test]
fn every_kind_of_request_that_it_can_read_has_the_contract_s_answer() {
    let server = start(&[]);
    prepare(&server);
    for (request, outcome, after) in checks::REQUESTS.iter().filter(|(request, ..)| !UNREADABLE.contains(request)) {
        let request = request.replace("PATH", PATH);
        let mut client = Client::connect(server.public());
        client.send(&request);
        expect(&request, &client.read_response(false), outcome, outcome.body, *after);
        if *after != Closed {
            client.expect_open();
        }
    }
}

#[test]
fn answers_in_one_write_come_in_order() {
    let server = start(&[]);
    let next = prepare(&server).next();
    let mut client = Client::connect(server.public());
    let pair =
        ["203.0.113.7", "203.0.113.8"].map(|ip| format!("GET /api/vote/28/status/{ip} HTTP/1.1\r\nHost: a\r\n\r\n"));
    client.send(pair.concat().repeat(50));
    for _ in 0..50 {
        for outcome in [&CAN_VOTE, &IN_COOLDOWN] {
            assert_eq!(client.read_response(false).text(), outcome.body.replace("NEXT", &next));
        }
    }
}

/// Pages come whole, in both codings and under the same policy, never as 304.
#[test]
fn pages_are_served() {
    let server = start(&[]);
    let mut client = Client::connect(server.public());
    for (path, content_type, page) in [
        ("/", "text/html; charset=utf-8", &include_bytes!(concat!(env!("OUT_DIR"), "/public.html"))[..]),
        ("/openapi.json", "application/json", include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json"))),
    ] {
        for (lines, coding) in [("If-None-Match: *\r\n", None), ("Accept-Encoding: gzip\r\n", Some("gzip"))] {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            let response = client.read_response(false);
            assert_eq!(response.status, 200, "{path}");
            assert_eq!(response.header("Content-Type"), Some(content_type));
            assert_eq!(response.header("Content-Encoding"), coding);
            assert_eq!(response.header("Vary"), Some("Accept-Encoding"));
            assert_eq!(response.header("Access-Control-Allow-Origin"), Some("*"));
            let policy = (path == "/").then_some(include_str!(concat!(env!("OUT_DIR"), "/public.html.csp")));
            assert_eq!(response.header("Content-Security-Policy"), policy);
            assert!(response.content() == page, "{path}: not the file");
        }
    }
    client.expect_open();
}

#[test]
fn all_listeners_and_event_loops_see_a_vote_at_once() {
    let server = start(&["--workers", "2", "--listen", "[::1]:0"]);
    for path in [PATH, "/api/servers/demo/vote-status/203.0.113.7"] {
        let outcome = if path == PATH { &UNKNOWN_SERVER } else { &UNKNOWN_TOKEN };
        expect(path, &get(server.public(), path), outcome, outcome.body, Open);
    }
    server.control_client().add_server(28, "demo");
    assert_eq!(server.publics().len(), 2);
    for last in 1..50 {
        let ip = format!("198.51.100.{last}");
        let path = format!("/api/vote/28/status/{ip}");
        let mut clients: Vec<Client> = server.publics().iter().map(Client::connect).collect();
        let can_vote = |client: &mut Client| {
            client.send(format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            client.read_response(false).json()["can_vote"].clone()
        };
        for client in &mut clients {
            assert_eq!(can_vote(client), true, "{ip}");
        }
        assert_eq!(server.control_client().cast_at(28, &ip, now_unix()).status, 201);
        for client in &mut clients {
            assert_eq!(can_vote(client), false, "{ip}");
        }
    }
}

#[test]
fn an_address_in_use_is_refused() {
    for holder in [start(&[]), Server::in_memory(&[])] {
        let taken = holder.public().to_string();
        let args = ["--engine", "may_minihttp", "--control", "127.0.0.1:0", "--listen", &taken];
        expect_refusal(Server::serve_in_memory(&args), &["in use"]);
    }
}

#[test]
fn going_away_it_says_so_in_every_answer_and_ends() {
    let mut server = start(&["--drain-delay", "5"]);
    prepare(&server);
    let mut client = Client::connect(server.public());
    client.expect_open();
    server.signal(Signal::TERM);
    // The signal takes its time to arrive; the connection is kept until it has.
    let last = loop {
        client.send(REQUEST);
        let response = client.read_response(false);
        if response.says_close() {
            break response;
        }
    };
    expect("the last answer", &last, &CAN_VOTE, CAN_VOTE.body, Closed);
    assert_eq!(server.wait_exit(DEADLINE).code(), Some(0));
}

/// One step of a connection's life.
enum Step {
    Send(String),
    Answer(&'static Outcome, After),
    /// For a while nothing comes, not even the end.
    Silence,
    /// The end, in order or not, without a byte.
    NoAnswer,
}

use Step::{Answer, NoAnswer, Send, Silence};

/// Where the engine departs from the contract, each on a connection of its own.
fn limits() -> Vec<(String, Vec<Step>)> {
    let lines =
        |count: usize| Send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}\r\n", "X-Line: 1\r\n".repeat(count - 1)));
    let send = |request: &str| Send(request.replace("PATH", PATH));
    let can_vote = || Answer(&CAN_VOTE, Open);
    let (first, second) = REQUEST.split_at(20);
    let mut limits = vec![
        ("16 header lines", vec![lines(16), can_vote()]),
        ("17 header lines", vec![lines(17), NoAnswer]),
        ("bare line feeds", vec![send("GET PATH HTTP/1.1\nHost: a\n\n"), can_vote()]),
        ("empty lines first", vec![send("\r\n\r\n\r\nGET PATH HTTP/1.1\r\nHost: a\r\n\r\n"), can_vote()]),
        (
            "no time-out for a head, and none for a pause",
            vec![send(first), Silence, send(second), can_vote(), Silence, send(REQUEST), can_vote()],
        ),
        (
            "content is not asked for",
            vec![
                send("GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"),
                Silence,
                send("body"),
                can_vote(),
            ],
        ),
    ];
    // Bytes that still come behind the last request are not taken for a request.
    for last in ["GET PATH HTTP/1.0\r\n\r\n", "GET PATH HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"] {
        let steps = vec![send(last), Answer(&CAN_VOTE, Closed), Silence, send(REQUEST), Answer(&BAD_REQUEST, Closed)];
        limits.push(("it never closes after an answer", steps));
    }
    let unreadable = UNREADABLE.map(|request| (request, vec![send(request), NoAnswer]));
    limits.into_iter().chain(unreadable).map(|(what, steps)| (what.to_owned(), steps)).collect()
}

#[test]
fn its_limits_are_those_that_are_documented() {
    let server = start(&["--head-timeout", "0.05", "--idle-timeout", "0.05"]);
    prepare(&server);
    for (what, steps) in limits() {
        let mut client = Client::connect(server.public());
        for step in steps {
            match step {
                Send(bytes) => client.send(bytes),
                Answer(outcome, after) => {
                    expect(&what, &client.read_response(false), outcome, outcome.body, after);
                }
                Silence => expect_silence(&mut client),
                NoAnswer => expect_no_answer(&what, &mut client),
            }
        }
    }
    // The engine also logs a line for each request that it cannot parse.
    server.wait_for_lines("failed to parse http request", UNREADABLE.len());
}

#[test]
fn limit_no_answer_to_a_client_that_has_shut_its_side() {
    let server = start(&[]);
    let mut client = Client::connect(server.public());
    // The request and the end of the stream are there before the server looks.
    server.pause();
    client.send(REQUEST);
    client.shutdown_write();
    server.signal(Signal::CONT);
    client.expect_closed();
}

fn start(args: &[&str]) -> Server {
    let all: Vec<&str> = ["--engine", "may_minihttp"].iter().chain(args).copied().collect();
    Server::in_memory(&all)
}

/// Compares the whole answer, except for the date, which must be now. This engine has a head of
/// its own: `Ok`, a `Server`, the length before the other fields, and the length 0 where no body follows.
fn expect(label: &str, response: &Response, outcome: &Outcome, body: &str, after: After) {
    let date = response.header("Date").unwrap_or_default();
    assert!(is_imf_fixdate_of_now(date), "{label}: Date is {date:?}, which is not now");
    let status = if outcome.status == "200 OK" { "200 Ok" } else { outcome.status };
    let content_type = if outcome == &OPTIONS { "" } else { "Content-Type: application/json; charset=utf-8\r\n" };
    let connection = match after {
        Open => "",
        KeptAlive => "Connection: keep-alive\r\n",
        Closed => "Connection: close\r\n",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nServer: M\r\nDate: {date}\r\nContent-Length: {length}\r\n{content_type}\
         Cache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n\
         {extra}{connection}\r\n",
        length = body.len(),
        extra = outcome.extra,
    );
    assert_eq!(response.raw_head, head, "{label}");
    assert_eq!(response.text(), body, "{label}");
}

/// Requires that the connection ends, in order or not, without a byte.
fn expect_no_answer(request: &str, client: &mut Client) {
    match client.try_read_to_end() {
        Ok(bytes) => assert!(bytes.is_empty(), "{request:?}: {:?}", String::from_utf8_lossy(&bytes)),
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{request:?}: {error}"),
    }
}

/// Requires that for a while nothing comes, not even the end.
fn expect_silence(client: &mut Client) {
    client.set_deadline(SILENCE);
    match client.try_read_response(false) {
        Ok(response) => panic!("an answer: {response:?}"),
        Err(error) => assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}"),
    }
    client.set_deadline(DEADLINE);
}
