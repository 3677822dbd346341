//! A store with replicas: the answer to every vote tells whether they confirmed it. A first replica raises no alarm.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::Proxy;
use crate::cluster::util::resp::Redis;
use crate::util::ledger::address;
use crate::util::wait_until;
use rustix::process::Signal;

/// Regression: only the answer to a new vote told that it was unconfirmed. A vote that was there already,
/// and any in a batch, looked as if it were on two machines.
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
    // A node that has written nothing on its connection.
    let second = Node::start(&primary.url(), &wait);
    second.wait_until_recording(1);
    assert_eq!(record(&second), (Some(true), Some(false)));
    let batch = second.control().post("/v1/votes/batch", &vote).json();
    assert_eq!((&batch["unchanged"], &batch["unconfirmed"]), (&1.into(), &1.into()), "{batch}");
    // A refused vote and a rotation are no votes that one machine alone has.
    assert_eq!(first.metric("vote_status_store_unconfirmed_total"), 2.0);
    assert_eq!(first.control().cast(1, [192, 0, 2, 1]).status, 409);
    assert_eq!(first.control().post("/v1/servers/1/token", "").status, 200);
    assert_eq!(first.metric("vote_status_store_unconfirmed_total"), 2.0);
    replica.signal(Signal::CONT);
    wait_until("the replica has it", || record(&second) == (Some(true), None));
    wait_until("it has that of a batch", || {
        let batch = second.control().post("/v1/votes/batch", &vote).json();
        batch["unchanged"] == 1 && batch.get("unconfirmed").is_none()
    });
}

/// A primary renames its replication history when its first replica comes, and loses nothing.
#[test]
fn a_first_replica_is_no_other_history() {
    let Some(primary) = Engine::try_store(&[]) else { return };
    let node = Node::start(&primary.url(), &[]);
    node.add_servers(1);
    node.record_vote(1, [192, 0, 2, 1]);
    let mut redis = primary.connect();
    let before = redis.info("master_replid");
    let _replica = Engine::replica_of(primary.addr(), &[]);
    assert_ne!(redis.info("master_replid"), before, "this Redis names its past anew");
    let said = node.server().stderr().lines().count();
    // The node's feed looks once a second, with calls of two read-only functions.
    let (looked, mut number) = (redis.calls("fcall_ro"), 0);
    wait_until("the node has looked, and looked again", || {
        number += 1;
        node.record_at_once(1, address(number));
        redis.calls("fcall_ro") >= looked + 5
    });
    assert!(node.rebuilds_after_start().abs() < f64::EPSILON, "{}", node.server().stderr());
    assert_eq!(node.server().stderr().lines().count(), said, "nobody is alarmed:\n{}", node.server().stderr());
    settle(&mut redis, &[&node], "with a replica");
}

/// The ids of the only node's feed and of its votes' connection. Only a feed waits for the log.
fn connections(redis: &mut Redis) -> Option<[String; 2]> {
    let list = redis.ask(&["CLIENT", "LIST", "TYPE", "normal"]).text().to_owned();
    let field = |line: &str, name| line.split(' ').find_map(|field| field.strip_prefix(name)).map(str::to_owned);
    let (feed, others): (Vec<&str>, Vec<&str>) = list.lines().partition(|line| line.contains(" cmd=xread "));
    let votes = others.into_iter().find(|line| line.contains(" cmd=fcall"))?;
    Some([field(feed.first()?, "id=")?, field(votes, "id=")?])
}

/// Regression: the name of the store led to another primary, the feed went there, and votes went on to the former primary,
/// which still answered. The votes' connection may be the first to go, too.
#[test]
fn votes_go_to_the_process_that_the_feed_reads() {
    for first_to_go in 0..2 {
        let Some(former) = Engine::try_store(&[]) else { return };
        let latter = Engine::replica_of(former.addr(), &[]);
        let name = Proxy::to(former.addr());
        let node = Node::start(&url(name.addr()), &[]);
        node.add_servers(1);
        node.wait_until_recording(1);
        latter.wait_until_as_far_as(former.addr());
        let (mut before, mut after) = (former.connect(), latter.connect());
        after.ask(&["REPLICAOF", "NO", "ONE"]);
        name.aim(latter.addr());
        wait_until("a connection is ended", || {
            let ids = connections(&mut before);
            ids.is_some_and(|ids| before.ask(&["CLIENT", "KILL", "ID", &ids[first_to_go]]).number() == 1)
        });
        wait_until("both connections lead to the new primary", || connections(&mut after).is_some());
        let old = before.ask(&["XLEN", "vs:{0}:log"]).number();
        node.record_vote(1, [192, 0, 2, 2]);
        let (there, here) = (after.ask(&["XLEN", "vs:{0}:log"]).number(), before.ask(&["XLEN", "vs:{0}:log"]).number());
        assert_eq!((there, here), (old + 1, old), "{}", node.server().stderr());
    }
}
