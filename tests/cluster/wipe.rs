//! The log is trimmed or removed behind a node's back, or Redis is emptied: a node notices, builds
//! its table anew from what is true, or stays with what it has where nothing true is left.

use crate::cluster::util::engine::{Engine, connections, url};
use crate::cluster::util::load::{Habits, Load};
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::client::get;
use crate::util::ledger::{address, next_votes};
use crate::util::needs::has;
use crate::util::server::Server;
use crate::util::wait_until;
use std::thread::sleep;
use std::time::Duration;

const SERVERS: u32 = 20;
const LOG: &str = "vs:{0}:log";

/// A node behind a proxy and one beside it, with some votes.
struct Scene {
    engine: Engine,
    proxy: Proxy,
    behind: Node,
    beside: Node,
}

impl Scene {
    fn new() -> Scene {
        let engine = Engine::store(&[]);
        let proxy = Proxy::to(engine.addr());
        let behind = Node::start(&url(proxy.addr()), &[]);
        let beside = Node::start(&engine.url(), &[]);
        beside.add_servers(SERVERS);
        let scene = Scene { engine, proxy, behind, beside };
        scene.cast(500, 0);
        scene
    }

    /// Has votes cast through the node beside the proxy.
    fn cast(&self, votes: usize, first: u32) {
        let load = Load::start(&[&self.beside], Habits { connections: 4, servers: SERVERS, ..Habits::PLAIN }, first);
        load.wait_for_more(votes);
        let tally = load.stop();
        assert_eq!((tally.doubles.len(), tally.unavailable), (0, 0));
    }

    fn settle(&self, what: &str) -> Truth {
        settle(&mut self.engine.connect(), &[&self.behind, &self.beside], what)
    }
}

/// Nothing but time may trim the log, and Redis does not tell when something else did. The counter does.
#[test]
fn a_trimmed_log_is_noticed() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    scene.settle("before");
    // Shorter and longer than a connection's time-out.
    for (hole, first) in [(Duration::ZERO, 100_000), (Duration::from_millis(2_500), 200_000)] {
        let (rebuilds, gaps) = (scene.behind.rebuilds("gap"), scene.behind.metric("vote_status_store_gaps_total"));
        scene.proxy.set(Mode::Hole);
        scene.cast(300, first);
        assert!(scene.engine.connect().ask(&["XTRIM", LOG, "MAXLEN", "10"]).number() > 200);
        sleep(hole);
        scene.proxy.set(Mode::Pass);
        scene.settle(&format!("after a hole of {hole:?} and a trimmed log"));
        assert!(scene.behind.rebuilds("gap") > rebuilds, "built anew");
        assert!(scene.behind.metric("vote_status_store_gaps_total") > gaps, "a gap is counted");
    }
    assert!(scene.beside.rebuilds_after_start().abs() < f64::EPSILON, "the other node missed nothing");
}

#[test]
fn a_hole_alone_needs_nothing_built_anew() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    scene.settle("before");
    scene.proxy.set(Mode::Hole);
    scene.cast(300, 100_000);
    wait_until("staleness grows", || scene.behind.metric("vote_status_store_staleness_seconds") > 2.0);
    // What is in the table is served all the while.
    let shown = Truth::in_node(&scene.behind).votes.len();
    assert!((500..800).contains(&shown), "{shown} votes");
    assert_eq!(get(scene.behind.server().public(), "/api/vote/1/status/192.0.2.9").status, 200);
    scene.proxy.set(Mode::Pass);
    wait_until("staleness falls", || scene.behind.metric("vote_status_store_staleness_seconds") < 1.0);
    scene.settle("after the hole");
    assert!(scene.behind.rebuilds_after_start().abs() < f64::EPSILON, "nothing was missed, nothing is built anew");
}

#[test]
fn a_removed_log_is_noticed() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    let before = scene.settle("before");
    assert_eq!(scene.engine.connect().ask(&["DEL", LOG]).number(), 1);
    let nodes = [&scene.behind, &scene.beside];
    wait_until("it is noticed", || nodes.iter().all(|node| node.rebuilds_after_start() >= 1.0));
    scene.cast(100, 100_000);
    let after = scene.settle("after the log was removed");
    assert!(before.votes.iter().all(|(pair, voted_at)| after.votes.get(pair) == Some(voted_at)), "no vote is gone");
}

