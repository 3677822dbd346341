//! TLS for those who have no proxy in front: `rustls` without its sockets. [`session`] turns bytes
//! of the wire into bytes of the client and back, [`layer`] puts that into a stream,
//! [`certificates`] is what the service shows for itself. None knows what is said inside.

pub mod certificates;
pub mod layer;
pub mod session;
