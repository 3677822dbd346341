//! What the connections of one worker hold, and which of them has to give something up: each that
//! holds anything stands in the queue of its size, whoever has stood still longest in front. A change
//! is a few writes, whatever their number. Who holds nothing never comes near it.

use std::sync::Arc;

use super::budget::{Board, Budget, Grant, Heaviest, Kind, SIZES, size_of};
use super::mailbox::Mailbox;

const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct AccountLink {
    /// 0 where it stands in no queue.
    bytes: u32,
    before: u32,
    behind: u32,
    since_ms: u64,
}

impl AccountLink {
    const FREE: Self = Self { bytes: 0, before: NONE, behind: NONE, since_ms: 0 };
}

#[derive(Clone, Copy, Debug)]
struct AccountQueue {
    front: u32,
    back: u32,
}

/// One worker's part of the [`Budget`].
pub struct Account {
    budget: Arc<Budget>,
    board: Arc<Board>,
    /// By slot; as many as the highest slot that ever held something.
    links: Vec<AccountLink>,
    queues: [AccountQueue; SIZES],
    held_bytes: u64,
    told_bytes: u64,
    grant: Grant,
    /// At the last look it was more than may be.
    is_over: bool,
}

impl Account {
    /// An account of a worker that is reached there.
    #[must_use]
    pub fn new(budget: Arc<Budget>, kind: Kind, mailbox: Mailbox) -> Self {
        let board = budget.join(kind, mailbox);
        let queues = [AccountQueue { front: NONE, back: NONE }; SIZES];
        Self {
            budget,
            board,
            links: Vec::new(),
            queues,
            held_bytes: 0,
            told_bytes: 0,
            grant: Grant::FULL,
            is_over: false,
        }
    }

    /// What one connection may take up in one turn now.
    #[must_use]
    pub const fn grant(&self) -> Grant {
        self.grant
    }

    /// Takes note of what a connection holds. `has_moved` where bytes went over its wire since the
    /// last time.
    pub fn note(&mut self, index: u32, bytes: usize, has_moved: bool, now_ms: u64) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        if index as usize >= self.links.len() {
            if bytes == 0 {
                return;
            }
            self.links.resize(index as usize + 1, AccountLink::FREE);
        }
        let before = self.links[index as usize].bytes;
        if bytes == before && !has_moved {
            return;
        }
        self.take_out(index);
        if bytes > 0 {
            self.put_in(index, bytes, now_ms);
        }
        self.held_bytes = self.held_bytes + u64::from(bytes) - u64::from(before);
        if self.held_bytes.abs_diff(self.told_bytes) >= self.budget.piece_bytes() {
            self.tell();
        }
    }

    /// The connection is gone, with all that it held.
    pub fn forget(&mut self, index: u32) {
        self.note(index, 0, true, 0);
    }

    /// What a connection holds, as it was noted.
    #[cfg(debug_assertions)]
    pub fn held_bytes(&self, index: u32) -> usize {
        self.links.get(index as usize).map_or(0, |link| link.bytes as usize)
    }

    /// Panics where the sum is not that of the parts. For builds that check.
    #[cfg(debug_assertions)]
    pub fn check_invariants(&self) {
        let sum: u64 = self.links.iter().map(|link| u64::from(link.bytes)).sum();
        assert_eq!(sum, self.held_bytes, "what all hold is what each holds");
    }

    /// Makes known what has changed, and learns what others hold. Once a turn.
    pub fn tell(&mut self) {
        if self.held_bytes != self.told_bytes {
            self.budget.tell(self.told_bytes, self.held_bytes);
            self.told_bytes = self.held_bytes;
            self.board.set_held(self.held_bytes);
        }
        self.grant = self.budget.grant();
        self.is_over = self.budget.held_bytes() > self.budget.bytes_max();
    }

    /// Whether it is more than may be: then somebody has to give something up within the turn.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether somebody, on whichever worker, has to give something up.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.budget.is_full()
    }

    /// Who of this worker's connections has to, if one does. Where it is another worker's, that one
    /// is told so.
    pub fn heaviest(&mut self, now_ms: u64) -> Option<u32> {
        self.tell();
        if self.budget.has_room() {
            return None;
        }
        match self.budget.heaviest(&self.board, now_ms) {
            Heaviest::Own(size) => Some(self.queues[size].front).filter(|front| *front != NONE),
            Heaviest::Elsewhere | Heaviest::Nobody => None,
        }
    }

    /// A letter that asked for it has been read.
    pub fn clear_told(&self) {
        self.board.clear_told();
    }

    fn take_out(&mut self, index: u32) {
        let link = std::mem::replace(&mut self.links[index as usize], AccountLink::FREE);
        if link.bytes == 0 {
            return;
        }
        let size = size_of(link.bytes);
        match link.before {
            NONE => self.queues[size].front = link.behind,
            before => self.links[before as usize].behind = link.behind,
        }
        match link.behind {
            NONE => self.queues[size].back = link.before,
            behind => self.links[behind as usize].before = link.before,
        }
        self.show_front(size);
    }

    fn put_in(&mut self, index: u32, bytes: u32, now_ms: u64) {
        let size = size_of(bytes);
        let last = std::mem::replace(&mut self.queues[size].back, index);
        match last {
            NONE => self.queues[size].front = index,
            last => self.links[last as usize].behind = index,
        }
        self.links[index as usize] = AccountLink { bytes, before: last, behind: NONE, since_ms: now_ms };
        self.show_front(size);
    }

    fn show_front(&self, size: usize) {
        let front = self.queues[size].front;
        self.board.set_front(size, (front != NONE).then(|| self.links[front as usize].since_ms));
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.budget.tell(self.told_bytes, 0);
        self.budget.leave(&self.board);
    }
}
