//! The cooldowns of one address family, split into shards with a lock each: a reader waits at most for
//! one shard's change, and a shard that grows moves only its own part. How a key is packed is the
//! family's; everything else is written once.

use std::hash::BuildHasher;

use hashbrown::hash_table::Entry as Slot;
use hashbrown::{DefaultHashBuilder, HashTable};
use parking_lot::RwLock;

use super::address::VoterAddress;
use super::id::ServerId;
use super::ipv4::Ipv4;
use super::ipv6::Ipv6Network;
use super::time::UnixSeconds;

/// Number of shards of each family. At 10 million entries a shard holds some 10,000: walking or growing
/// one holds its lock for well under a millisecond.
pub const SHARDS: usize = 1_024;
const _: () = assert!(SHARDS.is_power_of_two());

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
pub(super) trait PairKey: Copy {
    /// Hashes what two keys of one voter have in common. `mask` has the bits of a network that count.
    fn hash(self, hasher: &DefaultHashBuilder, mask: u64) -> u64;
    /// Whether both are keys of one voter.
    fn is_same(self, other: Self, mask: u64) -> bool;
    /// The pair that the key stands for.
    fn pair(self) -> Pair;
}

/// An IPv4 pair: 8 bytes.
#[derive(Clone, Copy)]
pub(super) struct Ipv4Key {
    pub(super) server: ServerId,
    pub(super) address: Ipv4,
}

impl PairKey for Ipv4Key {
    #[inline]
    fn hash(self, hasher: &DefaultHashBuilder, _mask: u64) -> u64 {
        hasher.hash_one(u64::from(self.server.0) << 32 | u64::from(self.address.0))
    }

    #[inline]
    fn is_same(self, other: Self, _mask: u64) -> bool {
        self.server == other.server && self.address == other.address
    }

    fn pair(self) -> Pair {
        Pair { server: self.server, address: VoterAddress::V4(self.address) }
    }
}

/// An IPv6 pair: 12 bytes, where a `u64` would be aligned to 16. It keeps all of the network, so that its
/// row in the store is found again, and is looked up by the bits that count.
#[derive(Clone, Copy)]
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
    fn hash(self, hasher: &DefaultHashBuilder, mask: u64) -> u64 {
        hasher.hash_one((self.server.0, self.network() & mask))
    }

    #[inline]
    fn is_same(self, other: Self, mask: u64) -> bool {
        self.server == other.server && (self.network() ^ other.network()) & mask == 0
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
    /// Another seed in every process, so that nobody can choose addresses that meet in one bucket.
    hasher: DefaultHashBuilder,
    /// See [`PairKey::hash`].
    mask: u64,
    shards: Box<[Shard<K>]>,
}

impl<K: PairKey> Shards<K> {
    pub(super) fn new(hasher: DefaultHashBuilder, mask: u64) -> Self {
        let shard = |_| Shard { entries: RwLock::new(HashTable::new()) };
        Self { hasher, mask, shards: (0..SHARDS).map(shard).collect() }
    }

    #[inline]
    fn hash(&self, key: K) -> u64 {
        key.hash(&self.hasher, self.mask)
    }

    /// The map inside takes its bucket from the low bits and its tag from the top seven, so the
    /// shard comes from the bits between.
    #[inline]
    const fn shard_index(hash: u64) -> usize {
        (hash >> 40) as usize % SHARDS
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<K> {
        &self.shards[Self::shard_index(hash)]
    }

    #[inline]
    fn find<T>(&self, key: K, read: impl Fn(&Packed<K>) -> T) -> Option<T> {
        let hash = self.hash(key);
        let entries = self.shard(hash).entries.read();
        entries.find(hash, |entry| entry.key.is_same(key, self.mask)).map(read)
    }

    #[inline]
    pub(super) fn expires_at(&self, key: K) -> Option<UnixSeconds> {
        self.find(key, |entry| entry.expires_at)
    }

    /// The entry of the voter of a key, under the key that it was put in with.
    pub(super) fn held(&self, key: K) -> Option<Cooling> {
        self.find(key, |entry| entry.cooling())
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.read().len()).sum()
    }

