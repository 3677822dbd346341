//! The requests that wait for a vote, and the pair that each waits for. A request takes a slot, registers, looks at
//! the table once more, and only then waits. The recorder shows a vote first and rings afterwards. So one of the two
//! sees the other, whatever comes between.
//!
//! A bell rings once: the request is then decided anew, and registers again to wait on. So a flood of votes for one
//! pair costs no more than its requests can look at.
//!
//! This module knows neither connections nor answers: a bell takes tickets. While no request waits, a vote costs one
//! look at a number.

use std::collections::BTreeMap;
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

use parking_lot::Mutex;

use crate::vote::table::Pair;

/// Wakes the owners of these tickets; never waits. One for each thread that serves.
pub type Bell = Arc<dyn Fn(Vec<u64>) + Send + Sync>;

/// The outcome of a request that asked to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitOutcome {
    /// A vote came, and the request was answered at once.
    Told,
    /// No vote came for as long as the request had asked for.
    TimedOut,
    /// The request ended earlier. Its client had closed its sending side or disconnected, its server or token was no
    /// longer listed, its slot or memory was needed, or the service was stopping.
    Ended,
    /// All slots were taken: the request was answered at once.
    Refused,
}

impl WaitOutcome {
    /// Every outcome, with its label.
    pub const ALL: [(Self, &'static str); 4] =
        [(Self::Told, "told"), (Self::TimedOut, "timed_out"), (Self::Ended, "ended"), (Self::Refused, "refused")];
}

#[derive(Default)]
struct SharedList {
    /// Requests that wait, or are about to look whether they must.
    waiting: AtomicUsize,
    slots: AtomicUsize,
    /// The number of slots taken so far, which numbers each slot.
    taken: AtomicU64,
    outcomes: [AtomicU64; WaitOutcome::ALL.len()],
    /// The ticket and the bell of each request, by the pair that it waits for and the number of its slot. A request
    /// that was rung for is not here.
    waiters: Mutex<BTreeMap<(Pair, u64), (u64, Bell)>>,
}

/// Where requests wait. Cheap to clone: all clones are one list.
#[derive(Clone, Default)]
pub struct WaitingList(Arc<SharedList>);

/// A slot in the list, until it is dropped.
pub struct WaitingSlot {
    list: WaitingList,
    number: u64,
    /// The pair that the slot is registered for.
    pair: Option<Pair>,
    outcome: WaitOutcome,
}

impl WaitingList {
    /// Sets how many requests may wait from now on; none may before this is called.
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
        let slots = self.slots();
        let take = |waiting| (waiting < slots).then_some(waiting + 1);
        self.0.waiting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        let number = self.0.taken.fetch_add(1, Ordering::Relaxed);
        Some(WaitingSlot { list: self.clone(), number, pair: None, outcome: WaitOutcome::Ended })
    }

    /// Counts a request that asked to wait; a request with a slot is counted as it leaves.
    pub fn count(&self, outcome: WaitOutcome) {
        self.0.outcomes[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// The number of requests that asked to wait and had that outcome.
    #[must_use]
    pub fn counted(&self, outcome: WaitOutcome) -> u64 {
        self.0.outcomes[outcome as usize].load(Ordering::Relaxed)
    }

    /// Rings for the requests that wait for `pair`. To be called once the vote is in the table, with each of its
    /// addresses.
    #[inline]
    pub fn tell(&self, pair: Pair) {
        self.ring((pair, 0)..=(pair, u64::MAX), |_| true);
    }

    /// Rings for the requests that wait for a pair with `is_meant`. For changes beyond a vote: the answers to all these
    /// requests may differ.
    pub fn tell_where(&self, is_meant: impl Fn(Pair) -> bool) {
        self.ring(.., is_meant);
    }

    /// Collects the tickets under the lock, and rings outside of it. To be called after the change that it tells of.
    #[inline]
    fn ring(&self, among: impl RangeBounds<(Pair, u64)>, is_meant: impl Fn(Pair) -> bool) {
        // Pairs with the fence in `register`: either the look that follows there sees the change, or the load here sees
        // that a request waits.
        fence(Ordering::SeqCst);
        if self.waiting() == 0 {
            return;
        }
        let mut rounds: Vec<(Bell, Vec<u64>)> = Vec::new();
        let mut waiters = self.0.waiters.lock();
        for (_, (ticket, bell)) in waiters.extract_if(among, |(pair, _), _| is_meant(*pair)) {
            match rounds.iter_mut().find(|(other, _)| Arc::ptr_eq(other, &bell)) {
                Some((_, tickets)) => tickets.push(ticket),
                None => rounds.push((bell, vec![ticket])),
            }
        }
        drop(waiters);
        for (bell, tickets) in rounds {
            bell(tickets);
        }
    }
}

impl WaitingSlot {
    /// Makes the next vote for `pair` ring the bell once, with `ticket`. The caller must look at the table after this:
    /// a vote that is shown from now on rings.
    pub fn register(&mut self, pair: Pair, bell: &Bell, ticket: u64) {
        self.unregister();
        self.pair = Some(pair);
        let waiter = (ticket, Arc::clone(bell));
        self.list.0.waiters.lock().insert((pair, self.number), waiter);
        fence(Ordering::SeqCst);
    }

    fn unregister(&mut self) {
        if let Some(pair) = self.pair.take() {
            self.list.0.waiters.lock().remove(&(pair, self.number));
        }
    }

    /// Gives the slot up. A slot that is dropped without this has [`WaitOutcome::Ended`].
    pub fn leave(mut self, outcome: WaitOutcome) {
        self.outcome = outcome;
    }
}

impl Drop for WaitingSlot {
    // Few requests wait: for the others, this costs no more than a comparison.
    #[cold]
    fn drop(&mut self) {
        self.unregister();
        self.list.count(self.outcome);
        self.list.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
