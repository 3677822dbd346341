//! The rule of eviction: which connection gives its place up when all places are taken. The rule knows what each
//! connection waits for, since when, and its network; it touches none.
//!
//! **No connection leaves without an answer while another one can be given one.** In this order:
//!
//! 1. the connection that has been idle longest, which has had its answers;
//! 2. a connection that has sent nothing for [`STUCK_MS`] (503), or has taken nothing of its answer for as long;
//! 3. a request that is unfinished after [`STUCK_MS`] (408);
//! 4. the waiting request with the nearest end, which gets its answer;
//! 5. the oldest of the connections that have not asked: silent (503), or with an unfinished request (408);
//! 6. an answer that is being sent;
//! 7. the longest idle connection whose client has shown the key.
//!
//! A network is a crowd if its connections that have not asked hold over 1/16 of the places. From 3 on, the oldest of
//! these connections goes before one of another network. So a crowd of one address ends no wait of others. In a crowd
//! of many addresses, each connection has [`STUCK_MS`]: such a crowd ends as many waits as it opens connections in that
//! time, and no more.

use std::collections::HashMap;
use std::net::IpAddr;

use super::deadline::{Awaited, Class, Deadlines};
use crate::limits::{CROWD_PART, STUCK_MS};
use crate::lists::{Ends, Links};

/// A client's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Network {
    /// This machine, over a Unix socket.
    Machine,
    /// An IPv4 address.
    V4(u32),
    /// The first 64 bits of an IPv6 address: a host changes the rest at will.
    V6(u64),
}

