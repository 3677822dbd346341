//! The engine: listening sockets, event loops, deadlines. It knows connections, not what they say.
//!
//!     worker 0..N    one poll each, with its own listening sockets (SO_REUSEPORT), its own
//!                    connections, its own buffers: a connection never changes thread
//!
//! [`worker`] is the loop, [`connection`] one client's socket and session, [`slab`] where they
//! live, [`deadline`] when they must have done something, [`listener`] the sockets that accept,
//! and [`mailbox`] how other threads reach a loop.

pub mod connection;
pub mod deadline;
pub mod listener;
pub mod mailbox;
pub mod slab;
pub mod worker;
