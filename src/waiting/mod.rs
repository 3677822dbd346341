//! Who waits to be told of a vote, and for which. A request that waits enters the room, then looks at the
//! table once more, and only then rests; whoever shows a vote shows it first, and then rings for those who
//! wait for it. One of the two sees the other, whatever comes between.
//!
//! It knows neither connections nor answers: a bell takes tickets, and everything is decided anew by
//! whoever is woken. While nobody waits a vote costs it one look at a number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

use crate::vote::table::Pair;

/// Wakes the owners of these tickets; never waits. One for each thread that serves.
pub type Bell = Arc<dyn Fn(Vec<u64>) + Send + Sync>;

const NONE: u32 = u32::MAX;
/// An empty room gives memory back that was taken for more than this many.
const KEPT_PLACES: usize = 64;

struct Waiter {
    pair: Pair,
    ticket: u64,
    bell: Bell,
    before: u32,
    behind: u32,
}

#[derive(Default)]
struct Ledger {
    /// Those who wait for a pair are a chain: one who goes costs the same, however many the others are.
    first: HashMap<Pair, u32>,
    waiters: Vec<Option<Waiter>>,
    free: Vec<u32>,
}

#[derive(Default)]
struct SharedRoom {
    /// How many wait, or are about to look whether they have to. Written under the ledger's lock.
    waiting: AtomicUsize,
    places: AtomicUsize,
    ledger: Mutex<Ledger>,
}

/// Where requests wait. Cheap to clone: all clones are one room.
#[derive(Clone, Default)]
pub struct WaitingRoom(Arc<SharedRoom>);

/// A place in the room, until it is dropped.
pub struct WaitingPlace {
    room: Arc<SharedRoom>,
    index: u32,
}

impl WaitingRoom {
    /// From now on so many may wait; none before this was called.
    pub fn set_places(&self, places: usize) {
        self.0.places.store(places, Ordering::Relaxed);
    }

    /// How many may wait.
    #[must_use]
    pub fn places(&self) -> usize {
        self.0.places.load(Ordering::Relaxed)
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Takes a place for who waits for a vote for `pair`; `None` where there is none. The table has to be
    /// looked at after this: a vote that is shown from now on rings.
    #[must_use]
    pub fn enter(&self, pair: Pair, bell: &Bell, ticket: u64) -> Option<WaitingPlace> {
        let index = {
            let mut ledger = self.0.ledger.lock();
            if self.waiting() >= self.places() {
                return None;
            }
            self.0.waiting.fetch_add(1, Ordering::Relaxed);
            ledger.add(pair, Arc::clone(bell), ticket)
        };
        // With the one in `tell`: either the look at the table that follows sees the vote, or who has shown
        // it sees that somebody waits.
        fence(Ordering::SeqCst);
        Some(WaitingPlace { room: Arc::clone(&self.0), index })
    }

    /// Rings for those who wait for `pair`. To be called once the vote is in the table, for each address of
    /// it.
    #[inline]
    pub fn tell(&self, pair: Pair) {
        fence(Ordering::SeqCst);
        if self.waiting() > 0 {
            self.ring(|ledger| ledger.of(pair).map(|waiter| (&waiter.bell, waiter.ticket)).collect());
        }
    }

    /// Rings for everybody: much has changed at once.
    pub fn tell_all(&self) {
        fence(Ordering::SeqCst);
        if self.waiting() > 0 {
            self.ring(|ledger| ledger.waiters.iter().flatten().map(|waiter| (&waiter.bell, waiter.ticket)).collect());
        }
    }

    /// Collects under the lock, and rings outside of it.
    fn ring(&self, chosen: impl FnOnce(&Ledger) -> Vec<(&Bell, u64)>) {
        let mut rounds: Vec<(Bell, Vec<u64>)> = Vec::new();
        {
            let ledger = self.0.ledger.lock();
            for (bell, ticket) in chosen(&ledger) {
                match rounds.iter_mut().find(|(other, _)| Arc::ptr_eq(other, bell)) {
                    Some((_, tickets)) => tickets.push(ticket),
                    None => rounds.push((Arc::clone(bell), vec![ticket])),
                }
            }
        }
        for (bell, tickets) in rounds {
            bell(tickets);
        }
    }
}

impl Drop for WaitingPlace {
    fn drop(&mut self) {
        let mut ledger = self.room.ledger.lock();
        ledger.remove(self.index);
        self.room.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ledger {
    fn add(&mut self, pair: Pair, bell: Bell, ticket: u64) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.waiters.push(None);
            u32::try_from(self.waiters.len() - 1).expect("those who wait are bounded by descriptors")
        });
        let behind = self.first.insert(pair, index).unwrap_or(NONE);
        self.link(behind, |waiter| waiter.before = index);
        self.waiters[index as usize] = Some(Waiter { pair, ticket, bell, before: NONE, behind });
        index
    }

    fn remove(&mut self, index: u32) {
        let Some(Waiter { pair, before, behind, .. }) = self.waiters[index as usize].take() else { return };
        self.link(behind, |waiter| waiter.before = before);
        if before != NONE {
            self.link(before, |waiter| waiter.behind = behind);
        } else if behind != NONE {
            self.first.insert(pair, behind);
        } else {
            self.first.remove(&pair);
        }
        self.free.push(index);
        if self.first.is_empty() && self.waiters.len() > KEPT_PLACES {
            *self = Self::default();
        }
    }

    fn link(&mut self, index: u32, change: impl FnOnce(&mut Waiter)) {
        if let Some(Some(waiter)) = self.waiters.get_mut(index as usize) {
            change(waiter);
        }
    }

    /// Those who wait for `pair`, the newest first.
    fn of(&self, pair: Pair) -> impl Iterator<Item = &Waiter> {
        let at = |index: u32| self.waiters.get(index as usize).and_then(Option::as_ref);
        std::iter::successors(self.first.get(&pair).and_then(|first| at(*first)), move |waiter| at(waiter.behind))
    }
}

#[cfg(test)]
mod tests;
