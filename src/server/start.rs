//! The start: the recorder reads the store, and listeners answer 503 until it is read.

use std::sync::Arc;
use std::thread::JoinHandle;

use super::backend::{Load, WriteSide};
use super::state::Run;
use super::threads::{ServerEvent, ThreadKind, start_thread};
use super::{Role, ServerError, notify};
use crate::recorder::shared::SharedStore;

/// The longest wait for the load before the service manager is told that the service answers, in milliseconds. Clients
/// of passed sockets get no answer meanwhile, and a client in the field gives up after 5 s.
const LOAD_PATIENCE_MS: u64 = 3_000;

/// The pause between two looks for an obstacle to the load, in milliseconds.
const HINDERED_POLL_MS: u64 = 20;

/// The progress of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadProgress {
    Loaded,
    /// The service was told to stop before the load was done.
    Stopped,
    /// The load goes on: the main thread has waited long enough, or a trouble has begun or ended.
    UnderWay,
}

impl Run {
    /// Starts all threads. Listeners do not wait for the load: while the store is read, or cannot be, 503 is a better
    /// answer than none. Where sockets were passed, connections queue in them for a moment first: clients then do not
    /// see a restart in which the manager keeps the sockets.
    pub(super) fn start(&mut self, write_side: WriteSide) -> Result<LoadProgress, ServerError> {
        let WriteSide { handle, load, helpers, .. } = write_side;
        for (kind, work) in helpers {
            // Helpers end after the recorder, or with the process.
            drop(self.start_thread(kind, work)?);
        }
        self.start_recorder(load)?;
        let are_passed = [Role::Public, Role::Control].into_iter().any(|role| self.sockets.are_passed(role));
        let early = if are_passed { self.wait_for_news(false, LOAD_PATIENCE_MS)? } else { LoadProgress::UnderWay };
        if early == LoadProgress::Stopped {
            return Ok(early);
        }
        self.start_public()?;
        self.start_control(handle)?;
        if are_passed { Ok(early) } else { self.wait_for_news(false, LOAD_PATIENCE_MS) }
    }

    /// Waits for the rest of the load. Calls `announce` once the load is done, and as soon as an obstacle
    /// comes up: listeners answer 503 for as long as it lasts.
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
            self.tell_manager();
            progress = self.wait_for_news(is_hindered, self.watchdog.pause_ms())?;
        }
        if progress == LoadProgress::Loaded {
            announce(self);
        }
        Ok(progress)
    }

    /// Starts the recorder. It reports when its state is read, and ends with the last handle.
    fn start_recorder(&mut self, load: Load) -> Result<(), ServerError> {
        let events = self.events.sender.clone();
        let work = move || {
            let (loaded, run) = match load() {
                Ok(run) => (Ok(()), Some(run)),
                Err(error) => (Err(error), None),
            };
            // The main thread outlives this one.
            let _received = events.send(Ok(ServerEvent::Loaded(loaded)));
            run.into_iter().for_each(|run| run());
        };
        self.recorder = Some(self.start_thread(ThreadKind::Recorder, work)?);
        Ok(())
    }

    fn start_thread(
        &self,
        kind: ThreadKind,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, ServerError> {
        let work = move || {
            work();
            Ok(())
        };
        start_thread(kind, work, self.events.sender.clone())
    }

    /// Waits until the store is read, a trouble comes up or is settled, or the patience is over.
    fn wait_for_news(&self, was_hindered: bool, patience_ms: u64) -> Result<LoadProgress, ServerError> {
        let until_ms = self.at_ms(patience_ms);
        loop {
            let now_ms = self.clock.now().monotonic_ms;
            self.config.readiness.look(now_ms);
            let is_late = now_ms >= until_ms;
            match self.next_event(until_ms.min(self.at_ms(HINDERED_POLL_MS)))? {
                Some(ServerEvent::Loaded(loaded)) => {
                    return loaded.map(|()| LoadProgress::Loaded).map_err(ServerError::Store);
                }
                Some(ServerEvent::Stop) => return Ok(LoadProgress::Stopped),
                Some(ServerEvent::Ended(kind)) => return Err(ServerError::Thread(kind)),
                None if is_late || self.is_hindered() != was_hindered => return Ok(LoadProgress::UnderWay),
                None => {}
            }
        }
    }

    /// Whether something keeps the service from being ready.
    fn is_hindered(&self) -> bool {
        let is_unreadable = |shared: &Arc<dyn SharedStore>| shared.unreadable().is_some();
        self.config.readiness.gravest().is_some() || self.views.shared.as_ref().is_some_and(is_unreadable)
    }
}
