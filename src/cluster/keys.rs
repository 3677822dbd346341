//! The names of the store's keys. One partition, `{0}`: with the braces all of it would lie in one
//! slot of a Redis Cluster.

use crate::vote::id::ServerId;

/// The version of the keys: what stands in them, and which functions change it.
pub const SCHEMA: &str = "3";
/// What every key begins with.
pub const PREFIX: &str = "vs:{0}:";
/// The log of changes, which every node follows.
pub const LOG: &str = "vs:{0}:log";
/// A hash of server to record.
pub const DIRECTORY: &str = "vs:{0}:dir";
/// A hash of token to server, so that no two servers have one token.
pub const TOKENS: &str = "vs:{0}:tok";
/// A sorted set of the votes and listings that were taken away, until they would be over: they must not be given
/// back.
pub const GONE: &str = "vs:{0}:gone";
/// A hash of node to what it says of itself.
pub const NODES: &str = "vs:{0}:nodes";
/// A hash with the store's id, schema and settings.
pub const META: &str = "vs:{0}:meta";

/// While a store is being filled its id begins so: no node follows it yet.
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

/// A server's votes: address to second.
#[must_use]
pub fn claims(server: ServerId) -> String {
    format!("vs:{{0}}:s:{server}")
}
