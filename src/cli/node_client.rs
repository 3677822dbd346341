//! A node's answers to the subcommands that look after a shared store: its store and settings, and its digest.

use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};

use super::CliError;
use super::client::ControlClient;
use crate::cluster::digest::NodeDigest;
use crate::vote::ipv6::Ipv6Prefix;

/// The longest wait for a node to catch up with the store.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// The members of `GET /v1/cluster` that are used here.
#[derive(Deserialize)]
pub(super) struct Standing {
    /// The store that the node follows.
    pub store_id: String,
    /// The length of the cooldown.
    pub cooldown_minutes: u32,
    /// The bits of an IPv6 address that tell one voter from another.
    #[serde(deserialize_with = "prefix")]
    pub ipv6_prefix: Ipv6Prefix,
}

/// The store and the settings of a node.
///
/// # Errors
/// Where the node cannot be reached, or keeps its votes by itself.
pub(super) fn standing(client: &ControlClient) -> Result<Standing, CliError> {
    ask(client, "/v1/cluster")
}

fn prefix<'de, D: Deserializer<'de>>(bits: D) -> Result<Ipv6Prefix, D::Error> {
    Ipv6Prefix::from_bits(u8::deserialize(bits)?).ok_or_else(|| Error::custom("ipv6_prefix is 32 to 64"))
}

/// A node's digest, once the node has come to the entry of number `n`.
///
/// # Errors
/// Where the node cannot be reached, or does not come so far.
pub(super) fn digest(client: &ControlClient, n: u64) -> Result<NodeDigest, CliError> {
    let mut waited = Duration::ZERO;
    loop {
        let digest: NodeDigest = ask(client, "/v1/cluster/digest")?;
        if digest.n >= n {
            return Ok(digest);
        }
        if waited >= PATIENCE {
            return Err(CliError::new(format_args!(
                "{} does not follow the store: it is at entry {}, and the store is past {n}; see its log",
                client.url(),
                digest.n
            )));
        }
        thread::sleep(POLL);
        waited += POLL;
    }
}

fn ask<T: DeserializeOwned>(client: &ControlClient, path: &str) -> Result<T, CliError> {
    let answer = client.get(path)?;
    let url = client.url();
    if answer.status == 404 {
        return Err(CliError::new(format_args!("{url} keeps its votes by itself: it was started without --store")));
    }
    let answer = answer.expect(&[200])?;
    let strange = |error| CliError::new(format_args!("{url}: this is not the answer of {path}: {error}"));
    serde_json::from_value(answer.body).map_err(strange)
}
