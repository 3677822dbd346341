//! What happens in the world, in the order of time.

use crate::host::Input;
use vote_status::cluster::node::changes::WantedChange;
use vote_status::cluster::wire::answer::StoreAnswer;
use vote_status::cluster::wire::question::StoreQuestion;

/// What happens at an instant.
pub(crate) enum Event {
    /// A process is given an input, unless it has ended.
    Give(usize, u64, Input),
    /// A question comes to the store, on a connection that may be closed by now.
    Arrive(usize, u64, StoreQuestion, u64),
    /// A reply comes to a process, unless the connection is closed.
    Reply(usize, u64, StoreAnswer, u64),
    /// A connection is made.
    Open(usize, u64, u64),
    /// A reader of the log has waited long enough.
    Unblock(usize, u64),
    /// Something that the run has planned.
    Planned(Planned),
}

/// What a run plans.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    /// A caller at a node wants something.
    Op,
    /// A voter votes once more, at this node.
    Again(usize),
    /// What a slow node was asked for is overtaken at another one.
    Race,
    /// A caller at a node wants this.
    Want(usize, WantedChange),
    /// A fault.
    Fault,
    /// Callers and faults rest from now on; all that is wrong is put right first, or is not.
    Rest(bool),
    /// A situation begins.
    Stage(Situation),
    /// It goes on, around this host.
    Act(Situation, usize),
    /// The connections of a host are cut.
    Cut(usize),
    /// The store goes back.
    Back,
    /// The store goes back to the copy of this instant of its clock, and its clock too, or not.
    Undo { copied_us: u64, is_clock_back: bool },
    /// A fault ends.
    Heal(Heal),
    /// The promises are looked at.
    Look,
    /// A copy of the store is put aside.
    Copy,
}

/// A sequence of changes and faults that breaks a promise where a rule is missing: its details are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Situation {
    /// See `Run::race`.
    Race,
    /// See `Run::half_know`.
    HalfKnown,
    /// See `Run::one_name`.
    OneName,
    /// See `Run::late_gift`.
    LateGift,
}

/// Which fault ends.
#[derive(Clone, Debug)]
pub(crate) enum Heal {
    /// A process starts.
    Start(usize),
    /// The network of a node is as usual.
    Network(usize),
    /// The store takes writes.
    Writes,
    /// The store is up.
    Up,
}

/// What happens, and when.
pub(crate) struct Scheduled {
    pub(crate) at_us: u64,
    pub(crate) order: u64,
    pub(crate) event: Event,
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        (self.at_us, self.order) == (other.at_us, other.order)
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at_us, self.order).cmp(&(other.at_us, other.order))
    }
}
