//! Nodes start while votes are cast and cancelled and servers come and go. Once ready, they have exactly
//! the votes and servers of the others.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::{SERVERS, body};
use crate::cluster::util::node::{Node, client, folder};
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::control::{Control, until_taken};
use crate::util::ledger::{Pair, address, next_votes};
use crate::util::load::{Caller, Load};
use crate::util::needs::is_long;
use crate::util::wait_until;
use std::thread::sleep;
use std::time::Duration;

/// The last few of the servers come and go.
const RESTLESS: u32 = 4;
/// An entry of the log that is out of turn: a node takes it for a gap.
const HOLE: [&str; 13] =
    ["XADD", "vs:{0}:log", "*", "n", "999999", "b", "7", "p", "0", "s", "1", "v", "3221226219:1800000000"];

/// Far from Redis, the log has a new entry at every answer, so a node that waits for a moment of quiet never starts. While
/// the node rebuilds its state, that state lacks new entries: the node acknowledges nothing that it does not show. It
/// believes no entry that is out of turn.
#[test]
fn a_node_far_away_starts_and_builds_anew_while_votes_never_pause() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let near = Node::start(&engine.url(), &[]);
    near.add_servers(SERVERS);
    let proxy = Proxy::to(engine.addr());
    proxy.set_delays(Duration::from_millis(50), Duration::from_millis(50));
    let load = Load::voting(&[&near], 4, 15, 0);
    load.wait_for_more(500);
    let moves = Load::start([come_and_go(near.control())]);
    let far = Node::start(&url(proxy.addr()), &[]);
    wait_until("servers come and go", || *moves.known() > 10);
    let moves = moves.stop();
    engine.connect().ask(&HOLE);
    let mut numbers = 300_000..;
    wait_until("it is built anew", || {
        let (is_anew, pair) = (far.rebuilds("gap") > 0.5, (1, address(numbers.next().expect("one more"))));
        let response = far.control().cast(pair.0, pair.1);
        assert!(matches!(response.status, 201 | 503), "{response:?}");
        let is_shown = || next_votes(far.server(), &[pair])[0].is_some();
        assert!(response.status == 503 || is_shown(), "acknowledged and not shown: {response:?}");
        is_anew && response.status == 201
    });
    // Regression: the heartbeat was sent among the requests of the rebuild, and took their first replies for its own.
    assert!(!far.server().stderr().contains("makes no sense"), "{}", far.server().stderr());
    load.wait_for_more(100);
    let tally = load.stop();
    let truth = settle(&mut engine.connect(), &[&near, &far], "a node far away");
    println!("{} tries, {} cancelled, {moves} servers removed and listed again", tally.tries, tally.cancelled.len());
    assert!(tally.cancelled.len() > 50, "hardly anything happened");
    // On the servers that stayed, no acknowledged vote is missing, and no cancelled one is there.
    let stayed = 1..=SERVERS - RESTLESS;
    for (pair, voted_at) in tally.recorded.iter().filter(|(pair, _)| stayed.contains(&pair.0)) {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert!(tally.cancelled.iter().all(|pair| !truth.votes.contains_key(pair)), "what was cancelled is there");
    assert_eq!(tally.doubles.iter().filter(|(pair, _)| stayed.contains(&pair.0)).count(), 0);
    assert!(!truth.votes.contains_key(&(1, "192.0.2.235".parse().expect("an address"))));
}

