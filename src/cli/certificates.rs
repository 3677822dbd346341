//! `serve --tls-cert --tls-key`: where the certificate comes from, and when it is read again.

use std::path::PathBuf;

use clap::ArgMatches;

use super::CliError;
#[cfg(feature = "tls")]
use crate::net::tls::certificates::Tls;
use crate::server::Config;

/// What the options name, read.
///
/// # Errors
/// Where a file is not what it should be.
#[cfg(feature = "tls")]
pub(super) fn load(options: &ArgMatches) -> Result<Option<Tls>, CliError> {
    let path = |name| options.get_one::<PathBuf>(name);
    let (Some(chain), Some(key)) = (path("tls-cert"), path("tls-key")) else { return Ok(None) };
    Tls::load(chain, key).map(Some).map_err(CliError::new)
}

/// Refuses the options in a build that cannot follow them.
///
/// # Errors
/// Where they are given.
#[cfg(not(feature = "tls"))]
pub(super) fn refuse(options: &ArgMatches) -> Result<(), CliError> {
    match options.get_one::<PathBuf>("tls-cert") {
        Some(_) => Err(CliError::new("--tls-cert needs a build with the cargo feature tls")),
        None => Ok(()),
    }
}

/// What SIGHUP does, if anything.
pub(super) fn reloader(config: &Config) -> Option<Box<dyn Fn() + Send>> {
    #[cfg(feature = "tls")]
    if let Some(tls) = config.tls.clone() {
        return Some(Box::new(move || match tls.reload() {
            Ok(()) => log::info!("the certificate was read again: newcomers are shown the new one"),
            Err(error) => log::error!("the certificate stays as it was: {error}"),
        }));
    }
    let _nothing_to_reload = config;
    None
}
