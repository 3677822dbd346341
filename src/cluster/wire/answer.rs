//! The store's answers, and how they are read.

use super::fact::{Fact, Listing, Record, Said};
use super::last::Last;
use super::question::{StoreCall, StoreQuestion};
use crate::cluster::entry::{EntryId, address, items, number, text};
use crate::cluster::resp::Value;
use crate::vote::address::VoterAddress;
use crate::vote::id::ServerId;
use crate::vote::time::UnixSeconds;

/// An answer of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreAnswer {
    /// The store's time in milliseconds, if the answer has it.
    pub now_ms: Option<u64>,
    /// The content of an answer.
    pub reply: StoreReply,
}

/// The content of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreReply {
    /// To [`StoreQuestion::Head`].
    Head {
        /// Whether the store holds the entry that the caller named.
        is_held: bool,
        /// The store's last entry.
        last: Last,
        /// The store's id.
        store: String,
        /// The version of the store's keys.
        schema: String,
        /// The version of the store's functions.
        version: String,
    },
    /// To [`StoreQuestion::Node`].
    Nodes {
        /// Whether the store holds the entry that the caller named.
        is_held: bool,
        /// The store's last entry.
        last: Last,
        /// The version of the store's functions.
        version: String,
        /// The records of all nodes.
        records: Vec<NodeRecord>,
    },
    /// To [`StoreQuestion::Meta`].
    Meta {
        /// The store's id; empty if it has none.
        store: String,
        /// The version of the store's keys.
        schema: String,
        /// The store's cooldown, in seconds.
        cooldown_s: u64,
        /// How many bits of an IPv6 address tell one voter from another.
        prefix: u64,
        /// The store's last entry.
        last: Last,
        /// The greatest stamp that the store has seen.
        stamp: u64,
    },
    /// To [`StoreQuestion::Servers`]: the next cursor, and servers. An unreadable record is `None`.
    Servers(String, Vec<(ServerId, Option<Record>)>),
    /// To [`StoreQuestion::Gone`]: removals, and the number of members in all.
    Gone(Vec<Gone>, usize),
    /// To [`StoreQuestion::Votes`].
    Votes(Vec<(VoterAddress, UnixSeconds)>),
    /// To [`StoreQuestion::Log`].
    Log(Vec<LogItem>),
    /// To [`StoreQuestion::ServerOf`].
    ServerOf(Option<ServerId>),
    /// To [`StoreQuestion::RecordOf`].
    RecordOf(Option<Record>),
    /// To [`StoreQuestion::VoteOf`].
    VoteOf(Option<UnixSeconds>),
    /// To [`StoreQuestion::Change`]: the outcome, and its entry in the log, if there is one.
    Done(Done, Option<Last>),
    /// To any question: the store refuses.
    Refused(StoreRefusal),
}

impl StoreReply {
    /// Whether a vote counts by this reply.
    #[must_use]
    pub const fn is_vote(&self) -> bool {
        matches!(self, Self::Done(Done::Recorded(..) | Done::Unchanged(_), _))
    }
}

/// A node's record of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeRecord {
    /// The node's name.
    pub name: String,
    /// The number of records that it has written.
    pub count: u64,
    /// The number of facts that it owes: at least 1 if the store did not hold its last entry.
    pub owed: u64,
}

/// A removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// A listing of a server; server 0 stands for an unknown one.
    Listing(ServerId, Listing),
    /// The votes of an address up to this instant.
    Vote(ServerId, UnixSeconds, VoterAddress),
}

/// An item of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogItem {
    /// An entry of ours.
    Entry(Entry),
    /// An entry that another program wrote.
    Strange(EntryId),
    /// An entry of ours that this version cannot read.
    Unreadable(EntryId),
}

/// An entry: one whole change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, its name and its bits.
    pub last: Last,
    /// The mark of the entry before it: see [`Last::mark`].
    pub before: String,
    /// The facts that the change made.
    pub facts: Vec<EntryFact>,
}

