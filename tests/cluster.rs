//! Many nodes on one Redis. Each test has servers and nodes of its own: real processes, real
//! faults, and a proxy where a network would fail. A client of the tests' own compares the nodes' votes
//! with those in Redis.
//!
//! Without `redis-server` the tests print that they are left out.
//! With `VOTE_STATUS_TEST_REDIS_SERVER=PATH` they run on another server: a `valkey-server`.

mod access;
mod bootstrap;
mod by_hand;
mod check;
mod checker;
mod clock;
mod connections;
mod directory;
mod functions;
mod given_back;
mod gone;
mod late;
mod promotion;
mod reasons;
#[cfg(feature = "tls")]
mod secure;
mod sentinels;
mod shards;
mod split;
mod strange;
mod takeover;
mod tokens;
pub(crate) mod util;
mod versions;
mod watching;
