//! The running parts: what is bound and started, in which order, and how it stops.

use std::io;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use mio::net::TcpListener;

use super::{Config, Ended, Engine, Role, ServerError, Signal};
use crate::clock::Clock;
use crate::control::page::{Sources, WorkerSource};
use crate::control::{ControlService, Parts};
use crate::http::session::Service;
use crate::limits::CONTROL_CONNECTIONS_MAX;
use crate::net::counters::{EngineCounters, ResponseCounters};
use crate::net::listener;
use crate::net::mailbox::Letter;
#[cfg(feature = "may_minihttp")]
use crate::net::may_minihttp;
use crate::net::worker::{Settings, Worker};
#[cfg(feature = "may_minihttp")]
use crate::public::{Desk, parts::PublicParts};
use crate::public::{PublicCounters, PublicService};
use crate::readiness::Readiness;
use crate::recorder::command::Command;
use crate::recorder::{OpenStore, Recorder, RecorderHandle};
use crate::store::StoreError;
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;

/// What the threads and the outside tell the main thread.
enum Event {
    Signal,
    Loaded(Result<(), StoreError>),
    Ended(&'static str, io::Result<()>),
}

/// Runs the service until it is told to stop. `announce` is called for each listener, once it
/// answers from a loaded state.
///
/// # Errors
/// What kept it from starting or from going on.
pub fn run(
    config: Config,
    store: OpenStore,
    signals: Receiver<Signal>,
    mut announce: impl FnMut(SocketAddr, Role),
) -> Result<Ended, ServerError> {
    let mut house = House::build(config, store, signals)?;
    match house.wait_until_loaded()? {
        Progress::Loaded => {}
        // What was asked is answered; the recorder has taken nothing that could be lost.
        Progress::Stopped => return house.stop_listeners(),
    }
    for (address, role) in &house.addresses {
        announce(*address, *role);
    }
    log::info!(
        "version {} ready: {} servers, {} cooldowns",
        env!("CARGO_PKG_VERSION"),
        house.views.directory.current().len(),
        house.views.cooldowns.len()
    );
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

/// A thread that serves, and how it is told something.
struct Serving {
    tell: Box<dyn Fn(Letter)>,
    thread: JoinHandle<()>,
}

/// The running parts.
struct House {
    addresses: Vec<(SocketAddr, Role)>,
    public: Vec<Serving>,
    control: Option<Serving>,
    recorder: Option<JoinHandle<()>>,
    readiness: Readiness,
    views: Views,
    sources: Sources,
    drain_delay_ms: u64,
    drain_timeout_ms: u64,
    events: Receiver<Event>,
    /// Names of the threads that have ended, in that order.
    ended: Vec<&'static str>,
}

impl House {
    fn build(config: Config, store: OpenStore, signals: Receiver<Signal>) -> Result<Self, ServerError> {
        let bind = |address, count| listener::bind(address, count).map_err(|error| ServerError::Bind(address, error));
        let sockets = if config.engine == Engine::Native { config.workers } else { 1 };
        let public = config.listen.iter().map(|address| bind(*address, sockets));
        let public: Vec<Vec<TcpListener>> = public.collect::<Result<_, _>>()?;
        let control = bind(config.control, 1)?;
        let mut addresses = Vec::new();
        for (sockets, role) in public.iter().map(|sockets| (sockets, Role::Public)).chain([(&control, Role::Control)]) {
            let address = sockets.first().map(TcpListener::local_addr).transpose().map_err(ServerError::Engine)?;
            addresses.extend(address.map(|address| (address, role)));
        }

        let clock = Clock::new();
        let readiness = config.readiness.clone();
        let (recorder, handle) = Recorder::new(clock.clone(), config.cooldown, readiness.clone());
        let views = Views { directory: recorder.directory().view(), cooldowns: recorder.table().view() };
        let (sender, events) = channel();
        forward(signals, sender.clone())?;
        let mut house = Self {
            addresses,
            public: Vec::new(),
            control: None,
            recorder: None,
            readiness,
            views,
            sources: Sources {
                started_at: clock.now().wall,
                engine: config.engine.name(),
                answers: Vec::new(),
                workers: Vec::new(),
                recorder: recorder.counters(),
            },
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
        house.start_control(&config, control, &clock, handle, &sender)?;
        house.start_recorder(recorder, store, config.seed, sender)?;
        Ok(house)
    }

    fn start_workers(
        &mut self,
        config: &Config,
        listeners: Vec<Vec<TcpListener>>,
        clock: &Clock,
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        // One socket of each address for each worker.
        let mut shares: Vec<Vec<TcpListener>> = (0..config.workers).map(|_| Vec::new()).collect();
        for sockets in listeners {
            for (share, socket) in shares.iter_mut().zip(sockets) {
                share.push(socket);
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
            let worker = Worker::new(share, settings, clock.clone(), |_| service).map_err(ServerError::Engine)?;
            self.sources.answers.push(answers);
            let engine = worker.counters();
            self.sources.workers.push(WorkerSource { listener: "public", engine, responses, connections_max });
            self.public.push(start_worker("worker", worker, events.clone())?);
        }
        Ok(())
    }

    /// That engine binds by itself. Ours have shown that the addresses are free, and chosen the ports.
    #[cfg(feature = "may_minihttp")]
    fn start_may_minihttp(
        &mut self,
        config: &Config,
        bound: Vec<Vec<TcpListener>>,
        clock: Clock,
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        let Views { directory, cooldowns } = &self.views;
        let desk = Desk::new(directory.clone(), cooldowns.clone(), self.readiness.clone());
        let services = vec![PublicParts::new(desk, config.cooldown); config.workers];
        let settings = may_minihttp::Settings { limits: config.limits, clock, readiness: self.readiness.clone() };
        let public = self.addresses.iter().filter(|(_, role)| *role == Role::Public).map(|(address, _)| *address);
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
        sockets: Vec<TcpListener>,
        clock: &Clock,
        recorder: RecorderHandle,
        events: &Sender<Event>,
    ) -> Result<(), ServerError> {
        let connections_max = CONTROL_CONNECTIONS_MAX;
        let counters = Arc::new(EngineCounters::default());
        let responses = Arc::new(ResponseCounters::default());
        self.sources.workers.push(WorkerSource {
            listener: "control",
            engine: Arc::clone(&counters),
            responses: Arc::clone(&responses),
            connections_max,
        });
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
        };
        let settings = Settings { limits: config.limits, connections_max, content_extends: true };
        let worker =
            Worker::new(sockets, settings, clock.clone(), |mailbox| ControlService::new(parts, mailbox.clone()));
        let worker = worker.map_err(ServerError::Engine)?.counting(counters);
        self.control = Some(start_worker("control", worker, events.clone())?);
        Ok(())
    }

    fn start_recorder(
        &mut self,
        mut recorder: Recorder,
        store: OpenStore,
        seed: Vec<Command>,
        events: Sender<Event>,
    ) -> Result<(), ServerError> {
        let work = move || {
            let run = AssertUnwindSafe(|| {
                let loaded = recorder.load(store, seed);
                let is_loaded = loaded.is_ok();
                // The main thread outlives this one.
                let _received = events.send(Event::Loaded(loaded));
                if is_loaded {
                    recorder.run();
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
        log::info!("stopped");
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
        self.wait_for("control", 1)
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

fn start_worker<S>(name: &'static str, worker: Worker<S>, events: Sender<Event>) -> Result<Serving, ServerError>
where
    S: Service + Send + 'static,
    S::Exchange: Send,
{
    let mailbox = worker.mailbox();
    let thread = start_thread(name, || worker.run(), events)?;
    Ok(Serving { tell: Box::new(move |letter| mailbox.send(letter)), thread })
}

fn start_thread(
    name: &'static str,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
    events: Sender<Event>,
) -> Result<JoinHandle<()>, ServerError> {
    let work = move || {
        let ended = catch_unwind(AssertUnwindSafe(run));
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
        let _main_is_waiting = events.send(Event::Ended(name, ended));
    };
    thread::Builder::new().name(name.into()).spawn(work).map_err(ServerError::Engine)
}

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
