//! How a worker goes away without leaving a request unanswered. Each answer from then on is the last one on
//! its connection. Newcomers are taken for a while, and idle clients get that while to ask once more. Then the
//! worker takes the connections that wait in the backlog, and closes the listeners.
//!
//! If the sockets outlive the process, later newcomers queue in them for the next process. A slow client must not
//! make them queue for long: the worker takes newcomers until all earlier connections have gone.

use std::os::fd::AsRawFd;

use mio::unix::SourceFd;

use super::Worker;
use crate::http::session::{Service, Waiting};
use crate::limits::{DRAIN_GRACE_MS, LISTEN_BACKLOG};
use crate::net::connection::Connection;
use crate::net::counters::CloseCause;
use crate::net::slab::SlabKey;

/// More than the kernel holds for a listening socket at a time.
const BACKLOG_MAX: usize = LISTEN_BACKLOG as usize + 1;

/// The worker looks this often whether the earlier connections have gone, in milliseconds.
const LOOK_MS: u64 = 20;

#[derive(Clone, Copy)]
pub(super) struct Drain {
    /// Idle clients may ask once more until then.
    ask_until_ms: u64,
    accept_until_ms: u64,
    stop_at_ms: u64,
    /// The time before `stop_at_ms` in which clients take the last answers.
    taking_ms: u64,
    /// The sockets outlive the process.
    is_held: bool,
    /// When to look again for earlier connections.
    look_at_ms: u64,
}

impl Drain {
    /// When the next step is due.
    pub(super) fn next_ms(self, now_ms: u64) -> u64 {
        let steps_ms = [self.look_at_ms, self.accept_until_ms, self.grace_ms(), self.wait_until_ms()];
        let next_ms = steps_ms.into_iter().filter(|at_ms| *at_ms > now_ms).min();
        next_ms.unwrap_or(self.stop_at_ms).min(self.stop_at_ms)
    }

    /// Whether a request may wait. No request waits for a vote any more. A request may wait for another thread until
    /// the last moment.
    pub(super) const fn waiting(self, now_ms: u64) -> Waiting {
        if now_ms < self.wait_until_ms() { Waiting::Ended } else { Waiting::TimeIsUp }
    }

    /// A request that waits for another thread may wait until then. After that it is answered as it stands.
    const fn wait_until_ms(self) -> u64 {
        self.stop_at_ms.saturating_sub(self.taking_ms)
    }

    /// The worker waits until then for the latest connections that have not asked.
    const fn grace_ms(self) -> u64 {
        self.accept_until_ms.saturating_add(DRAIN_GRACE_MS)
    }
}

impl<S: Service> Worker<S> {
    pub(super) fn start_draining(&mut self, accept_ms: Option<u64>, timeout_ms: u64, is_held: bool) {
        let now_ms = self.now.monotonic_ms;
        // The worker stays while a connection may still ask. It takes newcomers for that time: none queues meanwhile.
        let grace_ms = if self.connections.is_empty() || self.drain.is_some() { 0 } else { DRAIN_GRACE_MS };
        let ask_until_ms = now_ms.saturating_add(accept_ms.unwrap_or(0).max(grace_ms));
        let accept_until_ms = if accept_ms.is_some() { ask_until_ms } else { u64::MAX };
        let stop_at_ms = accept_until_ms.saturating_add(timeout_ms);
        let taking_ms = DRAIN_GRACE_MS.min(timeout_ms / 2);
        if self.drain.is_none() {
            self.before_drain = self.connections.keys();
        }
        let look_at_ms = ask_until_ms;
        self.drain = Some(Drain { ask_until_ms, accept_until_ms, stop_at_ms, taking_ms, is_held, look_at_ms });
        self.service.goes_away();
        // Requests that wait for a vote are answered as they stand, some in each turn: newcomers are still served.
        let waiting = self.keys_where(Connection::is_waiting);
        self.woken.extend(waiting);
    }

