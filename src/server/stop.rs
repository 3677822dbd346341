//! The stop: what is under way is answered, then every thread is waited for.

use super::state::Run;
use super::threads::{Serving, ThreadKind};
use super::{Config, Ended, Role, ServerError, banner, notify};
use crate::net::mailbox::Letter;

/// The control listener has few clients, and no reason to wait long for them, in milliseconds.
const CONTROL_DRAIN_MS: u64 = 2_000;

impl Run {
    /// Stops in order. Public listeners first: the control one still tells that they are going. The
    /// recorder last: what was accepted is recorded and answered.
    pub(super) fn stop(mut self) -> Result<Ended, ServerError> {
        notify::tell(notify::STOPPING);
        if self.stop_listeners()? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if self.wait_for(ThreadKind::Recorder, 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        self.join();
        banner::say_stopped(&self.sources, self.clock.now().wall.0.saturating_sub(self.sources.started_at.0));
        Ok(Ended::Cleanly)
    }

    /// Answers what is under way, and ends the threads that serve.
    pub(super) fn stop_listeners(&mut self) -> Result<Ended, ServerError> {
        log::info!("stopping: what is under way is answered");
        self.config.readiness.set_stopping();
        let Config { drain_delay_ms, drain_timeout_ms, .. } = self.config;
        let control_timeout_ms = drain_timeout_ms.min(CONTROL_DRAIN_MS);
        let is_public_held = self.sockets.are_passed(Role::Public);
        let is_control_held = self.sockets.are_passed(Role::Control);
        let drain = |serving: &Serving, accept_ms, timeout_ms, is_held| {
            (serving.tell)(Letter::Drain { accept_ms, timeout_ms, is_held });
        };
        for serving in &self.public {
            drain(serving, Some(drain_delay_ms), drain_timeout_ms, is_public_held);
        }
        if let Some(control) = self.control.as_ref().filter(|_| is_public_held) {
            // Its clients may go meanwhile: once the public listeners are closed, newcomers wait for its end.
            drain(control, None, control_timeout_ms, is_control_held);
        }
        if self.wait_for(ThreadKind::Worker, self.public.len())? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        let Some(control) = &self.control else { return Ok(Ended::Cleanly) };
        drain(control, Some(0), control_timeout_ms, is_control_held);
        let ended = self.wait_for(ThreadKind::Control, 1)?;
        self.sockets.remove_files();
        Ok(ended)
    }

    /// Collects the threads. To be called where all of them have ended, or end by themselves.
    fn join(&mut self) {
        let serving = self.public.drain(..).chain(self.control.take()).map(|serving| serving.thread);
        for thread in serving.chain(self.recorder.take()) {
            // Its end was reported already, and how.
            let _reported = thread.join();
        }
    }
}
