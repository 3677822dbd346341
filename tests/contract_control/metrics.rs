//! `GET /metrics`: what was done is what is counted.

use crate::util::client::get;
use crate::util::server::Server;

fn value(page: &str, sample: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no {sample} in\n{page}")).parse().expect("a whole number")
}

#[test]
fn what_was_done_is_counted() {
    let server = Server::in_memory(&["--workers", "2"]);
    let control = server.control_client();
    control.add_server(28, "demo");
    control.cast(28, [203, 0, 113, 7]);
    control.cast(28, [203, 0, 113, 8]);
    control.cast(28, [203, 0, 113, 8]);
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
    // No key is asked for.
    let response = get(server.control(), "/metrics");
    assert_eq!(response.status, 200);
    assert_eq!(response.header("Content-Type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = response.text();
    for (sample, expected) in [
        (r#"vote_status_requests_total{variant="id",outcome="can_vote"}"#, 5),
        (r#"vote_status_requests_total{variant="id",outcome="in_cooldown"}"#, 4),
        (r#"vote_status_requests_total{variant="token",outcome="in_cooldown"}"#, 3),
        (r#"vote_status_requests_total{variant="token",outcome="refused"}"#, 2),
        (r#"vote_status_responses_total{listener="public",status="200"}"#, 18),
        (r#"vote_status_responses_total{listener="public",status="404"}"#, 3),
        (r#"vote_status_connections_accepted_total{listener="public"}"#, 21),
        (r#"vote_status_votes_total{outcome="recorded"}"#, 2),
        (r#"vote_status_votes_total{outcome="in_cooldown"}"#, 1),
        ("vote_status_commit_events_count", 3),
        ("vote_status_servers", 1),
        ("vote_status_cooldowns", 2),
        ("vote_status_ready", 1),
    ] {
        assert_eq!(value(page, sample), expected, "{sample}");
    }
    assert!(value(page, "process_resident_memory_bytes") > 1 << 20, "{page}");
}
