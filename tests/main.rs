//! The integration tests: the real binary over real sockets, each test with a server of its own.
//! One test binary, one module for each subject. Tests without sockets are beside the code.
// The tests read the system's clock by themselves, and say what they expect where it matters.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)]

mod abuse;
#[cfg(feature = "redis")]
mod cluster;
mod command_line;
mod contract_control;
mod contract_public;
mod drain;
mod durability;
#[cfg(feature = "may_minihttp")]
mod engine;
mod hot_path;
mod house;
mod lifecycle;
mod logs;
mod monitoring;
mod protocol;
mod proxies;
mod races;
mod restart;
mod safety;
mod simulation;
mod sockets;
mod unix_sockets;
mod util;
mod waiting;
