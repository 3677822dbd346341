//! The composition root: it opens, binds and starts the parts in order, and stops them.
//!
//! ```text
//! store → recorder ─┬─ views ─→ public workers 0..N, or the second engine
//!                   └─ handle → control worker
//! ```
//!
//! In reading order: `run` is the whole, `start` and `stop` its ends. `state` holds the parts that these three share,
//! `workers` the parts of each worker.
//!
//! Listeners answer 503 until the store is read; they stop before the recorder does.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::control::ControlKey;
use crate::limits::{Limits, Shares};
use crate::net::listen::Role;
use crate::net::listen::address::ListenAddress;
use crate::readiness::Readiness;
use crate::recorder::command::Command;
use crate::store::StoreError;
use crate::vote::settings::Settings;

mod backend;
mod banner;
mod notify;
mod run;
mod sockets;
mod start;
mod state;
mod stop;
mod threads;
mod watchdog;
mod workers;

pub use backend::StoreChoice;
pub use run::run;
pub use threads::{Events, ThreadKind, events};

/// The options of `serve`, checked.
pub struct Config {
    /// Public addresses.
    pub listen: Vec<ListenAddress>,
    /// The address of the control listener.
    pub control: ListenAddress,
    /// Permissions of socket files.
    pub listen_mode: u32,
    /// The engine of the public event loops.
    pub engine: Engine,
    /// Number of public event loops.
    pub workers: usize,
    /// The settings of the store.
    pub settings: Settings,
    /// The control key, which may become known later.
    pub control_key: ControlKey,
    /// Bounds.
    pub limits: Limits,
    /// The bounds on connections.
    pub shares: Shares,
    /// Requests that may wait for a vote, over all workers.
    pub waiting_max: usize,
    /// How long newcomers are still taken after the signal to stop, in milliseconds.
    pub drain_delay_ms: u64,
    /// The time for requests under way after that, in milliseconds.
    pub drain_timeout_ms: u64,
    /// Lines of the log that were dropped, for the metrics.
    pub log_dropped: Arc<AtomicU64>,
    /// The name of the store in the log.
    pub store: String,
    /// A demonstration's commands, recorded before the service is ready.
    pub seed: Vec<Command>,
    /// The readiness of the service: the run writes it, and others read it.
    pub readiness: Readiness,
    /// Listening sockets that were there before the process. They replace the addresses of their
    /// role.
    pub passed: Vec<(Role, OwnedFd)>,
}

/// The engine that serves the public listeners.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// The engine made for this service.
    #[default]
    Native,
    /// The crate of that name, to compare with; docs/DEPENDENCIES.md lists its limits.
    #[cfg(feature = "may_minihttp")]
    MayMinihttp,
}

impl Engine {
    /// Every engine, by name.
    pub const ALL: &[(&str, Self)] = &[
        ("native", Self::Native),
        #[cfg(feature = "may_minihttp")]
        ("may_minihttp", Self::MayMinihttp),
    ];

    /// The name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, engine)| *engine == self).map_or("", |(name, _)| name)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything that was under way is answered.
    Cleanly,
    /// The service was told to stop twice.
    AtOnce,
    /// The recorder did not end in time: the disk hangs, and changes that were under way are in doubt.
    Overdue,
}

/// Why the service could not start, or could not go on.
#[derive(Debug)]
pub enum ServerError {
    /// An address cannot be listened on.
    Bind(ListenAddress, io::Error),
    /// A socket that was passed cannot be listened on.
    Passed(Role, io::Error),
    /// An event loop cannot be made, or broke.
    Engine(io::Error),
    /// The store cannot be read.
    Store(StoreError),
    /// A thread ended that must not.
    Thread(ThreadKind),
}

impl fmt::Display for ServerError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(address, error) if error.kind() == io::ErrorKind::AddrInUse => {
                write!(formatter, "{address} is in use: end what listens there, or give another address")
            }
            Self::Bind(address, error) => write!(formatter, "cannot listen on {address}: {error}"),
            Self::Passed(role, error) => {
                write!(formatter, "the socket that was passed as {role} is none to listen on: {error}")
            }
            Self::Engine(error) => write!(formatter, "the event loop cannot run: {error}"),
            Self::Store(error) => error.fmt(formatter),
            Self::Thread(kind) => {
                write!(formatter, "the {} thread ended; this is a bug, please report it", kind.name())
            }
        }
    }
}
