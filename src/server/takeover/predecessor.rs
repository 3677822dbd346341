//! The side of the running process in a takeover: it gives all that it has to the new one, or takes it back.
//! [`super::protocol`] has the drawing.

use std::sync::mpsc::channel;

use super::estate::Estate;
use super::gate::TAKING_MS;
use super::probes::GIVING_PATIENCE;
use super::protocol::{TakeoverMessage, VERSION, say};
use super::{Handover, TakeoverOutcome};
use crate::net::fd_channel::FdChannel;
use crate::net::mailbox::{Handed, Letter};
use crate::readiness::Trouble;
use crate::server::start::{LoadProgress, Opening};
use crate::server::state::Run;
use crate::server::threads::{ServerEvent, ThreadKind};
use crate::server::{Ended, Role, ServerError};

/// Requests that are under way when everything else is given away, and whoever cannot be given, may
/// hold up the reporting of votes for so long, in milliseconds.
const REST_PATIENCE_MS: u64 = 1_000;

/// A caller that says nothing for so long, in milliseconds, is as good as gone: while it loads, it says
/// so every second.
const SILENCE_MS: u64 = 10_000;

/// Why nothing is given.
const STORE_GONE: &str =
    "its store is no longer at its path, and what it knows is in memory alone: do what its log says first";

impl Run {
    /// Answers a caller: gives everything to it, or goes on.
    pub(in crate::server) fn hand_over(&mut self, channel: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        let outcome = self.answer(channel)?;
        if outcome != TakeoverOutcome::None {
            // A caller waits until this process is gone.
            return Ok(outcome);
        }
        channel.hang_up();
        let is_told_to_stop = self.handover.take().is_some_and(|handover| handover.is_told_to_stop);
        Ok(if is_told_to_stop { TakeoverOutcome::Stopped } else { TakeoverOutcome::None })
    }

