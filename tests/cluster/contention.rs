//! At most once: however many callers race for a pair, and through however many nodes, one vote
//! counts, and all are told the same instant of it.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::library;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::util::client::Client;
use crate::util::ledger::{Pair, address};
use crate::util::needs::{is_long, rounds};
use crate::util::random::Random;
use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread::scope;
use std::time::{Duration, Instant};

/// Callers at once.
const CALLERS: usize = 8;
/// Pairs that all callers try before they go on together, each in an order of its own.
const TOGETHER: usize = 16;
const SERVERS: u32 = 20;
const COOLDOWN_S: u32 = 5_400;
/// A cooldown short enough to see many votes of one pair.
const SHORT_S: u32 = 1;

/// A caller's 201 answers, and all instants that it was told, by pair.
type Told = Vec<(Pair, bool, String)>;

#[test]
fn one_of_many_casts_through_many_nodes_counts() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &engine.url(), &[]);
    nodes[0].add_servers(SERVERS);
    settle(&mut engine.connect(), &nodes.iter().collect::<Vec<_>>(), "before");
    // The long run is over a million tries.
    let pairs = TOGETHER * if is_long() { 8_200 } else { rounds(40) };
    let mut seeds = Random::from_environment();
    let barrier = Barrier::new(CALLERS);
    let told: Vec<Told> = scope(|threads| {
        let start = |nth: usize| {
            let (node, random, barrier) = (&nodes[nth % nodes.len()], Random::seeded(seeds.next()), &barrier);
            threads.spawn(move || try_all(node, pairs, random, barrier))
        };
        let started: Vec<_> = (0..CALLERS).map(start).collect();
        started.into_iter().map(|caller| caller.join().expect("a caller failed")).collect()
    });
    let mut by_pair: BTreeMap<Pair, (usize, String)> = BTreeMap::new();
    let mut tries = 0;
    for (pair, is_recorded, next_vote_at) in told.into_iter().flatten() {
        let known = by_pair.entry(pair).or_insert((0, next_vote_at.clone()));
        assert_eq!(known.1, next_vote_at, "two instants for {pair:?}");
        known.0 += usize::from(is_recorded);
        tries += 1;
    }
    let doubles = by_pair.values().filter(|(times, _)| *times > 1).count();
    let never = by_pair.values().filter(|(times, _)| *times == 0).count();
    println!("{tries} tries by {CALLERS} callers through 2 nodes for {} pairs: {doubles} doubles", by_pair.len());
    assert_eq!((tries, by_pair.len(), doubles, never), (pairs * CALLERS, pairs, 0, 0));
    let truth = settle(&mut engine.connect(), &nodes.iter().collect::<Vec<_>>(), "after");
    assert_eq!(truth.votes.len(), pairs);
}

fn try_all(node: &Node, pairs: usize, mut random: Random, barrier: &Barrier) -> Told {
    let control = node.control();
    let mut client = Client::connect(node.control_addr());
    let mut told = Told::new();
    for start in (0..pairs).step_by(TOGETHER) {
        let mut numbers: Vec<usize> = (start..start + TOGETHER).collect();
        for at in (1..TOGETHER).rev() {
            numbers.swap(at, random.below(at + 1));
        }
        barrier.wait();
        for number in numbers {
            let number = u32::try_from(number).expect("an address");
            let (server, ip) = (1 + number % SERVERS, address(number));
            let body = format!(r#"{{"server_id":{server},"ip":"{ip}"}}"#);
            client.send(control.request_bytes("POST", "/v1/votes", Some(&body)));
            let response = client.read_response(false);
            assert!(matches!(response.status, 201 | 409), "{response:?}");
            let next_vote_at = response.json()["next_vote_at"].as_str().expect("an instant").to_owned();
            told.push(((server, ip), response.status == 201, next_vote_at));
        }
    }
    told
}

/// The function alone, called as fast as one can: over a million tries in the long run.
#[test]
fn one_of_many_calls_of_the_function_counts() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    library::load(&mut engine.connect(), &library::text(), COOLDOWN_S, SERVERS);
    let batches: u32 = if is_long() { 2_600 } else { u32::try_from(rounds(130)).expect("a count") };
    let calls = |_| {
        let mut redis = engine.connect();
        move || {
            let mut accepted = Vec::new();
            for batch in 0..batches {
                let votes: Vec<(u32, u32)> = (0..50).map(|nth| (1 + nth % SERVERS, batch * 50 + nth)).collect();
                let answers = library::cast_all(&mut redis, &votes);
                accepted.extend(votes.into_iter().zip(answers));
            }
            accepted
        }
    };
    let callers: Vec<_> = (0..CALLERS).map(calls).collect();
    let answers: Vec<_> = scope(|threads| {
        let started: Vec<_> = callers.into_iter().map(|call| threads.spawn(call)).collect();
        started.into_iter().flat_map(|caller| caller.join().expect("a caller failed")).collect()
    });
    let mut by_pair: BTreeMap<(u32, u32), (usize, i64)> = BTreeMap::new();
    for (vote, answer) in &answers {
        let known = by_pair.entry(*vote).or_insert((0, answer.voted_at));
        assert_eq!(known.1, answer.voted_at, "two instants for {vote:?}");
        known.0 += usize::from(answer.is_accepted);
    }
    let doubles = by_pair.values().filter(|(times, _)| *times > 1).count();
    println!("{} tries of the function for {} pairs: {doubles} doubles", answers.len(), by_pair.len());
    assert_eq!((answers.len(), by_pair.len()), (batches as usize * 50 * CALLERS, batches as usize * 50));
    assert!(by_pair.values().all(|(times, _)| *times == 1), "{doubles} doubles");
}

/// The library with a cooldown of a second: a pair is accepted again, and never sooner.
#[test]
fn no_pair_is_accepted_again_within_its_cooldown() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    library::load(&mut engine.connect(), &library::text(), SHORT_S, SERVERS);
    let votes: Vec<(u32, u32)> = (0..100).map(|nth| (1 + nth % SERVERS, nth)).collect();
    let until = Instant::now() + Duration::from_secs(if is_long() { 30 } else { 3 });
    let call = || {
        let mut redis = engine.connect();
        let (mut accepted, mut tries) = (Vec::new(), 0);
        while Instant::now() < until {
            for (vote, answer) in votes.iter().zip(library::cast_all(&mut redis, &votes)) {
                tries += 1;
                accepted.extend(answer.is_accepted.then_some((*vote, answer.voted_at)));
            }
        }
        (accepted, tries)
    };
    let answers: Vec<_> = scope(|threads| {
        let started: Vec<_> = (0..4).map(|_| threads.spawn(call)).collect();
        started.into_iter().map(|caller| caller.join().expect("a caller failed")).collect()
    });
    let tries: usize = answers.iter().map(|(_, tries)| tries).sum();
    let mut accepted: Vec<_> = answers.into_iter().flat_map(|(accepted, _)| accepted).collect();
    accepted.sort_unstable();
    let again = accepted.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1 - two[0].1);
    let again: Vec<i64> = again.collect();
    let least = again.iter().min().expect("pairs are accepted again");
    println!("{tries} tries, {} accepted again; least interval {least} s at a cooldown of {SHORT_S} s", again.len());
    assert!(*least >= i64::from(SHORT_S), "{least} s");
    assert!(again.len() >= 100, "hardly any was accepted again");
}
