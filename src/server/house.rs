//! The running parts: what is started, in which order, and how it stops.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::access::Access;
use super::handover::{Estate, Takeover};
use super::lines::{self, About};
use super::sockets::Sockets;
use super::threads::{Event, Serving, forward};
use super::writer::{Helper, Store, Writer};
use super::{Config, Ended, Role, ServerError, Signal, notify};
use crate::clock::Clock;
use crate::control::page::Sources;
use crate::control::shared::SharedView;
use crate::net::address::Address;
use crate::net::budget::Budget;
use crate::net::mailbox::Letter;
use crate::recorder::RecorderHandle;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;

mod giving;
mod starting;

use giving::Succession;

/// Runs the service until it is told to stop, or until another process has taken over. `announce`
/// is called for each listener, once it answers from a loaded state.
///
/// # Errors
/// What kept it from starting or from going on.
pub fn run(
    mut config: Config,
    store: Store,
    signals: Receiver<Signal>,
    mut announce: impl FnMut(&Address, Role),
) -> Result<Ended, ServerError> {
    let about = About::new(&config);
    let gate = config.gate.as_deref().filter(|_| config.takes_over);
    let takeover = gate.map(Takeover::ask).transpose().map_err(ServerError::TakeOver)?.flatten();
    let promised = takeover.as_ref().map_or(&[][..], Takeover::places);
    let sockets = Sockets::open(&mut config, promised)?;
    let mut house = House::new(config, sockets, store, signals)?;
    let mut progress = match takeover {
        Some(takeover) => house.start_after(takeover)?,
        None => house.start()?,
    };
    let mut announced = false;
    let mut announce_once = |house: &House| {
        if !std::mem::replace(&mut announced, true) {
            house.sockets.addresses().for_each(|(address, role)| announce(address, role));
        }
    };
    if progress != Progress::Stopped {
        notify::tell(notify::READY);
    }
    while progress == Progress::UnderWay {
        let is_hindered = house.is_hindered();
        if is_hindered {
            announce_once(&house);
        }
        house.tell_manager();
        progress = house.wait_for_news(is_hindered, MANAGER_MS)?;
    }
    if progress == Progress::Stopped {
        // What was asked is answered; the recorder has taken nothing that could be lost.
        return house.stop_listeners();
    }
    house.open_gate();
    announce_once(&house);
    let (servers, cooldowns) = (house.views.directory.current().len(), house.views.cooldowns.len());
    let addresses: Vec<_> = house.sockets.addresses().collect();
    about.say_ready(&addresses, servers, cooldowns, house.sources.recorder.load_ms.get());
    house.serve()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Loaded,
    Stopped,
    /// It takes longer than it was waited for.
    UnderWay,
}

/// How the recorder gets its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// With all that is in it.
    First,
    /// After it was closed; what is in it is known.
    Again,
}

/// Read-only views that are handed out.
struct Views {
    directory: DirectoryView,
    cooldowns: CooldownView,
}

/// The running parts.
struct House {
    config: Config,
    clock: Clock,
    sockets: Sockets,
    public: Vec<Serving>,
    control: Option<Serving>,
    /// In place of it while another process has the store: see [`House::start_probes`].
    probes: Option<Serving>,
    /// Where it does not run.
    resting: Option<Writer>,
    /// Threads that the recorder needs besides its own, until it is started.
    helpers: Vec<Helper>,
    /// Where the recorder stands with other nodes.
    shared: Option<SharedView>,
    /// For the control worker: the recorder ends with it.
    handle: Option<RecorderHandle>,
    recorder: Option<JoinHandle<Writer>>,
    views: Views,
    sources: Sources,
    access: Option<Access>,
    events: Receiver<Event>,
    sender: Sender<Event>,
    /// Names of the threads that have ended and were not waited for yet.
    ended: Vec<&'static str>,
    /// Whether others can call.
    has_gate: bool,
    /// The end of the call that is under way was heard while something else was waited for.
    has_hung_up: bool,
    /// Another process is at taking over: a first signal to stop waits until it is clear who goes on,
    /// and workers that have given all away may end at any time.
    is_giving: bool,
    /// That signal has come.
    is_told_to_stop: bool,
    /// What the service manager was told last to be wrong.
    told_manager: Option<String>,
}

impl House {
    fn new(mut config: Config, sockets: Sockets, store: Store, signals: Receiver<Signal>) -> Result<Self, ServerError> {
        let clock = Clock::new();
        let (writer, handle, shared, helpers) = Writer::new(store, &clock, config.cooldown, &config.readiness);
        let views = Views { directory: writer.directory().view(), cooldowns: writer.table().view() };
        let (sender, events) = channel();
        forward(signals, sender.clone())?;
        let sources = Sources {
            started_at: clock.now().wall,
            engine: config.engine.name(),
            answers: Vec::new(),
            access: Vec::new(),
            workers: Vec::new(),
            budget: Budget::new(config.limits.buffer_bytes_max),
            recorder: writer.counters(),
            log_dropped: Arc::clone(&config.log_dropped),
        };
        let access = config.access_log.take().map(Access::start).transpose().map_err(ServerError::Engine)?;
        Ok(Self {
            config,
            clock,
            sockets,
            public: Vec::new(),
            control: None,
            probes: None,
            resting: Some(writer),
            helpers,
            shared,
            handle: Some(handle),
            recorder: None,
            views,
            sources,
            access,
            events,
            sender,
            ended: Vec::new(),
            has_gate: false,
            has_hung_up: false,
            is_giving: false,
            is_told_to_stop: false,
            told_manager: None,
        })
    }

