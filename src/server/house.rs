//! The running parts: what is bound and started, in which order, and how it stops.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::access::Access;
use super::lines::{self, About};
use super::threads::{Event, Serving, Setup, start_thread, start_worker};
use super::writer::{Helper, Store, Writer};
use super::{Config, Ended, Engine, Role, ServerError, Signal};
use crate::clock::Clock;
use crate::control::page::{Sources, WorkerSource};
use crate::control::shared::SharedView;
use crate::control::{ControlService, Parts};
use crate::limits::CONTROL_CONNECTIONS_MAX;
use crate::net::address::Address;
use crate::net::counters::{EngineCounters, ResponseCounters};
use crate::net::listener::{self, Bound, Listener};
use crate::net::mailbox::{Letter, Mailbox};
#[cfg(feature = "may_minihttp")]
use crate::net::may_minihttp;
use crate::net::socket_file::SocketFile;
use crate::net::worker::Settings;
#[cfg(feature = "may_minihttp")]
use crate::public::{Desk, parts::PublicParts};
use crate::public::{PublicCounters, PublicService};
use crate::readiness::Readiness;
use crate::recorder::RecorderHandle;
use crate::recorder::command::Command;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;

/// Runs the service until it is told to stop. `announce` is called for each listener, once it
/// answers from a loaded state.
///
/// # Errors
/// What kept it from starting or from going on.
pub fn run(
    config: Config,
    store: Store,
    signals: Receiver<Signal>,
    mut announce: impl FnMut(&Address, Role),
) -> Result<Ended, ServerError> {
    let about = About::new(&config);
    let mut house = House::build(config, store, signals)?;
    match house.wait_until_loaded()? {
        Progress::Loaded => {}
        // What was asked is answered; the recorder has taken nothing that could be lost.
        Progress::Stopped => return house.stop_listeners(),
    }
    for (address, role) in &house.addresses {
        announce(address, *role);
    }
    let (servers, cooldowns) = (house.views.directory.current().len(), house.views.cooldowns.len());
    about.say_ready(&house.addresses, servers, cooldowns, house.sources.recorder.load_ms.get());
    match house.next_event()? {
        Event::Signal => house.stop(),
        Event::Loaded(_) => Err(ServerError::Thread("recorder")),
        Event::Ended(name, result) => Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine)),
    }
}

enum Progress {
    Loaded,
    Stopped,
}

/// Read-only views that are handed out.
struct Views {
    directory: DirectoryView,
    cooldowns: CooldownView,
}

/// The running parts.
struct House {
    addresses: Vec<(Address, Role)>,
    /// Taken away once nothing listens there any more.
    socket_files: Vec<SocketFile>,
    public: Vec<Serving>,
    control: Option<Serving>,
    recorder: Option<JoinHandle<()>>,
    readiness: Readiness,
    views: Views,
    sources: Sources,
    access: Option<Access>,
    clock: Clock,
    drain_delay_ms: u64,
    drain_timeout_ms: u64,
    events: Receiver<Event>,
    /// Names of the threads that have ended, in that order.
    ended: Vec<&'static str>,
}

impl House {
    fn build(mut config: Config, store: Store, signals: Receiver<Signal>) -> Result<Self, ServerError> {
        let (mut addresses, mut socket_files) = (Vec::new(), Vec::new());
        let mut bind = |address: &Address, role, count| {
            let bound = listener::bind(address, count, config.listen_mode);
            let bound = bound.map_err(|error| ServerError::Bind(address.clone(), error))?;
            let Bound { address, listeners, file } = bound;
            addresses.push((address, role));
            socket_files.extend(file);
            Ok(listeners)
        };
        let count = if config.engine == Engine::Native { config.workers } else { 1 };
        let secured = config.listen.iter().map(|address| (address, config.role_of(address)));
        let plain = config.listen_plain.iter().map(|address| (address, Role::Public));
        let public = secured.chain(plain).map(|(address, role)| {
            let listeners = bind(address, role, count)?;
            Ok(if role == Role::PublicTls { config.secure(listeners) } else { listeners })
        });
        let public: Vec<Vec<Listener>> = public.collect::<Result<_, _>>()?;
        let control = bind(&config.control, Role::Control, 1)?;

        let clock = Clock::new();
        let readiness = config.readiness.clone();
        let (writer, handle, shared, helpers) = Writer::new(store, &clock, config.cooldown, &readiness);
        let views = Views { directory: writer.directory().view(), cooldowns: writer.table().view() };
        let (sender, events) = channel();
        forward(signals, sender.clone())?;
        let mut house = Self {
            addresses,
            socket_files,
            public: Vec::new(),
            control: None,
            recorder: None,
            readiness,
            views,
            sources: Sources {
                started_at: clock.now().wall,
                engine: config.engine.name(),
                answers: Vec::new(),
                access: Vec::new(),
                workers: Vec::new(),
                recorder: writer.counters(),
            },
            access: config.access_log.take().map(Access::start).transpose().map_err(ServerError::Engine)?,
            clock: clock.clone(),
            drain_delay_ms: config.drain_delay_ms,
            drain_timeout_ms: config.drain_timeout_ms,
            events,
            ended: Vec::new(),
        };
        match config.engine {
            Engine::Native => house.start_workers(&config, public, &clock, &sender)?,
            #[cfg(feature = "may_minihttp")]
            Engine::MayMinihttp => house.start_may_minihttp(&config, public, clock.clone(), &sender)?,
        }
        house.start_control(&config, control, &clock, (handle, shared), &sender)?;
        house.start_recorder(writer, helpers, config.seed, sender)?;
        Ok(house)
    }

