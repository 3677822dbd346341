//! Callers' changes on their way: the questions to the store before each call, and the call.

use crate::cluster::wire::answer::{Done, StoreReply};
use crate::cluster::wire::fact::{Fact, Record, Said};
use crate::cluster::wire::question::{StoreCall, StoreQuestion};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// How a vote names its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedServer {
    /// By its id.
    Id(ServerId),
    /// By its token.
    Token(Token),
}

/// A change that a caller wants. Addresses are those by which the store tells voters apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WantedChange {
    /// A vote that is refused in a cooldown, at this instant or now.
    Cast(WantedServer, Option<UnixSeconds>, Vec<VoterAddress>),
    /// A vote from the caller's own records: the later one stays.
    Record(WantedServer, UnixSeconds, Vec<VoterAddress>),
    /// The end of a cooldown.
    Cancel(ServerId, VoterAddress),
    /// A server to list.
    List {
        /// The server.
        server: ServerId,
        /// The token that the caller names, if any.
        said: Option<Token>,
        /// The token of a new server.
        spare: Token,
        /// The random bits that tell a new listing from every other one.
        bits: u64,
    },
    /// Another token for a listed server.
    Rotate(ServerId, Token),
    /// A server to remove.
    Remove(ServerId),
}

/// The outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangeOutcome {
    /// The store has decided the change, and the node shows its effect.
    Decided(Option<ServerId>, Done),
    /// The store did nothing.
    Unavailable(String),
    /// The store may have made the change, or not.
    Silent,
}

/// How far a change has come.
#[derive(Debug, PartialEq, Eq)]
enum Stage {
    /// The node has asked nothing yet.
    Queued,
    /// The node asks which server has the token.
    ServerOf,
    /// The node asks for the record: whether the server still has the token, or which record to change.
    RecordOf(ServerId),
    /// The node asks which vote stands.
    VoteOf,
    /// The node has made the call.
    Called(ServerId, StoreCall),
    /// The store has made the change, and the log has not brought it yet.
    Made(Option<ServerId>, Done),
}

/// A change on its way.
#[derive(Debug)]
pub(super) struct Pending {
    change: WantedChange,
    stage: Stage,
    /// The change is made before this or never.
    pub(super) deadline_ms: u64,
    /// The random bits that tell it from every other change.
    pub(super) bits: i64,
    /// Whether the log has brought it.
    pub(super) is_seen: bool,
    /// The number of calls that found another state than the one read just before.
    tries: u32,
}

/// The next step of a pending change.
#[derive(Debug)]
pub(super) enum NextStep {
    /// Ask this question.
    Ask(StoreQuestion),
    /// Make this call.
    Call(ServerId, StoreCall),
    /// None: the change has this outcome.
    End(Option<ServerId>, Done),
}

/// The most repeats of a change: its calls may find another state than the one read before.
const TRIES_MAX: u32 = 3;

impl Pending {
    pub(super) const fn new(change: WantedChange, bits: i64, deadline_ms: u64) -> Self {
        Self { change, stage: Stage::Queued, deadline_ms, bits, is_seen: false, tries: 0 }
    }

    /// Whether the store may have made the change.
    pub(super) const fn is_called(&self) -> bool {
        matches!(self.stage, Stage::Called(..) | Stage::Made(..))
    }

    /// Notes that the store has made the change. The caller learns it once the log has brought it.
    pub(super) fn wait_for_log(&mut self, server: Option<ServerId>, done: Done) {
        self.stage = Stage::Made(server, done);
    }

    /// The outcome of a made change, once the log has brought it.
    pub(super) fn made(&self) -> Option<(Option<ServerId>, Done)> {
        match &self.stage {
            Stage::Made(server, done) if self.is_seen => Some((*server, done.clone())),
            _ => None,
        }
    }

    /// Begins the change, also anew.
    pub(super) fn begin(&mut self) -> NextStep {
        match &self.change {
            WantedChange::Cast(WantedServer::Id(server), ..) | WantedChange::Record(WantedServer::Id(server), ..) => {
                let server = *server;
                self.vote(server)
            }
            WantedChange::Cast(WantedServer::Token(token), ..)
            | WantedChange::Record(WantedServer::Token(token), ..) => {
                self.stage = Stage::ServerOf;
                NextStep::Ask(StoreQuestion::ServerOf(token.clone()))
            }
            WantedChange::Cancel(server, address) => {
                self.stage = Stage::VoteOf;
                NextStep::Ask(StoreQuestion::VoteOf(*server, *address))
            }
            WantedChange::List { server, .. } | WantedChange::Rotate(server, _) | WantedChange::Remove(server) => {
                let server = *server;
                self.look_at(server)
            }
        }
    }

