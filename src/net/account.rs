//! The memory that the connections of one worker use, and which of them has to give some up. A connection that uses
//! memory stands in the queue of its size, behind those that have stood still longer. A change costs a few writes,
//! however many connections there are. A connection that uses none costs nothing here.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::budget::{Budget, NOBODY, PublishedUsage, SIZES, size_of};
use super::listen::Role;
use super::mailbox::Mailbox;
use crate::limits::TURN_BYTES_MAX;
use crate::lists::{Ends, Links};

/// The memory of one connection.
#[derive(Clone, Copy, Debug)]
struct Usage {
    bytes: NonZeroU32,
    since_ms: u64,
}

/// One worker's part of the [`Budget`].
pub struct Account {
    budget: Arc<Budget>,
    published: Arc<PublishedUsage>,
    /// By slot; as many as the highest slot that ever used something.
    links: Links<Usage>,
    queues: [Ends; SIZES],
    used_bytes: u64,
    grant_bytes: usize,
    /// At the last look, all connections together used more than the bound.
    is_over: bool,
}

impl Account {
    /// The account of the worker that `mailbox` reaches.
    #[must_use]
    pub fn new(budget: Arc<Budget>, role: Role, mailbox: Mailbox) -> Self {
        let published = budget.join(role, mailbox);
        Self {
            budget,
            published,
            links: Links::default(),
            queues: [Ends::EMPTY; SIZES],
            used_bytes: 0,
            grant_bytes: TURN_BYTES_MAX,
            is_over: false,
        }
    }

    /// The most bytes that one turn reads of one connection now, and the unsent output at which it stops answering.
    #[must_use]
    pub const fn grant_bytes(&self) -> usize {
        self.grant_bytes
    }

    /// Notes the memory that a connection uses. `has_moved`: bytes went over its wire since the last note.
    pub fn note(&mut self, index: u32, bytes: usize, has_moved: bool, now_ms: u64) {
        let bytes = NonZeroU32::new(u32::try_from(bytes).unwrap_or(u32::MAX));
        let before = self.links.get(index).map(|usage| usage.bytes);
        if bytes == before && !has_moved {
            return;
        }
        if let Some(bytes) = before {
            let size = size_of(bytes.get());
            self.links.remove(&mut self.queues[size], index);
            self.show_front(size);
        }
        if let Some(bytes) = bytes {
            let size = size_of(bytes.get());
            self.links.push(&mut self.queues[size], index, Usage { bytes, since_ms: now_ms });
            self.show_front(size);
        }
        let count = |bytes: Option<NonZeroU32>| bytes.map_or(0, |bytes| u64::from(bytes.get()));
        self.used_bytes = self.used_bytes + count(bytes) - count(before);
        if self.used_bytes.abs_diff(self.told_bytes()) >= self.budget.piece_bytes() {
            self.tell();
        }
    }

    /// The connection is gone, with all that it used.
    pub fn forget(&mut self, index: u32) {
        self.note(index, 0, true, 0);
    }

    /// The noted memory of a connection, in bytes.
    #[cfg(debug_assertions)]
    pub fn used_bytes(&self, index: u32) -> usize {
        self.links.get(index).map_or(0, |usage| usage.bytes.get() as usize)
    }

    /// Panics where the sum is not that of the parts. For builds that check.
    #[cfg(debug_assertions)]
    pub fn check_invariants(&self) {
        let sum: u64 = self.links.items().map(|usage| u64::from(usage.bytes.get())).sum();
        assert_eq!(sum, self.used_bytes, "what all use is what each uses");
    }

    /// Publishes this worker's usage, and reads the usage of all. Once a turn.
    pub fn tell(&mut self) {
        if self.used_bytes != self.told_bytes() {
            self.budget.tell(&self.published, self.used_bytes);
        }
        self.grant_bytes = self.budget.grant_bytes();
        self.is_over = self.budget.used_bytes() > self.budget.bytes_max();
    }

    /// Whether all connections together use more than the bound: then one has to give memory up within the turn.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether a connection, on whichever worker, has to give memory up.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.budget.is_full()
    }

    /// Which of this worker's connections has to give memory up, if one has to. If it is another worker's, that worker
    /// is told so.
    pub fn heaviest(&mut self, now_ms: u64) -> Option<u32> {
        self.tell();
        if self.budget.has_room() {
            return None;
        }
        self.queues[self.budget.heaviest(&self.published, now_ms)?].front()
    }

    /// The worker has read `Letter::Relieve`.
    pub fn clear_told(&self) {
        self.published.is_told.store(false, Ordering::Relaxed);
    }

    fn show_front(&self, size: usize) {
        let front = self.queues[size].front().and_then(|front| self.links.get(front));
        self.published.since_ms[size].store(front.map_or(NOBODY, |usage| usage.since_ms), Ordering::Relaxed);
    }

    fn told_bytes(&self) -> u64 {
        self.published.used_bytes.load(Ordering::Relaxed)
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.leave(&self.published);
    }
}
