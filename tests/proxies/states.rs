//! Each proxy in each state of the service: away, frozen, and not ready. Every request is answered with the safe body or
//! the truth, within a caller's patience.

use crate::proxies::away::{TOKEN_PATH, expect_away};
use crate::proxies::expected::{AWAY, Answer};
use crate::proxies::front::{Front, Kind};
use crate::proxies::{before, curl, each_proxy, expect};
use crate::util::answers::{CAN_VOTE, Outcome, prepare};
use crate::util::checks::PATH;
use crate::util::client::{Client, exchange, get};
use crate::util::patience::in_time;
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::{DEADLINE, wait_until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::scope;
use std::time::Instant;

/// The requests in each state, each the first one of its connection.
const ASKED: &[&str] = &[
    "GET PATH HTTP/1.1\r\nHost: a\r\n\r\n",
    "HEAD PATH HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET PATH HTTP/1.0\r\n\r\n",
    "HEAD PATH HTTP/1.0\r\n\r\n",
    "GET PATH HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    "GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
    "GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "HEAD PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "POST PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}",
];

#[test]
fn each_proxy_is_safe_in_every_state() {
    each_proxy(every_state);
}

fn every_state(kind: Kind) {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(mut front) = before(kind, &server) else { return };
    let mut kept = Client::connect(front.plain);
    kept.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(kept.read_response(false).status, 200);
    drop(server);
    kept.send(format!("GET {TOKEN_PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect_away("on a connection that was there before", &kept.read_response(false), false);
    ask_all(&format!("{kind:?}, gone"), kind, &mut front);
    let log = front.logged(|log| log.contains("/api/servers/-/vote-status/203.0.113.8"));
    assert!(!log.contains("demo"), "{log}");
    assert!(!front.troubles().contains("demo"), "{}", front.troubles());

    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(mut front) = before(kind, &server) else { return };
    server.pause();
    ask_all(&format!("{kind:?}, frozen"), kind, &mut front);
    server.signal(Signal::CONT);
    wait_until(&format!("{kind:?} sees that the node is back"), || get(front.plain, PATH).status == 200);
    expect("back", &get(front.plain, PATH), Answer::Safe(&CAN_VOTE), "", false);

    let starting = Stub::answering(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json; charset=utf-8\r\n\
          Cache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n\
          Retry-After: 1\r\nContent-Length: 142\r\nConnection: close\r\n\r\n\
          {\"success\":true,\"can_vote\":true,\"message\":\"Service momentan\xc3\xa9ment indisponible\",\
          \"next_vote_at\":null,\"cooldown_minutes\":90,\"error\":\"not_ready\"}",
    );
    let Some(mut front) = Front::start(kind, &[starting.addr()]) else { return };
    ask_all(&format!("{kind:?}, not ready"), kind, &mut front);
}

/// Sends all requests at once, each on a connection of its own, and one more on each connection.
fn ask_all(state: &str, kind: Kind, front: &mut Front) {
    let addrs = [front.plain, front.tunnel()];
    let from = Instant::now();
    let front = &*front;
    scope(|scope| {
        for path in [PATH, TOKEN_PATH] {
            scope.spawn(move || ask_over_http2(state, front, path));
        }
        for request in ASKED {
            for path in [PATH, TOKEN_PATH] {
                for addr in addrs {
                    let request = request.replace("PATH", path);
                    scope.spawn(move || ask(&format!("{state}: {request:?}"), kind, addr, &request));
                }
            }
        }
    });
    println!("{state}: {} requests and as many again in {:?}", ASKED.len() * 4, from.elapsed());
}

fn ask_over_http2(state: &str, front: &Front, path: &str) {
    let (status, body) = in_time(path, || curl(front, path, false));
    let is_safe = AWAY.iter().any(|outcome| is(outcome, &status) && outcome.body == body);
    assert!(is_safe, "{state}: {path}: {status} {body}");
    let (status, _) = in_time(path, || curl(front, path, true));
    assert!(AWAY.iter().any(|outcome| is(outcome, &status)), "{state}: HEAD {path}: {status}");
}

fn is(outcome: &Outcome, status: &str) -> bool {
    outcome.status.starts_with(status)
}

fn ask(label: &str, kind: Kind, addr: SocketAddr, request: &str) {
    let mut client = Client::connect(addr);
    let is_head = request.starts_with("HEAD");
    // Go answers in the version of the request, which the client here does not read.
    if kind == Kind::Caddy && request.contains(" HTTP/1.0\r\n") {
        let closing = request.replace("Connection: keep-alive\r\n", "");
        client.send(closing);
        let bytes = in_time(label, || client.try_read_to_end().expect("an answer"));
        let text = String::from_utf8(bytes).expect("text");
        let body = if is_head { "" } else { AWAY[0].body.split("\"error\"").next().expect("a part") };
        let (head, rest) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{label}: {text:?}"));
        assert!(head.starts_with("HTTP/1.0 50") && rest.starts_with(body), "{label}: {text}");
        return;
    }
    client.send(request);
    let response = in_time(label, || client.read_response(is_head));
    expect_away(label, &response, is_head);
    if response.says_close() || request.contains("Connection: close") || request.contains(" HTTP/1.0\r\n\r\n") {
        return;
    }
    client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect_away(label, &in_time(label, || client.read_response(false)), false);
}

/// A proxy sends a request other than `GET` only once, whatever its outcome, so no change is made twice.
#[test]
fn what_may_change_something_is_never_sent_twice() {
    for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
        let posted = AtomicU32::new(0);
        let nodes = [0, 1].map(|_| TcpListener::bind("127.0.0.1:0").expect("a free port"));
        let addrs = nodes.each_ref().map(|node| node.local_addr().expect("its address"));
        let is_over = AtomicBool::new(false);
        let answer = scope(|scope| {
            for node in &nodes {
                let (posted, is_over) = (&posted, &is_over);
                scope.spawn(move || hang_up(node, posted, is_over));
            }
            let request = format!("POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}");
            let answer = Front::start(kind, &addrs).map(|front| exchange(front.plain, request));
            is_over.store(true, Ordering::Relaxed);
            addrs.iter().for_each(|addr| drop(TcpStream::connect(addr)));
            answer
        });
        // Only after the end of the nodes: they would wait for ever where this fails.
        answer.iter().for_each(|answer| expect_away(&format!("{kind:?}"), answer, false));
        let posted = posted.load(Ordering::Relaxed);
        assert!(posted <= 1, "{kind:?}: sent {posted} times");
    }
}

/// A node that reads a request and closes without an answer. Counts the POST requests.
fn hang_up(node: &TcpListener, posted: &AtomicU32, is_over: &AtomicBool) {
    for stream in node.incoming() {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let mut stream = stream.expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
        let mut bytes = [0; 4096];
        // Health checks are answered, so that the proxy asks both nodes.
        let count = stream.read(&mut bytes).unwrap_or(0);
        let text = String::from_utf8_lossy(&bytes[..count]);
        if text.starts_with("POST ") {
            posted.fetch_add(1, Ordering::Relaxed);
        } else if text.contains(" /readyz ") {
            let ready = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}";
            stream.write_all(ready).expect("a proxy reads its health check");
        }
    }
}
