//! The event loop of one thread. A turn, in this order and why:
//!
//! 1. wait for the kernel, at most until the next deadline;
//! 2. read the clocks, once: everything in a turn happens at one moment;
//! 3. letters first: they free connections that wait;
//! 4. clients that have shown the key: no crowd without it holds them up;
//! 5. connections that are served already, each at most one read and one write;
//! 6. newcomers, each read at once, before it is registered: most ask one question and go;
//! 7. some of those that were not done within their share, after all others had a turn;
//! 8. some connections with a waiting request, where very many were woken: thousands may wait for one vote;
//! 9. deadlines last: progress in this turn still counts;
//! 10. memory: if all connections together use too much, the one that uses most gives its memory up;
//! 11. the drain, if the worker leaves: it closes idle connections and its listeners.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::clock::{Clock, Now};
use crate::http::body::TRAILER_BYTES_MAX;
use crate::http::fault::Fault;
use crate::http::head::HeadLimits;
use crate::http::session::{Service, SessionCall, Ticket, Waiting};
use crate::limits::{EVENTS_PER_TURN, LINGER_TIMEOUT_MS, Limits, RESUMED_PER_TURN, TURN_BYTES_MAX, WOKEN_PER_TURN};
use crate::net::account::Account;
use crate::net::budget::Budget;
use crate::net::connection::{Connection, TurnContext, TurnProgress, Verdict};
use crate::net::counters::{CloseCause, EngineCounters};
use crate::net::deadline::{Class, Deadlines};
use crate::net::eviction::Contenders;
use crate::net::listen::Role;
use crate::net::mailbox::{Letter, Mailbox};
use crate::net::slab::{Slab, SlabKey};

mod admission;
mod drain;
#[cfg(debug_assertions)]
mod invariants;
mod keyed;
mod lateness;
mod occupant;
mod relief;

use drain::Drain;
use keyed::KeyedClients;
use lateness::Lateness;
use occupant::Occupant;

const _: () = assert!(size_of::<usize>() == 8, "a token packs a slot and its generation");

/// Tokens below this name connections; listeners follow, then the poll of the keyed clients, then the mailbox.
const LISTENER_TOKEN: u32 = 0xFFFF_0000;
const KEYED_TOKEN: u32 = 0xFFFF_FFFE;
const MAILBOX_TOKEN: u32 = 0xFFFF_FFFF;

/// The settings of a worker.
#[derive(Clone, Copy, Debug)]
pub struct WorkerSettings {
    /// Bounds and deadlines.
    pub limits: Limits,
    /// This worker's share of the open connections.
    pub connections_max: usize,
    /// Further connections, kept just long enough to be told 503 or to take a last answer.
    pub turned_away_max: usize,
    /// A connection's turn ends once its answers reach this, in bytes.
    pub turn_bytes_max: usize,
    /// Extra slots above the maximum, for newcomers where no connection can be evicted: clients that have shown the
    /// key may take all others.
    pub extra_slots: usize,
}

/// The parts of a worker besides its service.
pub struct WorkerParts {
    /// The listening sockets from which its clients come.
    pub listeners: Vec<OwnedFd>,
    /// Its settings.
    pub settings: WorkerSettings,
    /// The service's time.
    pub clock: Clock,
    /// Its counters.
    pub counters: Arc<EngineCounters>,
    /// The memory that all workers share.
    pub budget: Arc<Budget>,
    /// The role of its listeners.
    pub role: Role,
}

struct Listening {
    listener: OwnedFd,
    /// The kernel may hold newcomers that were not taken yet.
    is_pending: bool,
}

/// One event loop and all that it owns.
pub struct Worker<S: Service> {
    poll: Poll,
    keyed: KeyedClients,
    mailbox: Mailbox,
    clock: Clock,
    service: S,
    settings: WorkerSettings,
    listeners: Vec<Listening>,
    connections: Slab<Occupant<S>>,
    deadlines: Deadlines,
    contenders: Contenders,
    again: VecDeque<SlabKey>,
    /// Connections whose requests wait for a vote, to be looked at again.
    woken: VecDeque<SlabKey>,
    account: Account,
    /// All connections together use too much memory, and one of this worker's may have to give some up.
    is_short: bool,
    read_buffer: Box<[u8]>,
    out: Vec<u8>,
    now: Now,
    accept_again_ms: u64,
    /// A connection was closed for a newcomer that has not come yet.
    has_evicted: bool,
    /// Waiting requests that were answered in this turn because their places or their memory were needed.
    waits_ended: usize,
    drain: Option<Drain>,
    /// Connections from before the drain. Listeners that outlive the process stay open until these have gone.
    before_drain: Vec<SlabKey>,
    counters: Arc<EngineCounters>,
    lateness: Lateness,
    /// A turn that leaves work gives way to the public workers: an import or an export goes on for seconds.
    gives_way: bool,
    #[cfg(debug_assertions)]
    turns_unchecked: usize,
}

