//! Every subcommand and option, with its default, its range and its help.

mod client;
pub(super) mod common;
mod serve;
mod store;

use clap::{Arg, ArgAction, Command};

use common::data_dir;

/// The whole command line: the parser reads it, and the man pages and completions are made of it.
#[must_use]
pub fn command() -> Command {
    Command::new("vote-status")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Answers whether a client IP address may vote now for a listed game server")
        .subcommand_required(true)
        .subcommand(serve::command())
        .subcommand(init())
        .subcommands(client::commands())
        .subcommands(store::commands())
        .subcommands(manual())
}

fn init() -> Command {
    Command::new("init")
        .about("Make the empty store of a data directory, once, for serve --require-store")
        .arg(data_dir("Where votes and servers will be kept"))
}

fn manual() -> [Command; 2] {
    let subcommand = Arg::new("subcommand").value_name("SUBCOMMAND").action(ArgAction::Append);
    let shell = Arg::new("shell").value_name("SHELL").required(true).value_parser(["bash", "zsh", "fish"]);
    [
        Command::new("man")
            .about("Print a manual page (cargo feature man)")
            .arg(subcommand.help("The subcommand to describe [default: the program]")),
        Command::new("completions")
            .about("Print the completions for a shell (cargo feature man)")
            .arg(shell.help("Which shell")),
    ]
}

#[cfg(test)]
mod tests {
    use super::command;

    #[test]
    fn the_definition_is_consistent() {
        command().debug_assert();
    }
}
