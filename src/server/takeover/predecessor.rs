//! The running process's side of a handover; [`crate::server::takeover::protocol`] has the drawing.

use std::fs;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::net::fd_channel::{FdChannel, Gate};
use crate::net::mailbox::{Handed, Letter};
use crate::readiness::Trouble;
use crate::server::backend::Backend;
use crate::server::run::{CONTROL_DRAIN_MS, LoadProgress, Opening, Run};
use crate::server::takeover::TakeoverOutcome;
use crate::server::takeover::protocol::{self, Estate, TakeoverMessage, VERSION, hear, say};
use crate::server::threads::{ServerEvent, Serving};
use crate::server::{Ended, Role, ServerError};

/// A worker takes a turn to give its things away, and a turn is short.
const GIVING_PATIENCE: Duration = Duration::from_secs(5);

/// Requests that are under way when everything else is given away, and whoever cannot be given, may
/// hold up the reporting of votes for so long, in milliseconds.
const REST_PATIENCE_MS: u64 = 1_000;

/// A caller that says nothing for so long, in milliseconds, is as good as gone: it says more often
/// that it is still at it.
const SILENCE_MS: u64 = 10_000;

/// While things are on their way nobody answers: whoever does not take them in this time gets nothing,
/// in milliseconds. A client in the field waits for 5 s.
const TAKING_MS: u64 = 3_000;

/// Out of descriptors, nobody can call; there may be some again after this.
const GATE_PAUSE: Duration = Duration::from_millis(100);

/// Why nothing is given.
const STORE_GONE: &str =
    "its store is no longer at its path, and what it knows is in memory alone: do what its log says first";

impl Run {
    /// Lets others call, where that is wanted and possible.
    pub(in crate::server) fn open_gate(&mut self) {
        let Some(path) = &self.config.gate else { return };
        let gate = match Gate::open(path) {
            Ok(gate) => gate,
            Err(error) => {
                return log::warn!("no process will be able to take over: cannot open {}: {error}", path.display());
            }
        };
        let sender = self.sender.clone();
        let work = move || {
            let mut is_told = false;
            loop {
                let called = gate.accept().and_then(|wire| {
                    wire.set_sending_patience(Duration::from_millis(TAKING_MS))?;
                    Ok((wire.try_clone()?, wire))
                });
                let (other, wire) = match called {
                    Ok(wires) => wires,
                    Err(error) => {
                        if !std::mem::replace(&mut is_told, true) {
                            log::warn!(
                                "a process that wants to take over cannot be answered: {error}; it is tried again"
                            );
                        }
                        thread::sleep(GATE_PAUSE);
                        continue;
                    }
                };
                is_told = false;
                // The main thread outlives this one.
                let _received = sender.send(ServerEvent::Called(other));
                while let Ok(Some(said)) = hear(&wire) {
                    let _received = sender.send(ServerEvent::Said(said.message));
                }
                let _received = sender.send(ServerEvent::HungUp);
            }
        };
        self.has_gate = thread::Builder::new().name("gate".into()).spawn(work).is_ok();
    }

    pub(in crate::server) fn close_gate(&mut self) {
        if let Some(path) = self.config.gate.as_ref().filter(|_| std::mem::take(&mut self.has_gate)) {
            // Where it is left behind, nobody answers: that is how a caller knows.
            let _gone = fs::remove_file(path);
        }
    }

    /// Gives everything to the process that has called. See [`handover`].
    pub(in crate::server) fn hand_over(&mut self, wire: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        self.has_hung_up = false;
        let outcome = self.answer(wire)?;
        self.is_giving = false;
        if outcome != TakeoverOutcome::None {
            // A caller waits until this process is gone.
            return Ok(outcome);
        }
        wire.hang_up();
        Ok(if self.is_told_to_stop { TakeoverOutcome::Stopped } else { TakeoverOutcome::None })
    }

