//! Nodes give back votes that Redis forgets, and none that were taken away. A node goes on showing votes that Redis does not
//! take back yet, and a starting node waits for the nodes that know more.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::wait_until;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The shortest wait of a node that starts.
const LEAST_WAIT: Duration = Duration::from_secs(2);
/// How long a starting node waits for a silent one.
const SILENCE: Duration = Duration::from_secs(5);

/// Restarts Redis on an older copy of its files.
fn go_back(engine: &mut Engine, older: &TempDir) {
    engine.kill();
    engine.put_back(older);
    engine.run();
}

/// Regression: a cancellation, a removal and a token that Redis forgot stayed forgotten.
#[test]
fn an_older_copy_is_brought_up_to_date_whole() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(4);
    let ended = address(1);
    for server in [1, 2, 4] {
        nodes[0].record_vote(server, ended);
    }
    let older = engine.copy();
    for server in [1, 4] {
        assert_eq!(nodes[0].control().delete(&format!("/v1/servers/{server}")).status, 200);
    }
    nodes[0].control().add_server(1, "again");
    assert_eq!(nodes[1].control().delete(&format!("/v1/votes/2/{ended}")).status, 200);
    assert_eq!(nodes[1].control().post("/v1/servers/3/token", "").status, 200);
    let votes: Vec<Pair> = (2..12).map(|number| (1 + number % 3, address(number))).collect();
    for (server, ip) in &votes {
        nodes[1].record_at_once(*server, *ip);
    }
    let token = |node: &Node, server| node.control().get(&format!("/v1/servers/{server}")).json()["token"].clone();
    let before = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "before");
    let tokens = [1, 2, 3].map(|server| token(&nodes[0], server));

    go_back(&mut engine, &older);
    let late = Node::start(&engine.url(), &[]);
    let all = [&nodes[0], &nodes[1], &late];
    assert_eq!(settle(&mut engine.connect(), &all, "given back"), before);
    assert!(nodes.iter().map(Node::restored).sum::<f64>() >= 10.0, "hardly anything was lost");
    let pairs: Vec<Pair> = [(1, ended), (2, ended)].into_iter().chain(votes).collect();
    for node in all {
        assert_eq!([1, 2, 3].map(|server| token(node, server)), tokens);
        assert_eq!(node.control().get("/v1/servers/4").status, 404);
        let shown: Vec<bool> = next_votes(node.server(), &pairs).iter().map(Option::is_some).collect();
        assert!(!shown[0] && !shown[1] && shown[2..].iter().all(|is_shown| *is_shown), "{shown:?}");
    }
}

/// The node shows, counts and reports a vote that Redis lost and does not take back. It gives the vote back once Redis takes
/// writes.
#[test]
fn what_is_not_taken_back_is_shown_and_told() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    node.record_vote(1, address(1));
    let older = engine.copy();
    node.record_at_once(1, address(2));
    let pairs = [(1, address(1)), (1, address(2))];
    let shown = next_votes(node.server(), &pairs);
    engine.add_args(&["--min-replicas-to-write", "7"]);
    go_back(&mut engine, &older);
    node.server().wait_for_lines("do not restart this node", 1);
    assert!((node.metric("vote_status_store_owed") - 1.0).abs() < f64::EPSILON, "{}", node.server().stderr());
    // Another restart of Redis loses no such vote, and counts none twice.
    let failures = || node.metric(r#"vote_status_store_connection_failures_total{connection="feed"}"#);
    let before = failures();
    go_back(&mut engine, &older);
    wait_until("it has noticed", || failures() > before);
    node.wait_until_following();
    assert_eq!(next_votes(node.server(), &pairs), shown);
    assert!((node.metric("vote_status_store_owed") - 1.0).abs() < f64::EPSILON, "{}", node.server().stderr());
    assert_eq!(node.control().cast(1, address(3)).status, 503);

    engine.connect().ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    wait_until("nothing is owed", || node.metric("vote_status_store_owed") < 0.5);
    node.wait_until_recording(1);
    settle(&mut engine.connect(), &[&node], "once writes are taken");
    assert_eq!(next_votes(node.server(), &pairs), shown);
    assert!((node.restored() - 1.0).abs() < f64::EPSILON, "{}", node.restored());
}

/// A starting node waits until every other one has reported that it owes nothing, or is silent.
#[test]
fn a_start_waits_for_the_others_and_not_for_ever() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let first = Node::start(&engine.url(), &[]);
    first.add_servers(1);
    // The first start on a new store does not wait.
    first.record_at_once(1, address(1));
    let start = |least: Duration| {
        let since = Instant::now();
        let node = Node::start(&engine.url(), &[]);
        assert!(next_votes(node.server(), &[(1, address(1))])[0].is_some(), "status goes on meanwhile");
        assert_eq!(node.readiness().json()["reason"], "unsettled", "{:?}", node.readiness());
        node.wait_until_recording(1);
        assert!(since.elapsed() >= least, "{:?}", since.elapsed());
        println!("it waited for {:?}", since.elapsed());
        (node, since.elapsed())
    };
    let (second, waited) = start(LEAST_WAIT);
    assert!(waited < SILENCE, "the other one has said that it owes nothing: {waited:?}");
    // A starting node waits for nodes that are gone for good, and not for ever.
    drop((first, second));
    let (third, _) = start(SILENCE);
    settle(&mut engine.connect(), &[&third], "alone");
}
