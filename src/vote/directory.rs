//! The directory of listed servers: id to token and back.
//!
//! A [`Snapshot`] never changes once published. [`Directory`] owns the newest one and publishes
//! the next; a [`DirectoryView`] keeps its own copy of the pointer and looks, with one atomic
//! load, whether there is a newer one. Readers on different threads write nothing in common.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashTable;
use parking_lot::RwLock;

use super::hasher::TableHasher;
use super::id::{ServerId, Token, is_same_secret};

/// One state of the directory.
#[derive(Clone, Default)]
pub struct Snapshot {
    /// In order of id, for listings in pages.
    by_id: BTreeMap<ServerId, Token>,
    /// The same ids, for the look-up that every request makes.
    known: HashTable<ServerId>,
    hasher: TableHasher,
    by_token: TokenIndex,
}

impl Snapshot {
    /// Whether the server is listed.
    #[must_use]
    #[inline]
    pub fn contains(&self, server: ServerId) -> bool {
        self.known.find(self.hash(server), |known| *known == server).is_some()
    }

    #[inline]
    fn hash(&self, server: ServerId) -> u64 {
        self.hasher.hash(server.0 as u64, 0)
    }

    /// The server's token.
    #[must_use]
    pub fn token(&self, server: ServerId) -> Option<&Token> {
        self.by_id.get(&server)
    }

    /// The server that a token names. The running time does not reveal how much of a token was right: the look-up is by
    /// a keyed hash of the whole, then a comparison in constant time.
    #[must_use]
    pub fn find(&self, token: &[u8]) -> Option<ServerId> {
        self.by_token.find(token)
    }

    /// Lists a server, or gives a listed one another token. `false`, and no change, if the token belongs to another server.
    pub fn insert(&mut self, server: ServerId, token: Token) -> bool {
        match self.by_token.find(token.as_str().as_bytes()) {
            Some(holder) if holder != server => return false,
            Some(_same) => return true,
            None => {}
        }
        match self.by_id.insert(server, token.clone()) {
            Some(old) => self.by_token.remove(&old),
            None => {
                let Self { known, hasher, .. } = self;
                let hash = |server: &ServerId| hasher.hash(u64::from(server.0), 0);
                known.insert_unique(hash(&server), server, hash);
            }
        }
        self.by_token.insert(token, server);
        true
    }

    /// Removes a server; gives its token if it was listed.
    pub fn remove(&mut self, server: ServerId) -> Option<Token> {
        let token = self.by_id.remove(&server)?;
        if let Ok(known) = self.known.find_entry(self.hash(server), |known| *known == server) {
            known.remove();
        }
        self.by_token.remove(&token);
        Some(token)
    }

    /// Number of listed servers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether no server is listed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// Servers in order of id, from the first one past `after`.
    pub fn iter_after(&self, after: Option<ServerId>) -> impl Iterator<Item = (ServerId, &Token)> {
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.by_id.range((start, Bound::Unbounded)).map(|(server, token)| (*server, token))
    }
}

#[derive(Clone)]
struct TokenEntry {
    hash: u64,
    token: Token,
    server: ServerId,
}

#[derive(Clone, Default)]
struct TokenIndex {
    /// SipHash under a key of this process: no client can predict the hashes.
    keys: RandomState,
    entries: HashTable<TokenEntry>,
}

impl TokenIndex {
    fn find(&self, token: &[u8]) -> Option<ServerId> {
        let hash = self.keys.hash_one(token);
        self.entries
            .find(hash, |entry| entry.hash == hash && is_same_secret(entry.token.as_str().as_bytes(), token))
            .map(|entry| entry.server)
    }

    fn insert(&mut self, token: Token, server: ServerId) {
        let hash = self.keys.hash_one(token.as_str().as_bytes());
        self.entries.insert_unique(hash, TokenEntry { hash, token, server }, |entry| entry.hash);
    }

    fn remove(&mut self, token: &Token) {
        let hash = self.keys.hash_one(token.as_str().as_bytes());
        if let Ok(entry) = self.entries.find_entry(hash, |entry| entry.hash == hash && entry.token == *token) {
            entry.remove();
        }
    }
}

#[derive(Default)]
struct Published {
    /// Counts publications; written after `newest`, so a reader that sees a count finds its snapshot.
    version: AtomicU64,
    newest: RwLock<Arc<Snapshot>>,
}

/// The directory's owner: the only one that may publish. At first it lists nothing.
#[derive(Default)]
pub struct Directory {
    published: Arc<Published>,
}

impl Directory {
    /// A reader's view.
    #[must_use]
    pub fn view(&self) -> DirectoryView {
        let published = Arc::clone(&self.published);
        let version = published.version.load(Ordering::Acquire);
        let snapshot = Arc::clone(&published.newest.read());
        DirectoryView { published, version, snapshot }
    }

    /// The newest snapshot.
    #[must_use]
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.newest.read())
    }

    /// Makes `next` the snapshot that every later look-up sees.
    pub fn publish(&mut self, next: Snapshot) {
        *self.published.newest.write() = Arc::new(next);
        self.published.version.fetch_add(1, Ordering::Release);
    }
}

/// Read-only access, one for each thread that reads.
#[derive(Clone)]
pub struct DirectoryView {
    published: Arc<Published>,
    version: u64,
    snapshot: Arc<Snapshot>,
}

impl DirectoryView {
    /// The newest snapshot. One atomic load where nothing was published since the last call.
    #[inline]
    pub fn current(&mut self) -> &Snapshot {
        let version = self.published.version.load(Ordering::Acquire);
        if version != self.version {
            self.snapshot = Arc::clone(&self.published.newest.read());
            self.version = version;
        }
        &self.snapshot
    }

    /// The newest snapshot, to keep while others are published.
    #[must_use]
    pub fn shared(&mut self) -> Arc<Snapshot> {
        self.current();
        Arc::clone(&self.snapshot)
    }
}
