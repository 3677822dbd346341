//! What a node tells of itself to the subcommands that look after a shared store: where it stands,
//! its digest, and all that it holds.

use std::io::BufReader;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error};

use super::CliError;
use super::client::ControlClient;
use super::lines::Lines;
use crate::cluster::digest::NodeDigest;
use crate::control::body::{self, BodyLine};
use crate::control::export_header;
use crate::recorder::command::ServerName;
use crate::store::StoredVote;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::Pair;

/// How long a node may take to catch up with the store.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What is wanted here of `GET /v1/cluster`.
#[derive(Deserialize)]
pub(super) struct Standing {
    /// The store that it follows.
    pub store_id: String,
    /// The length of the cooldown.
    pub cooldown_minutes: u32,
    /// How many bits of an IPv6 address tell one voter from another.
    #[serde(deserialize_with = "prefix")]
    pub ipv6_prefix: Ipv6Prefix,
}

/// Where a node stands.
///
/// # Errors
/// Where it cannot be asked, or keeps its votes by itself.
pub(super) fn standing(client: &ControlClient) -> Result<Standing, CliError> {
    ask(client, "/v1/cluster")
}

fn prefix<'de, D: Deserializer<'de>>(bits: D) -> Result<Ipv6Prefix, D::Error> {
    Ipv6Prefix::from_bits(u8::deserialize(bits)?).ok_or_else(|| Error::custom("ipv6_prefix is 32 to 64"))
}

/// A node's digest, once it has come to the entry of number `n`.
///
/// # Errors
/// Where it cannot be asked, or does not come so far.
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

/// Something that a node holds.
pub(super) enum Held {
    /// A server and its token.
    Server(ServerId, Token),
    /// A live vote.
    Vote(StoredVote),
}

/// Everything that a node holds: its servers, then its votes. `visit` gets each with the bytes that were read until then.
///
/// # Errors
/// Where it cannot be asked, the stream is cut, or `visit` wants no more.
pub(super) fn export(
    client: &ControlClient,
    mut visit: impl FnMut(Held, u64) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let url = client.url().to_owned();
    let mut lines = Lines::new(BufReader::new(client.stream("/v1/export")?));
    let cut = |error| CliError::new(format_args!("the export from {url} was cut off: {error}; try again"));
    while let Some(line) = lines.next().map_err(cut)? {
        let number = line.number;
        let strange = || CliError::new(format_args!("line {number} of the export from {url} makes no sense"));
        let text = line.text.ok_or_else(strange)?;
        if text.trim_ascii().is_empty() {
            continue;
        }
        if export_header::is_header(text) {
            // Its settings are those of the node, which [`standing`] tells.
            export_header::read(text).map_err(|invalid| CliError::new(format_args!("{url}: {}", invalid.message)))?;
            continue;
        }
        let held = held(text).ok_or_else(strange)?;
        visit(held, lines.bytes_read())?;
    }
    Ok(())
}

fn held(text: &[u8]) -> Option<Held> {
    match body::line(text, "invalid").ok()? {
        BodyLine::Server(server) => Some(Held::Server(server.server, server.token?)),
        BodyLine::Vote(vote) => {
            let ServerName::Id(server) = vote.server else { return None };
            let pair = Pair { server, address: vote.voter.first() };
            Some(Held::Vote(StoredVote { pair, voted_at: vote.voted_at? }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Held, held};
    use crate::vote::id::{ServerId, Token};
    use crate::vote::time::UnixSeconds;

    #[test]
    fn lines_of_an_export() {
        let vote = held(br#"{"server_id":28,"ip":"203.0.113.7","voted_at":"2026-11-20T11:04:56Z"}"#);
        assert!(matches!(vote, Some(Held::Vote(vote)) if vote.voted_at == UnixSeconds(1_795_172_696)));
        let server = held(br#"{"server_id":28,"token":"demo"}"#);
        let token = Token::new("demo").expect("a token");
        assert!(matches!(server, Some(Held::Server(ServerId(28), held)) if held == token));
        for strange in [&br#"{"server_id":28}"#[..], br#"{"token":"demo","ip":"203.0.113.7"}"#, b"x"] {
            assert!(held(strange).is_none());
        }
    }
}
