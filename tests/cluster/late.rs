//! What the network has held up comes when nobody waits for it any more: the store does not do it then.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::ledger::address;
use crate::util::needs::has;
use crate::util::wait_until;

/// Regression: a cancellation that was answered 503, as nobody knew what became of it, was done by Redis once
/// the network let it through, and ended a vote that another node had acknowledged meanwhile.
#[test]
fn a_cancellation_that_was_held_up_ends_no_later_vote() {
    if !has(&["redis-server"]) {
        return;
    }
    let engine = Engine::store(&[]);
    let network = Proxy::to(engine.addr());
    let far = Node::start(&format!("redis://{}", network.addr()), &[]);
    let near = Node::start(&engine.url(), &[]);
    near.add_servers(1);
    let path = format!("/v1/votes/1/{}", address(1));
    assert_eq!(near.control().cast(1, address(1)).status, 201);
    far.wait_until_recording(1);
    let mut redis = engine.connect();

    network.set(Mode::Hole);
    let doubtful = far.control().delete(&path);
    assert_eq!((doubtful.status, &doubtful.json()["error"]), (503, &"store_unavailable".into()), "{doubtful:?}");
    assert_eq!(near.control().delete(&path).status, 200);
    assert_eq!(near.control().cast(1, address(1)).status, 201);
    network.set(Mode::Pass);
    let late = || redis.ask(&["INFO", "errorstats"]).text().contains("errorstat_VSLATE:count=1");
    wait_until("the call that was held up has come", late);
    let again = near.control().cast(1, address(1));
    assert_eq!(again.status, 409, "{again:?}");
    settle(&mut redis, &[&near, &far], "once all has come");
}
