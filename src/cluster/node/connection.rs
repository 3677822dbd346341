//! One of a node's two connections, as the node knows it: whether it is open, its unanswered questions, and the store's time.

use std::collections::VecDeque;

use super::bounds::Bounds;

/// A question's purpose, and the deadline of its reply.
#[derive(Debug)]
pub(super) struct Asked<P> {
    pub(super) purpose: P,
    pub(super) deadline_ms: u64,
}

/// The store's time, and the instant at which it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    store_ms: u64,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// The connection is closed; the next try is due at this instant.
    Down {
        retry_at_ms: u64,
    },
    /// The connection is being made.
    Opening {
        deadline_ms: u64,
    },
    Up,
}

/// A connection on which questions are asked for a purpose.
#[derive(Debug)]
pub(super) struct StoreConnection<P> {
    state: ConnectionState,
    /// The id of the store's process that an open connection leads to.
    process: Option<String>,
    pub(super) asked: VecDeque<Asked<P>>,
    heard: Option<Heard>,
    backoff_ms: u64,
}

impl<P> StoreConnection<P> {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let state = ConnectionState::Down { retry_at_ms: 0 };
        Self { state, process: None, asked: VecDeque::new(), heard: None, backoff_ms: bounds.backoff_min_ms }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == ConnectionState::Up
    }

    /// Whether the connection is being made.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, ConnectionState::Opening { .. })
    }

    /// Whether the connection is to be made now. If so, it counts as being made.
    pub(super) fn opens(&mut self, now_ms: u64, patience_ms: u64) -> bool {
        let is_due = matches!(self.state, ConnectionState::Down { retry_at_ms } if now_ms >= retry_at_ms);
        if is_due {
            self.state = ConnectionState::Opening { deadline_ms: now_ms + patience_ms };
        }
        is_due
    }

    /// Notes that the connection is open, and leads to this process of the store. `false` if the node gave it up before.
    pub(super) fn open(&mut self, process: &str) -> bool {
        let is_awaited = matches!(self.state, ConnectionState::Opening { .. });
        if is_awaited {
            self.state = ConnectionState::Up;
            self.process = Some(process.to_owned());
        }
        is_awaited
    }

    /// Whether both connections are open, and lead to two processes of the store.
    pub(super) fn is_apart_from<Q>(&self, other: &StoreConnection<Q>) -> bool {
        self.process.as_ref().zip(other.process.as_ref()).is_some_and(|(one, other)| one != other)
    }

    /// Notes that the connection is gone. Gives its questions, which get no answer.
    pub(super) fn drop(&mut self, now_ms: u64, bounds: &Bounds) -> VecDeque<Asked<P>> {
        self.state = ConnectionState::Down { retry_at_ms: now_ms + self.backoff_ms };
        self.backoff_ms = (self.backoff_ms * 2).min(bounds.backoff_max_ms);
        (self.process, self.heard) = (None, None);
        std::mem::take(&mut self.asked)
    }

    /// Notes an answer, with the store's time if it has one. Gives its question's purpose.
    pub(super) fn hear(&mut self, store_ms: Option<u64>, now_ms: u64, bounds: &Bounds) -> Option<P> {
        let asked = self.asked.pop_front()?;
        self.backoff_ms = bounds.backoff_min_ms;
        if let Some(store_ms) = store_ms {
            self.heard = Some(Heard { store_ms, at_ms: now_ms });
        }
        Some(asked.purpose)
    }

    /// The instant at which the store's last time came.
    pub(super) fn heard_ms(&self) -> Option<u64> {
        self.heard.map(|heard| heard.at_ms)
    }

    /// The store's time at this instant, as the last answer on this connection has it.
    pub(super) fn store_ms(&self, at_ms: u64) -> Option<u64> {
        self.heard.map(|heard| heard.store_ms + at_ms.saturating_sub(heard.at_ms))
    }

    /// Whether the connection or a reply is late.
    pub(super) fn is_late(&self, now_ms: u64) -> bool {
        let front = self.asked.front().map(|asked| asked.deadline_ms);
        match self.state {
            ConnectionState::Opening { deadline_ms } => now_ms >= deadline_ms,
            ConnectionState::Up => front.is_some_and(|deadline_ms| now_ms >= deadline_ms),
            ConnectionState::Down { .. } => false,
        }
    }

    /// The instant at which the connection needs attention, if nothing comes before.
    pub(super) fn due_ms(&self) -> Option<u64> {
        match self.state {
            ConnectionState::Down { retry_at_ms } => Some(retry_at_ms),
            ConnectionState::Opening { deadline_ms } => Some(deadline_ms),
            ConnectionState::Up => self.asked.front().map(|asked| asked.deadline_ms),
        }
    }

    /// Moves the deadline of the first answer to this instant, as a part of it has come.
    pub(super) fn extend(&mut self, deadline_ms: u64) {
        if let Some(front) = self.asked.front_mut() {
            front.deadline_ms = front.deadline_ms.max(deadline_ms);
        }
    }
}
