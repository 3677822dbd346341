//! `GET /v1/watch`: the content of a line, the requests that have one, and the start and end of the stream.

use crate::contract_control::expect_error;
use crate::util::DEADLINE;
use crate::util::client::{Client, exchange, get};
use crate::util::server::Server;
use crate::util::time::now_unix;
use crate::util::wait_until;
use crate::util::watch::{Watching, until_watched};
use rustix::process::Signal;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

fn server() -> Server {
    Server::listed(&["--workers", "2"])
}

#[test]
fn a_line_says_who_asked_what_and_what_was_answered() {
    let server = server();
    let mut watching = Watching::begin(&server, "");
    for (request, expected) in [
        (
            "GET /api/vote/28/status/203.0.113.7",
            r#""variant":"id","server_id":28,"ip":"203.0.113.7","answer":"can_vote","status":200"#,
        ),
        (
            "HEAD /api/servers/demo/vote-status/%3A%3Affff:203.0.113.7/",
            r#""variant":"token","server_id":28,"ip":"203.0.113.7","answer":"can_vote","status":200"#,
        ),
        (
            "GET /api/vote/29/status/203.0.113.7",
            r#""variant":"id","server_id":29,"ip":"203.0.113.7","answer":"unknown_server","status":404"#,
        ),
        (
            "GET /api/vote/028/status/203.0.113.7",
            r#""variant":"id","ip":"203.0.113.7","answer":"invalid_server_id","status":400"#,
        ),
        (
            "GET /api/vote/28/status/2001:DB8:0:7:1:2:3:4",
            r#""variant":"id","server_id":28,"ip":"2001:db8:0:7::","answer":"can_vote","status":200"#,
        ),
        ("GET /api/vote/28/status/x", r#""variant":"id","server_id":28,"answer":"invalid_ip","status":400"#),
        (
            "GET /api/servers/forgotten/vote-status/203.0.113.7",
            r#""variant":"token","token_begins":"forg","ip":"203.0.113.7","answer":"unknown_token","status":404"#,
        ),
        // No more than half of a short token is shown, and nothing where that half is a token itself.
        (
            "GET /api/servers/xyz/vote-status/203.0.113.7",
            r#""variant":"token","token_begins":"x","ip":"203.0.113.7","answer":"unknown_token","status":404"#,
        ),
        (
            "GET /api/servers/demonstration/vote-status/203.0.113.7",
            r#""variant":"token","ip":"203.0.113.7","answer":"unknown_token","status":404"#,
        ),
        (
            "GET /api/servers/a%22%0Ab,xyz/vote-status/203.0.113.7",
            r#""variant":"token","ip":"203.0.113.7","answer":"unknown_token","status":404"#,
        ),
        (
            "POST /api/vote/28/status/203.0.113.7",
            r#""variant":"id","server_id":28,"ip":"203.0.113.7","answer":"method_not_allowed","status":405"#,
        ),
        ("GET /api/vote/28/203.0.113.7", r#""answer":"not_found","status":404"#),
    ] {
        let mut client = Client::connect(server.public());
        client.send(format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n"));
        client.read_response(request.starts_with("HEAD"));
        let expected = format!(r#"{{"at":".","kind":"question",{expected},"peer":"127.0.0.1:."}}"#);
        assert_eq!(watching.told(), expected, "{request}");
    }
    // Only status questions have a line: the next line is the vote's.
    for path in ["/", "/readyz", "/healthz", "/openapi.json"] {
        get(server.public(), path);
    }
    let control = server.control_client();
    let vote = control.cast(28, [203, 0, 113, 7]).json();
    let seconds = |name: &str| vote[name].as_str().expect("an instant").to_owned();
    let (voted_at, next) = (seconds("voted_at"), seconds("next_vote_at"));
    let vote = format!(r#""server_id":28,"ip":"203.0.113.7","voted_at":"{voted_at}","next_vote_at":"{next}""#);
    assert_eq!(watching.told(), format!(r#"{{"at":".","kind":"vote",{vote}}}"#));
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 409);
    let held = format!(r#""cooldown_of":"203.0.113.7","since":"{voted_at}","next_vote_at":"{next}""#);
    let refused = r#""kind":"attempt","server_id":28,"ip":"203.0.113.7""#;
    assert_eq!(watching.told(), format!(r#"{{"at":".",{refused},"outcome":"in_cooldown",{held}}}"#));
    assert_eq!(control.delete("/v1/votes/28/203.0.113.7").status, 200);
    assert_eq!(watching.told(), r#"{"at":".","kind":"cancellation","server_id":28,"ip":"203.0.113.7"}"#);
    assert_eq!(control.post("/v1/servers/28/token", "").status, 200);
    assert_eq!(watching.told(), r#"{"at":".","kind":"rotation","server_id":28}"#);
    control.add_server(29, "other");
    assert_eq!(watching.told(), r#"{"at":".","kind":"registration","server_id":29}"#);
    assert_eq!(control.delete("/v1/servers/29").status, 200);
    assert_eq!(watching.told(), r#"{"at":".","kind":"removal","server_id":29}"#);
}

/// Regression: refused votes had no line, so the operator did not see why a player was not paid.
#[test]
fn each_vote_that_is_not_recorded_has_a_line_that_says_why() {
    let server = server();
    let control = server.control_client();
    let now = control.cast(28, [203, 0, 113, 7]).json();
    let held = |name: &str| now[name].as_str().expect("an instant").to_owned();
    let (since, until) = (held("voted_at"), held("next_vote_at"));
    let mut watching = ["", "?server_id=28", "?unknown=1"].map(|query| Watching::begin(&server, query));
    until_watched(&server, 3);
    let cooldown = format!(r#""cooldown_of":"203.0.113.7","since":"{since}","next_vote_at":"{until}""#);
    let old = r#""voted_at":"2020-01-01T00:00:00Z""#;
    let ahead = r#""voted_at":"2100-01-01T00:00:00Z""#;
    let own = format!(r#""voted_at":"{since}""#);
    let of_28 = |ip: &str, more: &str| format!(r#""server_id":28,"ip":"{ip}",{more}"#);
    let cases = [
        // A vote by its token, too. A vote of several addresses has one line for each voter.
        (
            "",
            r#"{"token":"demo","ips":["2001:db8:0:7:1::","203.0.113.7","2001:db8:0:7::2"]}"#.to_owned(),
            409,
            vec![
                of_28("2001:db8:0:7::", &format!(r#""outcome":"in_cooldown",{cooldown}"#)),
                of_28("203.0.113.7", &format!(r#""outcome":"in_cooldown",{cooldown}"#)),
            ],
        ),
        (
            "",
            format!(r#"{{"server_id":28,"ip":"203.0.113.8",{old}}}"#),
            422,
            vec![of_28("203.0.113.8", &format!(r#"{old},"outcome":"expired""#))],
        ),
        (
            "",
            format!(r#"{{"server_id":28,"ip":"203.0.113.8",{ahead}}}"#),
            422,
            vec![of_28("203.0.113.8", &format!(r#"{ahead},"outcome":"in_future""#))],
        ),
        (
            "?mode=record",
            format!(r#"{{"server_id":28,"ip":"203.0.113.7",{own}}}"#),
            200,
            vec![of_28("203.0.113.7", &format!(r#"{own},"outcome":"unchanged""#))],
        ),
        (
            "",
            r#"{"server_id":29,"ip":"203.0.113.8"}"#.to_owned(),
            404,
            vec![r#""server_id":29,"ip":"203.0.113.8","outcome":"unknown_server""#.to_owned()],
        ),
        (
            "",
            r#"{"token":"forgotten","ip":"203.0.113.8"}"#.to_owned(),
            404,
            vec![r#""token_begins":"forg","ip":"203.0.113.8","outcome":"unknown_server""#.to_owned()],
        ),
        ("", r#"{"server_id":28,"ip":"x"}"#.to_owned(), 422, vec![r#""outcome":"invalid_vote""#.to_owned()]),
        ("", "garbage".to_owned(), 400, vec![r#""outcome":"invalid_json""#.to_owned()]),
    ];
    for (query, body, status, expected) in cases {
        assert_eq!(control.post(&format!("/v1/votes{query}"), &body).status, status, "{body}");
        for line in expected {
            let expected = format!(r#"{{"at":".","kind":"attempt",{line}}}"#);
            assert_eq!(watching[0].told(), expected, "{body}");
            let is_of_28 = line.contains(r#""server_id":28"#);
            let watcher = if is_of_28 { &mut watching[1] } else { &mut watching[2] };
            assert_eq!(watcher.told(), expected, "{body}");
        }
    }
    // A batch has the same lines.
    let vote = r#"{"server_id":28,"ip":"203.0.113.7"}"#;
    assert_eq!(control.post("/v1/votes/batch?mode=cast", &format!("{vote}\n{vote}\n")).status, 200);
    for _ in 0..2 {
        let expected = of_28("203.0.113.7", &format!(r#""outcome":"in_cooldown",{cooldown}"#));
        assert_eq!(watching[1].told(), format!(r#"{{"at":".","kind":"attempt",{expected}}}"#));
    }
}

/// Regression: the loop looked for watchers once a turn, so a vote in the turn in which a watch began had no line.
#[test]
fn a_vote_in_the_turn_in_which_a_watch_begins_has_its_line() {
    let server = server();
    let control = server.control_client();
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    // Both connections wait in the listener's queue, so one turn takes both.
    server.pause();
    let watching = Watching::ask(&server, "");
    let mut voter = Client::connect(server.control());
    let vote = r#"{"server_id":28,"ip":"203.0.113.7"}"#;
    voter.send(control.request_bytes("POST", "/v1/votes", Some(vote)));
    server.signal(Signal::CONT);
    assert_eq!(voter.read_response(false).status, 409);
    let line = watching.begun().told();
    assert!(line.contains(r#""kind":"attempt","server_id":28,"ip":"203.0.113.7","outcome":"in_cooldown""#), "{line}");
}

/// A later vote of the caller's own records, a cancellation and the removal of a server end a first vote. The service counts
/// and logs each.
#[test]
fn a_vote_that_ends_before_its_time_is_told() {
    let server = server();
    let control = server.control_client();
    let mut watching = Watching::begin(&server, "");
    let record = |ahead: i64| {
        let body = format!(r#"{{"server_id":28,"ip":"203.0.113.7","voted_at":{}}}"#, now_unix() + ahead);
        control.post("/v1/votes?mode=record", &body)
    };
    let first = record(-60).json();
    assert!(watching.told().contains(r#""kind":"vote""#));
    assert_eq!(record(-30).status, 201);
    let (voted_at, until) = (first["voted_at"].as_str().expect("text"), first["next_vote_at"].as_str().expect("text"));
    let replaced = format!(r#""server_id":28,"ip":"203.0.113.7","voted_at":"{voted_at}","next_vote_at":"{until}""#);
    assert_eq!(watching.told(), format!(r#"{{"at":".","kind":"replacement",{replaced}}}"#));
    assert!(watching.told().contains(r#""kind":"vote""#));
    server.await_metric("vote_status_ended_early_total{cause=\"replaced\"}", 1);
    control.delete("/v1/votes/28/203.0.113.7");
    server.wait_for_lines("replaced by a later vote (mode=record)", 1);
    server.await_metric("vote_status_ended_early_total{cause=\"cancelled\"}", 1);
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    assert_eq!(control.cast(28, [203, 0, 113, 8]).status, 201);
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    server.await_metric("vote_status_ended_early_total{cause=\"server_removed\"}", 2);
    server.wait_for_lines("2 of removed servers", 1);
}

#[test]
fn a_watcher_sees_what_it_watches_for_until_the_service_ends() {
    let mut server = server();
    let mut all = Watching::begin(&server, "");
    let watchers: [(&str, &[usize]); 6] = [
        ("?token=demo", &[0, 1, 2, 6, 7]),
        ("?ip=203.0.113.7", &[0, 2, 3, 4, 6]),
        ("?server_id=28&ip=%3A%3Affff%3A203.0.113.7", &[0, 2, 6]),
        ("?ip=2001%3adb8::9", &[7]),
        ("?unknown=1", &[3, 4, 5]),
        ("?unknown=1&ip=203.0.113.7", &[3, 4]),
    ];
    let watching = watchers.map(|(query, _)| Watching::begin(&server, query));
    // In chunks, as most clients want it, so that the client tells the end from a cut.
    let mut in_chunks = Client::connect(server.control());
    in_chunks.send(server.control_client().request_bytes("GET", "/v1/watch?server_id=29&unknown=0", None));
    until_watched(&server, 8);
    for path in [
        "/api/vote/28/status/203.0.113.7",
        "/api/vote/28/status/203.0.113.8",
        "/api/servers/demo/vote-status/203.0.113.7",
        "/api/vote/29/status/203.0.113.7",
        "/api/servers/forgotten/vote-status/203.0.113.7",
        "/api/somewhere/else",
    ] {
        get(server.public(), path);
    }
    assert_eq!(server.control_client().cast(28, [203, 0, 113, 7]).status, 201);
    get(server.public(), "/api/vote/28/status/2001:db8::1");
    let seen: Vec<String> = (0..8).map(|_| all.line()).collect();
    server.signal(Signal::TERM);
    for ((query, expected), watcher) in watchers.iter().zip(watching) {
        let expected: String = expected.iter().map(|index| seen[*index].as_str()).collect();
        assert_eq!(watcher.rest(), expected, "{query}");
    }
    assert_eq!(all.rest(), "");
    let response = in_chunks.read_response(false);
    assert_eq!((response.status, response.text()), (200, seen[3].as_str()));
    assert_eq!(response.header("Transfer-Encoding"), Some("chunked"));
    in_chunks.expect_closed();
    assert!(server.wait_exit(DEADLINE).success());
}

/// A plus sign in a query stays a plus sign, as in a path.
#[test]
fn a_token_with_signs_is_watched_in_either_spelling() {
    let server = server();
    server.control_client().add_server(30, "a+b==");
    let mut watching = ["?token=a+b==", "?token=a%2Bb%3d="].map(|query| Watching::begin(&server, query));
    until_watched(&server, 2);
    for token in ["demo", "a+b%3D="] {
        get(server.public(), &format!("/api/servers/{token}/vote-status/203.0.113.7"));
    }
    for watcher in &mut watching {
        let line = watcher.line();
        assert!(line.contains(r#""variant":"token","server_id":30,"ip":"203.0.113.7","answer":"can_vote""#), "{line}");
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    let server = server();
    let control = server.control_client();
    for (query, status, word) in [
        ("?server_id=x", 400, "bad_request"),
        ("?server_id=28&token=demo", 400, "bad_request"),
        ("?token=forgotten", 404, "unknown_server"),
        ("?ip=203.0.113", 400, "bad_request"),
        ("?ip=", 400, "bad_request"),
        ("?unknown=yes", 400, "bad_request"),
    ] {
        expect_error(query, &control.get(&format!("/v1/watch{query}")), status, word);
    }
    let response = exchange(server.control(), "GET /v1/watch HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_error("without a key", &response, 401, "unauthorized");
    let response = exchange(server.control(), control.request_bytes("POST", "/v1/watch", None));
    expect_error("POST", &response, 405, "method_not_allowed");
    let mut client = Client::connect(server.control());
    client.send(control.request_bytes("HEAD", "/v1/watch", None));
    assert_eq!(client.read_response(true).header("Transfer-Encoding"), Some("chunked"));
    client.expect_open();
}

#[test]
fn eight_watch_and_a_place_is_free_again_once_one_has_gone() {
    let server = server();
    let mut watching: Vec<Watching> = (0..8).map(|_| Watching::begin(&server, "")).collect();
    let ninth = || server.control_client().get("/v1/watch");
    let refused = ninth();
    expect_error("the ninth", &refused, 503, "too_many_watchers");
    assert_eq!(refused.header("Retry-After"), Some("5"));
    until_watched(&server, 8);
    // Regression: the place of a watcher that was reset became free only when a line could not be sent to it, after 15 s.
    for leave in [drop as fn(Watching), Watching::reset] {
        let since = Instant::now();
        leave(watching.pop().expect("the last one"));
        until_watched(&server, 7);
        assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
        watching.push(Watching::begin(&server, ""));
        until_watched(&server, 8);
    }
    expect_error("the ninth again", &ninth(), 503, "too_many_watchers");
}

/// A plugin that takes its proxy's address for the players' asks about every server with that address.
#[test]
fn an_address_that_asks_about_many_servers_is_counted() {
    let server = server();
    (1..=25).for_each(|id| server.control_client().add_server(id, &format!("t{id}")));
    let mut client = Client::connect(server.public());
    let mut ask = |ids: RangeInclusive<u32>, last: u8| {
        for id in ids {
            client.send(format!("GET /api/vote/{id}/status/203.0.113.{last} HTTP/1.1\r\nHost: h\r\n\r\n"));
            client.read_response(false);
        }
        server.metric("vote_status_one_address_servers")
    };
    // Each sample has a few questions, so it takes some samples to see each server. A server that is not listed does not count.
    wait_until("two servers", || {
        let most = ask(100..=120, 7).max(ask(1..=2, 7));
        assert!(most <= 2, "{most}");
        most == 2
    });
    wait_until("all servers", || ask(1..=25, 8) == 25);
    assert_eq!(ask(1..=25, 9), 25);
}
