//! Nodes that start while votes are cast and cancelled and servers come and go have, once they are
//! ready, exactly what the others have.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::cluster::util::proxy::Proxy;
use crate::util::control::Control;
use crate::util::ledger::{address, next_votes};
use crate::util::load::{Caller, Load};
use crate::util::wait_until;
use std::thread::sleep;
use std::time::Duration;

/// The last few of the servers come and go.
const RESTLESS: u32 = 4;
const NODES: usize = 10;

#[test]
fn ten_nodes_start_under_load_with_all_that_there_is() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let first = Node::start(&engine.url(), &[]);
    first.add_servers(SERVERS);
    let load = Load::voting(&[&first], 8, 15, 0);
    load.wait_for_more(1_000);
    let moves = Load::start([come_and_go(first.control())]);
    let mut nodes = Vec::new();
    while nodes.len() < NODES {
        nodes.extend(Node::start_many(2, &engine.url(), &[]));
        load.wait_for_more(200);
        let wanted = 2 * u32::try_from(nodes.len()).expect("a few");
        wait_until("servers come and go", || *moves.known() > wanted);
    }
    let (moves, tally) = (moves.stop(), load.stop());
    let all: Vec<&Node> = nodes.iter().chain([&first]).collect();
    let truth = settle(&mut engine.connect(), &all, "ten nodes started under load");
    println!(
        "{} tries, {} recorded, {} cancelled, {} servers removed and listed again",
        tally.tries,
        tally.recorded.len(),
        tally.cancelled.len(),
        moves
    );
    // Of the servers that stayed, nothing acknowledged is missing, and nothing cancelled is there.
    let stayed = 1..=SERVERS - RESTLESS;
    for (pair, voted_at) in tally.recorded.iter().filter(|(pair, _)| stayed.contains(&pair.0)) {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    for pair in &tally.cancelled {
        assert!(!truth.votes.contains_key(pair), "{pair:?} was cancelled");
    }
    assert_eq!((tally.doubles.iter().filter(|(pair, _)| stayed.contains(&pair.0)).count(), tally.unavailable), (0, 0));
    assert!(tally.cancelled.len() > 100 && moves > 10, "hardly anything happened");
    let rebuilds: f64 = all.iter().map(|node| node.rebuilds_after_start()).sum();
    assert!(rebuilds.abs() < f64::EPSILON, "{rebuilds} rebuilds of nodes that were right from the start");
}

/// Far from Redis the log has a new entry at every answer: the end of it is where it was when it was
/// asked for, and a node that waits for a moment of quiet never starts. While it builds its state anew what comes
/// meanwhile is not in it: it acknowledges nothing that it does not show. And it believes no entry that is out of turn.
#[test]
fn a_node_far_away_starts_and_builds_anew_while_votes_never_pause() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let near = Node::start(&engine.url(), &[]);
    near.add_servers(SERVERS);
    let proxy = Proxy::to(engine.addr());
    proxy.set_delay(Duration::from_millis(50));
    let load = Load::voting(&[&near], 4, 0, 0);
    load.wait_for_more(500);
    let far = Node::start(&url(proxy.addr()), &[]);
    let gap = ["XADD", "vs:{0}:log", "*", "n", "999999", "s", "1", "i", "3221226219"];
    engine.connect().ask(&gap);
    let mut numbers = 300_000..;
    wait_until("it is built anew", || {
        let (is_anew, pair) = (far.rebuilds("gap") > 0.5, (1, address(numbers.next().expect("one more"))));
        let response = far.control().cast(pair.0, pair.1);
        assert!(matches!(response.status, 201 | 503), "{response:?}");
        let is_shown = || next_votes(far.server(), &[pair])[0].is_some();
        assert!(response.status == 503 || is_shown(), "acknowledged and not shown: {response:?}");
        is_anew && response.status == 201
    });
    load.wait_for_more(100);
    let tally = load.stop();
    assert_eq!(tally.doubles.len(), 0);
    let truth = settle(&mut engine.connect(), &[&near, &far], "a node far away");
    assert!(!truth.votes.contains_key(&(1, "192.0.2.235".parse().expect("an address"))));
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

/// One reply with the whole directory took a store with many servers longer than a node waits for it, and
/// kept it from everybody else meanwhile.
#[test]
fn a_directory_of_many_servers_comes_in_pieces() {
    const MANY: u32 = 50_000;
    let Some(engine) = Engine::try_store(&[]) else { return };
    let mut redis = engine.connect();
    let words: Vec<[String; 2]> = (1..=MANY).map(|server| [server.to_string(), format!("token-{server}")]).collect();
    for some in words.chunks(1_000) {
        let records: Vec<String> =
            some.iter().flat_map(|[server, token]| [server.clone(), format!("v1;{token}")]).collect();
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
