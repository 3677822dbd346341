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

#[cfg(test)]
mod tests {
    use super::{Asked, StoreConnection};
    use crate::cluster::node::bounds::Bounds;

    const BOUNDS: Bounds = Bounds::USUAL;

    /// A connection that is open since the instant 1,000.
    fn open(process: &str) -> StoreConnection<u8> {
        let mut connection = StoreConnection::new(&BOUNDS);
        assert!(connection.opens(1_000, 500) && connection.open(process));
        connection
    }

    #[test]
    fn a_connection_is_made_once_it_is_due_and_counts_once_it_is_open() {
        let mut connection: StoreConnection<u8> = StoreConnection::new(&BOUNDS);
        assert!(!connection.is_up() && !connection.is_opening() && !connection.is_late(u64::MAX));
        assert!(!connection.open("early"), "nobody waits for it");
        assert!(connection.opens(1_000, 500));
        assert!(!connection.opens(1_001, 500), "it is being made");
        assert!(connection.is_opening() && !connection.is_up());
        assert_eq!(
            (connection.due_ms(), connection.is_late(1_499), connection.is_late(1_500)),
            (Some(1_500), false, true)
        );
        assert!(connection.open("process"));
        assert!(connection.is_up() && !connection.is_opening() && !connection.is_late(u64::MAX));
        assert_eq!(connection.due_ms(), None);
        assert!(!connection.open("again"), "it is open");
    }

    #[test]
    fn each_pause_is_twice_as_long_until_an_answer_comes() {
        let mut connection = open("process");
        let mut pauses = Vec::new();
        for _ in 0..5 {
            connection.drop(7_000, &BOUNDS);
            let due_ms = connection.due_ms().expect("it is tried again");
            pauses.push(due_ms - 7_000);
            assert!(!connection.opens(due_ms - 1, 500) && connection.opens(due_ms, 500) && connection.open("process"));
        }
        assert_eq!(pauses, [100, 200, 400, 500, 500]);
        connection.asked.push_back(Asked { purpose: 1, deadline_ms: 9_000 });
        assert_eq!(connection.hear(None, 8_000, &BOUNDS), Some(1));
        connection.drop(10_000, &BOUNDS);
        assert_eq!(connection.due_ms(), Some(10_100));
    }

    #[test]
    fn replies_are_late_by_the_deadline_of_the_first() {
        let mut connection = open("process");
        for (purpose, deadline_ms) in [(1, 3_000), (2, 2_000)] {
            connection.asked.push_back(Asked { purpose, deadline_ms });
        }
        assert_eq!(
            (connection.due_ms(), connection.is_late(2_999), connection.is_late(3_000)),
            (Some(3_000), false, true)
        );
        connection.extend(2_500);
        assert_eq!(connection.due_ms(), Some(3_000), "no deadline comes earlier");
        connection.extend(3_500);
        assert_eq!(connection.due_ms(), Some(3_500));
        assert_eq!(connection.hear(None, 1_100, &BOUNDS), Some(1));
        assert_eq!(connection.due_ms(), Some(2_000));
        let dropped: Vec<u8> = connection.drop(1_200, &BOUNDS).into_iter().map(|asked| asked.purpose).collect();
        assert_eq!((dropped, connection.hear(None, 1_300, &BOUNDS)), (vec![2], None));
    }

    #[test]
    fn the_store_s_time_goes_on_from_the_last_answer_that_had_it() {
        let mut connection = open("process");
        assert_eq!((connection.heard_ms(), connection.store_ms(2_000)), (None, None));
        for (store_ms, at_ms) in [(Some(50_000), 1_100), (None, 1_200)] {
            connection.asked.push_back(Asked { purpose: 1, deadline_ms: 9_000 });
            connection.hear(store_ms, at_ms, &BOUNDS);
        }
        assert_eq!((connection.heard_ms(), connection.store_ms(1_350)), (Some(1_100), Some(50_250)));
        connection.drop(1_400, &BOUNDS);
        assert_eq!((connection.heard_ms(), connection.store_ms(2_000)), (None, None));
    }

    #[test]
    fn two_open_connections_may_lead_to_two_processes() {
        let (one, mut other) = (open("one"), open("other"));
        assert!(one.is_apart_from(&other) && !one.is_apart_from(&open("one")));
        other.drop(2_000, &BOUNDS);
        assert!(!one.is_apart_from(&other), "one of them is closed");
    }
}
