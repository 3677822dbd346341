//! A listed server keeps its token unless a request replaces it, on a shared store as on a node's own,
//! also where a store is filled again.

use crate::cluster::util::calls::{KEYS, call};
use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::util::client::get;
use crate::util::needs::has;
use crate::util::server::{Server, run_to_end};

fn token(node: &Node, server: u32) -> String {
    node.control().get(&format!("/v1/servers/{server}")).json()["token"].as_str().unwrap_or_default().to_owned()
}

/// Regression: after a run that was cut off, a second one from a node with another token replaced the first token in
/// silence. Once nodes follow the store, they give it their own listings.
#[test]
fn a_store_that_is_filled_twice_tells_of_the_first_tokens() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(2);
    let (mut redis, held) = (engine.connect(), token(&node, 1));
    redis.ask(&["FLUSHALL"]);
    // The state that an interrupted run leaves.
    let store = node.control().get("/v1/cluster").json()["store_id"].as_str().expect("an id").to_owned();
    let filling = format!("reseed-{store}");
    redis.ask(&["FCALL", "vs3_init", "1", KEYS[3], &filling, "5400", "64"]);
    let record = "v2;0000000000000000-0000000000000001;0;given-before";
    let given = call(&mut redis, &filling, "vs3_give", 1, &["r", record]);
    assert_eq!(given[2].text(), "made", "{given:?}");
    let ended = client(&["reseed", "--store", &engine.url(), "--control-url", &node.control_url()]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert!(ended.stderr.contains("server 1 keeps the token that an earlier run gave it"), "{ended:?}");
    assert!(ended.stdout.contains("1 servers and votes taken, 1 over meanwhile or there already"), "{ended:?}");
    node.wait_until_following();
    settle(&mut redis, &[&node], "after both");
    assert_eq!(token(&node, 1), held, "its listing is the later one");
}

/// Regression: on a terminal, the progress was "0.0 MB" to the end.
#[test]
fn a_store_that_is_filled_tells_on_a_terminal_how_much_was_read() {
    let Some(engine) = Engine::try_store(&[]).filter(|_| has(&["script"])) else { return };
    let node = Node::start(&engine.url(), &[]);
    // `reseed` draws its progress each 1,024 servers and votes.
    let token = "t".repeat(100);
    let lines: String = (1..=1_100).map(|id| format!("{{\"server_id\":{id},\"token\":\"{token}{id}\"}}\n")).collect();
    assert_eq!(node.control().post("/v1/servers/batch", &lines).json()["recorded"], 1_100);
    engine.connect().ask(&["FLUSHALL"]);
    let mut reseed = Server::command();
    reseed.args([engine.url(), node.control_url()]);
    let typed = r#"exec script -qec "$0 reseed --store $1 --control-url $2" /dev/null"#;
    let ended = run_to_end(Server::under(&["sh", "-c", typed], reseed));
    assert!(ended.stdout.contains("0.1 MB  1024 lines"), "{ended:?}");
    assert!(ended.stdout.contains("1100 servers and votes taken"), "{ended:?}");
}

/// Tokens with `+` and `=` pass through the log and through a read of the whole state. So does `..`, a token that version
/// 1.0.0 allowed: it names no server, and no node fails on it.
#[test]
fn every_token_that_a_version_has_listed_is_read() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].control().add_server(1, "a+b==");
    let mut redis = engine.connect();
    nodes[0].control().add_server(2, "of-the-second");
    settle(&mut redis, &[&nodes[0], &nodes[1]], "before");
    // As version 1.0.0 wrote it, for a node that reads the whole state.
    let record = redis.ask(&["HGET", "vs:{0}:dir", "2"]).text().replace("of-the-second", "..");
    redis.ask(&["HDEL", "vs:{0}:tok", "of-the-second"]);
    redis.ask(&["HSET", "vs:{0}:dir", "2", &record]);
    redis.ask(&["HSET", "vs:{0}:tok", "..", "2"]);
    let newcomer = Node::start(&engine.url(), &[]);
    newcomer.wait_until_recording(1);
    assert_eq!([token(&newcomer, 1), token(&newcomer, 2)], ["a+b==", ".."]);
    for (node, path, status) in [
        (&nodes[1], "/api/servers/a+b==/vote-status/203.0.113.7", 200),
        (&newcomer, "/api/servers/a%2Bb==/vote-status/203.0.113.7", 200),
        (&newcomer, "/api/vote/2/status/203.0.113.7", 200),
        (&newcomer, "/api/servers/../vote-status/203.0.113.7", 404),
    ] {
        assert_eq!(get(node.server().public(), path).status, status, "{path}");
    }
    // A new token is the way out, and all nodes follow it.
    assert_eq!(newcomer.control().post("/v1/servers/2/token", "").status, 200);
    settle(&mut redis, &[&nodes[0], &nodes[1], &newcomer], "after");
}
