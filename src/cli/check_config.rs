//! `vote-status serve --check-config`: whether all that the options name can be used, and how the service would run.
//! It leaves nothing changed. It does not check that an address is free or the store whole: only use would tell.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};

use super::serve_options::{Keeping, ServeOptions};
use super::{CliError, Exit, data_dir, exposure, say};
use crate::net::listen::listener;

/// Checks the options, and prints the mode that they give.
///
/// # Errors
/// Where one of them cannot be used, or has no effect.
pub(super) fn run(options: &ServeOptions) -> Result<Exit, CliError> {
    let ServeOptions { config, key, .. } = options;
    if let Some(mistake) = &options.mistake {
        return Err(CliError::new(mistake));
    }
    #[cfg(feature = "redis")]
    if matches!(&options.keeping, Keeping::Shared(store) if store.shows_password) {
        return Err(CliError::new("--store holds a password: use --store-password-file"));
    }
    let control = [("--control", &config.control)];
    for (option, address) in config.listen.iter().map(|address| ("--listen", address)).chain(control) {
        listener::look(address).map_err(|error| match error.kind() {
            ErrorKind::AddrNotAvailable => {
                CliError::new(format_args!("{option} {address}: the address is not one of this machine"))
            }
            _ => CliError::new(format_args!("{option} {address}: {error}")),
        })?;
    }
    if options.uses_data_dir() {
        let data_dir = &options.data_dir;
        let fail = |error| {
            CliError::new(format_args!("the data directory {} cannot be made or used: {error}", data_dir.display()))
        };
        look(data_dir).map_err(fail)?;
    }
    data_dir::refuse_other_store(options)?;
    key.look()?;
    if let Some(known) = key.key().get() {
        exposure::warn_of_key(known, options.own_data_dir());
    }
    exposure::warn(key.file(), &options.data_dir);
    exposure::warn_of_control(&config.control);
    log::logger().flush();
    let public: Vec<String> = config.listen.iter().map(ToString::to_string).collect();
    let (public, control, mode) = (public.join(", "), &config.control, mode(options, &config.store));
    let (minutes, bits) = (config.settings.cooldown.minutes(), config.settings.ipv6_prefix.bits());
    say(format_args!(
        "the options are good: public {public}; control {control}; {mode}; cooldown {minutes} minutes; IPv6 prefix {bits} bits"
    ))
}

fn mode(options: &ServeOptions, store: &str) -> String {
    match options.keeping {
        Keeping::Memory if options.is_demo => "a demonstration in memory, where nothing is kept".to_owned(),
        Keeping::Memory => "store in memory, where nothing is kept".to_owned(),
        Keeping::DataDir => format!("store in the data directory {store}"),
        #[cfg(feature = "redis")]
        Keeping::Shared(_) => format!("store shared with other nodes, {store}"),
    }
}

/// Checks that a directory can be written to or made. No permission tells that it can be made, so the function makes
/// the first missing directory and removes it again.
fn look(data_dir: &Path) -> io::Result<()> {
    let is_missing = |folder: &&Path| fs::metadata(folder).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let named = data_dir.ancestors().filter(|folder| !folder.as_os_str().is_empty());
    let Some(missing) = named.take_while(is_missing).last() else {
        return Ok(accessat(CWD, data_dir, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS)?);
    };
    match DirBuilder::new().mode(0o700).create(missing) {
        // If another process has put something there meanwhile, it stays.
        Ok(()) => drop(fs::remove_dir(missing)),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    Ok(())
}
