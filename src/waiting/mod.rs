//! The requests that wait for a vote, and the pair that each waits for. A request takes a slot, registers, looks at
//! the table once more, and only then waits. The recorder shows a vote first and rings afterwards. So one of the two
//! sees the other, whatever comes between.
//!
//! A bell rings once: the request is then decided anew, and registers again to wait on. So a flood of votes for one
//! pair costs no more than its requests can look at.
//!
//! This module knows neither connections nor answers: a bell takes tickets. While no request waits, a vote costs one
//! look at a number.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

use crate::lists::{Ends, Links};
use crate::vote::table::Pair;

/// Wakes the owners of these tickets; never waits. One for each thread that serves.
pub type Bell = Arc<dyn Fn(Vec<u64>) + Send + Sync>;

/// Once no request waits, the memory for more slots than this is given back.
const SLOTS_KEPT: usize = 64;

/// What became of a request that asked to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A vote came, and it was told so at once.
    Told,
    /// None came for as long as it had asked for.
    TimedOut,
    /// It was answered before that: its client sent nothing more or had disconnected, its server or token was no
    /// longer listed, its slot was needed, or the service was stopping.
    Ended,
    /// All slots were taken: it was answered at once.
    Refused,
}

impl WaitOutcome {
    /// Every outcome, with its label.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Told, "told"), (Self::TimedOut, "timed_out"), (Self::Ended, "ended"), (Self::Refused, "refused")];
}

struct Waiter {
    pair: Pair,
    ticket: u64,
    bell: Bell,
}

#[derive(Default)]
struct Ledger {
    /// The waiters of each pair.
    chains: HashMap<Pair, Ends>,
    /// By slot; none where it is free, and where its request is not registered, or was rung for.
    waiters: Links<Waiter>,
    /// How many slots there are, and which of them are free.
    slots: u32,
    free: Vec<u32>,
}

#[derive(Default)]
struct SharedList {
    /// Requests that wait, or are about to look whether they have to. Written under the ledger's lock.
    waiting: AtomicUsize,
    slots: AtomicUsize,
    outcomes: [AtomicU64; WaitOutcome::ALL.len()],
    ledger: Mutex<Ledger>,
}

/// Where requests wait. Cheap to clone: all clones are one list.
#[derive(Clone, Default)]
pub struct WaitingList(Arc<SharedList>);

/// A slot in the list, until it is dropped.
pub struct WaitingSlot {
    list: WaitingList,
    index: u32,
    outcome: WaitOutcome,
}

impl WaitingList {
    /// From now on so many requests may wait; none may before this is called.
    pub fn set_slots(&self, slots: usize) {
        self.0.slots.store(slots, Ordering::Relaxed);
    }

    /// How many requests may wait.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.0.slots.load(Ordering::Relaxed)
    }

    /// How many requests wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    /// Takes a slot; `None` where all are taken.
    #[must_use]
    pub fn enter(&self) -> Option<WaitingSlot> {
        let mut ledger = self.0.ledger.lock();
        if self.waiting() >= self.slots() {
            return None;
        }
        self.0.waiting.fetch_add(1, Ordering::Relaxed);
        Some(WaitingSlot { list: self.clone(), index: ledger.take_slot(), outcome: WaitOutcome::Ended })
    }

    /// Counts a request that asked to wait; one that has a slot is counted as it leaves.
    pub fn count(&self, outcome: WaitOutcome) {
        self.0.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Requests that asked to wait, with that outcome.
    #[must_use]
    pub fn counted(&self, outcome: WaitOutcome) -> u64 {
        self.0.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Rings for the requests that wait for `pair`. To be called once the vote is in the table, with each of its
    /// addresses.
    #[inline]
    pub fn tell(&self, pair: Pair) {
        if self.is_used() {
            self.ring(|ledger| ledger.unregister(pair));
        }
    }

    /// Rings for the requests that wait for these pairs: more has changed than a vote, and their answers may differ.
    pub fn tell_where(&self, is_meant: impl Fn(Pair) -> bool) {
        if self.is_used() {
            self.ring(|ledger| {
                let pairs: Vec<Pair> = ledger.chains.keys().copied().filter(|pair| is_meant(*pair)).collect();
                pairs.into_iter().flat_map(|pair| ledger.unregister(pair)).collect()
            });
        }
    }

    /// To be asked behind the change that is to be told of.
    #[inline]
    fn is_used(&self) -> bool {
        // With the fence in `register`: either the look that follows there sees the change, or this one sees that a
        // request waits.
        fence(Ordering::SeqCst);
        self.waiting() > 0
    }

    /// Collects under the lock, and rings outside of it.
    fn ring(&self, unregister: impl FnOnce(&mut Ledger) -> Vec<Waiter>) {
        let rung = unregister(&mut self.0.ledger.lock());
        let mut rounds: Vec<(Bell, Vec<u64>)> = Vec::new();
        for Waiter { bell, ticket, .. } in rung {
            match rounds.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &bell)) {
                Some((_, tickets)) => tickets.push(ticket),
                None => rounds.push((bell, vec![ticket])),
            }
        }
        for (bell, tickets) in rounds {
            bell(tickets);
        }
    }
}

impl WaitingSlot {
    /// Has the bell rung with `ticket`, once, for the next vote for `pair`. The table has to be looked at after
    /// this: a vote that is shown from now on rings.
    pub fn register(&mut self, pair: Pair, bell: &Bell, ticket: u64) {
        self.list.0.ledger.lock().register(self.index, pair, Arc::clone(bell), ticket);
        fence(Ordering::SeqCst);
    }

    /// Gives the slot up. One that is dropped without this has [`WaitOutcome::Ended`].
    pub fn leave(mut self, outcome: WaitOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for WaitingSlot {
    // Few requests wait: the others meet no more of this than a comparison.
    #[cold]
    fn drop(&mut self) {
        self.list.count(self.outcome);
        let mut ledger = self.list.0.ledger.lock();
        ledger.give_back(self.index);
        self.list.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Ledger {
    fn take_slot(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        })
    }

    fn give_back(&mut self, index: u32) {
        self.unlink(index);
        self.free.push(index);
        if self.free.len() == self.slots as usize && self.free.len() > SLOTS_KEPT {
            *self = Self::default();
        }
    }

    fn register(&mut self, index: u32, pair: Pair, bell: Bell, ticket: u64) {
        self.unlink(index);
        let chain = self.chains.entry(pair).or_insert(Ends::EMPTY);
        self.waiters.push(chain, index, Waiter { pair, ticket, bell });
    }

    fn unlink(&mut self, index: u32) {
        let Some(pair) = self.waiters.get(index).map(|waiter| waiter.pair) else { return };
        let Some(chain) = self.chains.get_mut(&pair) else { return };
        self.waiters.remove(chain, index);
        if chain.front().is_none() {
            self.chains.remove(&pair);
        }
    }

    /// Takes out the waiters of `pair`, the oldest first.
    fn unregister(&mut self, pair: Pair) -> Vec<Waiter> {
        let mut chain = self.chains.remove(&pair).unwrap_or(Ends::EMPTY);
        let next = || {
            let front = chain.front()?;
            self.waiters.remove(&mut chain, front)
        };
        std::iter::from_fn(next).collect()
    }
}

#[cfg(test)]
mod tests;
