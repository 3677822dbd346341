//! Strange content of a Redis, which stops no votes or is reported with its remedy: foreign entries
//! in the log, foreign functions, missing rights.

use crate::cluster::util::engine::{Engine, add_documented_user};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::util::ledger::address;
use crate::util::wait_until;
use vote_status::cluster::functions::CODE;

const LOG: &str = "vs:{0}:log";

/// Regression: entries that vote-status did not write stopped all votes, and were not named.
#[test]
fn entries_of_others_in_the_log_stop_nothing_and_are_named() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    // Before all our entries, then between them, several in a row, and last.
    redis.ask(&["XADD", LOG, "*", "message", "hello"]);
    let nodes = [Node::start(&engine.url(), &[]), Node::start(&engine.url(), &[])];
    nodes[0].add_servers(1);
    nodes.iter().for_each(|node| node.wait_until_recording(1));
    for number in 0..4 {
        nodes[0].record_at_once(1, address(number));
        for _ in 0..number {
            redis.ask(&["XADD", LOG, "*", "server", "1", "n", "7"]);
        }
        assert_eq!(nodes[1].control().cast(1, address(number)).status, 409, "it is shown by the other node");
        nodes[1].record_at_once(1, address(100 + number));
    }
    redis.ask(&["XADD", LOG, "*", "last", "one"]);
    wait_until("they are counted", || nodes.iter().all(|node| node.metric("vote_status_store_strange_total") > 6.5));
    let fresh = Node::start(&engine.url(), &[]);
    fresh.wait_until_recording(1);
    assert_eq!(settle(&mut redis, &[&nodes[0], &nodes[1], &fresh], "with entries of others").votes.len(), 9);
    for node in &nodes {
        node.server().wait_for_lines("STRANGE entry", 1);
        let log = node.server().stderr();
        assert_eq!(log.matches("STRANGE entry").count(), 1, "named, and once:\n{log}");
        assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "nothing is read anew:\n{log}");
    }
}

/// Nodes stop at a foreign library: even a node with an open connection must not record votes by foreign code.
#[test]
fn a_library_of_another_hand_is_named() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    node.record_vote(1, address(1));
    let other = CODE.replace("'unknown'", "'another'");
    redis.ask(&["FUNCTION", "LOAD", "REPLACE", &other]);
    let late = Node::start(&engine.url(), &[]);
    for each in [&node, &late] {
        wait_until("votes stop, with the reason", || {
            each.readiness().json()["store"]["votes"]["reason"] == "functions"
        });
        assert_eq!(each.control().cast(1, address(2)).status, 503);
        each.server().wait_for_lines("FUNCTION DELETE vote_status", 1);
    }
    redis.ask(&["FUNCTION", "DELETE", "vote_status"]);
    for (number, each) in (2..).zip([&node, &late]) {
        each.record_vote(1, address(number));
    }
    settle(&mut redis, &[&node, &late], "with its own functions again");
}

/// Regression: a missing right left an entry in the log without its vote. The node names it before any vote.
#[test]
fn missing_rights_are_named_with_their_keys() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    add_documented_user(&mut redis);
    let first = Node::start(&engine.url(), &[]);
    first.add_servers(1);
    redis.ask(&["ACL", "SETUSER", "vote-status", "-zadd", "clearselectors"]);
    let store = format!("redis://vote-status:of-the-node@{}", engine.addr());
    let node = Node::start(&store, &[]);
    let before = redis.ask(&["XLEN", LOG]);
    wait_until("it is told", || node.readiness().json()["store"]["votes"]["reason"] == "rights");
    let told = node.readiness().json()["store"]["votes"]["message"].as_str().expect("a line").to_owned();
    for missing in ["zadd vs:{0}:s:0", "zadd vs:{0}:gone", "unlink vs:{0}:s:0"] {
        assert!(told.contains(missing), "{told}");
    }
    node.server().wait_for_lines(&told, 1);
    let refused = node.control().cast(1, address(1));
    assert_eq!((refused.status, &refused.json()["error"]), (503, &"store_unavailable".into()), "{refused:?}");
    assert_eq!(redis.ask(&["XLEN", LOG]), before, "nothing was written");

    redis.ask(&["ACL", "SETUSER", "vote-status", "+zadd", "(+unlink ~vs:{0}:s:*)"]);
    node.record_vote(1, address(1));
    settle(&mut redis, &[&first, &node], "with all rights");
}

/// Regression: a key of a wrong type, of one server, kept every node from starting and was not named.
#[test]
fn a_key_of_a_wrong_type_is_named_and_costs_its_server_alone() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(2);
    node.record_vote(2, address(1));
    redis.ask(&["SET", "vs:{0}:s:1", "not ours"]);
    let refused = node.control().cast(1, address(2));
    assert_eq!((refused.status, &refused.json()["error"]), (503, &"store_unavailable".into()), "{refused:?}");
    let told = node.readiness().json()["store"]["votes"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("vs:{0}:s:1"), "the key is named: {told}");
    // Another server.
    node.record_at_once(2, address(2));

    let late = Node::start(&engine.url(), &[]);
    late.server().wait_for_lines("vs:{0}:s:1", 1);
    late.wait_until_recording(2);
    assert_eq!(late.control().cast(2, address(1)).status, 409);
    assert_eq!(late.control().cast(1, address(2)).status, 503);
    redis.ask(&["DEL", "vs:{0}:s:1"]);
    late.record_vote(1, address(2));
    settle(&mut redis, &[&node, &late], "without that key");

    // With a shared key of a wrong type, no change is half done.
    redis.ask(&["DEL", "vs:{0}:gone"]);
    redis.ask(&["SET", "vs:{0}:gone", "not ours"]);
    let before = redis.ask(&["XLEN", LOG]);
    let answer = node.control().cast(1, address(3));
    let message = answer.json()["message"].as_str().unwrap_or_default().to_owned();
    assert!(answer.status == 503 && message.contains("nothing was recorded"), "{answer:?}");
    assert_eq!(redis.ask(&["XLEN", LOG]), before);
    let told = node.readiness().json()["store"]["votes"]["message"].as_str().unwrap_or_default().to_owned();
    assert!(told.contains("vs:{0}:gone"), "the key is named: {told}");
}
