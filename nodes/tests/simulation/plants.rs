//! Faults that the simulation has to find. Some change what passes between a node and the store, as a node or a function with that
//! fault would have it; others change the functions themselves.

use crate::world::World;
use vote_status::cluster::node::bounds::Bounds;
use vote_status::cluster::wire::answer::{Done, Given, LogItem, NodeRecord, StoreAnswer, StoreReply};
use vote_status::cluster::wire::fact::{Fact, Record};
use vote_status::cluster::wire::question::{StoreCall, StoreQuestion};
use vote_status::vote::time::UnixSeconds;

/// A fault between a node and the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// A call is made whenever it comes.
    NoTerm,
    /// A change does not say what its caller knows.
    NoLast,
    /// A node takes it that the store has lost nothing.
    AlwaysHeld,
    /// A node says that it owes nothing.
    OwesNothing,
    /// A node that starts waits for nobody.
    WaitsForNobody,
    /// A cancellation ends what stands when it comes.
    CancelsWhatStands,
    /// A removal ends the listing that stands when it comes.
    RemovesWhatStands,
    /// A token is given to whatever is listed when it comes.
    ListsOverWhatStands,
    /// What was taken away is not read.
    GoneIsNotRead,
    /// What takes away is not given back.
    NothingGoneIsGiven,
    /// Servers are not given back.
    NoServerIsGiven,
    /// Votes are not given back.
    NoVoteIsGiven,
    /// The last of several facts is not given back.
    LastIsNotGiven,
    /// The store's time comes a minute late.
    TimeIsAhead,
    /// A name that has not spoken for half a second counts as silent.
    ShortSilence,
    /// The instant of a cancelled vote is told as none.
    VoteIsNotFound,
    /// A piece of the directory is not read.
    ServersAreMissing,
    /// An entry behind the first of a reading of the log has no facts.
    EntryIsEmpty,
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

    /// What the store is asked in place of this.
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

    /// The answer to a question that is not asked.
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

    /// What the node is told in place of this.
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
