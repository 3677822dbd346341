//! `/v1/servers`: registration, tokens and their rotation, listing, removal.

use crate::contract_control::{expect, expect_error};
use crate::util::client::get;
use crate::util::server::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

#[test]
fn a_server_is_put_read_and_replaced() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    expect_error("before", &control.get("/v1/servers/28"), 404, "unknown_server");
    let put = |token: &str| control.put("/v1/servers/28", &format!(r#"{{"token":"{token}"}}"#));
    let first = json!({ "server_id": 28, "token": "first" });
    expect("new", &put("first"), 201, &first);
    expect("same", &put("first"), 200, &first);
    expect("read", &control.get("/v1/servers/28"), 200, &first);
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    let second = json!({ "server_id": 28, "token": "second" });
    expect("other token", &put("second"), 200, &second);
    expect("read", &control.get("/v1/servers/28"), 200, &second);
    assert_eq!(known(server.public(), "first"), None);
    // A new token is no new server: its cooldowns stay.
    assert_eq!(known(server.public(), "second"), Some(false));
}

#[test]
fn ids_and_tokens_have_their_bounds() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    let longest = "t".repeat(128);
    for (id, token) in [(4_294_967_295_u32, "t"), (1, "AZaz09-._~+="), (2, &longest), (3, "...")] {
        let response = control.put(&format!("/v1/servers/{id}"), &json!({ "token": token }).to_string());
        let record = json!({ "server_id": id, "token": token });
        expect(token, &response, 201, &record);
        assert_eq!(known(server.public(), token), Some(true), "{token}");
    }
    for token in [json!(""), json!("t".repeat(129)), json!("a/b"), json!("."), json!(".."), json!(28)] {
        let body = json!({ "token": token }).to_string();
        let response = control.put("/v1/servers/4", &body);
        expect_error(&body, &response, 422, "invalid_token");
    }
    expect_error("refused", &control.get("/v1/servers/4"), 404, "unknown_server");
}

#[test]
fn a_token_belongs_to_one_server() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    control.add_server(29, "other");
    for id in [29, 30] {
        let response = control.put(&format!("/v1/servers/{id}"), r#"{"token":"demo"}"#);
        expect_error("taken", &response, 409, "token_in_use");
    }
    let kept = json!({ "server_id": 29, "token": "other" });
    expect("kept", &control.get("/v1/servers/29"), 200, &kept);
    expect_error("not made", &control.get("/v1/servers/30"), 404, "unknown_server");
    // A token that is free again may be given to another.
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    control.add_server(30, "demo");
}

#[test]
fn a_token_is_made_where_none_is_given_and_unknown_from_its_rotation_on() {
    let server = Server::in_memory(&["--workers", "2"]);
    let control = server.control_client();
    let mut made = BTreeSet::new();
    let (mut response, mut status) = (control.put("/v1/servers/28", "{}"), 201);
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    for _ in 0..20 {
        let token = response.json()["token"].as_str().expect("a token").to_owned();
        expect("made", &response, status, &json!({ "server_id": 28, "token": token }));
        // 128 bits take 22 characters of the widest alphabet that a token may have.
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._~+=".contains(c);
        assert!((22..=128).contains(&token.len()) && token.chars().all(allowed), "{token:?}");
        assert_eq!(known(server.public(), &token), Some(false));
        (response, status) = (control.post("/v1/servers/28/token", "{}"), 200);
        assert_eq!(known(server.public(), &token), None, "{token} still holds");
        assert!(made.insert(token), "made twice: {made:?}");
    }
    assert_eq!(control.get("/v1/servers/28").json()["token"], response.json()["token"]);
    expect_error("nobody", &control.post("/v1/servers/29/token", "{}"), 404, "unknown_server");
}