    fn look_at(&mut self, server: ServerId) -> NextStep {
        self.stage = Stage::RecordOf(server);
        NextStep::Ask(StoreQuestion::RecordOf(server))
    }

    fn vote(&mut self, server: ServerId) -> NextStep {
        let call = match &self.change {
            WantedChange::Record(_, at, addresses) => StoreCall::Record(*at, addresses.clone()),
            WantedChange::Cast(_, at, addresses) => StoreCall::Cast(*at, addresses.clone()),
            _ => return NextStep::End(None, Done::Unlisted),
        };
        self.call(server, call)
    }

    fn call(&mut self, server: ServerId, call: StoreCall) -> NextStep {
        self.stage = Stage::Called(server, call.clone());
        NextStep::Call(server, call)
    }

    /// The step that an answer leads to; `None` for an answer that makes no sense.
    pub(super) fn answered(&mut self, reply: StoreReply, stamp: u64) -> Option<NextStep> {
        Some(match (&self.stage, reply) {
            (Stage::ServerOf, StoreReply::ServerOf(None)) => NextStep::End(None, Done::Unlisted),
            (Stage::ServerOf, StoreReply::ServerOf(Some(server))) => self.look_at(server),
            (Stage::RecordOf(server), StoreReply::RecordOf(record)) => {
                let server = *server;
                self.decide(server, record, stamp)
            }
            (Stage::VoteOf, StoreReply::VoteOf(at)) => {
                let WantedChange::Cancel(server, address) = self.change else { return None };
                // Without a vote the function still says whether the server is listed.
                self.call(server, StoreCall::Cancel(address, at.unwrap_or(UnixSeconds(0))))
            }
            (Stage::Called(server, _), StoreReply::Done(done, _)) => {
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
                NextStep::End(Some(server), done)
            }
            _ => return None,
        })
    }

    /// The step for a server with this record.
    fn decide(&mut self, server: ServerId, before: Option<Record>, stamp: u64) -> NextStep {
        let (token, listing_bits) = match (&self.change, &before) {
            (
                WantedChange::Cast(WantedServer::Token(token), ..)
                | WantedChange::Record(WantedServer::Token(token), ..),
                Some(Record { token: held, .. }),
            ) if held == token => return self.vote(server),
            (WantedChange::Remove(_), Some(record)) => return self.call(server, StoreCall::Remove(record.listing)),
            (WantedChange::List { spare, bits, .. }, None) => (spare.clone(), *bits),
            (WantedChange::List { said: Some(token), bits, .. }, Some(_)) => (token.clone(), *bits),
            (WantedChange::List { said: None, .. }, Some(record)) => {
                return NextStep::End(Some(server), Done::SameToken(record.clone()));
            }
            (WantedChange::Rotate(_, token), Some(_)) => (token.clone(), 0),
            _ => return NextStep::End(None, Done::Unlisted),
        };
        self.call(server, StoreCall::List { before, token, listing_bits, stamp })
    }

    /// Whether the change is a vote, which may be made while another node owes facts.
    pub(super) const fn is_vote(&self) -> bool {
        is_vote(&self.change)
    }

    /// Whether no other vote of its addresses counts once the store has made it.
    pub(super) const fn leaves_no_other_vote(&self) -> bool {
        matches!(self.change, WantedChange::Cast(..) | WantedChange::Cancel(..))
    }

    /// The facts that follow from an outcome.
    pub(super) fn facts(&self, server: Option<ServerId>, done: &Done) -> Vec<Said> {
        let Some(server) = server else { return Vec::new() };
        let said = |fact| Said { server, fact };
        match (&self.change, done) {
            (
                WantedChange::Cast(_, _, addresses) | WantedChange::Record(_, _, addresses),
                Done::Recorded(at, record),
            ) => {
                let votes = addresses.iter().map(|address| said(Fact::Vote(record.listing, *at, *address)));
                [said(Fact::Listed(record.clone()))].into_iter().chain(votes).collect()
            }
            (WantedChange::Cancel(_, address), Done::Cancelled(at)) => vec![said(Fact::VoteGone(*at, *address))],
            (_, Done::Removed(listing)) => vec![said(Fact::ListingGone(*listing))],
            (_, Done::Listed(record) | Done::TokenChanged(record)) => vec![said(Fact::Listed(record.clone()))],
            _ => Vec::new(),
        }
    }
}

/// Whether a change is a vote.
pub(super) const fn is_vote(change: &WantedChange) -> bool {
    matches!(change, WantedChange::Cast(..) | WantedChange::Record(..))
}

#[cfg(test)]
#[path = "changes_tests.rs"]
mod tests;
