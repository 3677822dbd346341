//! `serve --tls-cert --tls-key`: where the certificate comes from, and when it is read again.

#[cfg(feature = "tls")]
use std::path::PathBuf;

#[cfg(feature = "tls")]
use super::CliError;
#[cfg(feature = "tls")]
use crate::net::tls::certificates::Tls;
use crate::server::Config;

/// The certificate chain and the key at these paths, read.
///
/// # Errors
/// Where a file is not what it should be.
#[cfg(feature = "tls")]
pub(super) fn load(paths: Option<&(PathBuf, PathBuf)>) -> Result<Option<Tls>, CliError> {
    paths.map(|(chain, key)| Tls::load(chain, key)).transpose().map_err(CliError::new)
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
