//! The workers of a run, and the parts of each.

use std::os::fd::OwnedFd;
use std::sync::Arc;
#[cfg(feature = "may_minihttp")]
use std::sync::mpsc::channel;

use super::state::Run;
#[cfg(feature = "may_minihttp")]
use super::threads::{Serving, start_thread};
use super::threads::{ThreadKind, start_worker};
use super::{Config, Engine, ServerError};
use crate::control::metrics::WorkerSource;
use crate::control::{ControlParts, ControlService};
use crate::limits::TURN_BYTES_MAX;
use crate::net::counters::{EngineCounters, ResponseCounters};
use crate::net::listen::Role;
#[cfg(feature = "may_minihttp")]
use crate::net::listen::address::ListenAddress;
use crate::net::mailbox::Mailbox;
use crate::net::worker::{WorkerParts, WorkerSettings};
#[cfg(feature = "may_minihttp")]
use crate::public::may_minihttp;
use crate::public::{PublicCounters, PublicService, StatusReader};
use crate::recorder::RecorderHandle;
use crate::vote::settings::Settings;

impl Run {
    /// Starts the engine of the public listeners.
    pub(super) fn start_public(&mut self) -> Result<(), ServerError> {
        match self.config.engine {
            Engine::Native => self.start_workers(),
            #[cfg(feature = "may_minihttp")]
            Engine::MayMinihttp => self.start_may_minihttp(),
        }
    }

    /// Starts the workers of our engine.
    fn start_workers(&mut self) -> Result<(), ServerError> {
        let Config { limits, shares, settings: Settings { cooldown, .. }, workers, .. } = self.config;
        let connections_max = (shares.connections_max / workers).max(1);
        let settings = WorkerSettings {
            limits,
            connections_max,
            turned_away_max: shares.turned_away_max,
            turn_bytes_max: TURN_BYTES_MAX,
            extra_slots: 0,
        };
        let sockets = self.sockets.take(Role::Public, workers).map_err(ServerError::Engine)?;
        for listeners in sockets {
            let (directory, cooldowns) = (self.views.directory.clone(), self.views.cooldowns.clone());
            let reader = StatusReader::new(directory, cooldowns, self.config.readiness.clone());
            let PublicCounters { answers, responses } = reader.counters();
            self.sources.answers.push(answers);
            let parts = self.parts(Role::Public, listeners, settings, responses);
            let (room, watch) = (self.views.waiting.clone(), self.views.board.post());
            let service = |mailbox: &Mailbox| {
                PublicService::new(reader, cooldown, limits.skip_body_bytes_max, room, mailbox.bell(), watch)
            };
            self.public.push(start_worker(ThreadKind::Worker, parts, service, &self.events.sender)?);
        }
        Ok(())
    }

    /// Starts the second engine, which binds by itself: our listeners have shown that the addresses are
    /// free, and chosen the ports.
    #[cfg(feature = "may_minihttp")]
    fn start_may_minihttp(&mut self) -> Result<(), ServerError> {
        let Config { limits, shares, settings: Settings { cooldown, .. }, workers, .. } = self.config;
        let readiness = self.config.readiness.clone();
        let reader =
            |_| StatusReader::new(self.views.directory.clone(), self.views.cooldowns.clone(), readiness.clone());
        let services = may_minihttp::PublicParts::at((0..workers).map(reader), cooldown);
        for PublicCounters { answers, responses } in services.iter().map(may_minihttp::PublicParts::counters) {
            self.sources.answers.push(answers);
            // The counters of the engine stay at zero: the second one does not count.
            let (engine, connections_max) = (Arc::default(), shares.connections_max / workers);
            self.sources.workers.push(WorkerSource { role: Role::Public, engine, responses, connections_max });
        }
        let settings = may_minihttp::EngineSettings { limits, clock: self.clock.clone(), readiness };
        // With this engine, the options allow no other kind of address.
        let public = self.sockets.addresses().filter_map(|(address, role)| match address {
            ListenAddress::Tcp(address) if role == Role::Public => Some(*address),
            _ => None,
        });
        let public = public.collect();
        may_minihttp::start(public, services, &settings).map_err(ServerError::Engine)?;
        drop(self.sockets.take(Role::Public, 1).map_err(ServerError::Engine)?);
        let (sender, letters) = channel();
        let tell = move |letter| {
            // A thread that has ended needs no more letters.
            let _received = sender.send(letter);
        };
        let thread = start_thread(ThreadKind::Worker, move || may_minihttp::run(&letters), self.events.sender.clone())?;
        self.public.push(Serving { tell: Box::new(tell), thread });
        Ok(())
    }

    /// Starts the worker of the control listener. It has the last handle of the recorder, which ends after it.
    pub(super) fn start_control(&mut self, recorder: RecorderHandle) -> Result<(), ServerError> {
        let Config { limits, shares, .. } = self.config;
        let settings = WorkerSettings {
            limits,
            connections_max: shares.control_connections_max,
            turned_away_max: shares.turned_away_max,
            // One answer a turn: a long pipeline of scrapes keeps no other client waiting.
            turn_bytes_max: 1,
            extra_slots: shares.turned_away_max / 2,
        };
        let sockets = self.sockets.take(Role::Control, 1).map_err(ServerError::Engine)?;
        let listeners = sockets.into_iter().flatten().collect();
        let responses = Arc::new(ResponseCounters::default());
        let parts = self.parts(Role::Control, listeners, settings, Arc::clone(&responses));
        let control = ControlParts {
            sources: self.sources.clone(),
            responses,
            key: self.config.control_key.clone(),
            recorder,
            directory: self.views.directory.clone(),
            cooldowns: self.views.cooldowns.clone(),
            readiness: self.config.readiness.clone(),
            settings: self.config.settings,
            store: self.config.store.clone(),
            body_bytes_max: limits.body_bytes_max,
            shared: self.views.shared.clone(),
            clock: self.clock.clone(),
        };
        let make = |mailbox: &Mailbox| ControlService::new(control, mailbox.clone());
        self.control = Some(start_worker(ThreadKind::Control, parts, make, &self.events.sender)?);
        Ok(())
    }

    /// The parts of one more worker. Its counters are in the metrics from now on.
    fn parts(
        &mut self,
        role: Role,
        listeners: Vec<OwnedFd>,
        settings: WorkerSettings,
        responses: Arc<ResponseCounters>,
    ) -> WorkerParts {
        let (counters, connections_max) = (Arc::new(EngineCounters::default()), settings.connections_max);
        self.sources.workers.push(WorkerSource { role, engine: Arc::clone(&counters), responses, connections_max });
        let (clock, budget) = (self.clock.clone(), Arc::clone(&self.sources.budget));
        WorkerParts { listeners, settings, clock, counters, budget, role }
    }
}
