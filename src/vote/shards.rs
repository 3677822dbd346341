//! The cooldowns of one address family, split into shards with a lock each. A reader waits at most for one shard's change, and
//! a shard that grows moves only its own part. Each family packs its keys in its own way; all other code is shared.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry as Slot;
use parking_lot::RwLock;

use super::address::VoterAddress;
use super::hasher::TableHasher;
use super::id::ServerId;
use super::ipv4::Ipv4;
use super::ipv6::Ipv6Network;
use super::time::UnixSeconds;

/// Shards of each family, unless fewer are asked for. At 10 million entries a shard holds some 10,000: walking or growing
/// one holds its lock for well under a millisecond.
pub const SHARDS: usize = 1_024;

/// A voter at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pair {
    /// The listed server.
    pub server: ServerId,
    /// The voter's address.
    pub address: VoterAddress,
}

/// A pair and the instant from which it may vote again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cooling {
    /// The pair in cooldown.
    pub pair: Pair,
    /// First instant at which the pair may vote.
    pub expires_at: UnixSeconds,
}

/// A (server, address) pair in as few bytes as its family takes.
pub(super) trait PairKey: Copy + PartialEq {
    fn hash(self, hasher: &TableHasher) -> u64;
    /// The pair that the key stands for.
    fn pair(self) -> Pair;
}

/// An IPv4 pair: 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv4Key {
    pub(super) server: ServerId,
    pub(super) address: Ipv4,
}

impl PairKey for Ipv4Key {
    #[inline]
    fn hash(self, hasher: &TableHasher) -> u64 {
        hasher.hash(u64::from(self.server.0) << 32 | u64::from(self.address.0), 0)
    }

    fn pair(self) -> Pair {
        Pair { server: self.server, address: VoterAddress::V4(self.address) }
    }
}

/// An IPv6 pair: 12 bytes, where a `u64` would be aligned to 16.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ipv6Key {
    server: ServerId,
    network_high: u32,
    network_low: u32,
}

impl Ipv6Key {
    pub(super) const fn new(server: ServerId, network: Ipv6Network) -> Self {
        Self { server, network_high: (network.0 >> 32) as u32, network_low: network.0 as u32 }
    }

    const fn network(self) -> u64 {
        (self.network_high as u64) << 32 | self.network_low as u64
    }
}

impl PairKey for Ipv6Key {
    #[inline]
    fn hash(self, hasher: &TableHasher) -> u64 {
        hasher.hash(self.network(), u64::from(self.server.0))
    }

    fn pair(self) -> Pair {
        Pair { server: self.server, address: VoterAddress::V6(Ipv6Network(self.network())) }
    }
}

/// A key and the instant from which its pair may vote again.
#[derive(Clone, Copy)]
pub(super) struct Packed<K> {
    key: K,
    expires_at: UnixSeconds,
}
const _: () = assert!(size_of::<Packed<Ipv4Key>>() == 12 && align_of::<Packed<Ipv4Key>>() == 4);
const _: () = assert!(size_of::<Packed<Ipv6Key>>() == 16 && align_of::<Packed<Ipv6Key>>() == 4);

impl<K: PairKey> Packed<K> {
    fn cooling(self) -> Cooling {
        Cooling { pair: self.key.pair(), expires_at: self.expires_at }
    }
}

/// Two cache lines of its own, as hardware fetches lines in pairs: shards never share one.
#[repr(align(128))]
struct Shard<K> {
    entries: RwLock<HashTable<Packed<K>>>,
}

/// The cooldowns of one family.
pub(super) struct Shards<K> {
    hasher: TableHasher,
    /// All [`SHARDS`] shards, so that an index needs no check. Those behind the mask are never used.
    shards: Box<[Shard<K>; SHARDS]>,
    mask: usize,
}

