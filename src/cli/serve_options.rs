//! The options of `serve`: their values on this machine, and whether they go together. This module writes no file
//! and binds no address.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use clap::ArgMatches;
use clap::parser::ValueSource;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::key::{self, ServiceKey};
#[cfg(feature = "redis")]
use super::store::{self, StoreOptions};
use super::{CliError, demo, machine, one};
use crate::limits::{CONNECTIONS_MAX_DEFAULT, Limits, Shares};
use crate::net::listen::address::ListenAddress;
use crate::net::listen::{Role, systemd_sockets};
use crate::readiness::Readiness;
use crate::recorder::Accepts;
use crate::server::{Config, Engine};
use crate::vote::settings::Settings;

/// The options, checked.
pub(super) struct ServeOptions {
    pub(super) config: Config,
    pub(super) key: ServiceKey,
    pub(super) data_dir: PathBuf,
    pub(super) keeping: Keeping,
    pub(super) is_demo: bool,
    pub(super) requires_store: bool,
    pub(super) accepts: Accepts,
    /// An option without an effect, with which the service can still run.
    pub(super) mistake: Option<String>,
}

/// The place of votes and servers.
pub(super) enum Keeping {
    /// Nowhere: a restart forgets all.
    Memory,
    /// In the data directory.
    DataDir,
    /// In a store that other nodes use as well.
    #[cfg(feature = "redis")]
    Shared(Box<StoreOptions>),
}

impl ServeOptions {
    /// Reads the options, with the sockets that a service manager has passed. Raises the limit on descriptors.
    ///
    /// # Errors
    /// Where a value cannot be used, the options do not go together, or this build lacks a feature that they need.
    pub(super) fn parse(
        matches: &ArgMatches,
        passed: Vec<(Role, OwnedFd)>,
        log_dropped: Arc<AtomicU64>,
    ) -> Result<Self, CliError> {
        let (data_dir, keeping, limits) = (one::<PathBuf>(matches, "data-dir")?, keeping(matches)?, limits(matches)?);
        let (is_demo, engine, workers) = (matches.get_flag("demo"), one(matches, "engine")?, one(matches, "workers")?);
        let listen = listen(matches);
        let control = one(matches, "control")?;
        refuse_addresses(&passed, &listen, &control, engine)?;
        let key = ServiceKey::new(matches.get_one("control-key-file"), &data_dir)?;
        let number = |name| matches.get_one::<usize>(name).copied();
        let (max_waiting, max_connections) = (number("max-waiting"), number("max-connections"));
        let mistake = mistake(max_waiting.zip(max_connections), matches.contains_id("stale-max"), &keeping);
        let shares = shares(max_connections, workers);
        let waiting_max = max_waiting.unwrap_or_else(|| shares.waiting_max_default()).min(shares.connections_max);
        let config = Config {
            listen,
            control,
            listen_mode: one(matches, "listen-mode")?,
            engine,
            workers,
            settings: Settings {
                cooldown: one(matches, "cooldown-minutes")?,
                ipv6_prefix: one(matches, "ipv6-prefix")?,
            },
            control_key: key.key().clone(),
            limits,
            shares,
            waiting_max,
            log_dropped,
            store: match &keeping {
                Keeping::Memory => "memory, where nothing is kept".to_owned(),
                Keeping::DataDir => data_dir.display().to_string(),
                #[cfg(feature = "redis")]
                Keeping::Shared(store) => store.redis.address.to_string(),
            },
            drain_delay_ms: one(matches, "drain-delay")?,
            drain_timeout_ms: one(matches, "drain-timeout")?,
            seed: if is_demo { demo::seed() } else { Vec::new() },
            readiness: Readiness::default(),
            passed,
        };
        let requires_store = matches.get_flag("require-store");
        let accepts =
            Accepts { clock: matches.get_flag("accept-clock"), settings: matches.get_flag("accept-settings") };
        let options = Self { config, key, data_dir, keeping, is_demo, requires_store, accepts, mistake };
        if options.uses_data_dir() {
            key::refuse_file(&options.data_dir)?;
        }
        Ok(options)
    }

    pub(super) const fn keeps_nothing(&self) -> bool {
        matches!(self.keeping, Keeping::Memory)
    }

    /// Whether the service reads or keeps anything in the data directory.
    pub(super) fn uses_data_dir(&self) -> bool {
        !self.keeps_nothing() || (self.key.is_in_data_dir() && !self.is_demo)
    }

    /// The data directory, if the service keeps something there.
    pub(super) fn own_data_dir(&self) -> Option<&Path> {
        (!self.keeps_nothing()).then_some(&self.data_dir)
    }
}

/// The addresses of the public listeners. A demonstration is for this machine alone, unless an address is given.
fn listen(matches: &ArgMatches) -> Vec<ListenAddress> {
    let is_given = matches.value_source("listen") != Some(ValueSource::DefaultValue);
    if matches.get_flag("demo") && !is_given {
        return vec![ListenAddress::Tcp(SocketAddr::from(([127, 0, 0, 1], 8_080)))];
    }
    matches.get_many("listen").unwrap_or_default().cloned().collect()
}

