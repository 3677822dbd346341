//! A data directory belongs to one store: a file of its own, or a store that nodes share.

use std::panic;
use std::path::Path;

use super::CliError;
use super::serve_options::{Keeping, ServeOptions};
#[cfg(feature = "redis")]
use crate::clock::Clock;
use crate::store::SHARED_STORE_FILE;
#[cfg(feature = "redis")]
use crate::store::directory::DataDirectory;
#[cfg(feature = "redis")]
use crate::store::embedded::{STORE_FILE, has_live_vote};

/// Refuses the directory of the other kind of store: the service would silently ignore its votes.
///
/// # Errors
/// If the directory is one of the other kind. The message has the steps to either store.
pub(super) fn refuse_other_store(options: &ServeOptions) -> Result<(), CliError> {
    let data_dir = &options.data_dir;
    match options.keeping {
        Keeping::DataDir if data_dir.join(SHARED_STORE_FILE).exists() => Err(of_nodes(data_dir)),
        Keeping::Memory | Keeping::DataDir => Ok(()),
        #[cfg(feature = "redis")]
        Keeping::Shared(_) => refuse_own_votes(data_dir),
    }
}

fn of_nodes(data_dir: &Path) -> CliError {
    let (dir, file) = (data_dir.display(), SHARED_STORE_FILE);
    CliError::new(format_args!(
        "the data directory {dir} belongs to a store that nodes share ({file} is there): name that store by --store; or, to go on without it, run vote-status export FILE on a node, move {file} away, start, and import FILE"
    ))
}

#[cfg(feature = "redis")]
fn refuse_own_votes(data_dir: &Path) -> Result<(), CliError> {
    let clock = Clock::new();
    let reading = loop {
        if let Some(reading) = clock.read() {
            break reading;
        }
    };
    let disk = DataDirectory::at(data_dir);
    // redb panics on some files that are no store. Such a file holds no votes that could be read.
    if quietly(|| has_live_vote(&*disk, reading)) != Some(true) {
        return Ok(());
    }
    let dir = data_dir.display();
    Err(CliError::new(format_args!(
        "the data directory {dir} has a store of its own with live votes ({STORE_FILE}): start without --store; or, to go on with the shared store, start so once, run vote-status export FILE, move {STORE_FILE} and votes.sequence away, start with --store, and import FILE"
    )))
}

/// Runs `work` without the usual report of a panic: a damaged file makes redb panic, and the caller reports the error
/// in one line.
pub(super) fn quietly<T>(work: impl FnOnce() -> T) -> T {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let done = work();
    panic::set_hook(hook);
    done
}
