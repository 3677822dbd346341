//! The parts of a run of the service, and the events that its main thread waits for.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::backend::{StoreChoice, Views, WriteSide};
use super::notify::Manager;
use super::sockets::Sockets;
use super::threads::{Events, ServerEvent, Serving, ThreadKind};
use super::watchdog::Watchdog;
use super::{Config, Ended, ServerError};
use crate::clock::Clock;
use crate::control::metrics::Sources;
use crate::net::budget::Budget;

/// The instant that never comes.
pub(super) const NEVER_MS: u64 = u64::MAX;

/// The running parts.
pub(super) struct Run {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) sockets: Sockets,
    pub(super) views: Views,
    /// Every thread's counters.
    pub(super) sources: Sources,
    pub(super) public: Vec<Serving>,
    /// None before it is started.
    pub(super) control: Option<Serving>,
    /// None before it is started.
    pub(super) recorder: Option<JoinHandle<()>>,
    pub(super) events: Events,
    /// Threads that have ended and were not waited for yet.
    pub(super) ended: Vec<ThreadKind>,
    pub(super) manager: Manager,
    pub(super) watchdog: Watchdog,
}

impl Run {
    pub(super) fn new(
        mut config: Config,
        sockets: Sockets,
        store: StoreChoice,
        events: Events,
    ) -> Result<(Self, WriteSide), ServerError> {
        let clock = Clock::new();
        let write_side = WriteSide::new(store, &clock, &mut config);
        let views = write_side.views.clone();
        views.waiting.set_slots(config.waiting_max);
        let sources = Sources {
            started_at: clock.now().wall,
            engine: config.engine.name(),
            answers: Vec::new(),
            workers: Vec::new(),
            budget: Budget::new(config.limits.buffer_bytes_max),
            recorder: Arc::clone(&views.counters),
            waiting: views.waiting.clone(),
            log_dropped: Arc::clone(&config.log_dropped),
            watch: views.board.clone(),
        };
        let run = Self {
            config,
            clock,
            sockets,
            views,
            sources,
            public: Vec::new(),
            control: None,
            recorder: None,
            events,
            ended: Vec::new(),
            manager: Manager::default(),
            watchdog: Watchdog::from_environment(),
        };
        Ok((run, write_side))
    }

    /// Tells the service manager of troubles, and that the loops turn.
    pub(super) fn tell_manager(&mut self) {
        self.manager.tell(&self.config.readiness);
        self.watchdog.look(self.clock.now().monotonic_ms, self.public.iter().chain(&self.control));
    }

    /// The instant that is `ahead_ms` milliseconds from now.
    pub(super) fn at_ms(&self, ahead_ms: u64) -> u64 {
        self.clock.now().monotonic_ms.saturating_add(ahead_ms)
    }

    /// The next event; `None` if there is none until that instant.
    pub(super) fn next_event(&self, until_ms: u64) -> Result<Option<ServerEvent>, ServerError> {
        let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
        // This run has a sender itself, so the end never comes.
        self.events.receiver.recv_timeout(Duration::from_millis(left_ms)).ok().transpose()
    }

    /// Waits until `count` threads of a kind have ended, or until that instant; others may end meanwhile.
    pub(super) fn wait_for(&mut self, kind: ThreadKind, count: usize, until_ms: u64) -> Result<Ended, ServerError> {
        while self.ended.iter().filter(|ended| **ended == kind).count() < count {
            self.watchdog.look_aside(self.clock.now().monotonic_ms);
            match self.next_event(until_ms.min(self.at_ms(self.watchdog.pause_ms())))? {
                None if self.clock.now().monotonic_ms < until_ms => {}
                None => return Ok(Ended::Overdue),
                Some(ServerEvent::Stop) => return Ok(Ended::AtOnce),
                Some(ServerEvent::Ended(kind)) => self.ended.push(kind),
                Some(_) => {}
            }
        }
        Ok(Ended::Cleanly)
    }
}
