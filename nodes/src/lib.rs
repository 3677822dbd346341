//! A model of the store that nodes share, in virtual time. It has the commands that nodes and functions call, and runs
//! the functions themselves, from the service's own `src/cluster/functions.lua`.
//!
//! The same calls at the same instants give the same replies and the same keys. `tests/` compares both with a Redis
//! and a Valkey. The model knows no connection, no thread and no clock: its instant is a field.
#![forbid(unsafe_code)]

pub mod commands;
pub mod functions;
pub mod hashes;
pub mod keyspace;
pub mod logs;
pub mod reply;
pub mod sorted;
pub mod store;
