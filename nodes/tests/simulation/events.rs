//! The events of the world, in the order of time.

use crate::host::Input;
use vote_status::cluster::node::changes::WantedChange;
use vote_status::cluster::wire::answer::StoreAnswer;
use vote_status::cluster::wire::question::StoreQuestion;

/// An event.
pub(crate) enum Event {
    /// A process gets an input, unless it has ended.
    Give(usize, u64, Input),
    /// A question comes to the store, on a connection that may be closed by now.
    Arrive(usize, u64, StoreQuestion, u64),
    /// A reply comes to a process, unless the connection is closed.
    Reply(usize, u64, StoreAnswer, u64),
    /// A connection is made.
    Open(usize, u64, u64),
    /// A reader of the log has waited long enough.
    Unblock(usize, u64),
    /// The run's own event.
    Planned(Planned),
}

/// An event that a run plans.
#[derive(Clone, Debug)]
pub(crate) enum Planned {
    /// A caller at a node wants a drawn change.
    Op,
    /// A voter votes once more, at this node.
    Again(usize),
    /// A change at a slow node is overtaken by changes at another one.
    Race,
    /// A caller at a node wants this change.
    Want(usize, WantedChange),
    /// A fault.
    Fault,
    /// Callers and faults rest from now on. The run heals all faults first, or does not.
    Rest(bool),
    /// A situation begins.
    Stage(Situation),
    /// A situation goes on, around this host.
    Act(Situation, usize),
    /// The connections of a host are cut.
    Cut(usize),
    /// The store goes back to an older copy.
    Back,
    /// The store goes back to the copy of this instant of its clock. Its clock goes back too, or does not.
    Undo { copied_us: u64, is_clock_back: bool },
    /// A fault ends.
    Heal(Heal),
    /// The run checks the promises.
    Look,
    /// The run puts a copy of the store aside.
    Copy,
}

/// A sequence of changes and faults that breaks a promise if a rule is missing. Its details are drawn.
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
    /// See `Run::moved`.
    Moved,
}

/// The fault that ends.
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
    /// The former primary ends.
    Former,
}

/// An event, and its instant.
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
