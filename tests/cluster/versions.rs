//! Nodes of the version before beside nodes of this one: their functions work on the same keys, and each
//! has to leave what the other understands. The functions of that version are a copy; the whole binary is
//! tried where `VOTE_STATUS_TEST_BEFORE` names it; `tests/cluster/before` builds it and says where it is.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::library::ALWAYS;
use crate::cluster::util::node::{Node, folder};
use crate::cluster::util::oracle::{COOLDOWN_S, Truth, claim_of, is_numbered, settle};
use crate::cluster::util::resp::{Redis, Value};
use crate::util::client::get;
use crate::util::ledger::{Pair, address};
use crate::util::needs::has;
use crate::util::random::Random;
use crate::util::server::Server;
use crate::util::wait_until;
use std::collections::BTreeMap;
use std::process::Command;

/// As that version has them.
const BEFORE: &str = include_str!("functions_vs1.lua");
const LOG: &str = "vs:{0}:log";
const STEPS: usize = 800;

/// Which functions are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    Vs1,
    Vs2,
}

/// Calls a function of either version on a server's keys.
fn call(redis: &mut Redis, version: Version, what: &str, server: u32, arguments: &[&str]) -> Value {
    let (v4, v6) = (format!("vs:{{0}}:s:{server}"), format!("vs:{{0}}:s:{server}:6"));
    let [dir, tok, meta, gone] = ["dir", "tok", "meta", "gone"].map(|name| format!("vs:{{0}}:{name}"));
    let mut keys = match what {
        "server" => vec![LOG, &dir, &tok, &meta],
        "remove" => vec![LOG, &v4, &dir, &tok, &meta, &gone],
        "vote" if version == Version::Vs1 => vec![LOG, &v4, &dir, &meta],
        _ => vec![LOG, &v4, &dir, &meta, &gone],
    };
    if version == Version::Vs2 && what != "server" {
        keys.push(&v6);
    }
    let library = if version == Version::Vs1 { "vs1" } else { "vs2" };
    let (function, count) = (format!("{library}_{what}"), keys.len().to_string());
    let mut words: Vec<&str> = ["FCALL", &function, &count].into_iter().chain(keys).collect();
    words.push(arguments[0]);
    // Until when it is to be done, which what is given back need not say.
    words.extend((version == Version::Vs2 && what != "restore").then_some(ALWAYS));
    words.extend(&arguments[1..]);
    redis.ask(&words)
}

