//! `vote-status init`: makes the empty store of a data directory, once.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use clap::ArgMatches;

use super::{CliError, Exit, one, say};
use crate::random;
use crate::store::StoreError;
use crate::store::directory::DataDirectory;
use crate::store::embedded::{EmbeddedStore, STORE_FILE, Wanted};

/// The most tries. A service that starts at the same moment holds the directory, until it has made the store or ends.
const TRIES: u32 = 10;
/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(100);

/// Makes the store, if there is none and was none.
///
/// # Errors
/// Where there is one, or none can be made.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let data_dir = one::<PathBuf>(options, "data-dir")?;
    let disk = DataDirectory::at(&data_dir);
    if !matches!(disk.is_taken(STORE_FILE), Ok(false)) {
        return Err(CliError::new(format_args!("there is a store already: {}", disk.path(STORE_FILE).display())));
    }
    let mut tries = 0;
    loop {
        tries += 1;
        match EmbeddedStore::open(Arc::clone(&disk), Wanted::Any, Arc::default(), random::number()) {
            Ok(_) => return say(format_args!("made an empty store in {}", data_dir.display())),
            Err(StoreError::InUse(_)) if matches!(disk.is_taken(STORE_FILE), Ok(true)) => {
                return say(format_args!("a service that starts has made an empty store in {}", data_dir.display()));
            }
            Err(StoreError::InUse(_)) if tries < TRIES => sleep(PAUSE),
            Err(error) => return Err(CliError::new(error)),
        }
    }
}
