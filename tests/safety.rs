//! Safety rule 1 of the contract, over every answer that the tests can bring the server to give:
//! `success` and `can_vote` are false only where a live recorded cooldown was found. The test judges
//! each body by its own record of votes, whatever the status.

use crate::util::answers::{IN_COOLDOWN, rows};
use crate::util::client::{Client, get};
use crate::util::control::Control;
use crate::util::random::Random;
use crate::util::response::{Framing, Response, parse_head};
use crate::util::server::Server;
use crate::util::time::{now_unix, now_unix_ms, rfc3339};
use crate::util::{CLOCK_SLACK_MS, DEADLINE};
use rustix::process::Signal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::time::Instant;

/// Whether the pair that the tables have in cooldown is in cooldown now.
#[derive(Clone, Debug)]
enum Live {
    /// No cooldown lives: no body may have a false.
    Nothing,
    /// Server 28 and 203.0.113.8 are in cooldown until this instant.
    Until(String),
}

/// The page at `/`, which is no path of the interface.
const PAGE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/public.html"));

/// Requests that random damage starts from, all about the pair.
const SEEDS: &[&str] = &[
    "GET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/demo/vote-status/203.0.113.8 HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n",
    "GET /api/vote/28/status/%3A%3Affff%3A203.0.113.8?t=1 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    "GET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345",
    "GET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "POST /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    "OPTIONS /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET http://a/api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
];

#[test]
fn nothing_recorded_nothing_refused() {
    let server = Server::in_memory(&[]);
    check_rows("no server", &server, &Live::Nothing);
    let control = server.control_client();
    control.add_server(28, "demo");
    control.add_server(29, "other");
    check_rows("no vote", &server, &Live::Nothing);
    // Votes for others, and votes that were refused.
    let now = now_unix();
    assert_eq!(control.cast_at(29, "203.0.113.8", now).status, 201);
    assert_eq!(control.cast_at(28, "203.0.113.9", now).status, 201);
    assert_eq!(control.cast_at(28, "203.0.113.8", now - 5_401).status, 422);
    assert_eq!(control.cast_at(28, "203.0.113.8", now + 60).status, 422);
    check_rows("votes for others", &server, &Live::Nothing);
}

#[test]
fn a_cooldown_is_told_of_while_it_lives_and_no_longer() {
    let server = Server::listed(&["--cooldown-minutes", "1"]);
    let control = server.control_client();
    let voted_at = now_unix();
    cast_both(&control, voted_at);
    check_rows("live", &server, &Live::Until(rfc3339(voted_at + 60)));
    for ip in ["203.0.113.8", "2001:db8:0:8::8"] {
        assert_eq!(control.delete(&format!("/v1/votes/28/{ip}")).status, 200);
    }
    check_rows("cancelled", &server, &Live::Nothing);
    // A vote after a cancellation gets a later second than the cancelled one, so this vote is on another server.
    let server = Server::listed(&["--cooldown-minutes", "1"]);
    let control = server.control_client();
    let voted_at = now_unix() - 58;
    cast_both(&control, voted_at);
    let until = Instant::now() + DEADLINE;
    while now_unix_ms() < (voted_at + 60) * 1000 + CLOCK_SLACK_MS {
        assert!(Instant::now() < until, "the clock stands");
        get(server.public(), "/api/vote/28/status/203.0.113.8");
    }
    check_rows("expired", &server, &Live::Nothing);
    cast_both(&control, now_unix());
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    check_rows("removed", &server, &Live::Nothing);
    control.add_server(28, "demo");
    check_rows("back", &server, &Live::Nothing);
}

#[test]
fn damaged_requests_pay_nobody() {
    let mut random = Random::from_environment();
    let server = Server::listed(&[]);
    let control = server.control_client();
    damage("no vote", &server, &mut random, 1_500, &Live::Nothing);
    let voted_at = now_unix();
    assert_eq!(control.cast_at(28, "203.0.113.8", voted_at).status, 201);
    let live = Live::Until(rfc3339(voted_at + 5_400));
    damage("one vote", &server, &mut random, 500, &live);
}

#[test]
fn a_server_too_busy_or_going_away_pays_nobody() {
    let options = ["--workers", "1", "--max-connections", "1", "--drain-delay", "15"];
    let server = Server::listed(&options);
    let control = server.control_client();
    let voted_at = now_unix();
    assert_eq!(control.cast_at(28, "203.0.113.8", voted_at).status, 201);
    let live = Live::Until(rfc3339(voted_at + 5_400));
    let mut busy = Client::connect(server.public());
    let request = "GET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: a\r\n\r\n";
    busy.send(request.replace("\r\n\r\n", "\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n"));
    assert_eq!(busy.read_response(false).status, 100);
    for _ in 0..20 {
        let answers = answers_to(server.public(), request.as_bytes());
        assert_eq!(answers.len(), 1, "{answers:?}");
        // There is room for the request once the awaited client has its answer; until then it is turned away.
        assert!(matches!(answers[0].status, 200 | 503), "{answers:?}");
        check_body("busy", &answers[0], &live);
    }
    let awaited = busy.read_response(false);
    assert_eq!(awaited.status, 408, "{awaited:?}");
    check_body("awaited for too long", &awaited, &Live::Nothing);
    drop(busy);
    server.signal(Signal::TERM);
    let mut answered = 0;
    for _ in 0..20 {
        // A connection may be closed without an answer now, but every answer must be right.
        for answer in try_answers_to(server.public(), request.as_bytes()).unwrap_or_default() {
            check_body("going away", &answer, &live);
            answered += 1;
        }
    }
    assert!(answered > 0, "nothing was answered");
}

