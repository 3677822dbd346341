//! Callers that make mistakes or mean harm while they wait: their cost, and their effect on others.

use super::{cast, cooldown, expect_can_vote, question, request, until_outcomes, until_waiting};
use crate::util::client::{Client, get};
use crate::util::figures::{connections_affordable, resident_kib};
use crate::util::server::Server;

fn idle(server: &Server, count: usize) -> Vec<Client> {
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(server.public())).collect();
    for client in &mut clients {
        client.send(question(200, ""));
        expect_can_vote(&client.read_response(false));
    }
    clients
}

/// A waiting request costs little more than an idle connection, and nothing of it is left in the end.
#[test]
fn a_held_request_costs_little_and_leaves_nothing() {
    const BYTES_MAX: u64 = 512;
    let count = connections_affordable(8_000);
    let max = (count + 1_000).to_string();
    let server = Server::listed(&["--workers", "2", "--max-connections", &max, "--max-waiting", &max]);
    let mut clients = idle(&server, count);
    let before = resident_kib(server.pid());
    for (client, number) in clients.iter_mut().zip(0_u32..) {
        let address = std::net::Ipv4Addr::from(0x0A00_0000 + number);
        client.send(request("GET", &format!("/api/servers/demo/vote-status/{address}?wait=50")));
    }
    until_waiting(&server, count as u64);
    let each = resident_kib(server.pid()).saturating_sub(before) * 1_024 / count as u64;
    assert!(each <= BYTES_MAX, "{each} bytes");
    drop(clients);
    until_waiting(&server, 0);
    server.await_metric("vote_status_buffer_bytes", 0);
}

/// All wait for one vote. They are told over several turns, and other requests are answered meanwhile.
#[test]
fn a_crowd_that_waits_for_one_vote_is_told_and_lets_others_through() {
    let count = connections_affordable(4_000);
    let max = (count + 1_000).to_string();
    let server = Server::listed(&["--workers", "1", "--max-connections", &max, "--max-waiting", &max]);
    let mut clients = idle(&server, count);
    clients.iter_mut().for_each(|client| client.send(question(7, "?wait=50")));
    until_waiting(&server, count as u64);
    let next = cast(&server, 7);
    expect_can_vote(&get(server.public(), "/api/vote/28/status/203.0.113.9"));
    for client in &mut clients {
        assert_eq!(client.read_response(false).text(), cooldown(&next));
    }
    until_outcomes(&server, [count as u64, 0, 0, 0]);
}

/// The server does not read requests behind a waiting one: a client that sends without end delays only itself.
#[test]
fn what_is_sent_behind_a_held_request_stays_with_the_system() {
    let server = Server::listed(&["--workers", "1"]);
    let mut client = Client::connect(server.public());
    client.send(question(7, "?wait=50"));
    until_waiting(&server, 1);
    client.send(question(9, "").repeat(1_000));
    expect_can_vote(&get(server.public(), "/api/vote/28/status/203.0.113.9"));
    assert!(server.metric("vote_status_buffer_bytes") < 200);
    let next = cast(&server, 7);
    assert_eq!(client.read_response(false).text(), cooldown(&next));
    for _ in 0..1_000 {
        expect_can_vote(&client.read_response(false));
    }
}
