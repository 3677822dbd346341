//! Voters of IPv6, and voters with several addresses, on many nodes.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::node::{Node, client, command, folder};
use crate::cluster::util::oracle::{claim_of, settle};
use crate::cluster::util::resp::Value;
use crate::util::ledger::{Pair, address};
use crate::util::needs::has;
use crate::util::random::Random;
use crate::util::server::run_to_end;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::thread::scope;

/// Callers at once, and addresses of which each names some.
const CALLERS: usize = 64;
const ADDRESSES: usize = 24;

fn body(ips: &[IpAddr]) -> String {
    let ips: Vec<String> = ips.iter().map(|ip| format!(r#""{ip}""#)).collect();
    format!(r#"{{"server_id":1,"ips":[{}]}}"#, ips.join(","))
}

/// Lists that overlap, through two nodes at once: those that are taken share no address, of those that are
/// refused nothing is there, and no list could have been taken beside the others.
#[test]
fn of_overlapping_lists_each_is_taken_whole_or_not_at_all() {
    if !has(&["redis-server"]) {
        return;
    }
    let engine = Engine::store(&[]);
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
            threads.spawn(move || control.post("/v1/votes", &body(list)))
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

/// The prefix is the store's: it tells the voters of all nodes apart, and a node with another does not start.
#[test]
fn a_node_with_another_ipv6_prefix_than_the_store_does_not_start() {
    if !has(&["redis-server"]) {
        return;
    }
    let engine = Engine::start(&[]);
    let init = |bits: &str| client(&["cluster", "init", "--store", &engine.url(), "--ipv6-prefix", bits]);
    assert!(init("56").status.success());
    assert!(init("64").stderr.contains("give --ipv6-prefix 56"), "{}", init("64").stderr);
    let other = folder();
    let ended = run_to_end(command(other.path(), &engine.url(), &[]));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    let why = "tells IPv6 voters apart by 56 bits, and this node was started with 64: give --ipv6-prefix 56";
    assert!(ended.stderr.contains(why), "{}", ended.stderr);

    let node = Node::start(&engine.url(), &["--ipv6-prefix", "56"]);
    node.add_servers(1);
    let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
    assert_eq!(node.control().cast(1, ip("2001:db8:0:ab::7")).status, 201);
    let refused = node.control().post("/v1/votes", &body(&[ip("203.0.113.7"), ip("2001:db8:0:ff::1")]));
    assert_eq!((refused.status, &refused.json()["error"]), (409, &"in_cooldown".into()), "{refused:?}");
    assert_eq!(node.control().cast(1, ip("2001:db8:0:1ab::7")).status, 201, "another network of 56 bits");
    // One voter, whatever of the network is named; and nothing of the list that was refused.
    assert_eq!(node.control().post("/v1/votes", &body(&[ip("2001:db8:1::"), ip("2001:db8:1:1::")])).status, 201);
    let late = Node::start(&engine.url(), &["--ipv6-prefix", "56"]);
    let mut redis = engine.connect();
    assert_eq!(settle(&mut redis, &[&node, &late], "by 56 bits").votes.len(), 3);
    assert_eq!(node.control().delete("/v1/votes/1/2001:db8:1:1::7").status, 200);
    let [key, member] = claim_of((1, ip("2001:db8:1::")));
    assert_eq!(redis.ask(&["ZSCORE", &key, &member]), Value::Nil);
}
