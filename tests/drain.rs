//! The drain: what SIGTERM does to idle connections, to requests under way and to newcomers. `restart` has the same
//! under load. Black box; knows signals and exit statuses.

use crate::util::DEADLINE;
use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, get};
use crate::util::response::Response;
use crate::util::server::Server;
use rustix::process::{Resource, Signal};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

const GET: &[u8] = b"GET /api/vote/28/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n";
const GET_BEGUN: &[u8] = b"GET /api/vote/28/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n";
/// The longest time for something that happens at once, on a loaded machine.
const SOON: Duration = Duration::from_secs(8);

fn ask(client: &mut Client) -> Response {
    client.send(GET);
    let response = client.read_response(false);
    assert_eq!(response.text(), CAN_VOTE.body, "{response:?}");
    response
}

/// A connection that has had an answer and has begun another request.
fn begun(addr: SocketAddr, start: &[u8]) -> Client {
    let mut client = Client::connect(addr);
    client.send("GET /nope HTTP/1.1\r\nHost: h\r\n\r\n");
    assert_eq!(client.read_response(false).status, 404);
    client.send(start);
    client
}

/// Sends SIGTERM and waits until the server acts on it, which the end of an idle connection shows.
fn terminate(server: &Server) -> Instant {
    let mut idle = Client::connect(server.public());
    ask(&mut idle);
    let since = Instant::now();
    server.signal(Signal::TERM);
    idle.expect_closed();
    since
}

#[track_caller]
fn assert_ends_well(server: &mut Server, deadline: Duration) {
    let status = server.wait_exit(deadline);
    assert_eq!(status.code(), Some(0), "{status:?}, {}", server.stderr());
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}

#[test]
fn idle_connections_are_closed_and_the_process_ends() {
    [Signal::TERM, Signal::INT].into_iter().for_each(ends_at);
}

fn ends_at(signal: Signal) {
    let mut server = Server::listed(&[]);
    let mut idle: Vec<Client> = (0..100).map(|_| Client::connect(server.public())).collect();
    for client in &mut idle {
        ask(client);
    }
    let mut never_asked = Client::connect(server.public());
    let mut control = Client::connect(server.control());
    control.expect_open();
    let since = Instant::now();
    server.signal(signal);
    for client in &mut idle {
        client.expect_closed();
    }
    never_asked.expect_closed();
    control.expect_closed();
    assert_ends_well(&mut server, SOON);
    assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
}

