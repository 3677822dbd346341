//! Newcomers, and which connection is evicted for them where all slots are taken. No slot is kept for a client that
//! may ask: see [`CANDIDATES`].

use std::io::ErrorKind;
use std::net::IpAddr;

use super::Worker;
use super::occupant::Occupant;
use crate::http::fault::Fault;
use crate::http::session::{Client, Service, Waiting};
use crate::limits::{ACCEPT_PAUSE_MS, ACCEPTS_PER_TURN, STUCK_MS};
use crate::net::connection::Connection;
use crate::net::counters::CloseCause;
use crate::net::deadline::{Awaited, Class};
use crate::net::slab::SlabKey;
use crate::net::stream::Stream;

/// How many connections are looked at to find one that can be evicted.
const TRIES_MAX: usize = 8;

/// Of the connections that have not finished a request, so many are looked at to find the address with most of them.
const UNFINISHED_LOOKED_AT: usize = 16;

/// Connections that can be evicted.
enum Candidate {
    /// They have had an answer and are idle.
    Idle { is_keyed: bool },
    /// They have not taken any of an answer for so long.
    Stuck { for_ms: u64 },
    /// They have not finished a request for so long, or not begun one.
    Unfinished { classes: &'static [Class], for_ms: u64 },
    /// Their request waits for a vote.
    Waiting,
}

/// The order of eviction. A client that has connected just now is about to ask, and goes after those that have begun a
/// request, which are told 408. A client that has shown the key goes late, and only while idle. Waiting requests are
/// the last: they get their answer, sooner than they asked for it.
const CANDIDATES: [Candidate; 7] = [
    Candidate::Idle { is_keyed: false },
    Candidate::Stuck { for_ms: STUCK_MS },
    Candidate::Unfinished { classes: &[Class::Fresh], for_ms: STUCK_MS },
    Candidate::Unfinished { classes: &[Class::Request, Class::Fresh], for_ms: 0 },
    Candidate::Stuck { for_ms: 0 },
    Candidate::Idle { is_keyed: true },
    Candidate::Waiting,
];

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
                Err(_shortage) => {
                    self.counters.accept_shortages.add(1);
                    self.has_evicted = !self.has_evicted && self.free_descriptor();
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
            self.serve(key);
        }
    }

    /// Slots that are taken: a connection that has had the last answer, and has only to go, has none.
    pub(super) fn occupied(&self) -> usize {
        self.connections.len() - self.deadlines.lingering()
    }

    /// Evicts the first connection that can go for a newcomer; whether there was one.
    fn evict_one(&mut self) -> bool {
        CANDIDATES.iter().any(|candidate| self.evict(candidate))
    }

    /// The same for a descriptor, which a connection has until it is closed.
    fn free_descriptor(&mut self) -> bool {
        let before = self.connections.len();
        self.close_longest_leaving()
            || (self.evict_one() && (self.connections.len() < before || self.close_longest_leaving()))
    }

    fn evict(&mut self, candidate: &Candidate) -> bool {
        match *candidate {
            Candidate::Idle { is_keyed } => self.close_longest_idle(Awaited { class: Class::Idle, is_keyed }),
            Candidate::Stuck { for_ms } => self.close_oldest(Class::Write, for_ms),
            Candidate::Unfinished { classes, for_ms } => self.end_unfinished(classes, for_ms),
            Candidate::Waiting => self.end_next_waiting(),
        }
    }

    /// Ends the waiting request with the nearest end.
    fn end_next_waiting(&mut self) -> bool {
        let Some(key) = self.deadlines.next_waiting().and_then(|index| self.connections.key_of(index)) else {
            return false;
        };
        self.end_waiting(key);
        // Where the kernel does not take the answer it keeps its slot until it does.
        self.connections.get_mut(key).is_none() || self.deadlines.class(key.index) == Some(Class::Linger)
    }

    /// Answers a waiting request, and closes behind the answer.
    pub(super) fn end_waiting(&mut self, key: SlabKey) {
        self.turn(key, |connection, turn| {
            turn.call.closing = true;
            connection.conclude(Waiting::Ended, turn)
        });
    }

    fn oldest(&self, awaited: Awaited) -> Option<SlabKey> {
        self.deadlines.oldest(awaited).and_then(|index| self.connections.key_of(index))
    }

    fn close_longest_idle(&mut self, awaited: Awaited) -> bool {
        for _ in 0..TRIES_MAX {
            match self.oldest(awaited) {
                Some(key) if self.close_if_idle(key, CloseCause::Idle) => return true,
                Some(_asked_just_now) => {}
                None => return false,
            }
        }
        false
    }

    /// A connection that has had the last answer and has not gone yet.
    fn close_longest_leaving(&mut self) -> bool {
        self.close_oldest(Class::Linger, 0)
    }

    /// The oldest connection of a class, if it has been there for so long at least.
    fn close_oldest(&mut self, class: Class, for_ms: u64) -> bool {
        let is_stuck = |key: &SlabKey| self.deadlines.age_ms(key.index, self.now.monotonic_ms) >= for_ms;
        let oldest = self.oldest(class.into()).filter(is_stuck);
        if let Some(key) = oldest {
            self.close(key, CloseCause::Overload);
        }
        oldest.is_some()
    }

    /// Tells a client that has begun a request and not finished it that time is up; one that has not begun is
    /// closed. What has arrived meanwhile is read first.
    fn end_unfinished(&mut self, classes: &[Class], for_ms: u64) -> bool {
        for _ in 0..TRIES_MAX {
            let Some(key) = self.longest_unfinished(classes) else { return false };
            if self.deadlines.age_ms(key.index, self.now.monotonic_ms) < for_ms {
                return false;
            }
            if let Some(connection) = self.connection(key) {
                connection.look_again();
                self.serve(key);
            }
            if self.connections.get_mut(key).is_none() {
                return true;
            }
            match self.deadlines.awaited(key.index) {
                Some(Awaited { class: Class::Request, is_keyed: false }) => {
                    self.refuse(key, Fault::RequestTimeout);
                    // The kernel does not take the answer.
                    if self.deadlines.class(key.index).is_some_and(|class| class != Class::Linger) {
                        self.close(key, CloseCause::Overload);
                    }
                    return true;
                }
                Some(Awaited { class: Class::Idle | Class::Fresh, is_keyed: false })
                    if self.close_if_idle(key, CloseCause::Idle) =>
                {
                    return true;
                }
                Some(Awaited { class: Class::Linger, .. }) => return true,
                Some(_) | None => {}
            }
        }
        false
    }

    /// Among the oldest, one from the address with the most unfinished requests: an address that begins again and again
    /// ends its own, and a slow client elsewhere has its time. Where all are of one address, or each of another, it is
    /// the oldest of the first class.
    fn longest_unfinished(&mut self, classes: &[Class]) -> Option<SlabKey> {
        let oldest =
            classes.iter().flat_map(|class| self.deadlines.oldest_first((*class).into()).take(UNFINISHED_LOOKED_AT));
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

/// The client behind an address: for IPv6 a network of 64 bits, of which a host changes the rest at will.
fn network(ip: IpAddr) -> u128 {
    match ip.to_canonical() {
        IpAddr::V4(ip) => u128::from(ip.to_bits()),
        IpAddr::V6(ip) => ip.to_bits() >> 64 << 64,
    }
}
