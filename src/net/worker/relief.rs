//! Relief when all connections together use too much memory: the connection that uses most gives its memory up, on
//! whichever worker it is. A request that can still be answered is told 503; a connection whose client does not take
//! its answer is closed.
//!
//! A turn ends few waiting requests for this, as for any other reason: see [`WOKEN_PER_TURN`]. Beyond the bound, it
//! ends as many as it takes to come below the bound.

use super::Worker;
use crate::http::fault::Fault;
use crate::http::session::Service;
use crate::limits::{CUTS_PER_TURN, OUT_KEPT_BYTES_MAX, WOKEN_PER_TURN};
use crate::net::counters::CloseCause;
use crate::net::slab::SlabKey;

impl<S: Service> Worker<S> {
    /// Called once a turn, after all were served, and within a turn once the bound is passed.
    pub(super) fn relieve(&mut self) {
        if self.out.capacity() > OUT_KEPT_BYTES_MAX {
            self.out = Vec::new();
        }
        self.account.tell();
        self.is_short |= self.account.is_full();
        for _ in 0..CUTS_PER_TURN {
            if !self.is_short {
                return;
            }
            let heaviest = self.account.heaviest(self.now.monotonic_ms);
            match heaviest.and_then(|index| self.connections.key_of(index)) {
                // The others go on in the next turn, which begins at once.
                Some(key) if self.may_not_end(key) => return,
                Some(key) => self.cut(key),
                None => self.is_short = false,
            }
        }
    }

    /// Another worker has found that a connection of this worker uses most.
    pub(super) fn note_shortage(&mut self) {
        self.account.clear_told();
        self.is_short = true;
    }

    /// Whether the connection has a waiting request that would be one too many for this turn.
    fn may_not_end(&mut self, key: SlabKey) -> bool {
        self.waits_ended >= WOKEN_PER_TURN
            && !self.account.is_over()
            && self.connection(key).is_some_and(|connection| connection.is_waiting())
    }

    fn cut(&mut self, key: SlabKey) {
        let Some(connection) = self.connection(key) else { return };
        if connection.is_idle() {
            // The client has asked nothing: it would take a refusal for the answer to its next request.
            self.close_if_idle(key, CloseCause::Memory);
            return;
        }
        if connection.is_waiting() {
            // The input behind its request uses memory.
            self.waits_ended += 1;
            self.end_waiting(key);
        } else if connection.can_be_refused() {
            self.refuse(key, Fault::NotReady);
        } else {
            return self.close(key, CloseCause::Memory);
        }
        if self.connection(key).is_some_and(|connection| connection.has_unsent()) {
            // The kernel does not take the answer.
            self.close(key, CloseCause::Memory);
        } else {
            self.counters.cut_answered.add(1);
        }
    }
}
