//! Random failovers: three Sentinels watch a primary with two replicas, and two nodes take votes all the time. Machines
//! and Sentinels stop, die and come back, and Sentinels name machines that are no primary. No acknowledged vote is lost,
//! and none counts twice.

use crate::cluster::checker::Seeds;
use crate::cluster::util::engine::{Engine, sentinels_url};
use crate::cluster::util::load::{SERVERS, Tally};
use crate::cluster::util::node::{Node, client};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::Value;
use crate::util::load::Load;
use crate::util::needs::has;
use crate::util::random::Random;
use crate::util::wait_until;
use rustix::process::Signal;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Faults of one round.
const FAULTS: usize = 4;
/// Votes that are recorded after each fault.
const MORE: usize = 50;
/// The longest time until the Sentinels agree: each failed try costs 10 s, and on a busy machine several fail.
const SETTLE_MAX: Duration = Duration::from_secs(300);
/// The longest time until votes are recorded, once the Sentinels agree.
const VOTES_MAX: Duration = Duration::from_secs(60);
/// The longest time until a Sentinel that was asked for another primary has one, or has given up.
const FAILOVER_MAX: Duration = Duration::from_secs(12);
/// The pause between two looks.
const POLL: Duration = Duration::from_millis(20);
/// How long a machine is silent before the Sentinels take it for dead.
const DOWN_AFTER_MS: u32 = 800;
/// With these a primary that is cut off from its replicas stops taking votes.
const ARGS: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "1"];

#[derive(Clone, Copy, Debug)]
enum Fault {
    /// The Sentinels are asked to name another primary.
    Failover,
    /// The primary is killed, and comes back once another one is named.
    Kill,
    /// The primary is stopped for this long, in milliseconds. It may be replaced, and afterwards still claims to be one.
    Freeze(u64),
    /// A Sentinel is stopped, and misses the change of the primary meanwhile.
    Outdated(usize),
    /// This many Sentinels name a replica for this long, in milliseconds, while the nodes' connections end.
    Misled(usize, u64),
    /// Two Sentinels are stopped for this long, in milliseconds: no majority answers, while the nodes' connections end.
    Minority(u64),
}

fn draw(random: &mut Random) -> Fault {
    let ms = 200 + random.below(2_000) as u64;
    match random.below(6) {
        0 => Fault::Failover,
        1 => Fault::Kill,
        2 => Fault::Freeze(2 * ms),
        3 => Fault::Outdated(random.below(3)),
        4 => Fault::Misled(1 + random.below(2), ms),
        _ => Fault::Minority(ms),
    }
}

struct Scene {
    machines: [Engine; 3],
    sentinels: [Engine; 3],
}

impl Scene {
    fn new() -> Scene {
        let primary = Engine::start(&ARGS);
        let replicas = [0, 1].map(|_| Engine::replica_of(primary.addr(), &ARGS));
        let sentinels = [0, 1, 2].map(|_| Engine::sentinel(primary.addr(), 2, DOWN_AFTER_MS, &[]));
        let [first, second] = replicas;
        let scene = Scene { machines: [primary, first, second], sentinels };
        scene.settle();
        scene
    }

    /// Waits until all Sentinels know each other and name one machine, which is a primary with both replicas.
    fn settle(&self) -> usize {
        let until = Instant::now() + SETTLE_MAX;
        loop {
            let named = self.sentinels.each_ref().map(|sentinel| self.named_by(sentinel));
            let one = named[0].filter(|_| named.iter().all(|each| *each == named[0]));
            if let Some(primary) = one.filter(|primary| self.has_replicas(*primary)) {
                return primary;
            }
            assert!(Instant::now() < until, "no agreement within {SETTLE_MAX:?}: {named:?}");
            sleep(POLL);
        }
    }

    /// The machine that a Sentinel names and takes for well, once the Sentinel knows two replicas and two other Sentinels.
    fn named_by(&self, watching: &Engine) -> Option<usize> {
        let mut sentinel = watching.connect();
        for what in ["replicas", "sentinels"] {
            let known = sentinel.try_ask(&["SENTINEL", what, "votes"]).ok()?;
            if !matches!(&known, Value::List(list) if list.len() == 2) {
                return None;
            }
        }
        let said = sentinel.ask(&["SENTINEL", "MASTER", "votes"]);
        let is_well = said.list().chunks(2).any(|pair| pair[0].text() == "flags" && pair[1].text() == "master");
        if is_well { self.primary_of(watching) } else { None }
    }

    /// The machine that a Sentinel names.
    fn primary_of(&self, sentinel: &Engine) -> Option<usize> {
        let named = sentinel.connect().ask(&["SENTINEL", "get-master-addr-by-name", "votes"]);
        let port = named.list()[1].number();
        self.machines.iter().position(|machine| i64::from(machine.addr().port()) == port)
    }

