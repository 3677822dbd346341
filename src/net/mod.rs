//! The engine: listening sockets, event loops, deadlines. It knows connections, not their requests.
//!
//! ```text
//! worker 0..N    one poll each, with its own listening sockets (SO_REUSEPORT), its own
//!                connections, its own buffers: a connection never changes thread
//! ```
//!
//! [`worker`] is the loop, [`connection`] one client's session, [`stream`] its socket, [`slab`] the slots of
//! connections, [`deadline`] their deadlines, [`eviction`] the rule that picks the connection to evict, [`listen`] the
//! listening sockets, and [`mailbox`] the way for other threads to reach a loop. [`account`] counts the memory of a
//! connection within the [`budget`] of all, and [`counters`] has the figures of a loop.

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
