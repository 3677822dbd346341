//! The running parts: what is started, in which order, and how it stops.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use super::access_log::AccessLogger;
use super::backend::{Backend, Helper, StoreChoice};
use super::banner::{self, About};
use super::sockets::Sockets;
use super::takeover::protocol::{Estate, Takeover};
use super::threads::{ServerEvent, Serving, forward};
use super::{Config, Ended, Role, ServerError, Signal, notify};
use crate::clock::Clock;
use crate::control::cluster::ClusterView;
use crate::control::metrics::Sources;
use crate::net::budget::Budget;
use crate::net::listen::address::ListenAddress;
use crate::net::mailbox::Letter;
use crate::recorder::RecorderHandle;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;

use super::takeover::TakeoverOutcome;

/// Runs the service until it is told to stop, or until another process has taken over. `announce`
/// is called for each listener, once it answers from a loaded state.
///
/// # Errors
/// What kept it from starting or from going on.
pub fn run(
    mut config: Config,
    store: StoreChoice,
    signals: Receiver<Signal>,
    mut announce: impl FnMut(&ListenAddress, Role),
) -> Result<Ended, ServerError> {
    let about = About::new(&config);
    let gate = config.gate.as_deref().filter(|_| config.takes_over);
    let takeover = gate.map(Takeover::ask).transpose().map_err(ServerError::TakeOver)?.flatten();
    let promised = takeover.as_ref().map_or(&[][..], Takeover::places);
    let sockets = Sockets::open(&mut config, promised)?;
    let mut run = Run::new(config, sockets, store, signals)?;
    let mut progress = match takeover {
        Some(takeover) => run.start_after(takeover)?,
        None => run.start()?,
    };
    let mut announced = false;
    let mut announce_once = |run: &Run| {
        if !std::mem::replace(&mut announced, true) {
            run.sockets.addresses().for_each(|(address, role)| announce(address, role));
        }
    };
    if progress != LoadProgress::Stopped {
        notify::tell(notify::READY);
    }
    while progress == LoadProgress::UnderWay {
        let is_hindered = run.is_hindered();
        if is_hindered {
            announce_once(&run);
        }
        run.tell_manager();
        progress = run.wait_for_news(is_hindered, MANAGER_MS)?;
    }
    if progress == LoadProgress::Stopped {
        // What was asked is answered; the recorder has taken nothing that could be lost.
        return run.stop_listeners();
    }
    run.open_gate();
    announce_once(&run);
    let (servers, cooldowns) = (run.views.directory.current().len(), run.views.cooldowns.len());
    let addresses: Vec<_> = run.sockets.addresses().collect();
    about.say_ready(&addresses, servers, cooldowns, run.sources.recorder.load_ms.get());
    run.serve()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LoadProgress {
    Loaded,
    Stopped,
    /// It takes longer than it was waited for.
    UnderWay,
}

/// How the recorder gets its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// With all that is in it.
    First,
    /// After it was closed; what is in it is known.
    Again,
}

/// Read-only views that are handed out.
pub(super) struct Views {
    pub(super) directory: DirectoryView,
    pub(super) cooldowns: CooldownView,
}

/// The running parts.
pub(super) struct Run {
    pub(super) config: Config,
    pub(super) clock: Clock,
    pub(super) sockets: Sockets,
    pub(super) public: Vec<Serving>,
    pub(super) control: Option<Serving>,
    /// In place of it while another process has the store: see [`Run::start_probes`].
    pub(super) probes: Option<Serving>,
    /// Where it does not run.
    pub(super) resting: Option<Backend>,
    /// Threads that the recorder needs besides its own, until it is started.
    pub(super) helpers: Vec<Helper>,
    /// Where the recorder stands with other nodes.
    pub(super) shared: Option<ClusterView>,
    /// For the control worker: the recorder ends with it.
    pub(super) handle: Option<RecorderHandle>,
    pub(super) recorder: Option<JoinHandle<Backend>>,
    pub(super) views: Views,
    pub(super) sources: Sources,
    pub(super) access: Option<AccessLogger>,
    pub(super) events: Receiver<ServerEvent>,
    pub(super) sender: Sender<ServerEvent>,
    /// Names of the threads that have ended and were not waited for yet.
    pub(super) ended: Vec<&'static str>,
    /// Whether others can call.
    pub(super) has_gate: bool,
    /// The end of the call that is under way was heard while something else was waited for.
    pub(super) has_hung_up: bool,
    /// Another process is at taking over: a first signal to stop waits until it is clear who goes on,
    /// and workers that have given all away may end at any time.
    pub(super) is_giving: bool,
    /// That signal has come.
    pub(super) is_told_to_stop: bool,
    /// What the service manager was told last to be wrong.
    pub(super) told_manager: Option<String>,
}

