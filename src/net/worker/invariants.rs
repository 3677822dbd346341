//! What must hold at the end of each turn. Only builds that check it have this file.

use super::Worker;
use super::occupant::PollInterest;
use crate::http::session::Service;
use crate::net::slab::SlabKey;

impl<S: Service> Worker<S> {
    /// Panics where what the worker keeps of its connections does not agree with them. All are looked at
    /// once in as many turns as there are, so that a turn costs the same however many they are.
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
        let waiting: Vec<SlabKey> = self.again.iter().copied().collect();
        let alive = waiting.iter().filter(|key| self.connections.get_mut(**key).is_some()).count();
        assert_eq!(alive, queued, "who is queued waits for a turn, once");
    }

    /// Whether it waits for its next turn.
    fn check_occupant(&mut self, key: SlabKey) -> bool {
        let Some(occupant) = self.connections.get_mut(key) else { return false };
        // One that another worker had before has not had its first turn here.
        if occupant.interest != PollInterest::Nothing {
            occupant.connection.check_invariants();
            let held_bytes = occupant.connection.held_bytes(&self.service);
            assert_eq!(occupant.is_holder, held_bytes > 0, "who holds something is known");
            assert_eq!(self.account.held_bytes(key.index), held_bytes, "and how much");
            let class = occupant.connection.deadline_class();
            assert_eq!(self.deadlines.class(key.index), class, "each has the deadline of what it waits for");
        }
        occupant.is_queued
    }
}
