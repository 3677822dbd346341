//! Stages every kind of trouble of a store on a real one. The node must report the right reason
//! in the log, in `/readyz` and as a metric. Regression: the node kept reporting the first reason,
//! whatever came after it.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::resp::Redis;
use crate::util::ledger::address;
use crate::util::{DEADLINE, wait_until};
use rustix::process::Signal;
use std::fs;
use std::thread::scope;

/// The reason that `/readyz` gives for one of the connections; empty where all is well.
fn reason(node: &Node, connection: &str) -> String {
    let body = node.readiness().json();
    assert_eq!(node.readiness().status, 200, "a node stays ready: {body:?}");
    body["store"][connection]["reason"].as_str().unwrap_or_default().to_owned()
}

/// The line of `/readyz` on why the node does not follow the log.
fn message(node: &Node) -> String {
    node.readiness().json()["store"]["feed"]["message"].as_str().unwrap_or_default().to_owned()
}

/// Waits for one of some reasons, with its line and its metric. Tries votes meanwhile.
fn expect(node: &Node, connection: &str, reasons: &[&str], line: &str) {
    let mut last = String::new();
    let mut number = 0;
    let until = std::time::Instant::now() + DEADLINE;
    while !reasons.contains(&last.as_str()) {
        assert!(std::time::Instant::now() < until, "{reasons:?}, not {last:?}:\n{}", node.server().stderr());
        number += 1;
        if connection == "votes" {
            assert_eq!(node.control().cast(1, address(1)).status, 503, "try {number}");
        }
        last = reason(node, connection);
    }
    let metric = format!(r#"vote_status_store_reason{{connection="{connection}",reason="{last}"}}"#);
    assert!(node.metric(&metric) > 0.5 || reason(node, connection) != last, "{metric}");
    wait_until("a line tells of it", || node.server().stderr().contains(line));
}

/// Waits until all is well, and shows it by a vote.
fn expect_well(node: &Node, number: u32) {
    wait_until("all is well again", || {
        let cast = node.control().cast(1, address(number));
        matches!(cast.status, 201 | 409) && reason(node, "feed").is_empty() && reason(node, "votes").is_empty()
    });
}

/// Regression: without an answer of the store, the node said only "the state is being loaded: wait until that is done".
/// Needs no Redis.
#[test]
fn a_node_that_its_store_has_never_answered_says_so() {
    let node = Node::start("redis://127.0.0.1:1", &[]);
    let told = "the state cannot be loaded: the store at 127.0.0.1:1 cannot be reached";
    wait_until("it says why", || node.readiness().json()["message"].as_str().unwrap_or_default().starts_with(told));
    assert_eq!((node.readiness().status, &node.readiness().json()["reason"]), (503, &"loading".into()));
}

#[test]
fn a_store_that_takes_no_votes_says_why() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    expect_well(&node, 10);
    let mut redis = engine.connect();

    redis.ask(&["ACL", "SETUSER", "default", "-zscore"]);
    expect(&node, "votes", &["rights"], "the store at");
    redis.ask(&["ACL", "SETUSER", "default", "+@all"]);
    expect_well(&node, 11);

    redis.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    expect(&node, "votes", &["no_replicas"], "NOREPLICAS");
    redis.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    expect_well(&node, 12);

    // Redis cannot replace a folder that has the file's name.
    let file = engine.folder().join("dump.rdb");
    fs::create_dir(&file).expect("a folder");
    redis.ask(&["CONFIG", "SET", "save", "3600 1"]);
    redis.ask(&["BGSAVE"]);
    wait_until("it could not save", || redis.info("rdb_last_bgsave_status") == "err");
    expect(&node, "votes", &["disk"], "MISCONF");
    redis.ask(&["CONFIG", "SET", "save", ""]);
    expect_well(&node, 13);

    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    expect(&node, "votes", &["memory"], "OOM");
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    expect_well(&node, 14);

    // Without a memory limit Redis evicts nothing, but a limit may come at any moment.
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-ttl"]);
    wait_until("the node has looked", || node.server().stderr().contains("EVICTING store at"));
    expect(&node, "votes", &["eviction"], "with maxmemory-policy volatile-ttl it drops votes");
    let late = Node::start(&engine.url(), &[]);
    expect(&late, "votes", &["eviction"], "EVICTING store at");
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    expect_well(&node, 15);
}

