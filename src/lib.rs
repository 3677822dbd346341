//! `vote-status` answers whether a client IP address may vote now for a listed game server.
//!
//! The modules by floor, the lowest floor first. A module imports only from lower floors:
//!
//! * [`vote`] is the domain: ids, addresses, instants, the cooldown table, the directory, the answer. [`lists`] has
//!   linked lists of slots, and `slices` lets long work give way.
//! * [`http`] is the protocol without sockets, [`store`] keeps votes and servers on disk, [`waiting`] has the requests
//!   that wait for a vote, and [`watch`] shows questions and changes live. [`clock`], [`json`], [`limits`],
//!   [`metrics`], [`random`], [`readiness`] and `whole_file` are tools.
//! * [`net`] is the engine that moves bytes, [`recorder`] the one thread that writes, and [`pages`] has the documents.
//! * [`public`] and [`control`] are the two services. `cluster` (with the cargo feature `redis`) follows a store that
//!   nodes share.
//! * [`server`] starts all of it in order, and stops it in order.
//! * [`cli`] is the command line.
#![forbid(unsafe_code)]
// Only the command line prints.
#![warn(clippy::print_stderr, clippy::print_stdout)]

#[allow(clippy::print_stderr, clippy::print_stdout)]
pub mod cli;
pub mod clock;
#[cfg(feature = "redis")]
pub mod cluster;
pub mod control;
pub mod http;
pub mod json;
pub mod limits;
pub mod lists;
pub mod metrics;
pub mod net;
pub mod pages;
pub mod public;
pub mod random;
pub mod readiness;
pub mod recorder;
pub mod server;
mod slices;
pub mod store;
pub mod vote;
pub mod waiting;
pub mod watch;
mod whole_file;
