//! What Redis forgets comes back from the nodes that know it, and only that: a vote is server, address and instant,
//! and each listing of a server is one of its own. Until it is back, nobody takes it again.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{claim_of, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::cluster::util::resp::Redis;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::time::{from_rfc3339, now_unix};
use crate::util::wait_until;
use std::time::{Duration, Instant};

/// Takes a vote out of Redis, as if it had never come there.
fn forget(redis: &mut Redis, pair: Pair) {
    let [key, member] = claim_of(pair);
    assert_eq!(redis.ask(&["ZREM", &key, &member]).number(), 1, "{pair:?}");
}

/// Another history: nodes read the state anew, and give back what is missing.
fn restart(engine: &mut Engine) {
    engine.kill();
    engine.run();
}

/// Casts these through a node again and again until each is refused as one that has voted.
fn expect_refused(node: &Node, pairs: &[Pair]) {
    for (server, ip) in pairs {
        wait_until("the vote is known", || {
            let again = node.control().cast(*server, *ip);
            assert_ne!(again.status, 201, "{server} {ip} has voted: {again:?}");
            again.status == 409
        });
    }
}

/// Regression: a removal was remembered by the server's number, so the server was not listed again, nor its votes.
#[test]
fn a_server_that_was_listed_again_comes_back_with_its_votes() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(2);
    let earlier = (1, address(1));
    assert_eq!(nodes[0].control().cast(1, earlier.1).status, 201);
    assert_eq!(nodes[0].control().delete("/v1/servers/1").status, 200);
    nodes[0].control().add_server(1, "again");
    let votes: Vec<Pair> = (2..12).map(|number| (1, address(number))).collect();
    for (server, ip) in &votes {
        assert_eq!(nodes[1].control().cast(*server, *ip).status, 201);
    }
    let before = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "listed again");
    let mut redis = engine.connect();
    assert_eq!(redis.ask(&["HDEL", "vs:{0}:dir", "1"]).number(), 1);
    assert_eq!(redis.ask(&["HDEL", "vs:{0}:tok", "again"]).number(), 1);
    assert_eq!(redis.ask(&["DEL", "vs:{0}:s:1"]).number(), 1);
    restart(&mut engine);
    wait_until("all is given back", || nodes.iter().map(Node::restored).sum::<f64>() >= 10.0);
    assert_eq!(settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "given back"), before);
    expect_refused(&nodes[0], &votes);
    assert_eq!(nodes[0].control().cast(1, earlier.1).status, 201, "its vote went with the earlier listing");
}

/// Regression: whatever lay before a removal or a cancellation was taken for what they had ended.
#[test]
fn votes_of_instants_before_a_removal_or_a_cancellation_come_back() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(2);
    assert_eq!(nodes[0].control().delete("/v1/servers/1").status, 200);
    nodes[0].control().add_server(1, "again");
    let mut votes: Vec<Pair> = Vec::new();
    for number in 1..=20 {
        let (pair, mode) = ((1 + number % 2, address(number)), if number % 4 < 2 { "record" } else { "cast" });
        if pair.0 == 2 {
            // Cancelled, and then the site's own books have an earlier one.
            assert_eq!(nodes[0].control().cast(2, pair.1).status, 201);
            assert_eq!(nodes[0].control().delete(&format!("/v1/votes/2/{}", pair.1)).status, 200);
        }
        let body = format!(r#"{{"server_id":{},"ip":"{}","voted_at":{}}}"#, pair.0, pair.1, now_unix() - 100);
        assert_eq!(nodes[1].control().post(&format!("/v1/votes?mode={mode}"), &body).status, 201);
        votes.push(pair);
    }
    let before = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "imported");
    assert_eq!(before.votes.len(), votes.len());
    let mut redis = engine.connect();
    votes.iter().for_each(|pair| forget(&mut redis, *pair));
    restart(&mut engine);
    wait_until("all is given back", || nodes.iter().map(Node::restored).sum::<f64>() >= 20.0);
    assert_eq!(settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "given back"), before);
    expect_refused(&nodes[0], &votes);
}

