//! Newcomers, and the eviction of another connection when all slots are taken. The rule in [`eviction`] decides which
//! one goes.

use std::io::{self, ErrorKind};

use rustix::io::Errno;

use super::Worker;
use super::occupant::Occupant;
use crate::http::fault::Fault;
use crate::http::session::{Service, Waiting};
use crate::limits::{ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, WOKEN_PER_TURN};
use crate::net::connection::Connection;
use crate::net::counters::CloseCause;
use crate::net::deadline::{Class, Deadlines};
use crate::net::eviction::{self, Network};
use crate::net::slab::SlabKey;
use crate::net::stream::Stream;

/// The most connections that the worker tries to evict for one newcomer. It reads the input of each first: a connection
/// that has sent a request stays.
const TRIES_MAX: usize = 8;

/// Whether an eviction can help. The kernel also reports errors of a newcomer's network, and refusals by a firewall
/// (accept(2)).
fn is_shortage(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
}

impl<S: Service> Worker<S> {
    pub(super) fn accept_newcomers(&mut self) {
        if self.accept_again_ms > self.now.monotonic_ms {
            return;
        }
        for index in 0..self.listeners.len() {
            if self.listeners[index].is_pending {
                self.accept(index, ACCEPTS_PER_TURN);
            }
        }
    }

