//! The proxies before nodes that are dead, not ready, or send nonsense. Another node answers where there is one, and
//! otherwise the proxy does, with the safe body.

use crate::proxies::expected::{AWAY, Answer};
use crate::proxies::front::{Front, Kind};
use crate::proxies::{each_proxy, expect};
use crate::util::answers::{CAN_VOTE, prepare};
use crate::util::checks::PATH;
use crate::util::client::get;
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::wait_until;

pub(crate) const TOKEN_PATH: &str = "/api/servers/demo/vote-status/203.0.113.8";

pub(crate) fn expect_away(label: &str, response: &Response, is_head: bool) {
    let outcome = AWAY.iter().find(|outcome| outcome.status.starts_with(&response.status.to_string()));
    let outcome = outcome.unwrap_or_else(|| panic!("{label}: {response:?}"));
    expect(label, response, Answer::Safe(outcome), "", is_head);
}

#[test]
fn a_node_that_talks_nonsense_is_no_answer() {
    let answers: &[&[u8]] = &[b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"];
    for bytes in answers {
        let stub = Stub::answering(bytes);
        each_proxy(|kind| {
            // nginx believes nearly every answer of a node, and passes it on.
            if kind == Kind::Nginx && !bytes.is_empty() {
                return;
            }
            let Some(front) = Front::start(kind, &[stub.addr()]) else { return };
            let label = format!("{kind:?} {:?}", String::from_utf8_lossy(bytes));
            expect_away(&label, &get(front.plain, PATH), false);
        });
    }
}

/// Each request has the answer of the node that can give one.
fn the_other_node_answers(kind: Kind, front: &Front) {
    for count in 0..20 {
        expect(&format!("{kind:?} {count}"), &get(front.plain, PATH), Answer::Safe(&CAN_VOTE), "", false);
    }
}

#[test]
fn a_node_that_is_dead_or_not_ready_is_passed_over() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let dead = Stub::nobody();
    let loading = Stub::answering(
        b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
    );
    each_proxy(|kind| {
        let Some(front) = Front::start(kind, &[dead.addr(), server.public()]) else { return };
        the_other_node_answers(kind, &front);
        let Some(front) = Front::start(kind, &[loading.addr(), server.public()]) else { return };
        // Caddy tries again on errors only. It learns of this node by its first look at `/readyz`.
        let is_passed_over = || kind != Kind::Caddy || (0..4).all(|_| get(front.plain, PATH).status == 200);
        wait_until("Caddy sees that a node is not ready", is_passed_over);
        the_other_node_answers(kind, &front);
    });
}
