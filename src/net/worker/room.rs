//! Newcomers, and how room is made for them. A place is never kept for who may ask: where all are
//! taken, the first to go are those who have had an answer and are idle, then those who let answers
//! wait, then those who have been silent from the start for a while, then those who have begun a request
//! and not finished it, who are told 408. Who has come just now is about to ask, and goes after them.
//! Whoever has shown a key goes late, and only while idle. Last are those whose request is held: they have
//! their answer, sooner than they asked for it.

use std::io::ErrorKind;
use std::net::IpAddr;

use super::Worker;
use super::occupant::Occupant;
use crate::http::fault::Fault;
use crate::http::session::{Holding, Service};
use crate::limits::{ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, STUCK_MS};
use crate::net::connection::Connection;
use crate::net::counters::CloseCause;
use crate::net::deadline::Class;
use crate::net::slab::SlabKey;
use crate::net::stream::Stream;

/// How many connections are looked at to find one that can make room.
const TRIES_MAX: usize = 8;

/// Of those who have not finished a request, so many are looked at to find who has most of them.
const UNFINISHED_LOOKED_AT: usize = 16;

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
            let listening = &mut self.listeners[index];
            match listening.listener.accept() {
                Ok(stream) => {
                    self.has_made_room = false;
                    self.welcome(stream);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    listening.is_pending = false;
                    return;
                }
                Err(error) if matches!(error.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                // No descriptor or no memory: make room once, then rest a moment; never spin, and never
                // close one after the other where that does not help.
                Err(_shortage) => {
                    self.counters.accept_shortages.add(1);
                    self.has_made_room = !self.has_made_room && self.free_descriptor();
                    if !self.has_made_room {
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
            && !self.make_room()
            && self.occupied() >= connections_max + self.settings.kept_places;
        // Those who leave still have their descriptors.
        let descriptors_max = connections_max + self.settings.turned_away_max;
        if self.connections.len() >= descriptors_max && !self.close_longest_leaving() {
            return self.counters.closed[CloseCause::Overload as usize].add(1);
        }
        let key = self.connections.insert(Occupant::new(Connection::new(stream)));
        if is_full {
            self.turn(key, Connection::turn_away);
        } else {
            self.serve(key);
        }
    }

    /// Places that are taken: who has had the last answer, and has only to go, has none.
    pub(super) fn occupied(&self) -> usize {
        self.connections.len() - self.deadlines.count(Class::Linger)
    }

    /// A place for a newcomer, where somebody can go for it.
    fn make_room(&mut self) -> bool {
        self.close_longest_idle(Class::Idle)
            || self.close_stuck(STUCK_MS)
            || self.end_unfinished(&[Class::Fresh], STUCK_MS)
            || self.end_unfinished(&[Class::Request, Class::Fresh], 0)
            || self.close_stuck(0)
            || self.close_longest_idle(Class::KeyedIdle)
            || self.end_longest_waiting()
    }

    /// The same for a descriptor, which those who leave have too.
    fn free_descriptor(&mut self) -> bool {
        if self.close_longest_leaving() || self.close_longest_idle(Class::Idle) || self.close_stuck(STUCK_MS) {
            return true;
        }
        if self.end_unfinished(&[Class::Fresh], STUCK_MS) || self.end_unfinished(&[Class::Request, Class::Fresh], 0) {
            // It has its answer as far as the kernel takes it, and no time to take it.
            self.close_longest_leaving();
            return true;
        }
        if self.close_stuck(0) || self.close_longest_idle(Class::KeyedIdle) {
            return true;
        }
        self.end_longest_waiting() && self.close_longest_leaving()
    }

    /// Answers the held request whose time is nearest to its end, and closes behind the answer.
    fn end_longest_waiting(&mut self) -> bool {
        let Some(key) = self.deadlines.next_waiting().and_then(|index| self.connections.key_of(index)) else {
            return false;
        };
        self.turn(key, |connection, turn| {
            turn.call.closing = true;
            connection.conclude(Holding::Ended, turn)
        });
        // Where the kernel does not take the answer it keeps its place until it does.
        self.connections.get_mut(key).is_none() || self.deadlines.class(key.index) == Some(Class::Linger)
    }

    fn oldest(&self, class: Class) -> Option<SlabKey> {
        self.deadlines.oldest(class).and_then(|index| self.connections.key_of(index))
    }

    fn close_longest_idle(&mut self, class: Class) -> bool {
        for _ in 0..TRIES_MAX {
            match self.oldest(class) {
                Some(key) if self.close_if_idle(key, CloseCause::Idle) => return true,
                Some(_asked_just_now) => {}
                None => return false,
            }
        }
        false
    }

    /// Who has had the last answer and has not gone yet.
    fn close_longest_leaving(&mut self) -> bool {
        let oldest = self.oldest(Class::Linger);
        if let Some(key) = oldest {
            self.close(key, CloseCause::Overload);
        }
        oldest.is_some()
    }

    /// Who has not taken any of an answer for the longest time, and for `stuck_ms` at least.
    fn close_stuck(&mut self, stuck_ms: u64) -> bool {
        let is_stuck = |key: &SlabKey| self.deadlines.waits_ms(key.index, self.now.monotonic_ms) >= stuck_ms;
        let oldest = self.oldest(Class::Write).filter(is_stuck);
        if let Some(key) = oldest {
            self.close(key, CloseCause::Overload);
        }
        oldest.is_some()
    }

    /// Tells somebody who has begun a request and not finished it that time is up; who
    /// has not begun is closed. What has arrived meanwhile is read first.
    fn end_unfinished(&mut self, classes: &[Class], waits_ms_min: u64) -> bool {
        for _ in 0..TRIES_MAX {
            let Some(key) = self.longest_unfinished(classes) else { return false };
            if self.deadlines.waits_ms(key.index, self.now.monotonic_ms) < waits_ms_min {
                return false;
            }
            if let Some(connection) = self.connection(key) {
                connection.look_again();
                self.serve(key);
            }
            match self.deadlines.class(key.index).filter(|_| self.connections.get_mut(key).is_some()) {
                Some(Class::Request) => {
                    self.turn(key, |connection, turn| connection.refuse(Fault::RequestTimeout, turn));
                    // The kernel does not take the answer.
                    if self.deadlines.class(key.index).is_some_and(|class| class != Class::Linger) {
                        self.close(key, CloseCause::Overload);
                    }
                    return true;
                }
                Some(Class::Idle | Class::Fresh) if self.close_if_idle(key, CloseCause::Idle) => return true,
                Some(Class::Linger) => return true,
                None if self.connections.get_mut(key).is_none() => return true,
                Some(_) | None => {}
            }
        }
        false
    }

    /// The oldest of whoever has most of the oldest: one address that begins again and again ends its
    /// own, and a slow client elsewhere has its time. Where all are of one address, or each of another,
    /// it is the oldest of the first class.
    fn longest_unfinished(&mut self, classes: &[Class]) -> Option<SlabKey> {
        let oldest = classes.iter().flat_map(|class| self.deadlines.waiting(*class).take(UNFINISHED_LOOKED_AT));
        let oldest: Vec<u32> = oldest.collect();
        let mut networks = Vec::with_capacity(oldest.len());
        for index in &oldest {
            let key = self.connections.key_of(*index)?;
            let peer = self.connection(key).and_then(|connection| connection.stream().peer());
            networks.push(peer.map(|peer| network(peer.ip())));
        }
        let count = |network: &Option<u128>| networks.iter().filter(|other| *other == network).count();
        // The first of several maxima: `max_by_key` would give the last.
        let most = networks.iter().map(count).max()?;
        let at = networks.iter().position(|network| count(network) == most)?;
        self.connections.key_of(oldest[at])
    }

    /// Looks once more before it closes: a request that has arrived already is answered.
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

/// Who is behind an address: for IPv6 a network of 64 bits, of which a host changes the rest at will.
fn network(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}
