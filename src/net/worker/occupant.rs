//! A connection in its slot, with the worker's own notes on it.

use std::io;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use crate::http::session::{Client, Service};
use crate::net::connection::Connection;
use crate::net::eviction::Network;
use crate::net::slab::SlabKey;

/// The poll that reports a connection, and whether it reports more than input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Registration {
    /// The poll is that of the clients that have shown the key.
    is_keyed: bool,
    /// Room for more output is reported too.
    has_output: bool,
}

/// The occupant of a slot.
pub(super) struct Occupant<S: Service> {
    pub(super) connection: Connection<S>,
    /// The connection uses memory, and is in the worker's account.
    pub(super) is_counted: bool,
    /// The connection is queued for its next turn already.
    pub(super) is_queued: bool,
    /// Most newcomers ask one question and go before they are registered.
    pub(super) registration: Option<Registration>,
}

impl<S: Service> Occupant<S> {
    pub(super) const fn new(connection: Connection<S>) -> Self {
        Self { connection, is_counted: false, is_queued: false, registration: None }
    }

    /// The network of the client.
    pub(super) fn network(&self) -> Network {
        Network::of(self.connection.stream().peer().map(|peer| peer.ip()))
    }

    /// Has a poll report the connection's events: `keyed` once the client has shown the key.
    pub(super) fn register(&mut self, poll: &Poll, keyed: &Poll, key: SlabKey) -> io::Result<()> {
        let (is_keyed, has_output) = (self.connection.is_keyed(), self.connection.has_unsent());
        let socket = self.connection.stream().socket();
        let (mut source, token) = (SourceFd(&socket), Token(key.packed() as usize));
        // Priority is urgent data, which the connection must know of: see Connection::note_event.
        let readable = Interest::READABLE | Interest::PRIORITY;
        let interest = if has_output { readable | Interest::WRITABLE } else { readable };
        let registry = if is_keyed { keyed.registry() } else { poll.registry() };
        match self.registration.replace(Registration { is_keyed, has_output }) {
            None => registry.register(&mut source, token, interest),
            Some(before) if before.is_keyed != is_keyed => {
                poll.registry().deregister(&mut source)?;
                registry.register(&mut source, token, interest)
            }
            Some(before) if has_output && !before.has_output => registry.reregister(&mut source, token, interest),
            // Once registered, the interest in output stays: changing it would cost a call each time.
            before => {
                self.registration = before;
                Ok(())
            }
        }
    }
}