    fn answer(&mut self, wire: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Hello { .. }) if self.is_store_gone() => {
                // As below.
                let _heard = say(wire, &TakeoverMessage::Refused { reason: STORE_GONE.to_owned() });
                return Ok(TakeoverOutcome::None);
            }
            Heard::Message(TakeoverMessage::Hello { version: VERSION }) => {}
            Heard::Message(_) => {
                let reason = "it is of a version that gives nothing to this one".to_owned();
                // Who does not hear it knows by the end of the call.
                let _heard = say(wire, &TakeoverMessage::Refused { reason });
                return Ok(TakeoverOutcome::None);
            }
            Heard::HungUp => return Ok(TakeoverOutcome::None),
            Heard::Stop => return Ok(TakeoverOutcome::Stopped),
        }
        // Here and below: who is gone is heard to be gone.
        let _heard = say(wire, &TakeoverMessage::Listening { places: self.sockets.places() });
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Release) => {}
            Heard::Message(_) | Heard::HungUp => return Ok(TakeoverOutcome::None),
            Heard::Stop => return Ok(TakeoverOutcome::Stopped),
        }
        log::info!("another process takes over");
        self.is_giving = true;
        if self.release()? == Ended::AtOnce {
            return Ok(TakeoverOutcome::Stopped);
        }
        // It may have gone since the recorder has last looked; its last look was just now.
        if self.is_store_gone() {
            let _heard = say(wire, &TakeoverMessage::Refused { reason: STORE_GONE.to_owned() });
            wire.hang_up();
            return self.go_on();
        }
        let _heard = say(wire, &TakeoverMessage::Released);
        match self.next_said()? {
            Heard::Message(TakeoverMessage::Ready) => self.give(wire),
            Heard::Message(_) | Heard::HungUp => {
                wire.hang_up();
                self.resume()
            }
            Heard::Stop => Ok(TakeoverOutcome::Stopped),
        }
    }

    /// Whether another process would read another store, or make an empty one.
    fn is_store_gone(&self) -> bool {
        self.config.readiness.has(Trouble::StoreGone)
    }

    /// Ends the control worker, another in its place answers what needs no recorder; and then the
    /// recorder, with its store closed. At once where this process was told to stop.
    fn release(&mut self) -> Result<Ended, ServerError> {
        let Handed { listeners, clients } = self.have_control_handed(self.control.as_ref());
        self.sockets.inherit(Role::Control, listeners)?;
        self.start_probes(clients)?;
        if self.wait_for("control", 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if let Some(serving) = self.control.take() {
            let _reported = serving.thread.join();
        }
        // It ends with its last handle, which was the control worker's.
        if self.wait_for("recorder", 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        self.resting = self.recorder.take().and_then(|thread| thread.join().ok());
        Ok(Ended::Cleanly)
    }

    /// What one of the control listener's workers gives away. It answers the rest and ends.
    fn have_control_handed(&self, serving: Option<&Serving>) -> Handed {
        let (to, handed) = channel();
        if let Some(serving) = serving {
            let timeout_ms = self.config.drain_timeout_ms.min(CONTROL_DRAIN_MS);
            (serving.tell)(Letter::HandOver { to, timeout_ms });
        }
        handed.recv_timeout(GIVING_PATIENCE).unwrap_or_else(|_| {
            log::error!("the control worker does not give its listeners away: whoever waits in them is lost");
            Handed::default()
        })
    }

    /// This process has the store: what has waited for a recorder gets one.
    pub(in crate::server) fn end_probes(&mut self) -> Result<(), ServerError> {
        let Handed { listeners, clients } = self.have_control_handed(self.probes.as_ref());
        self.sockets.inherit(Role::Control, listeners)?;
        self.start_control(clients)
    }

    /// The other process has not taken over: all is as it was before.
    fn resume(&mut self) -> Result<TakeoverOutcome, ServerError> {
        log::warn!("the process that was to take over is gone or silent; this one goes on");
        self.go_on()
    }

    fn go_on(&mut self) -> Result<TakeoverOutcome, ServerError> {
        self.handle = self.resting.as_mut().and_then(Backend::handle);
        self.start_recorder(Opening::Again)?;
        match self.wait_until_loaded(None) {
            Ok(LoadProgress::Loaded) => {}
            Ok(LoadProgress::Stopped | LoadProgress::UnderWay) => return Ok(TakeoverOutcome::Stopped),
            Err(ServerError::Store(error)) => log::error!("{error}; until it can be opened votes are answered 503"),
            Err(error) => return Err(error),
        }
        self.end_probes()?;
        Ok(TakeoverOutcome::None)
    }

    /// The other process has loaded all that there is, and nobody records.
    fn give(&mut self, wire: &FdChannel) -> Result<TakeoverOutcome, ServerError> {
        let mut estate = Estate::default();
        self.collect(&mut estate.public);
        estate.control = self.have_control_handed(self.probes.as_ref());
        if protocol::give(wire, &estate).is_err() || !self.is_taken(wire)? {
            wire.hang_up();
            return self.take_back(estate);
        }
        drop(estate);
        self.has_gate = false;
        self.sockets.leave_files();
        let until_ms = self.clock.now().monotonic_ms + REST_PATIENCE_MS;
        while self.ended.len() < self.public.len() {
            match self.next_event_until(until_ms) {
                Some(ServerEvent::Ended(name, result)) => {
                    result.map_err(ServerError::Engine)?;
                    self.ended.push(name);
                }
                Some(other) => self.put_off(other),
                None => break,
            }
        }
        // From the next vote on, what is known here is not all.
        self.config.readiness.set_succeeded();
        let _heard = say(wire, &TakeoverMessage::Done);
        if self.wait_for("worker", self.public.len())? == Ended::Cleanly {
            self.join();
        }
        log::info!("another process has taken over");
        Ok(TakeoverOutcome::Done)
    }

    /// What the public workers give away.
    fn collect(&self, public: &mut Handed) {
        let timeout_ms = self.config.drain_timeout_ms;
        let (to, handed) = channel();
        for serving in &self.public {
            (serving.tell)(Letter::HandOver { to: to.clone(), timeout_ms });
        }
        for _worker in &self.public {
            let Ok(Handed { listeners, clients }) = handed.recv_timeout(GIVING_PATIENCE) else {
                return log::error!("a worker does not give its listeners away: whoever waits in them is lost");
            };
            public.listeners.extend(listeners);
            public.clients.extend(clients);
        }
    }

    /// Whether the other process has all, and knows that it is to answer.
    fn is_taken(&mut self, wire: &FdChannel) -> Result<bool, ServerError> {
        let until_ms = self.clock.now().monotonic_ms + TAKING_MS;
        let mut waits = true;
        while !self.has_hung_up {
            let event = if waits { self.next_event_until(until_ms) } else { Some(self.next_event()?) };
            match event {
                Some(ServerEvent::Said(TakeoverMessage::Taken)) => return Ok(true),
                Some(ServerEvent::Ended(name, result)) => {
                    result.map_err(ServerError::Engine)?;
                    self.ended.push(name);
                }
                Some(other) => self.put_off(other),
                // From here on it can say nothing; what it has said before comes still.
                None => {
                    wire.hang_up();
                    waits = false;
                }
            }
        }
        Ok(false)
    }

    /// New workers get what the old ones have given away; those answer what they have left, and end.
    fn take_back(&mut self, estate: Estate) -> Result<TakeoverOutcome, ServerError> {
        let Estate { public, control } = estate;
        self.sockets.inherit(Role::Control, control.listeners)?;
        self.start_probes(control.clients)?;
        let before = std::mem::take(&mut self.public);
        self.sources.workers.retain(|source| source.listener != "public");
        self.sockets.inherit(Role::Public, public.listeners)?;
        self.start_public(public.clients)?;
        let outcome = self.resume()?;
        if outcome == TakeoverOutcome::None && self.wait_for("worker", before.len())? == Ended::AtOnce {
            return Ok(TakeoverOutcome::Stopped);
        }
        Ok(outcome)
    }

    fn next_said(&mut self) -> Result<Heard, ServerError> {
        let mut until_ms = self.clock.now().monotonic_ms + SILENCE_MS;
        while !self.has_hung_up {
            match self.next_event_until(until_ms) {
                Some(ServerEvent::Said(TakeoverMessage::Loading)) => {
                    until_ms = self.clock.now().monotonic_ms + SILENCE_MS
                }
                Some(ServerEvent::Said(message)) => return Ok(Heard::Message(message)),
                Some(ServerEvent::HungUp) | None => break,
                Some(ServerEvent::Signal) if self.is_put_off() => {}
                Some(ServerEvent::Signal) => return Ok(Heard::Stop),
                Some(ServerEvent::Ended(name, result)) => {
                    return Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine));
                }
                Some(ServerEvent::Loaded(_) | ServerEvent::Called(_)) => return Err(ServerError::Thread("gate")),
            }
        }
        Ok(Heard::HungUp)
    }
}

/// What a process that waits for the other can hear.
enum Heard {
    Message(TakeoverMessage),
    HungUp,
    /// The signal to stop.
    Stop,
}
