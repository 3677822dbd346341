//! The options of `serve`, resolved: what they stand for on this machine, and whether they go together.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::key::{self, ServiceKey};
use super::serve_options::{Keeping, ServeOptions};
use super::{CliError, demo};
use crate::limits::{CONNECTIONS_MAX_DEFAULT, Shares};
use crate::metrics::SharedCounter;
use crate::net::listen::{Role, systemd_sockets};
use crate::readiness::Readiness;
use crate::server::{Config, Engine};

/// All that a run needs. No file is written and no address bound yet.
pub(super) struct Resolved {
    pub(super) options: ServeOptions,
    pub(super) config: Config,
    pub(super) key: ServiceKey,
    /// Whether anything is read or kept in the data directory.
    pub(super) uses_data_dir: bool,
}

impl Resolved {
    /// Resolves the options, beside the sockets that a service manager has opened. Raises the limit on descriptors.
    ///
    /// # Errors
    /// Where the options do not go together, or what they name is a wrong choice for good.
    pub(super) fn new(
        options: ServeOptions,
        passed: Vec<(Role, OwnedFd)>,
        log_dropped: Arc<SharedCounter>,
    ) -> Result<Self, CliError> {
        if options.engine != Engine::Native && passed.iter().any(|(role, _)| *role == Role::Public) {
            return Err(CliError::new(
                "a public socket was passed, and only the native engine takes one: leave --engine out",
            ));
        }
        let own = |role| !passed.iter().any(|(passed, _)| *passed == role);
        let public = options.listen.iter().find(|listen| listen.overlaps(&options.control));
        if let Some(public) = public.filter(|_| own(Role::Public) && own(Role::Control)) {
            let control = &options.control;
            return Err(CliError::new(format_args!(
                "--control {control} is the address of --listen {public}: give the control interface one of its own"
            )));
        }
        let key = ServiceKey::new(options.key_file.as_ref(), &options.data_dir)?;
        let uses_data_dir = !options.keeps_nothing() || (key.is_in_data_dir() && !options.is_demo);
        if uses_data_dir {
            key::refuse_file(&options.data_dir)?;
        }
        let shares = shares(options.max_connections, options.workers);
        let waiting_max =
            options.max_waiting.unwrap_or_else(|| shares.waiting_max_default()).min(shares.connections_max);
        let config = Config {
            listen: options.listen.clone(),
            control: options.control.clone(),
            listen_mode: options.listen_mode,
            engine: options.engine,
            workers: options.workers,
            cooldown: options.cooldown,
            control_key: key.key().clone(),
            limits: options.limits,
            shares,
            waiting_max,
            log_dropped,
            store: match &options.keeping {
                Keeping::Memory => "memory, where nothing is kept".to_owned(),
                Keeping::DataDir => options.data_dir.display().to_string(),
                #[cfg(feature = "redis")]
                Keeping::Shared(store) => store.name(),
            },
            drain_delay_ms: options.drain_delay_ms,
            drain_timeout_ms: options.drain_timeout_ms,
            seed: if options.is_demo { demo::seed() } else { Vec::new() },
            readiness: Readiness::default(),
            passed,
        };
        Ok(Self { options, config, key, uses_data_dir })
    }
}

/// Takes the sockets that a service manager has opened, each for what its name says.
///
/// # Errors
/// Where one of them is of no use.
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
    taken?.into_iter().map(|passed| Ok((role(&passed.name)?, passed.socket))).collect()
}

/// How the descriptors are shared out. The process raises its limit as far as it may; some descriptors are kept for
/// other uses than public clients, among them the control listener and newcomers that are told 503.
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
