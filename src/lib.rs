//! `vote-status` answers whether a client IP address may vote now for a listed game server.
//!
//! The modules are the floors of the house, lowest first; each imports only from those above it
//! in this list:
//!
//! * [`vote`], [`lists`]: the domain: ids, addresses, instants, the cooldown table, the directory, the answer; and
//!   linked lists of slots;
//! * [`http`], [`clock`], [`json`], [`limits`], [`metrics`], [`random`], [`readiness`], [`store`],
//!   [`waiting`], [`watch`]: the protocol without sockets, time, objects as text, bounds, figures, secrets,
//!   the stages of a run, what is kept on disk, requests that wait for a vote, and what is seen live;
//! * [`net`], [`pages`], [`recorder`]: the engine that moves bytes, the documents for people, and
//!   the one thread that writes;
//! * [`public`], [`control`]: the two services, and `cluster` (with the cargo feature `redis`): a store
//!   that nodes share;
//! * [`server`]: what is started, in which order, and how it stops;
//! * [`cli`]: the command line.
#![forbid(unsafe_code)]

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
pub mod store;
pub mod vote;
pub mod waiting;
pub mod watch;
