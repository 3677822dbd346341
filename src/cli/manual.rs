//! `vote-status man` and `vote-status completions`: what a package installs, for an installation by hand.
//! Both are made of the definition of the command line.

#[cfg(feature = "man")]
use clap::ArgMatches;

#[cfg(feature = "man")]
use super::print;
use super::{CliError, Exit};

/// Prints a manual page: that of the program, or of the subcommand that is named.
///
/// # Errors
/// Where there is no such subcommand.
#[cfg(feature = "man")]
pub(super) fn man(options: &ArgMatches) -> Result<Exit, CliError> {
    let mut whole = super::command().disable_help_subcommand(true);
    whole.build();
    let mut command = &whole;
    for name in options.get_many::<String>("subcommand").unwrap_or_default() {
        let found = command.find_subcommand(name);
        command = found.ok_or_else(|| CliError::new(format_args!("there is no subcommand {name}; try --help")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut page).map_err(CliError::new)?;
    print(&page)
}

/// Prints what a shell reads to complete words.
///
/// # Errors
/// Where standard output takes nothing.
#[cfg(feature = "man")]
pub(super) fn completions(options: &ArgMatches) -> Result<Exit, CliError> {
    let shell: clap_complete::Shell = super::one::<String>(options, "shell")?.parse().map_err(CliError::new)?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "vote-status", &mut script);
    print(&script)
}

/// Refuses both, in a build without the feature.
#[cfg(not(feature = "man"))]
pub(super) fn refuse(name: &str) -> Result<Exit, CliError> {
    Err(CliError::new(format_args!("{name} needs a build with the cargo feature man")))
}
