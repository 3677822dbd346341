//! Giving votes back must not bring back what was taken away: a vote that was cancelled, or whose
//! server was removed, while a node was cut off.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{claim_of, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::ledger::{Pair, address};
use std::collections::BTreeSet;

/// The server that stays, and the one that goes.
const STAYS: u32 = 1;
const GOES: u32 = 2;

#[test]
fn what_was_taken_away_is_not_given_back() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let proxy = Proxy::to(engine.addr());
    let cut_off = Node::start(&url(proxy.addr()), &[]);
    let other = Node::start(&engine.url(), &[]);
    other.add_servers(2);
    let [cancelled, lost, kept]: [Pair; 3] = [0, 1, 2].map(|number| (STAYS, address(number)));
    let gone = (GOES, address(3));
    for (server, ip) in [cancelled, lost, kept, gone] {
        assert_eq!(other.control().cast(server, ip).status, 201);
    }
    let before = settle(&mut engine.connect(), &[&cut_off, &other], "four votes");
    assert_eq!(before.votes.len(), 4);

    proxy.set(Mode::Cut);
    let path = format!("/v1/votes/{}/{}", cancelled.0, cancelled.1);
    assert_eq!(other.control().delete(&path).status, 200);
    assert_eq!(other.control().delete(&format!("/v1/servers/{GOES}")).status, 200);
    other.control().add_server(GOES, "another-token");
    // The other node forgets all: only the one that was cut off can give anything back.
    drop(other);
    // As if Redis had not kept it: no event says that it is gone.
    let mut redis = engine.connect();
    let [key, member] = claim_of(lost);
    assert_eq!(redis.ask(&["ZREM", &key, &member]).number(), 1);
    engine.kill();
    engine.run();
    proxy.set(Mode::Pass);
    cut_off.wait_until_following();
    crate::util::wait_until("the history is seen", || cut_off.rebuilds("history") >= 1.0);
    crate::util::wait_until("the lost vote is given back", || cut_off.restored() >= 1.0);
    let other = Node::start(&engine.url(), &[]);
    // It does not know this history, and the node that was dropped says nothing any more.
    other.wait_until_recording(STAYS);
    let after = settle(&mut engine.connect(), &[&cut_off, &other], "after the restart");
    let beside = (STAYS, [192, 0, 2, 1].into());
    let votes: BTreeSet<Pair> = after.votes.keys().copied().filter(|pair| *pair != beside).collect();
    assert_eq!(votes, BTreeSet::from([lost, kept]), "cancelled: {cancelled:?}, of a removed server: {gone:?}");
    for pair in [lost, kept] {
        assert_eq!(after.votes[&pair], before.votes[&pair], "the instant of {pair:?}");
    }
    assert!((cut_off.restored() - 1.0).abs() < f64::EPSILON, "{} votes given back", cut_off.restored());
    // Who cancelled may vote, through any node.
    assert_eq!(cut_off.control().cast(cancelled.0, cancelled.1).status, 201);
    assert_eq!(other.control().cast(lost.0, lost.1).status, 409);
}
