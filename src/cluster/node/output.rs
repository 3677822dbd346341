//! The outputs of a node, and its standing.

use super::changes::ChangeOutcome;
use crate::cluster::entry::EntryId;
use crate::cluster::reason::RebuildCause;
use crate::cluster::state::FullState;
use crate::cluster::wire::question::StoreQuestion;
use crate::store::Event;
use crate::vote::id::ServerId;

/// One of a node's two connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLine {
    /// The node follows the log on it, reads the state, gives back, and renews its record.
    Feed,
    /// The node has callers' changes made on it.
    Votes,
}

/// An output, for the caller to carry out.
pub enum Output {
    /// Make a connection. The caller answers with [`NodeMachine::connected`](super::NodeMachine::connected) or
    /// [`NodeMachine::lost`](super::NodeMachine::lost).
    Connect(NodeLine),
    /// Close a connection. The caller gives no more news of it.
    Close(NodeLine),
    /// Ask a question. Answers come in the order of the questions on their connection.
    Ask(NodeLine, StoreQuestion),
    /// Change the shown state by these events, in their order.
    Show(Vec<Event>),
    /// Show this state in place of the present one.
    Replace(Box<FullState>),
    /// Give this caller the outcome of its change.
    Answer(u64, ChangeOutcome),
    /// Keep the store's id over restarts.
    Keep(String),
    /// News for an operator.
    Note(Note),
}

/// News for an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The node has read the whole state for this cause, and owes this number of facts.
    Read(RebuildCause, usize),
    /// The numbers of facts that the store has taken back and refused: it has facts that outweigh these, or they are over.
    Given(usize, usize),
    /// A part of the store cannot be read.
    Unreadable(String),
    /// Another program wrote this entry.
    Strange(EntryId),
    /// All owed facts are given back.
    GivenBack,
    /// The store does not take facts that are given back.
    Refused(String),
    /// The facts of a server cannot be given back, as its key is of a strange type.
    SetAside(ServerId, String),
    /// The store may lack facts that other nodes know: changes wait for those nodes.
    Waits,
    /// The wait for other nodes is over.
    WaitIsOver,
    /// The time for which this process stood still, in milliseconds.
    StoodStill(u64),
    /// A reply did not come in time: the node gives its connection up.
    Late(NodeLine),
    /// The store cannot be followed.
    Unfit(Unfit),
}

/// Why a store cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The store has no id.
    Empty,
    /// The store is being filled.
    Filling,
    /// The store has this id, and not the one of the store that the node followed before.
    Other(String),
    /// The store's keys have this schema, which the node does not know.
    Schema(String),
    /// The store has this cooldown, in seconds.
    Cooldown(u64),
    /// The store tells IPv6 voters apart by this number of bits.
    Prefix(u64),
    /// The store refuses, in these words.
    Refused(String),
}

/// A node's standing with its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStanding {
    /// The node has no connection, or cannot follow the store, and why.
    Away(Option<Unfit>),
    /// The node asks whether the store has lost anything.
    Judging,
    /// The node reads the whole state.
    Loading,
    /// The node follows, and owes the store this number of facts.
    GivingBack(usize),
    /// The node follows, and waits until other nodes have given back what they know.
    Waiting,
    /// The node follows, and takes changes.
    Following,
}
