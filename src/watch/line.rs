//! Events as lines of JSON. Nothing in a line needs an escape: words, numbers, instants, addresses, and characters that
//! a token may have.

use std::fmt::{Display, Formatter, Result};

use super::{Attempt, HeldCooldown, Seen, WatchedQuestion};
use crate::vote::table::Pair;

/// The event's line, all but the instant, which comes first.
impl Display for Seen {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let kind = match self {
            Self::Question { .. } => "question",
            Self::Vote { .. } => "vote",
            Self::Attempt(_) => "attempt",
            Self::Replacement { .. } => "replacement",
            Self::Cancellation(_) => "cancellation",
            Self::Registration(_) => "registration",
            Self::Rotation(_) => "rotation",
            Self::Removal(_) => "removal",
        };
        write!(out, r#""kind":"{kind}""#)?;
        match self {
            Self::Question { asked, answer, status, peer } => {
                asked_about(asked, out)?;
                write!(out, r#","answer":"{answer}","status":{status}"#)?;
                text("peer", peer.as_ref(), out)?;
            }
            Self::Attempt(attempt) => tried(attempt, out)?,
            Self::Vote { pair, voted_at, expires_at } | Self::Replacement { pair, voted_at, expires_at } => {
                about(pair, out)?;
                write!(out, r#","voted_at":"{voted_at}","next_vote_at":"{expires_at}""#)?;
            }
            Self::Cancellation(pair) => about(pair, out)?,
            Self::Registration(server) | Self::Rotation(server) | Self::Removal(server) => {
                write!(out, r#","server_id":{server}"#)?;
            }
        }
        Ok(())
    }
}

fn about(pair: &Pair, out: &mut Formatter<'_>) -> Result {
    write!(out, r#","server_id":{},"ip":"{}""#, pair.server, pair.address)
}

fn asked_about(asked: &WatchedQuestion, out: &mut Formatter<'_>) -> Result {
    text("variant", asked.variant.as_ref(), out)?;
    named(asked.server, asked.token_begins.as_ref(), asked.address.as_ref(), out)
}

fn tried(attempt: &Attempt, out: &mut Formatter<'_>) -> Result {
    named(attempt.server, attempt.token_begins.as_ref(), attempt.address.as_ref(), out)?;
    text("voted_at", attempt.voted_at, out)?;
    text("outcome", Some(attempt.outcome), out)?;
    let Some(HeldCooldown { of, since, until }) = attempt.held else { return Ok(()) };
    write!(out, r#","cooldown_of":"{of}","since":"{since}","next_vote_at":"{until}""#)
}

fn named(
    server: Option<impl Display>,
    token_begins: Option<impl Display>,
    address: Option<impl Display>,
    out: &mut Formatter<'_>,
) -> Result {
    if let Some(server) = server {
        write!(out, r#","server_id":{server}"#)?;
    }
    text("token_begins", token_begins, out)?;
    text("ip", address, out)
}

/// Adds a text field; an unknown value is left out.
fn text(name: &str, value: Option<impl Display>, out: &mut Formatter<'_>) -> Result {
    value.map_or(Ok(()), |value| write!(out, r#","{name}":"{value}""#))
}
