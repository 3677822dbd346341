//! How a worker goes away without leaving a request unanswered. In both ways each answer from then
//! on is the last one on its connection.
//!
//! * For good: newcomers are taken for a while, idle clients get that while to ask once more, then
//!   whoever the kernel has accepted is taken still, and the listeners are closed.
//! * For another worker, of another process: listeners are given away as they are, with whoever
//!   waits in them, and so is every client that waits for no answer. Votes are held up meanwhile, so
//!   it ends as soon as all are answered: who has only to go does so behind it.

use std::os::fd::OwnedFd;
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use super::occupant::PollInterest;
use super::{Listening, Worker};
use crate::http::session::Service;
use crate::limits::{LINGER_TIMEOUT_MS, LISTEN_BACKLOG};
use crate::net::connection::Connection;
use crate::net::counters::CloseCause;
use crate::net::deadline::Class;
use crate::net::mailbox::Handed;
use crate::net::stream::Stream;

/// More than the kernel holds for a listening socket at a time.
const BACKLOG_MAX: usize = LISTEN_BACKLOG as usize + 1;

/// A client that is about to ask is given this long before it is closed as idle, in milliseconds:
/// one that is closed as its request arrives sees a reset.
const DRAIN_GRACE_MS: u64 = 500;

/// Who has had the last answer from a worker that has ended, and may be sending still: closed at once, that
/// would be reset, and the answer lost.
#[must_use]
pub struct Leaving {
    pub(super) streams: Vec<Stream>,
}

impl Leaving {
    /// Gives them their time to go.
    pub fn see_off(self) {
        if !self.streams.is_empty() {
            thread::sleep(Duration::from_millis(LINGER_TIMEOUT_MS));
        }
    }
}

#[derive(Clone, Copy)]
pub(super) struct Drain {
    accept_until_ms: u64,
    stop_at_ms: u64,
    /// Another process waits for the end.
    is_given: bool,
}

impl Drain {
    /// When something is to be done next.
    pub(super) fn next_ms(self, now_ms: u64) -> u64 {
        let steps_ms = [self.accept_until_ms, self.grace_ms()];
        let next_ms = steps_ms.into_iter().find(|at_ms| *at_ms > now_ms);
        next_ms.unwrap_or(self.stop_at_ms).min(self.stop_at_ms)
    }

    /// Those who came last, and have not asked, are waited for until then.
    const fn grace_ms(self) -> u64 {
        self.accept_until_ms.saturating_add(DRAIN_GRACE_MS)
    }
}

impl<S: Service> Worker<S> {
    pub(super) fn start_draining(&mut self, accept_ms: u64, timeout_ms: u64) {
        let now_ms = self.now.monotonic_ms;
        // Newcomers are taken as long as those who are here may ask: nobody waits for nothing.
        let accept_ms = if self.connections.is_empty() { accept_ms } else { accept_ms.max(DRAIN_GRACE_MS) };
        let accept_until_ms = now_ms.saturating_add(accept_ms);
        let stop_at_ms = accept_until_ms.saturating_add(timeout_ms);
        self.drain = Some(Drain { accept_until_ms, stop_at_ms, is_given: false });
        self.service.goes_away();
        self.answer_held();
    }

    pub(super) fn hand_over(&mut self, to: &Sender<Handed>, timeout_ms: u64) {
        let listeners = self.take_listeners();
        let mut clients = Vec::new();
        for key in self.connections.keys() {
            if !self.connection(key).is_some_and(|connection| connection.can_be_passed()) {
                continue;
            }
            self.deadlines.clear(key.index);
            let Some(mut occupant) = self.connections.remove(key) else { continue };
            self.counters.closed[CloseCause::Done as usize].add(1);
            if occupant.is_holder {
                self.account.forget(key.index);
            }
            if occupant.interest != PollInterest::Nothing {
                // Closing our descriptor is not enough: the poll would go on for the other process.
                let _absent = self.poll.registry().deregister(occupant.connection.stream().socket());
            }
            clients.extend(occupant.connection.into_passed());
        }
        let now_ms = self.now.monotonic_ms;
        let stop_at_ms = now_ms.saturating_add(timeout_ms);
        self.drain = Some(Drain { accept_until_ms: now_ms, stop_at_ms, is_given: true });
        self.service.goes_away();
        self.answer_held();
        // Where nobody takes them the process is ending in disorder, and they with it.
        let _taken = to.send(Handed { listeners, clients });
    }

    /// What nobody takes is answered here, and what is held for a vote is answered as it stands.
    fn answer_held(&mut self) {
        for key in self.connections.keys() {
            match self.connection(key) {
                Some(connection) if connection.is_held() => self.serve(key),
                // Some in each turn: newcomers are still to be answered.
                Some(connection) if connection.is_waiting() => self.woken.push_back(key),
                _ => {}
            }
        }
    }

    fn take_listeners(&mut self) -> Vec<OwnedFd> {
        let take = |mut listening: Listening| {
            // Others may hold the same socket: closing it alone would leave it in this poll. Where
            // that fails, it was not there.
            let _absent = self.poll.registry().deregister(&mut listening.listener);
            OwnedFd::from(listening.listener)
        };
        self.listeners.drain(..).map(take).collect()
    }

    /// Closes idle connections of a kind; a question that is already there is answered.
    fn close_idle(&mut self, of_kind: impl Fn(&Connection<S>) -> bool) {
        for key in self.connections.keys() {
            let Some(connection) = self.connection(key) else { continue };
            if connection.is_idle() && of_kind(connection) {
                self.close_if_idle(key, CloseCause::Done);
            }
        }
    }

    pub(super) fn go_on_draining(&mut self) {
        let Some(drain) = self.drain else { return };
        let now_ms = self.now.monotonic_ms;
        if now_ms >= drain.accept_until_ms && !self.listeners.is_empty() {
            // Whoever the kernel has accepted for us already is still served.
            for index in 0..self.listeners.len() {
                self.accept(index, BACKLOG_MAX);
            }
            // Out of descriptors they still wait there: once more, as long as there is time.
            if self.accept_again_ms <= now_ms || now_ms >= drain.stop_at_ms {
                drop(self.take_listeners());
            }
            self.close_idle(Connection::has_asked);
        }
        if self.listeners.is_empty() && now_ms >= drain.grace_ms() {
            self.close_idle(|_| true);
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        let is_over = |drain: Drain| self.now.monotonic_ms >= drain.stop_at_ms;
        let is_served = |drain: Drain| if drain.is_given { self.occupied() == 0 } else { self.connections.is_empty() };
        self.drain.is_some_and(|drain| self.listeners.is_empty() && (is_served(drain) || is_over(drain)))
    }

    /// Those who have had their last answer, where somebody waits for the worker's end.
    pub(super) fn into_leaving(mut self) -> Leaving {
        let mut streams = Vec::new();
        if self.drain.is_some_and(|drain| drain.is_given) {
            for key in self.connections.keys() {
                if self.deadlines.class(key.index) == Some(Class::Linger) {
                    self.counters.closed[CloseCause::Done as usize].add(1);
                    streams.extend(self.connections.remove(key).map(|occupant| occupant.connection.into_stream()));
                }
            }
        }
        Leaving { streams }
    }
}
