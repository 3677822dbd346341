//! Nodes of the version before beside nodes of this one: their functions work on the same keys, and each
//! has to leave what the other understands. The functions of that version are a copy; the whole binary is
//! tried where `VOTE_STATUS_TEST_BEFORE` names it: `git worktree add`, and `cargo build --features redis` there.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::library::ALWAYS;
use crate::cluster::util::node::{Node, folder};
use crate::cluster::util::oracle::{COOLDOWN_S, Truth, settle};
use crate::cluster::util::resp::{Redis, Value};
use crate::util::ledger::Pair;
use crate::util::needs::has;
use crate::util::random::Random;
use crate::util::server::Server;
use std::collections::BTreeMap;
use std::process::Command;

/// As that version has them.
const BEFORE: &str = include_str!("functions_vs1.lua");
const LOG: &str = "vs:{0}:log";
const KEYS: [&str; 5] = [LOG, "claims", "vs:{0}:dir", "vs:{0}:meta", "vs:{0}:gone"];
const STEPS: usize = 600;

/// Which functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Vs1,
    Vs2,
}

/// Calls a function of either version on the pair's keys.
fn call(redis: &mut Redis, version: Version, what: &str, count: usize, pair: Pair, arguments: &[&str]) -> Value {
    let claims = format!("vs:{{0}}:s:{}", pair.0);
    let library = if version == Version::Vs1 { "vs1" } else { "vs2" };
    let (function, count_text) = (format!("{library}_{what}"), count.to_string());
    let mut words = vec!["FCALL", &function, &count_text];
    words.extend(KEYS[..count].iter().map(|key| if *key == "claims" { claims.as_str() } else { *key }));
    words.extend(arguments);
    redis.ask(&words)
}

fn vote(redis: &mut Redis, store: &str, version: Version, pair: Pair, mode: &str, t: &str) -> Value {
    let (server, ip) = (pair.0.to_string(), pair.1.to_bits().to_string());
    match version {
        Version::Vs1 => call(redis, version, "vote", 4, pair, &[store, mode, &server, &ip, t]),
        Version::Vs2 => call(redis, version, "vote", 5, pair, &[store, ALWAYS, mode, &server, t, &ip]),
    }
}

/// Each step by one of the two, and what the other did before has to be known to it.
#[test]
fn the_functions_of_two_versions_share_one_store() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    redis.ask(&["FUNCTION", "LOAD", BEFORE]);
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(3);
    let store = redis.ask(&["HGET", "vs:{0}:meta", "store"]).text().to_owned();
    let mut random = Random::from_environment();
    let mut held: BTreeMap<Pair, i64> = BTreeMap::new();
    let mut gone: BTreeMap<Pair, i64> = BTreeMap::new();
    for step in 0..STEPS {
        let version = *random.pick(&[Version::Vs1, Version::Vs2]);
        let pair: Pair = (1 + random.below(3) as u32, [10, 0, 0, random.below(6) as u8].into());
        let (server, ip) = (pair.0.to_string(), pair.1.to_bits().to_string());
        let what = format!("step {step}: {version:?} {pair:?}, held {:?}, gone {:?}", held.get(&pair), gone.get(&pair));
        match random.below(10) {
            0..=5 => {
                let reply = vote(&mut redis, &store, version, pair, "cast", "");
                let [outcome, t] = [0, 1].map(|at| reply.list()[at].number());
                assert_eq!(outcome, if held.contains_key(&pair) { 2 } else { 0 }, "{what}: {reply:?}");
                assert_eq!(t, *held.entry(pair).or_insert(t), "{what}");
                let is_later = gone.get(&pair).is_none_or(|gone| t > *gone || outcome == 2);
                assert!(is_later || version == Version::Vs1, "{what}: {t} is no later second");
            }
            6..=7 => {
                let arguments: &[&str] =
                    if version == Version::Vs1 { &[&store, &server, &ip] } else { &[&store, ALWAYS, &server, &ip] };
                let reply = call(&mut redis, version, "cancel", 5, pair, arguments);
                let expected = held.remove(&pair);
                assert_eq!(reply.list()[0].number(), i64::from(expected.is_none()), "{what}: {reply:?}");
                if let Some(t) = expected {
                    let latest = gone.entry(pair).or_insert(t);
                    // The version before keeps the last one only.
                    *latest = if version == Version::Vs1 { t } else { t.max(*latest) };
                }
            }
            _ => {
                // What either has cancelled is not given back by the other; what is held is there already.
                let Some(t) = held.get(&pair).or_else(|| gone.get(&pair)) else { continue };
                let reply = call(&mut redis, version, "restore", 5, pair, &[&store, &server, &ip, &t.to_string()]);
                assert_eq!(reply.list()[0].number(), 1, "{what}: {reply:?}");
            }
        }
    }
    let truth = settle(&mut redis, &[&node], "by two versions");
    assert_eq!(truth.votes, held);
    assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "{}", node.server().stderr());
    // One count through the entries of both.
    let entries = redis.ask(&["XRANGE", LOG, "-", "+"]);
    for (nth, entry) in entries.list().iter().enumerate() {
        let fields = entry.list()[1].list();
        assert_eq!((fields[0].text(), fields[1].number()), ("n", nth as i64 + 1), "{entry:?}");
    }
    // Ahead of the clock: the version before loses it, this one takes it back.
    let now = redis.ask(&["TIME"]).list()[0].number();
    let (ahead, pair) = ((now + 600).to_string(), (1, [10, 0, 1, 1].into()));
    let restore = |redis: &mut Redis, version| {
        let ip = u32::from(std::net::Ipv4Addr::new(10, 0, 1, 1)).to_string();
        call(redis, version, "restore", 5, pair, &[&store, "1", &ip, &ahead]).list()[0].number()
    };
    assert_eq!(restore(&mut redis, Version::Vs1), 1);
    assert_eq!(restore(&mut redis, Version::Vs2), 0);
    assert_eq!(settle(&mut redis, &[&node], "with a vote ahead").votes[&pair], now + 600);
}

