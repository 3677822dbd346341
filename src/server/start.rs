//! What a run is made of: its workers and its recorder.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
#[cfg(feature = "may_minihttp")]
use std::sync::mpsc::channel;
use std::thread;

use super::run::{Opening, PROBES, Run};
use crate::control::metrics::WorkerSource;
use crate::control::{ControlParts, ControlService};
use crate::limits::UNSENT_BYTES_MAX;
use crate::net::budget::Kind;
use crate::net::counters::{EngineCounters, ResponseCounters};
#[cfg(feature = "may_minihttp")]
use crate::net::listen::address::ListenAddress;
use crate::net::listen::listener::Listener;
use crate::net::mailbox::{Mailbox, PassedClient};
#[cfg(feature = "may_minihttp")]
use crate::net::may_minihttp;
use crate::net::worker::WorkerSettings;
use crate::public::{PublicCounters, PublicService};
#[cfg(feature = "may_minihttp")]
use crate::public::{StatusReader, may_minihttp::PublicParts};
use crate::recorder::RecorderHandle;
use crate::recorder::follower::status::Freshness;
use crate::server::threads::{ServerEvent, Serving, Setup, start_thread, start_worker};
use crate::server::{Config, Engine, Role, ServerError};

impl Run {
    pub(super) fn start_public(&mut self, clients: Vec<PassedClient>) -> Result<(), ServerError> {
        match self.config.engine {
            Engine::Native => self.start_workers(clients),
            #[cfg(feature = "may_minihttp")]
            Engine::MayMinihttp => self.start_may_minihttp(),
        }
    }

    fn start_workers(&mut self, clients: Vec<PassedClient>) -> Result<(), ServerError> {
        let Config { limits, cooldown, workers, .. } = self.config;
        let mut parts: Vec<Vec<PassedClient>> = (0..workers).map(|_| Vec::new()).collect();
        for (index, client) in clients.into_iter().enumerate() {
            parts[index % workers].push(client);
        }
        let connections_max = (limits.connections_max / workers).max(1);
        let turned_away_max = limits.turned_away_max;
        let settings = WorkerSettings {
            limits,
            connections_max,
            turned_away_max,
            turn_bytes_max: UNSENT_BYTES_MAX,
            kept_places: 0,
            is_interim: false,
        };
        let freshness = self.freshness();
        let secure = |listeners| self.config.secure(listeners);
        let shares = self.sockets.take(Role::Public, workers, secure).map_err(ServerError::Engine)?;
        for (share, clients) in shares.into_iter().zip(parts) {
            let service = PublicService::new(
                self.views.directory.clone(),
                self.views.cooldowns.clone(),
                self.config.readiness.clone(),
                cooldown,
                limits.skip_body_bytes_max,
            )
            .with_freshness(freshness.clone());
            let PublicCounters { answers, responses } = service.counters();
            self.sources.answers.push(answers);
            let setup = self.set_up("public", share, clients, settings, responses);
            self.public.push(start_worker("worker", setup, |_| service, &self.sender)?);
        }
        Ok(())
    }

    /// Where other nodes decide as well: how old the state may be.
    fn freshness(&self) -> Option<Freshness> {
        self.shared.as_ref().map(|shared| shared.freshness.clone())
    }

    /// That engine binds by itself. Ours have shown that the addresses are free, and chosen the ports.
    #[cfg(feature = "may_minihttp")]
    fn start_may_minihttp(&mut self) -> Result<(), ServerError> {
        let Config { limits, cooldown, workers, .. } = self.config;
        let readiness = self.config.readiness.clone();
        let freshness = self.freshness();
        let reader = || {
            let reader =
                StatusReader::new(self.views.directory.clone(), self.views.cooldowns.clone(), readiness.clone());
            reader.with_freshness(freshness.clone())
        };
        let service = PublicParts::new(reader(), cooldown);
        let services: Vec<_> = (0..workers).map(|_| service.at(reader())).collect();
        for PublicCounters { answers, responses } in services.iter().map(PublicParts::counters) {
            self.sources.answers.push(answers);
            // What only an engine can count stays at nothing: that one does not.
            let (engine, connections_max) = (Arc::default(), limits.connections_max / workers);
            self.sources.workers.push(WorkerSource { listener: "public", engine, responses, connections_max });
        }
        let settings = may_minihttp::EngineSettings { limits, clock: self.clock.clone(), readiness };
        let public = self.sockets.addresses().filter(|(_, role)| *role != Role::Control);
        let public = public.map(|(address, role)| match address {
            ListenAddress::Tcp(address) if role == Role::Public => Ok(*address),
            _ => {
                let why = "the engine may_minihttp listens on internet addresses only, without TLS";
                Err(ServerError::Bind(address.clone(), io::Error::new(io::ErrorKind::Unsupported, why)))
            }
        });
        let public: Vec<_> = public.collect::<Result<_, _>>()?;
        may_minihttp::start(public, services, &settings).map_err(ServerError::Engine)?;
        drop(self.sockets.take(Role::Public, 1, |listeners| listeners).map_err(ServerError::Engine)?);
        let (sender, letters) = channel();
        let tell = move |letter| {
            // A thread that has ended has nothing more to be told.
            let _received = sender.send(letter);
        };
        let thread = start_thread("worker", move || may_minihttp::run(&letters), self.sender.clone())?;
        self.public.push(Serving { tell: Box::new(tell), thread });
        Ok(())
    }

