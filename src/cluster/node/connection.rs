//! One of a node's two connections, as far as the node knows it: whether it is there, what was asked on it and not answered
//! yet, and what the store said the time was.

use std::collections::VecDeque;

use super::bounds::Bounds;

/// What was asked, and until when its reply is waited for.
#[derive(Debug)]
pub(super) struct Asked<P> {
    pub(super) purpose: P,
    pub(super) deadline_ms: u64,
}

/// The store's time, and when it came.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    store_ms: u64,
    at_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// Not before this instant is it tried again.
    Down {
        retry_at_ms: u64,
    },
    /// It is being made.
    Opening {
        deadline_ms: u64,
    },
    Up,
}

/// A connection on which questions are asked for a purpose.
#[derive(Debug)]
pub(super) struct StoreConnection<P> {
    state: ConnectionState,
    pub(super) asked: VecDeque<Asked<P>>,
    heard: Option<Heard>,
    backoff_ms: u64,
}

impl<P> StoreConnection<P> {
    pub(super) fn new(bounds: &Bounds) -> Self {
        let state = ConnectionState::Down { retry_at_ms: 0 };
        Self { state, asked: VecDeque::new(), heard: None, backoff_ms: bounds.backoff_min_ms }
    }

    pub(super) fn is_up(&self) -> bool {
        self.state == ConnectionState::Up
    }

    /// Whether it is being made.
    pub(super) fn is_opening(&self) -> bool {
        matches!(self.state, ConnectionState::Opening { .. })
    }

    /// Whether it is to be made now. It is being made then.
    pub(super) fn opens(&mut self, now_ms: u64, patience_ms: u64) -> bool {
        let is_due = matches!(self.state, ConnectionState::Down { retry_at_ms } if now_ms >= retry_at_ms);
        if is_due {
            self.state = ConnectionState::Opening { deadline_ms: now_ms + patience_ms };
        }
        is_due
    }

    /// It is there. `false` where nobody waits for it any more.
    pub(super) fn open(&mut self) -> bool {
        let is_awaited = matches!(self.state, ConnectionState::Opening { .. });
        if is_awaited {
            self.state = ConnectionState::Up;
        }
        is_awaited
    }

    /// It is gone: what was asked on it gets no answer.
    pub(super) fn drop(&mut self, now_ms: u64, bounds: &Bounds) -> VecDeque<Asked<P>> {
        self.state = ConnectionState::Down { retry_at_ms: now_ms + self.backoff_ms };
        self.backoff_ms = (self.backoff_ms * 2).min(bounds.backoff_max_ms);
        self.heard = None;
        std::mem::take(&mut self.asked)
    }

    /// An answer has come, with the store's time where it says it.
    pub(super) fn hear(&mut self, store_ms: Option<u64>, now_ms: u64, bounds: &Bounds) -> Option<P> {
        let asked = self.asked.pop_front()?;
        self.backoff_ms = bounds.backoff_min_ms;
        if let Some(store_ms) = store_ms {
            self.heard = Some(Heard { store_ms, at_ms: now_ms });
        }
        Some(asked.purpose)
    }

    /// When the store last said the time.
    pub(super) fn heard_ms(&self) -> Option<u64> {
        self.heard.map(|heard| heard.at_ms)
    }

    /// The store's time at this instant, as the last answer on this connection has it.
    pub(super) fn store_ms(&self, at_ms: u64) -> Option<u64> {
        self.heard.map(|heard| heard.store_ms + at_ms.saturating_sub(heard.at_ms))
    }

    /// Whether something did not come in time.
    pub(super) fn is_late(&self, now_ms: u64) -> bool {
        let front = self.asked.front().map(|asked| asked.deadline_ms);
        match self.state {
            ConnectionState::Opening { deadline_ms } => now_ms >= deadline_ms,
            ConnectionState::Up => front.is_some_and(|deadline_ms| now_ms >= deadline_ms),
            ConnectionState::Down { .. } => false,
        }
    }

    /// When there is something to do for it, if nothing comes before.
    pub(super) fn due_ms(&self) -> Option<u64> {
        match self.state {
            ConnectionState::Down { retry_at_ms } => Some(retry_at_ms),
            ConnectionState::Opening { deadline_ms } => Some(deadline_ms),
            ConnectionState::Up => self.asked.front().map(|asked| asked.deadline_ms),
        }
    }

    /// What is waited for has come on: the first answer is waited for until then.
    pub(super) fn extend(&mut self, deadline_ms: u64) {
        if let Some(front) = self.asked.front_mut() {
            front.deadline_ms = front.deadline_ms.max(deadline_ms);
        }
    }
}
