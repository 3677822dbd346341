//! The clock of Redis steps while nodes follow it, by a library that is loaded before the system's.
//! A node's own clock is wrong. Redis alone stamps votes, so only its steps matter.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, command, folder, init};
use crate::cluster::util::oracle::{COOLDOWN_S, settle};
use crate::cluster::util::resp::Redis;
use crate::util::control::until_taken;
use crate::util::ledger::{address, next_votes};
use crate::util::needs::{fake_clock, faketime_library, has, shim};
use crate::util::server::Server;
use crate::util::time::rfc3339;
use crate::util::wait_until;
use std::fs;
use std::path::{Path, PathBuf};

/// A library that sets the clock of Redis some seconds off the machine's. (Debian's libfaketime and Redis'
/// allocator wait for each other at the start.)
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

/// Gives a Redis that is not started yet a clock `step_s` off the machine's. Returns the file for further steps.
pub(crate) fn give_clock(engine: &mut Engine, step_s: i64) -> PathBuf {
    let library = shim(engine.folder(), SHIM);
    let step_file = engine.folder().join("step");
    fs::write(&step_file, step_s.to_string()).expect("the step can be written");
    engine.set_environment("LD_PRELOAD", &library.to_string_lossy());
    engine.set_environment("CLOCK_STEP_FILE", &step_file.to_string_lossy());
    step_file
}

/// Sets the clock of a Redis with such a file `step_s` off the machine's.
pub(crate) fn set_clock(step_file: &Path, step_s: i64) {
    let new = step_file.with_extension("new");
    fs::write(&new, step_s.to_string()).expect("the step can be written");
    fs::rename(&new, step_file).expect("the step can be put in place");
}

/// A Redis with a clock that steps, and two nodes with the machine's.
struct Scene {
    engine: Engine,
    nodes: Vec<Node>,
    step_file: PathBuf,
}

impl Scene {
    fn new() -> Scene {
        let mut engine = Engine::stopped(&[]);
        let step_file = give_clock(&mut engine, 0);
        engine.run();
        init(&engine.url());
        let nodes = Node::start_many(2, &engine.url(), &[]);
        nodes[0].add_servers(1);
        Scene { engine, nodes, step_file }
    }

    /// Sets the clock of Redis `step_s` off the machine's, and waits until the nodes have seen it. After a step
    /// back it also waits until they have read everything anew: they take no vote meanwhile.
    fn step(&self, step_s: i64) {
        let before: i64 = fs::read_to_string(&self.step_file).expect("a step").parse().expect("a number");
        let rebuilds: Vec<f64> = self.nodes.iter().map(|node| node.rebuilds("clock")).collect();
        set_clock(&self.step_file, step_s);
        for (node, rebuilds) in self.nodes.iter().zip(rebuilds) {
            wait_until("a node sees the step", || {
                let offset = node.metric("vote_status_store_clock_offset_seconds");
                (offset - f64::from(i32::try_from(step_s).expect("hours"))).abs() < 1.0
            });
            wait_until("a step back is read anew", || step_s >= before || node.rebuilds("clock") > rebuilds);
            node.wait_until_following();
        }
    }

    /// Casts through one node, and requires the answer.
    fn cast(&self, nth: usize, number: u32, status: u16) {
        cast(&mut self.engine.connect(), &self.nodes[nth], number, status);
    }

    fn settle(&self, what: &str) -> usize {
        let nodes: Vec<&Node> = self.nodes.iter().collect();
        settle(&mut self.engine.connect(), &nodes, what).votes.len()
    }
}

fn now(redis: &mut Redis) -> i64 {
    redis.ask(&["TIME"]).list()[0].number()
}

/// Casts through a node, and requires the answer. A recorded vote must have its instant from the clock of Redis.
fn cast(redis: &mut Redis, node: &Node, number: u32, status: u16) {
    let from = now(redis);
    let response = until_taken("a vote is judged", [status, 409], || node.control().cast(1, address(number)));
    let to = now(redis);
    if response.status == 201 {
        let body = response.json();
        let at = (from..=to).find(|at| body["voted_at"] == rfc3339(*at));
        let at = at.unwrap_or_else(|| panic!("{from} to {to} by the clock of Redis: {response:?}"));
        assert_eq!(body["next_vote_at"], rfc3339(at + COOLDOWN_S), "{response:?}");
    }
}

