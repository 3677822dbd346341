//! `POST /v1/votes` in both modes, `GET` and `DELETE /v1/votes/{server_id}/{ip}`.

use crate::contract_control::{expect, expect_error, expect_error_with};
use crate::util::client::{Client, get};
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::time::{from_rfc3339, now_unix, rfc3339};
use serde_json::json;

/// The length of the default cooldown in seconds.
const COOLDOWN: i64 = 90 * 60;

#[test]
fn a_vote_is_recorded_once_in_a_cooldown() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let voted_at = now_unix() - 100;
    let (voted, next) = (rfc3339(voted_at), rfc3339(voted_at + COOLDOWN));
    let first = control.cast_at(28, "203.0.113.7", voted_at);
    let recorded = json!({
        "recorded": true, "server_id": 28, "ip": "203.0.113.7",
        "voted_at": voted, "next_vote_at": next,
    });
    expect("first", &first, 201, &recorded);
    let status = get(server.public(), "/api/vote/28/status/203.0.113.7").json();
    assert_eq!(status["next_vote_at"], next.as_str());
    for at in [voted_at, voted_at - 50, voted_at + 50, now_unix()] {
        let again = control.cast_at(28, "203.0.113.7", at);
        let body = expect_error_with("again", &again, 409, "in_cooldown");
        assert_eq!(body["next_vote_at"], next.as_str());
    }
}

