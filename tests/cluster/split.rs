//! A primary that is cut off from its replicas stops taking votes, where it is told to: what it took
//! would be forgotten when another is promoted.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::client::get;
use crate::util::ledger::address;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Between the cut and the first refusal: a lag of a second, and how often Redis looks.
const REFUSED_WITHIN: Duration = Duration::from_millis(3_500);

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
    assert_eq!(node.control().cast(1, address(0)).status, 201);

    link.set(Mode::Hole);
    let cut_at = Instant::now();
    let mut accepted = 0;
    let refused = (1..).find_map(|number| {
        let response = node.control().cast(1, address(number));
        assert!(cut_at.elapsed() < REFUSED_WITHIN, "still taken: {response:?}");
        if response.status == 201 {
            accepted += 1;
            sleep(Duration::from_millis(10));
            return None;
        }
        Some((number, response))
    });
    let (number, response) = refused.expect("one is refused");
    println!("refused {:?} after the cut, {accepted} votes accepted meanwhile", cut_at.elapsed());
    assert_eq!((response.status, &response.json()["error"]), (503, &"store_unavailable".into()));
    let truth = Truth::in_redis(&mut redis);
    assert!(!truth.votes.contains_key(&(1, address(number))), "what is refused is not there");
    // Status goes on.
    let path = format!("/api/vote/1/status/{}", address(0));
    assert_eq!(get(node.server().public(), &path).json()["can_vote"], false);

    link.set(Mode::Pass);
    replica.wait_for_link();
    node.wait_until_recording(1);
    assert_eq!(node.control().cast(1, address(number)).status, 201);
    settle(&mut redis, &[&node], "when the replica is back");
}
