//! Stages the faults of a schedule on the processes of a [`World`], and ends them all.

use crate::cluster::checker::NODES;
use crate::cluster::checker::model::Violation;
use crate::cluster::checker::schedule::{Directory, Step, Strain};
use crate::cluster::checker::world::{Place, World, url_of_node};
use crate::cluster::clock::set_clock;
use crate::cluster::util::engine::add_documented_user;
use crate::cluster::util::node::{Node, folder};
use crate::cluster::util::oracle::{Truth, is_numbered};
use crate::cluster::util::proxy::Mode;
use crate::cluster::util::resp::{Redis, Value};
use crate::util::time::now_unix;
use crate::util::wait_until;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The setting: how many replicas a primary must have to take a write.
const REPLICAS: &str = "min-replicas-to-write";
/// The setting: which keys a store evicts when it has no memory left.
const POLICY: &str = "maxmemory-policy";
/// The key of the log of votes.
const LOG: &str = "vs:{0}:log";
/// The key of the log while it is renamed.
const AWAY: &str = "log-of-votes";
/// How long a script runs before the store answers others BUSY, in milliseconds.
const BUSY_AFTER_MS: &str = "20";
/// The time in which every node that reaches the store looks at its policy.
const LOOKED_AFTER: Duration = Duration::from_millis(2_500);
/// The pause between two looks while everything settles.
const POLL: Duration = Duration::from_millis(20);
/// The longest time until store and nodes agree, once all faults are over.
const SETTLE_MAX: Duration = Duration::from_secs(30);

impl World {
    /// Stages the fault of a step.
    pub(super) fn stage(&mut self, fault: &Step) {
        match fault {
            Step::Kill(node) => self.kill(*node),
            Step::Start(node, directory) => self.start(*node, *directory),
            Step::Cut(node) => self.set_road(*node, Mode::Cut),
            Step::Hole(node) => self.set_road(*node, Mode::Hole),
            Step::Open(node) => self.set_road(*node, Mode::Pass),
            Step::FreezeNode(node, ms) => {
                let Some(running) = self.node(*node) else { return };
                running.server().signal(Signal::STOP);
                sleep(Duration::from_millis(*ms));
                running.server().signal(Signal::CONT);
                // Meanwhile others may have gone on without the votes that this node alone held.
                self.model.lost_node(*node, false);
            }
            Step::FreezeStore(ms) => {
                self.primary.signal(Signal::STOP);
                sleep(Duration::from_millis(*ms));
                self.primary.signal(Signal::CONT);
            }
            Step::RestartStore(ms) => {
                self.primary.kill();
                sleep(Duration::from_millis(*ms));
                self.primary.run();
                self.set_up();
            }
            Step::TrimLog => self.tell_store(&["XTRIM", LOG, "MAXLEN", "2"]),
            Step::DropLog => self.tell_store(&["DEL", LOG]),
            Step::DropEntries(count) => {
                let newest = self.primary.connect().ask(&["XREVRANGE", LOG, "+", "-", "COUNT", &count.to_string()]);
                for entry in newest.list() {
                    self.tell_store(&["XDEL", LOG, entry.list()[0].text()]);
                }
            }
            Step::DropFunctions => self.tell_store(&["FUNCTION", "FLUSH"]),
            Step::HoldReplica => {
                self.replica.wait_until_as_far_as(self.primary.addr());
                self.held_at = Some(self.model.moment());
                self.link.set(Mode::Hole);
            }
            Step::Promote(node) => self.promote(*node),
            Step::Save => self.save(),
            Step::Restore(node) => self.restore(*node),
            Step::RefuseWrites => self.set(REPLICAS, "7"),
            Step::TakeWrites => self.set(REPLICAS, "0"),
            Step::Evict => self.set(POLICY, "allkeys-lru"),
            Step::KeepKeys => self.set(POLICY, "noeviction"),
            Step::DropKeys => self.drop_keys(),
            Step::Forbid(commands) => {
                let rules: Vec<String> = commands.iter().map(|command| format!("-{command}")).collect();
                let words = ["ACL", "SETUSER", "vote-status"].into_iter().chain(rules.iter().map(String::as_str));
                self.tell_store(&words.collect::<Vec<&str>>());
            }
            Step::Permit => add_documented_user(&mut self.primary.connect()),
            Step::Delay(node, delays_ms) => self.set_delays(*node, *delays_ms),
            Step::Trickle(node) => self.set_road(*node, Mode::Trickle),
            Step::HoleOneWay(node, way) => self.set_road(*node, Mode::HoleOneWay(*way)),
            Step::CutReply(node) => {
                self.roads[*node].0.cut_reply();
                self.model.lost_node(*node, false);
            }
            Step::Clock(step_s) => {
                let file =
                    self.clock_file.as_ref().expect("a schedule whose clock steps has a store with such a clock");
                set_clock(file, *step_s);
            }
            Step::Strain(strain) => self.strain(*strain),
            Step::Relax => self.relax(),
            other => unreachable!("{other:?} is no fault"),
        }
    }

