//! What a node tells of itself to the subcommands that look after a shared store: where it stands,
//! its digest, and all that it holds.

use std::io::BufReader;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use super::CliError;
use super::client::ControlClient;
use super::lines::Lines;
use crate::control::body::{self, BodyLine};
use crate::recorder::command::ServerName;
use crate::store::StoredVote;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv6::Ipv6Prefix;

/// How long a node may take to catch up with the store.
const PATIENCE: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// What is wanted here of `GET /v1/cluster`.
pub(super) struct Standing {
    /// The store that it follows.
    pub store_id: String,
    /// The length of the cooldown.
    pub cooldown_minutes: u32,
    /// How many bits of an IPv6 address tell one voter from another.
    pub ipv6_prefix: Ipv6Prefix,
}

/// `GET /v1/cluster/digest`
#[derive(Clone, Debug)]
pub(super) struct NodeDigest {
    /// The store that it follows.
    pub store_id: String,
    /// The number of the last entry of the store's log that its state holds.
    pub n: u64,
    /// The id of that entry.
    pub id: String,
    /// The second at which the digest was made.
    pub now: u32,
    /// How many servers are listed.
    pub servers: u64,
    /// Their digest, sixteen hexadecimal digits.
    pub servers_digest: String,
    /// How many votes are live.
    pub votes: u64,
    /// Their digest, sixteen hexadecimal digits.
    pub votes_digest: String,
}

/// Where a node stands.
///
/// # Errors
/// Where it cannot be asked, or keeps its votes by itself.
pub(super) fn standing(client: &ControlClient) -> Result<Standing, CliError> {
    ask(client, "/v1/cluster", |body| {
        let cooldown_minutes = number(body, "cooldown_minutes").and_then(|minutes| u32::try_from(minutes).ok())?;
        let ipv6_prefix = Ipv6Prefix::from_bits(u8::try_from(number(body, "ipv6_prefix")?).ok()?)?;
        Some(Standing { store_id: text(body, "store_id")?, cooldown_minutes, ipv6_prefix })
    })
}

/// A node's digest, once it has come to the entry of number `n`.
///
/// # Errors
/// Where it cannot be asked, or does not come so far.
pub(super) fn digest(client: &ControlClient, n: u64) -> Result<NodeDigest, CliError> {
    let mut waited = Duration::ZERO;
    loop {
        let digest = ask(client, "/v1/cluster/digest", NodeDigest::read)?;
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

impl NodeDigest {
    fn read(body: &Value) -> Option<Self> {
        Some(Self {
            store_id: text(body, "store_id")?,
            n: number(body, "n")?,
            id: text(body, "id")?,
            now: u32::try_from(number(body, "now")?).ok()?,
            servers: number(body, "servers")?,
            servers_digest: text(body, "servers_digest")?,
            votes: number(body, "votes")?,
            votes_digest: text(body, "votes_digest")?,
        })
    }
}

fn number(body: &Value, name: &str) -> Option<u64> {
    body[name].as_u64()
}

fn text(body: &Value, name: &str) -> Option<String> {
    body[name].as_str().map(str::to_owned)
}

fn ask<T>(client: &ControlClient, path: &str, read: impl Fn(&Value) -> Option<T>) -> Result<T, CliError> {
    let answer = client.get(path)?;
    let url = client.url();
    if answer.status == 404 {
        return Err(CliError::new(format_args!("{url} keeps its votes by itself: it was started without --store")));
    }
    let answer = answer.expect(&[200])?;
    read(&answer.body).ok_or_else(|| CliError::new(format_args!("{url}: this is not the answer of {path}")))
}

/// Something that a node holds.
pub(super) enum Held {
    /// A server and its token.
    Server(ServerId, Token),
    /// A live vote.
    Vote(StoredVote),
}

/// Everything that a node holds: its servers, then its votes.
///
/// # Errors
/// Where it cannot be asked, the stream is cut, or `visit` wants no more.
pub(super) fn export(
    client: &ControlClient,
    mut visit: impl FnMut(Held) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let url = client.url().to_owned();
    let mut lines = Lines::new(BufReader::new(client.stream("/v1/export")?));
    let cut = |error| CliError::new(format_args!("the export from {url} was cut off: {error}; try again"));
    while let Some(line) = lines.next().map_err(cut)? {
        let strange = || CliError::new(format_args!("line {} of the export from {url} makes no sense", line.number));
        let text = line.text.ok_or_else(strange)?;
        if !text.trim_ascii().is_empty() {
            visit(held(text).ok_or_else(strange)?)?;
        }
    }
    Ok(())
}

fn held(text: &[u8]) -> Option<Held> {
    match body::line(text, "invalid").ok()? {
        BodyLine::Server(server) => Some(Held::Server(server.server, server.token?)),
        BodyLine::Vote(vote) => {
            let ServerName::Id(server) = vote.server else { return None };
            Some(Held::Vote(StoredVote { server, address: vote.voter.first(), voted_at: vote.voted_at? }))
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
