//! The stop: the service answers the requests under way, then waits for every thread.

use super::state::{NEVER_MS, Run};
use super::threads::{Serving, ThreadKind};
use super::{Config, Ended, Role, ServerError, banner, notify};
use crate::limits::DRAIN_GRACE_MS;
use crate::net::mailbox::Letter;

/// The longest drain of the control listener, in milliseconds: its clients are few. If clients of the public
/// listeners take all of the time, the control listener begins to drain this long before the end.
const CONTROL_DRAIN_MS: u64 = 2_000;

/// The least time for a recorder that writes, in milliseconds, however short the drain is.
const RECORDER_MS_MIN: u64 = 500;

impl Run {
    /// Stops in order. Public listeners first: the control one still tells that they are going. The recorder last:
    /// accepted changes are recorded and answered. A recorder that hangs in the disk is left behind.
    pub(super) fn stop(mut self) -> Result<Ended, ServerError> {
        let end_ms = self.stop_end_ms();
        if self.drain()? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        // The recorder ends after the control worker; clients of the public listeners may stay a moment longer.
        let until_ms = end_ms.max(self.at_ms(RECORDER_MS_MIN));
        if self.close_listeners()? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        let ended = self.wait_for(ThreadKind::Recorder, 1, until_ms)?;
        if ended == Ended::Overdue {
            let work = self.config.readiness.work(self.clock.now().monotonic_ms);
            let doing = work
                .map_or(String::new(), |(doing, seconds)| format!("; the recorder has been {doing} for {seconds} s"));
            log::error!(
                "the store did not end within --drain-timeout{doing}: the process ends without it; changes that were answered 503 may have been recorded or not"
            );
        }
        if ended == Ended::Cleanly {
            self.join();
            banner::say_stopped(&self.sources, self.clock.now().wall.0.saturating_sub(self.sources.started_at.0));
        }
        Ok(ended)
    }

    /// When a stop that begins now is to be over.
    fn stop_end_ms(&self) -> u64 {
        self.at_ms(self.config.drain_delay_ms.saturating_add(self.config.drain_timeout_ms))
    }

    /// Answers the requests under way, and ends the threads that serve.
    pub(super) fn stop_listeners(&mut self) -> Result<Ended, ServerError> {
        match self.drain()? {
            Ended::AtOnce => Ok(Ended::AtOnce),
            Ended::Cleanly | Ended::Overdue => self.close_listeners(),
        }
    }

    /// Has all workers answer the requests under way, and waits for the end of the control worker.
    fn drain(&mut self) -> Result<Ended, ServerError> {
        notify::tell(notify::STOPPING);
        log::info!("stopping: what is under way is answered");
        self.config.readiness.set_stopping();
        let Config { drain_delay_ms, drain_timeout_ms, .. } = self.config;
        let control_timeout_ms = CONTROL_DRAIN_MS.min(drain_timeout_ms / 2);
        let control_from_ms = self.stop_end_ms().saturating_sub(control_timeout_ms + DRAIN_GRACE_MS);
        let is_public_held = self.sockets.are_passed(Role::Public);
        let is_control_held = self.sockets.are_passed(Role::Control);
        let drain = |serving: &Serving, accept_ms, timeout_ms, is_held| {
            (serving.tell)(Letter::Drain { accept_ms, timeout_ms, is_held });
        };
        for serving in &self.public {
            drain(serving, Some(drain_delay_ms), drain_timeout_ms, is_public_held);
        }
        if let Some(control) = self.control.as_ref().filter(|_| is_public_held) {
            // Control clients may go meanwhile: once the public workers end, newcomers queue until the process does.
            drain(control, None, control_timeout_ms, is_control_held);
        }
        if self.wait_for(ThreadKind::Worker, self.public.len(), control_from_ms)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if let Some(control) = &self.control {
            drain(control, Some(0), control_timeout_ms, is_control_held);
        }
        // The control worker ends by itself in its time, and so do the others.
        self.wait_for(ThreadKind::Control, self.control.iter().len(), NEVER_MS)
    }

    /// Waits for the workers, and removes the socket files.
    fn close_listeners(&mut self) -> Result<Ended, ServerError> {
        let ended = self.wait_for(ThreadKind::Worker, self.public.len(), NEVER_MS)?;
        if ended != Ended::AtOnce {
            self.sockets.remove_files();
        }
        Ok(ended)
    }

    /// Collects the threads. Call it once all of them have ended, or end by themselves.
    fn join(&mut self) {
        let serving = self.public.drain(..).chain(self.control.take()).map(|serving| serving.thread);
        for thread in serving.chain(self.recorder.take()) {
            // The thread has reported its end already.
            let _reported = thread.join();
        }
    }
}
