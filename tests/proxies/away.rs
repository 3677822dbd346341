//! The proxies while the service is away, silent, or talks nonsense: the safe body all the same, and
//! another node where there is one.

use crate::proxies::expected::{AWAY, Answer, GATEWAY_TIMEOUT};
use crate::proxies::front::{Front, Kind};
use crate::proxies::{before, curl, expect};
use crate::util::DEADLINE;
use crate::util::answers::{CAN_VOTE, prepare};
use crate::util::checks::PATH;
use crate::util::client::{Client, get};
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::stub::Stub;
use std::net::TcpListener;
use std::time::Instant;

pub(crate) const TOKEN_PATH: &str = "/api/servers/demo/vote-status/203.0.113.8";

#[test]
fn nginx_is_safe_while_the_service_is_away() {
    away(Kind::Nginx);
}

#[test]
fn haproxy_is_safe_while_the_service_is_away() {
    away(Kind::Haproxy);
}

#[test]
fn caddy_is_safe_while_the_service_is_away() {
    away(Kind::Caddy);
}

fn away(kind: Kind) {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let Some(mut front) = before(kind, &server) else { return };
    let tunnel = front.tunnel();
    let mut kept = Client::connect(front.plain);
    kept.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    assert_eq!(kept.read_response(false).status, 200);
    drop(server);
    kept.send(format!("GET {TOKEN_PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect_away("on a connection that was there before", &kept.read_response(false), false);
    for addr in [front.plain, tunnel] {
        for (method, path) in [("GET", PATH), ("HEAD", PATH), ("GET", TOKEN_PATH), ("OPTIONS", PATH), ("POST", PATH)] {
            let mut client = Client::connect(addr);
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            expect_away(&format!("{method} {path}"), &client.read_response(method == "HEAD"), method == "HEAD");
        }
    }
    let (status, body) = curl(&front, TOKEN_PATH);
    assert!(AWAY.iter().any(|outcome| outcome.status.starts_with(&status) && outcome.body == body), "{status} {body}");
    let log = front.logged(|log| log.contains("/api/servers/-/vote-status/203.0.113.8"));
    assert!(!log.contains("demo"), "{log}");
    assert!(!front.troubles().contains("demo"), "{}", front.troubles());
}

pub(crate) fn expect_away(label: &str, response: &Response, is_head: bool) {
    let outcome = AWAY.iter().find(|outcome| outcome.status.starts_with(&response.status.to_string()));
    let outcome = outcome.unwrap_or_else(|| panic!("{label}: {response:?}"));
    expect(label, response, Answer::Safe(outcome), "", is_head);
}

#[test]
fn a_silent_node_is_a_504() {
    // The kernel takes the connections, and nobody else does.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let addr = silent.local_addr().expect("its address");
    for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
        let Some(front) = Front::start(kind, &[addr]) else { continue };
        expect(&format!("{kind:?}"), &get(front.plain, PATH), Answer::Safe(&GATEWAY_TIMEOUT), "", false);
    }
}

#[test]
fn a_node_that_talks_nonsense_is_no_answer() {
    let answers: &[&[u8]] = &[b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"];
    for bytes in answers {
        let stub = Stub::answering(bytes);
        for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
            // nginx believes nearly all that a node says, and passes it on.
            if kind == Kind::Nginx && !bytes.is_empty() {
                continue;
            }
            let Some(front) = Front::start(kind, &[stub.addr()]) else { continue };
            let label = format!("{kind:?} {:?}", String::from_utf8_lossy(bytes));
            expect_away(&label, &get(front.plain, PATH), false);
        }
    }
}

#[test]
fn a_dead_node_beside_a_living_one_is_not_noticed() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let dead = Stub::nobody();
    for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
        let Some(front) = Front::start(kind, &[dead.addr(), server.public()]) else { continue };
        for count in 0..20 {
            expect(&format!("{kind:?} {count}"), &get(front.plain, PATH), Answer::Safe(&CAN_VOTE), "", false);
        }
    }
}

#[test]
fn a_node_that_is_not_ready_is_passed_over() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let loading = Stub::answering(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    );
    for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
        let Some(front) = Front::start(kind, &[loading.addr(), server.public()]) else { continue };
        // Caddy tries again on errors only; it is told by its first look at `/readyz`.
        let until = Instant::now() + DEADLINE;
        while kind == Kind::Caddy && (0..4).any(|_| get(front.plain, PATH).status != 200) {
            assert!(Instant::now() < until, "Caddy does not see that a node is not ready");
        }
        for count in 0..20 {
            expect(&format!("{kind:?} {count}"), &get(front.plain, PATH), Answer::Safe(&CAN_VOTE), "", false);
        }
    }
}
