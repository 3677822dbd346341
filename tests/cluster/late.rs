//! A node that was paused does not carry out requests whose callers no longer wait.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::util::client::Client;
use crate::util::ledger::address;
use crate::util::wait_until;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Regression: a node was paused with a cancellation in its socket, and carried it out once it went on. By then its caller
/// had cancelled through another node, and the address had voted again. A caller that keeps its connection open may have
/// done so as well: it is answered 503.
#[test]
fn a_cancellation_that_a_paused_node_has_not_read_ends_no_later_vote() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    let [paused, other] = [&nodes[0], &nodes[1]];
    other.add_servers(1);
    other.record_vote(1, address(1));
    nodes.iter().for_each(|node| node.wait_until_recording(1));
    let path = format!("/v1/votes/1/{}", address(1));
    let mut callers: Vec<Client> = (0..8).map(|_| Client::connect(paused.control_addr())).collect();

    paused.server().pause();
    let since = Instant::now();
    for caller in &mut callers {
        caller.send(paused.control().request_bytes("DELETE", &path, None));
    }
    assert_eq!(other.control().delete(&path).status, 200);
    other.record_at_once(1, address(1));
    wait_until("the pause has lasted long", || since.elapsed() > Duration::from_millis(1_500));
    paused.server().signal(Signal::CONT);
    for caller in &mut callers {
        assert_eq!(caller.read_response(false).status, 503);
    }
    paused.wait_until_recording(1);
    let again = other.control().cast(1, address(1));
    assert_eq!(again.status, 409, "{again:?}");
    settle(&mut engine.connect(), &[paused, other], "once it goes on");
    paused.server().wait_for_lines("this process stood still for", 1);
}
