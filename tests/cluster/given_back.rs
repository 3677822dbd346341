//! What Redis forgets comes back from the nodes that know it, and only that: a vote is server, address and instant,
//! and each listing of a server is one of its own. A node shows on what Redis does not take back yet, and a node that
//! starts waits for those that know more than it does.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{claim_of, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::cluster::util::resp::Redis;
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::wait_until;
use std::fs;
use std::time::{Duration, Instant};

const WAITS: &str = "votes wait until the other nodes have given back";

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

/// Regressions: a removal was remembered by the server's number, so the server was not listed again, nor its votes. And
/// where the directory had lost a server and not its token, the token was taken for another server's.
#[test]
fn a_lost_server_is_listed_again_with_its_votes_and_a_removed_one_is_not() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(4);
    let earlier = address(1);
    for server in [1, 4] {
        assert_eq!(nodes[0].control().cast(server, earlier).status, 201);
        assert_eq!(nodes[0].control().delete(&format!("/v1/servers/{server}")).status, 200);
    }
    nodes[0].control().add_server(1, "again");
    let votes: Vec<Pair> = (2..12).map(|number| (1 + number % 3, address(number))).collect();
    for (server, ip) in &votes {
        assert_eq!(nodes[1].control().cast(*server, *ip).status, 201);
    }
    let before = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "before");
    let mut redis = engine.connect();
    // As a store does that drops keys: without an entry of the log, and whole keys.
    for (server, token) in [("1", None), ("2", Some("token-2")), ("3", None)] {
        assert_eq!(redis.ask(&["HDEL", "vs:{0}:dir", server]).number(), 1);
        if let Some(token) = token {
            assert_eq!(redis.ask(&["HDEL", "vs:{0}:tok", token]).number(), 1);
        }
        assert_eq!(redis.ask(&["DEL", &format!("vs:{{0}}:s:{server}")]).number(), 1);
    }
    restart(&mut engine);
    wait_until("all is given back", || nodes.iter().map(Node::restored).sum::<f64>() >= 10.0);
    assert_eq!(settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "given back"), before);
    for node in &nodes {
        for (server, token) in [(1, "again"), (2, "token-2"), (3, "token-3")] {
            assert_eq!(node.control().get(&format!("/v1/servers/{server}")).json()["token"], token);
        }
        assert_eq!(node.control().get("/v1/servers/4").status, 404);
        let pairs: Vec<Pair> = [(1, earlier)].into_iter().chain(votes.clone()).collect();
        let shown: Vec<bool> = next_votes(node.server(), &pairs).iter().map(Option::is_some).collect();
        assert!(!shown[0] && shown[1..].iter().all(|is_shown| *is_shown), "its vote went with the earlier listing");
    }
}

/// What was taken away while a node was cut off does not come back, not even for as long as Redis takes no writes.
/// What Redis lost is shown, counted and told meanwhile.
#[test]
fn only_what_was_lost_is_shown_and_given_back() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let road = Proxy::to(engine.addr());
    let cut_off = Node::start(&url(road.addr()), &[]);
    let other = Node::start(&engine.url(), &[]);
    other.add_servers(2);
    let [cancelled, removed, lost, ended, kept] =
        [(1, 1), (2, 2), (1, 3), (1, 4), (1, 5)].map(|(server, number)| (server, address(number)));
    let pairs = [cancelled, removed, lost, ended, kept];
    for (server, ip) in pairs {
        assert_eq!(other.control().cast(server, ip).status, 201);
    }
    settle(&mut engine.connect(), &[&cut_off, &other], "before");
    let shown = next_votes(cut_off.server(), &pairs);
    road.set(Mode::Cut);
    assert_eq!(other.control().delete(&format!("/v1/votes/1/{}", cancelled.1)).status, 200);
    assert_eq!(other.control().delete("/v1/servers/2").status, 200);
    other.control().add_server(2, "again");
    // The other node forgets all: only the one that was cut off can give anything back.
    drop(other);
    let mut redis = engine.connect();
    let [key, member] = claim_of(ended);
    let name = format!("1:{member}:{}", redis.ask(&["ZSCORE", &key, &member]).text());
    [lost, ended].iter().for_each(|pair| forget(&mut redis, *pair));
    engine.add_args(&["--min-replicas-to-write", "7"]);
    restart(&mut engine);
    road.set(Mode::Pass);

    let owed = || cut_off.metric("vote_status_store_owed");
    let line = "2 votes and servers are known to nodes alone, and lost with the last of them: do not restart this node";
    wait_until("it is told", || cut_off.server().stderr().contains(line));
    let expected = [None, None, shown[2].clone(), shown[3].clone(), shown[4].clone()];
    assert_eq!(next_votes(cut_off.server(), &pairs), expected, "neither what was cancelled nor what was removed");
    // Another history takes nothing of it away, and counts nothing twice.
    restart(&mut engine);
    wait_until("it is read anew", || cut_off.rebuilds("history") >= 2.0);
    cut_off.wait_until_following();
    assert_eq!(next_votes(cut_off.server(), &pairs), expected);
    assert!((owed() - 2.0).abs() < f64::EPSILON, "{}", owed());
    assert_eq!(cut_off.control().cast(1, address(9)).status, 503);

    let mut redis = engine.connect();
    // As if another node had cancelled it before this one could give it back.
    let words: [&[&str]; 2] =
        [&["CONFIG", "SET", "min-replicas-to-write", "0"], &["ZADD", "vs:{0}:gone", "4000000000", &name]];
    redis.pipeline(&words).expect("Redis answers");
    wait_until("nothing is owed", || owed() < 0.5);
    let other = Node::start(&engine.url(), &[]);
    // It does not know this history, and the node that was dropped says nothing any more.
    other.wait_until_recording(1);
    settle(&mut redis, &[&cut_off, &other], "once writes are taken");
    let expected = [None, None, shown[2].clone(), None, shown[4].clone()];
    assert_eq!(next_votes(other.server(), &pairs), expected);
    assert!((cut_off.restored() - 1.0).abs() < f64::EPSILON, "{}", cut_off.restored());
    assert_eq!(cut_off.control().cast(cancelled.0, cancelled.1).status, 201, "a cancelled pair may vote");
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
    restart(&mut engine);
    first.wait_until_recording(1);
    let second = Node::start_in(kept, &engine.url(), &[]);
    second.wait_until_recording(1);
    assert!(second.server().stderr().contains(WAITS), "{}", second.server().stderr());
    assert!(second.server().stderr().contains("all 1 other nodes have given back"), "{}", second.server().stderr());
    assert!(!first.server().stderr().contains(WAITS), "{}", first.server().stderr());

    // A node that is gone for good is waited for, and not for ever.
    let (kept, _gone) = (second.kill(), first.kill());
    restart(&mut engine);
    let since = Instant::now();
    let second = Node::start_in(kept, &engine.url(), &[]);
    let pairs = [(1, address(1)), (1, address(3))];
    assert!(next_votes(second.server(), &pairs).iter().all(Option::is_some), "status goes on meanwhile");
    second.wait_until_recording(1);
    assert!(since.elapsed() >= Duration::from_secs(5), "{:?}", since.elapsed());
    settle(&mut engine.connect(), &[&second], "alone");
    let history = fs::read_to_string(second.kill().path().join("store.history")).expect("a history is kept");
    assert_eq!(history.split_whitespace().count(), 2, "{history}");
}
