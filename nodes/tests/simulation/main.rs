//! Many nodes in virtual time: the machine of each node, the network, and a store that runs the service's own functions.
//!
//! `TEST_SEED` runs one seed, and `TEST_TOLD` prints its events.
#![expect(clippy::disallowed_methods, reason = "tests say how long they took")]

mod drawn;
mod events;
mod found;
mod host;
mod plants;
mod promises;
#[path = "../random.rs"]
#[expect(dead_code, reason = "the other tests use more of it")]
mod random;
mod run;
mod situations;
mod staged;
mod wire;
mod world;
