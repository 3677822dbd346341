//! The cooldown table: which (server, address) pairs are in cooldown, and until when.
//!
//! [`CooldownTable`] is the one owner that may write; [`CooldownView`] only reads. A key and its
//! expiry take 12 bytes for IPv4 and 16 for IPv6; each family has shards of its own.

use std::sync::Arc;

use hashbrown::DefaultHashBuilder;

use super::address::VoterAddress;
use super::id::ServerId;
use super::ipv4::Ipv4;
use super::ipv6::{Ipv6Network, Ipv6Prefix};
use super::shards::{ByShard, Ipv4Key, Ipv6Key, Shards};
pub use super::shards::{Cooling, Pair, SHARDS};
use super::time::{Cooldown, UnixSeconds};

struct TableFamilies {
    hasher: DefaultHashBuilder,
    prefix: Ipv6Prefix,
    v4: Shards<Ipv4Key>,
    v6: Shards<Ipv6Key>,
}

/// A pair's key, in the shards of its family.
enum FamilyKey {
    V4(Ipv4Key),
    V6(Ipv6Key),
}

impl Pair {
    #[inline(always)]
    const fn key(self) -> FamilyKey {
        match self.address {
            VoterAddress::V4(address) => FamilyKey::V4(Ipv4Key { server: self.server, address }),
            VoterAddress::V6(network) => FamilyKey::V6(Ipv6Key::new(self.server, network)),
        }
    }
}

impl TableFamilies {
    /// Only the path of IPv4 is inlined: with both families in it the compiler would inline neither.
    #[inline(always)]
    fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        match pair.key() {
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

    /// How many bits of an IPv6 address tell one voter from another.
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

    /// Copies what is live at `now` in shard `index` into `into`; `false` past the last shard.
    /// For listings: each call holds one shard's read lock, and only while it copies.
    pub fn copy_shard(&self, index: usize, now: UnixSeconds, into: &mut Vec<Cooling>) -> bool {
        if index >= SHARDS {
            return false;
        }
        self.0.v4.copy_live(index, now, into);
        self.0.v6.copy_live(index, now, into);
        true
    }

    /// An empty table with the same hasher and prefix, to be filled apart and then exchanged for the one that
    /// is viewed: see [`CooldownTable::exchange`].
    #[must_use]
    pub fn shadow(&self) -> CooldownTable {
        CooldownTable::build(self.0.hasher.clone(), self.0.prefix)
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
    /// An empty table that tells IPv6 voters apart by so many bits.
    #[must_use]
    pub fn with_prefix(prefix: Ipv6Prefix) -> Self {
        Self::build(DefaultHashBuilder::default(), prefix)
    }

    fn build(hasher: DefaultHashBuilder, prefix: Ipv6Prefix) -> Self {
        let v4 = Shards::new(hasher.clone(), prefix.mask());
        let v6 = Shards::new(hasher.clone(), prefix.mask());
        Self { families: Arc::new(TableFamilies { hasher, prefix, v4, v6 }), sweep_at: 0 }
    }

    /// A reader's view of this table.
    #[must_use]
    pub fn view(&self) -> CooldownView {
        CooldownView(Arc::clone(&self.families))
    }

    /// The pair under which the table looks up what is asked of `pair`: a network is cut to the prefix.
    /// A module that keeps pairs beside the table keeps them under this.
    #[must_use]
    pub fn looked_up(&self, pair: Pair) -> Pair {
        Pair { address: self.view().voter(pair.address), ..pair }
    }

    /// When the cooldown ends or ended that the table holds for a pair.
    #[must_use]
    pub fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        self.families.expires_at(pair)
    }

    /// The entry of a pair, expired or not: under the pair that it was put in with, which may be
    /// another network of the same prefix.
    #[must_use]
    pub fn held(&self, pair: Pair) -> Option<Cooling> {
        match pair.key() {
            FamilyKey::V4(key) => self.families.v4.held(key),
            FamilyKey::V6(key) => self.families.v6.held(key),
        }
    }

    /// Puts a pair into cooldown until `expires_at`, whatever the table held for it.
    pub fn insert(&mut self, pair: Pair, expires_at: UnixSeconds) {
        match pair.key() {
            FamilyKey::V4(key) => self.families.v4.insert(key, expires_at),
            FamilyKey::V6(key) => self.families.v6.insert(key, expires_at),
        }
    }

    /// Forgets a pair; whether the table held it.
    pub fn remove(&mut self, pair: Pair) -> bool {
        match pair.key() {
            FamilyKey::V4(key) => self.families.v4.remove(key),
            FamilyKey::V6(key) => self.families.v6.remove(key),
        }
    }

    /// Exchanges contents with `other`, a shadow of this table. Views stay where they are and pay
    /// nothing: each shard changes hands in one moment, and an answer comes from the one or the other.
    ///
    /// # Panics
    /// Where `other` is no shadow of this table: its entries would not be found.
    pub fn exchange(&mut self, other: &mut Self) {
        let (server, families, others) = (ServerId(1), &self.families, &other.families);
        assert_eq!(families.prefix, others.prefix, "the table is no shadow of this one");
        families.v4.exchange(&others.v4, Ipv4Key { server, address: Ipv4(1) });
        families.v6.exchange(&others.v6, Ipv6Key::new(server, Ipv6Network(u64::MAX)));
    }

    /// A way to put in very many entries.
    pub fn loader(&mut self) -> Loader<'_> {
        Loader { table: self, v4: ByShard::new(), v6: ByShard::new(), superseded: Vec::new() }
    }

