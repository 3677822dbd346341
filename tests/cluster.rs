//! Many nodes on one Redis, each test with servers and nodes of its own: real processes, real
//! faults, and a proxy where a network would fail. What the nodes show is compared with what is in
//! Redis, by a client of the tests' own.
//!
//! Without `redis-server` all of them are left out, and say so.
//! `VOTE_STATUS_TEST_REDIS_SERVER=PATH` has all of them run on another server: a `valkey-server`.

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