fn cast(redis: &mut Redis, store: &str, version: Version, pair: Pair) -> Value {
    let (server, [_, ip]) = (pair.0.to_string(), claim_of(pair));
    let arguments: [&str; 5] = match version {
        Version::Vs1 => [store, "cast", &server, &ip, ""],
        Version::Vs2 => [store, "cast", &server, "", &ip],
    };
    call(redis, version, "vote", pair.0, &arguments)
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
        let pair: Pair = (1 + random.below(3) as u32, address(random.below(8) as u32));
        // The version before knows nothing of IPv6, but takes its servers away all the same.
        let is_v6 = pair.1.is_ipv6();
        let either = *random.pick(&[Version::Vs1, Version::Vs2]);
        let version = if is_v6 { Version::Vs2 } else { either };
        let (server, [_, ip]) = (pair.0.to_string(), claim_of(pair));
        let what = format!("step {step}: {version:?} {pair:?}, held {:?}, gone {:?}", held.get(&pair), gone.get(&pair));
        match random.below(10) {
            0..=5 => {
                let reply = cast(&mut redis, &store, version, pair);
                let [outcome, t] = [0, 1].map(|at| reply.list()[at].number());
                assert_eq!(outcome, if held.contains_key(&pair) { 2 } else { 0 }, "{what}: {reply:?}");
                assert_eq!(t, *held.entry(pair).or_insert(t), "{what}");
                let is_later = gone.get(&pair).is_none_or(|gone| t > *gone || outcome == 2);
                assert!(is_later || version == Version::Vs1, "{what}: {t} is no later second");
            }
            6..=7 => {
                let reply = call(&mut redis, version, "cancel", pair.0, &[&store, &server, &ip]);
                let expected = held.remove(&pair);
                assert_eq!(reply.list()[0].number(), i64::from(expected.is_none()), "{what}: {reply:?}");
                if let Some(t) = expected {
                    let latest = gone.entry(pair).or_insert(t);
                    // The version before keeps the last one only.
                    *latest = if version == Version::Vs1 { t } else { t.max(*latest) };
                }
            }
            8 if random.below(3) == 0 => {
                // With its votes of both families, whichever version removes it and lists it again.
                let reply = call(&mut redis, either, "remove", pair.0, &[&store, &server]);
                assert_eq!(reply.list()[0].number(), 0, "{what}: {reply:?}");
                let again = *random.pick(&[Version::Vs1, Version::Vs2]);
                let token = format!("token-{server}");
                let reply = call(&mut redis, again, "server", pair.0, &[&store, "list", &server, &token, &token]);
                assert_eq!(reply.list()[0].number(), 0, "{what}: {reply:?}");
                held.retain(|(of, _), _| *of != pair.0);
            }
            _ => {
                // What either has cancelled is not given back by the other; what is held is there already.
                let Some(t) = held.get(&pair).or_else(|| gone.get(&pair)) else { continue };
                let reply = call(&mut redis, version, "restore", pair.0, &[&store, &server, &ip, &t.to_string()]);
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
    let (ahead, pair) = ((now + 600).to_string(), (1, address(1_000)));
    let restore = |redis: &mut Redis, version| {
        let [_, ip] = claim_of(pair);
        call(redis, version, "restore", 1, &[&store, "1", &ip, &ahead]).list()[0].number()
    };
    assert_eq!(restore(&mut redis, Version::Vs1), 1);
    assert_eq!(restore(&mut redis, Version::Vs2), 0);
    assert_eq!(settle(&mut redis, &[&node], "with a vote ahead").votes[&pair], now + 600);
}

/// The binary of the version before on the same store: votes, cancellations and servers of each are shown by
/// both, neither reads anything anew, and what Redis lost comes back from either. Votes of IPv6, and of voters with
/// several addresses, are taken meanwhile: the old node passes over what it does not know.
#[test]
fn nodes_of_two_versions_share_one_store() {
    // Empty where this clone does not reach back so far.
    let Some(before) = std::env::var("VOTE_STATUS_TEST_BEFORE").ok().filter(|path| !path.is_empty()) else { return };
    if !has(&["redis-server", &before]) {
        return;
    }
    let mut engine = Engine::start(&["--appendfsync", "always"]);
    let made = Command::new(&before).args(["cluster", "init", "--store", &engine.url()]).status();
    assert!(made.expect("the version before runs").success(), "the version before makes the store");
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
    let v4 = |number: u32| address(2 * number);
    for number in 0..40 {
        let (one, other) = (nodes[number as usize % 2], nodes[(number as usize + 1) % 2]);
        assert_eq!(one.control().cast(1, v4(number)).status, 201);
        assert_eq!(other.control().cast(1, v4(number)).status, 409);
        if number % 4 == 0 {
            // Of one second, the version before would give both votes one instant.
            assert_eq!(old.control().delete(&format!("/v1/votes/1/{}", v4(number))).status, 200);
            assert_eq!(new.control().cast(1, v4(number)).status, 201);
        }
        let list = [v4(100 + number), address(2 * number + 1)].map(|ip| format!(r#""{ip}""#)).join(",");
        let list = format!(r#"{{"server_id":1,"ips":[{list}]}}"#);
        assert_eq!(new.control().post("/v1/votes", &list).status, 201);
    }
    // The old node is asked for an address that it cannot read: it never says that somebody has voted.
    let asked = get(old.server().public(), &format!("/api/vote/1/status/{}", address(1)));
    assert_eq!((asked.status, asked.json()["can_vote"].as_bool()), (400, Some(true)));
    assert_eq!(new.control().cast(2, address(1)).status, 201);
    new.control().add_server(3, "token-3");
    // Removed and listed again by the old node: no vote of the earlier listing counts, of either family.
    assert_eq!(old.control().delete("/v1/servers/2").status, 200);
    old.control().add_server(2, "token-2");
    let mut redis = engine.connect();
    let truth = agreed(&mut redis, &old, &new, "by binaries of two versions");
    assert_eq!(truth.votes.iter().filter(|((_, ip), _)| ip.is_ipv6()).count(), 40, "{truth:?}");
    for node in nodes {
        assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "{}", node.server().stderr());
    }
    assert_eq!(new.control().cast(2, address(1)).status, 201, "its vote went with the server");
    let truth = agreed(&mut redis, &old, &new, "listed again");
    // Redis forgets ten votes; both give them back, each refused for what the other was quicker with.
    for number in (0..5).map(v4).chain((0..5).map(|number| address(2 * number + 1))) {
        let [key, member] = claim_of((1, number));
        assert_eq!(redis.ask(&["ZREM", &key, &member]).number(), 1);
    }
    engine.kill();
    engine.run();
    nodes.iter().for_each(|node| node.wait_until_recording(1));
    let after = agreed(&mut engine.connect(), &old, &new, "after a loss");
    let lives = |truth: &Truth| truth.votes.keys().filter(|(_, ip)| is_numbered(*ip)).count();
    assert_eq!(lives(&after), lives(&truth), "within {COOLDOWN_S} s nothing ends");
    assert!(truth.votes.iter().all(|(pair, t)| after.votes.get(pair) == Some(t)));
    // A node of this version that starts now reads what both have written.
    drop(old);
    let late = Node::start(&engine.url(), &[]);
    settle(&mut engine.connect(), &[&new, &late], "after the last old node");
}

/// Waits until the new node shows what is in Redis, and the old one all of it but IPv6.
fn agreed(redis: &mut Redis, old: &Node, new: &Node, what: &str) -> Truth {
    let truth = settle(redis, &[new], what);
    let mut known = truth.clone();
    known.votes.retain(|(_, ip), _| ip.is_ipv4());
    wait_until(&format!("{what}: the old node shows what it knows"), || Truth::in_node(old) == known);
    truth
}
