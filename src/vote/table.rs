//! The cooldown table: which (server, address) pairs are in cooldown, and until when.
//!
//! [`CooldownTable`] is the one owner that may write; [`CooldownView`] only reads. A key and its
//! expiry take 12 bytes. The map is split into shards with a lock each, so that a reader waits at
//! most for one shard's change, and a shard that grows moves only its own part.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::hash_table::Entry as Slot;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

use super::id::ServerId;
use super::ipv4::Ipv4;
use super::time::{Cooldown, UnixSeconds};

/// Number of shards. At 10 million entries a shard holds some 10,000: walking or growing one
/// holds its lock for well under a millisecond.
pub const SHARDS: usize = 1_024;
const _: () = assert!(SHARDS.is_power_of_two());

/// A (server, address) pair packed into 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pair {
    /// The listed server.
    pub server: ServerId,
    /// The client's address.
    pub address: Ipv4,
}

impl Pair {
    const fn packed(self) -> u64 {
        (self.server.0 as u64) << 32 | self.address.0 as u64
    }
}

/// A pair and the instant from which it may vote again. Three words, so that 12 bytes are all it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooling {
    /// Who is in cooldown where.
    pub pair: Pair,
    /// First instant at which the pair may vote.
    pub expires_at: UnixSeconds,
}
const _: () = assert!(size_of::<Cooling>() == 12 && align_of::<Cooling>() == 4);

/// Two cache lines of its own, as hardware fetches lines in pairs: shards never share one.
#[repr(align(128))]
#[derive(Default)]
struct Shard {
    entries: RwLock<HashTable<Cooling>>,
}

struct Shards {
    /// Seeded by process: nobody can choose addresses that meet in one bucket.
    hasher: DefaultHashBuilder,
    shards: Box<[Shard]>,
}

impl Shards {
    fn hash(&self, pair: Pair) -> u64 {
        self.hasher.hash_one(pair.packed())
    }

    /// The map inside takes its bucket from the low bits and its tag from the top seven, so the
    /// shard comes from the bits between.
    const fn shard_index(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    fn shard(&self, hash: u64) -> &Shard {
        &self.shards[Self::shard_index(hash)]
    }

    /// Takes `entries` of one shard in; where a pair has one already, the later of the two stays, and
    /// the other is told.
    fn raise(&self, index: usize, entries: &mut Vec<Cooling>, superseded: &mut Vec<Cooling>) {
        let mut held = self.shards[index].entries.write();
        for new in entries.drain(..) {
            let hash = self.hash(new.pair);
            match held.entry(hash, |entry| entry.pair == new.pair, |entry| self.hash(entry.pair)) {
                Slot::Occupied(mut old) => {
                    let old = old.get_mut();
                    if old.expires_at != new.expires_at {
                        superseded.push(if old.expires_at < new.expires_at { *old } else { new });
                    }
                    old.expires_at = old.expires_at.max(new.expires_at);
                }
                Slot::Vacant(free) => {
                    free.insert(new);
                }
            }
        }
    }

    fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        let hash = self.hash(pair);
        let entries = self.shard(hash).entries.read();
        entries.find(hash, |entry| entry.pair == pair).map(|entry| entry.expires_at)
    }
}

/// Read-only access to the table. Cheap to clone.
#[derive(Clone)]
pub struct CooldownView(Arc<Shards>);

impl CooldownView {
    /// When the pair's cooldown ends, if it is in one at `now`.
    #[must_use]
    #[inline]
    pub fn live(&self, pair: Pair, now: UnixSeconds) -> Option<UnixSeconds> {
        self.0.expires_at(pair).filter(|expires_at| now < *expires_at)
    }

    /// Entries held, the expired ones that no sweep has met yet included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.shards.iter().map(|shard| shard.entries.read().len()).sum()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies what is live at `now` in shard `index` into `into`; `false` past the last shard.
    /// For listings: each call holds one shard's read lock, and only while it copies.
    pub fn copy_shard(&self, index: usize, now: UnixSeconds, into: &mut Vec<Cooling>) -> bool {
        let Some(shard) = self.0.shards.get(index) else { return false };
        into.extend(shard.entries.read().iter().filter(|entry| now < entry.expires_at));
        true
    }

    /// An empty table of the same build, to be filled apart and then exchanged for the one that is
    /// viewed: see [`CooldownTable::exchange`].
    #[must_use]
    pub fn shadow(&self) -> CooldownTable {
        CooldownTable::with_hasher(self.0.hasher.clone())
    }
}

/// The table's owner: the only one that may write.
pub struct CooldownTable {
    shards: Arc<Shards>,
    /// The shard that the next step of the sweep looks at.
    sweep_at: usize,
}

impl Default for CooldownTable {
    fn default() -> Self {
        Self::new()
    }
}

impl CooldownTable {
    /// An empty table.
    #[must_use]
    pub fn new() -> Self {
        Self::with_hasher(DefaultHashBuilder::default())
    }

    fn with_hasher(hasher: DefaultHashBuilder) -> Self {
        let shards = Shards { hasher, shards: (0..SHARDS).map(|_| Shard::default()).collect() };
        Self { shards: Arc::new(shards), sweep_at: 0 }
    }

    /// A reader's view of this table.
    #[must_use]
    pub fn view(&self) -> CooldownView {
        CooldownView(Arc::clone(&self.shards))
    }

