//! Clients that have shown the key have their turn before all others: a crowd without the key, however much it has
//! sent, holds up no vote. A poll of their own reports their connections, and the worker's poll watches that one.

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

/// What a worker keeps of the connections whose clients have shown the key.
pub(super) struct KeyedClients {
    pub(super) poll: Poll,
    events: Events,
    /// Connections that were not done within their share.
    pub(super) again: VecDeque<SlabKey>,
    /// A connection was registered: before that nothing is asked of the poll.
    pub(super) is_used: bool,
    /// The poll may have more to report than one turn takes.
    pub(super) has_more: bool,
}

impl KeyedClients {
    /// Of a worker with this poll, which reports as `token` that there is news.
    pub(super) fn new(watched_by: &Poll, token: Token) -> io::Result<Self> {
        let poll = Poll::new()?;
        watched_by.registry().register(&mut SourceFd(&poll.as_raw_fd()), token, Interest::READABLE)?;
        let events = Events::with_capacity(EVENTS_PER_TURN);
        Ok(Self { poll, events, again: VecDeque::new(), is_used: false, has_more: false })
    }
}

impl<S: Service> Worker<S> {
    /// The turn of these clients. It is bounded as that of the others is.
    pub(super) fn serve_keyed(&mut self) -> io::Result<()> {
        if !self.keyed.is_used {
            return Ok(());
        }
        let resumed = self.keyed.again.len().min(RESUMED_PER_TURN);
        let resumed: Vec<SlabKey> = self.keyed.again.drain(..resumed).collect();
        let polled = self.keyed.poll.poll(&mut self.keyed.events, Some(Duration::ZERO));
        let events = std::mem::replace(&mut self.keyed.events, Events::with_capacity(0));
        // The worker's poll tells of news once. What this turn leaves is looked at in the next one.
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