    fn set_delays(&self, node: usize, delays_ms: [u64; 2]) {
        let [there, back] = delays_ms.map(Duration::from_millis);
        self.roads[node].0.set_delays(there, back);
    }

    fn strain(&mut self, strain: Strain) {
        // The store may accept no other connection until the strain is over.
        let mut store = self.primary.connect();
        match strain {
            Strain::Busy => {
                store.ask(&["CONFIG", "SET", "busy-reply-threshold", BUSY_AFTER_MS]);
                store.send(&[&["EVAL", "while true do end", "0"]]).expect("the store listens");
                let mut other = self.primary.connect();
                wait_until("the script runs", || matches!(other.try_ask(&["PING"]), Ok(Value::Refused(_))));
            }
            Strain::Clients => {
                store.ask(&["CONFIG", "SET", "maxclients", "1"]);
                end_connections_of_nodes(&mut store);
            }
            Strain::Memory => drop(store.ask(&["CONFIG", "SET", "maxmemory", "1"])),
            Strain::Swapped => drop(store.ask(&["SWAPDB", "0", "1"])),
            // There may be no log: an earlier fault has deleted it.
            Strain::Renamed => drop(store.try_ask(&["RENAME", LOG, AWAY]).expect("the store answers")),
            Strain::Password => {
                store.ask(&["ACL", "SETUSER", "vote-status", "resetpass", ">another"]);
                end_connections_of_nodes(&mut store);
            }
        }
        self.strain = Some((strain, store));
    }

    fn relax(&mut self) {
        let Some((strain, mut store)) = self.strain.take() else { return };
        match strain {
            Strain::Busy => {
                self.primary.connect().ask(&["SCRIPT", "KILL"]);
                store.read().expect("the script has ended");
            }
            Strain::Clients => drop(store.ask(&["CONFIG", "SET", "maxclients", "10000"])),
            Strain::Memory => drop(store.ask(&["CONFIG", "SET", "maxmemory", "0"])),
            Strain::Swapped => drop(store.ask(&["SWAPDB", "0", "1"])),
            Strain::Renamed => drop(store.try_ask(&["RENAME", AWAY, LOG]).expect("the store answers")),
            Strain::Password => drop(store.ask(&["ACL", "SETUSER", "vote-status", "resetpass", ">of-the-node"])),
        }
    }

    fn tell_store(&self, words: &[&str]) {
        let answer = self.primary.connect().try_ask(words).expect("the store answers");
        // A store that refuses writes keeps its log.
        let is_refused = matches!(&answer, Value::Refused(why) if !why.starts_with("NOREPLICAS"));
        assert!(!is_refused, "{words:?}: {answer:?}");
    }

    /// Sets this on both machines now, and after each restart of one of them.
    fn set(&mut self, name: &'static str, value: &'static str) {
        self.settings.insert(name, value);
        self.apply_settings();
    }

    fn apply_settings(&self) {
        for machine in [&self.primary, &self.replica] {
            for (name, value) in &self.settings {
                machine.connect().ask(&["CONFIG", "SET", name, value]);
            }
        }
    }

    /// Sets up the machines after a start: the user and the settings.
    pub(super) fn set_up(&self) {
        for machine in [&self.primary, &self.replica] {
            add_documented_user(&mut machine.connect());
        }
        self.apply_settings();
    }

    fn drop_keys(&mut self) {
        self.set(POLICY, "allkeys-lru");
        // Each node that reaches the store looks at the policy once a second.
        sleep(LOOKED_AFTER);
        // Only the keys of votes expire.
        for words in [["maxmemory-policy", "volatile-random"], ["maxmemory", "1"]] {
            self.tell_store(&["CONFIG", "SET", words[0], words[1]]);
        }
        self.primary.connect().try_ask(&["SET", "another-key", "1"]).expect("the store answers");
        self.tell_store(&["CONFIG", "SET", "maxmemory", "0"]);
        self.model.dropped(&self.reaching());
        self.set(POLICY, "noeviction");
    }

    fn kill(&mut self, node: usize) {
        let Some(Place::Running(running)) = self.places[node].take() else { return };
        self.places[node] = Some(Place::Killed(running.kill()));
        self.model.lost_node(node, true);
    }

