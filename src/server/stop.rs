//! The stop: what is under way is answered, then every thread is waited for.

use super::state::Run;
use super::takeover::Handover;
use super::threads::{Serving, ThreadKind};
use super::{Config, Ended, ServerError, banner, notify};
use crate::net::mailbox::Letter;

/// The control listener has few clients, and no reason to wait long for them, in milliseconds.
const CONTROL_DRAIN_MS: u64 = 2_000;

impl Run {
    /// Stops in order. Public listeners first: the control one still tells that they are going. The
    /// recorder last: what was accepted is recorded and answered.
    pub(super) fn stop(mut self) -> Result<Ended, ServerError> {
        notify::tell(notify::STOPPING);
        self.close_gate();
        if self.stop_listeners()? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if self.recorder.is_some() && self.wait_for(ThreadKind::Recorder, 1)? == Ended::AtOnce {
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
        // Where a takeover has been cut short, a further signal stops at once, as it does otherwise.
        let probes = self.handover.take().and_then(|Handover { probes, .. }| probes);
        let Config { drain_delay_ms, drain_timeout_ms, .. } = self.config;
        for serving in &self.public {
            (serving.tell)(Letter::Drain { accept_ms: drain_delay_ms, timeout_ms: drain_timeout_ms });
        }
        if self.wait_for(ThreadKind::Worker, self.public.len())? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        let timeout_ms = self.control_drain_ms();
        let drain = |serving: &Serving| (serving.tell)(Letter::Drain { accept_ms: 0, timeout_ms });
        if let Some(probes) = probes {
            // Whoever waits there for a recorder is answered that none comes.
            drain(&probes);
            let _reported = probes.thread.join();
        }
        let Some(control) = &self.control else { return Ok(Ended::Cleanly) };
        drain(control);
        let ended = self.wait_for(ThreadKind::Control, 1)?;
        self.sockets.remove_files();
        Ok(ended)
    }

    /// How long the control listener's clients are given.
    pub(super) fn control_drain_ms(&self) -> u64 {
        self.config.drain_timeout_ms.min(CONTROL_DRAIN_MS)
    }

    /// Collects the threads. To be called where all of them have ended, or end by themselves.
    pub(super) fn join(&mut self) {
        let Handover { probes, control, .. } = self.handover.take().unwrap_or_default();
        for serving in self.public.drain(..).chain(self.control.take()).chain(probes).chain(control) {
            // Its end was reported already, and how.
            let _reported = serving.thread.join();
        }
        if let Some(recorder) = self.recorder.take() {
            let _reported = recorder.join();
        }
        if let Some(access) = self.access.take() {
            access.end();
        }
    }
}