/// The binary of the version before on the same store: votes, cancellations and servers of each are shown by
/// both, neither reads anything anew, and what Redis lost comes back from either.
#[test]
fn nodes_of_two_versions_share_one_store() {
    let Ok(before) = std::env::var("VOTE_STATUS_TEST_BEFORE") else { return };
    if !has(&["redis-server", &before]) {
        return;
    }
    let mut engine = Engine::store(&["--appendfsync", "always"]);
    let start_before = |engine: &Engine| {
        let folder = folder();
        let mut command = Command::new(&before);
        command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0", "--workers", "1"]);
        command.arg("--data-dir").arg(folder.path()).args(["--store", &engine.url()]);
        Node::from_server(Server::spawn(command), folder)
    };
    let old = start_before(&engine);
    old.add_servers(2);
    let new = Node::start(&engine.url(), &[]);
    new.wait_until_recording(1);
    let nodes = [&old, &new];
    for number in 0..40_u8 {
        let (one, other) = (nodes[usize::from(number % 2)], nodes[usize::from((number + 1) % 2)]);
        let ip = [10, 0, 2, number];
        assert_eq!(one.control().cast(1, ip).status, 201);
        assert_eq!(other.control().cast(1, ip).status, 409);
        if number % 4 == 0 {
            let path = format!("/v1/votes/1/10.0.2.{number}");
            // Of one second, the version before would give both votes one instant.
            assert_eq!(old.control().delete(&path).status, 200);
            assert_eq!(new.control().cast(1, ip).status, 201);
        }
    }
    new.control().add_server(3, "token-3");
    assert_eq!(old.control().delete("/v1/servers/2").status, 200);
    let mut redis = engine.connect();
    let truth = settle(&mut redis, &[&old, &new], "by binaries of two versions");
    for node in nodes {
        assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "{}", node.server().stderr());
    }
    // Redis forgets ten votes; both give them back, each refused for what the other was quicker with.
    for number in 0..10_u8 {
        let ip = u32::from(std::net::Ipv4Addr::new(10, 0, 2, number)).to_string();
        assert_eq!(redis.ask(&["ZREM", "vs:{0}:s:1", &ip]).number(), 1);
    }
    engine.kill();
    engine.run();
    nodes.iter().for_each(|node| node.wait_until_recording(1));
    let mut redis = engine.connect();
    let after = settle(&mut redis, &[&old, &new], "after a loss");
    let lives = |truth: &Truth| truth.votes.iter().filter(|((_, ip), _)| ip.octets()[0] == 10).count();
    assert_eq!(lives(&after), lives(&truth), "within {COOLDOWN_S} s nothing ends");
    assert!(truth.votes.iter().all(|(pair, t)| after.votes.get(pair) == Some(t)));
}