/// Tests of `vote::time` and `control::body` have every form of an instant. Here one of each kind comes over the wire.
#[test]
fn a_vote_is_recorded_as_its_body_says() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let at = now_unix() - 600;
    let utc = rfc3339(at);
    let paris = rfc3339(at + 3_600).replace('Z', "+01:00");
    for (index, (named, voted_at)) in [
        (r#""server_id":28"#, format!("\"{utc}\"")),
        (r#""token":"demo""#, format!("\"{paris}\"")),
        // A fraction of a second is cut off, never rounded up.
        (r#""server_id":28"#, format!("\"{}\"", utc.replace('Z', ".999Z"))),
        (r#""server_id":28"#, at.to_string()),
        (r#""server_id":28"#, format!("{at}.999")),
    ]
    .into_iter()
    .enumerate()
    {
        let ip = format!("198.51.100.{index}");
        let body = format!(r#"{{{named},"ip":"::ffff:{ip}","voted_at":{voted_at}}}"#);
        let recorded = json!({
            "recorded": true, "server_id": 28, "ip": ip,
            "voted_at": utc, "next_vote_at": rfc3339(at + COOLDOWN),
        });
        expect(&body, &control.post("/v1/votes", &body), 201, &recorded);
    }
}

#[test]
fn a_vote_is_neither_far_in_the_future_nor_older_than_the_cooldown() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    for (ip, shift) in [("203.0.113.7", 4), ("203.0.113.8", -COOLDOWN + 30)] {
        let at = now_unix() + shift;
        let response = control.cast_at(28, ip, at);
        assert_eq!(response.status, 201, "{shift}: {response:?}");
        assert_eq!(response.json()["voted_at"], rfc3339(at).as_str());
    }
    let milliseconds = now_unix() * 1000;
    for at in [now_unix() + 20, now_unix() - COOLDOWN - 1, milliseconds, 0] {
        expect_error(&at.to_string(), &control.cast_at(28, "203.0.113.9", at), 422, "invalid_vote");
    }
    assert_eq!(get(server.public(), "/api/vote/28/status/203.0.113.9").json()["can_vote"], true);
}

#[test]
fn votes_that_cannot_be_are_refused() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    for (body, status, word) in [
        ("", 400, "invalid_json"),
        ("server_id=28&ip=203.0.113.7", 400, "invalid_json"),
        (r#"{"server_id":28,"ip":"x"}"#, 422, "invalid_vote"),
        (r#"{"server_id":29,"ip":"203.0.113.7"}"#, 404, "unknown_server"),
        (r#"{"token":"nobody","ip":"203.0.113.7"}"#, 404, "unknown_server"),
    ] {
        for path in ["/v1/votes", "/v1/votes?mode=record"] {
            expect_error(body, &control.post(path, body), status, word);
        }
    }
    let status = get(server.public(), "/api/vote/28/status/203.0.113.7").json();
    assert_eq!(status["can_vote"], true, "a refused vote left a cooldown");
}

#[test]
fn a_vote_that_is_live_is_shown() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let path = "/v1/votes/28/203.0.113.7";
    expect_error("before", &control.get(path), 404, "no_cooldown");
    let cast = control.cast(28, [203, 0, 113, 7]).json();
    let shown = format!(
        r#"{{"server_id":28,"ip":"203.0.113.7","voted_at":{},"next_vote_at":{}}}"#,
        cast["voted_at"], cast["next_vote_at"]
    );
    for same in [path, "/v1/votes/28/%3A%3Affff%3A203.0.113.7"] {
        let answer = control.get(same);
        assert_eq!((answer.status, answer.text()), (200, shown.as_str()), "{same}");
    }
    let mut client = Client::connect(server.control());
    client.send(control.request_bytes("HEAD", path, None));
    assert_eq!(client.read_response(true).header("Content-Length"), Some(shown.len().to_string().as_str()));
    for (other, status, error) in [
        ("/v1/votes/28/203.0.113.8", 404, "no_cooldown"),
        ("/v1/votes/29/203.0.113.7", 404, "unknown_server"),
        ("/v1/votes/x/203.0.113.7", 404, "unknown_server"),
        ("/v1/votes/28/203.0.113", 422, "invalid_vote"),
    ] {
        expect_error(other, &control.get(other), status, error);
    }
    assert_eq!(control.delete(path).status, 200);
    expect_error("cancelled", &control.get(path), 404, "no_cooldown");
}

/// Regression: vote, cancellation and vote within a second had one instant. A reward that is unique by server,
/// address and instant was paid once for two votes.
#[test]
fn a_vote_after_a_cancellation_is_of_a_later_second() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let told = |response: Response| {
        assert_eq!(response.status, 201, "{response:?}");
        let json = response.json();
        let voted_at = from_rfc3339(json["voted_at"].as_str().expect("an instant"));
        assert_eq!(json["next_vote_at"], rfc3339(voted_at + COOLDOWN));
        voted_at
    };
    let mut instants = Vec::new();
    for _ in 0..2 {
        instants.push(told(control.cast(28, [203, 0, 113, 7])));
        assert_eq!(control.delete("/v1/votes/28/203.0.113.7").status, 200);
    }
    // The caller gives the instant of the cancelled vote. Then the same with the server removed.
    instants.push(told(control.cast_at(28, "203.0.113.7", instants[1])));
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    control.add_server(28, "demo");
    assert!(instants.windows(2).all(|pair| pair[0] < pair[1]), "{instants:?}");
    let [one, other] = [told(control.cast(28, [203, 0, 113, 8])), {
        assert_eq!(control.delete("/v1/servers/28").status, 200);
        control.add_server(28, "demo");
        told(control.cast(28, [203, 0, 113, 8]))
    }];
    assert!(one < other, "{one} {other}");
    // `mode=record` takes the caller's own records: the same vote once more, or none where nodes share a store.
    assert_eq!(control.delete("/v1/votes/28/203.0.113.8").status, 200);
    let body = format!(r#"{{"server_id":28,"ip":"203.0.113.8","voted_at":{other}}}"#);
    let recorded = control.post("/v1/votes?mode=record", &body);
    if Server::is_on_redis() {
        expect_error("cancelled", &recorded, 422, "cancelled");
    } else {
        assert_eq!(told(recorded), other);
    }
}

/// The log reports cooldowns that ended early once a second. Regression: a node on a shared store did not report those
/// of the last second before its end.
#[test]
fn the_log_tells_of_each_cooldown_that_was_ended_early() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    for last in [7, 8] {
        assert_eq!(control.cast(28, [203, 0, 113, last]).status, 201);
        assert_eq!(control.delete(&format!("/v1/votes/28/203.0.113.{last}")).status, 200);
    }
    let log = server.stop().stderr();
    let of_line = |line: &str| line.split_once("before their time: ")?.1.split(' ').next()?.parse::<u32>().ok();
    assert_eq!(log.lines().filter_map(of_line).sum::<u32>(), 2, "{log}");
}

/// An address has at most one vote in each second, and no vote is more than 5 s ahead of the clock.
#[test]
fn an_address_whose_votes_are_cancelled_again_and_again_is_told_to_wait() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let (body, path) = (r#"{"server_id":28,"ip":"203.0.113.7"}"#, "/v1/votes/28/203.0.113.7");
    let mut instants = Vec::new();
    let refused = loop {
        let response = control.post("/v1/votes", body);
        if response.status != 201 {
            break response;
        }
        let voted_at = from_rfc3339(response.json()["voted_at"].as_str().expect("an instant"));
        assert!(voted_at <= now_unix() + 5, "{response:?}");
        instants.push(voted_at);
        assert_eq!(control.delete(path).status, 200);
    };
    assert!(instants.is_sorted_by(|a, b| a < b) && instants.len() >= 6, "{instants:?}");
    expect_error_with("too many", &refused, 429, "too_many_changes");
    assert_eq!(refused.header("Retry-After"), Some("1"));
    let batch = control.post("/v1/votes/batch?mode=cast", &format!("{body}\n")).json();
    assert_eq!((&batch["invalid"], &batch["errors"][0]["error"]), (&json!(1), &json!("too_many_changes")), "{batch}");
    let others = control.post("/v1/votes", r#"{"server_id":28,"ip":"203.0.113.8"}"#);
    assert_eq!(others.status, 201, "{others:?}");
}
