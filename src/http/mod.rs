//! HTTP/1.x without sockets (RFC 9110, RFC 9112): bytes and `now` in, values and bytes out.
//!
//! [`byte`] classifies bytes, [`field`] reads header lines, [`head`] reads a request's head, [`body`]
//! takes its content out of the framing, [`negotiation`] tells which form of a document is wanted,
//! [`route`] knows the two public path shapes, [`wait`] reads how long a request may wait, [`session`]
//! drives one connection's requests, and [`response`] holds the answers that are formatted ahead. A
//! reason to refuse a request is a [`fault::Fault`].

pub mod body;
pub mod byte;
pub mod fault;
pub mod field;
pub mod head;
pub mod negotiation;
pub mod response;
pub mod route;
pub mod session;
pub mod wait;
