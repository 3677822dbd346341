//! A disk that takes seconds to sync, and a kill meanwhile: Redis has acknowledged votes that it has
//! not written yet. The nodes have seen them, and give them back.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::{Habits, Load};
use crate::cluster::util::node::{Node, init};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::needs::has;
use crate::util::wait_until;
use std::thread::sleep;
use std::time::Duration;

const SERVERS: u32 = 20;
/// How every thread's `fdatasync` fares from its third one on: those of the start are spared.
const DELAY: &str = "inject=fdatasync:delay_enter=8000000:when=3+";
/// What Redis says when it has put off a write for two seconds and does it at last.
const PUT_OFF: &str = "Asynchronous AOF fsync is taking too long";

#[test]
fn votes_that_redis_lost_on_a_slow_disk_are_given_back() {
    if !has(&["redis-server", "strace"]) {
        return;
    }
    let mut engine = Engine::stopped(&["--appendfsync", "everysec"]);
    let tracer = ["strace", "-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null"];
    engine.wrap(&[&tracer[..], &["-e", "trace=fdatasync", "-e", DELAY]].concat());
    engine.run();
    init(&engine.url());
    let proxy = Proxy::to(engine.addr());
    let nodes = Node::start_many(2, &url(proxy.addr()), &[]);
    nodes[0].add_servers(SERVERS);
    let habits = Habits { connections: 8, servers: SERVERS, pause: Duration::from_millis(4), ..Habits::PLAIN };
    let load = Load::start(&[&nodes[0], &nodes[1]], habits, 0);
    wait_until("Redis waits for its disk", || engine.log().contains(PUT_OFF));
    // It has just written what it had; by now there is something again.
    sleep(Duration::from_secs(1));
    engine.kill();
    proxy.set(Mode::Cut);
    let acknowledged = load.tally();
    engine.wrap(&[]);
    engine.run();
    let lost_by_redis = acknowledged.lost_by(&mut engine.connect());
    proxy.set(Mode::Pass);
    load.wait_for_more(100);
    let tally = load.stop();
    let truth = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "after a kill on a slow disk");
    let restored: Vec<f64> = nodes.iter().map(Node::restored).collect();
    let lost = tally.recorded.keys().filter(|pair| !truth.votes.contains_key(pair)).count();
    println!(
        "{} acknowledged before the kill; Redis lost {lost_by_redis}, the nodes gave back {restored:?}; \
         lost in the end {lost}, doubles {}",
        acknowledged.recorded.len(),
        tally.doubles.len()
    );
    assert!(lost_by_redis > 0, "the disk was not slow enough to lose anything");
    for (pair, voted_at) in &tally.recorded {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert_eq!(tally.doubles, []);
}
