//! Faults that the simulation has to find. They change the messages between a node and the store, as a node or a function with
//! that fault would.

use crate::world::World;
use vote_status::cluster::node::bounds::Bounds;
use vote_status::cluster::wire::answer::{Done, Given, LogItem, NodeRecord, StoreAnswer, StoreReply};
use vote_status::cluster::wire::fact::{Fact, Record};
use vote_status::cluster::wire::question::{StoreCall, StoreQuestion};
use vote_status::vote::time::UnixSeconds;

/// A fault between a node and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// The store makes a call however late it comes.
    NoTerm,
    /// A change does not name the last entry that its caller knows.
    NoLast,
    /// A node believes that the store has lost nothing.
    AlwaysHeld,
    /// A node says that it owes nothing.
    OwesNothing,
    /// A node that starts waits for no other node.
    WaitsForNobody,
    /// A cancellation ends the vote that stands when it comes.
    CancelsWhatStands,
    /// A removal ends the listing that stands when it comes.
    RemovesWhatStands,
    /// A new token goes to the listing that stands when it comes.
    ListsOverWhatStands,
    /// A node does not read the removals.
    GoneIsNotRead,
    /// A node does not give back removals.
    NothingGoneIsGiven,
    /// A node does not give back servers.
    NoServerIsGiven,
    /// A node does not give back votes.
    NoVoteIsGiven,
    /// A node does not give back the last of several facts.
    LastIsNotGiven,
    /// The store's time is a minute ahead.
    TimeIsAhead,
    /// A node without a new record for half a second counts as silent.
    ShortSilence,
    /// The store answers that there is no vote to cancel.
    VoteIsNotFound,
    /// A node does not read a piece of the directory.
    ServersAreMissing,
    /// An entry behind the first of a reading of the log has no facts.
    EntryIsEmpty,
    /// A node does not know that its connections lead to two processes of the store.
    OneProcess,
}

impl Plant {
    /// The bounds of a node with this fault.
    pub(crate) fn bounds(self, bounds: Bounds) -> Bounds {
        match self {
            Self::ShortSilence => Bounds { silence_ms: 500, least_wait_ms: 0, ..bounds },
            Self::WaitsForNobody | Self::OwesNothing => Bounds { least_wait_ms: 0, ..bounds },
            _ => bounds,
        }
    }

    /// The question that the store gets in place of this one.
    pub(crate) fn asked(self, world: &mut World<'_>, question: StoreQuestion) -> StoreQuestion {
        let StoreQuestion::Change(server, mut call, mut terms) = question else { return question };
        match self {
            Self::NoTerm => terms.until_ms = None,
            Self::CancelsWhatStands => {
                if let StoreCall::Cancel(address, at) = &mut call {
                    let reply = world.read(&StoreQuestion::VoteOf(server, *address));
                    if let StoreReply::VoteOf(Some(stands)) = reply {
                        *at = stands;
                    }
                }
            }
            Self::RemovesWhatStands | Self::ListsOverWhatStands => {
                let StoreReply::RecordOf(stands) = world.read(&StoreQuestion::RecordOf(server)) else {
                    return StoreQuestion::Change(server, call, terms);
                };
                match (&mut call, stands) {
                    (StoreCall::Remove(listing), Some(Record { listing: stands, .. }))
                        if self == Self::RemovesWhatStands =>
                    {
                        *listing = stands;
                    }
                    (StoreCall::List { before, .. }, stands) if self == Self::ListsOverWhatStands => *before = stands,
                    _ => {}
                }
            }
            _ => {}
        }
        StoreQuestion::Change(server, call, terms)
    }

    /// The answer to a question that the store does not get.
    pub(crate) fn unasked(self, question: &StoreQuestion, now_ms: u64) -> Option<StoreAnswer> {
        let StoreQuestion::Change(_, StoreCall::Give(facts), _) = question else { return None };
        let is_kept = match self {
            Self::NothingGoneIsGiven => facts.iter().any(Fact::takes_away),
            Self::NoServerIsGiven => facts.iter().any(|fact| matches!(fact, Fact::Listed(_))),
            Self::NoVoteIsGiven => facts.iter().any(|fact| matches!(fact, Fact::Vote(..))),
            Self::LastIsNotGiven => facts.len() == 1,
            _ => false,
        };
        let given = vec![Given::Stands; facts.len()];
        is_kept.then_some(StoreAnswer { now_ms: Some(now_ms), reply: StoreReply::Done(Done::Given(given), None) })
    }

    /// The answer that the node gets in place of this one.
    pub(crate) fn answered(self, mut answer: StoreAnswer) -> StoreAnswer {
        match (self, &mut answer.reply) {
            (Self::AlwaysHeld, StoreReply::Head { is_held, last, .. }) => *is_held |= last.n > 0,
            (Self::AlwaysHeld, StoreReply::Nodes { is_held, .. }) => *is_held = true,
            (Self::OwesNothing, StoreReply::Nodes { records, .. }) => {
                records.iter_mut().for_each(|record| record.owed = 0)
            }
            (Self::WaitsForNobody, StoreReply::Nodes { records, .. }) => {
                records.iter_mut().for_each(|NodeRecord { count, owed, .. }| (*count, *owed) = (u64::MAX, 0));
            }
            (Self::GoneIsNotRead, StoreReply::Gone(gone, _)) => gone.clear(),
            (Self::ServersAreMissing, StoreReply::Servers(_, servers)) => drop(servers.pop()),
            (Self::VoteIsNotFound, StoreReply::VoteOf(at)) => *at = at.map(|at| UnixSeconds(at.0 - 1)),
            (Self::EntryIsEmpty, StoreReply::Log(lines)) => {
                if let Some(LogItem::Entry(entry)) = lines.get_mut(1) {
                    entry.facts.clear();
                }
            }
            _ => {}
        }
        if self == Self::TimeIsAhead {
            answer.now_ms = answer.now_ms.map(|now_ms| now_ms + 60_000);
        }
        answer
    }
}
