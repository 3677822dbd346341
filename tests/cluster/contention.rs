//! At most once: however many callers race for a pair, and through however many nodes, one vote counts. A voter with
//! several addresses has one vote for all of them.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::library;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::settle;
use crate::util::DEADLINE;
use crate::util::ledger::{Pair, address};
use crate::util::random::Random;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Instant;

/// Callers at once, and addresses of which each names some.
const CALLERS: usize = 64;
const ADDRESSES: usize = 24;
/// A cooldown short enough to see many votes of one pair, in seconds.
const SHORT_S: u32 = 1;
/// So many votes of pairs that had voted before are enough.
const AGAIN: usize = 100;

/// The library with a cooldown of a second, called as fast as four callers can: a pair is accepted again, and never
/// sooner. Two votes of one race would have no second between them.
#[test]
fn no_pair_is_accepted_again_within_its_cooldown() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    library::load(&mut engine.connect(), SHORT_S, 20);
    let votes: Vec<(u32, u32)> = (0..100).map(|nth| (1 + nth % 20, nth)).collect();
    let (taken, until) = (AtomicUsize::new(0), Instant::now() + DEADLINE);
    let call = || {
        let mut redis = engine.connect();
        let mut accepted = Vec::new();
        while taken.load(Ordering::Relaxed) < votes.len() + AGAIN {
            assert!(Instant::now() < until, "hardly any is accepted again");
            let answers = library::cast_all(&mut redis, &votes);
            let new = votes.iter().zip(answers).filter_map(|(vote, answer)| Some((*vote, answer?)));
            let before = accepted.len();
            accepted.extend(new);
            taken.fetch_add(accepted.len() - before, Ordering::Relaxed);
        }
        accepted
    };
    let mut accepted: Vec<_> = scope(|threads| {
        let started: Vec<_> = (0..4).map(|_| threads.spawn(call)).collect();
        started.into_iter().flat_map(|caller| caller.join().expect("a caller failed")).collect()
    });
    accepted.sort_unstable();
    let again = accepted.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1 - two[0].1);
    let least = again.min().expect("pairs are accepted again");
    assert!(least >= i64::from(SHORT_S), "{least} s");
}

/// Lists that overlap, through two nodes at once: those that are taken share no address, of those that are
/// refused nothing is there, and no list could have been taken beside the others.
#[test]
fn of_overlapping_lists_each_is_taken_whole_or_not_at_all() {
    let Some(engine) = Engine::try_store(&[]) else { return };
    let nodes = [Node::start(&engine.url(), &[]), Node::start(&engine.url(), &[])];
    nodes[0].add_servers(1);
    nodes.iter().for_each(|node| node.wait_until_recording(1));
    let mut random = Random::from_environment();
    let lists: Vec<Vec<IpAddr>> = (0..CALLERS)
        .map(|_| (0..1 + random.below(8)).map(|_| address(random.below(ADDRESSES) as u32)).collect())
        .collect();
    let answers: Vec<_> = scope(|threads| {
        let callers = lists.iter().enumerate().map(|(nth, list)| {
            let control = nodes[nth % 2].control();
            let ips: Vec<String> = list.iter().map(|ip| format!(r#""{ip}""#)).collect();
            let body = format!(r#"{{"server_id":1,"ips":[{}]}}"#, ips.join(","));
            threads.spawn(move || control.post("/v1/votes", &body))
        });
        callers.collect::<Vec<_>>().into_iter().map(|caller| caller.join().expect("a caller")).collect()
    });
    let mut taken: BTreeSet<Pair> = BTreeSet::new();
    for (list, answer) in lists.iter().zip(&answers).filter(|(_, answer)| answer.status == 201) {
        let pairs: BTreeSet<Pair> = list.iter().map(|ip| (1, *ip)).collect();
        assert!(taken.is_disjoint(&pairs), "{list:?} was taken beside others: {answer:?}");
        taken.extend(pairs);
    }
    for (list, answer) in lists.iter().zip(&answers).filter(|(_, answer)| answer.status != 201) {
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(list.iter().any(|ip| taken.contains(&(1, *ip))), "{list:?} was refused for nothing: {answer:?}");
    }
    let truth = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "overlapping lists");
    let beside = (1, [192, 0, 2, 1].into());
    assert_eq!(truth.votes.into_keys().filter(|pair| *pair != beside).collect::<BTreeSet<_>>(), taken);
}
