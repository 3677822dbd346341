//! The kinds of thread, the start of those that serve, and their messages to the main thread.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use super::ServerError;
use crate::http::session::Service;
use crate::net::mailbox::{Letter, Mailbox};
use crate::net::worker::{Worker, WorkerParts};
use crate::store::StoreError;

/// A kind of thread of the service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// An event loop of the public listeners, or the second engine.
    Worker,
    /// The event loop of the control listener.
    Control,
    /// The only writer.
    Recorder,
    /// Follows the log of a shared store.
    #[cfg(feature = "redis")]
    Feed,
    /// Sends changes to a shared store.
    #[cfg(feature = "redis")]
    Votes,
    /// Takes commands to the recorder of a shared store.
    #[cfg(feature = "redis")]
    Submitter,
}

impl ThreadKind {
    /// The name of its threads, for the system.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Worker => "worker",
            Self::Control => "control",
            Self::Recorder => "recorder",
            #[cfg(feature = "redis")]
            Self::Feed => "feed",
            #[cfg(feature = "redis")]
            Self::Votes => "votes",
            #[cfg(feature = "redis")]
            Self::Submitter => "submitter",
        }
    }
}

/// A message to the main thread, from a thread or from outside.
pub(super) enum ServerEvent {
    /// The service is told to stop.
    Stop,
    /// The recorder has read its store, or cannot.
    Loaded(Result<(), StoreError>),
    /// A thread of this kind has ended in order.
    Ended(ThreadKind),
}

/// An event, or the error of a thread.
type News = Result<ServerEvent, ServerError>;

/// The messages to a run, from its threads and from outside.
pub struct Events {
    pub(super) sender: Sender<News>,
    pub(super) receiver: Receiver<News>,
}

/// The events of one run, and the function that tells it to stop. A second call tells it to stop at once.
pub fn events() -> (impl Fn() + Send, Events) {
    let (sender, receiver) = channel();
    let stopper = sender.clone();
    let stop = move || {
        // Without a receiver, the run is over.
        let _heard = stopper.send(Ok(ServerEvent::Stop));
    };
    (stop, Events { sender, receiver })
}

/// A thread that serves, and the way to send it letters.
pub(super) struct Serving {
    pub(super) tell: Box<dyn Fn(Letter)>,
    pub(super) thread: JoinHandle<()>,
}

/// Starts a worker.
pub(super) fn start_worker<S>(
    kind: ThreadKind,
    parts: WorkerParts,
    make: impl FnOnce(&Mailbox) -> S,
    events: &Sender<News>,
) -> Result<Serving, ServerError>
where
    S: Service + Send + 'static,
    S::Exchange: Send,
{
    let worker = Worker::new(parts, make).map_err(ServerError::Engine)?;
    let mailbox = worker.mailbox();
    let thread = start_thread(kind, || worker.run(), events.clone())?;
    Ok(Serving { tell: Box::new(move |letter| mailbox.send(letter)), thread })
}

/// Starts a thread. Its end is an event, even after a panic.
pub(super) fn start_thread(
    kind: ThreadKind,
    run: impl FnOnce() -> io::Result<()> + Send + 'static,
    events: Sender<News>,
) -> Result<JoinHandle<()>, ServerError> {
    let work = move || {
        let ended = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(ended) => ended,
            Err(_) => Err(io::Error::other(format!("the {} thread panicked", kind.name()))),
        };
        // The main thread outlives this one.
        let _received = events.send(ended.map(|()| ServerEvent::Ended(kind)).map_err(ServerError::Engine));
    };
    thread::Builder::new().name(kind.name().into()).spawn(work).map_err(ServerError::Engine)
}
