//! Calls of the store's functions: how each is asked, and what its reply means. Knows no connection.

use redis::{Cmd, ToRedisArgs, Value, cmd};

use super::entry::{EntryId, ListingId, items, member, number, text, token};
use super::keys;
use crate::clock::Now;
use crate::recorder::command::{Mode, Recorded, Reply, ServerOutcome, VoteOutcome};
use crate::store::StoredVote;
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::{ServerId, Token};
use crate::vote::time::{Cooldown, UnixSeconds};

/// The store that is asked, and until when: later it refuses, as its caller waits no more.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The store's id.
    pub store: &'a str,
    /// In milliseconds of the store's clock. What is given back has no term: it is as welcome late.
    pub until_ms: Option<u64>,
}

impl Term<'_> {
    /// A change of a server or its votes.
    fn change(self, function: &str, server: ServerId, arguments: &[impl ToRedisArgs]) -> Cmd {
        let (claims, until_ms) = (keys::claims(server), self.until_ms.map(|ms| ms.to_string()).unwrap_or_default());
        let mut command = cmd("FCALL");
        command.arg(function).arg(6).arg(&[keys::LOG, &claims, keys::DIRECTORY, keys::TOKENS, keys::META, keys::GONE]);
        command.arg(self.store).arg(until_ms).arg(server.0).arg(arguments);
        command
    }
}

/// A write that changes no vote and no server. Its score is another one each time, as a store passes on to its
/// replicas only what changes.
#[must_use]
pub fn touch(now: &Now) -> Cmd {
    let mut command = cmd("ZADD");
    let place = format!("{}.{:06}", now.wall.0, now.monotonic_us % 1_000_000);
    command.arg(keys::GONE).arg(place).arg("touched");
    command
}

/// A change of a server or its votes.
pub(super) enum Change {
    /// A vote of this voter, with its addresses as the store knows them: it counts for all of them or for none.
    Vote { server: ServerId, voter: Voter, addresses: Vec<VoterAddress>, mode: Mode, voted_at: Option<UnixSeconds> },
    /// The end of a cooldown.
    Cancel(ServerId, VoterAddress),
    /// A server to list: with the token that is `said`, or with the one that it has, or else with `spare`. It is no
    /// success where it has another one than is to be `kept`.
    List { server: ServerId, said: Option<Token>, spare: Token, kept: Option<Token>, listing: ListingId },
    /// A new token for a listed server.
    Rotate(ServerId, Token),
    /// A server to strike off.
    Remove(ServerId),
}

impl Change {
    /// What the store is asked.
    #[must_use]
    pub(super) fn question(&self, term: Term<'_>) -> Cmd {
        match self {
            Self::Vote { server, addresses, mode, voted_at, .. } => {
                let mode = if *mode == Mode::Cast { "cast" } else { "record" };
                let voted_at = voted_at.map(|instant| instant.0.to_string()).unwrap_or_default();
                let mut words = vec![mode.to_owned(), voted_at];
                words.extend(addresses.iter().map(|address| member(*address)));
                term.change("vote_status_vote", *server, &words)
            }
            Self::Cancel(server, address) => term.change("vote_status_cancel", *server, &[member(*address)]),
            Self::List { server, said, spare, listing, .. } => {
                let said = said.as_ref().map_or("", Token::as_str);
                term.change("vote_status_server", *server, &["list", said, spare.as_str(), &listing.to_string()])
            }
            Self::Rotate(server, token) => {
                term.change("vote_status_server", *server, &["rotate", token.as_str(), token.as_str(), ""])
            }
            Self::Remove(server) => term.change("vote_status_remove", *server, &[""; 0]),
        }
    }

