//! The contract's public part through nginx, HAProxy and Caddy with the files of `contrib/`. Their own
//! answers have the safe body, and are never a page. `expected` lists the answers that each gives
//! before it asks the service; `front` starts the proxies.

mod away;
mod certbot;
#[cfg(feature = "tls")]
mod control;
mod expected;
mod front;
mod haproxy;
mod hostile;
mod killed;
mod limits;
mod logs;
mod probe;
mod restart;
mod site;
mod states;
mod waiting;

use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, HEADERS_TOO_LARGE, IN_COOLDOWN, NOT_FOUND, OTHER_METHODS, OneVote,
    URI_TOO_LONG, answer_to, prepare, rows,
};
use crate::util::checks::{PATH, REQUESTS};
use crate::util::client::{Client, exchange, get};
use crate::util::endpoint::Endpoint;
use crate::util::patience::Wait;
use crate::util::response::Response;
use crate::util::server::{Ended, Server, run_to_end};
use crate::util::time::is_imf_fixdate_of_now;
use expected::{Answer, PAGE, TEXT, to_path, to_request};
use front::{Front, Kind};
use std::net::SocketAddr;
use std::process::Command;
use std::thread::{scope, sleep};
use std::time::Duration;

/// A proxy in front of one service. Where it is not installed, prints that and gives `None`.
fn before(kind: Kind, server: &Server) -> Option<Front> {
    let public: Vec<SocketAddr> = server.publics().iter().map(Endpoint::addr).collect();
    Front::start(kind, &public)
}

/// Runs a test for all proxies at once.
fn each_proxy(test: impl Fn(Kind) + Sync) {
    scope(|threads| {
        for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
            let test = &test;
            threads.spawn(move || test(kind));
        }
    });
}

/// Answers that a proxy gives where the service was too late for it, or for its check.
const LATE: [u16; 3] = [502, 503, 504];
/// For how long such a request is sent again: a proxy that took the service for dead checks it every few seconds.
const AGAIN_MAX: Duration = Duration::from_secs(10);
const AGAIN_PAUSE: Duration = Duration::from_millis(100);

/// The answer through a proxy, at first `response`. On a busy machine the service is too late now and then: `ask` sends the
/// request again.
fn again_if_late(mut response: Response, mut ask: impl FnMut() -> Response) -> Response {
    let since = Wait::begin();
    while LATE.contains(&response.status) && since.counted() < AGAIN_MAX {
        sleep(AGAIN_PAUSE);
        response = ask();
    }
    response
}

#[test]
fn each_proxy_serves_the_contract() {
    each_proxy(contract);
}

