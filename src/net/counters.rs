//! Counters of an engine's worker, and of its service's responses by HTTP status.

use crate::http::fault::Fault;
use crate::metrics::{Counter, Histogram};

/// Why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloseCause {
    /// Its exchange was over: the client or the answer said so.
    Done,
    /// The peer was gone before it had taken its answer, or reset the connection.
    Broken,
    /// It had been idle for too long, or for longest when a slot was needed.
    Idle,
    /// The peer did not take its answer in time.
    WriteTimeout,
    /// All slots were taken, or a newcomer needed its slot or descriptor before its client had gone. Also where the
    /// system could not poll its socket.
    Overload,
    /// It used most when there was no memory left, and could not be told 503.
    Memory,
}

impl CloseCause {
    /// Every cause, with its label.
    pub const ALL: [(Self, &'static str); 6] = [
        (Self::Done, "done"),
        (Self::Broken, "broken"),
        (Self::Idle, "idle"),
        (Self::WriteTimeout, "write_timeout"),
        (Self::Overload, "overload"),
        (Self::Memory, "memory"),
    ];
}

/// Counters of one worker; only that worker writes them, into cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct EngineCounters {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections closed, by cause.
    pub closed: [Counter; CloseCause::ALL.len()],
    /// Bytes read from clients.
    pub received_bytes: Counter,
    /// Bytes that the kernel took for clients.
    pub sent_bytes: Counter,
    /// From the end of the poll to the end of the turn, in microseconds. A connection that becomes ready
    /// just after the poll waits this long.
    pub lag_us: Histogram<11>,
    /// How late the loop was for instants at which a client may have come, in microseconds. Includes the thread's wait
    /// for a processor.
    pub late_us: Histogram<11>,
    /// Times that the system had no descriptor or no memory for a newcomer.
    pub accept_shortages: Counter,
    /// Connections that had not asked anything yet, and were told 503 because all slots were taken.
    pub turned_away: Counter,
    /// Connections that used most when there was no memory left, and could be answered.
    pub cut_answered: Counter,
}

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            accepted: Counter::default(),
            closed: Default::default(),
            received_bytes: Counter::default(),
            sent_bytes: Counter::default(),
            lag_us: Histogram::new([50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 1_000_000]),
            late_us: Histogram::new([100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 250_000, 1_000_000]),
            accept_shortages: Counter::default(),
            turned_away: Counter::default(),
            cut_answered: Counter::default(),
        }
    }
}

impl EngineCounters {
    /// Bytes that went over the wire, either way.
    #[inline]
    #[must_use]
    pub(super) fn moved_bytes(&self) -> u64 {
        self.received_bytes.get().wrapping_add(self.sent_bytes.get())
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> u64 {
        let closed: u64 = self.closed.iter().map(Counter::get).sum();
        self.accepted.get().saturating_sub(closed)
    }
}

/// The statuses that either listener answers with; any other counts as 500.
const STATUSES: [u16; 20] =
    [500, 200, 201, 204, 304, 400, 401, 404, 405, 408, 409, 413, 414, 417, 422, 429, 431, 501, 503, 505];

/// Counters of one worker's service; only that worker writes them.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ResponseCounters {
    statuses: [Counter; STATUSES.len()],
    refused: [Counter; Fault::ALL.len()],
}

impl ResponseCounters {
    /// Counts a response. Those to status requests are counted by their outcome instead.
    pub fn response(&self, status: u16) {
        let index = STATUSES.iter().position(|counted| *counted == status).unwrap_or_default();
        self.statuses[index].add(1);
    }

    /// Counts a request that the engine refused before it reached a service, and the response.
    pub fn refused(&self, fault: Fault) {
        self.refused[fault as usize].add(1);
        self.response(fault.status());
    }

    /// Responses by status.
    pub fn responses(&self) -> impl Iterator<Item = (u16, u64)> {
        STATUSES.into_iter().zip(self.statuses.iter().map(Counter::get))
    }

    /// How many requests the engine refused with `fault`.
    #[must_use]
    pub fn refusals(&self, fault: Fault) -> u64 {
        self.refused[fault as usize].get()
    }
}

#[cfg(test)]
mod tests {
    use super::STATUSES;
    use crate::http::fault::reason;

    /// A status in one of the two lists alone would be counted as 500, or sent with the reason of 500.
    #[test]
    fn every_status_with_a_reason_is_counted() {
        let mut counted = STATUSES;
        counted.sort_unstable();
        let with_reason = (100..600).filter(|status| *status == 500 || reason(*status) != reason(500));
        assert_eq!(with_reason.collect::<Vec<u16>>(), counted);
    }
}
