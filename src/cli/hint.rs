//! What is told of environment variables that look like ours, and are none.

use std::env;

use clap::Command;

use super::args::command;

/// Variables that are no option's.
const VARIABLES: [&str; 5] = [
    super::key::VARIABLE,
    "VOTE_STATUS_STORE_USER",
    "VOTE_STATUS_STORE_PASSWORD",
    "VOTE_STATUS_SENTINEL_USER",
    "VOTE_STATUS_SENTINEL_PASSWORD",
];
const PREFIX: &str = "VOTE_STATUS_";
/// Variables of the project's own tests.
const PREFIX_OF_TESTS: &str = "VOTE_STATUS_TEST_";

/// Variables that are set, have the prefix, and are not read.
pub(super) fn unknown_variables() -> Vec<String> {
    let mut known: Vec<String> = VARIABLES.map(str::to_owned).to_vec();
    gather_variables(&command(), &mut known);
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    set.filter(|name| name.starts_with(PREFIX) && !name.starts_with(PREFIX_OF_TESTS) && !known.contains(name)).collect()
}

fn gather_variables(command: &Command, names: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    names.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|subcommand| gather_variables(subcommand, names));
}
