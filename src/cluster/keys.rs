//! The names of the store's keys. One partition, `{0}`: with the braces all of it would lie in one
//! slot of a Redis Cluster.

use crate::vote::id::ServerId;

/// The log of changes, which every node follows.
pub const LOG: &str = "vs:{0}:log";
/// A hash of server to record.
pub const DIRECTORY: &str = "vs:{0}:dir";
/// A hash of token to server, so that no two servers have one token.
pub const TOKENS: &str = "vs:{0}:tok";
/// A sorted set of what was cancelled or removed lately, with the latest second of its votes: they must not be
/// given back.
pub const GONE: &str = "vs:{0}:gone";
/// A hash of node to what it says of itself.
pub const NODES: &str = "vs:{0}:nodes";
/// A hash with the store's id, schema and cooldown.
pub const META: &str = "vs:{0}:meta";

/// A server's votes of IPv4: address to second.
#[must_use]
pub fn claims(server: ServerId) -> String {
    format!("vs:{{0}}:s:{server}")
}

/// A server's votes of IPv6: network to second. A key of its own, as nodes of library vs1 cannot read a
/// member that is no IPv4.
#[must_use]
pub fn claims_v6(server: ServerId) -> String {
    format!("vs:{{0}}:s:{server}:6")
}

/// Stands among a server's votes of IPv6 and is no network. Its score, below 0, tells which removal of the
/// server these votes came after: see `held_by` in the functions.
pub const MARK: &str = "-";

#[cfg(test)]
mod tests {
    use super::{claims, claims_v6};
    use crate::vote::id::ServerId;

    #[test]
    fn a_servers_key_lies_where_the_others_do() {
        assert_eq!(claims(ServerId(28)), "vs:{0}:s:28");
        assert_eq!(claims_v6(ServerId(28)), "vs:{0}:s:28:6");
    }
}
