//! `GET /metrics`: every action of the service is counted.

use crate::util::client::{Client, exchange, get};
use crate::util::server::Server;
use crate::util::time::now_unix;
use crate::util::{DEADLINE, wait_until};
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

fn value(page: &str, sample: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{page}")).parse().expect("a whole number")
}

#[test]
fn what_was_done_is_counted() {
    let server = Server::listed(&["--workers", "2"]);
    let control = server.control_client();
    control.cast(28, [203, 0, 113, 7]);
    control.cast(28, [203, 0, 113, 8]);
    control.cast(28, [203, 0, 113, 8]);
    control.cast(28, [203, 0, 113, 10]);
    control.delete("/v1/votes/28/203.0.113.10");
    for (path, times) in [
        ("/api/vote/28/status/203.0.113.9", 5),
        ("/api/vote/28/status/203.0.113.7", 4),
        ("/api/servers/demo/vote-status/203.0.113.7", 3),
        ("/api/servers/nobody/vote-status/203.0.113.7", 2),
        ("/nowhere", 1),
        ("/", 6),
    ] {
        for _ in 0..times {
            get(server.public(), path);
        }
    }
    exchange(server.public(), "no HTTP at all\r\n\r\n");
    exchange(server.public(), format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(20_000)));
    exchange(server.control(), "GET /v1/votes HTTP/1.1\r\nHost: a\r\n\r\n");
    // `/metrics` needs no key.
    let response = get(server.control(), "/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = response.text();
    for (sample, expected) in [
        (r#"vote_status_requests_total{variant="id",outcome="can_vote"}"#, 5),
        (r#"vote_status_requests_total{variant="id",outcome="in_cooldown"}"#, 4),
        (r#"vote_status_requests_total{variant="token",outcome="in_cooldown"}"#, 3),
        (r#"vote_status_requests_total{variant="token",outcome="refused",error="unknown_token"}"#, 2),
        (r#"vote_status_requests_total{variant="id",outcome="refused",error="invalid_ip"}"#, 0),
        (r#"vote_status_responses_total{listener="public",status="200"}"#, 18),
        (r#"vote_status_responses_total{listener="public",status="404"}"#, 3),
        (r#"vote_status_responses_total{listener="public",status="400"}"#, 1),
        (r#"vote_status_responses_total{listener="public",status="414"}"#, 1),
        (r#"vote_status_responses_total{listener="control",status="201"}"#, 4),
        (r#"vote_status_responses_total{listener="control",status="200"}"#, 1),
        (r#"vote_status_responses_total{listener="control",status="409"}"#, 1),
        (r#"vote_status_responses_total{listener="control",status="401"}"#, 1),
        (r#"vote_status_parse_errors_total{listener="public",kind="bad_request"}"#, 1),
        (r#"vote_status_parse_errors_total{listener="public",kind="uri_too_long"}"#, 1),
        (r#"vote_status_parse_errors_total{listener="control",kind="bad_request"}"#, 0),
        (r#"vote_status_panics_total{listener="public"}"#, 0),
        (r#"vote_status_connections_accepted_total{listener="public"}"#, 23),
        (r#"vote_status_votes_total{outcome="recorded"}"#, 3),
        (r#"vote_status_votes_total{outcome="in_cooldown"}"#, 1),
        ("vote_status_cancelled_total", 1),
        ("vote_status_commit_events_count", 5),
        ("vote_status_store_failing", 0),
        ("vote_status_servers", 1),
        ("vote_status_cooldowns", 2),
        (r#"vote_status_cooldowns_by_family{family="ipv4"}"#, 2),
        (r#"vote_status_cooldowns_by_family{family="ipv6"}"#, 0),
        ("vote_status_ready", 1),
    ] {
        assert_eq!(value(page, sample), expected, "{sample}");
    }
    assert!(value(page, "process_resident_memory_bytes") > 1 << 20, "{page}");
    // Two workers, the control listener's, the recorder, and the main thread.
    assert!(value(page, "process_threads") >= 5, "{page}");
    assert!(value(page, "process_open_fds") >= 10, "{page}");
    // A quarter of the descriptors that are kept for nothing else, with a loop for each of two workers
    // and the control loop.
    let descriptors = value(page, "process_max_fds");
    let control = (descriptors - 64.min(descriptors / 4) - 3 * 8) / 4;
    assert_eq!(value(page, r#"vote_status_connections_max{listener="control"}"#), control.min(8_192));
    assert!(value(page, "process_max_fds") >= value(page, "process_open_fds"), "{page}");
    let age = now_unix() - value(page, "process_start_time_seconds").cast_signed();
    assert!((0..DEADLINE.as_secs().cast_signed()).contains(&age), "started {age} s ago");
    // The loop counts a turn after its answer has left, so the page may come a moment before the count.
    let turns = r#"vote_status_event_loop_lag_seconds_count{listener="public"}"#;
    wait_until(turns, || server.metric(turns) >= 23);
}

/// Regression: the service measured only the turns of its loops. Where the threads had no CPU, clients waited and turns
/// were short.
#[test]
fn a_loop_that_has_no_cpu_is_late() {
    const STOPPED: Duration = Duration::from_millis(1_500);
    let server = Server::in_memory(&["--workers", "1"]);
    let counted = |sample: &str| server.metric(&format!("vote_status_lateness_seconds_{sample}"));
    let over_a_second = || {
        let quick = counted(r#"bucket{listener="public",le="1"}"#);
        counted(r#"count{listener="public"}"#).saturating_sub(quick)
    };
    wait_until("the loop turns", || counted(r#"count{listener="public"}"#) > 0);
    let before = over_a_second();
    server.pause();
    let since = Instant::now();
    while since.elapsed() < STOPPED {
        sleep(STOPPED - since.elapsed());
    }
    server.signal(Signal::CONT);
    // Ten instants a second: those of the first half second were over a second late.
    wait_until("the loop was late", || over_a_second() >= before + 4);
}

#[test]
fn bytes_are_counted_as_they_come_and_go() {
    let server = Server::in_memory(&["--workers", "1"]);
    let mut client = Client::connect(server.public());
    let request = "GET /api/vote/28/status/203.0.113.9 HTTP/1.1\r\nHost: test\r\n\r\n";
    let mut sent = 0;
    for _ in 0..10 {
        client.send(request);
        let response = client.read_response(false);
        sent += response.raw_head.len() + response.body.len();
    }
    let received = 10 * request.len() as u64;
    server.await_metric(r#"vote_status_received_bytes_total{listener="public"}"#, received);
    server.await_metric(r#"vote_status_sent_bytes_total{listener="public"}"#, sent as u64);
}

#[test]
fn connections_are_counted_by_how_they_ended() {
    let server = Server::in_memory(&["--workers", "1", "--idle-timeout", "2"]);
    let closed = |cause: &str, count: u64| {
        let sample = format!(r#"vote_status_connections_closed_total{{listener="public",cause="{cause}"}}"#);
        server.await_metric(&sample, count);
    };
    exchange(server.public(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    closed("done", 1);
    let mut reset = Client::connect(server.public());
    reset.send("GET /api/vote");
    reset.socket().set_linger(Some(Duration::ZERO)).expect("a reset can be asked for");
    drop(reset);
    closed("broken", 1);
    let mut idle = Client::connect(server.public());
    idle.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    idle.read_response(false);
    closed("idle", 1);
    server.await_metric(r#"vote_status_connections_open{listener="public"}"#, 0);
}
