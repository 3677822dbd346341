//! The domain: which address may vote for which server, and when again. Values in, values and bytes out.
//!
//! Nothing here opens, waits, reads a clock, logs or counts: `now` is always a parameter.

pub mod address;
pub mod answer;
pub mod directory;
pub mod hasher;
pub mod id;
pub mod ipv4;
pub mod ipv6;
pub mod lines;
pub mod settings;
mod shards;
pub mod table;
pub mod time;
