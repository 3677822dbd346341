//! Deadlines: a request that does not end, a silent connection, a peer that takes no answers.
//! Lower bounds hold exactly; upper ones allow for a loaded machine.

use super::{GET, ask, assert_refusal};
use crate::util::DEADLINE;
use crate::util::answers::{CAN_VOTE, REQUEST_TIMEOUT};
use crate::util::client::Client;
use crate::util::figures::{one_worker, resident_kib};
use crate::util::server::Server;
use std::io::{ErrorKind, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The deadlines of these tests are one second; timers may fire a little late, a loaded machine
/// later.
const EARLIEST: Duration = Duration::from_millis(950);
const LATEST: Duration = DEADLINE;
const DRIP: Duration = Duration::from_millis(100);

/// Sends `start`, then `drip` again and again until the server answers or the time is over. Gives
/// the time until then.
fn drip(client: &mut Client, start: &[u8], drip: &[u8]) -> Duration {
    let since = Instant::now();
    client.send(start);
    client.socket().set_read_timeout(Some(DRIP)).expect("a timeout can be set");
    while since.elapsed() < LATEST {
        // The wait for an answer is also the pause between two drips.
        match client.socket().peek(&mut [MaybeUninit::uninit()]) {
            Ok(_) => break,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("instead of an answer: {error}"),
        }
        client.send(drip);
    }
    since.elapsed()
}

fn assert_in_time(kept: Duration, what: &str) {
    assert!(kept >= EARLIEST, "{what}: given up after {kept:?} already");
    assert!(kept < LATEST, "{what}: not given up after {kept:?}");
}

/// Every way to begin a request without an end, all at once, each on a connection of its own.
#[test]
fn a_request_that_does_not_end_is_answered_408() {
    let server = one_worker(&["--head-timeout", "1"]);
    let ways: &[(&str, &[u8], &[u8])] = &[
        ("slow request line", b"G", b"E"),
        ("slow target", b"GET /", b"a"),
        ("slow field", b"GET / HTTP/1.1\r\nX: ", b"a"),
        ("slow field lines", b"GET / HTTP/1.1\r\n", b"X: a\r\n"),
        ("slow length body", b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1000\r\n\r\n", b"a"),
        ("slow chunk", b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n", b"a"),
        ("slow chunks", b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\na\r\n"),
        ("slow trailer", b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X: a\r\n"),
        ("head begun, then silence", b"GET / HTTP/1.1\r\n", b""),
        ("awaited body, then silence", b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\n", b""),
    ];
    // The control listener gives a body time for as long as it comes, for uploads. Heads and silence have the same
    // deadline as on every listener.
    let key = Server::KEY;
    let upload =
        format!("POST /v1/votes HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer {key}\r\nContent-Length: 9\r\n\r\n{{");
    let on_control: &[(&str, &[u8], &[u8])] = &[
        ("slow control head", b"POST /v1/votes HTTP/1.1\r\nHost: h\r\nX: ", b"a"),
        ("control body begun, then silence", upload.as_bytes(), b""),
    ];
    std::thread::scope(|scope| {
        for (addr, ways) in [(server.public(), ways), (server.control(), on_control)] {
            for &(what, start, more) in ways {
                scope.spawn(move || one_that_does_not_end(&mut Client::connect(addr), what, start, more));
            }
        }
    });
    ask(&mut Client::connect(server.public()));
}

fn one_that_does_not_end(client: &mut Client, what: &str, start: &[u8], more: &[u8]) {
    let kept = drip(client, start, more);
    let response = client.read_response(false);
    if what.contains("control") {
        assert_eq!((response.status, &response.json()["error"]), (408, &"request_timeout".into()), "{response:?}");
    } else {
        assert_refusal(&response, &REQUEST_TIMEOUT);
    }
    client.expect_closed();
    assert_in_time(kept, what);
}

#[test]
fn the_deadline_of_a_later_request_starts_with_its_first_byte() {
    let server = one_worker(&["--head-timeout", "1"]);
    let mut client = Client::connect(server.public());
    ask(&mut client);
    sleep(Duration::from_millis(700));
    ask(&mut client);
    sleep(Duration::from_millis(700));
    one_that_does_not_end(&mut client, "slow third head", b"GET /a HTTP/1.1\r\nX: ", b"a");
}

#[test]
fn an_idle_connection_is_closed_without_a_word() {
    let server = one_worker(&["--idle-timeout", "1"]);
    let mut never_asked = Client::connect(server.public());
    let mut asked = Client::connect(server.public());
    ask(&mut asked);
    let since = Instant::now();
    asked.expect_closed();
    assert_in_time(since.elapsed(), "idle after a request");
    never_asked.expect_closed();
}

#[test]
fn a_request_now_and_then_keeps_a_connection() {
    let server = one_worker(&["--idle-timeout", "5"]);
    let mut client = Client::connect(server.public());
    // In total longer than the time-out, each pause much shorter.
    for _ in 0..12 {
        ask(&mut client);
        sleep(Duration::from_millis(500));
    }
    let since = Instant::now();
    client.expect_closed();
    assert!(since.elapsed() < LATEST, "closed after {:?}", since.elapsed());
}

/// Twenty clients pipeline without end, every other one for the largest answer that there is, and
/// read nothing. The server must stop reading, its memory must not grow with their requests, and it
/// must close each when its time is over.
#[test]
fn a_peer_that_takes_no_answers_is_closed() {
    const PEERS: usize = 20;
    const SENT_MAX: usize = 40 * 1024 * 1024;
    let server = one_worker(&["--write-timeout", "1"]);
    ask(&mut Client::connect(server.public()));
    let before = resident_kib(server.pid());
    let since = Instant::now();
    let mut peers: Vec<TcpStream> = (0..PEERS).map(|_| deaf(server.public())).collect();
    let batches = [GET.repeat(1_000), b"GET / HTTP/1.1\r\nHost: h\r\n\r\n".repeat(1_000)];
    let mut sent = vec![0; PEERS];
    let mut closed = vec![false; PEERS];
    let mut grown_max = 0;
    while closed.iter().any(|closed| !closed) {
        assert!(since.elapsed() < Duration::from_secs(60), "still open: {closed:?}, sent {sent:?}");
        for (index, peer) in peers.iter_mut().enumerate() {
            let (sent, closed) = (&mut sent[index], &mut closed[index]);
            match peer.write(&batches[index % 2]) {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *closed = true,
            }
            assert!(*sent < SENT_MAX, "the server takes requests without end");
        }
        grown_max = grown_max.max(resident_kib(server.pid()).saturating_sub(before));
    }
    let kept = since.elapsed();
    let allowed = PEERS as u64 * 256 + 4_096;
    assert!(grown_max <= allowed, "{grown_max} KiB more, {allowed} allowed");
    assert!(kept >= EARLIEST, "closed after {kept:?} already");
    ask(&mut Client::connect(server.public()));
}

/// A connection whose writes give up soon, so that one thread can try many in turn.
fn deaf(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("the server accepts");
    let patience = Duration::from_millis(2);
    stream.set_write_timeout(Some(patience)).expect("a timeout can be set");
    stream
}

/// Regression: an empty line behind a request counted as the start of a request, and was answered 408.
#[test]
fn an_empty_line_between_requests_is_no_request() {
    let server = Server::in_memory(&["--head-timeout", "0.5"]);
    server.control_client().add_server(1, "t");
    let mut client = Client::connect(server.public());
    client.send([GET, b"\r\n"].concat());
    assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
    let quiet_until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < quiet_until {
        client.expect_open();
        sleep(DRIP);
    }
    client.send(GET);
    assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
}
