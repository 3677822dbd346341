//! The options of `serve` as they were typed. Nothing is done here.

use std::path::{Path, PathBuf};

use clap::ArgMatches;

#[cfg(feature = "redis")]
use super::store::{self, StoreOptions};
use super::{CliError, machine, one};
use crate::limits::Limits;
use crate::net::listen::address::ListenAddress;
use crate::recorder::Accepts;
use crate::server::Engine;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::time::Cooldown;

/// What `serve` was told.
pub(super) struct ServeOptions {
    pub(super) listen: Vec<ListenAddress>,
    pub(super) control: ListenAddress,
    pub(super) listen_mode: u32,
    pub(super) engine: Engine,
    pub(super) workers: usize,
    pub(super) key_file: Option<PathBuf>,
    pub(super) data_dir: PathBuf,
    pub(super) keeping: Keeping,
    pub(super) is_demo: bool,
    pub(super) requires_store: bool,
    pub(super) accepts: Accepts,
    pub(super) ipv6_prefix: Ipv6Prefix,
    pub(super) cooldown: Cooldown,
    pub(super) limits: Limits,
    /// Public connections, where their number was given.
    pub(super) max_connections: Option<usize>,
    /// Requests that wait for a vote, likewise.
    pub(super) max_waiting: Option<usize>,
    pub(super) drain_delay_ms: u64,
    pub(super) drain_timeout_ms: u64,
    /// `--stale-max` was given, which only a shared store can exceed.
    has_stale_max: bool,
}

/// Where votes and servers are kept.
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
    /// Reads what was typed.
    ///
    /// # Errors
    /// Where a value cannot be used, or this build lacks what it needs.
    pub(super) fn parse(matches: &ArgMatches) -> Result<Self, CliError> {
        Ok(Self {
            listen: matches.get_many("listen").unwrap_or_default().cloned().collect(),
            control: one(matches, "control")?,
            listen_mode: one(matches, "listen-mode")?,
            engine: one(matches, "engine")?,
            workers: one(matches, "workers")?,
            key_file: matches.get_one("control-key-file").cloned(),
            data_dir: one(matches, "data-dir")?,
            keeping: keeping(matches)?,
            is_demo: matches.get_flag("demo"),
            requires_store: matches.get_flag("require-store"),
            accepts: Accepts { clock: matches.get_flag("accept-clock"), settings: matches.get_flag("accept-settings") },
            ipv6_prefix: one(matches, "ipv6-prefix")?,
            cooldown: one(matches, "cooldown-minutes")?,
            limits: limits(matches)?,
            max_connections: matches.get_one("max-connections").copied(),
            max_waiting: matches.get_one("max-waiting").copied(),
            drain_delay_ms: one(matches, "drain-delay")?,
            drain_timeout_ms: one(matches, "drain-timeout")?,
            has_stale_max: matches.contains_id("stale-max"),
        })
    }

    pub(super) const fn keeps_nothing(&self) -> bool {
        matches!(self.keeping, Keeping::Memory)
    }

    /// An option that the service can run with, and that does not do what it says.
    pub(super) fn mistake(&self) -> Option<String> {
        if let (Some(waiting), Some(connections)) = (self.max_waiting, self.max_connections)
            && waiting > connections
        {
            return Some(format!(
                "--max-waiting {waiting} is more than --max-connections {connections}: each waiting request has a connection"
            ));
        }
        let has_own_store = matches!(self.keeping, Keeping::Memory | Keeping::DataDir);
        (self.has_stale_max && has_own_store).then(|| {
            "--stale-max means nothing without a shared store: name one by --store, or leave it out".to_owned()
        })
    }

    /// The data directory, where the service keeps something there.
    pub(super) fn own_data_dir(&self) -> Option<&Path> {
        (!self.keeps_nothing()).then_some(&self.data_dir)
    }
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
