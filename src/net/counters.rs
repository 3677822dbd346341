//! What an engine's worker counts.

use crate::metrics::Counter;

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// Its exchange was over: the client or the answer said so.
    Done,
    /// It had been idle for too long, or longest when room was needed.
    Idle,
    /// The peer did not take its answer in time.
    WriteTimeout,
    /// There was no room for it.
    Overload,
}

impl Cause {
    /// Every cause, with its label.
    pub const ALL: [(Self, &'static str); 4] = [
        (Self::Done, "done"),
        (Self::Idle, "idle"),
        (Self::WriteTimeout, "write_timeout"),
        (Self::Overload, "overload"),
    ];
}

/// Counters of one worker; only that worker writes them, into cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct EngineCounters {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections closed, by cause.
    pub closed: [Counter; Cause::ALL.len()],
    /// Turns of the loop.
    pub turns: Counter,
    /// Times that the system had no descriptor or no memory for a newcomer.
    pub accept_shortages: Counter,
}

impl EngineCounters {
    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(Counter::get).sum();
        self.accepted.get().saturating_sub(closed)
    }
}