/// A fact in an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryFact {
    /// A vote under the present listing of its server.
    Vote(ServerId, UnixSeconds, VoterAddress),
    /// Any other fact.
    Other(Said),
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// The vote counts, since then and under this listing of its server.
    Recorded(UnixSeconds, Record),
    /// The recorded vote is as late or later.
    Unchanged(UnixSeconds),
    /// This address is in cooldown since then.
    InCooldown(VoterAddress, UnixSeconds),
    /// A vote of this address was taken away, at that instant or later.
    WasCancelled,
    /// The cooldown of the vote is over already.
    Over,
    /// The vote is too far ahead of the store's clock.
    InFuture,
    /// The server is not listed.
    Unlisted,
    /// Too many votes of this voter were taken away within seconds.
    TooMany,
    /// The vote of this instant was taken away.
    Cancelled(UnixSeconds),
    /// Another vote stands than the one that the caller named, or none.
    OtherVote(Option<UnixSeconds>),
    /// The server was not listed, and is listed so.
    Listed(Record),
    /// The server was listed, and has another token now.
    TokenChanged(Record),
    /// The server is listed so, as before.
    SameToken(Record),
    /// The token is another server's.
    TokenInUse,
    /// This listing was taken away.
    Removed(Listing),
    /// The server is listed otherwise than the caller named, or not at all.
    OtherRecord(Option<Record>),
    /// The outcome of each fact that was given back.
    Given(Vec<Given>),
}

/// The outcome of a fact that was given back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Given {
    /// The store has the fact, or one that outweighs it.
    Stands,
    /// The store knows this fact, which outweighs it.
    Outweighed(Fact),
    /// The fact is over.
    Over,
    /// The store does not know the listing of the vote.
    Unlisted,
}

/// A refusal of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreRefusal {
    /// The kind of the refusal.
    pub kind: RefusalKind,
    /// The refusal in words.
    pub text: String,
}

/// The kind of a refusal, which decides how a node goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// The store is another one, or empty.
    OtherStore,
    /// The store does not hold the last entry that the caller knows.
    Lost,
    /// A key of the server is of a strange type.
    Key,
    /// This machine takes no changes for now: another connection may lead to one that does.
    Elsewhere,
    /// Any other refusal before the first write.
    Other,
    /// An error after the first write, or a reply that makes no sense: the outcome is unknown.
    InDoubt,
}

