//! A server that is listed keeps its token, on a store of many nodes as on one of its own, unless its
//! replacement is asked for; also where a store is filled again.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::util::wait_until;
use rustix::process::Signal;

fn token(node: &Node, server: u32) -> String {
    node.control().get(&format!("/v1/servers/{server}")).json()["token"].as_str().unwrap_or_default().to_owned()
}

/// Regression: a second run, from a node that knew another token, replaced the one of the run that was cut off.
#[test]
fn a_store_that_is_filled_twice_keeps_the_first_tokens() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(2);
    let (mut redis, held) = (engine.connect(), token(&node, 1));
    redis.ask(&["FLUSHALL"]);
    // What a run that was cut off leaves behind.
    let store = node.control().get("/v1/cluster").json()["store_id"].as_str().expect("an id").to_owned();
    redis.ask(&["HSET", "vs:{0}:meta", "store", &format!("reseed-{store}"), "schema", "2", "cd", "5400", "v6", "64"]);
    redis.ask(&["HSET", "vs:{0}:dir", "1", "v1;given-before"]);
    redis.ask(&["HSET", "vs:{0}:tok", "given-before", "1"]);
    redis.ask(&["XADD", "vs:{0}:log", "*", "n", "1", "d", "1", "r", "v1;given-before"]);
    let ended = client(&["reseed", "--store", &engine.url(), "--control-url", &node.control_url()]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("server 1 keeps the token that an earlier run gave it"), "{ended:?}");
    assert!(ended.stdout.contains("1 servers and votes taken, 1 over meanwhile or there already"), "{ended:?}");
    node.wait_until_following();
    settle(&mut redis, &[&node], "after both");
    assert_eq!(token(&node, 1), "given-before");
    assert_ne!(held, "given-before");
}

/// A node that was only paused said of every token that was changed meanwhile that it might be lost.
#[test]
fn a_paused_node_raises_no_alarm_about_tokens_that_it_has_missed() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].control().add_server(1, "first");
    settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "before");
    nodes[1].server().signal(Signal::STOP);
    assert_eq!(nodes[0].control().post("/v1/servers/1/token", r#"{"token":"second"}"#).status, 200);
    engine.kill();
    engine.run();
    nodes[1].server().signal(Signal::CONT);
    for node in &nodes {
        wait_until("it has read the state of another history", || node.rebuilds("history") > 0.5);
        let told = node.server().stderr();
        assert!(!told.contains("have another token in the store"), "{told}");
    }
    settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "after");
}