/// An entry that nobody's function wrote: its counter is not the next one.
#[test]
fn a_foreign_entry_is_not_believed() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    scene.settle("before");
    let entry = ["XADD", LOG, "*", "n", "999999", "s", "1", "i", "3221226219"];
    scene.engine.connect().ask(&entry);
    wait_until("it is noticed", || scene.behind.rebuilds("gap") + scene.beside.rebuilds("gap") >= 2.0);
    let after = scene.settle("after a foreign entry");
    assert!(!after.votes.contains_key(&(1, "192.0.2.235".parse().expect("an address"))));
}

/// While the table is built anew what comes meanwhile is not in it: nothing is acknowledged that the
/// node does not show.
#[test]
fn a_vote_answered_201_is_shown_while_the_table_is_built_anew() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    scene.settle("before");
    scene.proxy.set_delay(Duration::from_millis(50));
    scene.engine.connect().ask(&["XADD", LOG, "*", "n", "999999", "s", "1", "i", "3221226219"]);
    let (mut recorded, mut refused) = (0, 0);
    for number in 300_000.. {
        let response = scene.behind.control().cast(1, address(number));
        if response.status == 201 {
            let shown = next_votes(scene.behind.server(), &[(1, address(number))]);
            assert!(shown[0].is_some(), "acknowledged and not shown, after {recorded} and {refused} refused");
            recorded += 1;
        } else {
            assert_eq!(response.status, 503, "{response:?}");
            refused += 1;
        }
        if scene.behind.rebuilds("gap") > 0.5 && response.status == 201 {
            break;
        }
    }
    println!("{recorded} recorded and {refused} refused meanwhile");
    assert!(refused > 0, "it was built anew too fast to see anything");
    scene.settle("after");
}

/// A name may lead to another machine at each connection: votes are not read from one and the log from
/// another.
#[test]
fn votes_are_read_from_the_machine_that_the_log_is_read_from() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    scene.settle("before");
    let other = Engine::start(&[]);
    let (mut redis, mut strange) = (scene.engine.connect(), other.connect());
    scene.proxy.set_delay(Duration::from_millis(50));
    let (here, there) = (connections(&mut redis), connections(&mut strange));
    redis.ask(&["XADD", LOG, "*", "n", "999999", "s", "1", "i", "3221226219"]);
    // The other node connects twice, the one behind the proxy has time to do so once.
    wait_until("the log is asked for", || connections(&mut redis) >= here + 3);
    scene.proxy.aim(other.addr());
    wait_until("votes are asked for", || connections(&mut strange) > there);
    scene.proxy.aim(scene.engine.addr());
    wait_until("it is built anew", || scene.behind.rebuilds_after_start() > 0.5);
    let all = scene.behind.server().stderr();
    assert!(all.contains("another machine at each connection"), "{all}");
    scene.settle("after");
}

/// `FLUSHALL`, as a site's cache command does it: nodes keep what they have, and one of them fills
/// Redis again.
#[test]
fn an_emptied_redis_is_not_followed_and_filled_from_a_node() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
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

/// Another store under the same address is another site's, or an older one: not followed either.
#[test]
fn another_store_is_not_followed() {
    if !has(&["redis-server"]) {
        return;
    }
    let scene = Scene::new();
    let before = scene.settle("before");
    let other = Engine::store(&[]);
    scene.proxy.aim(other.addr());
    scene.proxy.set(Mode::Cut);
    scene.proxy.set(Mode::Pass);
    wait_until("the node stops following", || scene.behind.metric("vote_status_store_following") < 0.5);
    assert_eq!(scene.behind.control().cast(1, address(900_000)).status, 503);
    assert_eq!(Truth::in_node(&scene.behind), before);
    assert_eq!(Truth::in_redis(&mut other.connect()), Truth::default(), "nothing is written there");
    scene.proxy.aim(scene.engine.addr());
    scene.proxy.set(Mode::Cut);
    scene.proxy.set(Mode::Pass);
    scene.behind.wait_until_recording(1);
    scene.settle("back at its own");
}