/// Codes of a machine that takes no changes for now. Another machine may take them, or the same one after a new connection.
const ELSEWHERE: [&str; 9] =
    ["READONLY", "LOADING", "MASTERDOWN", "NOAUTH", "UNBLOCKED", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"];

impl StoreAnswer {
    /// Reads the reply to a question.
    #[must_use]
    pub fn read(question: &StoreQuestion, value: &Value) -> Self {
        if let Value::Error(why) = value {
            return Self::of_error(why.clone());
        }
        if !matches!(question, StoreQuestion::Head(_) | StoreQuestion::Node(..) | StoreQuestion::Change(..)) {
            let reply = read_plain(question, value);
            return reply.map_or_else(|| Self::strange(None, value), |reply| Self { now_ms: None, reply });
        }
        let Some((now_ms, fields)) = items(value).and_then(|fields| Some((number(fields.first()?)?, &fields[1..])))
        else {
            return Self::strange(None, value);
        };
        let word = fields.first().and_then(text).unwrap_or_default();
        if word.starts_with("VS") {
            let why = fields.get(1).and_then(text).unwrap_or_default();
            return Self::refused(Some(now_ms), RefusalKind::of(word), format!("{word} {why}"));
        }
        let reply = match question {
            StoreQuestion::Head(_) => read_head(word, fields),
            StoreQuestion::Node(..) => read_nodes(word, fields),
            StoreQuestion::Change(_, call, _) => read_change(call, word, fields),
            _ => None,
        };
        reply.map_or_else(|| Self::strange(Some(now_ms), value), |reply| Self { now_ms: Some(now_ms), reply })
    }

    /// The answer for an error of the store: its code, and the text behind it.
    #[must_use]
    pub fn of_error(text: String) -> Self {
        let code = text.split(' ').next().unwrap_or_default();
        let is_elsewhere = ELSEWHERE.contains(&code) || text.contains("Function not found");
        Self::refused(None, if is_elsewhere { RefusalKind::Elsewhere } else { RefusalKind::Other }, text)
    }

    fn refused(now_ms: Option<u64>, kind: RefusalKind, text: String) -> Self {
        Self { now_ms, reply: StoreReply::Refused(StoreRefusal { kind, text }) }
    }

    fn strange(now_ms: Option<u64>, value: &Value) -> Self {
        Self::refused(now_ms, RefusalKind::InDoubt, format!("a strange reply: {value:?}"))
    }
}

impl RefusalKind {
    fn of(code: &str) -> Self {
        match code {
            "VSSTORE" => Self::OtherStore,
            "VSLOST" => Self::Lost,
            "VSKEY" => Self::Key,
            "VSHALF" => Self::InDoubt,
            _ => Self::Other,
        }
    }
}

fn seconds(value: &Value) -> Option<UnixSeconds> {
    Some(UnixSeconds(u32::try_from(number(value)?).ok()?))
}

fn maybe<T>(value: &Value, read: impl Fn(&Value) -> Option<T>) -> Option<Option<T>> {
    if *value == Value::Nil || text(value) == Some("") { Some(None) } else { read(value).map(Some) }
}

fn record(value: &Value) -> Option<Record> {
    Record::read(text(value)?)
}

fn server(value: &Value) -> Option<ServerId> {
    Some(ServerId(u32::try_from(number(value)?).ok()?))
}

fn read_plain(question: &StoreQuestion, value: &Value) -> Option<StoreReply> {
    Some(match question {
        StoreQuestion::Meta => {
            let [store, schema, cooldown_s, prefix, last, stamp] = items(value)? else { return None };
            StoreReply::Meta {
                store: text(store).unwrap_or_default().to_owned(),
                schema: text(schema).unwrap_or_default().to_owned(),
                cooldown_s: number(cooldown_s).unwrap_or_default(),
                prefix: number(prefix).unwrap_or_default(),
                last: text(last).map_or(Some(Last::default()), Last::read)?,
                stamp: number(stamp).unwrap_or_default(),
            }
        }
        StoreQuestion::Servers(..) => {
            let [next, pairs] = items(value)? else { return None };
            let pairs = items(pairs)?.chunks_exact(2);
            let servers = pairs.map(|pair| Some((server(&pair[0])?, record(&pair[1]))));
            StoreReply::Servers(text(next)?.to_owned(), servers.collect::<Option<_>>()?)
        }
        StoreQuestion::Gone(..) => {
            let members = items(value)?;
            let gone = members.chunks_exact(2).filter_map(|pair| read_gone(text(&pair[0])?, &pair[1]));
            StoreReply::Gone(gone.collect(), members.len() / 2)
        }
        StoreQuestion::Votes(..) => {
            let pairs = items(value)?.chunks_exact(2);
            StoreReply::Votes(
                pairs.map(|pair| Some((address(text(&pair[0])?)?, seconds(&pair[1])?))).collect::<Option<_>>()?,
            )
        }
        StoreQuestion::Log(..) => StoreReply::Log(lines(value)?),
        StoreQuestion::ServerOf(_) => StoreReply::ServerOf(maybe(value, server)?),
        StoreQuestion::RecordOf(_) => StoreReply::RecordOf(maybe(value, record)?),
        StoreQuestion::VoteOf(..) => StoreReply::VoteOf(maybe(value, seconds)?),
        StoreQuestion::Head(_) | StoreQuestion::Node(..) | StoreQuestion::Change(..) => return None,
    })
}

/// Reads a removal: `SERVER:LISTING`, or `SERVER:ADDRESS` with an instant for its score. Any other member is a hint for the
/// functions.
fn read_gone(member: &str, score: &Value) -> Option<Gone> {
    let (server, rest) = member.split_once(':')?;
    let server = ServerId(server.parse().ok()?);
    if let Some(listing) = Listing::read(rest) {
        return Some(Gone::Listing(server, listing));
    }
    Some(Gone::Vote(server, seconds(score)?, address(rest)?))
}

/// `ADDRESS:INSTANT`
fn read_vote(text: &str) -> Option<(UnixSeconds, VoterAddress)> {
    let (voter, at) = text.split_once(':')?;
    Some((UnixSeconds(at.parse().ok()?), address(voter)?))
}

fn lines(value: &Value) -> Option<Vec<LogItem>> {
    if *value == Value::Nil {
        return Some(Vec::new());
    }
    let [log] = items(value)? else { return None };
    let [_name, lines] = items(log)? else { return None };
    items(lines)?.iter().map(line).collect()
}

fn line(value: &Value) -> Option<LogItem> {
    let [id, fields] = items(value)? else { return None };
    let id = EntryId::read(text(id)?)?;
    let fields: Option<Vec<&str>> = items(fields)?.iter().map(text).collect();
    let fields = fields.unwrap_or_default();
    let ["n", n, "b", bits, "p", before, facts @ ..] = fields.as_slice() else { return Some(LogItem::Strange(id)) };
    let (Ok(n), Ok(bits), before) = (n.parse(), bits.parse(), (*before).to_owned()) else {
        return Some(LogItem::Strange(id));
    };
    let last = Last { n, id, bits };
    Some(read_facts(facts).map_or(LogItem::Unreadable(id), |facts| LogItem::Entry(Entry { last, before, facts })))
}

fn read_facts(fields: &[&str]) -> Option<Vec<EntryFact>> {
    let mut of = None;
    let mut facts = Vec::new();
    for pair in fields.chunks_exact(2) {
        let (name, value) = (pair[0], pair[1]);
        if name == "s" {
            of = Some(ServerId(value.parse().ok()?));
            continue;
        }
        let server = of?;
        let fact = match name {
            "v" => {
                let (at, voter) = read_vote(value)?;
                facts.push(EntryFact::Vote(server, at, voter));
                continue;
            }
            "c" => {
                let (at, voter) = read_vote(value)?;
                Fact::VoteGone(at, voter)
            }
            "x" => Fact::ListingGone(Listing::read(value)?),
            "r" => Fact::Listed(Record::read(value)?),
            _ => return None,
        };
        facts.push(EntryFact::Other(Said { server, fact }));
    }
    Some(facts)
}

fn read_head(word: &str, fields: &[Value]) -> Option<StoreReply> {
    let [_, last, store, schema, version, ..] = fields else { return None };
    let is_held = read_held(word)?;
    let own = |value| text(value).map(str::to_owned);
    let last = Last::read(text(last)?)?;
    Some(StoreReply::Head { is_held, last, store: own(store)?, schema: own(schema)?, version: own(version)? })
}

fn read_held(word: &str) -> Option<bool> {
    match word {
        "held" => Some(true),
        "lost" => Some(false),
        _ => None,
    }
}

fn read_nodes(word: &str, fields: &[Value]) -> Option<StoreReply> {
    let [_, last, version, pairs @ ..] = fields else { return None };
    let last = Last::read(text(last)?)?;
    let (version, pairs) = (text(version)?.to_owned(), pairs.chunks_exact(2));
    // A record of an earlier version has no meaning here.
    let nodes = pairs.filter_map(|pair| {
        let mut parts = text(&pair[1])?.strip_prefix("v2;")?.split(';');
        let (count, owed) = (parts.next()?.parse().ok()?, parts.next()?.parse::<u64>().ok()?);
        let is_held = parts.next()? == "held";
        Some(NodeRecord { name: text(&pair[0])?.to_owned(), count, owed: if is_held { owed } else { owed.max(1) } })
    });
    Some(StoreReply::Nodes { is_held: read_held(word)?, last, version, records: nodes.collect() })
}

fn read_change(call: &StoreCall, word: &str, fields: &[Value]) -> Option<StoreReply> {
    let made = maybe(fields.get(1)?, |last| Last::read(text(last)?))?;
    let field = |at: usize| fields.get(at);
    let done = match (call, word) {
        (StoreCall::Cast(..) | StoreCall::Record(..), "recorded") => {
            Done::Recorded(seconds(field(2)?)?, record(field(3)?)?)
        }
        (StoreCall::Record(..), "unchanged") => Done::Unchanged(seconds(field(2)?)?),
        (StoreCall::Cast(..), "cooldown") => Done::InCooldown(address(text(field(3)?)?)?, seconds(field(2)?)?),
        (StoreCall::Record(..), "cancelled") => Done::WasCancelled,
        (StoreCall::Cast(..) | StoreCall::Record(..), "over") => Done::Over,
        (StoreCall::Cast(..) | StoreCall::Record(..), "future") => Done::InFuture,
        (_, "unlisted") => Done::Unlisted,
        (StoreCall::Cast(..), "many") => Done::TooMany,
        (StoreCall::Cancel(_, at), "cancelled") => Done::Cancelled(*at),
        (StoreCall::Cancel(..), "other") => Done::OtherVote(maybe(field(2)?, seconds)?),
        (StoreCall::List { before: None, .. }, "listed") => Done::Listed(record(field(2)?)?),
        (StoreCall::List { .. }, "listed") => Done::TokenChanged(record(field(2)?)?),
        (StoreCall::List { .. }, "unchanged") => Done::SameToken(record(field(2)?)?),
        (StoreCall::List { .. }, "in_use") => Done::TokenInUse,
        (StoreCall::Remove(listing), "removed") => Done::Removed(*listing),
        (StoreCall::List { .. } | StoreCall::Remove(_), "other") => Done::OtherRecord(maybe(field(2)?, record)?),
        (StoreCall::Give(facts), "given") => Done::Given(read_given(facts, &fields[2..])?),
        _ => return None,
    };
    Some(StoreReply::Done(done, made))
}

/// Reads two fields for each pair of the call. The name of a listing is a pair, too.
fn read_given(facts: &[Fact], fields: &[Value]) -> Option<Vec<Given>> {
    let mut pairs = fields.chunks_exact(2);
    let mut named = None;
    let mut given = Vec::new();
    for fact in facts {
        if let Fact::Vote(listing, ..) = fact
            && named.replace(*listing) != Some(*listing)
        {
            pairs.next()?;
        }
        let [word, now] = pairs.next()? else { return None };
        given.push(match (fact, text(word)?) {
            (Fact::Vote(..), "unlisted") => Given::Unlisted,
            (_, "over") => Given::Over,
            (Fact::Vote(listing, _, address), "later") => {
                Given::Outweighed(Fact::Vote(*listing, seconds(now)?, *address))
            }
            (Fact::Vote(_, at, address), "gone") => Given::Outweighed(Fact::VoteGone(*at, *address)),
            (Fact::Vote(listing, ..), "ended") => Given::Outweighed(Fact::ListingGone(*listing)),
            (Fact::Listed(given), "ended") => Given::Outweighed(match maybe(now, record)? {
                Some(stands) if stands.listing > given.listing => Fact::Listed(stands),
                _ => Fact::ListingGone(given.listing),
            }),
            (_, "made" | "has") => Given::Stands,
            _ => return None,
        });
    }
    Some(given)
}
