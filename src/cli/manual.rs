//! `vote-status man` and `vote-status completions`: the pages and scripts of a package, for an installation by hand.
//! Both come from the definition of the command line; the manual adds sections that the definition has no place for.

use std::io;

use clap::builder::Resettable;
use clap::{Arg, ArgMatches, Command};

use super::{CliError, Exit, print};

/// The files in the pages: an option of the commands that use the file, the file, and its content.
const FILES: &[(&str, &str, &str)] = &[
    ("require-store", "/etc/default/vote-status", "Options of the packaged unit, as environment variables."),
    ("control-key-file", "/etc/vote-status/control.key", "The control key, with the Debian package."),
    ("data-dir", "DIR/control.key", "The control key without the package; the first start makes it."),
    ("require-store", "DIR/votes.redb", "Votes and servers, with their tokens."),
    (
        "require-store",
        "DIR/votes.sequence",
        "The number of the last acknowledged commit, and whether a sync is under way.",
    ),
    ("require-store", "DIR/votes.reserve", "Reserved room, to drop expired votes on a full disk."),
    ("require-store", "DIR/lock", "Held by the process that uses the data directory DIR."),
];

/// The signals of each command that handles some.
const SIGNALS: &[(&str, &str, &str)] = &[
    (
        "serve",
        "SIGTERM, SIGINT",
        "Stop in order, within --drain-delay and --drain-timeout. A second one stops at once.",
    ),
    ("serve", "SIGHUP", "With --store: try the store's password and certificate files, and log the result."),
    ("export", "SIGTERM, SIGINT, SIGHUP", "End with status 2 and leave FILE as it was."),
    ("watch", "SIGINT, SIGTERM", "Print the summary and end."),
];

/// The text in an `after_help` with which the section of the exit status begins.
const EXIT_STATUS: &str = "Exit status: ";

/// Every manual page: the name of its file, and its text.
///
/// # Errors
/// Never for text in memory; the writer's type asks for it.
pub fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    fn collect(command: &Command, into: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
        for below in command.get_subcommands() {
            collect(below, into)?;
        }
        into.push((clap_mangen::Man::new(command.clone()).get_filename(), page(command)?));
        Ok(())
    }
    let mut whole = super::command().disable_help_subcommand(true);
    whole.build();
    let mut pages = Vec::new();
    collect(&whole, &mut pages)?;
    Ok(pages)
}

fn page(command: &Command) -> io::Result<Vec<u8>> {
    let told = command.clone().override_usage(usage(command)).after_help(Resettable::Reset);
    let mut page = Vec::new();
    clap_mangen::Man::new(told).render(&mut page)?;
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (notes, status) = after.split_once(EXIT_STATUS).unwrap_or((&after, "0 on success, 2 on a failure."));
    if !notes.trim().is_empty() {
        section(&mut page, "NOTES", [(None, notes)]);
    }
    let status = if command.has_subcommands() { "That of the subcommand." } else { status };
    section(&mut page, "EXIT STATUS", [(None, status)]);
    let has = |option: &str| command.get_arguments().any(|argument| argument.get_id() == option);
    section(&mut page, "FILES", FILES.iter().filter(|(option, ..)| has(option)).map(item));
    let signals = SIGNALS.iter().filter(|(name, ..)| *name == command.get_name());
    section(&mut page, "SIGNALS", signals.map(item));
    Ok(page)
}

fn item<'a>((_, name, text): &'a (&str, &str, &str)) -> (Option<&'a str>, &'a str) {
    (Some(name), text)
}

/// The command with each of its options and values, as an operator types them.
fn usage(command: &Command) -> String {
    let mut words = vec![command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned()];
    let (values, options): (Vec<&Arg>, Vec<&Arg>) = command.get_arguments().partition(|arg| arg.is_positional());
    for argument in options.into_iter().chain(values) {
        let name = argument.get_long().map(|name| format!("--{name}"));
        let value = argument.get_value_names().filter(|_| argument.get_action().takes_values());
        let typed: Vec<String> = name.into_iter().chain(value.map(|names| names[0].to_string())).collect();
        let typed = typed.join(" ");
        words.push(if argument.is_required_set() { typed } else { format!("[{typed}]") });
    }
    if command.has_subcommands() {
        words.push("COMMAND".to_owned());
    }
    words.join(" ")
}

/// Appends a section of paragraphs, each below its name if it has one; nothing if there is no paragraph.
fn section<'a>(page: &mut Vec<u8>, title: &str, paragraphs: impl IntoIterator<Item = (Option<&'a str>, &'a str)>) {
    let escaped = |text: &str| text.replace('\\', "\\e").replace('-', "\\-");
    let mut text = String::new();
    for (name, paragraph) in paragraphs {
        if let Some(name) = name {
            text += &format!(".TP\n\\fB{}\\fR\n", escaped(name));
        }
        // A line must not begin with a control character of roff.
        text += &format!("\\&{}\n", escaped(paragraph.trim()));
    }
    if !text.is_empty() {
        page.extend_from_slice(format!(".SH \"{title}\"\n{text}").as_bytes());
    }
}

/// Prints a manual page: that of the program, or of the named subcommand.
///
/// # Errors
/// Where there is no such subcommand.
pub(super) fn man(options: &ArgMatches) -> Result<Exit, CliError> {
    let named: Vec<&str> = options.get_many::<String>("subcommand").unwrap_or_default().map(String::as_str).collect();
    let file = format!("{}.1", [&["vote-status"], &*named].concat().join("-"));
    let page = pages().map_err(CliError::new)?.into_iter().find(|(name, _)| *name == file);
    let (_, page) =
        page.ok_or_else(|| CliError::new(format_args!("there is no subcommand {}; try --help", named.join(" "))))?;
    print(&page)
}

/// Prints the script by which a shell completes words.
///
/// # Errors
/// Where standard output takes nothing.
pub(super) fn completions(options: &ArgMatches) -> Result<Exit, CliError> {
    let shell: clap_complete::Shell = super::one::<String>(options, "shell")?.parse().map_err(CliError::new)?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut super::command(), "vote-status", &mut script);
    print(&script)
}
