//! Changes that callers want, on their way: what of the store is asked before, and what is called then.

use crate::cluster::wire::answer::{Done, Reply};
use crate::cluster::wire::fact::{Fact, Record, Said};
use crate::cluster::wire::question::{Call, Question};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// How a vote names its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// By its id.
    Id(ServerId),
    /// By its token.
    Token(Token),
}

/// What a caller wants. Addresses are voters' as the store tells them apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A vote now, which is refused in a cooldown.
    Cast(ServerName, Vec<VoterAddress>),
    /// A vote of the caller's own books: the later one stays.
    Record(ServerName, UnixSeconds, Vec<VoterAddress>),
    /// The end of a cooldown.
    Cancel(ServerId, VoterAddress),
    /// A server to list.
    List {
        /// Which.
        server: ServerId,
        /// The token to have, where it is said.
        said: Option<Token>,
        /// The token of a new server.
        spare: Token,
        /// What tells a new listing from every other one.
        bits: u64,
    },
    /// Another token for a listed server.
    Rotate(ServerId, Token),
    /// A server to remove.
    Remove(ServerId),
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The store has decided it, and what it did is shown.
    Decided(Option<ServerId>, Done),
    /// Nothing was done.
    Unavailable(String),
    /// Nobody knows what was done.
    Silent,
}

/// How far a change has come.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// Nothing was asked yet.
    Queued,
    /// Which server has the token.
    ServerOf,
    /// Whether that server still has it; or what is to be changed.
    RecordOf(ServerId),
    /// Which vote stands.
    VoteOf,
    /// The store was told to do it.
    Called(ServerId, Call),
    /// It has done it, by the entry of this number, which the log has not brought yet.
    Made(u64, Option<ServerId>, Done),
}

/// A change on its way.
#[derive(Debug)]
pub(super) struct Pending {
    change: Change,
    stage: Stage,
    /// It is made until then or never.
    pub(super) deadline_ms: u64,
    /// What tells it from every other change.
    pub(super) bits: i64,
    /// Whether the log has brought it.
    pub(super) is_seen: bool,
    /// How often what stood was not what had been read just before.
    tries: u32,
}

/// What a pending change needs next.
#[derive(Debug)]
pub(super) enum Next {
    /// This is to be asked.
    Ask(Question),
    /// This call is to be made.
    Call(ServerId, Call),
    /// Nothing any more.
    End(Option<ServerId>, Done),
}

/// What stood was another each time.
const TRIES_MAX: u32 = 3;

impl Pending {
    pub(super) const fn new(change: Change, bits: i64, deadline_ms: u64) -> Self {
        Self { change, stage: Stage::Queued, deadline_ms, bits, is_seen: false, tries: 0 }
    }

    /// Whether nothing was asked for it yet.
    pub(super) fn is_queued(&self) -> bool {
        self.stage == Stage::Queued
    }

    /// Whether the store may have done it.
    pub(super) const fn is_called(&self) -> bool {
        matches!(self.stage, Stage::Called(..) | Stage::Made(..))
    }

    /// The store has done it; the caller is told once the log has brought this entry.
    pub(super) fn wait_for(&mut self, n: u64, server: Option<ServerId>, done: Done) {
        self.stage = Stage::Made(n, server, done);
    }

    /// What the store has done, once the log has come to this entry.
    pub(super) fn made(&self, reached: u64) -> Option<(Option<ServerId>, Done)> {
        match &self.stage {
            Stage::Made(n, server, done) if *n <= reached => Some((*server, done.clone())),
            _ => None,
        }
    }

    /// What is asked first.
    pub(super) fn begin(&mut self) -> Next {
        match &self.change {
            Change::Cast(ServerName::Id(server), _) | Change::Record(ServerName::Id(server), ..) => {
                let server = *server;
                self.vote(server)
            }
            Change::Cast(ServerName::Token(token), _) | Change::Record(ServerName::Token(token), ..) => {
                self.stage = Stage::ServerOf;
                Next::Ask(Question::ServerOf(token.clone()))
            }
            Change::Cancel(server, address) => {
                self.stage = Stage::VoteOf;
                Next::Ask(Question::VoteOf(*server, *address))
            }
            Change::List { server, .. } | Change::Rotate(server, _) | Change::Remove(server) => {
                let server = *server;
                self.look_at(server)
            }
        }
    }