/// Nodes come and go while others take votes and cancellations. Each new node has every vote that was acknowledged before
/// its start, and some take votes themselves. In the end all nodes agree. A long run has a million votes.
#[test]
fn nodes_join_and_leave_while_votes_are_cast() {
    const JOINS_MIN: usize = 6;
    const ASKED: usize = 200;
    let Some(engine) = Engine::try_store(&[]) else { return };
    let votes = if is_long() { 1_000_000 } else { 2_000 };
    let steady = Node::start_many(2, &engine.url(), &[]);
    steady[0].add_servers(SERVERS);
    let load = Load::voting(&[&steady[0], &steady[1]], 16, 2, 0);
    load.wait_for_more(100);
    let (mut joins, mut left) = (0, None);
    let mut own_numbers = 100_000_000..;
    while load.known().recorded.len() < votes || joins < JOINS_MIN {
        let mut asked: Vec<Pair> = {
            let known = load.known();
            known.recorded.keys().step_by(known.recorded.len() / ASKED + 1).copied().collect()
        };
        // Two nodes start on the directory of the one before, two on an empty one.
        let node = Node::start_in(left.take().unwrap_or_else(folder), &engine.url(), &[]);
        joins += 1;
        // A node reads a store that stands still for some seconds later.
        node.wait_until_following();
        let shown = next_votes(node.server(), &asked);
        let mut shown = shown.iter();
        asked.retain(|_| shown.next().is_some_and(Option::is_none));
        // A caller forgets a vote before it cancels it.
        let missing: Vec<&Pair> = asked.iter().filter(|pair| load.known().recorded.contains_key(pair)).collect();
        assert!(missing.is_empty(), "node {joins} does not show {missing:?}");
        // Every third node leaves before it may take votes.
        if joins % 3 != 0 {
            node.wait_until_recording(1);
            let pair = (1, address(own_numbers.next().expect("one more")));
            node.record_at_once(pair.0, pair.1);
            wait_until("another node shows it", || next_votes(steady[0].server(), &[pair])[0].is_some());
        }
        let directory = if joins % 2 == 0 { node.kill() } else { node.stop() };
        left = (joins % 4 < 2).then_some(directory);
    }
    let tally = load.stop();
    let last = Node::start(&engine.url(), &[]);
    let truth = Truth::in_redis(&mut engine.connect());
    let sample: Vec<Pair> = truth.votes.keys().step_by(truth.votes.len() / ASKED + 1).copied().collect();
    for node in [&steady[0], &steady[1], &last] {
        // Compared by the service itself: an export of a million votes is too long for a test to read.
        let check = ["cluster", "check", "--store", &engine.url(), "--control-url", &node.control_url()];
        wait_until("a node has what Redis has", || client(&check).status.success());
        assert!(next_votes(node.server(), &sample).iter().all(Option::is_some), "a vote in Redis is not shown");
    }
    println!("{} votes, {joins} joins, {} answered 503", truth.votes.len(), tally.unavailable);
    for (pair, voted_at) in &tally.recorded {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert!(tally.cancelled.iter().all(|pair| !truth.votes.contains_key(pair)), "what was cancelled is there");
    assert_eq!(tally.doubles, []);
}

/// Removes and lists servers again, each with its token.
fn come_and_go(control: Control) -> Caller<u32> {
    let mut servers = (SERVERS - RESTLESS + 1..=SERVERS).cycle();
    Box::new(move |moves| {
        let server = servers.next().expect("there is always another");
        let response = control.delete(&format!("/v1/servers/{server}"));
        assert_eq!(response.status, 200, "{response:?}");
        sleep(Duration::from_millis(10));
        control.add_server(server, &format!("token-{server}"));
        sleep(Duration::from_millis(20));
        *moves.open() += 1;
    })
}

/// Regression: a store with a limit on a client's output buffer closed the connection of a node far behind, at each try.
#[test]
fn a_node_far_behind_catches_up_with_a_store_that_limits_replies() {
    const VOTES_A_SERVER: u32 = 100;
    const MANY: u32 = 200;
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    let (near, proxy) = (Node::start(&engine.url(), &[]), Proxy::to(engine.addr()));
    near.add_servers(MANY);
    let far = Node::start(&url(proxy.addr()), &[]);
    redis.ask(&["CONFIG", "SET", "client-output-buffer-limit", "normal 262144 0 0"]);
    proxy.set(Mode::Cut);
    for server in 1..=MANY {
        let lines: Vec<_> = (0..VOTES_A_SERVER).map(|number| body(&[(server, address(number))])).collect();
        // A node that was held up for a second refuses a batch, which the site sends again.
        let send = || near.control().post("/v1/votes/batch?mode=cast", &lines.join("\n"));
        let taken = until_taken("a batch is taken", [200, 200], send);
        // Votes of a try that was broken off are in cooldown.
        let counted = ["recorded", "in_cooldown"].map(|name| taken.json()[name].as_u64().unwrap_or(0));
        assert_eq!(counted.iter().sum::<u64>(), u64::from(VOTES_A_SERVER), "{taken:?}");
    }
    proxy.set(Mode::Pass);
    settle(&mut redis, &[&near, &far], "a node far behind");
    assert!(far.rebuilds_after_start() < 0.5, "it has read the state whole");
    // `cluster init` warns the operator of the limit before the first node starts.
    let told = client(&["cluster", "init", "--store", &engine.url()]).stderr;
    assert!(told.contains("warning: client-output-buffer-limit normal has a hard limit of 262144 bytes"), "{told}");
}

/// Regression: one reply with the whole directory of many servers took the store longer than a node waits, and
/// blocked its other clients meanwhile.
#[test]
fn a_directory_of_many_servers_comes_in_pieces() {
    const MANY: u32 = 50_000;
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    let record = |server: &str, token: &str| format!("v2;0000000000000000-{server:0>16};0;{token}");
    let words: Vec<[String; 2]> = (1..=MANY).map(|server| [server.to_string(), format!("token-{server}")]).collect();
    for some in words.chunks(1_000) {
        let records: Vec<String> =
            some.iter().flat_map(|[server, token]| [server.clone(), record(server, token)]).collect();
        let mut set = vec!["HSET", "vs:{0}:dir"];
        set.extend(records.iter().map(String::as_str));
        redis.ask(&set);
        let mut set = vec!["HSET", "vs:{0}:tok"];
        set.extend(some.iter().flat_map(|[server, token]| [token.as_str(), server.as_str()]));
        redis.ask(&set);
    }
    let node = Node::start(&engine.url(), &[]);
    assert_eq!(settle(&mut redis, &[&node], "many servers").servers.len(), MANY as usize);
    assert!(redis.calls("hscan") >= 5, "{} pieces", redis.calls("hscan"));
}
