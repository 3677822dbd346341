//! Calls of the store's functions: how each is asked, and what its reply means. Knows no connection.

use redis::{Cmd, Value, cmd};

use super::entry::{EntryId, ListingId, items, member, number, text, token};
use super::keys;
use crate::clock::Now;
use crate::recorder::command::{Mode, Recorded, ServerOutcome, VoteOutcome};
use crate::store::StoredVote;
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::{ServerId, Token};
use crate::vote::table::CooldownView;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The entry of the log that a call made, if it made one.
pub type Made = Option<EntryId>;

/// The store that is asked, and until when: later it refuses, as its caller waits no more.
#[derive(Clone, Copy, Debug)]
pub struct Term<'a> {
    /// The store's id.
    pub store: &'a str,
    /// In milliseconds of the store's clock.
    pub until_ms: u64,
}

impl Term<'_> {
    fn change(self, function: &str, server: ServerId, arguments: &[&str]) -> Cmd {
        change(function, self.store, Some(self.until_ms), server, arguments)
    }
}

/// A change of a server or its votes. What is given back has no term: it is as welcome late.
fn change(function: &str, store: &str, until_ms: Option<u64>, server: ServerId, arguments: &[&str]) -> Cmd {
    let claims = keys::claims(server);
    let mut command = cmd("FCALL");
    command.arg(function).arg(6).arg(&[keys::LOG, &claims, keys::DIRECTORY, keys::TOKENS, keys::META, keys::GONE]);
    command.arg(store).arg(until_ms.map(|ms| ms.to_string()).unwrap_or_default()).arg(server.0).arg(arguments);
    command
}

