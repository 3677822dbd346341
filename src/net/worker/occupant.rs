//! A connection in its slot, with what the worker itself keeps of it.

use std::io;

use mio::unix::SourceFd;
use mio::{Interest, Poll, Token};

use crate::http::session::Service;
use crate::net::connection::Connection;
use crate::net::slab::SlabKey;

/// What the poll reports of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PollInterest {
    /// Nothing: it is not registered. Most newcomers ask one question and go before they are.
    Nothing,
    /// That there is something to read.
    Reading,
    /// That, and that the kernel takes more output.
    ReadingAndWriting,
}

/// The occupant of a slot.
pub(super) struct Occupant<S: Service> {
    pub(super) connection: Connection<S>,
    /// It uses memory, and stands in the worker's account.
    pub(super) is_counted: bool,
    /// It is queued for its next turn already.
    pub(super) is_queued: bool,
    pub(super) interest: PollInterest,
    /// The poll that reports it is the one of the clients that have shown the key.
    is_keyed: bool,
}

impl<S: Service> Occupant<S> {
    pub(super) const fn new(connection: Connection<S>) -> Self {
        Self { connection, is_counted: false, is_queued: false, interest: PollInterest::Nothing, is_keyed: false }
    }

    /// Sees to it that a poll reports what is to happen to the connection: `keyed` once the client has shown the key.
    pub(super) fn register(&mut self, poll: &Poll, keyed: &Poll, key: SlabKey) -> io::Result<()> {
        let is_keyed = self.connection.is_keyed();
        let socket = self.connection.stream().socket();
        if is_keyed && !self.is_keyed && self.interest != PollInterest::Nothing {
            poll.registry().deregister(&mut SourceFd(&socket))?;
            self.interest = PollInterest::Nothing;
        }
        self.is_keyed = is_keyed;
        let poll = if is_keyed { keyed } else { poll };
        let wants_write = self.connection.has_unsent();
        let is_new = match self.interest {
            PollInterest::Nothing => true,
            PollInterest::Reading if wants_write => false,
            PollInterest::Reading | PollInterest::ReadingAndWriting => return Ok(()),
        };
        // Priority is urgent data. Asked for, so that it is known: see Connection::note_event.
        let readable = Interest::READABLE | Interest::PRIORITY;
        let (own, interest) = if wants_write {
            (PollInterest::ReadingAndWriting, readable | Interest::WRITABLE)
        } else {
            (PollInterest::Reading, readable)
        };
        self.interest = own;
        let token = Token(key.packed() as usize);
        if is_new {
            poll.registry().register(&mut SourceFd(&socket), token, interest)
        } else {
            poll.registry().reregister(&mut SourceFd(&socket), token, interest)
        }
    }
}
