//! The keys: the content of each, and its end. An expired key stays in memory until a command asks for it.

use std::collections::{BTreeMap, BTreeSet};

use crate::logs::Log;
use crate::reply::Reply;
use crate::sorted::SortedSet;

/// The content of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A string.
    Text(Vec<u8>),
    /// A list, of which the model knows no more than its items.
    List(Vec<Vec<u8>>),
    /// A set, of which the model knows no more than its items.
    Set(BTreeSet<Vec<u8>>),
    /// A hash.
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    /// A sorted set.
    Sorted(SortedSet),
    /// A stream.
    Log(Log),
}

impl Content {
    /// The name of the type, as in `TYPE`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "string",
            Self::List(_) => "list",
            Self::Set(_) => "set",
            Self::Hash(_) => "hash",
            Self::Sorted(_) => "zset",
            Self::Log(_) => "stream",
        }
    }
}

/// A key.
#[derive(Clone, Debug, PartialEq)]
pub struct Key {
    /// The content.
    pub content: Content,
    /// The last millisecond of the key, if it expires.
    pub until_ms: Option<i64>,
}

/// A type that commands ask for.
pub trait Kind: Default {
    /// The content as this type, if it is of this type.
    fn of(content: &mut Content) -> Option<&mut Self>;
    /// This type as content.
    fn content(self) -> Content;
    /// Whether the key has to go, as nothing is left in it.
    fn is_over(&self) -> bool;
}

/// All keys.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Keyspace {
    keys: BTreeMap<Vec<u8>, Key>,
}

impl Keyspace {
    /// The key of this name now. An expired one goes.
    pub fn at(&mut self, name: &[u8], now_ms: i64) -> Option<&mut Key> {
        if self.keys.get(name)?.until_ms.is_some_and(|until| now_ms > until) {
            self.keys.remove(name);
        }
        self.keys.get_mut(name)
    }

    /// The content of a key now, of the type that the command asks for.
    ///
    /// # Errors
    /// `WRONGTYPE`
    pub fn read<K: Kind>(&mut self, name: &[u8], now_ms: i64) -> Result<Option<&mut K>, String> {
        let Some(key) = self.at(name, now_ms) else { return Ok(None) };
        let wrong = "WRONGTYPE Operation against a key holding the wrong kind of value";
        K::of(&mut key.content).map(Some).ok_or_else(|| wrong.to_owned())
    }

    /// Changes the content of a key, or new content, of this type. A key of which nothing is left goes.
    ///
    /// # Errors
    /// `WRONGTYPE`, and the refusals of `make`, which must leave the key as it was.
    pub fn change<K: Kind, T>(
        &mut self,
        name: &[u8],
        now_ms: i64,
        make: impl FnOnce(&mut K) -> Result<T, String>,
    ) -> Result<T, String> {
        if let Some(held) = self.read::<K>(name, now_ms)? {
            let made = make(held)?;
            if held.is_over() {
                self.keys.remove(name);
            }
            return Ok(made);
        }
        let mut new = K::default();
        let made = make(&mut new)?;
        if !new.is_over() {
            self.put(name, new.content());
        }
        Ok(made)
    }

    /// Puts this content at a key, without an end, in place of any other.
    pub fn put(&mut self, name: &[u8], content: Content) {
        self.keys.insert(name.to_vec(), Key { content, until_ms: None });
    }

    /// Takes a key away. Gives whether it was there.
    pub fn remove(&mut self, name: &[u8], now_ms: i64) -> bool {
        self.at(name, now_ms).is_some() && self.keys.remove(name).is_some()
    }

    /// Takes all keys away.
    pub fn clear(&mut self) {
        self.keys.clear();
    }

    /// The names of the keys that are there now.
    pub fn names(&self, now_ms: i64) -> impl Iterator<Item = &Vec<u8>> {
        self.shown(now_ms).map(|(name, _)| name)
    }

    fn shown(&self, now_ms: i64) -> impl Iterator<Item = (&Vec<u8>, &Key)> {
        self.keys.iter().filter(move |(_, key)| key.until_ms.is_none_or(|until| now_ms <= until))
    }

    /// Whether commands see the same in both now.
    #[must_use]
    pub fn is_as(&self, other: &Self, now_ms: i64) -> bool {
        self.shown(now_ms).eq(other.shown(now_ms))
    }

    /// All that commands see of the keys, with each: name, type, the last millisecond or -1, content.
    #[must_use]
    pub fn told(&self, now_ms: i64) -> Reply {
        let told = self.shown(now_ms).map(|(name, key)| {
            let content = match &key.content {
                Content::Text(text) => Reply::bulk(text),
                Content::List(items) => Reply::Array(items.iter().map(Reply::bulk).collect()),
                Content::Set(items) => Reply::Array(items.iter().map(Reply::bulk).collect()),
                Content::Hash(fields) => {
                    Reply::Array(fields.iter().flat_map(|(field, value)| [field, value]).map(Reply::bulk).collect())
                }
                Content::Sorted(set) => set.told(),
                Content::Log(log) => log.told(),
            };
            let (name, until) = (Reply::bulk(name), Reply::Int(key.until_ms.unwrap_or(-1)));
            Reply::Array(vec![name, Reply::bulk(key.content.kind()), until, content])
        });
        Reply::Array(told.collect())
    }
}
