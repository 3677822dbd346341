//! How one process takes over from another: what the two say to each other ([`protocol`]), the side of the
//! process that runs ([`predecessor`]), and the side of the new one ([`protocol::Takeover`]).

pub(super) mod predecessor;
pub(super) mod protocol;

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