/// The id of the newest entry of the log: milliseconds, and a number among those of one millisecond.
fn log_id(redis: &mut Redis) -> (i64, i64) {
    let newest = redis.ask(&["XREVRANGE", "vs:{0}:log", "+", "-", "COUNT", "1"]);
    let (ms, nth) = newest.list()[0].list()[0].text().split_once('-').expect("an id");
    (ms.parse().expect("milliseconds"), nth.parse().expect("a number"))
}

/// The moves of the clock that a node has logged, in milliseconds. Moves of a few seconds are left out: a node measures
/// them on a machine that stalls.
fn moves_told(node: &Node) -> Vec<i64> {
    let told = node.server().stderr();
    let moved = told.lines().filter_map(|line| line.split_once("the store's clock moved by ")?.1.split_once(" ms"));
    moved.map(|(ms, _)| ms.parse::<i64>().expect("milliseconds")).filter(|ms| ms.abs() > 30_000).collect()
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
    let ahead = log_id(&mut scene.engine.connect());

    // 150 s back: Redis stamps votes by its clock as it is now, and entries of the log go on in order.
    scene.step(-90);
    scene.cast(0, 1, 409);
    scene.cast(0, 2, 409);
    scene.cast(0, 3, 201);
    assert_eq!(scene.settle("90 s behind"), 3);
    assert!(log_id(&mut scene.engine.connect()) > ahead, "the log goes on");
    // An earlier vote in the key of a server may have more time left than the one that came last.
    let left_ms = scene.engine.connect().ask(&["PTTL", "vs:{0}:s:1"]).number();
    assert!(left_ms > (COOLDOWN_S + 140) * 1_000, "{left_ms} ms are left to the key");

    // A cooldown ahead: earlier votes have ended, for Redis and for every node.
    scene.step(5_400 + 61);
    wait_until("cooldowns end", || {
        let pairs = [1, 2, 3].map(|number| (1, address(number)));
        scene.nodes.iter().all(|node| next_votes(node.server(), &pairs).iter().all(Option::is_none))
    });
    scene.cast(1, 1, 201);
    assert_eq!(scene.settle("a cooldown ahead"), 1);

    // The clock is right again. The last vote is stamped an hour and a half from now, and goes on to count.
    scene.step(0);
    scene.cast(0, 1, 409);
    scene.cast(0, 4, 201);
    // Votes that had ended and that the store has not forgotten yet count again.
    assert_eq!(scene.settle("right again"), 4);
    for node in &scene.nodes {
        let told = moves_told(node);
        let near = |(told, true_ms): (&i64, i64)| (told - true_ms).abs() < 5_000;
        let moves = [60_000, -150_000, 5_551_000, -5_461_000];
        assert!(told.len() == moves.len() && told.iter().zip(moves).all(near), "{told:?}, not {moves:?}");
    }
}

#[test]
fn a_node_with_a_wrong_clock_answers_as_the_others() {
    let Some((library, engine)) = faketime_library().zip(Engine::try_store(&[])) else { return };
    let right = Node::start(&engine.url(), &[]);
    right.add_servers(1);
    right.record_vote(1, address(1));
    for wrong_s in ["-7200", "+7200"] {
        let folder = folder();
        let mut command = command(folder.path(), &engine.url(), &[]);
        fake_clock(&mut command, &library, "FAKETIME", wrong_s);
        let wrong = Node::from_server(Server::spawn(command), folder);
        wrong.wait_until_recording(1);
        let number = if wrong_s.starts_with('-') { 2 } else { 3 };
        for (number, status) in [(number, 201), (1, 409)] {
            cast(&mut engine.connect(), &wrong, number, status);
        }
        settle(&mut engine.connect(), &[&right, &wrong], &format!("a node {wrong_s} s from the others"));
        let pairs = [(1, address(1)), (1, address(number))];
        let shown = next_votes(right.server(), &pairs);
        assert!(shown.iter().all(Option::is_some), "{shown:?}");
        assert_eq!(next_votes(wrong.server(), &pairs), shown);
    }
}