/// One vote of the addresses of both families that the tables have in cooldown.
fn cast_both(control: &Control, voted_at: i64) {
    let vote = format!(r#"{{"server_id":28,"ips":["203.0.113.8","2001:db8:0:8::1"],"voted_at":{voted_at}}}"#);
    assert_eq!(control.post("/v1/votes", &vote).status, 201);
}

/// Asks for every path of the tables, and requires a false exactly where the tables have the
/// cooldown and `live` has it too.
fn check_rows(world: &str, server: &Server, live: &Live) {
    for (path, to_get) in rows() {
        for method in ["GET", "POST", "OPTIONS"] {
            let label = format!("{world}: {method} {path}");
            let request = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let answers = answers_to(server.public(), request.as_bytes());
            assert_eq!(answers.len(), 1, "{label}: {answers:?}");
            let refused = check_body(&label, &answers[0], live);
            let of_the_pair = method == "GET" && *to_get == IN_COOLDOWN;
            let expected = of_the_pair && matches!(live, Live::Until(_));
            assert_eq!(refused, expected, "{label}: {answers:?}");
        }
    }
}

/// Sends damaged requests, one connection each, and checks every answer.
fn damage(world: &str, server: &Server, random: &mut Random, count: usize, live: &Live) {
    let mut by_status = BTreeMap::new();
    for _ in 0..count {
        let bytes = damaged(random);
        let label = format!("{world}: {:?}", String::from_utf8_lossy(&bytes));
        for response in answers_to(server.public(), &bytes) {
            // A `?` where the path begins makes `/` of it; no other damage leads there.
            if response.body == PAGE {
                assert!(bytes.contains(&b'?'), "{label}: {response:?}");
            } else {
                check_body(&label, &response, live);
            }
            *by_status.entry(response.status).or_insert(0) += 1;
        }
    }
    println!("{world}: {count} damaged requests, answers by status {by_status:?}");
    // Damage that gives only one kind of answer would test nothing.
    assert!(by_status.len() >= 4, "{by_status:?}");
}

/// One or two seeds behind each other with up to four small damages.
fn damaged(random: &mut Random) -> Vec<u8> {
    const BYTES: &[u8] = b"\0\t\n\r !\"#%&*+,-./0128:;=?@AZ[]_az{}~\x7f\x80\xc3\xff";
    let mut bytes = random.pick(SEEDS).as_bytes().to_vec();
    if random.below(3) == 0 {
        bytes.extend_from_slice(random.pick(SEEDS).as_bytes());
    }
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = *random.pick(BYTES),
            1 => bytes.insert(at, *random.pick(BYTES)),
            2 => drop(bytes.remove(at)),
            3 => bytes[at] ^= 1 << random.below(8),
            _ => {
                let end = (at + 1 + random.below(20)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

/// Sends `bytes` on a connection of its own, ends the sending side, and reads every answer until
/// the server closes, which it must do in order.
fn answers_to(addr: SocketAddr, bytes: &[u8]) -> Vec<Response> {
    try_answers_to(addr, bytes)
        .unwrap_or_else(|error| panic!("no end in order after {:?}: {error}", String::from_utf8_lossy(bytes)))
}

/// The same, or how the connection broke.
fn try_answers_to(addr: SocketAddr, bytes: &[u8]) -> io::Result<Vec<Response>> {
    let mut client = Client::try_connect(addr)?;
    client.try_send(bytes)?;
    client.socket().shutdown(Shutdown::Write)?;
    let all = client.try_read_to_end()?;
    let label = String::from_utf8_lossy(bytes);
    let mut rest = all.as_slice();
    let mut answers = Vec::new();
    while !rest.is_empty() {
        let (mut response, used, framing) =
            parse_head(rest).unwrap_or_else(|| panic!("half a head after {label:?}: {rest:?}"));
        let Framing::Length(length) = framing else {
            panic!("no length after {label:?}: {response:?}");
        };
        assert!(rest.len() >= used + length, "half a body after {label:?}");
        response.body = rest[used..used + length].to_vec();
        rest = &rest[used + length..];
        answers.push(response);
    }
    Ok(answers)
}

/// Checks one answer against the rule, and gives whether it refuses the vote.
fn check_body(label: &str, response: &Response, live: &Live) -> bool {
    if response.status == 204 || response.status == 100 {
        return false;
    }
    let json = response.json();
    // A balancer's answer is about no vote.
    if json["status"] == "alive" || json["status"] == "ready" {
        return false;
    }
    let fields = json.as_object().map(serde_json::Map::len);
    let error = json["error"].is_string();
    assert_eq!(fields, Some(5 + usize::from(error)), "{label}: {json}");
    assert_eq!(error, response.status != 200, "{label}: {json}");
    assert!(json["message"].is_string(), "{label}: {json}");
    assert!(json["cooldown_minutes"].is_u64(), "{label}: {json}");
    let flags = (&json["success"], &json["can_vote"]);
    if flags == (&Value::Bool(true), &Value::Bool(true)) {
        assert!(json.get("next_vote_at").is_some_and(Value::is_null), "{label}: {json}");
        return false;
    }
    assert_eq!(flags, (&Value::Bool(false), &Value::Bool(false)), "{label}: {json}");
    match live {
        Live::Nothing => panic!("{label}: refused with nothing recorded: {response:?}"),
        Live::Until(next) => assert_eq!(json["next_vote_at"], next.as_str(), "{label}"),
    }
    assert_eq!(response.status, 200, "{label}: {json}");
    true
}