    /// What the store made of it, and the entry that it named in the third field of its reply, if it made one. `None` for
    /// a reply that makes no sense.
    #[must_use]
    pub(super) fn read(&self, reply: &Value, cooldown: Cooldown) -> Option<(Reply, Option<EntryId>)> {
        let fields = items(reply)?;
        let answer = match (self, number(fields.first()?)?) {
            // The third field is the address here, and no entry.
            (Self::Vote { voter, addresses, .. }, 2) => {
                let (refused, expires_at) = (text(fields.get(2)?)?, cooldown.expires_at(voted_at(fields)?));
                let at = addresses.iter().position(|address| member(*address) == refused)?;
                let address = voter.addresses().nth(at)?;
                return Some((Reply::Votes(vec![VoteOutcome::InCooldown(address, expires_at)]), None));
            }
            (Self::Vote { server, voter, .. }, what) => {
                let recorded = || {
                    let (server, voter, voted_at) = (*server, voter.clone(), voted_at(fields)?);
                    let expires_at = cooldown.expires_at(voted_at);
                    Some(Recorded { server, voter, voted_at, expires_at, is_confirmed: true })
                };
                Reply::Votes(vec![match what {
                    0 => VoteOutcome::Recorded(recorded()?),
                    1 => VoteOutcome::Unchanged(recorded()?),
                    3 => VoteOutcome::Expired,
                    4 => VoteOutcome::InFuture,
                    5 => VoteOutcome::UnknownServer,
                    6 => VoteOutcome::TooManyChanges,
                    _ => return None,
                }])
            }
            (Self::Cancel(..), 0) => Reply::Cancelled(Some(true)),
            (Self::Cancel(..), 1) => Reply::Cancelled(Some(false)),
            (Self::Cancel(..), 5) => Reply::Cancelled(None),
            (Self::List { server, kept, .. }, _) => Reply::Servers(vec![read_server(*server, reply, kept.as_ref())?]),
            (Self::Rotate(server, _), _) => Reply::Servers(vec![read_server(*server, reply, None)?]),
            (Self::Remove(server), 0) => Reply::Removed(Some(*server)),
            (Self::Remove(_), 5) => Reply::Removed(None),
            (Self::Cancel(..) | Self::Remove(_), _) => return None,
        };
        let entry = fields.get(2).map(|entry| EntryId::read(text(entry)?));
        // A third field that is no entry's name makes no sense.
        if entry == Some(None) { None } else { Some((answer, entry.flatten())) }
    }
}

/// What became of a server. Where a listed one keeps another token than `kept` that is no success.
#[must_use]
pub fn read_server(server: ServerId, reply: &Value, kept: Option<&Token>) -> Option<ServerOutcome> {
    let fields = items(reply)?;
    let token = || Token::stored(text(fields.get(1)?)?);
    Some(match number(fields.first()?)? {
        0 => ServerOutcome::Created(server, token()?),
        1 => ServerOutcome::Changed(server, token()?),
        2 => match token()? {
            held if kept.is_some_and(|kept| *kept != held) => ServerOutcome::TokenDiffers,
            held => ServerOutcome::Unchanged(server, held),
        },
        3 => ServerOutcome::TokenInUse,
        5 => ServerOutcome::Unknown,
        _ => return None,
    })
}

fn voted_at(fields: &[Value]) -> Option<UnixSeconds> {
    Some(UnixSeconds(u32::try_from(number(fields.get(1)?)?).ok()?))
}

/// A vote that the store had lost, and the listing under which it was given, where that is known.
#[must_use]
pub fn restore(term: Term<'_>, vote: &StoredVote, listing: Option<ListingId>) -> Cmd {
    let listing = listing.map(|listing| listing.to_string()).unwrap_or_default();
    let arguments = [&member(vote.pair.address), &vote.voted_at.0.to_string(), &listing];
    term.change("vote_status_restore", vote.pair.server, &arguments)
}

/// What a vote is called among what was taken away. A listing is called by its id.
#[must_use]
pub fn name(vote: &StoredVote) -> String {
    format!("{}:{}:{}", vote.pair.server, member(vote.pair.address), vote.voted_at.0)
}

/// Asks whether what is called so was taken away.
#[must_use]
pub fn is_gone(name: &str) -> Cmd {
    let mut command = cmd("ZSCORE");
    command.arg(keys::GONE).arg(name);
    command
}

/// What became of what was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GivenBack<T> {
    /// The store has it again.
    Taken,
    /// The store has this in its place, or nothing.
    Refused(Option<T>),
}

