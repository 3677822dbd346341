//! The two outcomes over time: the minutes, the instant, the length, the end of a cooldown.

use crate::util::client::{Client, get};
use crate::util::server::Server;
use crate::util::time::{now_unix, now_unix_ms, rfc3339};
use crate::util::{CLOCK_SLACK_MS, DEADLINE};
use std::net::SocketAddr;
use std::time::Instant;

/// Minutes of cooldown, seconds since the vote, minutes in the expected answer. The seconds are
/// half a minute from any change of the minutes, so that a slow run does not matter.
const MINUTES: &[(i64, i64, u32)] = &[
    (90, 30, 90),
    (90, 90, 89),
    (90, 48 * 60, 42),
    (90, 89 * 60 + 30, 1),
    (1, 30, 1),
    (10_080, 30, 10_080),
    (10_080, 9_080 * 60 + 30, 1_000),
    (10_080, 9_081 * 60 + 30, 999),
    (10_080, 10_070 * 60 + 30, 10),
    (10_080, 10_071 * 60 + 30, 9),
];

#[test]
fn minutes_round_up_and_the_instant_comes_from_the_vote() {
    for length in [1, 90, 10_080] {
        let minutes = length.to_string();
        let server = Server::listed(&["--cooldown-minutes", &minutes]);
        for path in ["/api/vote/28/status/203.0.113.7", "/api/vote/28/status/x"] {
            assert_eq!(get(server.public(), path).json()["cooldown_minutes"], length, "{path}");
        }
        let of_length = MINUTES.iter().filter(|row| row.0 == length);
        for (index, (_, since, minutes)) in of_length.enumerate() {
            let ip = format!("198.51.100.{index}");
            let voted_at = now_unix() - since;
            let cast = server.control_client().cast_at(28, &ip, voted_at);
            assert_eq!(cast.status, 201, "{length} {since}: {cast:?}");
            let next = rfc3339(voted_at + length * 60);
            let body = format!(
                r#"{{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans {minutes} minutes","next_vote_at":"{next}","cooldown_minutes":{length}}}"#
            );
            for path in both_paths(&ip) {
                assert_eq!(get(server.public(), &path).text(), body, "{length} {since}");
            }
        }
    }
}

#[test]
fn a_cooldown_ends_at_its_very_second() {
    let server = Server::listed(&["--cooldown-minutes", "1"]);
    let voted_at = now_unix() - 57;
    let cast = server.control_client().cast_at(28, "203.0.113.7", voted_at);
    assert_eq!(cast.status, 201, "{cast:?}");
    let end_ms = (voted_at + 60) * 1000;
    let body = format!(
        r#"{{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans 1 minutes","next_vote_at":"{}","cooldown_minutes":1}}"#,
        rfc3339(voted_at + 60)
    );
    let mut client = Client::connect(server.public());
    let until = Instant::now() + DEADLINE;
    let mut in_cooldown = 0;
    loop {
        assert!(Instant::now() < until, "it never ends");
        let before = now_unix_ms();
        client.send("GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n");
        let response = client.read_response(false);
        if response.text() == body {
            assert!(before < end_ms + CLOCK_SLACK_MS, "held {} ms too long", before - end_ms);
            in_cooldown += 1;
        } else {
            let early = end_ms - now_unix_ms();
            assert!(early <= CLOCK_SLACK_MS, "ended {early} ms too soon: {response:?}");
            break;
        }
    }
    assert!(in_cooldown > 0, "it was never seen in cooldown");
    // The pair may vote again, and then a new cooldown begins.
    let again = server.control_client().cast_at(28, "203.0.113.7", voted_at + 60);
    assert_eq!(again.status, 201, "{again:?}");
    assert_eq!(can_vote(server.public(), "203.0.113.7"), [false, false]);
}

fn both_paths(ip: &str) -> [String; 2] {
    [format!("/api/vote/28/status/{ip}"), format!("/api/servers/demo/vote-status/{ip}")]
}

/// `can_vote` by id and by token, each on a connection of its own.
fn can_vote(addr: SocketAddr, ip: &str) -> [bool; 2] {
    both_paths(ip).map(|path| {
        let json = get(addr, &path).json();
        assert_eq!(json["success"], json["can_vote"], "{path}");
        json["can_vote"].as_bool().expect("can_vote is a boolean")
    })
}
