//! What was seen as a line of JSON. Nothing in it needs an escape: words, numbers, instants, addresses,
//! and characters that a token may have.

use std::fmt::{Display, Formatter, Result};

use super::{Seen, Sighting, WatchedQuestion};
use crate::vote::table::Pair;

impl Display for Sighting {
    fn fmt(&self, out: &mut Formatter<'_>) -> Result {
        let kind = match self.seen {
            Seen::Question { .. } => "question",
            Seen::Vote { .. } => "vote",
            Seen::Cancellation(_) => "cancellation",
            Seen::Registration(_) => "registration",
            Seen::Rotation(_) => "rotation",
            Seen::Removal(_) => "removal",
        };
        write!(out, r#"{{"at":"{}","kind":"{kind}""#, self.at)?;
        match &self.seen {
            Seen::Question { asked, answer, status, peer } => {
                asked_about(asked, out)?;
                write!(out, r#","answer":"{answer}","status":{status}"#)?;
                text("peer", peer.as_ref(), out)?;
            }
            Seen::Vote { pair, voted_at, expires_at } => {
                about(pair, out)?;
                write!(out, r#","voted_at":"{voted_at}","next_vote_at":"{expires_at}""#)?;
            }
            Seen::Cancellation(pair) => about(pair, out)?,
            Seen::Registration(server) | Seen::Rotation(server) | Seen::Removal(server) => {
                write!(out, r#","server_id":{server}"#)?;
            }
        }
        out.write_str("}\n")
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
    text("token_begins", Some(asked.token_begins.as_str()).filter(|begins| !begins.is_empty()), out)?;
    text("ip", asked.address.as_ref(), out)
}

/// What is not known is not there.
fn text(name: &str, value: Option<impl Display>, out: &mut Formatter<'_>) -> Result {
    value.map_or(Ok(()), |value| write!(out, r#","{name}":"{value}""#))
}
