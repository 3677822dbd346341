//! What a run of the service holds, and how its main thread learns what happens.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::access_log::AccessLogger;
use super::backend::{Backend, StoreChoice, WriteSide};
use super::notify::Manager;
use super::sockets::Sockets;
use super::takeover::Handover;
use super::threads::{ServerEvent, Serving, ThreadKind, forward};
use super::{Config, Ended, ServerError, Signal};
use crate::clock::Clock;
use crate::control::cluster::ClusterView;
use crate::control::metrics::Sources;
use crate::net::budget::Budget;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;
use crate::waiting::WaitingRoom;
use crate::watch::WatchBoard;

/// Read-only views of the state, for those who answer from it.
pub(super) struct Views {
    pub(super) directory: DirectoryView,
    pub(super) cooldowns: CooldownView,
    pub(super) waiting: WaitingRoom,
    /// Who watches what is asked and recorded.
    pub(super) board: WatchBoard,
    /// Where the recorder stands with other nodes, if there are any.
    pub(super) cluster: Option<ClusterView>,
}

/// The running parts.
pub(super) struct Run {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) sockets: Sockets,
    pub(super) views: Views,
    /// Every thread's counters.
    pub(super) sources: Sources,
    pub(super) access: Option<AccessLogger>,
    pub(super) public: Vec<Serving>,
    /// None before it is started, and during a takeover.
    pub(super) control: Option<Serving>,
    /// The recorder's thread, which gives the recorder back when it ends. None during a takeover.
    pub(super) recorder: Option<JoinHandle<Backend>>,
    pub(super) events: Receiver<ServerEvent>,
    pub(super) sender: Sender<ServerEvent>,
    /// Threads that have ended and were not waited for yet.
    pub(super) ended: Vec<ThreadKind>,
    /// The socket file where a new process can call.
    pub(super) gate: Option<PathBuf>,
    /// What is kept while a new process takes over from this one.
    pub(super) handover: Option<Handover>,
    pub(super) manager: Manager,
}

impl Run {
    pub(super) fn new(
        mut config: Config,
        sockets: Sockets,
        store: StoreChoice,
        signals: Receiver<Signal>,
    ) -> Result<(Self, WriteSide), ServerError> {
        let clock = Clock::new();
        let write_side = WriteSide::new(store, &clock, config.cooldown, &config.readiness);
        let WriteSide { backend, cluster, .. } = &write_side;
        let live = backend.live();
        let (directory, cooldowns, waiting) = (live.directory(), live.cooldowns(), live.waiting());
        waiting.set_places(config.limits.waiting_max);
        let views =
            Views { directory, cooldowns, waiting: waiting.clone(), board: live.board(), cluster: cluster.clone() };
        let (sender, events) = channel();
        forward(signals, sender.clone())?;
        let sources = Sources {
            started_at: clock.now().wall,
            engine: config.engine.name(),
            answers: Vec::new(),
            access: Vec::new(),
            workers: Vec::new(),
            budget: Budget::new(config.limits.buffer_bytes_max),
            recorder: live.counters(),
            waiting,
            log_dropped: Arc::clone(&config.log_dropped),
            watch: Arc::default(),
        };
        let access = config.access_log.take().map(AccessLogger::start).transpose().map_err(ServerError::Engine)?;
        let run = Self {
            config,
            clock,
            sockets,
            views,
            sources,
            access,
            public: Vec::new(),
            control: None,
            recorder: None,
            events,
            sender,
            ended: Vec::new(),
            gate: None,
            handover: None,
            manager: Manager::default(),
        };
        Ok((run, write_side))
    }

    /// The instant that is `ahead_ms` milliseconds from now.
    pub(super) fn at_ms(&self, ahead_ms: u64) -> u64 {
        self.clock.now().monotonic_ms + ahead_ms
    }

    /// The next event that somebody has to act on; `None` where there is none until that instant.
    pub(super) fn next_event(&mut self, until_ms: Option<u64>) -> Result<Option<ServerEvent>, ServerError> {
        loop {
            self.check_invariants();
            let event = match until_ms {
                None => self.events.recv().map_err(|_| ServerError::Thread(ThreadKind::Signal))?,
                Some(until_ms) => {
                    let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
                    let Ok(event) = self.events.recv_timeout(Duration::from_millis(left_ms)) else { return Ok(None) };
                    event
                }
            };
            let handover = self.handover.as_mut();
            match event {
                ServerEvent::Failed(error) => return Err(ServerError::Engine(error)),
                // It has given away what it had, and ends when the rest is answered: nobody waits for it.
                ServerEvent::Ended(ThreadKind::Probes) => continue,
                ServerEvent::Signal => {
                    let is_told = |handover: &mut Handover| std::mem::replace(&mut handover.is_told_to_stop, true);
                    if handover.is_some_and(|handover| !is_told(handover)) {
                        continue;
                    }
                }
                ServerEvent::HungUp => handover.into_iter().for_each(|handover| handover.has_hung_up = true),
                _ => {}
            }
            return Ok(Some(event));
        }
    }

    /// What comes while something else is waited for. A caller is hung up on, and knows by that that it
    /// gets nothing.
    pub(super) fn set_aside(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Called(channel) => channel.hang_up(),
            ServerEvent::Ended(kind) => self.ended.push(kind),
            _ => {}
        }
    }

    /// Waits until `count` threads of a kind have ended; others may end meanwhile.
    pub(super) fn wait_for(&mut self, kind: ThreadKind, count: usize) -> Result<Ended, ServerError> {
        while self.count_ended(kind) < count {
            match self.next_event(None)? {
                Some(ServerEvent::Signal) => return Ok(Ended::AtOnce),
                Some(event) => self.set_aside(event),
                None => {}
            }
        }
        self.ended.retain(|ended| *ended != kind);
        Ok(Ended::Cleanly)
    }

    /// How many threads of a kind have ended and were not waited for yet.
    pub(super) fn count_ended(&self, kind: ThreadKind) -> usize {
        self.ended.iter().filter(|ended| **ended == kind).count()
    }

    /// What holds at every turn of the main thread.
    fn check_invariants(&self) {
        let Self { control, recorder, gate, handover, .. } = self;
        let has_closed = handover.as_ref().is_some_and(|handover| handover.closed.is_some());
        debug_assert!(!has_closed || recorder.is_none(), "one recorder at most");
        debug_assert!(control.is_none() || !has_closed, "votes are taken only where somebody records");
        debug_assert!(gate.is_none() || gate == &self.config.gate, "callers are heard where they were told to call");
        debug_assert!(handover.is_none() || !self.public.is_empty(), "a takeover is never without answers");
    }
}