impl<K: PairKey> Shards<K> {
    /// # Panics
    /// Where `count` is no power of two up to [`SHARDS`].
    pub(super) fn new(hasher: TableHasher, count: usize) -> Self {
        assert!(count.is_power_of_two() && count <= SHARDS, "{count} shards");
        let shard = |_| Shard { entries: RwLock::new(HashTable::new()) };
        let shards: Box<[Shard<K>]> = (0..SHARDS).map(shard).collect();
        Self {
            hasher,
            shards: shards.try_into().unwrap_or_else(|_| unreachable!("so many were made")),
            mask: count - 1,
        }
    }

    pub(super) const fn count(&self) -> usize {
        self.mask + 1
    }

    fn used(&self) -> &[Shard<K>] {
        &self.shards[..self.count()]
    }

    #[inline]
    fn hash(&self, key: K) -> u64 {
        key.hash(&self.hasher)
    }

    /// The map inside takes its bucket from the low bits and its tag from the top seven, so the
    /// shard comes from the bits between.
    #[inline]
    pub(super) const fn shard_index(&self, hash: u64) -> usize {
        (hash >> 40) as usize & self.mask & (SHARDS - 1)
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K> {
        &self.shards[self.shard_index(hash)]
    }

    #[inline]
    fn find<T>(&self, key: K, read: impl Fn(&Packed<K>) -> T) -> Option<T> {
        let hash = self.hash(key);
        let entries = self.shard(hash).entries.read();
        entries.find(hash, |entry| entry.key == key).map(read)
    }

    #[inline]
    pub(super) fn expires_at(&self, key: K) -> Option<UnixSeconds> {
        self.find(key, |entry| entry.expires_at)
    }

    pub(super) fn len(&self) -> usize {
        self.used().iter().map(|shard| shard.entries.read().len()).sum()
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.used().iter().map(|shard| shard.entries.read().allocation_size()).sum()
    }

    pub(super) fn insert(&self, key: K, expires_at: UnixSeconds) {
        let (hash, new) = (self.hash(key), Packed { key, expires_at });
        let mut entries = self.shard(hash).entries.write();
        if let Some(entry) = entries.find_mut(hash, |entry| entry.key == key) {
            *entry = new;
            return;
        }
        self.make_room(&mut entries);
        entries.insert_unique(hash, new, |entry| self.hash(entry.key));
    }

    /// Makes room for one more entry.
    #[inline]
    fn make_room(&self, entries: &mut HashTable<Packed<K>>) {
        if entries.len() >= entries.capacity() {
            self.make_anew(entries);
        }
    }

    /// Builds a nearly full map anew, for an eighth more entries than there are. Removed entries use up its room, so
    /// votes that come and expire would otherwise make it twice as large.
    #[cold]
    #[inline(never)]
    fn make_anew(&self, entries: &mut HashTable<Packed<K>>) {
        let mut anew = HashTable::with_capacity(entries.len() + entries.len() / 8 + 1);
        for entry in entries.drain() {
            anew.insert_unique(self.hash(entry.key), entry, |entry| self.hash(entry.key));
        }
        *entries = anew;
    }

    pub(super) fn remove(&self, key: K) -> bool {
        let hash = self.hash(key);
        let mut entries = self.shard(hash).entries.write();
        match entries.find_entry(hash, |entry| entry.key == key) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_absent) => false,
        }
    }

    /// Puts the `waiting` entries of one shard in. If a pair has an entry already, the later of the two stays.
    fn raise(&self, index: usize, waiting: &mut Vec<Packed<K>>) {
        let mut entries = self.shards[index].entries.write();
        for new in waiting.drain(..) {
            self.make_room(&mut entries);
            match entries.entry(self.hash(new.key), |entry| entry.key == new.key, |entry| self.hash(entry.key)) {
                Slot::Occupied(mut old) => {
                    let old = old.get_mut();
                    old.expires_at = old.expires_at.max(new.expires_at);
                }
                Slot::Vacant(free) => {
                    free.insert(new);
                }
            }
        }
    }

    pub(super) fn copy_live(&self, index: usize, now: UnixSeconds, into: &mut Vec<Cooling>) {
        let entries = self.shards[index].entries.read();
        into.extend(entries.iter().filter(|entry| now < entry.expires_at).map(|entry| entry.cooling()));
    }

    /// Copies the entries that `is_wanted`, expired or not. Walks all shards under their read locks.
    pub(super) fn copy_where(&self, is_wanted: impl Fn(Pair) -> bool, into: &mut Vec<Cooling>) {
        for shard in self.used() {
            let entries = shard.entries.read();
            into.extend(entries.iter().filter(|entry| is_wanted(entry.key.pair())).map(|entry| entry.cooling()));
        }
    }

    /// How many live entries are of pairs that `is_wanted`. Walks all shards under their read locks.
    pub(super) fn count_live(&self, is_wanted: impl Fn(Pair) -> bool, now: UnixSeconds) -> usize {
        let live = |shard: &Shard<K>| {
            let entries = shard.entries.read();
            entries.iter().filter(|entry| now < entry.expires_at && is_wanted(entry.key.pair())).count()
        };
        self.used().iter().map(live).sum()
    }

    /// Drops the entries of one shard that are over; gives their number. Locks the shard for writing only if a read has
    /// found such entries.
    pub(super) fn sweep(&self, index: usize, is_over: impl Fn(UnixSeconds) -> bool) -> usize {
        let shard = &self.shards[index];
        if !shard.entries.read().iter().any(|entry| is_over(entry.expires_at)) {
            return 0;
        }
        let mut entries = shard.entries.write();
        let (before, capacity) = (entries.len(), entries.capacity());
        entries.retain(|entry| !is_over(entry.expires_at));
        // Gives memory back after a peak, unless a map half as large would have no room for an eighth more.
        if capacity > 64 {
            let capacity = entries.len() + entries.len() / 8;
            entries.shrink_to(capacity, |entry| self.hash(entry.key));
        }
        before - entries.len()
    }

    /// Makes the entries that end after `beyond` end at `ends_at`.
    pub(super) fn bring_back(&self, beyond: UnixSeconds, ends_at: UnixSeconds) {
        for shard in self.used() {
            for entry in shard.entries.write().iter_mut().filter(|entry| entry.expires_at > beyond) {
                entry.expires_at = ends_at;
            }
        }
    }

    /// Exchanges contents with `other`, each shard atomically.
    ///
    /// # Panics
    /// Where the two have different hashers: the entries of `other` would not be found.
    pub(super) fn exchange(&self, other: &Self, probe: K) {
        assert_eq!(self.hash(probe), other.hash(probe), "the table is no shadow of this one");
        for (own, theirs) in self.used().iter().zip(other.used()) {
            std::mem::swap(&mut *own.entries.write(), &mut *theirs.entries.write());
        }
    }
}

/// The most entries that wait for one shard before they are put in together.
const WAITING_MAX: usize = 64;

/// Entries of one family, sorted by shard and put in shard by shard. One shard's part stays in the processor's cache;
/// entries in no order would each wait for memory.
pub(super) struct ByShard<K>(Vec<Vec<Packed<K>>>);

impl<K: PairKey> ByShard<K> {
    pub(super) fn new(into: &Shards<K>) -> Self {
        Self(vec![Vec::new(); into.count()])
    }

    pub(super) fn put(&mut self, key: K, expires_at: UnixSeconds, into: &Shards<K>) {
        let index = into.shard_index(into.hash(key));
        let waiting = &mut self.0[index];
        waiting.push(Packed { key, expires_at });
        if waiting.len() == WAITING_MAX {
            into.raise(index, waiting);
        }
    }

    pub(super) fn finish(mut self, into: &Shards<K>) {
        for (index, waiting) in self.0.iter_mut().enumerate() {
            into.raise(index, waiting);
        }
    }
}