impl<S: Service> Worker<S> {
    /// A worker of these parts. Nothing is accepted before [`Worker::run`].
    ///
    /// `service` is made once the mailbox is there, for services whose answers come later.
    ///
    /// # Errors
    /// Where the system gives no descriptor, or a listener cannot be registered.
    pub fn new(parts: WorkerParts, service: impl FnOnce(&Mailbox) -> S) -> io::Result<Self> {
        let WorkerParts { listeners, settings, clock, counters, budget, role } = parts;
        let poll = Poll::new()?;
        let mailbox = Mailbox::new(&poll, Token(MAILBOX_TOKEN as usize))?;
        let mut pending = Vec::new();
        for (listener, token) in listeners.into_iter().zip(LISTENER_TOKEN..KEYED_TOKEN) {
            let mut source = SourceFd(&listener.as_raw_fd());
            poll.registry().register(&mut source, Token(token as usize), Interest::READABLE)?;
            pending.push(Listening { listener, is_pending: false });
        }
        let limits = settings.limits;
        let deadlines = Deadlines::new(|class| match class {
            Class::Request => limits.head_timeout_ms,
            Class::Idle | Class::Fresh => limits.idle_timeout_ms,
            Class::Write => limits.write_timeout_ms,
            Class::Linger => LINGER_TIMEOUT_MS,
            Class::Waiting(seconds) => u64::from(seconds.get()) * 1_000,
        });
        // A session leaves at most an unfinished head or trailer for the next read.
        let kept_bytes_max = limits.head_bytes_max.max(TRAILER_BYTES_MAX) + 2;
        let read_bytes_max = TURN_BYTES_MAX + kept_bytes_max;
        let lateness = Lateness::new(clock.now().monotonic_us);
        Ok(Self {
            service: service(&mailbox),
            account: Account::new(budget, role, mailbox.clone()),
            is_short: false,
            mailbox,
            keyed: KeyedClients::new(&poll, Token(KEYED_TOKEN as usize))?,
            poll,
            now: clock.now(),
            clock,
            settings,
            listeners: pending,
            connections: Slab::default(),
            deadlines,
            contenders: Contenders::new(settings.connections_max),
            again: VecDeque::new(),
            woken: VecDeque::new(),
            read_buffer: vec![0; read_bytes_max].into(),
            out: Vec::new(),
            accept_again_ms: 0,
            has_evicted: false,
            waits_ended: 0,
            drain: None,
            before_drain: Vec::new(),
            counters,
            lateness,
            gives_way: role == Role::Control,
            #[cfg(debug_assertions)]
            turns_unchecked: 0,
        })
    }

    /// The mailbox for letters to this worker.
    #[must_use]
    pub fn mailbox(&self) -> Mailbox {
        self.mailbox.clone()
    }