impl Network {
    /// The network of a client at this address.
    #[must_use]
    pub fn of(ip: Option<IpAddr>) -> Self {
        match ip.map(|ip| ip.to_canonical()) {
            None => Self::Machine,
            Some(IpAddr::V4(ip)) => Self::V4(ip.to_bits()),
            Some(IpAddr::V6(ip)) => Self::V6((ip.to_bits() >> 64) as u64),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unserved {
    /// No whole request has come.
    Unasked(Network),
    /// The client has not taken all of its answer.
    Unsent,
}

#[derive(Clone, Copy, Debug)]
struct Contender {
    unserved: Unserved,
    /// When its client came, last asked, or last took some of its answer.
    since_ms: u64,
}

// Each slot has room for one.
const _: () = assert!(size_of::<Option<Contender>>() <= 24);

/// The connections of one network that have not asked, in the order in which they came.
struct Crowd {
    members: Ends,
    count: usize,
}

/// The connections that the rule orders in another way than their [`Deadlines`] do. A connection that asks at once and
/// takes its answer at once is never among them.
pub struct Contenders {
    places: usize,
    links: Links<Contender>,
    /// Connections with an answer to take, by when their clients last took some of it.
    unsent: Ends,
    crowds: HashMap<Network, Crowd>,
    /// The networks that are a crowd, see [`CROWD_PART`]: a few.
    crowding: Vec<Network>,
}

impl Contenders {
    /// No contenders yet, for `places` places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let (links, crowds) = (Links::default(), HashMap::new());
        Self { places, links, unsent: Ends::EMPTY, crowds, crowding: Vec::new() }
    }

    /// Notes the event that a connection waits for after its turn. `has_moved`: its client has asked, or taken some of
    /// its answer.
    #[inline]
    pub fn note(
        &mut self,
        index: u32,
        awaited: Option<Awaited>,
        has_moved: bool,
        now_ms: u64,
        network: impl FnOnce() -> Network,
    ) {
        let (is_unasked, is_unsent) = match awaited {
            Some(Awaited { class: Class::Fresh | Class::Request, is_keyed: false }) => (true, false),
            Some(Awaited { class: Class::Write, is_keyed: false }) => (false, true),
            _ => (false, false),
        };
        let before = self.links.get(index).map(|contender| contender.unserved);
        let stays = match before {
            None => !is_unasked && !is_unsent,
            Some(Unserved::Unasked(_)) => is_unasked && !has_moved,
            Some(Unserved::Unsent) => is_unsent && !has_moved,
        };
        if stays {
            return;
        }
        self.forget(index);
        if is_unasked {
            let network = if let Some(Unserved::Unasked(network)) = before { network } else { network() };
            self.push(index, Unserved::Unasked(network), now_ms);
        } else if is_unsent {
            self.push(index, Unserved::Unsent, now_ms);
        }
    }

    fn push(&mut self, index: u32, unserved: Unserved, since_ms: u64) {
        let contender = Contender { unserved, since_ms };
        let Unserved::Unasked(network) = unserved else {
            return self.links.push(&mut self.unsent, index, contender);
        };
        let crowd = self.crowds.entry(network).or_insert(Crowd { members: Ends::EMPTY, count: 0 });
        self.links.push(&mut crowd.members, index, contender);
        crowd.count += 1;
        if is_crowding(crowd.count, self.places) && !is_crowding(crowd.count - 1, self.places) {
            self.crowding.push(network);
        }
    }

    /// The connection has gone, or is no contender any more.
    #[inline]
    pub fn forget(&mut self, index: u32) {
        let Some(unserved) = self.links.get(index).map(|contender| contender.unserved) else { return };
        let Unserved::Unasked(network) = unserved else {
            self.links.remove(&mut self.unsent, index);
            return;
        };
        let Some(crowd) = self.crowds.get_mut(&network) else { return };
        self.links.remove(&mut crowd.members, index);
        crowd.count -= 1;
        if !is_crowding(crowd.count, self.places) {
            self.crowding.retain(|crowding| *crowding != network);
        }
        if crowd.count == 0 {
            self.crowds.remove(&network);
            // The memory of a crowd from very many networks goes with it.
            if self.crowds.is_empty() && self.crowds.capacity() > CROWDS_KEPT {
                self.crowds = HashMap::new();
            }
        }
    }

    /// The connection whose client has taken nothing of its answer for longest, and for how long.
    fn unsent(&self, now_ms: u64) -> Option<(u64, u32)> {
        let index = self.unsent.front()?;
        Some((now_ms.saturating_sub(self.links.get(index)?.since_ms), index))
    }

    /// Whether a client has taken nothing of its answer for [`STUCK_MS`].
    #[must_use]
    pub fn takes_nothing(&self, index: u32, now_ms: u64) -> bool {
        let is_stuck = |contender: &Contender| now_ms.saturating_sub(contender.since_ms) >= STUCK_MS;
        self.links.get(index).is_some_and(|contender| contender.unserved == Unserved::Unsent && is_stuck(contender))
    }

    /// The oldest connection of a crowd from another network than `spared`.
    fn oldest_of_a_crowd(&self, spared: Network) -> Option<u32> {
        let crowding = self.crowding.iter().filter(|network| **network != spared);
        let oldest = crowding.filter_map(|network| self.crowds.get(network)?.members.front());
        oldest.min_by_key(|index| self.links.get(*index).map(|contender| contender.since_ms))
    }

    /// Panics if the contender of a connection does not match what it waits for. For builds that check.
    #[cfg(debug_assertions)]
    pub fn check(&self, index: u32, awaited: Option<Awaited>) {
        let unserved = self.links.get(index).map(|contender| contender.unserved);
        let class = awaited.filter(|awaited| !awaited.is_keyed).map(|awaited| awaited.class);
        match class {
            Some(Class::Fresh | Class::Request) => {
                assert!(matches!(unserved, Some(Unserved::Unasked(_))), "a connection that has not asked is known");
            }
            Some(Class::Write) => assert_eq!(unserved, Some(Unserved::Unsent), "and one that has an answer to take"),
            _ => assert_eq!(unserved, None, "and no other"),
        }
    }
}

/// Largest capacity for crowds that is kept while there are none.
const CROWDS_KEPT: usize = 64;

const fn is_crowding(count: usize, places: usize) -> bool {
    count * CROWD_PART > places
}

/// Which connection gives its place up next: this is the rule.
pub fn next(
    deadlines: &Deadlines,
    contenders: &Contenders,
    now_ms: u64,
    network_of: impl FnOnce(u32) -> Network,
) -> Option<u32> {
    let aged = |class: Class| deadlines.oldest(class.into()).map(|index| (deadlines.age_ms(index, now_ms), index));
    let index = |(_, index): (u64, u32)| index;
    let stuck = |aged: Option<(u64, u32)>| aged.filter(|(age_ms, _)| *age_ms >= STUCK_MS).map(index);
    let (silent, unfinished, unsent) = (aged(Class::Fresh), aged(Class::Request), contenders.unsent(now_ms));

    let first = deadlines.oldest(Class::Idle.into()).or(stuck(silent)).or(stuck(unsent));
    if first.is_some() {
        return first;
    }
    // Of two equal ages, the silent one.
    let unasked = [unfinished, silent].into_iter().flatten().max_by_key(|(age_ms, _)| *age_ms);
    let keyed = Awaited { class: Class::Idle, is_keyed: true };
    let next = stuck(unfinished)
        .or_else(|| deadlines.next_waiting())
        .or(unasked.or(unsent).map(index))
        .or_else(|| deadlines.oldest(keyed))?;
    contenders.oldest_of_a_crowd(network_of(next)).or(Some(next))
}

#[cfg(test)]
#[path = "eviction_tests.rs"]
mod tests;
