//! A primary that is cut off from its replicas stops taking votes, where it is configured so: a promotion
//! would forget those votes.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::client::get;
use crate::util::ledger::address;
use crate::util::wait_until;

#[test]
fn a_primary_alone_refuses_votes() {
    let Some(primary) = Engine::try_start(&[]) else { return };
    let link = Proxy::to(primary.addr());
    let replica = Engine::replica_of(link.addr(), &[]);
    crate::cluster::util::node::init(&primary.url());
    let mut redis = primary.connect();
    redis.ask(&["CONFIG", "SET", "min-replicas-max-lag", "1"]);
    redis.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]);
    let node = Node::start(&primary.url(), &[]);
    node.wait_until_following();
    node.add_servers(1);
    node.record_vote(1, address(0));

    link.set(Mode::Hole);
    let mut refused = None;
    let mut numbers = 1..;
    wait_until("a vote is refused", || {
        let number = numbers.next().expect("there are more");
        let response = node.control().cast(1, address(number));
        refused = (response.status != 201).then_some((number, response));
        refused.is_some()
    });
    let (number, response) = refused.expect("one is refused");
    assert_eq!((response.status, &response.json()["error"]), (503, &"store_unavailable".into()));
    let truth = Truth::in_redis(&mut redis);
    assert!(!truth.votes.contains_key(&(1, address(number))), "what is refused is not there");
    // Status goes on.
    let path = format!("/api/vote/1/status/{}", address(0));
    assert_eq!(get(node.server().public(), &path).json()["can_vote"], false);

    link.set(Mode::Pass);
    replica.wait_for_link();
    node.wait_until_recording(1);
    node.record_at_once(1, address(number));
    settle(&mut redis, &[&node], "when the replica is back");
}
