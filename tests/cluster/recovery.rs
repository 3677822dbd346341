//! What a node does after Redis has lost votes, or may have: it waits for those who know more than it
//! does, and shows on what Redis does not take back.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{claim_of, settle};
use crate::cluster::util::resp::Redis;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::wait_until;
use std::fs;
use std::time::{Duration, Instant};

const WAITS: &str = "votes wait until the other nodes have given back";

/// Removes a vote behind everybody's back: no event says that it is gone.
fn lose(redis: &mut Redis, pair: Pair) {
    let [key, member] = claim_of(pair);
    assert_eq!(redis.ask(&["ZREM", &key, &member]).number(), 1);
}

#[test]
fn only_a_start_in_an_unknown_history_waits() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let first = Node::start(&engine.url(), &[]);
    first.add_servers(1);
    assert_eq!(first.control().cast(1, address(1)).status, 201, "the first start on a new store does not wait");
    // Others have said that they are done: with an empty directory as with a kept one.
    let second = Node::start(&engine.url(), &[]);
    assert_eq!(second.control().cast(1, address(2)).status, 201);
    let kept = second.kill();
    let second = Node::start_in(kept, &engine.url(), &[]);
    assert_eq!(second.control().cast(1, address(3)).status, 201);

    // Redis is started again while one node is away: the others have nothing to wait for.
    let kept = second.kill();
    engine.kill();
    engine.run();
    first.wait_until_recording(1);
    let second = Node::start_in(kept, &engine.url(), &[]);
    second.wait_until_recording(1);
    assert!(second.server().stderr().contains(WAITS), "{}", second.server().stderr());
    assert!(second.server().stderr().contains("all 1 other nodes have given back"), "{}", second.server().stderr());
    assert!(!first.server().stderr().contains(WAITS), "{}", first.server().stderr());

    // A node that is gone for good is waited for, and not for ever.
    let (kept, _gone) = (second.kill(), first.kill());
    engine.kill();
    engine.run();
    let since = Instant::now();
    let second = Node::start_in(kept, &engine.url(), &[]);
    let pairs = [(1, address(1)), (1, address(3))];
    assert!(next_votes(second.server(), &pairs).iter().all(Option::is_some), "status goes on meanwhile");
    second.wait_until_recording(1);
    let waited = since.elapsed();
    println!("waited {waited:?} for a node that is gone");
    assert!((Duration::from_secs(4)..Duration::from_secs(15)).contains(&waited), "{waited:?}");
    settle(&mut engine.connect(), &[&second], "alone");
    let history = fs::read_to_string(second.kill().path().join("store.history")).expect("a history is kept");
    assert_eq!(history.split_whitespace().count(), 2, "{history}");
}

#[test]
fn what_redis_lost_and_refuses_is_shown_counted_and_told() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    let [kept, lost, cancelled]: [Pair; 3] = [1, 2, 3].map(|number| (1, address(number)));
    for (server, ip) in [kept, lost, cancelled] {
        assert_eq!(node.control().cast(server, ip).status, 201);
    }
    let shown = next_votes(node.server(), &[kept, lost, cancelled]);
    let mut redis = engine.connect();
    let [key, member] = claim_of(cancelled);
    let name = format!("1:{member}:{}", redis.ask(&["ZSCORE", &key, &member]).text());
    lose(&mut redis, lost);
    lose(&mut redis, cancelled);
    engine.kill();
    engine.add_args(&["--min-replicas-to-write", "7"]);
    engine.run();

    let owed = || node.metric("vote_status_store_owed");
    wait_until("it is counted", || owed() > 1.5);
    let line = "2 votes and servers are known to nodes alone, and lost with the last of them: do not restart this node";
    wait_until("it is told", || node.server().stderr().contains(line));
    assert_eq!(next_votes(node.server(), &[kept, lost, cancelled]), shown, "what was acknowledged is shown on");
    // Another history takes nothing of it away, and counts nothing twice.
    engine.kill();
    engine.run();
    wait_until("it is read anew", || node.rebuilds("history") >= 2.0);
    wait_until("it is tried again", || node.metric("vote_status_store_following") > 0.5);
    assert_eq!(next_votes(node.server(), &[kept, lost, cancelled]), shown, "nor does another loss");
    assert!((owed() - 2.0).abs() < f64::EPSILON, "{}", owed());
    assert_eq!(node.control().cast(1, address(9)).status, 503);

    let mut redis = engine.connect();
    // As if another node had cancelled it before this one could give it back.
    let words: [&[&str]; 2] =
        [&["CONFIG", "SET", "min-replicas-to-write", "0"], &["ZADD", "vs:{0}:gone", "4000000000", &name]];
    redis.pipeline(&words).expect("Redis answers");
    wait_until("nothing is owed", || owed() < 0.5);
    node.wait_until_recording(1);
    let truth = settle(&mut redis, &[&node], "after it was given back");
    assert!(truth.votes.contains_key(&lost) && !truth.votes.contains_key(&cancelled), "{truth:?}");
    assert!((node.restored() - 1.0).abs() < f64::EPSILON, "{}", node.restored());
    let later = next_votes(node.server(), &[kept, lost, cancelled]);
    assert_eq!((&later[..2], &later[2]), (&shown[..2], &None), "what the store refuses is shown no more");
}