/// Regression: the instant of a removed server's vote was given to another one after the server was listed again.
#[test]
fn no_instant_is_told_twice_and_none_is_far_ahead() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    let said = now_unix() - 2;
    let mut told = Vec::new();
    for _ in 0..2 {
        let body = format!(r#"{{"server_id":1,"ip":"{}","voted_at":{said}}}"#, address(1));
        let taken = node.control().post("/v1/votes", &body);
        assert_eq!(taken.status, 201, "{taken:?}");
        told.push(taken.json()["voted_at"].as_str().expect("an instant").to_owned());
        assert_eq!(node.control().delete("/v1/servers/1").status, 200);
        node.control().add_server(1, "token-1");
    }
    assert_ne!(told[0], told[1]);

    // Votes and cancellations in turn: each gets the next second, at most 5 ahead of the clock.
    let until = Instant::now() + Duration::from_secs(20);
    let mut told = Vec::new();
    let refused = loop {
        let taken = node.control().cast(1, address(2));
        if taken.status != 201 {
            break taken;
        }
        let voted_at = taken.json()["voted_at"].as_str().expect("an instant").to_owned();
        assert!(from_rfc3339(&voted_at) <= now_unix() + 5, "{taken:?}");
        assert!(!told.contains(&voted_at), "{taken:?}");
        told.push(voted_at);
        assert_eq!(node.control().delete(&format!("/v1/votes/1/{}", address(2))).status, 200);
        assert!(Instant::now() < until, "it never ends: {told:?}");
    };
    assert_eq!((refused.status, &refused.json()["error"]), (429, &"too_many_changes".into()), "{refused:?}");
    assert_eq!(refused.header("retry-after"), Some("1"), "{refused:?}");
    assert!(format!("{refused:?}").contains("429 Too Many Requests"), "{refused:?}");
    wait_until("a second is free again", || node.control().cast(1, address(2)).status == 201);
}

/// Regression: a node that started just when the policy was put right took what had been dropped.
#[test]
fn a_node_does_not_start_into_an_eviction() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(40);
    let pairs: Vec<Pair> = (1..=40).map(|server| (server, address(1))).collect();
    for (server, ip) in &pairs {
        assert_eq!(node.control().cast(*server, *ip).status, 201);
    }
    let mut redis = engine.connect();
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "volatile-random"]);
    redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
    redis.try_ask(&["SET", "another-key", "1"]).expect("it answers");
    redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
    redis.ask(&["CONFIG", "SET", "maxmemory-policy", "noeviction"]);
    assert!(redis.ask(&["KEYS", "vs:{0}:s:*"]).list().len() < 40, "nothing was dropped");
    let late = Node::start(&engine.url(), &[]);
    expect_refused(&late, &pairs);
    settle(&mut redis, &[&node, &late], "after an eviction");
}

/// Regression: the time for which a starting node waits for the others ran out while nobody could give back.
#[test]
fn a_starting_node_waits_as_long_as_the_store_takes_no_writes() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    let pairs: Vec<Pair> = (1..=200).map(|number| (1, address(number))).collect();
    for (server, ip) in &pairs {
        assert_eq!(node.control().cast(*server, *ip).status, 201);
    }
    let mut redis = engine.connect();
    pairs.iter().for_each(|pair| forget(&mut redis, *pair));
    engine.add_args(&["--min-replicas-to-write", "7"]);
    restart(&mut engine);
    wait_until("the loss is seen", || node.rebuilds("history") >= 1.0);
    let late = Node::start(&engine.url(), &[]);
    let since = Instant::now();
    while since.elapsed() < Duration::from_secs(7) {
        assert_eq!(late.control().cast(1, pairs[0].1).status, 503);
    }
    engine.connect().ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    expect_refused(&late, &pairs);
    settle(&mut engine.connect(), &[&node, &late], "once writes are taken");
}

/// Regression: what was cancelled while a node was cut off was shown by it as long as Redis took no writes.
#[test]
fn a_node_that_cannot_give_back_shows_nothing_that_was_taken_away() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let road = Proxy::to(engine.addr());
    let cut_off = Node::start(&url(road.addr()), &[]);
    let other = Node::start(&engine.url(), &[]);
    other.add_servers(2);
    let [cancelled, removed, lost] = [(1, address(1)), (2, address(2)), (1, address(3))];
    for (server, ip) in [cancelled, removed, lost] {
        assert_eq!(other.control().cast(server, ip).status, 201);
    }
    settle(&mut engine.connect(), &[&cut_off, &other], "before");
    road.set(Mode::Cut);
    assert_eq!(other.control().delete(&format!("/v1/votes/1/{}", cancelled.1)).status, 200);
    assert_eq!(other.control().delete("/v1/servers/2").status, 200);
    other.control().add_server(2, "again");
    forget(&mut engine.connect(), lost);
    engine.add_args(&["--min-replicas-to-write", "7"]);
    restart(&mut engine);
    road.set(Mode::Pass);
    wait_until("the other history is read", || cut_off.rebuilds("history") >= 1.0);
    let shown = next_votes(cut_off.server(), &[cancelled, removed, lost]);
    let is_shown: Vec<bool> = shown.iter().map(Option::is_some).collect();
    assert_eq!(is_shown, [false, false, true], "cancelled, removed with its server, and lost");
    assert!(cut_off.metric("vote_status_store_owed") > 0.5, "it owes what was lost still");
    engine.connect().ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]);
    cut_off.wait_until_recording(1);
    settle(&mut engine.connect(), &[&cut_off, &other], "once writes are taken");
}