    /// All entries of one server, expired or not. Walks the table under read locks.
    #[must_use]
    pub fn of_server(&self, server: ServerId) -> Vec<Cooling> {
        let mut found = Vec::new();
        self.families.v4.copy_server(server, &mut found);
        self.families.v6.copy_server(server, &mut found);
        found
    }

    /// Drops the expired entries of the next `shards` shards; how many were dropped.
    pub fn sweep(&mut self, now: UnixSeconds, shards: usize) -> usize {
        let is_over = |expires_at| expires_at <= now;
        let mut dropped = 0;
        for _ in 0..shards {
            let index = self.sweep_at;
            self.sweep_at = (index + 1) % SHARDS;
            dropped += self.families.v4.sweep(index, is_over) + self.families.v6.sweep(index, is_over);
        }
        dropped
    }

    /// Has every cooldown that would last longer than its length from `now` end at `ends_at`. Gives the entries that
    /// were cut so, as they were. See [`Cooldown::is_too_long`].
    pub fn cut(&mut self, now: UnixSeconds, cooldown: Cooldown, ends_at: UnixSeconds) -> Vec<Cooling> {
        let mut cut = Vec::new();
        let is_too_long = |expires_at| cooldown.is_too_long(expires_at, now);
        self.families.v4.cut(is_too_long, ends_at, &mut cut);
        self.families.v6.cut(is_too_long, ends_at, &mut cut);
        cut
    }
}

/// Puts in very many entries: they are sorted into shards first.
pub struct Loader<'t> {
    table: &'t mut CooldownTable,
    v4: ByShard<Ipv4Key>,
    v6: ByShard<Ipv6Key>,
    superseded: Vec<Cooling>,
}

impl Loader<'_> {
    /// Takes an entry; where the pair has one already, the later of the two stays.
    pub fn put(&mut self, Cooling { pair, expires_at }: Cooling) {
        let (families, superseded) = (&self.table.families, &mut self.superseded);
        match pair.key() {
            FamilyKey::V4(key) => self.v4.put(key, expires_at, &families.v4, superseded),
            FamilyKey::V6(key) => self.v6.put(key, expires_at, &families.v6, superseded),
        }
    }

    /// Puts in the last entries. Gives the entries that another one of the same pair has replaced.
    pub fn finish(self) -> Vec<Cooling> {
        let Self { table, v4, v6, mut superseded } = self;
        v4.finish(&table.families.v4, &mut superseded);
        v6.finish(&table.families.v6, &mut superseded);
        superseded
    }
}

#[cfg(test)]
impl CooldownTable {
    /// What the entries of each family are kept in.
    fn allocated_bytes(&self) -> [usize; 2] {
        [self.families.v4.allocated_bytes(), self.families.v6.allocated_bytes()]
    }
}

#[cfg(test)]
#[path = "table_tests.rs"]
mod tests;
