//! A store shared with other nodes: from options to its address.

use std::env;
use std::path::{Path, PathBuf};
use std::thread;

use clap::ArgMatches;

use super::{CliError, exposure, one};
use crate::cluster::RedisStore;
use crate::cluster::access::{Secret, StoreAccess};
use crate::cluster::address::StoreAddress;
use crate::cluster::primary::Primary;
#[cfg(feature = "tls")]
use crate::cluster::tls::TlsFiles;
use crate::server::StoreChoice;
use crate::store::SHARED_STORE_FILE;

/// The environment variable of the store's user, if the address has none.
const USER: &str = "VOTE_STATUS_STORE_USER";
/// The environment variable of the store's password, if neither the address nor a file has one.
const PASSWORD: &str = "VOTE_STATUS_STORE_PASSWORD";
/// The environment variable of the sentinels' user, if they have users.
const SENTINEL_USER: &str = "VOTE_STATUS_SENTINEL_USER";
/// The environment variable of the sentinels' password, if they want one and no file has it.
const SENTINEL_PASSWORD: &str = "VOTE_STATUS_SENTINEL_PASSWORD";

/// The options of `serve` for a shared store.
pub(super) struct StoreOptions {
    pub(super) redis: RedisStore,
    /// The typed address contains a password: every user of the machine can see it.
    pub(super) shows_password: bool,
}

/// Reads the options.
///
/// # Errors
/// Where the address is invalid, or a password cannot be read.
pub(super) fn options(matches: &ArgMatches) -> Result<StoreOptions, CliError> {
    let wait_ms = one(matches, "store-wait-ms")?;
    let is_confirmed = one::<u32>(matches, "store-wait-replicas")? > 0;
    let typed = StoreAddress::parse(&one::<String>(matches, "store")?);
    let redis = RedisStore {
        address: address(matches)?,
        confirm_ms: is_confirmed.then_some(wait_ms),
        id_path: one::<PathBuf>(matches, "data-dir")?.join(SHARED_STORE_FILE),
        stale_max_ms: matches.get_one("stale-max").copied(),
    };
    Ok(StoreOptions { redis, shows_password: typed.is_ok_and(|typed| typed.access.password != Secret::None) })
}

impl StoreOptions {
    /// The store that `serve` was told to share.
    pub(super) fn choice(&self, data_dir: &Path) -> StoreChoice {
        if let Err(error) = super::key::make_dir(data_dir) {
            // The node goes on: it keeps only the id of its store there, and warns again if it cannot write that.
            log::warn!("cannot make the data directory {}: {error}", data_dir.display());
        }
        if self.shows_password {
            exposure::warn_of_store_password();
        }
        StoreChoice::Shared(Box::new(self.redis.clone()))
    }

    /// On SIGHUP: checks whether the store takes user, password and certificates as they are in their files now.
    /// Each connection reads them anyway; an operator that rotates them wants to know before the old ones end.
    pub(super) fn checker(&self) -> Box<dyn Fn() + Send> {
        let address = self.redis.address.clone();
        Box::new(move || {
            let address = address.clone();
            // The check may take seconds, and the thread of signals has others to catch.
            let check = move || match Primary::open(&address).and_then(|mut primary| primary.require_fit()) {
                Ok(()) => {
                    log::info!("the store lets this node in with user, password and certificates as they are now")
                }
                Err(error) => log::error!("the store does not let this node in as its files are now: {error}"),
            };
            if let Err(error) = thread::Builder::new().name("store-check".into()).spawn(check) {
                log::error!("the store was not asked: {error}");
            }
        })
    }
}

/// The address of the store, with users and passwords for its machines and its sentinels. An error repeats no part of
/// the typed address, because that may contain a password.
///
/// # Errors
/// As [`options`].
pub(super) fn address(options: &ArgMatches) -> Result<StoreAddress, CliError> {
    let text = one::<String>(options, "store")?;
    let fail = |error| CliError::new(format_args!("--store: {error}"));
    let mut address = StoreAddress::parse(&text).map_err(fail)?;
    complete(&mut address.access, options, "store-password-file", USER, PASSWORD)?;
    complete(&mut address.sentinel_access, options, "sentinel-password-file", SENTINEL_USER, SENTINEL_PASSWORD)?;
    let path = |name| options.get_one::<PathBuf>(name).cloned();
    let (ca, pair) = (path("store-ca"), path("store-cert").zip(path("store-key")));
    if ca.is_some() || pair.is_some() {
        #[cfg(feature = "tls")]
        {
            let files = TlsFiles { ca, pair };
            address.set_files(&files).map_err(fail)?;
            // Each connection reads the files. Reading them here tells a mistake at the start.
            files.config().map_err(|error| CliError::new(format_args!("TLS to the store: {error}")))?;
        }
        #[cfg(not(feature = "tls"))]
        return Err(CliError::new("--store-ca, --store-cert and --store-key need a build with the cargo feature tls"));
    }
    Ok(address)
}

/// Completes the address: the user from the environment, the password from its file, or else from the environment.
/// The file is read here to report errors, and at each connection anew.
fn complete(
    access: &mut StoreAccess,
    options: &ArgMatches,
    file: &'static str,
    user: &str,
    password: &str,
) -> Result<(), CliError> {
    let set = |name: &str| env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
    access.user = access.user.take().or_else(|| set(user));
    if access.password == Secret::None {
        access.password = match options.get_one::<PathBuf>(file) {
            Some(path) => Secret::File(path.clone()),
            None => set(password).map_or(Secret::None, Secret::Text),
        };
        access.password.read().map_err(CliError::new)?;
    }
    Ok(())
}
