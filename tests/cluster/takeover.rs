//! The first node of this version takes over a store of 1.0.0, made by the functions of that version.

use crate::cluster::util::calls::{KEYS, claims};
use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::{Redis, Value};
use crate::util::ledger::{Pair, next_votes};
use crate::util::wait_until;
use std::net::{IpAddr, Ipv4Addr};

/// The functions of version 1.0.0, unchanged.
const CODE_OF_1_0_0: &str = include_str!("../../nodes/tests/kept/functions-1.0.0.lua");
/// A term that never ends.
const ALWAYS: &str = "9000000000000";

/// Calls a function of 1.0.0 for a server.
fn call_1_0_0(redis: &mut Redis, function: &str, server: &str, more: &[&str]) -> Value {
    let [log, dir, tok, meta, gone] = KEYS;
    let claims = claims(server.parse().expect("a number"));
    let words = ["FCALL", function, "6", log, &claims, dir, tok, meta, gone, "of-1.0.0", ALWAYS, server];
    redis.try_ask(&[&words[..], more].concat()).expect("Redis answers")
}

fn voter(last: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, last).into()
}

fn member(last: u8) -> String {
    Ipv4Addr::new(10, 0, 0, last).to_bits().to_string()
}

#[test]
fn a_store_of_1_0_0_is_taken_over_with_all_that_it_remembers() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    redis.ask(&["FUNCTION", "LOAD", CODE_OF_1_0_0]);
    redis.ask(&["FCALL", "vote_status_init", "1", KEYS[3], "of-1.0.0", "5400", "64"]);
    for (server, token) in [("1", "first"), ("2", "second"), ("3", "removed")] {
        let bits = format!("{server:0>16}");
        call_1_0_0(&mut redis, "vote_status_server", server, &["list", token, token, &bits]);
    }
    for (server, last) in [("1", 1), ("1", 2), ("2", 1), ("3", 1)] {
        let cast = call_1_0_0(&mut redis, "vote_status_vote", server, &["cast", "", &member(last)]);
        assert_eq!(cast.list()[0].number(), 0, "{cast:?}");
    }
    let cancelled_at = redis.ask(&["ZSCORE", &claims(1), &member(2)]).text().to_owned();
    call_1_0_0(&mut redis, "vote_status_cancel", "1", &[&member(2)]);
    call_1_0_0(&mut redis, "vote_status_remove", "3", &[]);
    redis.ask(&[
        "FCALL",
        "vote_status_node",
        "2",
        KEYS[3],
        "vs:{0}:nodes",
        "of-1.0.0",
        "an-old-node",
        "history",
        "",
        "",
    ]);

    let nodes = Node::start_many(2, &engine.url(), &[]);
    let told = || nodes.iter().map(|node| node.server().stderr().matches("is taken over").count()).sum::<usize>();
    wait_until("one of them takes it over, and says so", || told() > 0);
    assert_eq!(told(), 1, "no other says so");
    assert!(nodes.iter().any(|node| node.server().stderr().contains("an-old-node")), "it names the nodes of 1.0.0");
    let refused = call_1_0_0(&mut redis, "vote_status_vote", "1", &["cast", "", &member(9)]);
    assert!(matches!(&refused, Value::Refused(why) if why.contains("Function not found")), "{refused:?}");

    let pairs: [Pair; 3] = [(1, voter(1)), (1, voter(2)), (2, voter(1))];
    for node in &nodes {
        node.wait_until_recording(2);
        let shown = next_votes(node.server(), &pairs).iter().map(Option::is_some).collect::<Vec<_>>();
        assert_eq!(shown, [true, false, true]);
        assert_eq!(node.control().get("/v1/servers/2").json()["token"], "second");
        assert_eq!(node.control().get("/v1/servers/3").status, 404);
        assert_eq!(node.control().cast(1, voter(1)).status, 409);
    }
    // A cancelled vote stays cancelled.
    let body = format!(r#"{{"server_id":1,"ip":"{}","voted_at":{cancelled_at}}}"#, voter(2));
    let again = nodes[0].control().post("/v1/votes?mode=record", &body);
    assert_eq!((again.status, &again.json()["error"]), (422, &"cancelled".into()), "{again:?}");
    nodes[1].record_vote(1, voter(2));
    settle(&mut redis, &[&nodes[0], &nodes[1]], "taken over");
}
