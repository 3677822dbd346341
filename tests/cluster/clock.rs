//! The clock of Redis steps while nodes follow it, by a library that is loaded before the system's;
//! and a node's own clock is wrong. Redis alone stamps votes, so only its steps matter.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, command, folder, init};
use crate::cluster::util::oracle::settle;
use crate::cluster::util::resp::Redis;
use crate::util::ledger::{address, next_votes};
use crate::util::needs::faketime_library;
use crate::util::needs::has;
use crate::util::server::Server;
use crate::util::time::rfc3339;
use crate::util::wait_until;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Between two readings of one clock, in seconds.
const SLACK_S: i64 = 2;

/// The clock of Redis, so many seconds from the machine's. (Debian's libfaketime and the allocator of
/// Redis wait for each other at the start.)
const SHIM: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec true_now;
    char step[32] = {0};
    int file = open(getenv("CLOCK_STEP_FILE"), O_RDONLY);
    ssize_t count = file < 0 ? 0 : read(file, step, sizeof step - 1);
    if (file >= 0) close(file);
    clock_gettime(CLOCK_REALTIME, &true_now);
    now->tv_sec = true_now.tv_sec + (count > 0 ? atol(step) : 0);
    now->tv_usec = true_now.tv_nsec / 1000;
    return 0;
}
"#;

/// A Redis with a clock that steps, and two nodes with the machine's.
struct Scene {
    engine: Engine,
    nodes: Vec<Node>,
    step_file: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let mut engine = Engine::stopped(&[]);
        let (source, library) = (engine.folder().join("clock.c"), engine.folder().join("clock.so"));
        fs::write(&source, SHIM).expect("the folder takes a file");
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O2", "-o"]).args([&library, &source]);
        assert!(compiler.status().expect("cc can be run").success(), "the shim is right");
        let step_file = engine.folder().join("step");
        fs::write(&step_file, "0").expect("the step can be written");
        engine.set_environment("LD_PRELOAD", &library.to_string_lossy());
        engine.set_environment("CLOCK_STEP_FILE", &step_file.to_string_lossy());
        engine.run();
        init(&engine.url());
        let nodes = Node::start_many(2, &engine.url(), &[]);
        nodes[0].add_servers(1);
        Scene { engine, nodes, step_file }
    }

    fn now(&self) -> i64 {
        now(&mut self.engine.connect())
    }

    /// Steps the clock of Redis, so far from the machine's, and waits until the nodes have seen it, and
    /// have read everything anew where it went back: no vote is taken meanwhile.
    fn step(&self, step_s: i64) {
        let before: i64 = fs::read_to_string(&self.step_file).expect("a step").parse().expect("a number");
        let rebuilds: Vec<f64> = self.nodes.iter().map(|node| node.rebuilds("clock")).collect();
        let new = self.step_file.with_extension("new");
        fs::write(&new, step_s.to_string()).expect("the step can be written");
        fs::rename(&new, &self.step_file).expect("the step can be put in place");
        for (node, rebuilds) in self.nodes.iter().zip(rebuilds) {
            wait_until("a node sees the step", || {
                let offset = node.metric("vote_status_store_clock_offset_seconds");
                (offset - f64::from(i32::try_from(step_s).expect("hours"))).abs() < 1.0
            });
            wait_until("a step back is read anew", || step_s >= before || node.rebuilds("clock") > rebuilds);
            node.wait_until_following();
        }
    }

    /// Casts through one node, and requires the answer and what both nodes then show.
    fn cast(&self, nth: usize, number: u32, status: u16) {
        let response = self.nodes[nth].control().cast(1, address(number));
        assert_eq!(response.status, status, "{response:?}");
        if status == 201 {
            let told = response.json()["voted_at"].as_str().expect("an instant").to_owned();
            let now = self.now();
            let near = (-SLACK_S..=SLACK_S).any(|slack| rfc3339(now + slack) == told);
            assert!(near, "{told} at {} by the clock of Redis", rfc3339(now));
        }
    }

    fn settle(&self, what: &str) -> usize {
        let nodes: Vec<&Node> = self.nodes.iter().collect();
        settle(&mut self.engine.connect(), &nodes, what).votes.len()
    }
}

