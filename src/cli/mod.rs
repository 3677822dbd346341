//! The command line: as typed, then checked, then done.

use std::ffi::OsString;
use std::fmt;

use clap::error::ErrorKind;

mod definition;
mod key;
mod logger;
mod serve;

/// What the process exits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0
    Success,
    /// 1
    Negative,
    /// 2
    Failure,
}

/// Why a command could not be done: one line that names the thing and the remedy.
#[derive(Debug)]
pub struct CliError(String);

impl CliError {
    fn new(message: impl fmt::Display) -> Self {
        // One line, whatever the parts say.
        Self(message.to_string().split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for CliError {}

/// Does what the arguments ask, writing results to standard output.
///
/// # Errors
/// What to tell on standard error before exiting with status 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<Exit, CliError> {
    let matches = match definition::command().try_get_matches_from(arguments) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            print!("{error}");
            return Ok(Exit::Success);
        }
        Err(error) => return Err(usage_error(&error)),
    };
    match matches.subcommand() {
        Some(("serve", options)) => serve::run(options),
        _ => Err(CliError::new("give a subcommand; try --help")),
    }
}

/// The first paragraph of what the parser says, on one line.
fn usage_error(error: &clap::Error) -> CliError {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return CliError::new("give a subcommand; try --help");
    }
    let text = error.to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    CliError::new(first.strip_prefix("error: ").unwrap_or(first))
}