#[test]
fn requests_under_way_are_answered_and_told_the_close() {
    // One worker: when the idle connection ends, the worker of all the others has the signal.
    let mut server = Server::listed(&["--workers", "1"]);
    let mut in_head = begun(server.public(), GET_BEGUN);
    let mut in_line = begun(server.public(), b"G");
    let mut in_body = begun(server.public(), &[GET_BEGUN, b"Content-Length: 5\r\n\r\nhe"].concat());
    let vote = server.control_client().request_bytes("POST", "/v1/votes", Some(r#"{"server_id":28,"ip":"5.6.7.8"}"#));
    let (vote_start, vote_end) = vote.split_at(vote.len() - 10);
    let mut in_vote = begun(server.control(), vote_start.as_bytes());
    let mut in_ready = begun(server.control(), b"GET /readyz HTTP/1.1\r\nHost: h\r\n");
    let mut idle_control = Client::connect(server.control());
    idle_control.expect_open();
    terminate(&server);

    // The server does not answer requests that are pipelined behind the one under way.
    in_head.send([b"\r\n", GET].concat());
    in_line.send(&GET[1..]);
    in_body.send("llo");
    for client in [&mut in_head, &mut in_line, &mut in_body] {
        let response = client.read_response(false);
        assert_eq!(response.text(), CAN_VOTE.body, "{response:?}");
        assert!(response.says_close(), "{response:?}");
        client.expect_closed();
    }
    // The control listener goes last, so that it can report that the public ones are going.
    idle_control.expect_closed();
    in_vote.send(vote_end);
    let response = in_vote.read_response(false);
    assert_eq!(response.status, 201, "{response:?}");
    assert!(response.says_close(), "{response:?}");
    in_vote.expect_closed();
    in_ready.send("\r\n");
    let response = in_ready.read_response(false);
    assert_eq!(response.status, 503, "{response:?}");
    assert!(response.says_close(), "{response:?}");
    in_ready.expect_closed();
    assert_ends_well(&mut server, SOON);
}

#[test]
fn newcomers_are_taken_during_the_drain_delay() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = format!("unix:{}", folder.path().join("public").display());
    let mut server = Server::listed(&["--drain-delay", "10", "--listen", &socket]);
    assert_eq!(get(server.control(), "/readyz").status, 200);
    let since = Instant::now();
    server.signal(Signal::TERM);
    // The signal is on its way for a moment; from then on the answer must stay.
    while get(server.control(), "/readyz").status == 200 {
        assert!(since.elapsed() < Duration::from_secs(5), "/readyz stays 200");
    }
    // Both listeners answer from the same flag.
    for _ in 0..10 {
        assert_eq!(get(server.control(), "/readyz").status, 503);
        let balancers = get(server.public(), "/readyz");
        assert_eq!((balancers.status, balancers.text()), (503, r#"{"status":"not_ready"}"#), "{balancers:?}");
        assert_eq!(get(server.public(), "/healthz").text(), r#"{"status":"alive"}"#);
        assert_eq!(get(server.control(), "/healthz").status, 200);
        for endpoint in server.publics() {
            let response = get(endpoint, "/api/vote/28/status/1.2.3.4");
            assert_eq!(response.text(), CAN_VOTE.body, "{endpoint}: {response:?}");
        }
        sleep(Duration::from_millis(20));
    }
    assert!(server.is_running());
    assert_ends_well(&mut server, DEADLINE);
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(9_950), "ended after {took:?} already");
    assert!(took < Duration::from_secs(10) + SOON, "ended after {took:?}");
}

#[test]
fn without_a_delay_newcomers_are_refused_while_others_finish() {
    let mut server = Server::listed(&[]);
    let mut under_way = begun(server.public(), GET_BEGUN);
    terminate(&server);
    let until = Instant::now() + SOON;
    // The server must answer a newcomer that it accepts at the last moment.
    while let Ok(mut newcomer) = Client::try_connect(server.public()) {
        assert!(Instant::now() < until, "newcomers are still taken");
        if let Ok(response) = newcomer.try_send(GET).and_then(|()| newcomer.try_read_response(false)) {
            assert!(response.says_close(), "{response:?}");
        }
    }
    under_way.send("\r\n");
    assert_eq!(under_way.read_response(false).text(), CAN_VOTE.body);
    assert_ends_well(&mut server, SOON);
}

#[test]
fn a_request_that_does_not_end_is_not_waited_for_longer_than_the_drain_timeout() {
    let mut server = Server::listed(&["--drain-timeout", "1", "--head-timeout", "60"]);
    let mut stuck = begun(server.public(), GET_BEGUN);
    let since = terminate(&server);
    assert_ends_well(&mut server, DEADLINE);
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(950), "ended after {took:?} already");
    assert!(took < Duration::from_secs(1) + SOON, "ended after {took:?}");
    // An answer in full, or none.
    if let Ok(response) = stuck.try_read_response(false) {
        assert!(response.says_close(), "{response:?}");
    }
}

/// Without descriptors the server cannot accept connections, which is no reason to stay.
#[test]
fn accepts_that_keep_failing_are_not_waited_for_longer_than_the_drain_timeout() {
    let mut server = Server::listed(&["--drain-timeout", "1", "--workers", "1"]);
    server.limit(Resource::Nofile, Some(3), Some(3));
    let _waiting = TcpStream::connect(server.public()).expect("the kernel takes it");
    let since = Instant::now();
    server.signal(Signal::TERM);
    assert_ends_well(&mut server, DEADLINE);
    let took = since.elapsed();
    assert!(took >= Duration::from_millis(950), "ended after {took:?} already: nothing has failed");
    assert!(took < Duration::from_secs(1) + SOON, "ended after {took:?}");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    for second in [Signal::TERM, Signal::INT] {
        let mut server = Server::listed(&["--drain-timeout", "60", "--head-timeout", "60"]);
        let _stuck = begun(server.public(), GET_BEGUN);
        terminate(&server);
        assert!(server.is_running());
        let since = Instant::now();
        server.signal(second);
        server.wait_exit(SOON);
        assert!(since.elapsed() < SOON, "{:?}", since.elapsed());
    }
}

/// The peer has asked for far more than it has read. It gets whole answers, of which the last
/// announces the close, and an orderly end.
#[test]
fn a_pipeline_is_cut_between_two_answers() {
    let mut server = Server::listed(&["--workers", "1"]);
    let mut slow = Client::connect(server.public());
    slow.send(GET.repeat(2_000));
    let first = slow.read_response(false);
    assert_eq!(first.text(), CAN_VOTE.body);
    server.signal(Signal::TERM);
    let mut last = first;
    let mut count = 1;
    while let Ok(response) = slow.try_read_response(false) {
        assert_eq!(response.text(), CAN_VOTE.body);
        last = response;
        count += 1;
    }
    slow.expect_closed();
    assert!(count == 2_000 || last.says_close(), "{count} answers, the last {last:?}");
    assert_ends_well(&mut server, SOON);
}