    /// Takes up to `count` newcomers from one listener.
    pub(super) fn accept(&mut self, index: usize, count: usize) {
        for _ in 0..count {
            // The other newcomers wait for the next turn. At the end of a drain there may be none.
            if self.waits_ended >= WOKEN_PER_TURN && self.drain.is_none() {
                return;
            }
            let listening = &mut self.listeners[index];
            match Stream::accept(&listening.listener) {
                Ok(stream) => {
                    self.has_evicted = false;
                    self.welcome(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    listening.is_pending = false;
                    return;
                }
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                // No descriptor or no memory: evict once, then rest a moment; never spin, and never
                // close one after the other where that does not help.
                Err(error) => {
                    self.counters.accept_shortages.add(1);
                    self.has_evicted = is_shortage(&error) && !self.has_evicted && self.free_descriptor();
                    if !self.has_evicted {
                        self.accept_again_ms = self.now.monotonic_ms + ACCEPT_PAUSE_MS;
                        return;
                    }
                }
            }
        }
    }

    fn welcome(&mut self, stream: Stream) {
        self.counters.accepted.add(1);
        let connections_max = self.settings.connections_max;
        let is_full = self.occupied() >= connections_max
            && !self.evict_one()
            && self.occupied() >= connections_max + self.settings.extra_slots;
        // Connections that leave still have their descriptors.
        let descriptors_max = connections_max + self.settings.turned_away_max;
        if self.connections.len() >= descriptors_max && !self.close_longest_leaving() {
            return self.counters.closed[CloseCause::Overload as usize].add(1);
        }
        let key = self.connections.insert(Occupant::new(Connection::new(stream)));
        if is_full {
            self.counters.turned_away.add(1);
            self.refuse(key, Fault::NotReady);
        } else {
            self.serve_bounded(key);
        }
    }

    /// Slots that are taken: a connection that has had the last answer, and has only to go, has none.
    pub(super) fn occupied(&self) -> usize {
        self.connections.len() - self.deadlines.lingering()
    }

    /// Evicts a connection for a newcomer, by the rule; gives whether one has left.
    fn evict_one(&mut self) -> bool {
        for _ in 0..TRIES_MAX {
            let Some(key) = self.next_to_go() else { return false };
            if self.see_off(key) {
                return true;
            }
        }
        false
    }

    /// Frees a descriptor. A connection keeps its own until it is closed, so one that is leaving goes first.
    fn free_descriptor(&mut self) -> bool {
        let before = self.connections.len();
        self.close_longest_leaving()
            || (self.evict_one() && (self.connections.len() < before || self.close_longest_leaving()))
    }

    fn next_to_go(&mut self) -> Option<SlabKey> {
        let connections = &mut self.connections;
        let network_of = |index| {
            let key = connections.key_of(index);
            key.and_then(|key| connections.get_mut(key)).map_or(Network::of(None), |occupant| occupant.network())
        };
        let next = eviction::next(&self.deadlines, &self.contenders, self.now.monotonic_ms, network_of)?;
        self.connections.key_of(next)
    }

    /// Evicts a connection, with the answer that it can be given. Reads its input and sends its output first: if that
    /// changes its state, or begins another request, the connection stays, and the result is false.
    fn see_off(&mut self, key: SlabKey) -> bool {
        let now_ms = self.now.monotonic_ms;
        let state = |deadlines: &Deadlines| (deadlines.class(key.index), deadlines.age_ms(key.index, now_ms));
        let before = state(&self.deadlines);
        if let (Some(Class::Waiting(_)), _) = before {
            self.waits_ended += 1;
            self.end_waiting(key);
            return self.has_left(key);
        }
        let took_nothing = self.contenders.takes_nothing(key.index, now_ms);
        let Some(connection) = self.connection(key) else { return true };
        connection.look_again();
        self.serve(key);
        match self.deadlines.class(key.index) {
            _ if self.has_left(key) => return true,
            // The poll tells that the client takes its answer only when the kernel has much room again.
            Some(Class::Write) if took_nothing && !self.contenders.takes_nothing(key.index, now_ms) => return false,
            // The client has had its answer, now or before.
            Some(Class::Idle) => return self.close_if_idle(key, CloseCause::Idle),
            _ if state(&self.deadlines) != before => return false,
            Some(Class::Fresh) => {
                self.counters.turned_away.add(1);
                self.refuse(key, Fault::NotReady);
            }
            Some(Class::Request) => self.refuse(key, Fault::RequestTimeout),
            _ => {}
        }
        // The worker does not wait for the kernel to take the rest.
        if !self.has_left(key) {
            self.close(key, CloseCause::Overload);
        }
        true
    }

    /// Whether a connection has no place any more: it is closed, or has the last answer and has only to go.
    fn has_left(&mut self, key: SlabKey) -> bool {
        self.connections.get_mut(key).is_none() || self.deadlines.class(key.index) == Some(Class::Linger)
    }

    /// Answers a waiting request, and closes behind the answer.
    pub(super) fn end_waiting(&mut self, key: SlabKey) {
        self.turn(key, |connection, turn| {
            turn.call.closing = true;
            connection.conclude(Waiting::Ended, turn)
        });
    }

    /// Closes a connection that has had the last answer and has not gone yet; whether there is one.
    fn close_longest_leaving(&mut self) -> bool {
        let longest = self.deadlines.oldest(Class::Linger.into()).and_then(|index| self.connections.key_of(index));
        if let Some(key) = longest {
            self.close(key, CloseCause::Overload);
        }
        longest.is_some()
    }

    /// Reads once more before it closes: a request that has arrived already is answered.
    pub(super) fn close_if_idle(&mut self, key: SlabKey, cause: CloseCause) -> bool {
        let Some(connection) = self.connection(key) else { return true };
        connection.look_again();
        self.serve(key);
        match self.connections.get_mut(key) {
            Some(occupant) if !occupant.connection.is_idle() || occupant.is_queued => false,
            Some(_) => {
                self.close(key, cause);
                true
            }
            None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_shortage;
    use rustix::io::Errno;

    /// Regression: a newcomer that a firewall refused cost another client its connection.
    #[test]
    fn only_want_of_descriptors_or_memory_evicts() {
        assert!(
            [Errno::MFILE, Errno::NFILE, Errno::NOBUFS, Errno::NOMEM].iter().all(|errno| is_shortage(&(*errno).into()))
        );
        assert!(
            ![Errno::PERM, Errno::PROTO, Errno::NETDOWN, Errno::HOSTUNREACH]
                .iter()
                .any(|errno| is_shortage(&(*errno).into()))
        );
    }
}
