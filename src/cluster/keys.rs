//! The names of the store's keys. All of them are in the partition `{0}`: the braces put them into one slot of a Redis Cluster.

use crate::vote::id::ServerId;

/// The version of the keys: the form of their values, and the functions that change them.
pub const SCHEMA: &str = "3";
/// The beginning of every key.
pub const PREFIX: &str = "vs:{0}:";
/// The log of changes, which every node follows.
pub const LOG: &str = "vs:{0}:log";
/// A hash of server to record.
pub const DIRECTORY: &str = "vs:{0}:dir";
/// A hash of token to server, so that no two servers have one token.
pub const TOKENS: &str = "vs:{0}:tok";
/// A sorted set of the removed votes and listings, so that no node gives them back. A vote stays until it would be over, a
/// listing for ever.
pub const GONE: &str = "vs:{0}:gone";
/// A hash of node to the node's record.
pub const NODES: &str = "vs:{0}:nodes";
/// A hash with the store's id, schema and settings, its greatest stamp, and its last entries.
pub const META: &str = "vs:{0}:meta";

/// The beginning of a store's id while it is being filled: no node follows it yet.
const FILLING: &str = "reseed-";

/// The id of a store while it is filled.
#[must_use]
pub fn filling(store: &str) -> String {
    format!("{FILLING}{store}")
}

/// Whether this is the id of a store that is being filled.
#[must_use]
pub fn is_filling(store: &str) -> bool {
    store.starts_with(FILLING)
}

/// The key of a server's votes: a sorted set of address to second.
#[must_use]
pub fn claims(server: ServerId) -> String {
    format!("vs:{{0}}:s:{server}")
}
