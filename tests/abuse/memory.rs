//! Memory that a client can make the server use: endless sections, partial heads, idle connections.

use super::{ask, assert_refusal};
use crate::util::answers::CONTENT_TOO_LARGE;
use crate::util::client::Client;
use crate::util::figures::{connections_affordable, one_worker, resident_kib};
use crate::util::server::Server;
use crate::util::wait_until;
use std::net::SocketAddr;

/// Sends `start`, then `more` until the server takes nothing any more or `bytes_max` are sent.
/// Gives the client, for the answer. The server may stop reading a client that goes on for
/// megabytes, so a failing send is an end, not a failure.
fn send_without_end(addr: SocketAddr, start: &[u8], more: &[u8], bytes_max: usize) -> Client {
    let mut client = Client::connect(addr);
    client.send(start);
    let piece = more.repeat(16 * 1024 / more.len() + 1);
    let mut sent = start.len();
    while sent < bytes_max && client.try_send(&piece).is_ok() {
        sent += piece.len();
    }
    client
}

/// The section without an end, the bytes before it, the repeated bytes, and the allowed answers.
type Endless<'b> = (&'static str, &'b [u8], &'static [u8], &'static [u16]);

/// Sections without an end, each sent for up to 20 MB.
#[test]
fn endless_sections_are_refused_in_little_memory() {
    const BYTES_MAX: usize = 20 * 1024 * 1024;
    const GROWN_MAX_KIB: u64 = 4 * 1024;
    const CHUNKED: &[u8] = b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
    let server = one_worker(&[]);
    ask(&mut Client::connect(server.public()));
    let before = resident_kib(server.pid());
    let zero = [CHUNKED, b"0\r\n"].concat();
    let extension = [CHUNKED, b"5;"].concat();
    let endless: &[Endless] = &[
        ("method", b"", b"A", &[414]),
        ("target", b"GET /", b"a", &[414]),
        ("field lines", b"GET / HTTP/1.1\r\n", b"X: a\r\n", &[431]),
        ("field name", b"GET / HTTP/1.1\r\n", b"X", &[431]),
        ("field value", b"GET / HTTP/1.1\r\nX: ", b"a", &[431]),
        ("empty lines", b"", b"\r\n", &[400]),
        ("chunks", CHUNKED, b"5\r\nhello\r\n", &[413]),
        ("chunk size", CHUNKED, b"0", &[400, 413]),
        ("chunk extension", &extension, b"a", &[400, 413, 431]),
        ("trailers", &zero, b"X: a\r\n", &[400, 413, 431]),
        ("body", b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", b"a", &[413]),
        ("binary", b"", b"\0", &[400, 505]),
    ];
    for &(what, start, more, statuses) in endless {
        let mut client = send_without_end(server.public(), start, more, BYTES_MAX);
        let response = client.read_response(false);
        assert!(statuses.contains(&response.status), "endless {what}: {response:?}");
        assert!(response.says_close(), "endless {what}: {response:?}");
        let grown = resident_kib(server.pid()).saturating_sub(before);
        assert!(grown <= GROWN_MAX_KIB, "endless {what}: {grown} KiB more");
    }
    ask(&mut Client::connect(server.public()));
}

/// A client sends a body over the bound whole, though the answer is there already. Within the bound
/// of lingering every send succeeds, the answer is there in full, and the end is orderly.
#[test]
fn a_refusal_reaches_a_client_that_sends_all_first() {
    let server = one_worker(&[]);
    let mut sent = 0;
    for size in [70_000, 200_000, 500_000] {
        let head = format!("POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
        let mut client = Client::connect(server.public());
        sent += (head.len() + size) as u64;
        client.send(head);
        // Without lingering the server would close the connection now, and the next bytes would reset it.
        wait_until("it is refused", || client.has_ended());
        for _ in 0..size / 10_000 {
            client.send([b'b'; 10_000]);
        }
        wait_until("what was sent is read", || received_bytes(&server) >= sent);
        assert_refusal(&client.read_response(false), &CONTENT_TOO_LARGE);
        client.expect_closed();
    }
}

fn received_bytes(server: &Server) -> u64 {
    server.metric(r#"vote_status_received_bytes_total{listener="public"}"#)
}

/// Heads begun and left there hold their own bytes and no more than the head's limit.
#[test]
fn partial_heads_hold_no_more_than_the_limit() {
    const PARTIAL: usize = 15 * 1024;
    let count = connections_affordable(2_000);
    let server = one_worker(&["--head-timeout", "60", "--max-connections", "15000"]);
    ask(&mut Client::connect(server.public()));
    let before = resident_kib(server.pid());
    let head = [b"GET / HTTP/1.1\r\nX: ".to_vec(), vec![b'a'; PARTIAL]].concat();
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(server.public())).collect();
    // In small pieces, so that a buffer that doubles as it grows would show.
    for piece in head.chunks(head.len() / 5 + 1) {
        for client in &mut clients {
            client.send(piece);
        }
    }
    wait_until("what was sent is read", || received_bytes(&server) >= (count * head.len()) as u64);
    let each = (resident_kib(server.pid()) - before) * 1024 / count as u64;
    assert!(each <= 16 * 1024 + 2 * 1024, "{each} bytes each");
    assert!(each >= PARTIAL as u64 / 2, "{each} bytes each: they cannot have been read");
    drop(clients);
    ask(&mut Client::connect(server.public()));
}

/// Connections that have had their answer and stay open.
#[test]
fn idle_connections_hold_little_memory() {
    const EACH_MAX: u64 = 1024;
    let count = connections_affordable(5_000);
    let server = one_worker(&["--idle-timeout", "120", "--max-connections", "18000"]);
    let mut warm: Vec<Client> = (0..64).map(|_| Client::connect(server.public())).collect();
    for client in &mut warm {
        ask(client);
    }
    drop(warm);
    let before = resident_kib(server.pid());
    let mut clients: Vec<Client> = (0..count).map(|_| Client::connect(server.public())).collect();
    for client in &mut clients {
        ask(client);
    }
    let grown = resident_kib(server.pid()).saturating_sub(before);
    let each = grown * 1024 / count as u64;
    assert!(each <= EACH_MAX, "{each} bytes each");
    for client in clients.iter_mut().step_by(97) {
        ask(client);
    }
}