#[test]
fn a_removed_server_takes_its_cooldowns_with_it() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    control.add_server(29, "other");
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    assert_eq!(control.cast(29, [203, 0, 113, 7]).status, 201);
    let removed = control.delete("/v1/servers/28");
    assert_eq!(removed.status, 200, "{removed:?}");
    assert!(removed.json().is_object(), "{removed:?}");
    assert_eq!(known(server.public(), "demo"), None);
    let status = get(server.public(), "/api/vote/28/status/203.0.113.7");
    assert_eq!(status.status, 404);
    expect_error("gone", &control.delete("/v1/servers/28"), 404, "unknown_server");
    expect_error("gone", &control.get("/v1/servers/28"), 404, "unknown_server");
    expect_error("gone", &control.cast(28, [203, 0, 113, 7]), 404, "unknown_server");
    control.add_server(28, "again");
    assert_eq!(known(server.public(), "again"), Some(true));
    assert_eq!(known(server.public(), "other"), Some(false));
}

#[test]
fn servers_are_listed_in_pages() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    let list = |query: &str| control.get(&format!("/v1/servers{query}"));
    let none = json!({ "servers": [], "next": null });
    expect("none", &list(""), 200, &none);
    for id in [300_u32, 7, 28, 4_294_967_295, 1] {
        control.add_server(id, &format!("token-{id}"));
    }
    let page = |ids: &[u32], next: Option<u32>| {
        let servers: Vec<Value> =
            ids.iter().map(|id| json!({ "server_id": id, "token": format!("token-{id}") })).collect();
        json!({ "servers": servers, "next": next })
    };
    let all = page(&[1, 7, 28, 300, 4_294_967_295], None);
    for (query, expected) in [
        ("", all.clone()),
        ("?limit=5", all.clone()),
        ("?limit=100", all),
        ("?limit=2", page(&[1, 7], Some(7))),
        ("?after=7&limit=2", page(&[28, 300], Some(300))),
        ("?limit=2&after=300", page(&[4_294_967_295], None)),
        ("?after=8&limit=1", page(&[28], Some(28))),
        ("?after=300", page(&[4_294_967_295], None)),
        ("?after=4294967295", page(&[], None)),
    ] {
        expect(query, &list(query), 200, &expected);
    }
}

/// The answer to 203.0.113.7 for the server with `token`: `can_vote`, or `None` for an unknown token.
fn known(addr: SocketAddr, token: &str) -> Option<bool> {
    let path = format!("/api/servers/{token}/vote-status/203.0.113.7");
    let response = get(addr, &path);
    let json = response.json();
    match response.status {
        200 => Some(json["can_vote"].as_bool().expect("can_vote is a boolean")),
        _ => {
            assert_eq!(json["error"], "unknown_token", "{response:?}");
            None
        }
    }
}

/// Before a removal, the operator can ask how many players it concerns.
#[test]
fn the_live_cooldowns_of_a_server_are_counted_when_that_is_asked() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    control.add_server(29, "other");
    for (id, last) in [(28, 1), (28, 2), (29, 1)] {
        assert_eq!(control.cast(id, [203, 0, 113, last]).status, 201);
    }
    control.cast(28, "2001:db8::1".parse::<IpAddr>().expect("an address"));
    assert_eq!(control.delete("/v1/votes/28/203.0.113.2").status, 200);
    for (query, body) in [
        ("", r#"{"server_id":28,"token":"demo"}"#),
        ("?cooldowns=0", r#"{"server_id":28,"token":"demo"}"#),
        ("?cooldowns=1", r#"{"server_id":28,"token":"demo","cooldowns":2}"#),
    ] {
        let told = control.get(&format!("/v1/servers/28{query}"));
        assert_eq!((told.status, told.text()), (200, body), "{query}");
    }
    expect_error("?cooldowns=x", &control.get("/v1/servers/28?cooldowns=x"), 400, "bad_request");
    expect_error("no server", &control.get("/v1/servers/30?cooldowns=1"), 404, "unknown_server");
    // One address has voted for two servers.
    assert_eq!(server.metric("vote_status_one_address_votes"), 2);
}
