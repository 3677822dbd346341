//! Redis comes back with an older state, or as somebody's replica: another history than the one that
//! the nodes have followed. They notice, and what they have seen is given back.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::{Habits, Load};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::ledger::address;
use crate::util::wait_until;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

const SERVERS: u32 = 20;

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("the folder can be read") {
        let entry = entry.expect("an entry");
        fs::copy(entry.path(), to.join(entry.file_name())).expect("a file can be copied");
    }
}

/// The append-only file of an hour ago is put back. The counter goes on from there, with other votes.
#[test]
fn an_older_file_put_back_is_another_history() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let road = Proxy::to(engine.addr());
    let node = Node::start(&url(road.addr()), &[]);
    node.add_servers(SERVERS);
    let habits = Habits { connections: 4, servers: SERVERS, again_percent: 0, ..Habits::PLAIN };
    let cast = |votes, first| {
        let load = Load::start(&[&node], habits, first);
        load.wait_for_more(votes);
        load.stop()
    };
    let older = cast(200, 0);
    let saved = tempfile::tempdir().expect("a temporary folder");
    engine.kill();
    copy(&engine.appendonly_folder(), saved.path());
    engine.run();
    node.wait_until_recording(1);
    let newer = cast(200, 100_000);
    settle(&mut engine.connect(), &[&node], "before");

    road.set(Mode::Cut);
    engine.kill();
    fs::remove_dir_all(engine.appendonly_folder()).expect("the folder can be removed");
    copy(saved.path(), &engine.appendonly_folder());
    engine.run();
    // Another node goes on from the older state, past the counter that the first one stands at.
    let other = Node::start(&engine.url(), &[]);
    let load = Load::start(&[&other], habits, 200_000);
    load.wait_for_more(400);
    let others = load.stop();
    road.set(Mode::Pass);
    wait_until("the other history is seen", || node.rebuilds("history") >= 2.0);
    wait_until("what was lost is given back", || node.restored() >= 200.0);
    let truth = settle(&mut engine.connect(), &[&node, &other], "after an older file was put back");
    println!(
        "{} votes of the older file, {} after it, {} by the other",
        older.recorded.len(),
        newer.recorded.len(),
        others.recorded.len()
    );
    for (pair, voted_at) in older.recorded.iter().chain(&newer.recorded).chain(&others.recorded) {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
}

/// The primary is made a replica of another one while nodes read from it: they leave it, and follow
/// the other once they are led there.
#[test]
fn a_demoted_primary_is_not_followed() {
    let Some(old) = Engine::try_store(&[]) else { return };
    let new = Engine::replica_of(old.addr(), &[]);
    let road = Proxy::to(old.addr());
    let node = Node::start(&url(road.addr()), &[]);
    node.add_servers(1);
    assert_eq!(node.control().cast(1, address(1)).status, 201);
    new.wait_until_as_far_as(old.addr());
    new.connect().ask(&["REPLICAOF", "NO", "ONE"]);
    old.connect().ask(&["REPLICAOF", "127.0.0.1", &new.addr().port().to_string()]);
    wait_until("the node leaves a replica", || node.metric("vote_status_store_following") < 0.5);
    // And stays away, though that one answers every question of a reader.
    for number in 2..22 {
        assert_eq!(node.control().cast(1, address(number)).status, 503);
        assert!(node.metric("vote_status_store_following") < 0.5, "a replica is followed");
        sleep(Duration::from_millis(50));
    }
    road.aim(new.addr());
    road.set(Mode::Cut);
    road.set(Mode::Pass);
    node.wait_until_recording(1);
    assert_eq!(node.control().cast(1, address(1)).status, 409);
    settle(&mut new.connect(), &[&node], "at the new primary");
}

/// A server that was listed just before Redis failed, and is gone with it, is listed again with its
/// votes. One that was removed stays removed, though nodes had known it.
#[test]
fn a_lost_server_is_listed_again_and_a_removed_one_is_not() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = [Node::start(&engine.url(), &[]), Node::start(&engine.url(), &[])];
    nodes[0].add_servers(3);
    for (server, number) in [(1, 1), (2, 2), (3, 3)] {
        assert_eq!(nodes[0].control().cast(server, address(number)).status, 201);
    }
    assert_eq!(nodes[0].control().delete("/v1/servers/3").status, 200);
    let known = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "before");

    // As if the disk had not seen that server 2 was listed and voted for.
    let mut redis = engine.connect();
    let token = redis.ask(&["HGET", "vs:{0}:dir", "2"]).text().split(';').nth(1).expect("a token").to_owned();
    assert_eq!(redis.ask(&["HDEL", "vs:{0}:dir", "2"]).number(), 1);
    assert_eq!(redis.ask(&["HDEL", "vs:{0}:tok", &token]).number(), 1);
    assert_eq!(redis.ask(&["DEL", "vs:{0}:s:2"]).number(), 1);
    engine.kill();
    engine.run();
    wait_until("the lost vote is given back", || nodes.iter().map(Node::restored).sum::<f64>() >= 1.0);
    let truth = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "after");
    assert_eq!(truth, known);
    for node in &nodes {
        assert_eq!(node.control().get("/v1/servers/2").json()["token"], token.as_str());
        assert_eq!(node.control().get("/v1/servers/3").status, 404);
    }
}
