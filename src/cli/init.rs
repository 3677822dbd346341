//! `vote-status init`: makes the empty store of a data directory, once.

use std::path::PathBuf;

use clap::ArgMatches;

use super::{CliError, Exit, one, say};
use crate::store::directory::DataDirectory;
use crate::store::embedded::EmbeddedStore;

/// Makes the store, where there is none and was none.
///
/// # Errors
/// Where there is one, or none can be made.
pub(super) fn run(options: &ArgMatches) -> Result<Exit, CliError> {
    let data_dir = one::<PathBuf>(options, "data-dir")?;
    EmbeddedStore::init(DataDirectory::at(&data_dir)).map_err(CliError::new)?;
    say(format_args!("made an empty store in {}", data_dir.display()))
}