    fn start(&mut self, node: usize, directory: Directory) {
        let kept = match self.places[node].take() {
            Some(Place::Killed(kept)) => kept,
            running => {
                self.places[node] = running;
                return;
            }
        };
        // Other tests start a node without the store.
        self.set_road(node, Mode::Pass);
        let kept = if directory == Directory::Kept { kept } else { folder() };
        let minutes = (self.cooldown_s / 60).to_string();
        let store = url_of_node(&self.roads[node].0);
        self.places[node] = Some(Place::Running(Node::start_in(kept, &store, &["--cooldown-minutes", &minutes])));
    }

    fn set_road(&mut self, node: usize, mode: Mode) {
        self.roads[node].0.set(mode);
        self.roads[node].1 = mode;
        if mode != Mode::Pass {
            self.model.lost_node(node, false);
        }
    }

    /// Nodes that can give back votes that the store forgets.
    fn reaching(&self) -> BTreeSet<usize> {
        self.running().into_iter().filter(|node| self.roads[*node].1 == Mode::Pass).collect()
    }

    fn promote(&mut self, node: Option<usize>) {
        let moment = self.held_at.take().unwrap_or_else(|| {
            self.replica.wait_until_as_far_as(self.primary.addr());
            self.model.moment()
        });
        for (road, _) in &self.roads {
            road.set(Mode::Cut);
        }
        self.primary.kill();
        if let Some(node) = node {
            self.kill(node);
        }
        self.model.forgotten_since(moment, &self.reaching());
        self.replica.connect().ask(&["REPLICAOF", "NO", "ONE"]);
        std::mem::swap(&mut self.primary, &mut self.replica);
        self.saved = None;
        self.follow_primary();
    }

    /// Leads the roads to the primary again, and makes the other machine a replica of it.
    fn follow_primary(&mut self) {
        for (road, mode) in &self.roads {
            road.aim(self.primary.addr());
            road.set(*mode);
        }
        self.link.set(Mode::Cut);
        self.link.aim(self.primary.addr());
        self.link.set(Mode::Pass);
        self.replica.kill();
        self.replica.run();
        self.set_up();
        let port = self.link.addr().port().to_string();
        self.replica.connect().ask(&["REPLICAOF", "127.0.0.1", &port]);
        self.replica.wait_for_link();
    }

    fn save(&mut self) {
        self.saved = Some((self.primary.copy(), self.model.moment()));
    }

    fn restore(&mut self, node: Option<usize>) {
        let Some((copy, moment)) = self.saved.take() else { return };
        for (road, _) in &self.roads {
            road.set(Mode::Cut);
        }
        self.primary.kill();
        if let Some(node) = node {
            self.kill(node);
        }
        self.primary.put_back(&copy);
        self.model.forgotten_since(moment, &self.reaching());
        self.primary.run();
        self.held_at = None;
        self.follow_primary();
    }

    /// Ends every fault, waits until store and nodes agree, and has the model judge the result.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        self.relax();
        self.link.set(Mode::Pass);
        self.held_at = None;
        self.saved = None;
        add_documented_user(&mut self.primary.connect());
        self.set(REPLICAS, "0");
        self.set(POLICY, "noeviction");
        for node in 0..NODES {
            self.set_delays(node, [0, 0]);
            self.set_road(node, Mode::Pass);
            self.start(node, Directory::Kept);
        }
        for node in self.running() {
            let node = self.node(node).expect("it runs");
            wait_until("a node takes votes again", || node.control().cast(1, [192, 0, 2, 1]).status != 503);
        }
        self.replica.wait_for_link();
        let truth = self.agreed()?;
        let votes = truth.votes.into_iter().filter(|((_, ip), _)| is_numbered(*ip)).collect();
        self.model.settled(&votes, NODES, now_unix())?;
        self.ask_all()
    }

    /// The votes and servers of the store, once every node has the same.
    fn agreed(&self) -> Result<Truth, Violation> {
        let until = Instant::now() + SETTLE_MAX;
        loop {
            let truth = Truth::in_redis_with(&mut self.primary.connect(), self.cooldown_s);
            let shown: Vec<Truth> =
                self.running().iter().filter_map(|node| self.node(*node)).map(Truth::in_node).collect();
            if shown.iter().all(|shown| *shown == truth) {
                return Ok(truth);
            }
            if Instant::now() > until {
                return Err(format!("no agreement within {SETTLE_MAX:?}: the store {truth:?}, the nodes {shown:?}"));
            }
            sleep(POLL);
        }
    }
}

fn end_connections_of_nodes(store: &mut Redis) {
    store.ask(&["CLIENT", "KILL", "USER", "vote-status"]);
}
