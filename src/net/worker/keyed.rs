//! Clients that have shown the key have their turn before all others: a crowd without the key holds up no vote,
//! however much it sends. A poll of their own reports their connections, and the worker's poll watches that poll.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::Worker;
use crate::http::session::Service;
use crate::limits::{EVENTS_PER_TURN, RESUMED_PER_TURN};
use crate::net::slab::SlabKey;

/// A worker's state for the connections whose clients have shown the key.
pub(super) struct KeyedClients {
    pub(super) poll: Poll,
    events: Events,
    /// Connections that were not done within their share.
    pub(super) again: VecDeque<SlabKey>,
    /// A connection was registered. Before that, the worker does not call the poll.
    pub(super) is_used: bool,
    /// The poll may have more to report than one turn takes.
    pub(super) has_more: bool,
}

impl KeyedClients {
    /// For a worker with the poll `watched_by`, which reports events of these clients as `token`.
    pub(super) fn new(watched_by: &Poll, token: Token) -> io::Result<Self> {
        let poll = Poll::new()?;
        watched_by.registry().register(&mut SourceFd(&poll.as_raw_fd()), token, Interest::READABLE)?;
        let events = Events::with_capacity(EVENTS_PER_TURN);
        Ok(Self { poll, events, again: VecDeque::new(), is_used: false, has_more: false })
    }
}

impl<S: Service> Worker<S> {
    /// The turn of these clients, bounded like that of the others.
    pub(super) fn serve_keyed(&mut self) -> io::Result<()> {
        if !self.keyed.is_used {
            return Ok(());
        }
        let resumed = self.keyed.again.len().min(RESUMED_PER_TURN);
        let resumed: Vec<SlabKey> = self.keyed.again.drain(..resumed).collect();
        let polled = self.keyed.poll.poll(&mut self.keyed.events, Some(Duration::ZERO));
        let events = std::mem::replace(&mut self.keyed.events, Events::with_capacity(0));
        // The worker's poll reports news once. The next turn takes the events that this one leaves.
        self.keyed.has_more = match polled {
            Ok(()) => events.iter().count() == EVENTS_PER_TURN,
            Err(error) if error.kind() == ErrorKind::Interrupted => true,
            Err(error) => return Err(error),
        };
        self.on_events(&events);
        self.keyed.events = events;
        resumed.into_iter().for_each(|key| self.resume(key));
        Ok(())
    }
}
