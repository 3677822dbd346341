//! A store shared with other nodes: from options to its address.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ArgMatches;

use super::{CliError, one};
use crate::cluster::address::StoreAddress;
use crate::cluster::{Confirmation, RedisStore};
use crate::server::Store;

/// The environment variable that holds the store's password, if the address does not.
const PASSWORD: &str = "VOTE_STATUS_STORE_PASSWORD";
/// The environment variable that holds the sentinels' password, if they want one.
const SENTINEL_PASSWORD: &str = "VOTE_STATUS_SENTINEL_PASSWORD";

/// The store that `serve` was told to share, and what it is called in the log.
///
/// # Errors
/// Where its address is none, or a password cannot be read.
pub(super) fn shared(options: &ArgMatches, data_dir: &Path) -> Result<(Store, String), CliError> {
    let replicas = u32::try_from(one::<u64>(options, "store-wait-replicas")?).unwrap_or(1);
    let wait_ms = one::<u64>(options, "store-wait-ms")?;
    if let Err(error) = super::key::make_dir(data_dir) {
        // Where a node keeps no more than which store it follows; it goes on, and says so again then.
        log::warn!("cannot make the data directory {}: {error}", data_dir.display());
    }
    let store = RedisStore {
        address: address(options)?,
        confirmation: (replicas > 0).then_some(Confirmation { replicas, wait_ms }),
        id_path: data_dir.join("store.id"),
    };
    let name = store.address.to_string();
    Ok((Store::Shared { store: Box::new(store), stale_max_ms: options.get_one("stale-max").copied() }, name))
}

/// The address of the store. Nothing of what was typed is shown where it is none: it may hold a password.
///
/// # Errors
/// As [`shared`].
pub(super) fn address(options: &ArgMatches) -> Result<StoreAddress, CliError> {
    let text = one::<String>(options, "store")?;
    let password = match options.get_one::<PathBuf>("store-password-file") {
        Some(path) => Some(fs::read_to_string(path).map_err(|error| {
            CliError::new(format_args!("cannot read the store's password file {}: {error}", path.display()))
        })?),
        None => env::var(PASSWORD).ok(),
    };
    let password = password.as_deref().map(str::trim).filter(|password| !password.is_empty());
    let mut address =
        StoreAddress::parse(&text, password).map_err(|error| CliError::new(format_args!("--store: {error}")))?;
    address.sentinel_password = env::var(SENTINEL_PASSWORD).ok().filter(|password| !password.is_empty());
    Ok(address)
}