/// Refuses a public socket that the engine cannot take, and one address for both interfaces.
fn refuse_addresses(
    passed: &[(Role, OwnedFd)],
    listen: &[ListenAddress],
    control: &ListenAddress,
    engine: Engine,
) -> Result<(), CliError> {
    let is_passed = |role| passed.iter().any(|(passed, _)| *passed == role);
    if engine != Engine::Native && is_passed(Role::Public) {
        return Err(CliError::new(
            "a public socket was passed, and only the native engine takes one: leave --engine out",
        ));
    }
    if let Some(address) = listen.iter().find(|address| matches!(address, ListenAddress::Unix(_)))
        && engine != Engine::Native
    {
        let engine = engine.name();
        return Err(CliError::new(format_args!(
            "cannot listen on {address}: the engine {engine} listens on internet addresses only: leave --engine out"
        )));
    }
    match listen.iter().find(|listen| listen.overlaps(control)) {
        Some(public) if !is_passed(Role::Public) && !is_passed(Role::Control) => Err(CliError::new(format_args!(
            "--control {control} is the address of --listen {public}: give the control interface one of its own"
        ))),
        _ => Ok(()),
    }
}

fn mistake(waiting_of: Option<(usize, usize)>, has_stale_max: bool, keeping: &Keeping) -> Option<String> {
    if let Some((waiting, connections)) = waiting_of.filter(|(waiting, connections)| waiting > connections) {
        return Some(format!(
            "--max-waiting {waiting} is more than --max-connections {connections}: each waiting request has a connection"
        ));
    }
    (has_stale_max && matches!(keeping, Keeping::Memory | Keeping::DataDir))
        .then(|| "--stale-max means nothing without a shared store: name one by --store, or leave it out".to_owned())
}

fn keeping(matches: &ArgMatches) -> Result<Keeping, CliError> {
    if matches.contains_id("store") {
        #[cfg(feature = "redis")]
        return store::options(matches).map(|options| Keeping::Shared(Box::new(options)));
        #[cfg(not(feature = "redis"))]
        return Err(CliError::new("--store needs a build with the cargo feature redis"));
    }
    let is_memory = matches.get_flag("in-memory") || matches.get_flag("demo");
    Ok(if is_memory { Keeping::Memory } else { Keeping::DataDir })
}

fn limits(matches: &ArgMatches) -> Result<Limits, CliError> {
    Ok(Limits {
        head_bytes_max: one(matches, "head-bytes-max")?,
        header_lines_max: one(matches, "header-lines-max")?,
        body_bytes_max: one(matches, "body-bytes-max")?,
        skip_body_bytes_max: one(matches, "skip-body-bytes-max")?,
        head_timeout_ms: one(matches, "head-timeout")?,
        idle_timeout_ms: one(matches, "idle-timeout")?,
        write_timeout_ms: one(matches, "write-timeout")?,
        buffer_bytes_max: matches.get_one("buffer-bytes-max").copied().unwrap_or_else(machine::buffer_bytes_max),
    })
}

/// Takes the sockets that a service manager has opened, each with the role of its name.
///
/// # Errors
/// Where one of them cannot be used.
pub(super) fn passed() -> Result<Vec<(Role, OwnedFd)>, CliError> {
    let taken =
        systemd_sockets::take().map_err(|error| CliError::new(format_args!("a passed socket is of no use: {error}")));
    let role = |name: &str| match name {
        "public" | "" => Ok(Role::Public),
        "control" => Ok(Role::Control),
        name => Err(CliError::new(format_args!(
            "a socket was passed as {name:?}: name it public or control (FileDescriptorName= under systemd)"
        ))),
    };
    taken?.into_iter().map(|(name, socket)| Ok((role(&name)?, socket))).collect()
}

/// The shares of the descriptors. The process raises its limit as far as it may. Some descriptors are not for public
/// clients, but for the control listener, newcomers that are told 503, and other uses.
fn shares(asked: Option<usize>, workers: usize) -> Shares {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
    let limit = if setrlimit(Resource::Nofile, raised).is_ok() { raised } else { limit };
    let descriptors = limit.current.map_or(1 << 20, |current| usize::try_from(current).unwrap_or(1 << 20));
    let shares = Shares::of(descriptors, workers, asked);
    let allowed = shares.connections_max;
    if let Some(asked) = asked.filter(|asked| *asked > allowed) {
        log::warn!(
            "--max-connections {asked} is more than the descriptor limit of {descriptors} allows; it is {allowed}"
        );
    }
    Shares { connections_max: asked.unwrap_or(CONNECTIONS_MAX_DEFAULT).min(allowed).max(1), ..shares }
}
