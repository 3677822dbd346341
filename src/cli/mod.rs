//! The command line: parsed, then checked, then carried out.

use std::ffi::OsString;
use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write, stdout};
use std::path::Path;

use clap::ArgMatches;
use clap::error::ErrorKind;

use crate::json::escaped;

mod args;
mod batch_upload;
mod check;
mod check_config;
mod client;
#[cfg(feature = "redis")]
mod cluster;
#[cfg(feature = "redis")]
mod cluster_check;
mod csv;
mod data_dir;
mod demo;
mod endpoint;
mod export;
#[cfg(feature = "redis")]
mod export_reader;
mod exposure;
mod health;
mod hint;
mod import;
mod init;
mod key;
mod lines;
mod logger;
mod machine;
#[cfg(feature = "man")]
mod manual;
#[cfg(feature = "redis")]
mod node_client;
mod progress;
#[cfg(feature = "redis")]
mod reseed;
mod serve;
mod serve_options;
mod servers;
#[cfg(feature = "redis")]
mod store;
mod votes;
mod watch;

pub use args::command;
#[cfg(feature = "man")]
pub use manual::pages as manual_pages;

/// The first bytes of a file of the store's library.
const STORE_BEGINS: &[u8] = b"redb";

/// The exit status of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// 0
    Success,
    /// 1
    Negative,
}

/// The reason why a command failed: one line that names the thing and the remedy.
#[derive(Debug)]
pub struct CliError(String);

impl CliError {
    fn new(message: impl fmt::Display) -> Self {
        // Parts of it may come from elsewhere and contain line ends, or control characters of a terminal.
        Self(escaped(&message.to_string().split_whitespace().collect::<Vec<_>>().join(" ")).into_owned())
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Runs the command of the arguments, and writes results to standard output.
///
/// # Errors
/// The message for standard error before the process exits with status 2.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> Result<Exit, CliError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let matches = match command().try_get_matches_from(&arguments) {
        Ok(matches) => matches,
        Err(error) if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            return print(error.to_string().as_bytes());
        }
        Err(error) => return Err(usage_error(&error, &arguments)),
    };
    if matches.subcommand_name() != Some("serve") {
        for name in hint::unknown_variables() {
            note(format_args!("vote-status: the environment variable {name} means nothing here"));
        }
    }
    done(&matches).map_err(|CliError(text)| CliError(hint::in_variables(&text, &arguments)))
}

/// Runs the subcommand.
fn done(matches: &ArgMatches) -> Result<Exit, CliError> {
    match matches.subcommand() {
        Some(("serve", options)) => serve::run(options),
        Some(("init", options)) => init::run(options),
        Some(("server", options)) => servers::run(options),
        Some(("vote", options)) => votes::vote(options),
        Some(("votes", options)) => votes::run(options),
        Some(("cancel", options)) => votes::cancel(options),
        Some(("import", options)) => import::run(options),
        Some(("export", options)) => export::run(options),
        Some(("check", options)) => check::run(options),
        Some(("health", options)) => health::run(options),
        Some(("watch", options)) => watch::run(options),
        #[cfg(feature = "redis")]
        Some(("cluster", options)) => cluster::run(options),
        #[cfg(feature = "redis")]
        Some(("reseed", options)) => reseed::run(options),
        #[cfg(feature = "man")]
        Some(("man", options)) => manual::man(options),
        #[cfg(feature = "man")]
        Some(("completions", options)) => manual::completions(options),
        #[cfg(not(feature = "man"))]
        Some((name @ ("man" | "completions"), _)) => {
            Err(CliError::new(format_args!("{name} needs a build with the cargo feature man")))
        }
        _ => Err(CliError::new("give a subcommand; try --help")),
    }
}

/// The value of an option that is required or has a default.
fn one<T: Clone + Send + Sync + 'static>(options: &ArgMatches, name: &'static str) -> Result<T, CliError> {
    options.get_one::<T>(name).cloned().ok_or_else(|| CliError::new(format_args!("--{name} is missing")))
}

/// Writes one line of the result. It may quote a service's text, which a terminal must not obey.
fn say(line: impl fmt::Display) -> Result<Exit, CliError> {
    print(format!("{}\n", escaped(&line.to_string())).as_bytes())
}

/// Writes one line beside the result, on standard error, escaped as by [`say`]. Without a reader, the command goes on.
fn note(line: impl fmt::Display) {
    let _closed = writeln!(io::stderr(), "{}", escaped(&line.to_string()));
}

/// Writes the result: as JSON if the options ask for that, and else in words.
fn tell(options: &ArgMatches, json: &str, words: &str, exit: Exit) -> Result<Exit, CliError> {
    if options.get_flag("json") {
        say(on_one_line(json))?
    } else {
        say(words)?
    };
    Ok(exit)
}

/// JSON on one line. Its line ends stand only between values, never inside a text.
fn on_one_line(json: &str) -> String {
    json.replace(['\n', '\r', '\t'], " ")
}

fn print(bytes: &[u8]) -> Result<Exit, CliError> {
    let mut out = stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| CliError::new(format_args!("standard output takes no more: {error}")))?;
    Ok(Exit::Success)
}

/// The error of a file that cannot be written.
fn unwritable(path: &Path, error: &io::Error) -> CliError {
    CliError::new(format_args!("cannot write {}: {error}", path.display()))
}

/// Whether the regular file at `path` begins as a file of the store's library does.
fn is_store(path: &Path) -> io::Result<bool> {
    let mut begins = Vec::new();
    File::open(path)?.take(STORE_BEGINS.len() as u64).read_to_end(&mut begins)?;
    Ok(begins == STORE_BEGINS)
}

/// The first paragraph of the parser's error and its tips, on one line.
fn usage_error(error: &clap::Error, arguments: &[OsString]) -> CliError {
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return CliError::new("give a subcommand; try --help");
    }
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let mut paragraphs = text.split("\n\n");
    let first = hint::in_variables(paragraphs.next().unwrap_or_default(), arguments);
    let tips = paragraphs.filter(|paragraph| paragraph.starts_with("  tip: ")).map(str::to_owned);
    CliError::new(std::iter::once(first).chain(tips).collect::<Vec<_>>().join(";"))
}
