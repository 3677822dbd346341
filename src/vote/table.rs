//! The cooldown table: which (server, address) pairs are in cooldown, and until when.
//!
//! [`CooldownTable`] is the one owner that may write; [`CooldownView`] only reads. A key and its
//! expiry take 12 bytes for IPv4 and 16 for IPv6; each family has shards of its own.

use std::sync::Arc;

use super::address::{Voter, VoterAddress};
use super::hasher::TableHasher;
use super::id::ServerId;
use super::ipv4::Ipv4;
use super::ipv6::{Ipv6Network, Ipv6Prefix};
use super::shards::{ByShard, Ipv4Key, Ipv6Key, Shards};
pub use super::shards::{Cooling, Pair, SHARDS};
use super::time::UnixSeconds;

struct TableFamilies {
    hasher: TableHasher,
    prefix: Ipv6Prefix,
    v4: Shards<Ipv4Key>,
    v6: Shards<Ipv6Key>,
}

/// A pair's key, in the shards of its family.
enum FamilyKey {
    V4(Ipv4Key),
    V6(Ipv6Key),
}

impl TableFamilies {
    /// Cuts an IPv6 network to the prefix, so that no key has more of it.
    #[inline(always)]
    const fn key(&self, pair: Pair) -> FamilyKey {
        match pair.address {
            VoterAddress::V4(address) => FamilyKey::V4(Ipv4Key { server: pair.server, address }),
            VoterAddress::V6(network) => {
                FamilyKey::V6(Ipv6Key::new(pair.server, Ipv6Network(network.0 & self.prefix.mask())))
            }
        }
    }

    /// Inlines only the path of IPv4: with both families in it the compiler would inline neither.
    #[inline(always)]
    fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        match self.key(pair) {
            FamilyKey::V4(key) => self.v4.expires_at(key),
            FamilyKey::V6(key) => self.expires_at_v6(key),
        }
    }

    #[inline(never)]
    fn expires_at_v6(&self, key: Ipv6Key) -> Option<UnixSeconds> {
        self.v6.expires_at(key)
    }
}

/// Read-only access to the table. Cheap to clone.
#[derive(Clone)]
pub struct CooldownView(Arc<TableFamilies>);

impl CooldownView {
    /// When the pair's cooldown ends, if it is in one at `now`.
    #[must_use]
    #[inline]
    pub fn live(&self, pair: Pair, now: UnixSeconds) -> Option<UnixSeconds> {
        self.0.expires_at(pair).filter(|expires_at| now < *expires_at)
    }

    /// The voter that an address stands for: a network is cut to the prefix.
    #[must_use]
    pub fn voter(&self, address: VoterAddress) -> VoterAddress {
        match address {
            VoterAddress::V4(_) => address,
            VoterAddress::V6(network) => VoterAddress::V6(Ipv6Network(network.0 & self.0.prefix.mask())),
        }
    }

    /// The voters that the addresses of a vote stand for, in their order. Addresses of one network are one voter.
    #[must_use]
    pub fn voters(&self, voter: &Voter) -> Vec<VoterAddress> {
        let mut voters = Vec::with_capacity(voter.addresses_len());
        for address in voter.addresses().map(|address| self.voter(address)) {
            if !voters.contains(&address) {
                voters.push(address);
            }
        }
        voters
    }

    /// The number of bits of an IPv6 address that tell one voter from another.
    #[must_use]
    pub fn prefix(&self) -> Ipv6Prefix {
        self.0.prefix
    }

    /// Entries of IPv4 and of IPv6, the expired ones that no sweep has met yet included.
    #[must_use]
    pub fn counts(&self) -> [usize; 2] {
        [self.0.v4.len(), self.0.v6.len()]
    }

    /// Entries of both families.
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts().iter().sum()
    }

    /// Whether the table holds nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the entries of shard `index` that are live at `now` into `into`; `false` past the last shard. For
    /// listings: each call holds one shard's read lock, and only while it copies.
    pub fn copy_shard(&self, index: usize, now: UnixSeconds, into: &mut Vec<Cooling>) -> bool {
        if index >= self.0.v4.count() {
            return false;
        }
        self.0.v4.copy_live(index, now, into);
        self.0.v6.copy_live(index, now, into);
        true
    }

    /// The entries that `is_wanted`, expired or not. Walks the table under read locks.
    #[must_use]
    pub fn find(&self, is_wanted: impl Fn(Pair) -> bool) -> Vec<Cooling> {
        let mut found = Vec::new();
        self.0.v4.copy_where(&is_wanted, &mut found);
        self.0.v6.copy_where(&is_wanted, &mut found);
        found
    }

    /// How many cooldowns of the servers that `is_wanted` are live at `now`. Walks the table under read locks.
    #[must_use]
    pub fn count(&self, is_wanted: impl Fn(ServerId) -> bool, now: UnixSeconds) -> usize {
        let is_wanted = |pair: Pair| is_wanted(pair.server);
        self.0.v4.count_live(is_wanted, now) + self.0.v6.count_live(is_wanted, now)
    }

    /// An empty table with the same hasher and prefix, to be filled apart and then exchanged for the one that
    /// is viewed: see [`CooldownTable::exchange`].
    #[must_use]
    pub fn shadow(&self) -> CooldownTable {
        CooldownTable::build(self.0.hasher.clone(), self.0.v4.count(), self.0.prefix)
    }
}