    fn keys_where(&mut self, is_meant: impl Fn(&Connection<S>) -> bool) -> Vec<SlabKey> {
        let mut keys = self.connections.keys();
        keys.retain(|key| self.connection(*key).is_some_and(|connection| is_meant(connection)));
        keys
    }

    /// The socket may have other holders: closing it alone would leave it in this poll. If deregistering fails, it was
    /// not there.
    fn close_listeners(&mut self) {
        for listening in self.listeners.drain(..) {
            let _absent = self.poll.registry().deregister(&mut SourceFd(&listening.listener.as_raw_fd()));
        }
    }

    /// Closes idle connections of a kind; a question that is already there is answered.
    fn close_idle(&mut self, of_kind: impl Fn(&Connection<S>) -> bool) {
        for key in self.keys_where(|connection| connection.is_idle() && of_kind(connection)) {
            self.close_if_idle(key, CloseCause::Done);
        }
    }

    pub(super) fn go_on_draining(&mut self) {
        let Some(drain) = self.drain else { return };
        let now_ms = self.now.monotonic_ms;
        if now_ms >= drain.wait_until_ms() {
            // Requests wait for another thread no longer.
            self.keys_where(Connection::is_parked).into_iter().for_each(|key| self.wake(key));
        }
        if drain.is_held && !self.listeners.is_empty() {
            return self.see_out(drain);
        }
        if now_ms >= drain.accept_until_ms && !self.listeners.is_empty() {
            // A client that the kernel has accepted already is still served.
            for index in 0..self.listeners.len() {
                self.accept(index, BACKLOG_MAX);
            }
            // Without a free descriptor newcomers stay in the backlog: a later turn tries again while there is time.
            if self.accept_again_ms <= now_ms || now_ms >= drain.stop_at_ms {
                self.close_listeners();
            }
            self.close_idle(Connection::was_answered);
        }
        if self.listeners.is_empty() && now_ms >= drain.grace_ms() {
            self.close_idle(|_| true);
        }
    }

    /// Waits for the earlier connections, and closes the listeners once all of them have gone or their time is
    /// over. The clients that came last have a moment.
    fn see_out(&mut self, drain: Drain) {
        let now_ms = self.now.monotonic_ms;
        if now_ms < drain.look_at_ms {
            return;
        }
        let may_be_fresh = now_ms < drain.ask_until_ms.saturating_add(DRAIN_GRACE_MS);
        let before = std::mem::take(&mut self.before_drain);
        self.before_drain = before.into_iter().filter(|key| self.stays(*key, may_be_fresh)).collect();
        let are_gone = self.before_drain.is_empty();
        let drain = if now_ms >= drain.accept_until_ms && (are_gone || now_ms >= drain.stop_at_ms) {
            self.close_listeners();
            let taking_ms = drain.taking_ms.min(DRAIN_GRACE_MS / 2);
            Drain { accept_until_ms: now_ms, stop_at_ms: now_ms + DRAIN_GRACE_MS + taking_ms, taking_ms, ..drain }
        } else {
            Drain { look_at_ms: if are_gone { drain.accept_until_ms } else { now_ms + LOOK_MS }, ..drain }
        };
        self.drain = Some(drain);
    }

    /// Whether a client has not gone yet; an idle one is closed.
    fn stays(&mut self, key: SlabKey, may_be_fresh: bool) -> bool {
        match self.connection(key) {
            Some(connection) if connection.is_idle() && (connection.was_answered() || !may_be_fresh) => {
                !self.close_if_idle(key, CloseCause::Done)
            }
            Some(_) => true,
            None => false,
        }
    }

    pub(super) fn is_drained(&self) -> bool {
        let is_over = |drain: Drain| self.connections.is_empty() || self.now.monotonic_ms >= drain.stop_at_ms;
        self.drain.is_some_and(|drain| self.listeners.is_empty() && is_over(drain))
    }
}
