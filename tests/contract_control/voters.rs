//! Voters with one or several addresses of either family: one vote, recorded whole or not at all.

use crate::contract_control::{expect, expect_error, expect_error_with};
use crate::util::client::get;
use crate::util::control::Control;
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use serde_json::json;
use std::collections::BTreeSet;

const COOLDOWN: i64 = 90 * 60;

/// `next_vote_at` by both public paths, which must agree.
fn next(server: &Server, ip: &str) -> Option<String> {
    let [by_id, by_token] = ["vote/28/status", "servers/demo/vote-status"].map(|path| {
        let body = get(server.public(), &format!("/api/{path}/{ip}")).json();
        assert_eq!(body["can_vote"], body["next_vote_at"].is_null(), "{ip}: {body}");
        body["next_vote_at"].as_str().map(str::to_owned)
    });
    assert_eq!(by_id, by_token, "{ip}");
    by_id
}

fn exported(control: &Control) -> BTreeSet<String> {
    control.exported().into_iter().collect()
}

fn listed() -> (Server, Control) {
    let server = Server::listed(&[]);
    let control = server.control_client();
    (server, control)
}

#[test]
fn one_vote_is_for_all_addresses_of_its_voter() {
    let (server, control) = listed();
    let at = now_unix() - 100;
    let (voted, end) = (rfc3339(at), rfc3339(at + COOLDOWN));
    // The third address is in the second's network, and the last one is the first address.
    let ips = r#"["203.0.113.7","2001:DB8::7"," 2001:db8:0:0:8::%","::ffff:203.0.113.7"]"#.replace('%', "1");
    let cast = control.post("/v1/votes", &format!(r#"{{"server_id":28,"ips":{ips},"voted_at":{at}}}"#));
    let recorded = json!({
        "recorded": true, "server_id": 28, "ip": "203.0.113.7", "ips": ["203.0.113.7", "2001:db8::"],
        "voted_at": voted, "next_vote_at": end,
    });
    expect("cast", &cast, 201, &recorded);
    for ip in ["203.0.113.7", "::ffff:203.0.113.7", "2001:db8::7", "2001%3Adb8::ffff"] {
        assert_eq!(next(&server, ip).as_deref(), Some(end.as_str()), "{ip}");
    }
    assert_eq!(next(&server, "2001:db8:0:1::7"), None);
    let lines = [
        r#"{"server_id":28,"token":"demo"}"#.to_owned(),
        format!(r#"{{"server_id":28,"ip":"203.0.113.7","voted_at":"{voted}"}}"#),
        format!(r#"{{"server_id":28,"ip":"2001:db8::","voted_at":"{voted}"}}"#),
    ];
    assert_eq!(exported(&control), lines.iter().cloned().collect());
    // The export gives the same state on another service.
    let (other, beside) = listed();
    assert_eq!(beside.post("/v1/votes/batch", &lines[1..].join("\n")).json()["recorded"], 2);
    assert_eq!(exported(&beside), exported(&control));
    assert_eq!(next(&other, "2001:db8::7"), Some(end));
    // A cancellation ends one address alone, whatever others were cast with it.
    assert_eq!(control.delete("/v1/votes/28/2001:db8::abcd").status, 200);
    assert_eq!(control.delete("/v1/votes/28/2001%3Adb8%3A%3A7").status, 404);
    assert_eq!((next(&server, "2001:db8::7"), next(&server, "203.0.113.7").is_some()), (None, true));
}

#[test]
fn one_address_in_cooldown_refuses_the_vote_and_nothing_of_it_is_kept() {
    let (server, control) = listed();
    let at = now_unix();
    assert_eq!(control.cast_at(28, "203.0.113.7", at - 900).status, 201);
    assert_eq!(control.cast_at(28, "2001:db8::1", at - 300).status, 201);
    let before = exported(&control);
    let cast = |ips: &str| control.post("/v1/votes", &format!(r#"{{"server_id":28,"ips":{ips}}}"#));
    for (ips, ip, since) in [
        (r#"["198.51.100.9","203.0.113.7"]"#, "203.0.113.7", 900),
        (r#"["203.0.113.7","2001:db8:7::7","2001:db8::2"]"#, "2001:db8::", 300),
        (r#"["2001:db8::2","203.0.113.7"]"#, "2001:db8::", 300),
    ] {
        let refused = cast(ips);
        let body = expect_error_with(ips, &refused, 409, "in_cooldown");
        let end = rfc3339(at - since + COOLDOWN);
        assert_eq!((&body["ip"], &body["next_vote_at"]), (&json!(ip), &json!(end)), "{ips}");
        let line = format!(r#"{{"server_id":28,"ips":{ips}}}"#);
        let batch = control.post("/v1/votes/batch?mode=cast", &line).json();
        assert_eq!((&batch["in_cooldown"], &batch["recorded"]), (&json!(1), &json!(0)), "{batch}");
        let message = format!("{ip} is in cooldown until {end}");
        assert_eq!(batch["errors"][0]["message"], message.as_str(), "{batch}");
    }
    assert_eq!(exported(&control), before);
    assert_eq!((next(&server, "198.51.100.9"), next(&server, "2001:db8:7::7")), (None, None));
}

#[test]
fn of_a_recorded_list_the_later_vote_of_each_address_stays() {
    let (server, control) = listed();
    let at = now_unix() - 1_000;
    let record = |ips: &str, at: i64| {
        let body = format!(r#"{{"server_id":28,"ips":{ips},"voted_at":{at}}}"#);
        let answer = control.post("/v1/votes?mode=record", &body);
        (answer.status, answer.json()["unchanged"].clone(), answer.json()["voted_at"].clone())
    };
    assert_eq!(control.cast_at(28, "203.0.113.7", at).status, 201);
    let ips = r#"["203.0.113.7","2001:db8::7"]"#;
    assert_eq!(record(ips, at - 50), (201, json!(null), json!(rfc3339(at - 50))));
    assert_eq!(next(&server, "203.0.113.7"), Some(rfc3339(at + COOLDOWN)));
    assert_eq!(next(&server, "2001:db8::7"), Some(rfc3339(at - 50 + COOLDOWN)));
    assert_eq!(record(ips, at - 60), (200, json!(true), json!(rfc3339(at))));
    assert_eq!(record(ips, at + 60), (201, json!(null), json!(rfc3339(at + 60))));
    for ip in ["203.0.113.7", "2001:db8::7"] {
        assert_eq!(next(&server, ip), Some(rfc3339(at + 60 + COOLDOWN)), "{ip}");
    }
}

/// Every cooldown of a person's address ends at once, and no trace of the address stays. Exact bytes.
#[test]
fn all_votes_of_an_address_go_at_once() {
    const NONE: &str = r#"{"error":"no_cooldown","message":"this address is in no cooldown"}"#;
    let (server, control) = listed();
    control.add_server(29, "other");
    let at = now_unix() - 100;
    for id in [28, 29] {
        for ip in ["203.0.113.7", "203.0.113.8", "2001:db8::7"] {
            assert_eq!(control.cast_at(id, ip, at).status, 201, "{id} {ip}");
        }
    }
    let delete = |ip: &str, status: u16, body: &str| {
        let answer = control.delete(&format!("/v1/voters/{ip}"));
        expect(ip, &answer, status, &serde_json::from_str(body).expect("JSON"));
        assert_eq!(answer.text(), body, "{ip}");
    };
    // A mapped form means its IPv4 address, and an IPv6 address its network.
    delete("::ffff:203.0.113.7", 200, r#"{"cancelled":2}"#);
    delete("203.0.113.7", 404, NONE);
    delete("2001%3Adb8%3A%3Affff", 200, r#"{"cancelled":2}"#);
    delete("2001:db8:0:1::7", 404, NONE);
    assert_eq!((next(&server, "203.0.113.7"), next(&server, "2001:db8::7")), (None, None));
    assert!(next(&server, "203.0.113.8").is_some(), "another voter keeps the cooldown");
    assert_eq!(exported(&control).len(), 4, "two servers, and two votes of the other voter");

    // Votes of a removed server are in no cooldown, and go too.
    assert_eq!(control.delete("/v1/servers/29").status, 200);
    let left = server.metric("vote_status_cooldowns");
    assert!((1..=2).contains(&left), "{left}: a store that nodes share forgets the votes of a removed server at once");
    delete("203.0.113.8", 200, r#"{"cancelled":1}"#);
    assert_eq!(server.metric("vote_status_cooldowns"), 0);
    assert_eq!(control.cast_at(28, "203.0.113.9", at).status, 201);
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    delete("203.0.113.9", 404, NONE);
    assert_eq!(server.metric("vote_status_cooldowns"), 0);

    for ip in ["203.0.113", "203.0.113.256", "%20", "2001:db8::g"] {
        expect_error(ip, &control.delete(&format!("/v1/voters/{ip}")), 422, "invalid_vote");
    }
    let path = "/v1/voters/203.0.113.7";
    for refused in [control.get(path), control.put(path, "{}"), control.post(path, "{}")] {
        expect_error("another method", &refused, 405, "method_not_allowed");
        assert_eq!(refused.header("Allow"), Some("DELETE"));
    }
    for path in ["/v1/voters", "/v1/voters/203.0.113.7/28"] {
        expect_error(path, &control.delete(path), 404, "not_found");
    }
}

/// Tests beside the code check the rows of another prefix.
#[test]
fn a_shorter_prefix_makes_one_voter_of_more_networks() {
    let server = Server::listed(&["--ipv6-prefix", "48"]);
    let control = server.control_client();
    let at = now_unix() - 100;
    assert_eq!(control.cast_at(28, "2001:db8:1:1::7", at).status, 201);
    for ip in ["2001:db8:1:1::7", "2001:db8:1:2::7", "2001:db8:1:ffff::"] {
        assert_eq!(next(&server, ip), Some(rfc3339(at + COOLDOWN)), "{ip}");
    }
    assert_eq!(next(&server, "2001:db8:2::"), None);
    let refused = control.post("/v1/votes", r#"{"server_id":28,"ips":["198.51.100.9","2001:db8:1:3::"]}"#);
    expect_error_with("another network", &refused, 409, "in_cooldown");
    let cast = control.post("/v1/votes", r#"{"server_id":28,"ips":["2001:db8:9:1::","2001:db8:9:2::"]}"#);
    assert_eq!(cast.status, 201, "{cast:?}");
    assert_eq!(exported(&control).len(), 3, "the server, and a vote of each prefix");
    // A cancellation by any of their addresses ends the cooldown of all of them.
    assert_eq!(control.delete("/v1/votes/28/2001:db8:1:77::").status, 200);
    assert_eq!(next(&server, "2001:db8:1:1::7"), None);
}