    fn answer(&mut self, channel: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Hello { .. }) if self.is_store_gone() => {
                refuse(channel, STORE_GONE);
                return Ok(TakeoverOutcome::None);
            }
            Heard::Message(TakeoverMessage::Hello { version: VERSION }) => {}
            Heard::Message(_) => {
                refuse(channel, "it is of a version that gives nothing to this one");
                return Ok(TakeoverOutcome::None);
            }
            Heard::HungUp => return Ok(TakeoverOutcome::None),
            Heard::Stop => return Ok(TakeoverOutcome::Stopped),
        }
        // Here and below: where it cannot be said, the new process is gone, and the next hearing tells.
        let _heard = say(channel, &TakeoverMessage::Listening { places: self.sockets.places() });
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Release) => {}
            Heard::Message(_) | Heard::HungUp => return Ok(TakeoverOutcome::None),
            Heard::Stop => return Ok(TakeoverOutcome::Stopped),
        }
        log::info!("another process takes over");
        if self.release()? == Ended::AtOnce {
            return Ok(TakeoverOutcome::Stopped);
        }
        // The recorder has looked after its store's place until just now.
        if self.is_store_gone() {
            refuse(channel, STORE_GONE);
            channel.hang_up();
            return self.go_on();
        }
        let _heard = say(channel, &TakeoverMessage::Released);
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Ready) => self.give(channel),
            Heard::Message(_) | Heard::HungUp => {
                channel.hang_up();
                self.resume()
            }
            Heard::Stop => Ok(TakeoverOutcome::Stopped),
        }
    }

    /// Whether a new process would read another store, or make an empty one.
    fn is_store_gone(&self) -> bool {
        self.config.readiness.has(Trouble::StoreGone)
    }

    /// Ends the control worker, while another one in its place answers what needs no recorder, and then the
    /// recorder, which closes its store. Cut short where this process is told to stop at once.
    fn release(&mut self) -> Result<Ended, ServerError> {
        let Handed { listeners, clients } = self.have_control_handed(self.control.as_ref());
        self.sockets.inherit(Role::Control, listeners)?;
        let probes = Some(self.start_probes(clients)?);
        self.handover = Some(Handover { probes, ..Handover::default() });
        if self.wait_for(ThreadKind::Control, 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        // Its thread is seeing off who has only to go.
        self.handover.get_or_insert_default().control = self.control.take();
        // It ends with its last handle, which was the control worker's.
        if self.wait_for(ThreadKind::Recorder, 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        let closed = self.recorder.take().and_then(|thread| thread.join().ok());
        self.handover.get_or_insert_default().closed = closed;
        Ok(Ended::Cleanly)
    }

    /// Gives away what is left: the new process has loaded the state, and nobody records.
    fn give(&mut self, channel: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        let public = self.have_public_handed();
        let probes = self.handover.as_ref().and_then(|handover| handover.probes.as_ref());
        let estate = Estate { public, control: self.have_control_handed(probes) };
        if estate.send(channel).is_err() || !self.is_taken(channel)? {
            channel.hang_up();
            return self.take_back(estate);
        }
        drop(estate);
        // The files of the gate and of Unix sockets are the new process's from now on.
        self.gate = None;
        self.sockets.leave_files();
        let until_ms = self.at_ms(REST_PATIENCE_MS);
        while self.count_ended(ThreadKind::Worker) < self.public.len() {
            let Some(event) = self.next_event(Some(until_ms))? else { break };
            self.set_aside(event);
        }
        // From the next vote on, what is known here is not all.
        self.config.readiness.set_succeeded();
        let _heard = say(channel, &TakeoverMessage::Done);
        if self.wait_for(ThreadKind::Worker, self.public.len())? == Ended::Cleanly {
            self.join();
        }
        log::info!("another process has taken over");
        Ok(TakeoverOutcome::Done)
    }

    /// What the public workers give away. They answer the rest and end.
    fn have_public_handed(&self) -> Handed {
        let timeout_ms = self.config.drain_timeout_ms;
        let (to, handed) = channel();
        for serving in &self.public {
            (serving.tell)(Letter::HandOver { to: to.clone(), timeout_ms });
        }
        let mut public = Handed::default();
        for _worker in &self.public {
            let Ok(Handed { listeners, clients }) = handed.recv_timeout(GIVING_PATIENCE) else {
                log::error!("a worker does not give its listeners away: whoever waits in them is lost");
                break;
            };
            public.listeners.extend(listeners);
            public.clients.extend(clients);
        }
        public
    }

    /// Whether the new process has all, and knows that it is to answer.
    fn is_taken(&mut self, channel: &FdChannel) -> Result<bool, ServerError> {
        let mut until_ms = Some(self.at_ms(TAKING_MS));
        while !self.has_hung_up() {
            match self.next_event(until_ms)? {
                Some(ServerEvent::Said(TakeoverMessage::Taken)) => return Ok(true),
                Some(event) => self.set_aside(event),
                // From here on it can say nothing. What it has said before still comes, and then its end.
                None => {
                    channel.hang_up();
                    until_ms = None;
                }
            }
        }
        Ok(false)
    }

    /// Starts workers with all that the new process has not taken. The old workers answer what they have
    /// left, and end.
    fn take_back(&mut self, estate: Estate) -> Result<TakeoverOutcome, ServerError> {
        let Estate { public, control } = estate;
        self.sockets.inherit(Role::Control, control.listeners)?;
        let probes = self.start_probes(control.clients)?;
        self.handover.get_or_insert_default().probes = Some(probes);
        let before = std::mem::take(&mut self.public);
        self.sources.workers.retain(|source| source.listener != "public");
        self.sockets.inherit(Role::Public, public.listeners)?;
        self.start_public(public.clients)?;
        let outcome = self.resume()?;
        if outcome == TakeoverOutcome::None && self.wait_for(ThreadKind::Worker, before.len())? == Ended::AtOnce {
            return Ok(TakeoverOutcome::Stopped);
        }
        Ok(outcome)
    }

    /// Goes on, as the new process has not taken over.
    fn resume(&mut self) -> Result<TakeoverOutcome, ServerError> {
        log::warn!("the process that was to take over is gone or silent; this one goes on");
        self.go_on()
    }

    /// Starts the recorder again, and the control worker in place of the probes'.
    fn go_on(&mut self) -> Result<TakeoverOutcome, ServerError> {
        let closed = self.handover.as_mut().and_then(|handover| handover.closed.take());
        let reopened = closed.and_then(|mut backend| backend.handle().map(|handle| (backend, handle)));
        let (backend, handle) = reopened.ok_or(ServerError::Thread(ThreadKind::Recorder))?;
        self.start_recorder(backend, Opening::Again)?;
        match self.wait_until_loaded(None) {
            Ok(LoadProgress::Loaded) => {}
            Ok(LoadProgress::Stopped | LoadProgress::UnderWay) => return Ok(TakeoverOutcome::Stopped),
            Err(ServerError::Store(error)) => log::error!("{error}; until it can be opened votes are answered 503"),
            Err(error) => return Err(error),
        }
        let probes = self.handover.as_mut().and_then(|handover| handover.probes.take());
        self.end_probes(probes.as_ref(), handle)?;
        Ok(TakeoverOutcome::None)
    }

    fn has_hung_up(&self) -> bool {
        self.handover.as_ref().is_some_and(|handover| handover.has_hung_up)
    }

    /// Waits for the new process to say something.
    fn next_said(&mut self) -> Result<Heard, ServerError> {
        let mut until_ms = self.at_ms(SILENCE_MS);
        while !self.has_hung_up() {
            match self.next_event(Some(until_ms))? {
                Some(ServerEvent::Said(TakeoverMessage::Loading)) => until_ms = self.at_ms(SILENCE_MS),
                Some(ServerEvent::Said(message)) => return Ok(Heard::Message(message)),
                Some(ServerEvent::HungUp) | None => break,
                Some(ServerEvent::Signal) => return Ok(Heard::Stop),
                Some(ServerEvent::Ended(kind)) => return Err(ServerError::Thread(kind)),
                Some(ServerEvent::Failed(error)) => return Err(ServerError::Engine(error)),
                // The gate hears one caller at a time, and the recorder has loaded.
                Some(ServerEvent::Loaded(_) | ServerEvent::Called(_)) => {
                    return Err(ServerError::Thread(ThreadKind::Gate));
                }
            }
        }
        Ok(Heard::HungUp)
    }
}

/// Tells the caller why it gets nothing. Where it is gone, it needs no reason.
fn refuse(channel: &FdChannel, reason: &str) {
    let _heard = say(channel, &TakeoverMessage::Refused { reason: reason.to_owned() });
}

/// What a process that waits for the other can hear.
enum Heard {
    Message(TakeoverMessage),
    /// It hung up, or has been silent for too long.
    HungUp,
    /// The signal to stop.
    Stop,
}