    fn has_replicas(&self, primary: usize) -> bool {
        let role = self.machines[primary].connect().try_ask(&["ROLE"]);
        role.is_ok_and(|role| role.list()[0].text() == "master" && role.list()[2].list().len() == 2)
    }

    fn end_connections_of_nodes(&self, primary: usize) {
        self.machines[primary].connect().ask(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
    }

    /// Lets a Sentinel watch this machine from now on.
    fn point(&self, sentinel: usize, machine: usize) {
        let mut redis = self.sentinels[sentinel].connect();
        redis.ask(&["SENTINEL", "REMOVE", "votes"]);
        let port = self.machines[machine].addr().port().to_string();
        redis.ask(&["SENTINEL", "MONITOR", "votes", "127.0.0.1", &port, "2"]);
        redis.ask(&["SENTINEL", "SET", "votes", "down-after-milliseconds", &DOWN_AFTER_MS.to_string()]);
        redis.ask(&["SENTINEL", "SET", "votes", "failover-timeout", "5000"]);
    }

    fn stage(&mut self, fault: Fault, load: &Load<Tally>) {
        let primary = self.settle();
        match fault {
            Fault::Failover => self.fail_over(0, primary),
            Fault::Kill => {
                self.machines[primary].kill();
                load.wait_for_more_within(SETTLE_MAX, MORE);
                self.machines[primary].run();
            }
            Fault::Freeze(ms) => {
                self.machines[primary].signal(Signal::STOP);
                sleep(Duration::from_millis(ms));
                self.machines[primary].signal(Signal::CONT);
            }
            Fault::Outdated(sentinel) => {
                self.sentinels[sentinel].signal(Signal::STOP);
                // The nodes ask the stopped Sentinel as well, and it does not answer.
                self.fail_over((sentinel + 1) % 3, primary);
                load.wait_for_more_within(SETTLE_MAX, MORE);
                self.sentinels[sentinel].signal(Signal::CONT);
            }
            Fault::Misled(count, ms) => {
                (0..count).for_each(|sentinel| self.point(sentinel, (primary + 1) % 3));
                self.end_connections_of_nodes(primary);
                sleep(Duration::from_millis(ms));
                (0..count).for_each(|sentinel| self.point(sentinel, primary));
            }
            Fault::Minority(ms) => {
                self.sentinels[..2].iter().for_each(|sentinel| sentinel.signal(Signal::STOP));
                self.end_connections_of_nodes(primary);
                sleep(Duration::from_millis(ms));
                self.sentinels[..2].iter().for_each(|sentinel| sentinel.signal(Signal::CONT));
            }
        }
        self.settle();
        load.wait_for_more_within(VOTES_MAX, MORE);
    }

    /// Has a Sentinel name another primary, and waits for that. Two Sentinels that are asked at the same time make two
    /// machines replicas of each other, so no primary is left. The Sentinel may find no replica that is good enough.
    fn fail_over(&self, sentinel: usize, primary: usize) {
        let asked = self.sentinels[sentinel].connect().try_ask(&["SENTINEL", "FAILOVER", "votes"]);
        let is_refused = matches!(asked.expect("a Sentinel answers"), Value::Refused(_));
        let until = Instant::now() + FAILOVER_MAX;
        while !is_refused && self.primary_of(&self.sentinels[sentinel]) == Some(primary) && Instant::now() < until {
            sleep(POLL);
        }
    }
}

#[test]
fn random_failovers_lose_no_vote_and_pay_none_twice() {
    if !has(&["redis-server"]) {
        return;
    }
    let mut seeds = Seeds::from_environment();
    while let Some((what, mut random)) = seeds.next() {
        let faults: Vec<Fault> = (0..FAULTS).map(|_| draw(&mut random)).collect();
        println!("{what}: {faults:?}");
        let mut scene = Scene::new();
        let store = sentinels_url(&scene.sentinels);
        // Redis takes no writes while its replicas report late, as on a busy machine.
        wait_until("the store is made", || client(&["cluster", "init", "--store", &store]).status.success());
        let nodes = Node::start_many(2, &store, &[]);
        nodes[0].add_servers(SERVERS);
        let load = Load::voting(&[&nodes[0], &nodes[1]], 6, 5, 0);
        load.wait_for_more_within(VOTES_MAX, MORE);
        for fault in faults {
            scene.stage(fault, &load);
        }
        let primary = scene.settle();
        let tally = load.stop();
        let truth = settle(&mut scene.machines[primary].connect(), &[&nodes[0], &nodes[1]], &what);
        let lost: Vec<_> = tally.recorded.iter().filter(|(pair, at)| truth.votes.get(pair) != Some(at)).collect();
        assert!(lost.is_empty() && tally.doubles.is_empty(), "{what}: lost {lost:?}, doubles {:?}", tally.doubles);
        let came_back = tally.cancelled.iter().filter(|pair| truth.votes.contains_key(pair)).count();
        assert_eq!(came_back, 0, "{what}: votes that were cancelled");
        seeds.played("failovers");
    }
}
