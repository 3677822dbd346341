//! `vote-status cluster check`: whether a node and the store hold the same, while both go on.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::thread;
use std::time::Duration;

use clap::ArgMatches;
use serde_json::json;

use super::client::ControlClient;
use super::export_reader::{self, Held};
use super::node_client;
use super::{CliError, Exit, note, say, store};
use crate::cluster::digest::{Digest, NodeDigest};
use crate::cluster::mirror::Mirror;
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{CooldownTable, Cooling, SHARDS};
use crate::vote::time::UnixSeconds;

/// Comparisons of the digests before they count as different. The clocks of the node and of this machine may differ
/// by a second, and a vote may end in that second. Only lasting differences count.
const TRIES: usize = 3;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(1_100);
/// The most differences that are listed.
const DIFFERENCES_MAX: usize = 10;
/// Votes that end within this time are left out, in seconds: one of the two may have dropped them already.
const ENDING_S: u32 = 10;

/// Compares, and prints the verdict.
///
/// # Errors
/// Where one of the two cannot be reached.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let address = store::address(options)?;
    let client = ControlClient::new(options)?;
    let mut mirror = Mirror::read(&address).map_err(CliError::new)?;
    for what in mirror.unreadable() {
        note(format_args!("warning: {what}"));
    }
    let is_json = options.get_flag("json");
    let mut last = None;
    for _ in 0..TRIES {
        let node = node_client::digest(&client, mirror.position().n)?;
        if node.store_id != mirror.store {
            let (url, other, store) = (client.url(), &node.store_id, &mirror.store);
            return Err(CliError::new(format_args!(
                "{url} follows store {other}, and the store at {address} is {store}"
            )));
        }
        mirror.advance(Some(node.n)).map_err(CliError::new)?;
        let own = mirror.digest(UnixSeconds(node.now));
        if node.state == own && mirror.position().id.to_string() == node.id {
            say_verdict(is_json, true, &node, &own, &[])?;
            return Ok(Exit::Success);
        }
        last = Some((node, own));
        thread::sleep(PAUSE);
    }
    let first = differences(&client, &mut mirror)?;
    thread::sleep(PAUSE);
    let second = differences(&client, &mut mirror)?;
    let lasting: Vec<Difference> = first.intersection(&second).take(DIFFERENCES_MAX).cloned().collect();
    if let Some((node, own)) = last {
        say_verdict(is_json, false, &node, &own, &lasting)?;
    }
    Ok(Exit::Negative)
}

/// A server or a vote that only one of the two holds, or that they hold differently.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Difference {
    /// A server, and whether each side holds it. If both do, their tokens differ. No token is printed.
    Server { server: u32, node: bool, store: bool },
    /// A vote, and its time of casting by each side.
    Vote { server: u32, address: VoterAddress, node: Option<u32>, store: Option<u32> },
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server { server, node, store } => {
                let says = |held: bool| if held { "another token" } else { "not listed" };
                write!(formatter, "server {server}: node {}, store {}", says(*node), says(*store))
            }
            Self::Vote { server, address, node, store } => {
                let says = |voted_at: Option<u32>| {
                    voted_at.map_or_else(|| "no vote".to_owned(), |seconds| UnixSeconds(seconds).to_string())
                };
                write!(formatter, "server {server} ip {address}: node {}, store {}", says(*node), says(*store))
            }
        }
    }
}

/// The differences between the node's export and the store at the end of the export.
fn differences(client: &ControlClient, mirror: &mut Mirror) -> Result<BTreeSet<Difference>, CliError> {
    let mut servers: BTreeMap<ServerId, Token> = BTreeMap::new();
    let mut votes = mirror.votes().view().shadow();
    let cooldown = mirror.cooldown;
    let now = UnixSeconds(node_client::digest(client, 0)?.now).plus(ENDING_S);
    export_reader::read(client, |held, _| {
        match held {
            Held::Server(server, token) => {
                servers.insert(server, token);
            }
            Held::Vote(vote) => {
                votes.insert(vote.pair, cooldown.expires_at(vote.voted_at));
            }
        }
        Ok(())
    })?;
    mirror.advance(None).map_err(CliError::new)?;
    let mut found = BTreeSet::new();
    compare_servers(&servers, mirror, &mut found);
    let (store, mut shard) = (mirror.votes(), Vec::new());
    // Once from each side: a vote that only one of the two holds is found from that side alone.
    for (own, other) in [(&votes, store), (store, &votes)] {
        for index in 0..SHARDS {
            shard.clear();
            own.view().copy_shard(index, now, &mut shard);
            let differs = |held: &&Cooling| other.expires_at(held.pair) != Some(held.expires_at);
            for Cooling { pair, .. } in shard.iter().filter(differs) {
                let of = |table: &CooldownTable| table.expires_at(*pair).map(|end| cooldown.voted_at(end).0);
                let (server, address) = (pair.server.0, pair.address);
                found.insert(Difference::Vote { server, address, node: of(&votes), store: of(store) });
            }
        }
    }
    Ok(found)
}

fn compare_servers(node: &BTreeMap<ServerId, Token>, mirror: &Mirror, found: &mut BTreeSet<Difference>) {
    let store = mirror.servers();
    let listed = store.iter_after(None).map(|(server, _)| server);
    for server in node.keys().copied().chain(listed) {
        if node.get(&server) != store.token(server) {
            let difference = Difference::Server {
                server: server.0,
                node: node.contains_key(&server),
                store: store.contains(server),
            };
            found.insert(difference);
        }
    }
}

fn say_verdict(
    is_json: bool,
    is_equal: bool,
    node: &NodeDigest,
    own: &Digest,
    differences: &[Difference],
) -> Result<Exit, CliError> {
    if is_json {
        return say(json!({
            "equal": is_equal,
            "n": node.n,
            "node": node.state,
            "store": own,
            "differences": differences.iter().map(Difference::to_string).collect::<Vec<_>>(),
        }));
    }
    let [node_side, store_side] = [&node.state, own].map(|side| {
        let Digest { servers, servers_digest, votes, votes_digest } = side;
        format!("{servers} servers {servers_digest} and {votes} votes {votes_digest}")
    });
    let verdict = if is_equal { "equal" } else { "different" };
    say(format_args!("{verdict} at entry {}: node {node_side}, store {store_side}", node.n))?;
    for difference in differences {
        say(difference)?;
    }
    Ok(Exit::Success)
}