/// What became of a vote: the store may have a later one.
#[must_use]
pub fn read_restore(reply: &Value) -> Option<GivenBack<UnixSeconds>> {
    read_given_back(reply, |held| Some(UnixSeconds(u32::try_from(number(held)?).ok()?)))
}

/// What became of a server: it may have another token.
#[must_use]
pub fn read_relist(reply: &Value) -> Option<GivenBack<Token>> {
    read_given_back(reply, |held| token(text(held)?))
}

fn read_given_back<T>(reply: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<GivenBack<T>> {
    let fields = items(reply)?;
    match (number(fields.first()?)?, fields.get(1)) {
        (0, _) => Some(GivenBack::Taken),
        (1, None) => Some(GivenBack::Refused(None)),
        (1, Some(held)) => Some(GivenBack::Refused(Some(read(held)?))),
        _ => None,
    }
}

/// A server that the store had lost.
#[must_use]
pub fn relist(term: Term<'_>, server: ServerId, token: &Token, listing: Option<ListingId>) -> Cmd {
    let listing = listing.map(|listing| listing.to_string()).unwrap_or_default();
    term.change("vote_status_relist", server, &[token.as_str(), &listing])
}

/// What a node says of itself to the others: that nothing is owed to this history.
#[must_use]
pub fn node(store: &str, name: &str, history: &str, former: &str, tidy: &str) -> Cmd {
    let mut command = cmd("FCALL");
    command.arg("vote_status_node").arg(2).arg(&[keys::META, keys::NODES, store, name, history, former, tidy]);
    command
}

/// Asks for the servers of some tokens, and for the store's id: a store that was emptied meanwhile knows
/// neither.
#[must_use]
pub fn resolve(tokens: &[&Token]) -> [Cmd; 2] {
    let mut lookup = cmd("HMGET");
    lookup.arg(keys::TOKENS);
    for token in tokens {
        lookup.arg(token.as_str());
    }
    let mut store = cmd("HGET");
    store.arg(keys::META).arg("store");
    [lookup, store]
}

/// The servers in a reply to the first question of [`resolve`], in its order.
#[must_use]
pub fn read_resolved(reply: &Value) -> Option<Vec<Option<ServerId>>> {
    let server = |value: &Value| match value {
        Value::Nil => Some(None),
        value => Some(Some(ServerId(u32::try_from(number(value)?).ok()?))),
    };
    items(reply)?.iter().map(server).collect()
}

#[cfg(test)]
mod tests {
    use redis::Value;

    use super::{Change, read_relist, read_resolved, read_restore};
    use crate::recorder::command::Mode;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::Cooldown;

    #[test]
    fn a_reply_that_makes_no_sense_is_no_answer() {
        let (server, address) = (ServerId(28), VoterAddress::V4(Ipv4(7)));
        let (addresses, mode) = (vec![address], Mode::Cast);
        let vote = Change::Vote { server, voter: address.into(), addresses, mode, voted_at: None };
        let rotate = Change::Rotate(server, Token::new("demo").expect("a token"));
        let (int, text) = (Value::Int, |text: &str| Value::BulkString(text.as_bytes().to_vec()));
        let read = |change: &Change, reply| change.read(&reply, Cooldown::from_minutes(90).expect("in range"));
        for (change, fields) in [
            (&vote, vec![]),
            (&vote, vec![int(7)]),
            (&vote, vec![int(0)]),
            (&vote, vec![int(0), int(1_000), text("no entry")]),
            // Nobody asked for that address.
            (&vote, vec![int(2), int(1_000), text("8")]),
            (&Change::Cancel(server, address), vec![int(2)]),
            (&Change::Remove(server), vec![int(1)]),
            (&rotate, vec![int(0), text("no token")]),
            (&rotate, vec![int(4), text("demo")]),
        ] {
            assert_eq!(read(change, Value::Array(fields.clone())), None, "{fields:?}");
        }
        assert_eq!(read(&vote, Value::Nil), None);
        let strange = Value::Array(vec![int(1), text("x")]);
        assert_eq!((read_restore(&strange), read_relist(&strange), read_resolved(&strange)), (None, None, None));
    }
}
