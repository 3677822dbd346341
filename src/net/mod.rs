//! The engine: listening sockets, event loops, deadlines. It knows connections, not what they say.
//!
//! ```text
//! worker 0..N    one poll each, with its own listening sockets (SO_REUSEPORT), its own
//!                connections, its own buffers: a connection never changes thread
//! ```
//!
//! [`worker`] is the loop, [`connection`] one client's session, [`stream`] its socket, [`slab`]
//! where they live, [`deadline`] when they must have done something, [`listener`] the sockets that
//! accept, [`address`] where, [`socket_file`] what a Unix one leaves in the file system, and
//! [`mailbox`] how other threads reach a loop. [`access`] stands before a service and tells of
//! some of its requests. `may_minihttp` is another engine, to compare with.

pub mod access;
pub mod account;
pub mod activation;
pub mod address;
pub mod budget;
pub mod connection;
pub mod counters;
pub mod deadline;
pub mod inheritance;
pub mod listener;
pub mod mailbox;
#[cfg(feature = "may_minihttp")]
pub mod may_minihttp;
pub mod parcel;
pub mod slab;
pub mod socket_file;
pub mod stream;
#[cfg(feature = "tls")]
pub mod tls;
pub mod worker;