    /// Listeners first: while the store is read, or cannot be, 503 is a better answer than none. Not for
    /// a while where others have held them until now: then whoever waits in them takes this for one service.
    fn start(&mut self) -> Result<Progress, ServerError> {
        self.start_recorder(Opening::First)?;
        let are_passed = self.sockets.are_passed();
        let early = if are_passed { self.wait_for_news(false, LOAD_PATIENCE_MS)? } else { Progress::UnderWay };
        if early == Progress::Stopped {
            return Ok(early);
        }
        self.start_public(Vec::new())?;
        self.start_control(Vec::new())?;
        if early == Progress::UnderWay && !are_passed { self.wait_for_news(false, LOAD_PATIENCE_MS) } else { Ok(early) }
    }

    /// The store first: until it is read, somebody else answers, and goes on where it cannot be. Only
    /// where nobody is left, 503 is a better answer than none.
    fn start_after(&mut self, takeover: Takeover) -> Result<Progress, ServerError> {
        log::info!("taking over from the process that runs");
        takeover.release().map_err(ServerError::TakeOver)?;
        self.start_recorder(Opening::First)?;
        let mut progress = Progress::UnderWay;
        while progress == Progress::UnderWay && !self.is_hindered() {
            takeover.say_loading();
            progress = self.wait_for_news(false, LOADING_MS)?;
        }
        if progress == Progress::Stopped {
            return Ok(progress);
        }
        if let Some((_, why)) = self.config.readiness.gravest()
            && !takeover.is_gone().map_err(ServerError::TakeOver)?
        {
            return Err(ServerError::NotTaken(why));
        }
        let Estate { public, control } = takeover.take().map_err(ServerError::TakeOver)?;
        self.sockets.inherit(Role::Public, public.listeners)?;
        self.sockets.inherit(Role::Control, control.listeners)?;
        self.start_public(public.clients)?;
        self.start_probes(control.clients)?;
        takeover.wait_until_done();
        self.end_probes()?;
        Ok(progress)
    }

    fn is_hindered(&self) -> bool {
        self.config.readiness.gravest().is_some()
    }

    /// Until all is loaded, until something is in its way that was not, or no longer is, or for so long.
    fn wait_for_news(&mut self, was_hindered: bool, patience_ms: u64) -> Result<Progress, ServerError> {
        let until_ms = self.clock.now().monotonic_ms + patience_ms;
        loop {
            let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
            let progress = self.wait_until_loaded(Some(left_ms.min(HINDERED_POLL_MS)))?;
            if progress != Progress::UnderWay || left_ms == 0 || self.is_hindered() != was_hindered {
                return Ok(progress);
            }
        }
    }

    /// Tells the service manager what is wrong, and that it no longer is.
    fn tell_manager(&mut self) {
        let trouble = self.config.readiness.gravest();
        let told = trouble.map(|(trouble, message)| format!("STATUS=not well ({}): {message}", trouble.word()));
        if told != self.told_manager {
            notify::tell(told.as_deref().unwrap_or("STATUS=well again"));
            self.told_manager = told;
        }
    }

