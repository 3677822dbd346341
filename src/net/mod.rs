//! The engine: listening sockets, event loops, deadlines. It knows connections, not what they say.
//!
//! ```text
//! worker 0..N    one poll each, with its own listening sockets (SO_REUSEPORT), its own
//!                connections, its own buffers: a connection never changes thread
//! ```
//!
//! [`worker`] is the loop, [`connection`] one client's session, [`stream`] its socket, [`slab`]
//! where they live, [`deadline`] when they must have done something, [`eviction`] which of them gives its place up,
//! [`listen`] the sockets that accept, and [`mailbox`] how other threads reach a loop.

pub mod account;
pub mod budget;
pub mod connection;
pub mod counters;
pub mod deadline;
pub mod eviction;
pub mod listen;
pub mod mailbox;
pub mod slab;
pub mod stream;
pub mod worker;
