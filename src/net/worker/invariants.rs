//! The invariants of a worker between two turns. Only builds that check them have this file.

use super::Worker;
use crate::http::session::Service;
use crate::net::slab::SlabKey;

impl<S: Service> Worker<S> {
    /// Panics if the worker's state does not agree with its connections. `n` connections are checked once in `n` turns,
    /// so that the cost of a turn does not depend on their number.
    pub(super) fn check_invariants(&mut self) {
        assert!(self.out.is_empty(), "answers are sent within the turn of their connection");
        self.turns_unchecked += 1;
        if self.turns_unchecked < self.connections.len() {
            return;
        }
        self.turns_unchecked = 0;
        self.account.check_invariants();
        let mut queued = 0;
        for key in self.connections.keys() {
            queued += usize::from(self.check_occupant(key));
        }
        let queue: Vec<SlabKey> = self.again.iter().chain(&self.keyed.again).copied().collect();
        let alive = queue.iter().filter(|key| self.connections.get_mut(**key).is_some()).count();
        assert_eq!(alive, queued, "a connection is queued once");
    }

    /// Checks an occupant; gives whether it is queued for its next turn.
    fn check_occupant(&mut self, key: SlabKey) -> bool {
        let Some(occupant) = self.connections.get_mut(key) else { return false };
        // The connection has had its first turn.
        if occupant.registration.is_some() {
            occupant.connection.check_invariants();
            let used_bytes = occupant.connection.used_bytes(&self.service);
            assert_eq!(occupant.is_counted, used_bytes > 0, "a connection that uses memory is known");
            assert_eq!(self.account.used_bytes(key.index), used_bytes, "and how much");
            let awaited = occupant.connection.awaited();
            assert_eq!(self.deadlines.awaited(key.index), awaited, "each has the deadline of what must happen");
            self.contenders.check(key.index, awaited);
        }
        occupant.is_queued
    }
}
