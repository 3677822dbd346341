//! What a node wants done, and what it says of itself.

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
    /// On which it follows the log, reads the state, gives back, and says how it stands.
    Feed,
    /// On which it has changes made.
    Votes,
}

/// What the node wants done.
pub enum Output {
    /// A connection is to be made: [`NodeMachine::connected`](super::NodeMachine::connected) or [`NodeMachine::lost`](super::NodeMachine::lost) tells of it.
    Connect(NodeLine),
    /// A connection is of no use any more. Nothing is told of it.
    Close(NodeLine),
    /// A question. Answers come in the order of the questions on their connection.
    Ask(NodeLine, StoreQuestion),
    /// Changes of what is shown, in their order.
    Show(Vec<Event>),
    /// A state in place of the one that is shown.
    Replace(Box<FullState>),
    /// What became of the change of this caller.
    Answer(u64, ChangeOutcome),
    /// The store's id, to be kept over restarts.
    Keep(String),
    /// What an operator is to know.
    Note(Note),
}

/// What an operator is to know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// The state was read whole for this cause; so many facts are to be given back.
    Read(RebuildCause, usize),
    /// The store has taken back so many facts, and has refused so many: it has what outweighs them, or they are over.
    Given(usize, usize),
    /// Something in the store cannot be read.
    Unreadable(String),
    /// Another program wrote this entry.
    Strange(EntryId),
    /// All that was owed is given back.
    GivenBack,
    /// The store does not take what is given back.
    Refused(String),
    /// The facts of a server cannot be given back, as its key is of a strange type.
    SetAside(ServerId, String),
    /// The store may lack what others know: changes wait for them.
    Waits,
    /// Nobody is waited for any more.
    WaitIsOver,
    /// This process stood still for so long, in milliseconds.
    StoodStill(u64),
    /// A reply did not come in time: its connection is given up.
    Late(NodeLine),
    /// The store cannot be followed.
    Unfit(Unfit),
}

/// Why a store cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It has no id.
    Empty,
    /// It is being filled.
    Filling,
    /// It is another store than this one, which was followed before.
    Other(String),
    /// Its keys are of this version.
    Schema(String),
    /// Its cooldown has so many seconds.
    Cooldown(u64),
    /// It tells IPv6 voters apart by so many bits.
    Prefix(u64),
    /// It refuses, in its own words.
    Refused(String),
}

/// Where a node stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeStanding {
    /// It has no connection, or it cannot follow the store, and why.
    Away(Option<Unfit>),
    /// It looks whether the store has lost anything.
    Judging,
    /// It reads the state whole.
    Loading,
    /// It follows, and owes the store so many facts.
    GivingBack(usize),
    /// It follows, and waits until other nodes have given back what they know.
    Waiting,
    /// It follows.
    Following,
}