/// The table's owner: the only one that may write.
pub struct CooldownTable {
    families: Arc<TableFamilies>,
    /// The shard that the next step of the sweep looks at.
    sweep_at: usize,
}

impl Default for CooldownTable {
    /// An empty table with the usual prefix.
    fn default() -> Self {
        Self::with_prefix(Ipv6Prefix::USUAL)
    }
}

impl CooldownTable {
    /// An empty table that tells IPv6 voters apart by this prefix.
    #[must_use]
    pub fn with_prefix(prefix: Ipv6Prefix) -> Self {
        Self::build(TableHasher::random(), SHARDS, prefix)
    }

    /// An empty table with this hasher and prefix, and this number of shards for each family.
    ///
    /// # Panics
    /// Where `shards` is no power of two up to [`SHARDS`].
    #[must_use]
    pub fn build(hasher: TableHasher, shards: usize, prefix: Ipv6Prefix) -> Self {
        let (v4, v6) = (Shards::new(hasher.clone(), shards), Shards::new(hasher.clone(), shards));
        Self { families: Arc::new(TableFamilies { hasher, prefix, v4, v6 }), sweep_at: 0 }
    }

    /// A reader's view of this table.
    #[must_use]
    pub fn view(&self) -> CooldownView {
        CooldownView(Arc::clone(&self.families))
    }

    /// When the cooldown that the table holds for a pair ends or ended.
    #[must_use]
    pub fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        self.families.expires_at(pair)
    }

    /// Puts a pair into cooldown until `expires_at`, whatever the table held for it.
    pub fn insert(&mut self, pair: Pair, expires_at: UnixSeconds) {
        match self.families.key(pair) {
            FamilyKey::V4(key) => self.families.v4.insert(key, expires_at),
            FamilyKey::V6(key) => self.families.v6.insert(key, expires_at),
        }
    }

    /// Forgets a pair; gives whether the table held it.
    pub fn remove(&mut self, pair: Pair) -> bool {
        match self.families.key(pair) {
            FamilyKey::V4(key) => self.families.v4.remove(key),
            FamilyKey::V6(key) => self.families.v6.remove(key),
        }
    }

    /// Exchanges contents with `other`, a shadow of this table. Views stay valid and pay nothing: each shard changes
    /// hands atomically, and an answer comes from the one or the other.
    ///
    /// # Panics
    /// Where `other` is no shadow of this table: its entries would not be found.
    pub fn exchange(&mut self, other: &mut Self) {
        let (server, families, others) = (ServerId(1), &self.families, &other.families);
        assert_eq!(families.prefix, others.prefix, "the table is no shadow of this one");
        families.v4.exchange(&others.v4, Ipv4Key { server, address: Ipv4(1) });
        families.v6.exchange(&others.v6, Ipv6Key::new(server, Ipv6Network(u64::MAX)));
    }

    /// A loader for very many entries.
    pub fn loader(&mut self) -> Loader<'_> {
        let (v4, v6) = (ByShard::new(&self.families.v4), ByShard::new(&self.families.v6));
        Loader { table: self, v4, v6 }
    }

    /// See [`CooldownView::find`].
    #[must_use]
    pub fn find(&self, is_wanted: impl Fn(Pair) -> bool) -> Vec<Cooling> {
        self.view().find(is_wanted)
    }

    /// How many shards each family has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.families.v4.count()
    }

    /// Drops the expired entries of the next `shards` shards; gives their number.
    pub fn sweep(&mut self, now: UnixSeconds, shards: usize) -> usize {
        let is_over = |expires_at| expires_at <= now;
        let mut dropped = 0;
        for _ in 0..shards {
            let index = self.sweep_at;
            self.sweep_at = (index + 1) % self.shards();
            dropped += self.families.v4.sweep(index, is_over) + self.families.v6.sweep(index, is_over);
        }
        dropped
    }

    /// Makes the cooldowns that end after `beyond` end at `ends_at`, as the time goes back.
    pub fn bring_back(&mut self, beyond: UnixSeconds, ends_at: UnixSeconds) {
        self.families.v4.bring_back(beyond, ends_at);
        self.families.v6.bring_back(beyond, ends_at);
    }
}

/// Puts in very many entries: they are sorted into shards first.
pub struct Loader<'t> {
    table: &'t mut CooldownTable,
    v4: ByShard<Ipv4Key>,
    v6: ByShard<Ipv6Key>,
}

impl Loader<'_> {
    /// Takes an entry; where the pair has one already, the later of the two stays.
    pub fn put(&mut self, Cooling { pair, expires_at }: Cooling) {
        let families = &self.table.families;
        match families.key(pair) {
            FamilyKey::V4(key) => self.v4.put(key, expires_at, &families.v4),
            FamilyKey::V6(key) => self.v6.put(key, expires_at, &families.v6),
        }
    }

    /// Puts in the last entries.
    pub fn finish(self) {
        let Self { table, v4, v6 } = self;
        v4.finish(&table.families.v4);
        v6.finish(&table.families.v6);
    }
}

#[cfg(test)]
impl CooldownTable {
    /// The bytes allocated for the entries of each family.
    fn allocated_bytes(&self) -> [usize; 2] {
        [self.families.v4.allocated_bytes(), self.families.v6.allocated_bytes()]
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
