//! Three real Sentinels, a primary and two replicas. The primary dies under load, the Sentinels name
//! another, and the nodes find it by themselves.

use crate::cluster::util::engine::{Engine, sentinels_url};
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::{Node, init};
use crate::cluster::util::oracle::settle;
use crate::util::load::Load;
use crate::util::wait_until;

/// How long the primary is silent before the Sentinels take it for dead.
const DOWN_AFTER_MS: u32 = 1_000;

#[test]
fn nodes_follow_the_primary_that_sentinels_name() {
    let Some(mut primary) = Engine::try_start(&[]) else { return };
    let replicas = [0, 1].map(|_| Engine::replica_of(primary.addr(), &[]));
    let sentinels = [0, 1, 2].map(|_| Engine::sentinel(primary.addr(), 2, DOWN_AFTER_MS, &[]));
    for sentinel in &sentinels {
        wait_until("a Sentinel knows the others", || {
            let mut redis = sentinel.connect();
            let mut count = |what| redis.ask(&["SENTINEL", what, "votes"]).list().len();
            (count("replicas"), count("sentinels")) == (2, 2)
        });
    }
    let store = sentinels_url(&sentinels);
    init(&store);
    let nodes = Node::start_many(2, &store, &["--store-wait-replicas", "1"]);
    nodes[0].add_servers(SERVERS);
    let load = Load::voting(&[&nodes[0], &nodes[1]], 16, 0, 0);
    load.wait_for_more(300);
    primary.kill();
    load.wait_for_more(300);
    let tally = load.stop();
    let named = sentinels[0].connect().ask(&["SENTINEL", "get-master-addr-by-name", "votes"]);
    let named = u16::try_from(named.list()[1].number()).expect("a port");
    let promoted = replicas.iter().find(|replica| replica.addr().port() == named).expect("a replica is named");
    let truth = settle(&mut promoted.connect(), &[&nodes[0], &nodes[1]], "after the failover");
    let confirmed = tally.recorded.iter().filter(|(pair, _)| !tally.unconfirmed.contains(pair));
    let lost = confirmed.filter(|(pair, _)| !truth.votes.contains_key(pair)).count();
    assert_eq!((lost, tally.doubles.len()), (0, 0));

    // The old primary comes back and claims for a while to be one: no node believes it.
    primary.run();
    let load = Load::voting(&[&nodes[0], &nodes[1]], 16, 0, 500_000);
    load.wait_for_more(100);
    wait_until("the old primary is made a replica", || {
        // Redis cuts its connections at that moment.
        let role = primary.connect().try_ask(&["ROLE"]);
        role.is_ok_and(|role| role.list()[0].text() == "slave")
    });
    load.wait_for_more(100);
    let tally = load.stop();
    assert_eq!(tally.doubles, []);
    settle(&mut promoted.connect(), &[&nodes[0], &nodes[1]], "with the old primary back");
}
