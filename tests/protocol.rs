//! HTTP/1.1 as a table of raw bytes: the answer, whether the connection is kept, and the answer to
//! the request behind. Each case is sent in one piece, cut at every byte, byte by byte, and with the
//! sending side shut behind it. Black box, the public listener: `contract_control` has the control
//! listener's answers to the same faults.

mod case;
mod chunks;
mod exchange;
mod fields;
mod host;
mod length;
mod request_line;
mod runner;
mod urgent;

use crate::util::checks::{Closed, expect_response};
use crate::util::client::{Client, exchange};
use crate::util::server::Server;
use case::Case;
use runner::Target;
use std::net::Ipv4Addr;

/// One worker, so that the runner knows which bytes were read, and deadlines too long for a slow machine to reach.
const OPTIONS: [&str; 6] = ["--workers", "1", "--head-timeout", "120", "--idle-timeout", "120"];

fn cases() -> Vec<Case> {
    let tables = [request_line::cases, fields::cases, host::cases, length::cases, chunks::cases, exchange::cases];
    tables.iter().flat_map(|table| table()).collect()
}

/// A server with a pair that may vote (1, 1.2.3.4) and one in cooldown (1, 5.6.7.8).
fn server() -> Server {
    let server = Server::in_memory(&OPTIONS);
    let control = server.control_client();
    control.add_server(1, "t");
    let cast = control.cast(1, Ipv4Addr::new(5, 6, 7, 8));
    assert_eq!(cast.status, 201, "{cast:?}");
    server
}

#[test]
fn the_table_holds() {
    let server = server();
    let failures = Target::new(server.public()).run(&cases());
    // One cause often shows in hundreds of cuts.
    let first = &failures[..failures.len().min(60)];
    assert!(failures.is_empty(), "{} failures, the first of them:\n{}", failures.len(), first.join("\n"));
}

/// A client of another protocol is refused without a wait for the deadline of a head.
#[test]
fn strangers_are_refused_at_once() {
    let server = server();
    for Case { name, bytes, answers, .. } in fields::strangers() {
        let mut client = Client::connect(server.public());
        client.send(bytes);
        let response = client.read_response(false);
        expect_response(&name, &response, answers[0].outcome, Closed);
        client.expect_closed();
    }
}

/// A request that the end of the stream cuts off is not answered as if it were whole, and the
/// one before it has its answer.
#[test]
fn an_end_within_a_request_costs_no_answer() {
    let request: &[u8] = b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n";
    let cut_off: &[u8] = b"\r\nPOST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\
        Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r";
    let server = server();
    for cut in 0..=cut_off.len() {
        let mut client = Client::connect(server.public());
        client.send([request, &cut_off[..cut]].concat());
        client.shutdown_write();
        let response = client.read_response(false);
        assert_eq!(response.status, 200, "cut at {cut}: {response:?}");
        // The RFC leaves open whether a request that is cut off is refused or just dropped.
        if let Ok(response) = client.try_read_response(false) {
            assert_eq!(response.status, 400, "cut at {cut}: {response:?}");
            assert!(response.says_close(), "cut at {cut}: {response:?}");
        }
        client.expect_closed();
    }
}

#[test]
fn limits_follow_their_options() {
    #[rustfmt::skip]
    let server = Server::in_memory(&[
        "--head-bytes-max", "1100", "--header-lines-max", "5", "--skip-body-bytes-max", "10",
    ]);
    let status = |bytes: Vec<u8>| exchange(server.public(), bytes).status;
    let name = |size: usize| format!("GET / HTTP/1.1\r\nHost: h\r\nX: {}\r\n\r\n", "x".repeat(size - 32)).into_bytes();
    let target = |size: usize| format!("GET /{} HTTP/1.1\r\nHost: h\r\n\r\n", "x".repeat(size - 27)).into_bytes();
    let lines =
        |count: usize| format!("GET / HTTP/1.1\r\nHost: h\r\n{}\r\n", "X: x\r\n".repeat(count - 1)).into_bytes();
    let body = |size: usize| {
        let body = "b".repeat(size);
        format!("GET / HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n{body}").into_bytes()
    };
    assert_eq!(name(1_100).len(), 1_100);
    assert_eq!(target(1_100).len(), 1_100);
    assert_eq!([status(name(1_100)), status(name(1_101))], [200, 431]);
    assert_eq!([status(target(1_100)), status(target(2_000))], [404, 414]);
    assert_eq!([status(lines(5)), status(lines(6))], [200, 431]);
    assert_eq!([status(body(10)), status(body(11))], [200, 413]);
}