    /// What is held for a pair, expired or not.
    #[must_use]
    pub fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        self.shards.expires_at(pair)
    }

    /// Puts a pair into cooldown until `expires_at`, whatever was held for it.
    pub fn insert(&mut self, pair: Pair, expires_at: UnixSeconds) {
        let hash = self.shards.hash(pair);
        let mut entries = self.shards.shard(hash).entries.write();
        match entries.entry(hash, |entry| entry.pair == pair, |entry| self.shards.hash(entry.pair)) {
            Slot::Occupied(mut held) => held.get_mut().expires_at = expires_at,
            Slot::Vacant(free) => {
                free.insert(Cooling { pair, expires_at });
            }
        }
    }

    /// Forgets a pair; whether it was held.
    pub fn remove(&mut self, pair: Pair) -> bool {
        let hash = self.shards.hash(pair);
        let mut entries = self.shards.shard(hash).entries.write();
        match entries.find_entry(hash, |entry| entry.pair == pair) {
            Ok(held) => {
                held.remove();
                true
            }
            Err(_absent) => false,
        }
    }

    /// Forgets all that is held for one server; how much that was. A shard is first read, and
    /// locked for writing only where it holds some.
    pub fn remove_server(&mut self, server: ServerId) -> usize {
        let mut removed = 0;
        for shard in &self.shards.shards {
            if shard.entries.read().iter().all(|entry| entry.pair.server != server) {
                continue;
            }
            let mut entries = shard.entries.write();
            let before = entries.len();
            entries.retain(|entry| entry.pair.server != server);
            removed += before - entries.len();
        }
        removed
    }

    /// Exchanges contents with `other`, a shadow of this table. Views stay where they are and pay
    /// nothing: each shard changes hands in one moment, and an answer comes from the one or the other.
    ///
    /// # Panics
    /// Where `other` is no shadow of this table: its entries would not be found.
    pub fn exchange(&mut self, other: &mut Self) {
        let probe = Pair { server: ServerId(1), address: Ipv4(1) };
        assert_eq!(self.shards.hash(probe), other.shards.hash(probe), "the table is no shadow of this one");
        for (own, theirs) in self.shards.shards.iter().zip(&other.shards.shards) {
            std::mem::swap(&mut *own.entries.write(), &mut *theirs.entries.write());
        }
    }

    /// A way to put in very many entries.
    pub fn loader(&mut self) -> Loader<'_> {
        Loader { table: self, waiting: vec![Vec::new(); SHARDS], superseded: Vec::new() }
    }

    /// All that is held for one server, expired or not. Walks the table under read locks.
    #[must_use]
    pub fn of_server(&self, server: ServerId) -> Vec<Cooling> {
        let mut found = Vec::new();
        for shard in &self.shards.shards {
            found.extend(shard.entries.read().iter().filter(|entry| entry.pair.server == server));
        }
        found
    }

    /// Drops the expired entries of the next `shards` shards; how many were dropped.
    pub fn sweep(&mut self, now: UnixSeconds, shards: usize) -> usize {
        self.sweep_if(shards, |expires_at| expires_at <= now)
    }

    /// Drops the entries of the next `shards` shards that need to be held no longer, by their ends; how
    /// many were dropped. A shard is first read, and locked for writing only where it has such.
    pub fn sweep_if(&mut self, shards: usize, is_over: impl Fn(UnixSeconds) -> bool) -> usize {
        let mut dropped = 0;
        for _ in 0..shards {
            let shard = &self.shards.shards[self.sweep_at];
            self.sweep_at = (self.sweep_at + 1) % SHARDS;
            if !shard.entries.read().iter().any(|entry| is_over(entry.expires_at)) {
                continue;
            }
            let mut entries = shard.entries.write();
            let before = entries.len();
            entries.retain(|entry| !is_over(entry.expires_at));
            dropped += before - entries.len();
            // After a peak the room goes back; a quarter full leaves space to grow again.
            if entries.capacity() > 64 && entries.len() < entries.capacity() / 4 {
                let room = entries.len() * 2;
                entries.shrink_to(room, |entry| self.shards.hash(entry.pair));
            }
        }
        dropped
    }

    /// The wall clock went back from `before` to `now`: what had expired by `before` and would be live
    /// again is dropped, and no cooldown may last longer than a full length from `now`.
    /// Gives the entries that were cut to that, as they were before. See [`Cooldown::held_at`].
    pub fn step_back(&mut self, before: UnixSeconds, now: UnixSeconds, cooldown: Cooldown) -> Vec<Cooling> {
        let mut cut = Vec::new();
        for shard in &self.shards.shards {
            let mut entries = shard.entries.write();
            entries.retain(|entry| entry.expires_at <= now || before < entry.expires_at);
            for entry in entries.iter_mut() {
                let held = cooldown.held_at(entry.expires_at, now);
                if held != entry.expires_at {
                    cut.push(*entry);
                    entry.expires_at = held;
                }
            }
        }
        cut
    }
}

/// Puts in very many entries, one shard after the other: a shard's part stays in the processor's
/// cache, where single entries in no order would each wait for memory.
pub struct Loader<'t> {
    table: &'t mut CooldownTable,
    waiting: Vec<Vec<Cooling>>,
    superseded: Vec<Cooling>,
}

/// Entries that wait for one shard before they are put in together.
const WAITING_MAX: usize = 64;

impl Loader<'_> {
    /// Takes an entry; where the pair has one already, the later of the two stays.
    pub fn put(&mut self, entry: Cooling) {
        let shards = &self.table.shards;
        let index = Shards::shard_index(shards.hash(entry.pair));
        let waiting = &mut self.waiting[index];
        waiting.push(entry);
        if waiting.len() == WAITING_MAX {
            shards.raise(index, waiting, &mut self.superseded);
        }
    }

    /// Puts in what still waits. Gives what another entry of its pair has taken the place of.
    pub fn finish(mut self) -> Vec<Cooling> {
        for (index, waiting) in self.waiting.iter_mut().enumerate() {
            self.table.shards.raise(index, waiting, &mut self.superseded);
        }
        self.superseded
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
