//! A server that is listed keeps its token, on a store of many nodes as on one of its own, unless its
//! replacement is asked for; also where a store is filled again.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::util::server::Ended;
use crate::util::wait_until;
use rustix::process::Signal;
use serde_json::json;
use std::fs;

const LINES: &str = "{\"server_id\":1,\"token\":\"of-yesterday\"}\n{\"server_id\":2,\"token\":\"second\"}\n\
                     {\"server_id\":3}\n{\"server_id\":1,\"token\":\"of-yesterday\"}\n{\"server_id\":4,\"token\":\"second\"}\n";

fn token(node: &Node, server: u32) -> String {
    node.control().get(&format!("/v1/servers/{server}")).json()["token"].as_str().unwrap_or_default().to_owned()
}

/// Regression: an import of yesterday's export brought a rotated token back, on every node.
#[test]
fn an_import_leaves_the_tokens_of_a_shared_store() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = [Node::start(&engine.url(), &[]), Node::start(&engine.url(), &[])];
    nodes[0].control().add_server(1, "first");
    let summary = nodes[0].control().post("/v1/servers/batch", LINES).json();
    assert_eq!(
        (&summary["recorded"], &summary["token_differs"], &summary["invalid"]),
        (&json!(2), &json!(2), &json!(3))
    );
    let words = |summary: &serde_json::Value| -> Vec<(u64, String)> {
        let errors = summary["errors"].as_array().expect("a list").iter();
        errors
            .map(|error| (error["line"].as_u64().expect("a line"), error["error"].as_str().expect("a word").to_owned()))
            .collect()
    };
    let differs = |line| (line, "token_differs".to_owned());
    assert_eq!(words(&summary), [differs(1), differs(4), (5, "token_in_use".to_owned())]);
    let generated = token(&nodes[0], 3);
    settle(&mut engine.connect(), &nodes.each_ref(), "after a batch that keeps");
    for node in &nodes {
        assert_eq!([token(node, 1), token(node, 2), token(node, 3)], ["first", "second", &generated]);
    }
    let file = engine.folder().join("export.ndjson");
    fs::write(&file, LINES).expect("the folder takes a file");
    let import = |args: &[&str]| -> Ended {
        client(&[&["import", &file.to_string_lossy(), "--control-url", &nodes[1].control_url()], args].concat())
    };
    let kept = import(&[]);
    assert_eq!(kept.status.code(), Some(1), "{kept:?}");
    assert!(kept.stderr.contains(": line 1: token_differs: "), "{kept:?}");
    let replaced = import(&["--replace-tokens"]);
    assert_eq!(replaced.status.code(), Some(1), "line 5 is in conflict all the same: {replaced:?}");
    settle(&mut engine.connect(), &nodes.each_ref(), "after an import that replaces");
    for node in &nodes {
        assert_eq!([token(node, 1), token(node, 2), token(node, 3)], ["of-yesterday", "second", &generated]);
    }
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
