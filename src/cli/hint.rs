//! What may have been meant by a word that is not known: a subcommand, an option, an environment variable.

use std::env;
use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::args::command;

/// What other programs call a subcommand or an option, and its name here.
const ELSEWHERE: [(&str, &str); 14] = [
    ("status", "check"),
    ("ask", "check"),
    ("start", "serve"),
    ("run", "serve"),
    ("backup", "export"),
    ("dump", "export"),
    ("restore", "import"),
    ("load", "import"),
    ("delete", "cancel"),
    ("port", "listen"),
    ("host", "listen"),
    ("bind", "listen"),
    ("address", "listen"),
    ("admin", "control"),
];

/// Longest word that is compared; no name is as long.
const WORD_BYTES_MAX: usize = 64;

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

/// What to add to the error about `arguments`: nothing, or the name that was meant.
pub(super) fn for_error(error: &clap::Error, arguments: &[OsString]) -> String {
    let (kind, dashes) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ""),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, "--"),
        _ => return String::new(),
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return String::new() };
    let Some(word) = word.strip_prefix(dashes) else { return String::new() };
    let mut command = &command();
    for name in arguments.iter().skip(1).filter_map(|argument| argument.to_str()) {
        command = command.find_subcommand(name).unwrap_or(command);
    }
    let names: Vec<&str> = match kind {
        ContextKind::InvalidArg => command.get_arguments().filter_map(|argument| argument.get_long()).collect(),
        _ => command.get_subcommands().map(Command::get_name).collect(),
    };
    similar(word, &names).map(|name| format!(": did you mean {dashes}{name}?")).unwrap_or_default()
}

/// What to say of each environment variable that looks like one of ours, and is none.
pub(super) fn for_environment() -> Vec<String> {
    let mut known: Vec<String> = VARIABLES.map(str::to_owned).to_vec();
    gather_variables(&command(), &mut known);
    let names: Vec<&str> = known.iter().filter_map(|name| name.strip_prefix(PREFIX)).collect();
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let strange = set.filter(|name| name.starts_with(PREFIX) && !name.starts_with(PREFIX_OF_TESTS));
    let line = |name: String| {
        let meant = similar(&name[PREFIX.len()..], &names).map(|meant| format!(": did you mean {PREFIX}{meant}?"));
        format!("{name} means nothing here{}", meant.unwrap_or_default())
    };
    strange.filter(|name| !known.contains(name)).map(line).collect()
}

fn gather_variables(command: &Command, names: &mut Vec<String>) {
    let variables = command.get_arguments().filter_map(|argument| argument.get_env()?.to_str());
    names.extend(variables.map(str::to_owned));
    command.get_subcommands().for_each(|subcommand| gather_variables(subcommand, names));
}

/// The name that `word` is nearest to, if it is near enough to be a slip of the hand.
fn similar<'a>(word: &str, names: &[&'a str]) -> Option<&'a str> {
    let word = word.to_ascii_lowercase();
    if word.len() > WORD_BYTES_MAX {
        return None;
    }
    let elsewhere =
        ELSEWHERE.iter().filter_map(|(other, name)| Some((*other, *names.iter().find(|one| *one == name)?)));
    let spellings = names.iter().map(|name| (*name, *name)).chain(elsewhere);
    let distances = spellings.map(|(spelling, name)| (distance(&word, &spelling.to_ascii_lowercase()), name));
    let (nearest, name) = distances.min_by_key(|(distance, _)| *distance)?;
    (3 * nearest <= word.len().max(3)).then_some(name)
}

/// How many letters have to be added, removed, changed, or swapped with their neighbour to make one of the other.
fn distance(one: &str, other: &str) -> usize {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    // `rows[i][j]`: between the first i letters of the one and the first j of the other.
    let mut rows = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            if i == 0 || j == 0 {
                rows[i][j] = i + j;
                continue;
            }
            let changed = usize::from(one[i - 1] != other[j - 1]);
            let mut least = (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][other.len()]
}

#[cfg(test)]
mod tests {
    use super::{distance, similar};

    #[test]
    fn the_nearest_name_is_found_and_no_far_one() {
        let names = ["serve", "check", "server", "import", "export", "listen", "cooldown-minutes"];
        for (word, expected) in [
            ("serv", Some("serve")),
            ("chekc", Some("check")),
            ("improt", Some("import")),
            ("status", Some("check")),
            ("statsu", Some("check")),
            ("prot", Some("listen")),
            ("cooldown-minute", Some("cooldown-minutes")),
            ("COOLDOWN-MINUTS", Some("cooldown-minutes")),
            ("admin", None),
            ("frobnicate", None),
            ("x", None),
            ("", None),
            (&"a".repeat(10_000), None),
        ] {
            assert_eq!(similar(word, &names), expected, "{word}");
        }
    }

    #[test]
    fn distances() {
        for (one, other, expected) in
            [("", "", 0), ("a", "", 1), ("port", "prot", 1), ("listn", "listen", 1), ("abc", "xyz", 3), ("é", "e", 2)]
        {
            assert_eq!((distance(one, other), distance(other, one)), (expected, expected), "{one} {other}");
        }
    }
}
