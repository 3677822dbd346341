//! Faults of connections while the store is well: idle ones are closed or forgotten, replies trickle, and the store
//! stands still for a moment. Votes go on as soon as they can, and `/readyz` tells the truth.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::ledger::address;
use crate::util::wait_until;
use rustix::process::Signal;
use std::time::{Duration, Instant};

/// The shortest idle limit that does no harm.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// The longest time until a node answers a vote, whatever the store does, with room for a busy machine.
const ANSWER_MAX: Duration = Duration::from_secs(6);
/// How long the store stands still.
const PAUSE: Duration = Duration::from_secs(4);
/// The longest time until a node takes the first vote after that.
const RESUME_MAX: Duration = Duration::from_secs(2);

fn wait_for(what: &str, time: Duration) {
    let since = Instant::now();
    wait_until(what, || since.elapsed() > time);
}

/// The first vote after each pause is taken.
fn vote_after_pauses(engine: &Engine, store: &str) {
    let node = Node::start(store, &[]);
    node.add_servers(1);
    for number in 0..3 {
        node.record_at_once(1, address(number));
        wait_for("a pause is over", IDLE_MAX * 3 / 2);
    }
    settle(&mut engine.connect(), &[&node], "after pauses");
}

/// Regression: every vote after a pause was answered 503, as the store had closed the votes' connection.
#[test]
fn votes_go_on_where_the_store_closes_idle_connections() {
    let Some(engine) = Engine::try_store(&["--timeout", "5"]) else { return };
    vote_after_pauses(&engine, &engine.url());
}

/// Regression: a firewall that forgets a connection tells neither end.
#[test]
fn votes_go_on_where_the_network_forgets_idle_connections() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let network = Proxy::to(engine.addr());
    network.set_idle_max(IDLE_MAX);
    vote_after_pauses(&engine, &url(network.addr()));
}

/// Regression: with a deadline for each single read, a reply that came byte by byte delayed all votes for 38 s.
#[test]
fn a_reply_that_trickles_holds_no_vote_up() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let network = Proxy::to(engine.addr());
    let node = Node::start(&url(network.addr()), &[]);
    node.add_servers(1);
    node.record_vote(1, address(0));
    network.set(Mode::Trickle);
    let since = Instant::now();
    let refused = node.control().cast(1, address(1));
    assert!(since.elapsed() < ANSWER_MAX, "{:?} for {refused:?}", since.elapsed());
    assert_eq!((refused.status, &refused.json()["error"]), (503, &"store_unavailable".into()), "{refused:?}");
    wait_until("it is told", || node.readiness().json()["votes"] == false);
    network.set(Mode::Pass);
    node.wait_until_recording(1);
    settle(&mut engine.connect(), &[&node], "once replies come whole");
}

/// Regression: the feed's connection came back and did not end the pause of the votes. `/readyz` was well at 0.06 s, and
/// the first vote was recorded at 2.0 to 2.5 s.
#[test]
fn votes_go_on_at_once_after_the_store_stood_still() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let node = Node::start(&engine.url(), &[]);
    node.add_servers(1);
    node.record_vote(1, address(0));
    engine.signal(Signal::STOP);
    let (since, mut number) = (Instant::now(), 0);
    wait_until("the pause is over", || {
        number += 1;
        assert_eq!(node.control().cast(1, address(number)).status, 503);
        since.elapsed() > PAUSE
    });
    assert_eq!(node.readiness().json()["votes"], false, "{:?}", node.readiness());
    engine.signal(Signal::CONT);
    let resumed_at = Instant::now();
    wait_until("a vote is taken", || {
        number += 1;
        let told = node.readiness().json();
        let answer = node.control().cast(1, address(number));
        assert!(!told["votes"].is_null() || answer.status == 201, "{told} and {answer:?}");
        answer.status == 201
    });
    assert!(resumed_at.elapsed() < RESUME_MAX, "{:?}", resumed_at.elapsed());
}