fn now(redis: &mut Redis) -> i64 {
    redis.ask(&["TIME"]).list()[0].number()
}

fn log_id_ms(redis: &mut Redis) -> i64 {
    let newest = redis.ask(&["XREVRANGE", "vs:{0}:log", "+", "-", "COUNT", "1"]);
    let id = newest.list()[0].list()[0].text().to_owned();
    id.split_once('-').expect("an id").0.parse().expect("milliseconds")
}

#[test]
fn a_step_of_the_clock_of_redis_is_followed_by_all() {
    if !has(&["redis-server", "cc"]) {
        return;
    }
    let scene = Scene::new();
    scene.cast(0, 1, 201);
    assert_eq!(scene.settle("before the steps"), 1);

    scene.step(60);
    scene.cast(1, 1, 409);
    scene.cast(1, 2, 201);
    assert_eq!(scene.settle("60 s ahead"), 2);
    let ahead = log_id_ms(&mut scene.engine.connect());

    // 150 s back: votes are stamped by the clock as it is now, entries of the log go on in order.
    scene.step(-90);
    scene.cast(0, 1, 409);
    scene.cast(0, 2, 409);
    scene.cast(0, 3, 201);
    assert_eq!(scene.settle("90 s behind"), 3);
    assert!(log_id_ms(&mut scene.engine.connect()) >= ahead, "the log does not go back");

    // A cooldown ahead: what was cast before has ended, for Redis and for every node.
    scene.step(5_400 + 61);
    wait_until("cooldowns end", || {
        let pairs = [1, 2, 3].map(|number| (1, address(number)));
        scene.nodes.iter().all(|node| next_votes(node.server(), &pairs).iter().all(Option::is_none))
    });
    scene.cast(1, 1, 201);
    assert_eq!(scene.settle("a cooldown ahead"), 1);

    // And right again: that one vote was given an hour and a half from now, and holds at most a cooldown.
    scene.step(0);
    scene.cast(0, 1, 409);
    scene.cast(0, 4, 201);
    for node in &scene.nodes {
        let log = node.server().stderr();
        assert!(log.contains("clock"), "the node says that the clock stepped:\n{log}");
    }
}

#[test]
fn a_node_with_a_wrong_clock_answers_as_the_others() {
    if !has(&["redis-server", "faketime"]) {
        return;
    }
    let engine = Engine::store(&[]);
    let right = Node::start(&engine.url(), &[]);
    right.add_servers(1);
    right.control().cast(1, address(1));
    for wrong_s in ["-7200", "+7200"] {
        let folder = folder();
        let mut command = command(folder.path(), &engine.url(), &[]);
        command.env("LD_PRELOAD", faketime_library().expect("faketime is here")).env("FAKETIME", wrong_s);
        command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("DONT_FAKE_MONOTONIC", "1");
        let wrong = Node::from_server(Server::spawn(command), folder);
        let number = if wrong_s.starts_with('-') { 2 } else { 3 };
        let response = wrong.control().cast(1, address(number));
        assert_eq!(response.status, 201, "{response:?}");
        let told = response.json()["voted_at"].as_str().expect("an instant").to_owned();
        let now = now(&mut engine.connect());
        assert!((-SLACK_S..=SLACK_S).any(|slack| rfc3339(now + slack) == told), "{wrong_s}: {told}");
        assert_eq!(wrong.control().cast(1, address(1)).status, 409);
        settle(&mut engine.connect(), &[&right, &wrong], &format!("a node {wrong_s} s from the others"));
        let pairs = [(1, address(1)), (1, address(number))];
        assert_eq!(next_votes(right.server(), &pairs), next_votes(wrong.server(), &pairs));
    }
}
