//! `vote-status cluster check` compares a running node with Redis. Also: settings and stores with which
//! a node does not start or waits.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client, command, folder};
use crate::cluster::util::oracle::{claim_of, settle};
use crate::util::ledger::address;
use crate::util::load::Load;
use crate::util::server::{Ended, run_to_end};
use crate::util::wait_until;
use std::net::IpAddr;

fn check(engine: &Engine, node: &Node) -> Ended {
    client(&["cluster", "check", "--store", &engine.url(), "--control-url", &node.control_url()])
}

#[test]
fn a_check_finds_what_differs() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(20);
    let load = Load::voting(&[&node], 4, 0, 0);
    load.wait_for_more(300);
    for _ in 0..3 {
        wait_until("the store answers a check in time", || {
            let ended = check(&engine, &node);
            let code = ended.status.code();
            assert!(
                code == Some(0) || (code == Some(2) && ended.stderr.contains("takes too long")),
                "while votes come in: {}{}",
                ended.stdout,
                ended.stderr
            );
            code == Some(0)
        });
    }
    load.stop();
    let truth = settle(&mut engine.connect(), &[&node], "before");
    let ended = check(&engine, &node);
    assert_eq!(ended.status.code(), Some(0), "{}{}", ended.stdout, ended.stderr);

    // One vote less in Redis, and one more, without an entry in the log.
    let (gone, _) = truth.votes.first_key_value().expect("votes");
    let mut redis = engine.connect();
    let [key, member] = claim_of(*gone);
    redis.ask(&["ZREM", &key, &member]);
    let more = address(900_001);
    let now = redis.ask(&["TIME"]).list()[0].number().to_string();
    let [key, member] = claim_of((gone.0, more));
    redis.ask(&["ZADD", &key, &now, &member]);
    let ended = check(&engine, &node);
    assert_eq!(ended.status.code(), Some(1), "{}{}", ended.stdout, ended.stderr);
    for ip in [gone.1, more] {
        assert!(ended.stdout.contains(&ip.to_string()), "{ip} is named: {}", ended.stdout);
    }
    drop(engine);
    let nowhere = client(&["cluster", "check", "--store", "redis://127.0.0.1:1", "--control-url", &node.control_url()]);
    assert_eq!(nowhere.status.code(), Some(2), "{}", nowhere.stderr);
}

/// Cooldown, prefix and schema belong to the store and are the same for all nodes: a node with others does not start.
#[test]
fn a_store_is_made_once_and_a_node_with_other_settings_does_not_start() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let init = |more: &[&str]| client(&[&["cluster", "init", "--store", &engine.url()], more].concat());
    let made = init(&["--ipv6-prefix", "56"]);
    assert!(made.status.success(), "{}", made.stderr);
    // `store ID made, with …`, then `store ID is there already, with …`.
    let id = |said: &str| said.split(' ').nth(1).expect("an id").to_owned();
    assert_eq!(id(&made.stdout), id(&init(&["--ipv6-prefix", "56"]).stdout), "made once, told again");
    let (with, mut redis) = (["--ipv6-prefix", "56"], engine.connect());
    let refused = |args: &[&str], why: &str| {
        let folder = folder();
        let started = run_to_end(command(folder.path(), &engine.url(), args));
        for ended in [init(args), started] {
            assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
            assert!(ended.stderr.contains(why), "{}", ended.stderr);
        }
    };
    refused(&[&with[..], &["--cooldown-minutes", "60"]].concat(), "give --cooldown-minutes 90");
    refused(&[], "give --ipv6-prefix 56");
    for schema in ["1", "9"] {
        redis.ask(&["HSET", "vs:{0}:meta", "schema", schema]);
        refused(&with, &format!("has schema {schema}, and this version knows 3: run the version that made it"));
    }
    assert_eq!(redis.ask(&["XLEN", "vs:{0}:log"]).number(), 0, "nothing was written");
    redis.ask(&["HSET", "vs:{0}:meta", "schema", "3"]);

    // The prefix of 56 bits counts in the function, in a read of the whole state, and in the log.
    let node = Node::start(&engine.url(), &with);
    node.add_servers(1);
    let [ip, near, far] = ["2001:db8:0:ab::7", "2001:db8:0:ff::1", "2001:db8:0:1ab::7"]
        .map(|ip| ip.parse::<IpAddr>().expect("an address"));
    assert_eq!([ip, near, far].map(|ip| node.control().cast(1, ip).status), [201, 409, 201]);
    let late = Node::start(&engine.url(), &with);
    assert_eq!(settle(&mut redis, &[&node, &late], "by 56 bits").votes.len(), 2);
    late.wait_until_recording(1);
    for ip in ["192.0.2.1", &near.to_string()] {
        assert_eq!(late.control().delete(&format!("/v1/votes/1/{ip}")).status, 200);
    }
    assert_eq!(settle(&mut redis, &[&node, &late], "by 56 bits").votes.len(), 1);
}

/// A node that comes back follows the store that it knows, and no other.
#[test]
fn a_node_knows_its_store_again() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    node.record_vote(1, address(1));
    let folder = node.kill();
    let node = Node::start_in(folder, &engine.url(), &[]);
    settle(&mut engine.connect(), &[&node], "a node that came back");
    let folder = node.kill();
    let other = Engine::store(&[]);
    let command = command(folder.path(), &other.url(), &[]);
    let mut redis = other.connect();
    let looked = redis.calls("fcall_ro");
    let node = Node::from_server(crate::util::server::Server::spawn(command), folder);
    wait_until("it has looked, and looked again", || redis.calls("fcall_ro") >= looked + 6);
    assert_eq!(node.readiness().status, 503, "another store is waited out");
    // The state of the node's own store comes under this address: the node goes on.
    redis.ask(&["FLUSHALL"]);
    let source = engine.connect().ask(&["CONFIG", "GET", "port"]).list()[1].text().to_owned();
    redis.ask(&["REPLICAOF", "127.0.0.1", &source]);
    other.wait_for_link();
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    wait_until("it is ready", || node.readiness().status == 200);
    settle(&mut other.connect(), &[&node], "at its own store again");
}