/// Every path, method and request of the contract's tables, plain and over TLS.
fn contract(kind: Kind) {
    let server = Server::in_memory(&[]);
    let vote = prepare(&server);
    let Some(mut front) = before(kind, &server) else { return };
    let mut paths = 0;
    for addr in [front.plain, front.tunnel()] {
        paths += ask_for_paths(kind, addr, &vote);
        requests(kind, addr);
    }
    http2(&front, &vote);
    let connections = server.metric(r#"vote_status_connections_accepted_total{listener="public"}"#);
    assert!(connections < paths / 3, "{connections} connections to the service for {paths} requests");
    println!("{kind:?}: {paths} requests, {connections} connections to the service");
    let last = get(front.plain, "/api/vote/28/status/203.0.113.77");
    assert_eq!(last.status, 200);
    let log = front.logged(|log| log.contains("203.0.113.77"));
    assert!(log.contains("/api/servers/-/vote-status/203.0.113.8"), "{log}");
    for secret in ["demo", "0123456789abcdef", "aZ09"] {
        assert!(!log.contains(secret), "{secret} in the log");
        assert!(!front.troubles().contains(secret), "{secret} in the log of troubles: {}", front.troubles());
    }
}

fn ask_for_paths(kind: Kind, addr: SocketAddr, vote: &OneVote) -> u64 {
    let mut client = Client::connect(addr);
    let mut count = 0;
    for (path, to_get) in rows() {
        for method in ["GET", "HEAD", "OPTIONS"].iter().chain(OTHER_METHODS) {
            let answer = to_path(kind, method, &path, answer_to(method, to_get));
            // Caddy's own answer is the same for every method, and comes after half a second.
            if matches!(answer, Answer::Own(_, TEXT)) && *method != "GET" {
                continue;
            }
            let (label, next) = (format!("{method} {path}"), vote.next());
            client.send(format!("{label} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.read_response(*method == "HEAD");
            expect(&label, &response, answer, &next, *method == "HEAD");
            if response.says_close() {
                client = Client::connect(addr);
            }
            count += 1;
        }
    }
    count
}

fn requests(kind: Kind, addr: SocketAddr) {
    for (request, outcome, _) in REQUESTS {
        // Go answers in the version of the request, which the client here does not read.
        if kind == Kind::Caddy && request.contains(" HTTP/1.0\r\n") {
            continue;
        }
        let answer = to_request(kind, request, outcome);
        if !matches!(answer, Answer::Waits) {
            let mut client = Client::connect(addr);
            client.send(request.replace("PATH", PATH));
            expect(request, &client.read_response(false), answer, "", false);
        }
    }
}

/// Both outcomes and an error over HTTP/2, as a browser asks.
fn http2(front: &Front, vote: &OneVote) {
    for (path, outcome) in [
        ("/api/vote/28/status/%3A%3Affff%3A203.0.113.7?t=1", &CAN_VOTE),
        ("/api/servers/demo/vote-status/203.0.113.8/", &IN_COOLDOWN),
        ("/api//vote/28/status/203.0.113.8", &NOT_FOUND),
    ] {
        let expected = vote.body(outcome);
        let (status, body) = curl(front, path, false);
        assert!(outcome.status.starts_with(&status), "{path}: {status}");
        assert_eq!(body, expected, "{path}");
    }
}

/// Status and body over HTTP/2, the body of a `HEAD` left out.
fn curl(front: &Front, path: &str, is_head: bool) -> (String, String) {
    let mut command = Command::new("curl");
    command.args(["-sS", "--http2", "--path-as-is", "--max-time", "10", "--cacert", &front.certificate()]);
    command.args(["-w", "\n%{http_version} %{http_code} %{content_type}", &format!("https://{}{path}", front.tls)]);
    command.args(if is_head { &["--head", "-o", "/dev/null"][..] } else { &[] });
    let Ended { status, stdout, stderr } = run_to_end(command);
    assert!(status.success(), "curl {path}: {status} {stderr}");
    let (body, said) = stdout.rsplit_once('\n').expect("curl adds a line");
    let status = said.strip_prefix("2 ").and_then(|said| said.strip_suffix(" application/json; charset=utf-8"));
    (status.unwrap_or_else(|| panic!("{path}: {said}")).to_owned(), body.to_owned())
}

/// The answers of each proxy to bytes that are no HTTP, and to heads past the service's bounds.
#[test]
fn each_proxy_answers_what_it_cannot_pass_on() {
    each_proxy(|kind| {
        let server = Server::in_memory(&[]);
        let Some(front) = before(kind, &server) else { return };
        large_heads(kind, &front);
        nonsense(
            &front,
            match kind {
                Kind::Nginx => Answer::Safe(&BAD_REQUEST),
                Kind::Haproxy => Answer::Own(400, PAGE),
                Kind::Caddy => Answer::Own(400, TEXT),
            },
        );
        if kind != Kind::Nginx {
            return;
        }
        let mut client = Client::connect(front.tls);
        client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
        expect("no TLS", &client.read_response(false), Answer::Safe(&BAD_REQUEST), "", false);
        let length = format!("POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 70000\r\n\r\n");
        let response = exchange(front.plain, length);
        expect("a large body", &response, Answer::Safe(&CONTENT_TOO_LARGE), "", false);
        let inside = get(front.plain, "/.vote-status/503");
        expect("a path of its own", &inside, Answer::Safe(&NOT_FOUND), "", false);
    });
}

/// Heads past the service's bounds, and past the proxy's.
fn large_heads(kind: Kind, front: &Front) {
    for (label, request, outcome) in [
        ("a line of 17 kB", format!("GET {PATH}?{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(17_000)), &URI_TOO_LONG),
        ("a line of 40 kB", format!("GET {PATH}?{} HTTP/1.1\r\nHost: a\r\n\r\n", "b".repeat(40_000)), &URI_TOO_LONG),
        (
            "a field of 17 kB",
            format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(17_000)),
            &HEADERS_TOO_LARGE,
        ),
        (
            "a field of 40 kB",
            format!("GET {PATH} HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "b".repeat(40_000)),
            &HEADERS_TOO_LARGE,
        ),
        ("150 fields", format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n{}\r\n", "X: 1\r\n".repeat(150)), &HEADERS_TOO_LARGE),
    ] {
        // HAProxy answers a head that it has no room for with its page.
        let has_room = kind != Kind::Haproxy || request.len() < 32_000;
        let answer = if has_room { Answer::Safe(outcome) } else { Answer::Own(400, PAGE) };
        expect(&format!("{kind:?}: {label}"), &exchange(front.plain, request), answer, "", false);
    }
}

/// Bytes that are no HTTP at all.
fn nonsense(front: &Front, answer: Answer) {
    for bytes in ["nonsense\r\n\r\n", "\u{16}\u{3}\u{1}\u{0}\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\n: a\r\n\r\n"] {
        expect(&format!("{bytes:?}"), &exchange(front.plain, bytes), answer, "", false);
    }
}

/// Compares everything that the contract fixes in an answer. A proxy adds lines of its own, and its own date.
fn expect(label: &str, response: &Response, answer: Answer, next: &str, is_head: bool) {
    let outcome = match answer {
        Answer::Safe(outcome) => outcome,
        Answer::Own(status, content_type) => {
            let is_its_own = response.header("Content-Type").unwrap_or_default() == content_type;
            assert!(response.status == status && is_its_own, "{label}: {response:?}");
            assert!(!content_type.is_empty() || response.body.is_empty(), "{label}: {response:?}");
            return;
        }
        Answer::Waits => panic!("{label}: an answer: {response:?}"),
    };
    assert!(
        outcome.status.starts_with(&response.status.to_string()),
        "{label}: {} is wanted: {response:?}",
        outcome.status
    );
    let body = outcome.body.replace("NEXT", next);
    assert_eq!(response.text(), if is_head { "" } else { &body }, "{label}");
    let expect_field = |name: &str, value: Option<&str>| {
        assert_eq!(response.header(name), value, "{label}: {name}: {response:?}");
    };
    let length = body.len().to_string();
    let has_body = !outcome.status.starts_with("204");
    expect_field("Content-Type", has_body.then_some("application/json; charset=utf-8"));
    if has_body && (!is_head || response.header("Content-Length").is_some()) {
        expect_field("Content-Length", Some(&length));
    }
    expect_field("Cache-Control", Some("no-store"));
    expect_field("Access-Control-Allow-Origin", Some("*"));
    expect_field("X-Content-Type-Options", Some("nosniff"));
    for (name, value) in outcome.extra.lines().filter_map(|line| line.split_once(": ")) {
        expect_field(name, Some(value));
    }
    for name in ["Location", "Content-Encoding", "Set-Cookie", "Transfer-Encoding"] {
        expect_field(name, None);
    }
    let date = response.header("Date");
    assert!(date.is_none_or(is_imf_fixdate_of_now), "{label}: {response:?}");
}
