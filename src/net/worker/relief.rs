//! What a worker does where all connections together use too much memory: the connection that uses most gives it up,
//! on whichever worker it is. A request that can still be answered is told 503; a connection whose client does not take
//! its answer is closed.

use super::Worker;
use crate::http::fault::Fault;
use crate::http::session::Service;
use crate::limits::{CUTS_PER_TURN, OUT_KEPT_BYTES_MAX};
use crate::net::counters::CloseCause;
use crate::net::slab::SlabKey;

impl<S: Service> Worker<S> {
    /// To be called once a turn, after all were served; and within a turn, once the bound is passed.
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
                Some(key) => self.cut(key),
                None => self.is_short = false,
            }
        }
    }

    /// Another worker has found that one of this one's connections uses most.
    pub(super) fn note_shortage(&mut self) {
        self.account.clear_told();
        self.is_short = true;
    }

    fn cut(&mut self, key: SlabKey) {
        let Some(connection) = self.connection(key) else { return };
        if connection.is_idle() {
            // It has asked nothing: an answer would be taken for that to its next question.
            self.close_if_idle(key, CloseCause::Memory);
            return;
        }
        if connection.is_waiting() {
            // What it sent behind its question uses memory.
            self.end_waiting(key);
        } else if connection.can_be_refused() {
            self.counters.cut_answered.add(1);
            self.refuse(key, Fault::NotReady);
        } else {
            self.close(key, CloseCause::Memory);
        }
        // The kernel does not take the answer.
        if self.connection(key).is_some_and(|connection| connection.has_unsent()) {
            self.close(key, CloseCause::Memory);
        }
    }
}
