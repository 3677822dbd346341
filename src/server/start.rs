//! The start: the recorder reads the store, and listeners answer 503 until it is read.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::backend::{Backend, Helper, WriteSide};
use super::state::Run;
use super::threads::{ServerEvent, ThreadKind, start_thread};
use super::{ServerError, notify};
use crate::recorder::command::Command;

/// A client in the field gives up after 5 s: until then it may wait for a store that is being read,
/// in milliseconds.
const LOAD_PATIENCE_MS: u64 = 3_000;

/// What is in the way of the load is looked for so often, in milliseconds.
const HINDERED_POLL_MS: u64 = 20;

/// While the store is read, the service manager is told what is wrong so often, in milliseconds.
const LOAD_REPORT_MS: u64 = 1_000;

/// Where a load stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadProgress {
    Loaded,
    /// The service was told to stop before.
    Stopped,
    /// It takes longer than it was waited for.
    UnderWay,
}

/// How the recorder gets its store.
pub(super) enum Opening {
    /// With all that is in it, and a demonstration's commands.
    First(Vec<Command>),
    /// After it was closed: what is in it is known.
    Again,
}

impl Run {
    /// Starts without a predecessor. Listeners first: while the store is read, or cannot be, 503 is a better
    /// answer than none. Sockets that were passed listen already, so whoever waits there may wait a moment
    /// longer: a restart in which the manager keeps the sockets is seen by nobody.
    pub(super) fn start(&mut self, write_side: WriteSide) -> Result<LoadProgress, ServerError> {
        let WriteSide { backend, handle, helpers, cluster: _ } = write_side;
        self.start_writing(backend, helpers)?;
        let are_passed = self.sockets.are_passed();
        let early = if are_passed { self.wait_for_news(false, LOAD_PATIENCE_MS)? } else { LoadProgress::UnderWay };
        if early == LoadProgress::Stopped {
            return Ok(early);
        }
        self.start_public(Vec::new())?;
        self.start_control(handle, Vec::new())?;
        if early == LoadProgress::UnderWay && !are_passed {
            self.wait_for_news(false, LOAD_PATIENCE_MS)
        } else {
            Ok(early)
        }
    }

    /// Waits for the rest of the load, and calls `announce` as soon as something is in its way, since
    /// listeners answer 503 for as long as that lasts, and once it is done: by then a new process can call.
    pub(super) fn finish_load(
        &mut self,
        mut progress: LoadProgress,
        mut announce: impl FnMut(&Self),
    ) -> Result<LoadProgress, ServerError> {
        if progress != LoadProgress::Stopped {
            notify::tell(notify::READY);
        }
        while progress == LoadProgress::UnderWay {
            let is_hindered = self.is_hindered();
            if is_hindered {
                announce(self);
            }
            self.manager.tell(&self.config.readiness);
            progress = self.wait_for_news(is_hindered, LOAD_REPORT_MS)?;
        }
        if progress == LoadProgress::Loaded {
            self.open_gate();
            announce(self);
        }
        Ok(progress)
    }

    /// Starts the recorder for the first time, and the threads that it needs besides its own.
    pub(super) fn start_writing(&mut self, backend: Backend, helpers: Vec<Helper>) -> Result<(), ServerError> {
        for (kind, work) in helpers {
            // They end once the recorder has, or with the process.
            let run = move || {
                work();
                Ok(())
            };
            drop(start_thread(kind, run, drop, self.sender.clone())?);
        }
        let seed = std::mem::take(&mut self.config.seed);
        self.start_recorder(backend, Opening::First(seed))
    }

    /// Starts the recorder. It reports when its store is open, and ends with the last handle.
    pub(super) fn start_recorder(&mut self, mut backend: Backend, opening: Opening) -> Result<(), ServerError> {
        let events = self.sender.clone();
        let work = move || {
            let run = AssertUnwindSafe(|| {
                let (opened, has_state) = match opening {
                    Opening::First(seed) => (backend.load(seed), false),
                    Opening::Again => (backend.reopen(), true),
                };
                // With a state in memory, it answers and retries even where the store stays shut.
                let goes_on = opened.is_ok() || has_state;
                // The main thread outlives this one.
                let _received = events.send(ServerEvent::Loaded(opened));
                if goes_on {
                    backend.run();
                }
            });
            let ended = match catch_unwind(run) {
                Ok(()) => ServerEvent::Ended(ThreadKind::Recorder),
                Err(_) => ServerEvent::Failed(io::Error::other("the recorder panicked")),
            };
            let _received = events.send(ended);
            backend
        };
        self.recorder = Some(ThreadKind::Recorder.spawn(work)?);
        Ok(())
    }

    /// Waits until the recorder has read its store, at most until that instant.
    pub(super) fn wait_until_loaded(&mut self, until_ms: Option<u64>) -> Result<LoadProgress, ServerError> {
        loop {
            match self.next_event(until_ms)? {
                Some(ServerEvent::Loaded(loaded)) => {
                    return loaded.map(|()| LoadProgress::Loaded).map_err(ServerError::Store);
                }
                // One that has given everything away to a successor that failed.
                Some(ServerEvent::Ended(ThreadKind::Worker)) if self.handover.is_some() => {
                    self.ended.push(ThreadKind::Worker);
                }
                Some(ServerEvent::Ended(kind)) => return Err(ServerError::Thread(kind)),
                Some(ServerEvent::Signal) => return Ok(LoadProgress::Stopped),
                Some(event) => self.set_aside(event),
                None => return Ok(LoadProgress::UnderWay),
            }
        }
    }

    /// Waits until the store is read, until a trouble comes up or is settled, or for so long.
    pub(super) fn wait_for_news(&mut self, was_hindered: bool, patience_ms: u64) -> Result<LoadProgress, ServerError> {
        let until_ms = self.at_ms(patience_ms);
        loop {
            let is_late = self.clock.now().monotonic_ms >= until_ms;
            let progress = self.wait_until_loaded(Some(until_ms.min(self.at_ms(HINDERED_POLL_MS))))?;
            if progress != LoadProgress::UnderWay || is_late || self.is_hindered() != was_hindered {
                return Ok(progress);
            }
        }
    }

    /// Whether something keeps the service from being ready.
    pub(super) fn is_hindered(&self) -> bool {
        self.config.readiness.gravest().is_some()
    }
}
