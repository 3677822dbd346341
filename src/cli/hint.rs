//! Hints about environment variables: those with our prefix that nothing reads, and those that hold a wrong value.

use std::env;
use std::ffi::OsString;

use clap::{Arg, Command};

use super::args::command;

/// Variables that belong to no option.
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
    known.extend(options().into_iter().map(|(_, variable)| variable));
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    set.filter(|name| name.starts_with(PREFIX) && !name.starts_with(PREFIX_OF_TESTS) && !known.contains(name)).collect()
}

/// The text, with the name of the environment variable in place of each option that was not typed and has its value
/// from there.
pub(super) fn in_variables(text: &str, arguments: &[OsString]) -> String {
    let typed = |option: &str| {
        let is_it =
            |argument: &str| argument.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='));
        arguments.iter().any(|argument| argument.to_str().is_some_and(is_it))
    };
    let mut named = text.to_owned();
    for (option, variable) in options() {
        if named.contains(&option) && env::var_os(&variable).is_some() && !typed(&option) {
            named = replaced(&named, &option, &variable);
        }
    }
    named
}

/// The text with `variable` in place of `option` and of the name of its value, which the parser writes behind it.
fn replaced(text: &str, option: &str, variable: &str) -> String {
    let mut parts = text.split(option);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        let is_longer = rest.starts_with(|next: char| next == '-' || next.is_ascii_alphanumeric());
        let value = rest.strip_prefix(" <").and_then(|value| value.split_once('>'));
        let (name, rest) = if is_longer { (option, rest) } else { (variable, value.map_or(rest, |(_, rest)| rest)) };
        replaced.extend([name, rest]);
    }
    replaced
}

/// Every option of any subcommand that has an environment variable, with the variable.
fn options() -> Vec<(String, String)> {
    fn gather(command: &Command, all: &mut Vec<(String, String)>) {
        let named = |arg: &Arg| Some((format!("--{}", arg.get_long()?), arg.get_env()?.to_str()?.to_owned()));
        all.extend(command.get_arguments().filter_map(named));
        command.get_subcommands().for_each(|subcommand| gather(subcommand, all));
    }
    let mut all = Vec::new();
    gather(&command(), &mut all);
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::replaced;

    #[test]
    fn an_option_is_named_as_its_variable() {
        for (text, expected) in [
            ("invalid value 'x' for '--store <URL>': why", "invalid value 'x' for 'VARIABLE': why"),
            ("--store holds a password; --store-key, '--store'", "VARIABLE holds a password; --store-key, 'VARIABLE'"),
            ("the argument '--store-key <PATH>' wants --store", "the argument '--store-key <PATH>' wants VARIABLE"),
        ] {
            assert_eq!(replaced(text, "--store", "VARIABLE"), expected);
        }
    }
}