    fn wait_until_loaded(&mut self, patience_ms: Option<u64>) -> Result<Progress, ServerError> {
        let until_ms = patience_ms.map(|patience_ms| self.clock.now().monotonic_ms + patience_ms);
        loop {
            let event = match until_ms {
                None => self.next_event()?,
                Some(until_ms) => match self.next_event_until(until_ms) {
                    Some(event) => event,
                    None => return Ok(Progress::UnderWay),
                },
            };
            match event {
                Event::Loaded(loaded) => return loaded.map(|()| Progress::Loaded).map_err(ServerError::Store),
                Event::Ended("worker", Ok(())) if self.is_giving => self.ended.push("worker"),
                Event::Ended(name, result) => {
                    return Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine));
                }
                Event::Signal if self.is_put_off() => {}
                Event::Signal => return Ok(Progress::Stopped),
                call => self.put_off(call),
            }
        }
    }

    /// A call comes at a bad time: it ends, and the caller knows that there is nothing to be had.
    fn put_off(&mut self, event: Event) {
        match event {
            Event::Called(wire) => wire.hang_up(),
            Event::HungUp => self.has_hung_up = true,
            Event::Signal => self.is_told_to_stop = true,
            _ => {}
        }
    }

    /// Whether a signal that has just come has to wait; only the first one does.
    fn is_put_off(&mut self) -> bool {
        self.is_giving && !std::mem::replace(&mut self.is_told_to_stop, true)
    }

    /// The next event, unless none comes in time.
    fn next_event_until(&self, until_ms: u64) -> Option<Event> {
        loop {
            let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
            let event = self.events.recv_timeout(Duration::from_millis(left_ms)).ok()?;
            if !is_end_of_probes(&event) {
                return Some(event);
            }
        }
    }

    fn next_event(&self) -> Result<Event, ServerError> {
        loop {
            let event = self.events.recv().map_err(|_| ServerError::Thread("signal"))?;
            if !is_end_of_probes(&event) {
                return Ok(event);
            }
        }
    }

    fn serve(mut self) -> Result<Ended, ServerError> {
        loop {
            self.tell_manager();
            let until_ms = self.clock.now().monotonic_ms + MANAGER_MS;
            let Some(event) = self.next_event_until(until_ms) else { continue };
            match event {
                Event::Signal => return self.stop(),
                Event::Called(wire) => match self.hand_over(&wire)? {
                    Succession::None => {}
                    Succession::Stopped => return self.stop(),
                    Succession::Done => return Ok(Ended::Cleanly),
                },
                // Of a caller who was refused, or had better not called.
                Event::Said(_) | Event::HungUp => {}
                Event::Loaded(_) => return Err(ServerError::Thread("recorder")),
                Event::Ended(name, result) => {
                    return Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine));
                }
            }
        }
    }

    /// Public listeners first: the control one still tells that they are going. The recorder last:
    /// what was accepted is recorded and answered.
    fn stop(mut self) -> Result<Ended, ServerError> {
        notify::tell(notify::STOPPING);
        self.close_gate();
        if self.stop_listeners()? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if self.recorder.is_some() && self.wait_for("recorder", 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        self.join();
        lines::say_stopped(&self.sources, self.clock.now().wall.0.saturating_sub(self.sources.started_at.0));
        Ok(Ended::Cleanly)
    }

    /// To be called where all threads have ended.
    fn join(&mut self) {
        for serving in self.public.drain(..).chain(self.control.take()).chain(self.probes.take()) {
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

    /// Answers what is under way, and ends the threads that serve.
    fn stop_listeners(&mut self) -> Result<Ended, ServerError> {
        log::info!("stopping: what is under way is answered");
        self.config.readiness.set_stopping();
        let Config { drain_delay_ms, drain_timeout_ms, .. } = self.config;
        for serving in &self.public {
            (serving.tell)(Letter::Drain { accept_ms: drain_delay_ms, timeout_ms: drain_timeout_ms });
        }
        if self.wait_for("worker", self.public.len())? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if let Some(serving) = self.probes.take() {
            // What waits for a recorder is told that it waits in vain. It has given all away, or does so soon.
            (serving.tell)(Letter::Drain { accept_ms: 0, timeout_ms: drain_timeout_ms.min(CONTROL_DRAIN_MS) });
            let _reported = serving.thread.join();
        }
        let Some(serving) = &self.control else { return Ok(Ended::Cleanly) };
        (serving.tell)(Letter::Drain { accept_ms: 0, timeout_ms: drain_timeout_ms.min(CONTROL_DRAIN_MS) });
        let ended = self.wait_for("control", 1)?;
        self.sockets.remove_files();
        Ok(ended)
    }

    /// Waits until `count` threads of this name have ended; others may end meanwhile.
    fn wait_for(&mut self, name: &'static str, count: usize) -> Result<Ended, ServerError> {
        while self.ended.iter().filter(|ended| **ended == name).count() < count {
            match self.next_event()? {
                Event::Signal if self.is_put_off() => {}
                Event::Signal => return Ok(Ended::AtOnce),
                Event::Ended(ended, result) => {
                    result.map_err(ServerError::Engine)?;
                    self.ended.push(ended);
                }
                other => self.put_off(other),
            }
        }
        self.ended.retain(|ended| *ended != name);
        Ok(Ended::Cleanly)
    }
}

/// That worker has given away what it had, and ends when the rest is answered: nobody waits for it.
fn is_end_of_probes(event: &Event) -> bool {
    matches!(event, Event::Ended(PROBES, Ok(())))
}

/// The name of the worker that stands in for the control listener's.
const PROBES: &str = "probes";

/// A client in the field gives up after 5 s: until then it may wait for a store that is being read,
/// in milliseconds.
const LOAD_PATIENCE_MS: u64 = 3_000;

/// What is in the way of the load is looked for so often, in milliseconds.
const HINDERED_POLL_MS: u64 = 20;

/// So often it is seen whether the service manager has to be told something, in milliseconds.
const MANAGER_MS: u64 = 1_000;

/// So often a process that takes over says that it is still at it, in milliseconds.
const LOADING_MS: u64 = 1_000;

/// The control listener has few clients, and no reason to wait long for them, in milliseconds.
const CONTROL_DRAIN_MS: u64 = 2_000;
