//! How the threads that serve are started, and what they tell the main thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::thread::{self, JoinHandle};

use super::takeover::protocol::TakeoverMessage;
use super::{ServerError, Signal};
use crate::clock::Clock;
use crate::http::session::Service;
use crate::net::access_log::{AccessLog, Describe, Logged};
use crate::net::budget::{Budget, Kind};
use crate::net::counters::EngineCounters;
use crate::net::fd_channel::FdChannel;
use crate::net::listen::listener::Listener;
use crate::net::mailbox::{Letter, Mailbox, PassedClient};
use crate::net::worker::{Worker, WorkerSettings};
use crate::store::StoreError;

/// What the threads and the outside tell the main thread.
pub(super) enum ServerEvent {
    Signal,
    Loaded(Result<(), StoreError>),
    Ended(&'static str, io::Result<()>),
    /// A new process wants to take over.
    Called(FdChannel),
    /// It said something.
    Said(TakeoverMessage),
    /// It is gone.
    HungUp,
}

/// A thread that serves, and how it is told something.
pub(super) struct Serving {
    pub(super) tell: Box<dyn Fn(Letter)>,
    pub(super) thread: JoinHandle<()>,
}

/// What a worker is made of besides its service.
pub(super) struct Setup {
    pub(super) listeners: Vec<Listener>,
    pub(super) settings: WorkerSettings,
    pub(super) clock: Clock,
    pub(super) counters: Arc<EngineCounters>,
    /// The memory that it shares with the others.
    pub(super) share: (Arc<Budget>, Kind),
    pub(super) log: Option<AccessLog>,
    /// Those whom another process has served until now.
    pub(super) clients: Vec<PassedClient>,
}

/// Starts a worker, its service behind the access log where there is one.
pub(super) fn start_worker<S>(
    name: &'static str,
    setup: Setup,
    make: impl FnOnce(&Mailbox) -> S,
    events: &Sender<ServerEvent>,
) -> Result<Serving, ServerError>
where
    S: Service + Describe + Send + 'static,
    S::Exchange: Send,
{
    let Setup { listeners, settings, clock, counters, share, log, clients } = setup;
    match log {
        None => run_worker(name, Worker::new(listeners, settings, clock, make), counters, share, clients, events),
        Some(log) => {
            let make = |mailbox: &Mailbox| Logged::new(make(mailbox), log);
            run_worker(name, Worker::new(listeners, settings, clock, make), counters, share, clients, events)
        }
    }
}

fn run_worker<S>(
    name: &'static str,
    worker: io::Result<Worker<S>>,
    counters: Arc<EngineCounters>,
    (budget, kind): (Arc<Budget>, Kind),
    clients: Vec<PassedClient>,
    events: &Sender<ServerEvent>,
) -> Result<Serving, ServerError>
where
    S: Service + Send + 'static,
    S::Exchange: Send,
{
    let worker = worker.map_err(ServerError::Engine)?.counting(counters).within(budget, kind).adopting(clients);
    let mailbox = worker.mailbox();
    let thread = start_thread(name, || worker.run(), events.clone())?;
    Ok(Serving { tell: Box::new(move |letter| mailbox.send(letter)), thread })
}

/// Starts a thread whose end is an event, a panic too.
pub(super) fn start_thread(
    name: &'static str,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
    events: Sender<ServerEvent>,
) -> Result<JoinHandle<()>, ServerError> {
    let work = move || {
        let ended = catch_unwind(AssertUnwindSafe(run));
        let ended = ended.unwrap_or_else(|_| Err(io::Error::other("a worker panicked")));
        let _main_is_waiting = events.send(ServerEvent::Ended(name, ended));
    };
    thread::Builder::new().name(name.into()).spawn(work).map_err(ServerError::Engine)
}

/// Passes signals on, until the main thread is gone.
pub(super) fn forward(signals: Receiver<Signal>, events: Sender<ServerEvent>) -> Result<(), ServerError> {
    let work = move || {
        for Signal::Stop in signals {
            if events.send(ServerEvent::Signal).is_err() {
                return;
            }
        }
    };
    thread::Builder::new().name("signal".into()).spawn(work).map(drop).map_err(ServerError::Engine)
}
