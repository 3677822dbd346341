//! The log is trimmed or removed behind a node's back, or Redis is emptied: a node notices, builds
//! its table anew from what is true, or stays with what it has where nothing true is left.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::client::get;
use crate::util::ledger::{address, next_votes};
use crate::util::load::Load;
use crate::util::server::Server;
use crate::util::wait_until;

const LOG: &str = "vs:{0}:log";

/// A node behind a proxy and one beside it, with some votes.
struct Scene {
    engine: Engine,
    proxy: Proxy,
    behind: Node,
    beside: Node,
}

impl Scene {
    fn new() -> Option<Scene> {
        let engine = Engine::try_store(&[])?;
        let proxy = Proxy::to(engine.addr());
        let behind = Node::start(&url(proxy.addr()), &[]);
        let beside = Node::start(&engine.url(), &[]);
        beside.add_servers(SERVERS);
        let scene = Scene { engine, proxy, behind, beside };
        scene.cast(500, 0);
        scene.settle("before");
        Some(scene)
    }

    /// Has votes cast through the node beside the proxy.
    fn cast(&self, votes: usize, first: u32) {
        let load = Load::voting(&[&self.beside], 4, 0, first);
        load.wait_for_more(votes);
        let tally = load.stop();
        assert_eq!((tally.doubles.len(), tally.unavailable), (0, 0));
    }

    fn settle(&self, what: &str) -> Truth {
        settle(&mut self.engine.connect(), &[&self.behind, &self.beside], what)
    }
}

#[test]
fn a_hole_alone_needs_nothing_built_anew() {
    let Some(scene) = Scene::new() else { return };
    let before = Truth::in_node(&scene.behind);
    scene.proxy.set(Mode::Hole);
    scene.cast(300, 100_000);
    wait_until("staleness grows", || scene.behind.metric("vote_status_store_staleness_seconds") > 2.0);
    // What is in the table is served all the while.
    assert_eq!(Truth::in_node(&scene.behind), before);
    assert_eq!(get(scene.behind.server().public(), "/api/vote/1/status/192.0.2.9").status, 200);
    scene.proxy.set(Mode::Pass);
    wait_until("staleness falls", || scene.behind.metric("vote_status_store_staleness_seconds") < 1.0);
    scene.settle("after the hole");
    assert!(scene.behind.rebuilds_after_start().abs() < f64::EPSILON, "nothing was missed, nothing is built anew");
}

/// A name may lead to another machine at each connection: votes are not read from one and the log from
/// another.
#[test]
fn votes_are_read_from_the_machine_that_the_log_is_read_from() {
    let Some(scene) = Scene::new() else { return };
    let other = Engine::start(&[]);
    // A hole in the log: the node connects anew, and then once more for the votes.
    scene.proxy.aim_in_turn(&[scene.engine.addr(), other.addr(), scene.engine.addr()]);
    scene.engine.connect().ask(&["XADD", LOG, "*", "n", "999999", "s", "1", "i", "3221226219"]);
    wait_until("it is built anew", || scene.behind.rebuilds_after_start() > 0.5);
    let all = scene.behind.server().stderr();
    assert!(all.contains("another machine at each connection"), "{all}");
    scene.settle("after");
}

/// `FLUSHALL`, as a site's cache command does it: nodes keep what they have, and one of them fills
/// Redis again.
#[test]
fn an_emptied_redis_is_not_followed_and_filled_from_a_node() {
    let Some(scene) = Scene::new() else { return };
    let before = scene.settle("before");
    scene.engine.connect().ask(&["FLUSHALL"]);
    for node in [&scene.behind, &scene.beside] {
        wait_until("a node stops following", || node.metric("vote_status_store_following") < 0.5);
        assert_eq!(Truth::in_node(node), before, "a node keeps what it has");
        let cast = node.control().cast(1, address(900_000));
        assert_eq!(cast.status, 503, "{cast:?}");
        assert_eq!(cast.json()["error"], "store_unavailable");
        assert_eq!(node.readiness().status, 200, "{:?}", node.readiness());
        let pairs: Vec<_> = before.votes.keys().take(50).copied().collect();
        assert!(next_votes(node.server(), &pairs).iter().all(Option::is_some), "a node shows what it has");
    }
    let url = scene.engine.url();
    let mut reseed = Server::command();
    reseed.args(["reseed", "--store", &url, "--control-url", &scene.behind.control_url()]);
    let ended = crate::util::server::run_to_end(reseed);
    assert!(ended.status.success(), "{}", ended.stderr);
    for node in [&scene.behind, &scene.beside] {
        node.wait_until_following();
        node.wait_until_recording(1);
    }
    let after = scene.settle("after a reseed");
    assert!(before.votes.iter().all(|(pair, voted_at)| after.votes.get(pair) == Some(voted_at)), "no vote is gone");
    assert_eq!(after.servers, before.servers);
    let again = client(&["reseed", "--store", &url, "--control-url", &scene.behind.control_url()]);
    assert_eq!(again.status.code(), Some(2), "what is full is not filled: {}", again.stderr);
    for (number, node) in (910_000..).zip([&scene.behind, &scene.beside]) {
        assert_eq!(node.control().cast(1, address(number)).status, 201);
    }
    scene.settle("after votes");
}