#[test]
fn a_store_that_is_not_followed_says_why() {
    // Otherwise the file may lack most of the acknowledged writes, and loads in no time.
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    expect_well(&node, 10);
    let mut redis = engine.connect();

    engine.signal(Signal::STOP);
    expect(&node, "feed", &["timeout"], "it takes too long");
    engine.signal(Signal::CONT);
    expect_well(&node, 11);

    let other = Engine::start(&[]);
    redis.ask(&["REPLICAOF", "127.0.0.1", &other.addr().port().to_string()]);
    // The function call itself may be refused first.
    expect(&node, "votes", &["role", "read_only"], "the store at");
    expect(&node, "feed", &["role"], "master -> replica");
    wait_until("it is told what it is now", || message(&node).contains("is a replica: its primary is wanted"));
    wait_until("it has what the other one has", || redis.ask(&["EXISTS", "vs:{0}:meta"]).number() == 0);
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    expect(&node, "feed", &["wrong_store"], "EMPTY store at");

    drop(node);
    redis.ask(&["FLUSHALL"]);
    crate::cluster::util::node::init(&engine.url());
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    expect_well(&node, 12);
    let id = redis.ask(&["HGET", "vs:{0}:meta", "store"]).text().to_owned();
    redis.ask(&["HSET", "vs:{0}:meta", "store", "another"]);
    expect(&node, "feed", &["wrong_store"], "OTHER store at");
    assert_eq!(node.control().cast(1, address(12)).status, 503);
    redis.ask(&["HSET", "vs:{0}:meta", "store", &id]);
    expect_well(&node, 13);

    // A loading Redis looks for requests after each 1,024 commands of its file. That has to be before the node gives up.
    let keys: Vec<String> = (0..40_000).map(|key| format!("key-{key}")).collect();
    let sets: Vec<[&str; 3]> = keys.iter().map(|key| ["SET", key, "1"]).collect();
    let sets: Vec<&[&str]> = sets.iter().map(|words| &words[..]).collect();
    assert_eq!(redis.pipeline(&sets).expect("it takes them").len(), 40_000);
    engine.kill();
    expect(&node, "feed", &["unreachable"], "does not answer");
    // In microseconds. On a busy machine each pause takes many times that, so the delay ends once the node has seen LOADING.
    engine.add_args(&["--key-load-delay", "100"]);
    scope(|all| {
        let addr = engine.addr();
        all.spawn(|| engine.run());
        expect(&node, "feed", &["loading"], "LOADING");
        Redis::connect(addr).ask(&["CONFIG", "SET", "key-load-delay", "0"]);
    });
    expect_well(&node, 14);
}

/// Regression: a changed password was reported as `unexpected end of file`, and a file with the new one needed a restart.
#[test]
fn a_password_is_rotated_without_a_restart() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut redis = engine.connect();
    redis.ask(&["ACL", "SETUSER", "node", "on", ">first", "~*", "&*", "+@all"]);
    let file = engine.folder().join("password");
    let write = |password: &str| fs::write(&file, format!("{password}\n")).expect("the folder takes a file");
    write("first");
    let store = format!("redis://node@{}", engine.addr());
    let with = ["--store-password-file", file.to_str().expect("a path")];
    let made = crate::cluster::util::node::client(&[&["cluster", "init", "--store", &store][..], &with].concat());
    assert!(made.status.success(), "{}", made.stderr);
    let node = Node::start(&store, &with);
    node.add_servers(1);
    expect_well(&node, 10);
    let hang_up = |redis: &mut crate::cluster::util::resp::Redis| redis.ask(&["CLIENT", "KILL", "USER", "node"]);

    // The right way: the user has two passwords for a while, and no vote is refused.
    redis.ask(&["ACL", "SETUSER", "node", ">second"]);
    write("second");
    node.server().signal(Signal::HUP);
    wait_until("SIGHUP tells that it works", || node.server().stderr().contains("the store lets this node in"));
    redis.ask(&["ACL", "SETUSER", "node", "<first"]);
    node.record_at_once(1, address(11));
    hang_up(&mut redis);
    expect_well(&node, 12);

    // Regression: a user with too few rights for a node was reported as let in.
    redis.ask(&["ACL", "SETUSER", "node", "-zadd"]);
    node.server().signal(Signal::HUP);
    wait_until("SIGHUP tells of a right that is missing", || {
        node.server().stderr().contains("the store does not let this node in as its files are now: RIGHTS at the store")
    });
    redis.ask(&["ACL", "SETUSER", "node", "+zadd"]);
    expect_well(&node, 14);

    // The wrong way: the old password is removed first.
    redis.ask(&["ACL", "SETUSER", "node", "<second", ">third"]);
    hang_up(&mut redis);
    expect(&node, "feed", &["authentication"], "WRONGPASS");
    expect(&node, "votes", &["authentication"], "WRONGPASS");
    node.server().signal(Signal::HUP);
    wait_until("SIGHUP tells that it does not", || {
        node.server().stderr().contains("the store does not let this node in as its files are now: the store at")
    });
    fs::remove_file(&file).expect("it is there");
    wait_until("a file that is gone is told", || message(&node).contains("cannot read the store's password file"));
    write("third");
    expect_well(&node, 13);
    let told = node.server().stderr();
    assert!(!["first", "second", "third"].iter().any(|password| told.contains(password)), "{told}");
    assert!(!told.contains("in ps"), "no password was in the address");
    let typed = Node::start(&format!("redis://node:third@{}", engine.addr()), &[]);
    typed.server().wait_for_lines("--store holds a password", 1);
}

/// A process that was stopped finds its system calls interrupted: that is no lost store.
#[test]
fn a_node_that_was_stopped_for_a_moment_has_not_lost_its_store() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    expect_well(&node, 10);
    let failures = || node.metric(r#"vote_status_store_connection_failures_total{connection="feed"}"#);
    let before = failures();
    for number in 0..20 {
        node.server().signal(Signal::STOP);
        std::thread::sleep(std::time::Duration::from_millis(20));
        node.server().signal(Signal::CONT);
        node.record_at_once(1, address(100 + number));
    }
    assert!((failures() - before).abs() < f64::EPSILON, "{}", node.server().stderr());
}