impl Run {
    fn new(
        mut config: Config,
        sockets: Sockets,
        store: StoreChoice,
        signals: Receiver<Signal>,
    ) -> Result<Self, ServerError> {
        let clock = Clock::new();
        let (writer, handle, shared, helpers) = Backend::new(store, &clock, config.cooldown, &config.readiness);
        let views = Views { directory: writer.live().directory(), cooldowns: writer.live().cooldowns() };
        let (sender, events) = channel();
        forward(signals, sender.clone())?;
        let sources = Sources {
            started_at: clock.now().wall,
            engine: config.engine.name(),
            answers: Vec::new(),
            access: Vec::new(),
            workers: Vec::new(),
            budget: Budget::new(config.limits.buffer_bytes_max),
            recorder: writer.live().counters(),
            log_dropped: Arc::clone(&config.log_dropped),
        };
        let access = config.access_log.take().map(AccessLogger::start).transpose().map_err(ServerError::Engine)?;
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
    fn start(&mut self) -> Result<LoadProgress, ServerError> {
        self.start_recorder(Opening::First)?;
        let are_passed = self.sockets.are_passed();
        let early = if are_passed { self.wait_for_news(false, LOAD_PATIENCE_MS)? } else { LoadProgress::UnderWay };
        if early == LoadProgress::Stopped {
            return Ok(early);
        }
        self.start_public(Vec::new())?;
        self.start_control(Vec::new())?;
        if early == LoadProgress::UnderWay && !are_passed {
            self.wait_for_news(false, LOAD_PATIENCE_MS)
        } else {
            Ok(early)
        }
    }

    /// The store first: until it is read, somebody else answers, and goes on where it cannot be. Only
    /// where nobody is left, 503 is a better answer than none.
    fn start_after(&mut self, takeover: Takeover) -> Result<LoadProgress, ServerError> {
        log::info!("taking over from the process that runs");
        takeover.release().map_err(ServerError::TakeOver)?;
        self.start_recorder(Opening::First)?;
        let mut progress = LoadProgress::UnderWay;
        while progress == LoadProgress::UnderWay && !self.is_hindered() {
            takeover.say_loading();
            progress = self.wait_for_news(false, LOADING_MS)?;
        }
        if progress == LoadProgress::Stopped {
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
    fn wait_for_news(&mut self, was_hindered: bool, patience_ms: u64) -> Result<LoadProgress, ServerError> {
        let until_ms = self.clock.now().monotonic_ms + patience_ms;
        loop {
            let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
            let progress = self.wait_until_loaded(Some(left_ms.min(HINDERED_POLL_MS)))?;
            if progress != LoadProgress::UnderWay || left_ms == 0 || self.is_hindered() != was_hindered {
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

    pub(super) fn wait_until_loaded(&mut self, patience_ms: Option<u64>) -> Result<LoadProgress, ServerError> {
        let until_ms = patience_ms.map(|patience_ms| self.clock.now().monotonic_ms + patience_ms);
        loop {
            let event = match until_ms {
                None => self.next_event()?,
                Some(until_ms) => match self.next_event_until(until_ms) {
                    Some(event) => event,
                    None => return Ok(LoadProgress::UnderWay),
                },
            };
            match event {
                ServerEvent::Loaded(loaded) => {
                    return loaded.map(|()| LoadProgress::Loaded).map_err(ServerError::Store);
                }
                ServerEvent::Ended("worker", Ok(())) if self.is_giving => self.ended.push("worker"),
                ServerEvent::Ended(name, result) => {
                    return Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine));
                }
                ServerEvent::Signal if self.is_put_off() => {}
                ServerEvent::Signal => return Ok(LoadProgress::Stopped),
                call => self.put_off(call),
            }
        }
    }

    /// A call comes at a bad time: it ends, and the caller knows that there is nothing to be had.
    pub(super) fn put_off(&mut self, event: ServerEvent) {
        match event {
            ServerEvent::Called(wire) => wire.hang_up(),
            ServerEvent::HungUp => self.has_hung_up = true,
            ServerEvent::Signal => self.is_told_to_stop = true,
            _ => {}
        }
    }

    /// Whether a signal that has just come has to wait; only the first one does.
    pub(super) fn is_put_off(&mut self) -> bool {
        self.is_giving && !std::mem::replace(&mut self.is_told_to_stop, true)
    }

    /// The next event, unless none comes in time.
    pub(super) fn next_event_until(&self, until_ms: u64) -> Option<ServerEvent> {
        loop {
            let left_ms = until_ms.saturating_sub(self.clock.now().monotonic_ms);
            let event = self.events.recv_timeout(Duration::from_millis(left_ms)).ok()?;
            if !is_end_of_probes(&event) {
                return Some(event);
            }
        }
    }

    pub(super) fn next_event(&self) -> Result<ServerEvent, ServerError> {
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
                ServerEvent::Signal => return self.stop(),
                ServerEvent::Called(wire) => match self.hand_over(&wire)? {
                    TakeoverOutcome::None => {}
                    TakeoverOutcome::Stopped => return self.stop(),
                    TakeoverOutcome::Done => return Ok(Ended::Cleanly),
                },
                // Of a caller who was refused, or had better not called.
                ServerEvent::Said(_) | ServerEvent::HungUp => {}
                ServerEvent::Loaded(_) => return Err(ServerError::Thread("recorder")),
                ServerEvent::Ended(name, result) => {
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
        banner::say_stopped(&self.sources, self.clock.now().wall.0.saturating_sub(self.sources.started_at.0));
        Ok(Ended::Cleanly)
    }

    /// To be called where all threads have ended.
    pub(super) fn join(&mut self) {
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
    pub(super) fn wait_for(&mut self, name: &'static str, count: usize) -> Result<Ended, ServerError> {
        while self.ended.iter().filter(|ended| **ended == name).count() < count {
            match self.next_event()? {
                ServerEvent::Signal if self.is_put_off() => {}
                ServerEvent::Signal => return Ok(Ended::AtOnce),
                ServerEvent::Ended(ended, result) => {
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
fn is_end_of_probes(event: &ServerEvent) -> bool {
    matches!(event, ServerEvent::Ended(PROBES, Ok(())))
}

/// The name of the worker that stands in for the control listener's.
pub(super) const PROBES: &str = "probes";

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
pub(super) const CONTROL_DRAIN_MS: u64 = 2_000;