/// A vote for a listed server, of a voter with these addresses: it counts for all of them or for none.
#[must_use]
pub fn vote(
    term: Term<'_>,
    mode: Mode,
    server: ServerId,
    addresses: &[VoterAddress],
    voted_at: Option<UnixSeconds>,
) -> Cmd {
    let mode = if mode == Mode::Cast { "cast" } else { "record" };
    let voted_at = voted_at.map(|instant| instant.0.to_string()).unwrap_or_default();
    let mut question = term.change("vote_status_vote", server, &[mode, &voted_at]);
    for address in addresses {
        question.arg(member(*address));
    }
    question
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

/// A change of a server or its votes that was asked for, which says how the reply is read.
pub enum Change {
    /// A vote of this voter.
    Vote(ServerId, Voter),
    /// The end of a cooldown.
    Cancel,
    /// A server to list, with the token that only a new one gets: a listed one with another token keeps that. Or one to
    /// give another token.
    Server(ServerId, Option<Token>),
    /// A server to remove.
    Remove(ServerId),
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// Of a vote.
    Vote(VoteOutcome),
    /// Whether there was a cooldown to end; `None` for no such server.
    Cancel(Option<bool>),
    /// Of a server.
    Server(ServerOutcome),
    /// The server that was removed; `None` where it was not listed.
    Remove(Option<ServerId>),
}

impl Change {
    /// What the store made of it, and the entry that it named in the third field of its reply, if it made one. `None` for
    /// a reply that makes no sense.
    #[must_use]
    pub fn read(&self, reply: &Value, cooldowns: &CooldownView, cooldown: Cooldown) -> Option<(ChangeOutcome, Made)> {
        let fields = items(reply)?;
        let outcome = match (self, number(fields.first()?)?) {
            // The third field is the address here, and no entry.
            (Self::Vote(_, voter), 2) => {
                let (refused, expires_at) = (text(fields.get(2)?)?, cooldown.expires_at(voted_at(fields)?));
                let address = voter.addresses().find(|address| member(cooldowns.voter(*address)) == refused)?;
                return Some((ChangeOutcome::Vote(VoteOutcome::InCooldown(address, expires_at)), None));
            }
            (Self::Vote(server, voter), what) => {
                let recorded = || {
                    let (server, voter, voted_at) = (*server, voter.clone(), voted_at(fields)?);
                    let expires_at = cooldown.expires_at(voted_at);
                    Some(Recorded { server, voter, voted_at, expires_at, is_confirmed: true })
                };
                ChangeOutcome::Vote(match what {
                    0 => VoteOutcome::Recorded(recorded()?),
                    1 => VoteOutcome::Unchanged(recorded()?),
                    3 => VoteOutcome::Expired,
                    4 => VoteOutcome::InFuture,
                    5 => VoteOutcome::UnknownServer,
                    6 => VoteOutcome::TooManyChanges,
                    _ => return None,
                })
            }
            (Self::Cancel, 0) => ChangeOutcome::Cancel(Some(true)),
            (Self::Cancel, 1) => ChangeOutcome::Cancel(Some(false)),
            (Self::Cancel, 5) => ChangeOutcome::Cancel(None),
            (Self::Server(server, kept), _) => ChangeOutcome::Server(read_server(*server, reply, kept.as_ref())?),
            (Self::Remove(server), 0) => ChangeOutcome::Remove(Some(*server)),
            (Self::Remove(_), 5) => ChangeOutcome::Remove(None),
            (Self::Cancel | Self::Remove(_), _) => return None,
        };
        let entry = fields.get(2).map(|entry| EntryId::read(text(entry)?));
        // A third field that is no entry's name makes no sense.
        if entry == Some(None) { None } else { Some((outcome, entry.flatten())) }
    }
}

/// What became of a server. Where a listed one keeps another token than `kept` that is no success.
#[must_use]
pub fn read_server(server: ServerId, reply: &Value, kept: Option<&Token>) -> Option<ServerOutcome> {
    let fields = items(reply)?;
    let token = || Token::new(text(fields.get(1)?)?);
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

/// The end of a cooldown.
#[must_use]
pub fn cancel(term: Term<'_>, server: ServerId, address: VoterAddress) -> Cmd {
    term.change("vote_status_cancel", server, &[&member(address)])
}

/// A vote that the store had lost, and the listing under which it was given, where that is known.
#[must_use]
pub fn restore(store: &str, vote: &StoredVote, listing: Option<ListingId>) -> Cmd {
    let listing = listing.map(|listing| listing.to_string()).unwrap_or_default();
    let arguments = [&member(vote.pair.address), &vote.voted_at.0.to_string(), &listing];
    change("vote_status_restore", store, None, vote.pair.server, &arguments.map(String::as_str))
}

/// Asks whether this vote was taken away.
#[must_use]
pub fn is_vote_gone(vote: &StoredVote) -> Cmd {
    is_gone(&format!("{}:{}:{}", vote.pair.server, member(vote.pair.address), vote.voted_at.0))
}

/// Asks whether a server was removed that was listed so.
#[must_use]
pub fn is_listing_gone(listing: ListingId) -> Cmd {
    is_gone(&listing.to_string())
}

fn is_gone(name: &str) -> Cmd {
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

/// A server to list: with this token, or with the one it has, or else with `spare`.
#[must_use]
pub fn list(term: Term<'_>, server: ServerId, token: Option<&Token>, spare: &Token, listing: ListingId) -> Cmd {
    let said = token.map_or("", Token::as_str);
    term.change("vote_status_server", server, &["list", said, spare.as_str(), &listing.to_string()])
}

/// A server that the store had lost.
#[must_use]
pub fn relist(store: &str, server: ServerId, token: &Token, listing: Option<ListingId>) -> Cmd {
    let listing = listing.map(|listing| listing.to_string()).unwrap_or_default();
    change("vote_status_relist", store, None, server, &[token.as_str(), &listing])
}

/// A new token for a listed server.
#[must_use]
pub fn rotate(term: Term<'_>, server: ServerId, token: &Token) -> Cmd {
    term.change("vote_status_server", server, &["rotate", token.as_str(), token.as_str(), ""])
}

/// A server to strike off.
#[must_use]
pub fn remove(term: Term<'_>, server: ServerId) -> Cmd {
    term.change("vote_status_remove", server, &[])
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

    use super::{Change, ChangeOutcome, GivenBack, Made, Term, read_relist, read_resolved, read_restore, vote};
    use crate::cluster::entry::EntryId;
    use crate::recorder::command::{Mode, Recorded, ServerOutcome, VoteOutcome};
    use crate::vote::address::{Voter, VoterAddress};
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use crate::vote::table::CooldownTable;
    use crate::vote::time::{Cooldown, UnixSeconds};

    const V4: VoterAddress = VoterAddress::V4(Ipv4(7));
    const V6: VoterAddress = VoterAddress::V6(Ipv6Network(0x2001_0db8_0000_0001));

    fn reply(numbers: &[i64], entry: Option<&str>) -> Value {
        let numbers = numbers.iter().map(|number| Value::Int(*number));
        Value::Array(numbers.chain(entry.map(|entry| Value::BulkString(entry.as_bytes().to_vec()))).collect())
    }

    #[test]
    fn outcomes_of_votes() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let voter = Voter::new(&[V4, V6]).expect("two addresses");
        let change = Change::Vote(ServerId(28), voter.clone());
        let read = |reply: &Value| match change.read(reply, &CooldownTable::default().view(), cooldown)? {
            (ChangeOutcome::Vote(outcome), made) => Some((outcome, made)),
            other => panic!("{other:?}"),
        };
        let recorded = Recorded {
            server: ServerId(28),
            voter: voter.clone(),
            voted_at: UnixSeconds(1_000),
            expires_at: UnixSeconds(6_400),
            is_confirmed: true,
        };
        let entry = Some(EntryId { ms: 1_000_250, sequence: 0 });
        assert_eq!(
            read(&reply(&[0, 1_000], Some("1000250-0"))),
            Some((VoteOutcome::Recorded(recorded.clone()), entry))
        );
        assert_eq!(read(&reply(&[1, 1_000], None)), Some((VoteOutcome::Unchanged(recorded), None)));
        let in_cooldown = VoteOutcome::InCooldown(V6, UnixSeconds(6_400));
        assert_eq!(read(&reply(&[2, 1_000], Some("20010db800000001"))), Some((in_cooldown, None)));
        assert_eq!(read(&reply(&[2, 1_000], Some("8"))), None, "nobody asked for that one");
        assert_eq!(read(&reply(&[3], None)), Some((VoteOutcome::Expired, None)));
        assert_eq!(read(&reply(&[4], None)), Some((VoteOutcome::InFuture, None)));
        assert_eq!(read(&reply(&[5], None)), Some((VoteOutcome::UnknownServer, None)));
        assert_eq!(read(&reply(&[6], None)), Some((VoteOutcome::TooManyChanges, None)));
        for strange in [reply(&[0], None), reply(&[7], None), reply(&[], None), reply(&[0, 1], Some("x")), Value::Nil] {
            assert_eq!(read(&strange), None, "{strange:?}");
        }
    }

    #[test]
    fn outcomes_of_everything_else() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let read = |change: Change, reply: &Value| change.read(reply, &CooldownTable::default().view(), cooldown);
        let entry: Made = Some(EntryId { ms: 5, sequence: 1 });
        let cancel = |reply: &Value| read(Change::Cancel, reply);
        assert_eq!(cancel(&reply(&[0, 9], Some("5-1"))), Some((ChangeOutcome::Cancel(Some(true)), entry)));
        assert_eq!(cancel(&reply(&[1], None)), Some((ChangeOutcome::Cancel(Some(false)), None)));
        assert_eq!(cancel(&reply(&[5], None)), Some((ChangeOutcome::Cancel(None), None)));
        assert_eq!(cancel(&reply(&[2], None)), None);
        assert_eq!(read_restore(&reply(&[0, 9], Some("5-1"))), Some(GivenBack::Taken));
        assert_eq!(read_restore(&reply(&[1], None)), Some(GivenBack::Refused(None)));
        assert_eq!(read_restore(&reply(&[1, 9], None)), Some(GivenBack::Refused(Some(UnixSeconds(9)))));
        assert_eq!(read_restore(&reply(&[2], None)), None);
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let listed = Value::Array(vec![Value::Int(1), text("v1;demo")]);
        assert_eq!(read_relist(&listed), Some(GivenBack::Refused(Token::new("demo"))));
        let created = Value::Array(vec![Value::Int(0), text("demo"), text("5-1")]);
        let [demo, other] = ["demo", "other"].map(|text| Token::new(text).expect("a token"));
        let server =
            |kept: Option<&Token>, reply: &Value| match read(Change::Server(ServerId(28), kept.cloned()), reply)? {
                (ChangeOutcome::Server(outcome), made) => Some((outcome, made)),
                other => panic!("{other:?}"),
            };
        assert_eq!(server(None, &created), Some((ServerOutcome::Created(ServerId(28), demo.clone()), entry)));
        assert_eq!(server(None, &reply(&[3], None)), Some((ServerOutcome::TokenInUse, None)));
        let unchanged = Value::Array(vec![Value::Int(2), text("demo")]);
        assert_eq!(server(Some(&demo), &unchanged), Some((ServerOutcome::Unchanged(ServerId(28), demo), None)));
        assert_eq!(server(Some(&other), &unchanged), Some((ServerOutcome::TokenDiffers, None)));
        let removed = Value::Array(vec![Value::Int(0), text(""), text("5-1")]);
        assert_eq!(
            read(Change::Remove(ServerId(28)), &removed),
            Some((ChangeOutcome::Remove(Some(ServerId(28))), entry))
        );
        assert_eq!(read(Change::Remove(ServerId(28)), &reply(&[5], None)), Some((ChangeOutcome::Remove(None), None)));
        let resolved = Value::Array(vec![text("28"), Value::Nil]);
        assert_eq!(read_resolved(&resolved), Some(vec![Some(ServerId(28)), None]));
        assert_eq!(read_resolved(&Value::Array(vec![text("x")])), None);
    }

    #[test]
    fn a_call_names_all_its_keys() {
        let term = Term { store: "id", until_ms: 8_000 };
        let packed = vote(term, Mode::Cast, ServerId(28), &[V4, V6], Some(UnixSeconds(9))).get_packed_command();
        let words: Vec<String> =
            String::from_utf8_lossy(&packed).split("\r\n").skip(2).step_by(2).map(String::from).collect();
        let keys = "6 vs:{0}:log vs:{0}:s:28 vs:{0}:dir vs:{0}:tok vs:{0}:meta vs:{0}:gone";
        let expected = format!("FCALL vote_status_vote {keys} id 8000 28 cast 9 7 20010db800000001");
        assert_eq!(words.join(" "), expected);
    }
}