    fn start_workers(
        &mut self,
        config: &Config,
        listeners: Vec<Vec<Listener>>,
        clock: &Clock,
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        // One listener of each address for each worker.
        let mut shares: Vec<Vec<Listener>> = (0..config.workers).map(|_| Vec::new()).collect();
        for listeners in listeners {
            for (share, listener) in shares.iter_mut().zip(listeners) {
                share.push(listener);
            }
        }
        let connections_max = (config.limits.connections_max / config.workers).max(1);
        let settings = Settings { limits: config.limits, connections_max, content_extends: false };
        for share in shares {
            let service = PublicService::new(
                self.views.directory.clone(),
                self.views.cooldowns.clone(),
                self.readiness.clone(),
                config.cooldown,
                config.limits.skip_body_bytes_max,
            );
            let PublicCounters { answers, responses } = service.counters();
            self.sources.answers.push(answers);
            let setup = self.set_up("public", share, settings, clock, responses);
            self.public.push(start_worker("worker", setup, |_| service, events)?);
        }
        Ok(())
    }

    /// That engine binds by itself. Ours have shown that the addresses are free, and chosen the ports.
    #[cfg(feature = "may_minihttp")]
    fn start_may_minihttp(
        &mut self,
        config: &Config,
        bound: Vec<Vec<Listener>>,
        clock: Clock,
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        let Views { directory, cooldowns } = &self.views;
        let desk = || Desk::new(directory.clone(), cooldowns.clone(), self.readiness.clone());
        let service = PublicParts::new(desk(), config.cooldown);
        let services: Vec<_> = (0..config.workers).map(|_| service.at(desk())).collect();
        for PublicCounters { answers, responses } in services.iter().map(PublicParts::counters) {
            self.sources.answers.push(answers);
            // What only an engine can count stays at nothing: that one does not.
            let (engine, connections_max) = (Arc::default(), config.limits.connections_max / config.workers);
            self.sources.workers.push(WorkerSource { listener: "public", engine, responses, connections_max });
        }
        let settings = may_minihttp::Settings { limits: config.limits, clock, readiness: self.readiness.clone() };
        let public = self.addresses.iter().filter(|(_, role)| *role != Role::Control);
        let public = public.map(|(address, role)| match address {
            Address::Tcp(address) if *role == Role::Public => Ok(*address),
            _ => {
                let why = "the engine may_minihttp listens on internet addresses only, without TLS";
                Err(ServerError::Bind(address.clone(), io::Error::new(io::ErrorKind::Unsupported, why)))
            }
        });
        let public: Vec<_> = public.collect::<Result<_, _>>()?;
        may_minihttp::start(public, services, &settings).map_err(ServerError::Engine)?;
        drop(bound);
        let (sender, letters) = channel();
        let tell = move |letter| {
            // A thread that has ended has nothing more to be told.
            let _received = sender.send(letter);
        };
        let thread = start_thread("worker", move || may_minihttp::run(&letters), events.clone())?;
        self.public.push(Serving { tell: Box::new(tell), thread });
        Ok(())
    }

    fn start_control(
        &mut self,
        config: &Config,
        listeners: Vec<Listener>,
        clock: &Clock,
        (recorder, shared): (RecorderHandle, Option<SharedView>),
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        let connections_max = CONTROL_CONNECTIONS_MAX;
        let settings = Settings { limits: config.limits, connections_max, content_extends: true };
        let responses = Arc::new(ResponseCounters::default());
        let setup = self.set_up("control", listeners, settings, clock, Arc::clone(&responses));
        // Every worker counts from here on.
        self.sources.access = self.access.iter().flat_map(|access| access.counters.iter().cloned()).collect();
        let parts = Parts {
            sources: self.sources.clone(),
            responses,
            key: config.control_key.clone(),
            recorder,
            directory: self.views.directory.clone(),
            cooldowns: self.views.cooldowns.clone(),
            readiness: self.readiness.clone(),
            cooldown: config.cooldown,
            body_bytes_max: config.limits.body_bytes_max,
            shared,
        };
        let make = |mailbox: &Mailbox| ControlService::new(parts, mailbox.clone());
        self.control = Some(start_worker("control", setup, make, events)?);
        Ok(())
    }