    /// Serves until told to drain, and then until the drain is done.
    ///
    /// # Errors
    /// Where the poll itself fails: nothing can be served any more.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_TURN);
        let mut letters = Vec::new();
        let mut again = Vec::new();
        let mut turn_us = self.clock.since_us(self.now);
        while !self.is_drained() {
            let wait = Duration::from_millis(self.lateness.begin_wait(self.now.monotonic_us + turn_us));
            match self.poll.poll(&mut events, Some(self.wait().map_or(wait, |other| other.min(wait)))) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.now = self.clock.now();
            self.lateness.end_wait(self.now.monotonic_us, &self.counters.late_us);
            self.waits_ended = 0;
            self.service.turn_begins();
            self.read_letters(&mut letters);
            self.serve_keyed()?;
            again.extend(self.again.drain(..self.again.len().min(RESUMED_PER_TURN)));
            self.on_events(&events);
            if events.iter().count() == EVENTS_PER_TURN {
                // The poll may have more events, and those of the listeners may be among them.
                self.listeners.iter_mut().for_each(|listening| listening.is_pending = true);
            }
            self.accept_newcomers();
            again.drain(..).for_each(|key| self.resume(key));
            self.serve_woken();
            self.expire_deadlines();
            self.relieve();
            self.go_on_draining();
            #[cfg(debug_assertions)]
            self.check_invariants();
            turn_us = self.clock.since_us(self.now);
            self.counters.lag_us.record(turn_us);
            if self.gives_way && !(self.again.is_empty() && self.keyed.again.is_empty()) {
                thread::yield_now();
            }
        }
        Ok(())
    }

    fn wait(&self) -> Option<Duration> {
        let is_accept_due = self.listeners.iter().any(|listening| listening.is_pending);
        if !self.again.is_empty()
            || !self.keyed.again.is_empty()
            || self.keyed.has_more
            || !self.woken.is_empty()
            || self.is_short
            || (is_accept_due && self.accept_again_ms <= self.now.monotonic_ms)
        {
            return Some(Duration::ZERO);
        }
        let accept_ms = is_accept_due.then_some(self.accept_again_ms);
        let drain_ms = self.drain.map(|drain| drain.next_ms(self.now.monotonic_ms));
        let rest_ms = self.service.rest_ms().map(|rest_ms| self.now.monotonic_ms + rest_ms);
        let due_ms = [self.deadlines.next_ms(), accept_ms, drain_ms, rest_ms].into_iter().flatten().min()?;
        if due_ms <= self.now.monotonic_ms {
            return Some(Duration::ZERO);
        }
        // One more: the kernel counts whole milliseconds and must not wake us a moment too early.
        Some(Duration::from_millis(due_ms.saturating_sub(self.now.monotonic_ms).saturating_add(1)))
    }

    fn read_letters(&mut self, letters: &mut Vec<Letter>) {
        self.mailbox.take(letters);
        let mut served = 0;
        for letter in letters.drain(..) {
            match letter {
                Letter::Wake(Ticket(word)) => self.wake(SlabKey::unpacked(word)),
                // A few requests do not wait behind a crowd that was woken before them.
                Letter::Ring(words) if served + words.len() <= WOKEN_PER_TURN => {
                    served += words.len();
                    words.into_iter().for_each(|word| self.wake(SlabKey::unpacked(word)));
                }
                Letter::Ring(words) => self.woken.extend(words.into_iter().map(SlabKey::unpacked)),
                Letter::Relieve => self.note_shortage(),
                Letter::Turn(mark) => mark.set(),
                Letter::Drain { accept_ms, timeout_ms, is_held } => self.start_draining(accept_ms, timeout_ms, is_held),
            }
        }
    }

    fn wake(&mut self, key: SlabKey) {
        if let Some(connection) = self.connection(key) {
            connection.wake();
            self.serve_bounded(key);
        }
    }

    fn on_events(&mut self, events: &Events) {
        events.iter().for_each(|event| self.on_event(event));
    }

    /// Serves a connection, which may use more memory then. Many may grow in one turn: the bound is checked after each.
    fn serve_bounded(&mut self, key: SlabKey) {
        self.serve(key);
        if self.account.is_over() {
            self.relieve();
        }
    }

    #[inline]
    fn on_event(&mut self, event: &mio::event::Event) {
        let word = event.token().0 as u64;
        let key = SlabKey::unpacked(word);
        if key.index >= LISTENER_TOKEN {
            if let Some(listening) = self.listeners.get_mut((key.index - LISTENER_TOKEN) as usize) {
                listening.is_pending = true;
            }
            return;
        }
        let Some(occupant) = self.connections.get_mut(key) else { return };
        occupant.connection.note_event(event);
        // One turn for each: a connection that is queued goes on after the others.
        if !occupant.is_queued {
            self.serve_bounded(key);
        }
    }

    fn connection(&mut self, key: SlabKey) -> Option<&mut Connection<S>> {
        self.connections.get_mut(key).map(|occupant| &mut occupant.connection)
    }

    /// The turn of a connection that was queued for it.
    fn resume(&mut self, key: SlabKey) {
        if let Some(occupant) = self.connections.get_mut(key) {
            occupant.is_queued = false;
            self.serve_bounded(key);
        }
    }

    fn serve(&mut self, key: SlabKey) {
        self.turn(key, Connection::serve);
    }

    fn refuse(&mut self, key: SlabKey, fault: Fault) {
        self.turn(key, |connection, turn| connection.refuse(fault, turn));
    }

    /// Gives one connection its turn, and carries out the verdict.
    #[inline]
    fn turn(&mut self, key: SlabKey, act: impl FnOnce(&mut Connection<S>, &mut TurnContext<'_, S>) -> Verdict) {
        let Some(occupant) = self.connections.get_mut(key) else { return };
        let connection = &mut occupant.connection;
        let (grant_bytes, moved_bytes) = (self.account.grant_bytes(), self.counters.moved_bytes());
        let Limits { head_bytes_max, header_lines_max, .. } = self.settings.limits;
        let call = SessionCall {
            service: &mut self.service,
            now: self.now.wall,
            ticket: Ticket(key.packed()),
            waiting: self.drain.map_or(Waiting::Allowed, |drain| drain.waiting(self.now.monotonic_ms)),
            limits: HeadLimits { head_bytes_max, header_lines_max },
            unsent_bytes_max: grant_bytes.min(self.settings.turn_bytes_max),
            closing: self.drain.is_some(),
            out: &mut self.out,
        };
        let (read_buffer, read_bytes_max) = (&mut *self.read_buffer, grant_bytes);
        let progress = TurnProgress::default();
        let mut turn = TurnContext { call, read_bytes_max, read_buffer, counters: &self.counters, progress };
        // A panic is the fault of one request; no other connection may suffer from it.
        let verdict = catch_unwind(AssertUnwindSafe(|| act(connection, &mut turn)))
            .or_else(|_panic| catch_unwind(AssertUnwindSafe(|| connection.refuse(Fault::Internal, &mut turn))));
        let progress = turn.progress;
        self.out.clear();
        match verdict.unwrap_or(Verdict::Close(CloseCause::Done)) {
            Verdict::Close(cause) => return self.close(key, cause),
            Verdict::Again if !occupant.is_queued => {
                occupant.is_queued = true;
                let again = if connection.is_keyed() { &mut self.keyed.again } else { &mut self.again };
                again.push_back(key);
            }
            Verdict::Again | Verdict::Wait => {}
        }
        let used_bytes = connection.used_bytes(&self.service);
        let has_moved = self.counters.moved_bytes() != moved_bytes;
        if used_bytes > 0 || occupant.is_counted {
            occupant.is_counted = used_bytes > 0;
            self.account.note(key.index, used_bytes, has_moved, self.now.monotonic_ms);
        }
        let awaited = connection.awaited();
        match awaited {
            None => self.deadlines.clear(key.index),
            now @ Some(awaited)
                if self.deadlines.awaited(key.index) != now || connection.starts_anew(awaited, progress) =>
            {
                self.deadlines.set(key.index, awaited, self.now.monotonic_ms);
            }
            Some(_) => {}
        }
        self.keyed.is_used |= connection.is_keyed();
        let has_moved = progress.has_answered || (has_moved && connection.has_unsent());
        self.contenders.note(key.index, awaited, has_moved, self.now.monotonic_ms, || occupant.network());
        if occupant.register(&self.poll, &self.keyed.poll, key).is_err() {
            self.close(key, CloseCause::Overload);
        }
    }

    /// Looks whether some of the requests that wait for a vote can be answered now.
    fn serve_woken(&mut self) {
        for _ in 0..self.woken.len().min(WOKEN_PER_TURN) {
            let Some(key) = self.woken.pop_front() else { return };
            if self.connection(key).is_some_and(|connection| connection.is_waiting()) {
                self.wake(key);
            }
        }
        if self.woken.is_empty() && self.woken.capacity() > WOKEN_PER_TURN {
            self.woken = VecDeque::new();
        }
    }

    fn close(&mut self, key: SlabKey, cause: CloseCause) {
        self.deadlines.clear(key.index);
        self.contenders.forget(key.index);
        // Dropping the socket takes it out of the poll.
        if let Some(occupant) = self.connections.remove(key) {
            if occupant.is_counted {
                self.account.forget(key.index);
            }
            self.counters.closed[cause as usize].add(1);
            self.service.gone(Ticket(key.packed()));
        }
    }

    fn expire_deadlines(&mut self) {
        let mut concluded = 0;
        while let Some((index, class)) = self.deadlines.expire(self.now.monotonic_ms) {
            let Some(key) = self.connections.key_of(index) else { continue };
            match class {
                Class::Request => self.refuse(key, Fault::RequestTimeout),
                Class::Idle | Class::Fresh => {
                    self.close_if_idle(key, CloseCause::Idle);
                }
                Class::Write => self.close(key, CloseCause::WriteTimeout),
                Class::Linger => self.close(key, CloseCause::Done),
                // `expire` gives waiting requests last: no other deadline is left for the next turn.
                Class::Waiting(_) => {
                    self.turn(key, |connection, turn| connection.conclude(Waiting::TimeIsUp, turn));
                    concluded += 1;
                    if concluded == WOKEN_PER_TURN {
                        return;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
