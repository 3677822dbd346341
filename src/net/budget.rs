//! One bound on the memory of all connections of the process, over all workers. It counts their input, their unsent
//! output and the requests between the two.
//!
//! ```text
//! a worker's account ── what changed, by the piece ──→ the budget ──→ how much a turn may take up
//!       └── its published usage: how long each size has stood still ──→ which worker has to give something up
//! ```
//!
//! The fuller the budget is, the less a turn takes up for one connection. If that is not enough, the connection that
//! uses most gives its memory up, on whichever worker it is. Clients that use little notice last.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::listen::Role;
use super::mailbox::{Letter, Mailbox};
use crate::limits::{BUFFER_PIECE_BYTES, STALLED_MS, TURN_BYTES_MAX, TURN_BYTES_MIN};

/// Sizes, each up to twice the one before it: the first up to 2 KiB, the last without an end.
pub const SIZES: usize = 16;

/// In the published usage: no connection has this size.
pub(super) const NOBODY: u64 = u64::MAX;

/// A connection that has stood still for [`STALLED_MS`] weighs like one that is this many sizes larger. Each size is
/// twice the one before it.
const STALLED_WEIGHT: u32 = 2;

/// The one bound. Its numbers are estimates of a moment; nothing depends on exact ones.
#[derive(Debug)]
pub struct Budget {
    bytes_max: u64,
    used_bytes: AtomicU64,
    /// Locked when the budget is nearly full, and when a worker joins or leaves.
    members: Mutex<Vec<Arc<PublishedUsage>>>,
}

/// The part of a worker's account that others see. One writer, cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct PublishedUsage {
    role: Role,
    mailbox: Mailbox,
    pub(super) used_bytes: AtomicU64,
    /// For each size: when the connection that has stood still longest last moved, or [`NOBODY`].
    pub(super) since_ms: [AtomicU64; SIZES],
    /// The worker was told to give memory up, and has not looked yet.
    pub(super) is_told: AtomicBool,
}

impl Budget {
    /// A budget of `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: u64) -> Arc<Self> {
        Arc::new(Self { bytes_max: bytes_max.max(1), used_bytes: AtomicU64::new(0), members: Mutex::default() })
    }

    /// The bound, in bytes.
    #[must_use]
    pub const fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The memory used, except for the latest changes of each worker: less than a piece.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.used_bytes.load(Ordering::Relaxed)
    }

    /// The least change that a worker tells at once. It tells smaller changes at the end of its turn: a write to shared
    /// memory for each would cost too much.
    pub(super) fn piece_bytes(&self) -> u64 {
        BUFFER_PIECE_BYTES.min(self.bytes_max / 64)
    }

    /// Notes the memory that a worker uses now.
    pub(super) fn tell(&self, published: &PublishedUsage, now: u64) {
        let before = published.used_bytes.swap(now, Ordering::Relaxed);
        // Wraps when the usage falls.
        self.used_bytes.fetch_add(now.wrapping_sub(before), Ordering::Relaxed);
    }

    /// The bytes that a turn takes up for one connection. The number is highest while over half of the budget is free.
    /// It halves there, and again with each further eighth that is used.
    pub(super) fn grant_bytes(&self) -> usize {
        let eighths = self.used_bytes().saturating_mul(8) / self.bytes_max;
        let halvings = eighths.saturating_sub(3).min(8) as u32;
        (TURN_BYTES_MAX >> halvings).max(TURN_BYTES_MIN)
    }

    /// Whether a connection has to give memory up.
    pub(super) fn is_full(&self) -> bool {
        self.used_bytes() > self.bytes_max / 16 * 15
    }

    /// Whether connections may stop giving memory up. The mark is lower than that of [`Budget::is_full`]: at one mark,
    /// each newcomer would cost another connection.
    pub(super) fn has_room(&self) -> bool {
        self.used_bytes() <= self.bytes_max / 8 * 7
    }

    /// Adds a worker whose connections use nothing yet.
    pub(super) fn join(&self, role: Role, mailbox: Mailbox) -> Arc<PublishedUsage> {
        let published = Arc::new(PublishedUsage::new(role, mailbox));
        self.members.lock().push(Arc::clone(&published));
        published
    }

    /// Removes a worker that has ended.
    pub(super) fn leave(&self, published: &Arc<PublishedUsage>) {
        self.tell(published, 0);
        self.members.lock().retain(|member| !Arc::ptr_eq(member, published));
    }

    /// The size of the heaviest connection of all workers, if the asking worker has it. If another worker has it, that
    /// worker is told. A connection that stands still weighs more.
    pub(super) fn heaviest(&self, asking: &Arc<PublishedUsage>, now_ms: u64) -> Option<usize> {
        let members = self.members.lock();
        // Up to a quarter of the budget, control clients give nothing up for others.
        let owing = members.iter().filter(|member| member.role == Role::Public || self.is_past_quarter(member));
        let weighed = owing.filter_map(|member| Some((member.heaviest(now_ms)?, member)));
        // Of two equal ones, the asking worker's: no other worker has to be woken.
        let is_own = |member: &Arc<PublishedUsage>| Arc::ptr_eq(member, asking);
        let ((_, size), member) = weighed.max_by_key(|((weight, _), member)| (*weight, is_own(member)))?;
        if is_own(member) {
            return Some(size);
        }
        if !member.is_told.swap(true, Ordering::Relaxed) {
            member.mailbox.send(Letter::Relieve);
        }
        None
    }

    fn is_past_quarter(&self, published: &PublishedUsage) -> bool {
        published.used_bytes.load(Ordering::Relaxed) > self.bytes_max / 4
    }
}

impl PublishedUsage {
    fn new(role: Role, mailbox: Mailbox) -> Self {
        let since_ms = std::array::from_fn(|_| AtomicU64::new(NOBODY));
        Self { role, mailbox, used_bytes: AtomicU64::new(0), since_ms, is_told: AtomicBool::new(false) }
    }

    /// Weight and size of the heaviest connection.
    fn heaviest(&self, now_ms: u64) -> Option<(u32, usize)> {
        let weigh = |(since_ms, size): (&AtomicU64, u32)| {
            let since_ms = since_ms.load(Ordering::Relaxed);
            let is_stalled = now_ms.saturating_sub(since_ms) >= STALLED_MS;
            (since_ms != NOBODY).then_some((size + if is_stalled { STALLED_WEIGHT } else { 0 }, size as usize))
        };
        self.since_ms.iter().zip(0..).filter_map(weigh).max()
    }
}

/// The index of the size for `bytes`.
pub(super) const fn size_of(bytes: u32) -> usize {
    let size = (u32::BITS - (bytes.saturating_sub(1) >> 11).leading_zeros()) as usize;
    if size < SIZES { size } else { SIZES - 1 }
}