    fn look_at(&mut self, server: ServerId) -> Next {
        self.stage = Stage::RecordOf(server);
        Next::Ask(Question::RecordOf(server))
    }

    fn vote(&mut self, server: ServerId) -> Next {
        let call = match &self.change {
            Change::Record(_, at, addresses) => Call::Record(*at, addresses.clone()),
            Change::Cast(_, addresses) => Call::Cast(addresses.clone()),
            _ => return Next::End(None, Done::Unlisted),
        };
        self.call(server, call)
    }

    fn call(&mut self, server: ServerId, call: Call) -> Next {
        self.stage = Stage::Called(server, call.clone());
        Next::Call(server, call)
    }

    /// What an answer leads to; `None` for one that makes no sense.
    pub(super) fn answered(&mut self, reply: Reply, stamp: u64) -> Option<Next> {
        Some(match (&self.stage, reply) {
            (Stage::ServerOf, Reply::ServerOf(None)) => Next::End(None, Done::Unlisted),
            (Stage::ServerOf, Reply::ServerOf(Some(server))) => self.look_at(server),
            (Stage::RecordOf(server), Reply::RecordOf(record)) => {
                let server = *server;
                self.decide(server, record, stamp)
            }
            (Stage::VoteOf, Reply::VoteOf(at)) => {
                let Change::Cancel(server, address) = self.change else { return None };
                // Without a vote the function still says whether the server is listed.
                self.call(server, Call::Cancel(address, at.unwrap_or(UnixSeconds(0))))
            }
            (Stage::Called(server, _), Reply::Done(done, _)) => {
                let server = *server;
                let is_other = match &done {
                    Done::OtherVote(at) => at.is_some(),
                    Done::OtherRecord(_) => true,
                    _ => false,
                };
                if is_other && self.tries < TRIES_MAX {
                    self.tries += 1;
                    return Some(self.begin());
                }
                Next::End(Some(server), done)
            }
            _ => return None,
        })
    }

    /// What is to be done about a server that is listed so.
    fn decide(&mut self, server: ServerId, before: Option<Record>, stamp: u64) -> Next {
        let (token, listing_bits) = match (&self.change, &before) {
            (
                Change::Cast(ServerName::Token(token), _) | Change::Record(ServerName::Token(token), ..),
                Some(Record { token: held, .. }),
            ) if held == token => return self.vote(server),
            (Change::Remove(_), Some(record)) => return self.call(server, Call::Remove(record.listing)),
            (Change::List { spare, bits, .. }, None) => (spare.clone(), *bits),
            (Change::List { said: Some(token), bits, .. }, Some(_)) => (token.clone(), *bits),
            (Change::List { said: None, .. }, Some(record)) => {
                return Next::End(Some(server), Done::SameToken(record.clone()));
            }
            (Change::Rotate(_, token), Some(_)) => (token.clone(), 0),
            _ => return Next::End(None, Done::Unlisted),
        };
        self.call(server, Call::List { before, token, listing_bits, stamp })
    }

    /// Whether it may be made while a node owes something: a vote may.
    pub(super) const fn is_vote(&self) -> bool {
        is_vote(&self.change)
    }

    /// The facts that follow from what the store did.
    pub(super) fn facts(&self, done: &Done) -> Vec<Said> {
        let Stage::Called(server, call) = &self.stage else { return Vec::new() };
        let said = |fact| Said { server: *server, fact };
        match (call, done) {
            (Call::Cast(addresses) | Call::Record(_, addresses), Done::Recorded(at, record)) => {
                let votes = addresses.iter().map(|address| said(Fact::Vote(record.listing, *at, *address)));
                [said(Fact::Listed(record.clone()))].into_iter().chain(votes).collect()
            }
            (Call::Cancel(address, _), Done::Cancelled(at)) => vec![said(Fact::VoteGone(*at, *address))],
            (Call::Remove(_), Done::Removed(listing)) => vec![said(Fact::ListingGone(*listing))],
            (_, Done::Listed(record)) => vec![said(Fact::Listed(record.clone()))],
            _ => Vec::new(),
        }
    }
}

/// Whether a change is a vote.
pub(super) const fn is_vote(change: &Change) -> bool {
    matches!(change, Change::Cast(..) | Change::Record(..))
}
