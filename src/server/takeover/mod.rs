//! How one process takes over from another: what the two say to each other ([`protocol`]), what is given
//! ([`estate`]), the side of the process that runs ([`gate`], [`predecessor`]), the side of the new one
//! ([`successor`]), and the control listener while neither records ([`probes`]).

use crate::server::backend::Backend;
use crate::server::threads::Serving;

mod estate;
mod gate;
mod predecessor;
mod probes;
pub(super) mod protocol;
pub(super) mod successor;

/// What came of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::server) enum TakeoverOutcome {
    /// Nothing: this process goes on.
    None,
    /// This process was told to stop.
    Stopped,
    /// Another process serves.
    Done,
}

/// What is kept while a new process takes over: from the moment at which it asks for the store until it is
/// clear which of the two goes on.
#[derive(Default)]
pub(in crate::server) struct Handover {
    /// The worker that stands in for the control worker.
    pub(in crate::server) probes: Option<Serving>,
    /// The control worker, which has ended but for those who have only to go.
    pub(in crate::server) control: Option<Serving>,
    /// The recorder, once its thread has ended and its store is closed.
    pub(in crate::server) closed: Option<Backend>,
    /// The new process hung up.
    pub(in crate::server) has_hung_up: bool,
    /// A signal to stop has come. The first one waits for the outcome; a second one stops at once.
    pub(in crate::server) is_told_to_stop: bool,
}