    /// What one more worker is made of; it is counted from now on.
    fn set_up(
        &mut self,
        listener: &'static str,
        listeners: Vec<Listener>,
        settings: Settings,
        clock: &Clock,
        responses: Arc<ResponseCounters>,
    ) -> Setup {
        let (engine, connections_max) = (Arc::new(EngineCounters::default()), settings.connections_max);
        let source = WorkerSource { listener, engine: Arc::clone(&engine), responses, connections_max };
        self.sources.workers.push(source);
        let log = self.access.as_mut().map(|access| access.log(listener, clock));
        Setup { listeners, settings, clock: clock.clone(), counters: engine, log }
    }

    fn start_recorder(
        &mut self,
        mut writer: Writer,
        helpers: Vec<Helper>,
        seed: Vec<Command>,
        events: Sender<Event>,
    ) -> Result<(), ServerError> {
        for (name, work) in helpers {
            // They end once the recorder has, or with the process.
            let run = move || {
                work();
                Ok(())
            };
            drop(start_thread(name, run, events.clone())?);
        }
        let work = move || {
            let run = AssertUnwindSafe(|| {
                let loaded = writer.load(seed);
                let is_loaded = loaded.is_ok();
                // The main thread outlives this one.
                let _received = events.send(Event::Loaded(loaded));
                if is_loaded {
                    writer.run();
                }
            });
            let ended = catch_unwind(run).map_err(|_| io::Error::other("the recorder panicked"));
            let _received = events.send(Event::Ended("recorder", ended));
        };
        let thread = thread::Builder::new().name("recorder".into()).spawn(work).map_err(ServerError::Engine)?;
        self.recorder = Some(thread);
        Ok(())
    }

    fn wait_until_loaded(&self) -> Result<Progress, ServerError> {
        match self.next_event()? {
            Event::Loaded(loaded) => loaded.map(|()| Progress::Loaded).map_err(ServerError::Store),
            Event::Signal => Ok(Progress::Stopped),
            Event::Ended(name, result) => Err(result.err().map_or(ServerError::Thread(name), ServerError::Engine)),
        }
    }

    fn next_event(&self) -> Result<Event, ServerError> {
        self.events.recv().map_err(|_| ServerError::Thread("signal"))
    }

    /// Public listeners first: the control one still tells that they are going. The recorder last:
    /// what was accepted is recorded and answered.
    fn stop(mut self) -> Result<Ended, ServerError> {
        if self.stop_listeners()? == Ended::AtOnce || self.wait_for("recorder", 1)? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        let threads = self.public.drain(..).chain(self.control.take()).map(|serving| serving.thread);
        for thread in threads.chain(self.recorder.take()) {
            // Its end was reported already, and how.
            let _reported = thread.join();
        }
        if let Some(access) = self.access.take() {
            access.end();
        }
        lines::say_stopped(&self.sources, self.clock.now().wall.0.saturating_sub(self.sources.started_at.0));
        Ok(Ended::Cleanly)
    }

    /// Answers what is under way, and ends the threads that serve.
    fn stop_listeners(&mut self) -> Result<Ended, ServerError> {
        log::info!("stopping: what is under way is answered");
        self.readiness.set_stopping();
        let drain = Letter::Drain { accept_ms: self.drain_delay_ms, timeout_ms: self.drain_timeout_ms };
        for serving in &self.public {
            (serving.tell)(drain);
        }
        if self.wait_for("worker", self.public.len())? == Ended::AtOnce {
            return Ok(Ended::AtOnce);
        }
        if let Some(serving) = &self.control {
            (serving.tell)(Letter::Drain { accept_ms: 0, timeout_ms: self.drain_timeout_ms.min(CONTROL_DRAIN_MS) });
        }
        let ended = self.wait_for("control", 1)?;
        self.socket_files.clear();
        Ok(ended)
    }

    /// Waits until `count` threads of this name have ended; others may end meanwhile.
    fn wait_for(&mut self, name: &'static str, count: usize) -> Result<Ended, ServerError> {
        while self.ended.iter().filter(|ended| **ended == name).count() < count {
            match self.next_event()? {
                Event::Signal => return Ok(Ended::AtOnce),
                Event::Ended(ended, result) => {
                    result.map_err(ServerError::Engine)?;
                    self.ended.push(ended);
                }
                Event::Loaded(_) => {}
            }
        }
        Ok(Ended::Cleanly)
    }
}

/// The control listener has few clients, and no reason to wait long for them, in milliseconds.
const CONTROL_DRAIN_MS: u64 = 2_000;

/// Passes signals on, until the main thread is gone.
fn forward(signals: Receiver<Signal>, events: Sender<Event>) -> Result<(), ServerError> {
    let work = move || {
        for Signal::Stop in signals {
            if events.send(Event::Signal).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signal".into()).spawn(work).map(drop).map_err(ServerError::Engine)
}