    #[cfg(test)]
    pub(super) fn allocated_bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.entries.read().allocation_size()).sum()
    }

    pub(super) fn insert(&self, key: K, expires_at: UnixSeconds) {
        let (hash, new) = (self.hash(key), Packed { key, expires_at });
        let mut entries = self.shard(hash).entries.write();
        match entries.entry(hash, |entry| entry.key.is_same(key, self.mask), |entry| self.hash(entry.key)) {
            Slot::Occupied(mut entry) => *entry.get_mut() = new,
            Slot::Vacant(free) => {
                free.insert(new);
            }
        }
    }

    pub(super) fn remove(&self, key: K) -> bool {
        let hash = self.hash(key);
        let mut entries = self.shard(hash).entries.write();
        match entries.find_entry(hash, |entry| entry.key.is_same(key, self.mask)) {
            Ok(entry) => {
                entry.remove();
                true
            }
            Err(_absent) => false,
        }
    }

    /// Takes the `waiting` entries of one shard in; where a voter has one already, the later of the two stays, and
    /// the other is told.
    fn raise(&self, index: usize, waiting: &mut Vec<Packed<K>>, superseded: &mut Vec<Cooling>) {
        let mut entries = self.shards[index].entries.write();
        for new in waiting.drain(..) {
            let (hash, mask) = (self.hash(new.key), self.mask);
            match entries.entry(hash, |entry| entry.key.is_same(new.key, mask), |entry| self.hash(entry.key)) {
                Slot::Occupied(mut old) => {
                    let old = old.get_mut();
                    // Two of one instant are two rows where they are of two networks.
                    if old.expires_at != new.expires_at || !old.key.is_same(new.key, u64::MAX) {
                        let is_later = old.expires_at < new.expires_at;
                        superseded.push(if is_later { std::mem::replace(old, new) } else { new }.cooling());
                    }
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

    pub(super) fn copy_server(&self, server: ServerId, into: &mut Vec<Cooling>) {
        for shard in &self.shards {
            let entries = shard.entries.read();
            into.extend(entries.iter().filter(|entry| entry.key.pair().server == server).map(|entry| entry.cooling()));
        }
    }

    /// Drops the entries of one shard that are over; how many. The shard is locked for writing only if a read has found
    /// such entries.
    pub(super) fn sweep(&self, index: usize, is_over: impl Fn(UnixSeconds) -> bool) -> usize {
        let shard = &self.shards[index];
        if !shard.entries.read().iter().any(|entry| is_over(entry.expires_at)) {
            return 0;
        }
        let mut entries = shard.entries.write();
        let (before, capacity) = (entries.len(), entries.capacity());
        entries.retain(|entry| !is_over(entry.expires_at));
        // After a peak the memory is given back; a quarter full leaves some to grow again.
        if capacity > 64 && entries.len() < capacity / 4 {
            let capacity = entries.len() * 2;
            entries.shrink_to(capacity, |entry| self.hash(entry.key));
        }
        before - entries.len()
    }

    pub(super) fn cut(&self, is_too_long: impl Fn(UnixSeconds) -> bool, ends_at: UnixSeconds, cut: &mut Vec<Cooling>) {
        for shard in &self.shards {
            for entry in shard.entries.write().iter_mut().filter(|entry| is_too_long(entry.expires_at)) {
                cut.push(entry.cooling());
                entry.expires_at = ends_at;
            }
        }
    }

    /// Exchanges contents with `other`, each shard in one moment.
    ///
    /// # Panics
    /// Where the two find their entries by different hashes: those of `other` would be lost.
    pub(super) fn exchange(&self, other: &Self, probe: K) {
        assert_eq!(self.hash(probe), other.hash(probe), "the table is no shadow of this one");
        for (own, theirs) in self.shards.iter().zip(&other.shards) {
            std::mem::swap(&mut *own.entries.write(), &mut *theirs.entries.write());
        }
    }
}

/// Entries that wait for one shard before they are put in together.
const WAITING_MAX: usize = 64;

/// Entries of one family, sorted by shard and put in one shard after the other: a shard's part stays in the
/// processor's cache, where single entries in no order would each wait for memory.
pub(super) struct ByShard<K>(Vec<Vec<Packed<K>>>);

impl<K: PairKey> ByShard<K> {
    pub(super) fn new() -> Self {
        Self(vec![Vec::new(); SHARDS])
    }

    pub(super) fn put(&mut self, key: K, expires_at: UnixSeconds, into: &Shards<K>, superseded: &mut Vec<Cooling>) {
        let index = Shards::<K>::shard_index(into.hash(key));
        let waiting = &mut self.0[index];
        waiting.push(Packed { key, expires_at });
        if waiting.len() == WAITING_MAX {
            into.raise(index, waiting, superseded);
        }
    }

    pub(super) fn finish(mut self, into: &Shards<K>, superseded: &mut Vec<Cooling>) {
        for (index, waiting) in self.0.iter_mut().enumerate() {
            into.raise(index, waiting, superseded);
        }
    }
}
