//! One bound for the memory of all connections: thousands of clients ask for far more than they
//! take, or never end their requests. With `VOTE_STATUS_TEST_LONG=1` there are as many of them as
//! descriptors allow.

use super::ask;
use crate::util::client::Client;
use crate::util::endpoint::connect_narrow;
use crate::util::figures::{connections_affordable, peak_kib, resident_kib};
use crate::util::needs::is_long;
use crate::util::server::Server;
use crate::util::wait_until;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// The pipelined bytes of a regression: 600 clients with so much took 117 KiB each.
const PIPELINED_BYTES: usize = 65_000;
/// A short request: the shorter it is, the more answers there are.
const SHORT: &str = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n";
/// Deadlines must not do the work of the bound.
const PATIENT: [&str; 6] = ["--head-timeout", "600", "--write-timeout", "600", "--idle-timeout", "600"];
/// Other memory of the process, at most: code, table, slots, and memory that the allocator cannot give back.
const BESIDES_KIB: u64 = 64 * 1024;

/// Requests of clients that mean well, each on a connection of its own, beside those that mean harm.
const GOOD_ONES: usize = 200;

/// A client that means harm. Most ask without end and take nothing, which costs most. One of seven sends half of a
/// request's content, and one a head without its end. A client sends only the bytes that the server takes at once.
fn begin(address: SocketAddr, number: usize) -> TcpStream {
    let request = match number % 7 {
        5 => format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 60000\r\n\r\n{}", "a".repeat(30_000)),
        6 => format!("GET / HTTP/1.1\r\nX: {}", "a".repeat(15 * 1024)),
        _ => pipelined(),
    };
    send(address, &request)
}

/// Short requests, one behind the other.
fn pipelined() -> String {
    SHORT.repeat(PIPELINED_BYTES / SHORT.len())
}

/// Connects, and sends the bytes that the server takes at once.
fn send(address: SocketAddr, bytes: &str) -> TcpStream {
    let mut socket = TcpStream::from(connect_narrow(address, Some(536)).expect("the server listens"));
    socket.set_nonblocking(true).expect("it may be so");
    // It may be turned away meanwhile.
    let _sent = socket.write(bytes.as_bytes());
    socket
}

/// Connections that were cut for lack of memory.
fn cut(server: &Server, how: &str) -> u64 {
    server.metric(&format!(r#"vote_status_buffer_cuts_total{{listener="public",how="{how}"}}"#))
}

/// Regression: each of these connections took 117 KiB, without a bound. 65,536 of them would have taken 7.5 GB.
#[test]
fn the_memory_of_all_connections_has_one_bound() {
    let is_long = is_long();
    let (wanted, budget_kib) = if is_long { (15_000, 256 * 1024) } else { (900, 8 * 1024) };
    let budget = (budget_kib * 1024).to_string();
    let server = Server::in_memory(&[&["--workers", "2", "--buffer-bytes-max", &budget][..], &PATIENT].concat());
    server.control_client().add_server(1, "t");
    let (address, pid) = (server.public(), server.pid());
    let count = connections_affordable(wanted);
    let before = resident_kib(pid);

    let mut attackers = Vec::new();
    for number in 0..count {
        attackers.push(begin(address, number));
        if number % (count / 20) == 0 {
            ask(&mut Client::connect(address));
        }
    }
    for _ in 0..GOOD_ONES {
        ask(&mut Client::connect(address));
        sleep(Duration::from_millis(2));
    }

    let held_kib = server.metric("vote_status_buffer_bytes") / 1024;
    let max = server.metric("vote_status_buffer_bytes_max");
    let (answered, closed) = (cut(&server, "answered"), cut(&server, "closed"));
    let grown_kib = peak_kib(pid).saturating_sub(before);
    assert_eq!(max, budget_kib * 1024);
    assert!(held_kib <= budget_kib, "{held_kib} KiB held");
    assert!(grown_kib <= budget_kib + BESIDES_KIB / if is_long { 1 } else { 4 }, "{grown_kib} KiB more");
    assert!(held_kib >= budget_kib / 4, "{held_kib} KiB held: they cannot have done what they were to do");
    assert!(is_long || answered + closed > 0, "nobody had to go");
    drop(attackers);
    ask(&mut Client::connect(address));
}

/// Regression: waits that were ended for lack of memory counted in no cut, so the alert on memory did not see them.
#[test]
fn a_wait_that_ends_for_lack_of_memory_is_counted_as_cut() {
    let server = Server::in_memory(&[&["--workers", "1", "--buffer-bytes-max", "1048576"][..], &PATIENT].concat());
    server.control_client().add_server(1, "t");
    let wait = format!("GET /api/vote/1/status/203.0.113.7?wait=60 HTTP/1.1\r\nHost: a\r\n\r\n{}", pipelined());
    let waiters: Vec<TcpStream> = (0..400).map(|_| send(server.public(), &wait)).collect();
    let ended = || server.metric(r#"vote_status_waits_total{outcome="ended"}"#);
    let both = || (ended(), cut(&server, "answered"), ended());
    wait_until(
        "a wait is cut",
        || matches!(both(), (before, cut, after) if before > 0 && before == cut && cut == after),
    );
    drop(waiters);
}
