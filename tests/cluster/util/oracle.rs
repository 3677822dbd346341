//! Reads the truth out of Redis by hand, every live vote with its instant and every server, and compares nodes
//! with it. Knows the keys of the design, and nothing of the service's own reader.

use crate::cluster::util::node::Node;
use crate::cluster::util::resp::Redis;
use crate::util::DEADLINE;
use crate::util::ledger::{Pair, exported_votes, next_votes};
use crate::util::time::from_rfc3339;
use serde_json::Value as Json;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The usual cooldown, in seconds.
pub(crate) const COOLDOWN_S: i64 = 5_400;
/// The pause between two looks.
const POLL: Duration = Duration::from_millis(20);
/// The most pairs that are asked for on the public listener of each node, neighbours aside.
const ASKED_MAX: usize = 2_000;

/// The votes and servers that a node should show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Truth {
    /// Live votes, each with its instant.
    pub(crate) votes: BTreeMap<Pair, i64>,
    /// Listed servers.
    pub(crate) servers: BTreeSet<u32>,
}

impl Truth {
    /// Everything that is live in Redis.
    pub(crate) fn in_redis(redis: &mut Redis) -> Truth {
        Self::in_redis_with(redis, COOLDOWN_S)
    }

    /// The same with another cooldown than the usual one, in seconds.
    pub(crate) fn in_redis_with(redis: &mut Redis, cooldown_s: i64) -> Truth {
        let now = redis.ask(&["TIME"]).list()[0].number();
        let mut truth = Truth::default();
        for server in redis.ask(&["HKEYS", "vs:{0}:dir"]).list() {
            truth.servers.insert(u32::try_from(server.number()).expect("a server id"));
        }
        for key in redis.ask(&["KEYS", "vs:{0}:s:*"]).list() {
            let server = key.text().rsplit(':').next().expect("an id").parse().expect("a server id");
            let found = redis.ask(&["ZRANGE", key.text(), "0", "-1", "WITHSCORES"]);
            for vote in found.list().chunks(2) {
                let ip = vote[0].text();
                if vote[1].number() + cooldown_s > now {
                    truth.votes.insert((server, ip_of(ip)), vote[1].number());
                }
            }
        }
        truth
    }

    /// Everything in a node's export.
    pub(crate) fn in_node(node: &Node) -> Truth {
        let lines =
            node.control().exported().into_iter().map(|line| serde_json::from_str::<Json>(&line).expect("JSON"));
        let servers = lines.filter(|line| line["ip"].is_null()).map(|line| line["server_id"].as_u64());
        let servers = servers.map(|id| u32::try_from(id.expect("a server id")).expect("a u32")).collect();
        let votes = exported_votes(&node.control()).into_iter();
        let votes = votes.map(|(pair, voted_at)| (pair, from_rfc3339(&voted_at))).collect();
        Truth { votes, servers }
    }

    /// The first differences, for people.
    fn differences(&self, other: &Truth) -> String {
        let only = |one: &Truth, two: &Truth| {
            let missing = one.votes.iter().filter(|(pair, at)| two.votes.get(pair) != Some(at));
            let all: Vec<String> = missing.map(|(pair, at)| format!("{pair:?} {at}")).collect();
            format!("{} votes, of them {:?}", all.len(), &all[..all.len().min(3)])
        };
        let servers = self.servers.symmetric_difference(&other.servers).count();
        format!("only in Redis {}; only in the node {}; {servers} servers", only(self, other), only(other, self))
    }
}

/// Waits until every node shows the votes and servers in Redis, and prints their numbers. Nothing may be
/// written meanwhile.
pub(crate) fn settle(redis: &mut Redis, nodes: &[&Node], what: &str) -> Truth {
    let until = Instant::now() + DEADLINE;
    let truth = loop {
        let truth = Truth::in_redis(redis);
        let differing = nodes.iter().enumerate().find_map(|(nth, node)| {
            let shown = Truth::in_node(node);
            (shown != truth).then(|| (nth, truth.differences(&shown)))
        });
        match differing {
            None => break truth,
            Some((nth, how)) => assert!(Instant::now() < until, "{what}: node {nth} differs: {how}"),
        }
        sleep(POLL);
    };
    nodes.iter().for_each(|node| expect_public(node, &truth, what));
    let Truth { votes, servers } = &truth;
    println!("{what}: {} votes, {} servers in Redis and {} nodes", votes.len(), servers.len(), nodes.len());
    truth
}

/// Whether `ledger::address` gives this address.
pub(crate) fn is_numbered(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[0] == 10,
        IpAddr::V6(ip) => ip.segments()[..2] == [0x2001, 0x0db8],
    }
}

/// The key and the member of a pair's vote in the store.
pub(crate) fn claim_of((server, ip): Pair) -> [String; 2] {
    let member = match ip {
        IpAddr::V4(ip) => ip.to_bits().to_string(),
        IpAddr::V6(ip) => format!("{:016x}", ip.to_bits() >> 64),
    };
    [format!("vs:{{0}}:s:{server}"), member]
}

fn ip_of(member: &str) -> IpAddr {
    if member.len() == 16 {
        let network = u64::from_str_radix(member, 16).expect("a network");
        Ipv6Addr::from(u128::from(network) << 64).into()
    } else {
        Ipv4Addr::from(member.parse::<u32>().expect("an IPv4 address")).into()
    }
}

/// An address without votes.
fn neighbour(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(ip) => Ipv4Addr::from(ip.to_bits() ^ 0x0080_0000).into(),
        IpAddr::V6(ip) => Ipv6Addr::from(ip.to_bits() ^ 0x0080_0000 << 64).into(),
    }
}

/// Requires that the public listener shows some of the votes, and none for their neighbours.
fn expect_public(node: &Node, truth: &Truth, what: &str) {
    let step = truth.votes.len().div_ceil(ASKED_MAX).max(1);
    let mut pairs: Vec<Pair> = truth.votes.keys().step_by(step).copied().collect();
    let beside = pairs.iter().map(|(server, ip)| (*server, neighbour(*ip)));
    let beside: Vec<Pair> = beside.filter(|pair| !truth.votes.contains_key(pair)).take(100).collect();
    pairs.extend(beside);
    for (pair, shown) in pairs.iter().zip(next_votes(node.server(), &pairs)) {
        assert_eq!(shown.is_some(), truth.votes.contains_key(pair), "{what}: the status of {pair:?}: {shown:?}");
    }
}
