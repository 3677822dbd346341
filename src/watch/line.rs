//! What was seen as a line of JSON. Nothing in it needs an escape: words, numbers, instants, addresses,
//! and characters that a token may have.

use std::fmt::{Display, Formatter, Result};

use super::{Seen, WatchedQuestion};
use crate::vote::table::Pair;

/// All but the instant, which comes first.
impl Display for Seen {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let kind = match self {
            Self::Question { .. } => "question",
            Self::Vote { .. } => "vote",
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
            Self::Vote { pair, voted_at, expires_at } => {
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
    if let Some(server) = asked.server {
        write!(out, r#","server_id":{server}"#)?;
    }
    text("token_begins", asked.token_begins.as_ref(), out)?;
    text("ip", asked.address.as_ref(), out)
}

/// What is not known is not there.
fn text(name: &str, value: Option<impl Display>, out: &mut Formatter<'_>) -> Result {
    value.map_or(Ok(()), |value| write!(out, r#","{name}":"{value}""#))
}
