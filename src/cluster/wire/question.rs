//! A node's questions to the store, and their words.

use super::fact::{Fact, Listing, Record};
use super::last::Last;
use crate::cluster::entry::{EntryId, member};
use crate::cluster::keys;
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// A node's record of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRecord {
    /// The node's name, which no other process has.
    pub name: String,
    /// The number of this record.
    pub count: u64,
    /// The number of facts that the node owes.
    pub owed: u64,
    /// The names of nodes to forget.
    pub forgotten: Vec<String>,
}

/// The terms of a call, which come before its change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The store's id.
    pub store: String,
    /// The latest time for the change, in milliseconds of the store's clock. Facts that are given back may come late.
    pub until_ms: Option<u64>,
    /// The last entry that the caller knows.
    pub last: Last,
    /// The random bits that tell this change from every other one.
    pub bits: i64,
}

/// A change of a server or its votes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreCall {
    /// A vote that is refused in a cooldown, at this instant or now.
    Cast(Option<UnixSeconds>, Vec<VoterAddress>),
    /// A vote from the caller's own records.
    Record(UnixSeconds, Vec<VoterAddress>),
    /// The end of the cooldown of this very vote.
    Cancel(VoterAddress, UnixSeconds),
    /// Another token for a listed server, or a new listing with bits of its own.
    List {
        /// The record that the caller found; `None` for no listing.
        before: Option<Record>,
        /// The new token.
        token: Token,
        /// The random bits that tell a new listing from every other one.
        listing_bits: u64,
        /// The greatest stamp that the caller knows.
        stamp: u64,
    },
    /// The end of this very listing.
    Remove(Listing),
    /// Facts that the store may have lost.
    Give(Vec<Fact>),
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreQuestion {
    /// The store's time, and whether the store holds this entry.
    Head(Last),
    /// The same questions, with the record of this node; the answer has the records of all nodes.
    Node(String, Last, OwnRecord),
    /// The identity and the settings of the store, and its last entry.
    Meta,
    /// A part of the directory, from this cursor on.
    Servers(String, usize),
    /// A part of the removals: its size, and the number of parts read before.
    Gone(usize, usize),
    /// The votes of a server that are later than this instant.
    Votes(ServerId, UnixSeconds),
    /// Entries of the log behind this one: the most entries, and the wait for a first one in milliseconds.
    Log(EntryId, usize, Option<u64>),
    /// The server that a token names.
    ServerOf(Token),
    /// The record of a server.
    RecordOf(ServerId),
    /// The instant of an address' vote for a server.
    VoteOf(ServerId, VoterAddress),
    /// A change.
    Change(ServerId, StoreCall, Terms),
}

impl StoreQuestion {
    /// The question in the words of a command.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        match self {
            Self::Head(last) => own(&["FCALL_RO", "vs3_head", "2", keys::LOG, keys::META, &last.to_string()]),
            Self::Node(store, last, record) => {
                let OwnRecord { name, count, owed, forgotten } = record;
                let mut words = own(&["FCALL", "vs3_node", "3", keys::LOG, keys::META, keys::NODES, store]);
                words.extend([last.to_string(), name.clone(), count.to_string(), owed.to_string()]);
                words.extend(forgotten.iter().cloned());
                words
            }
            Self::Meta => own(&["HMGET", keys::META, "store", "schema", "cd", "v6", "last", "stamp"]),
            Self::Servers(cursor, count) => own(&["HSCAN", keys::DIRECTORY, cursor, "COUNT", &count.to_string()]),
            Self::Gone(size, before) => {
                let (from, to) = (-to_signed((before + 1) * size), -to_signed(before * size + 1));
                own(&["ZRANGE", keys::GONE, &from.to_string(), &to.to_string(), "WITHSCORES"])
            }
            Self::Votes(server, after) => {
                own(&["ZRANGEBYSCORE", &keys::claims(*server), &format!("({}", after.0), "+inf", "WITHSCORES"])
            }
            Self::Log(after, count, block_ms) => {
                let mut words = own(&["XREAD", "COUNT", &count.to_string()]);
                if let Some(block_ms) = block_ms {
                    words.extend(["BLOCK".to_owned(), block_ms.to_string()]);
                }
                words.extend(own(&["STREAMS", keys::LOG, &after.to_string()]));
                words
            }
            Self::ServerOf(token) => own(&["HGET", keys::TOKENS, token.as_str()]),
            Self::RecordOf(server) => own(&["HGET", keys::DIRECTORY, &server.to_string()]),
            Self::VoteOf(server, address) => own(&["ZSCORE", &keys::claims(*server), &member(*address)]),
            Self::Change(server, call, terms) => call.words(*server, terms),
        }
    }
}

impl StoreCall {
    fn words(&self, server: ServerId, terms: &Terms) -> Vec<String> {
        let Terms { store, until_ms, last, bits } = terms;
        let until_ms = until_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let claims = keys::claims(server);
        let fixed = ["FCALL", self.function(), "6", keys::LOG, &claims, keys::DIRECTORY, keys::TOKENS, keys::META];
        let mut words: Vec<String> = fixed.iter().map(|word| (*word).to_owned()).collect();
        words.extend([
            keys::GONE.to_owned(),
            store.clone(),
            until_ms,
            last.to_string(),
            bits.to_string(),
            server.to_string(),
        ]);
        let members = |addresses: &[VoterAddress]| addresses.iter().map(|address| member(*address)).collect::<Vec<_>>();
        match self {
            Self::Cast(at, addresses) => {
                words.extend(["cast".to_owned(), at.map(|at| at.0.to_string()).unwrap_or_default()]);
                words.extend(members(addresses));
            }
            Self::Record(at, addresses) => {
                words.extend(["record".to_owned(), at.0.to_string()]);
                words.extend(members(addresses));
            }
            Self::Cancel(address, at) => words.extend([member(*address), at.0.to_string()]),
            Self::List { before, token, listing_bits, stamp } => {
                let before = before.as_ref().map(Record::to_string).unwrap_or_default();
                words.extend([before, token.as_str().to_owned(), format!("{listing_bits:016x}"), stamp.to_string()]);
            }
            Self::Remove(listing) => words.push(listing.to_string()),
            Self::Give(facts) => {
                let mut named = None;
                for fact in facts {
                    if let Fact::Vote(listing, ..) = fact
                        && named.replace(*listing) != Some(*listing)
                    {
                        words.extend(["l".to_owned(), listing.to_string()]);
                    }
                    words.extend(fact.words());
                }
            }
        }
        words
    }

    const fn function(&self) -> &'static str {
        match self {
            Self::Cast(..) | Self::Record(..) => "vs3_vote",
            Self::Cancel(..) => "vs3_cancel",
            Self::List { .. } => "vs3_list",
            Self::Remove(_) => "vs3_remove",
            Self::Give(_) => "vs3_give",
        }
    }
}

fn to_signed(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
