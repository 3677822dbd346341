//! The bounds for each address, which the files have as commented lines. The program accepts the lines, and
//! answers requests over a bound with the safe body.

use crate::proxies::expect;
use crate::proxies::expected::{Answer, GATEWAY_TIMEOUT, TOO_MANY};
use crate::proxies::front::{Front, Kind, commented};
use crate::util::answers::{CAN_VOTE, prepare};
use crate::util::checks::PATH;
use crate::util::client::Client;
use crate::util::server::Server;
use std::net::SocketAddr;

/// A proxy with its commented lines turned on, with other bounds.
fn limited(kind: Kind, name: &str, nodes: &[SocketAddr], bounds: &[(&str, &str)]) -> Option<Front> {
    let lines: Vec<_> = commented(name).into_iter().filter(|(line, _)| !line.contains("is_vote_status")).collect();
    assert!(lines.len() >= 3, "{name}: {lines:?}");
    let lines = lines.iter().map(|(from, to)| (from.as_str(), to.as_str()));
    let edits: Vec<_> = lines.chain(bounds.iter().copied()).collect();
    Front::start_edited(kind, nodes, &edits)
}

#[test]
fn requests_over_the_bound_of_an_address_are_answered_429() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let nginx = limited(
        Kind::Nginx,
        "nginx/vote-status.conf",
        &[server.public()],
        &[("rate=200r/s", "rate=1r/m"), ("burst=1000", "burst=4")],
    );
    let haproxy = limited(Kind::Haproxy, "haproxy/vote-status.cfg", &[server.public()], &[("gt 2000", "gt 5")]);
    for front in [nginx, haproxy].into_iter().flatten() {
        let mut client = Client::connect(front.plain);
        for count in 0..10 {
            client.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let outcome = if count < 5 { &CAN_VOTE } else { &TOO_MANY };
            expect(&format!("{front:?}: {count}"), &client.read_response(false), Answer::Safe(outcome), "", false);
        }
    }
}

#[test]
fn requests_at_once_over_the_bound_of_an_address_are_answered_429() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let bounds = [("connections 2000;", "connections 1;")];
    let Some(front) = limited(Kind::Nginx, "nginx/vote-status.conf", &[server.public()], &bounds) else { return };
    server.pause();
    let mut first = Client::connect(front.plain);
    first.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    // nginx takes requests in turn: it refuses the second one at once, while the first one waits.
    let mut second = Client::connect(front.plain);
    second.send(format!("GET {PATH} HTTP/1.1\r\nHost: a\r\n\r\n"));
    expect("second", &second.read_response(false), Answer::Safe(&TOO_MANY), "", false);
    expect("first", &first.read_response(false), Answer::Safe(&GATEWAY_TIMEOUT), "", false);
}
