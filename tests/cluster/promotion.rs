//! The primary dies and a replica is promoted that lacks the last votes, because the link between
//! the two was down: what nodes have seen comes back, and what was confirmed was never away.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::{Habits, Load, Tally};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::cluster::util::resp::Redis;
use crate::util::needs::has;
use crate::util::wait_until;
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SERVERS: u32 = 20;
/// Votes that only the old primary has.
const BEHIND: usize = 100;

/// What a promotion did.
struct Promoted {
    /// Acknowledged until the primary was killed.
    before: Tally,
    /// Of these, not on the promoted replica before any node reached it.
    lost_by_redis: Truth,
    /// Until the end.
    tally: Tally,
    /// What Redis and all nodes have in the end.
    truth: Truth,
    /// Given back, by node.
    restored: Vec<f64>,
}

fn promote(node_options: &[&str]) -> Promoted {
    let mut primary = Engine::store(&[]);
    let link = Proxy::to(primary.addr());
    let replica = Engine::replica_of(link.addr(), &[]);
    let road = Proxy::to(primary.addr());
    let nodes = Node::start_many(2, &url(road.addr()), node_options);
    nodes[0].add_servers(SERVERS);
    let load = Load::start(&[&nodes[0], &nodes[1]], Habits { servers: SERVERS, ..Habits::PLAIN }, 0);
    load.wait_for_more(300);
    link.set(Mode::Hole);
    load.wait_for_more(BEHIND);
    road.set(Mode::Cut);
    let before = load.tally();
    primary.kill();
    let mut redis = replica.connect();
    redis.ask(&["REPLICAOF", "NO", "ONE"]);
    let missing = Truth::in_redis(&mut redis);
    let missing = before.recorded.iter().filter(|(pair, _)| !missing.votes.contains_key(pair));
    let votes = missing.map(|(pair, voted_at)| (*pair, *voted_at)).collect();
    let lost_by_redis = Truth { votes, ..Truth::default() };
    assert_eq!(before.lost_by(&mut redis), lost_by_redis.votes.len());
    road.aim(replica.addr());
    road.set(Mode::Pass);
    load.wait_for_more(100);
    let tally = load.stop();
    let truth = settle(&mut redis, &[&nodes[0], &nodes[1]], "after the promotion");
    let restored = nodes.iter().map(Node::restored).collect();
    for node in &nodes {
        assert!(node.rebuilds("history") >= 1.0, "a new history was seen");
    }
    Promoted { before, lost_by_redis, tally, truth, restored }
}

#[test]
fn a_promoted_replica_gets_back_what_it_lacked() {
    if !has(&["redis-server"]) {
        return;
    }
    let done = promote(&[]);
    println!(
        "without WAIT: {} acknowledged, {} of them lost by Redis, given back {:?}, doubles {}, outage {:?}",
        done.before.recorded.len(),
        done.lost_by_redis.votes.len(),
        done.restored,
        done.tally.doubles.len(),
        done.tally.outage
    );
    assert!(done.lost_by_redis.votes.len() >= BEHIND / 2, "the link was not cut");
    for (pair, voted_at) in &done.tally.recorded {
        assert_eq!(done.truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert_eq!(done.tally.doubles, []);
}

#[test]
fn a_confirmed_vote_is_on_the_promoted_replica() {
    if !has(&["redis-server"]) {
        return;
    }
    let done = promote(&["--store-wait-replicas", "1", "--store-wait-ms", "50"]);
    let unconfirmed = &done.tally.unconfirmed;
    let confirmed_lost = done.lost_by_redis.votes.keys().filter(|pair| !unconfirmed.contains(pair)).count();
    println!(
        "with WAIT 1: {} acknowledged, {} of them unconfirmed; Redis lost {}, of the confirmed ones {confirmed_lost}; \
         doubles {}",
        done.before.recorded.len(),
        done.before.unconfirmed.len(),
        done.lost_by_redis.votes.len(),
        done.tally.doubles.len()
    );
    assert_eq!(confirmed_lost, 0);
    assert!(!done.before.unconfirmed.is_empty(), "votes are told to be unconfirmed while the link is cut");
    assert!(done.before.unconfirmed.len() < done.before.recorded.len(), "no vote was confirmed");
    for (pair, voted_at) in &done.tally.recorded {
        assert_eq!(done.truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert_eq!(done.tally.doubles, []);
}

/// Only a vote that was new was told to be unconfirmed: one that was there already, and any in a batch,
/// looked as if it were on two machines.
#[test]
fn what_no_replica_confirms_is_told_of_every_kind_of_vote() {
    let Some(primary) = Engine::try_store(&[]) else { return };
    let replica = Engine::replica_of(primary.addr(), &[]);
    let wait = ["--store-wait-replicas", "1", "--store-wait-ms", "50"];
    let first = Node::start(&primary.url(), &wait);
    first.add_servers(1);
    let vote = format!(r#"{{"server_id":1,"ip":"192.0.2.1","voted_at":{}}}"#, crate::util::time::now_unix());
    let record = |node: &Node| {
        let body = node.control().post("/v1/votes?mode=record", &vote).json();
        (body["unchanged"].as_bool(), body["confirmed"].as_bool())
    };
    replica.signal(Signal::STOP);
    assert_eq!(record(&first), (None, Some(false)));
    assert_eq!(record(&first), (Some(true), Some(false)));
    // One that has written nothing on its connection.
    let second = Node::start(&primary.url(), &wait);
    assert_eq!(record(&second), (Some(true), Some(false)));
    let batch = second.control().post("/v1/votes/batch", &vote).json();
    assert_eq!((&batch["unchanged"], &batch["unconfirmed"]), (&1.into(), &1.into()), "{batch}");
    replica.signal(Signal::CONT);
    wait_until("the replica has it", || record(&second) == (Some(true), None));
    let batch = second.control().post("/v1/votes/batch", &vote).json();
    assert_eq!((&batch["unchanged"], batch.get("unconfirmed")), (&1.into(), None), "{batch}");
}

/// A primary gives its past another name when its first replica comes: nothing is lost by that.
#[test]
fn a_first_replica_is_no_other_history() {
    let Some(primary) = Engine::try_store(&[]) else { return };
    let node = Node::start(&primary.url(), &[]);
    node.add_servers(1);
    assert_eq!(node.control().cast(1, [192, 0, 2, 1]).status, 201);
    let past = |redis: &mut Redis| {
        let said = redis.ask(&["INFO", "replication"]).text().to_owned();
        said.lines().find_map(|line| line.strip_prefix("master_replid:").map(str::to_owned)).expect("a past")
    };
    let mut redis = primary.connect();
    let before = past(&mut redis);
    let _replica = Engine::replica_of(primary.addr(), &[]);
    assert_ne!(past(&mut redis), before, "this Redis names its past anew");
    let said = node.server().stderr().lines().count();
    let since = Instant::now();
    for last in 2.. {
        assert_eq!(node.control().cast(1, [192, 0, 2, last]).status, 201);
        if since.elapsed() > Duration::from_millis(2_500) {
            break;
        }
        sleep(Duration::from_millis(25));
    }
    assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "{}", node.server().stderr());
    assert_eq!(node.server().stderr().lines().count(), said, "nobody is alarmed:\n{}", node.server().stderr());
    settle(&mut redis, &[&node], "with a replica");
}