    pub(super) fn start_control(&mut self, clients: Vec<PassedClient>) -> Result<(), ServerError> {
        let Some(recorder) = self.handle.take() else { return Err(ServerError::Thread("recorder")) };
        self.control = Some(self.start_control_worker("control", Some(recorder), clients)?);
        Ok(())
    }

    /// While another process has the store: health, readiness and metrics are answered, and what is
    /// for the recorder waits, unread, for whoever has it next.
    pub(super) fn start_probes(&mut self, clients: Vec<PassedClient>) -> Result<(), ServerError> {
        self.probes = Some(self.start_control_worker(PROBES, None, clients)?);
        Ok(())
    }

    fn start_control_worker(
        &mut self,
        name: &'static str,
        recorder: Option<RecorderHandle>,
        clients: Vec<PassedClient>,
    ) -> Result<Serving, ServerError> {
        let Config { limits, cooldown, .. } = self.config;
        let settings = WorkerSettings {
            limits,
            connections_max: limits.control_connections_max,
            turned_away_max: limits.turned_away_max,
            // One answer: nobody waits for those to a long pipeline of questions for a page of metrics.
            turn_bytes_max: 1,
            kept_places: limits.turned_away_max / 2,
            is_interim: recorder.is_none(),
        };
        let shares = self.sockets.take(Role::Control, 1, |listeners| listeners).map_err(ServerError::Engine)?;
        let listeners = shares.into_iter().flatten().collect();
        let responses = Arc::new(ResponseCounters::default());
        // There may have been another, that gave all away and got it back.
        self.sources.workers.retain(|source| source.listener != "control");
        let setup = self.set_up("control", listeners, clients, settings, Arc::clone(&responses));
        // Every worker counts from here on.
        self.sources.access = self.access.iter().flat_map(|access| access.counters.iter().cloned()).collect();
        let parts = ControlParts {
            sources: self.sources.clone(),
            responses,
            key: self.config.control_key.clone(),
            recorder,
            directory: self.views.directory.clone(),
            cooldowns: self.views.cooldowns.clone(),
            readiness: self.config.readiness.clone(),
            cooldown,
            body_bytes_max: limits.body_bytes_max,
            shared: self.shared.clone(),
        };
        let make = |mailbox: &Mailbox| ControlService::new(parts, mailbox.clone());
        start_worker(name, setup, make, &self.sender)
    }

    /// What one more worker is made of; it is counted from now on.
    fn set_up(
        &mut self,
        listener: &'static str,
        listeners: Vec<Listener>,
        clients: Vec<PassedClient>,
        settings: WorkerSettings,
        responses: Arc<ResponseCounters>,
    ) -> Setup {
        let (engine, connections_max) = (Arc::new(EngineCounters::default()), settings.connections_max);
        let source = WorkerSource { listener, engine: Arc::clone(&engine), responses, connections_max };
        self.sources.workers.push(source);
        let kind = if listener == "control" { Kind::Control } else { Kind::Public };
        let share = (Arc::clone(&self.sources.budget), kind);
        let log = self.access.as_mut().map(|access| access.log(listener, &self.clock));
        Setup { listeners, settings, clock: self.clock.clone(), counters: engine, share, log, clients }
    }

    pub(super) fn start_recorder(&mut self, opening: Opening) -> Result<(), ServerError> {
        let Some(mut writer) = self.resting.take() else { return Err(ServerError::Thread("recorder")) };
        for (name, work) in self.helpers.drain(..) {
            // They end once the recorder has, or with the process.
            let run = move || {
                work();
                Ok(())
            };
            drop(start_thread(name, run, self.sender.clone())?);
        }
        let (events, seed) = (self.sender.clone(), std::mem::take(&mut self.config.seed));
        let work = move || {
            let run = AssertUnwindSafe(|| {
                let opened = match opening {
                    Opening::First => writer.load(seed),
                    Opening::Again => writer.reopen(),
                };
                // What is loaded already is answered and recorded all the same.
                let goes_on = opened.is_ok() || opening == Opening::Again;
                // The main thread outlives this one.
                let _received = events.send(ServerEvent::Loaded(opened));
                if goes_on {
                    writer.run();
                }
            });
            let ended = catch_unwind(run).map_err(|_| io::Error::other("the recorder panicked"));
            let _received = events.send(ServerEvent::Ended("recorder", ended));
            writer
        };
        let thread = thread::Builder::new().name("recorder".into()).spawn(work).map_err(ServerError::Engine)?;
        self.recorder = Some(thread);
        Ok(())
    }
}
