//! docs/REFERENCE.md tells of every option of every command, with its default, and of no other.

use crate::util::package::read_text;
use std::collections::BTreeMap;
use vote_status::cli::command;

/// Options of a command and of those below it: the default, or nothing where the help has it in words.
fn options(command: &clap::Command, into: &mut BTreeMap<String, Option<String>>) {
    for option in command.get_arguments().filter(|option| option.get_long().is_some_and(|name| name != "help")) {
        let takes_value = option.get_action().takes_values();
        let value = option.get_value_names().filter(|_| takes_value).map_or("", |names| names[0].as_str());
        let name = format!("--{} {value}", option.get_long().unwrap_or_default());
        let is_told = takes_value && !option.is_hide_default_value_set();
        let default = option.get_default_values().first().filter(|_| is_told);
        into.insert(name.trim_end().to_owned(), default.map(|default| default.to_string_lossy().into_owned()));
    }
    for below in command.get_subcommands() {
        options(below, into);
    }
}

#[test]
fn every_option_is_documented_with_its_default_and_no_other() {
    let text = read_text("docs/REFERENCE.md");
    let text = text.split("\n## ").find(|chapter| chapter.starts_with("Options\n")).expect("a chapter of options");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `--")?.split_once("` | "));
    let documented: BTreeMap<String, &str> =
        rows.map(|(name, rest)| (format!("--{name}"), rest.split(" | ").next().unwrap_or_default())).collect();
    let mut there = BTreeMap::new();
    options(&command(), &mut there);
    assert!(there.len() > 40, "{there:?}");
    assert_eq!(documented.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
    for (name, default) in there {
        let told = documented[&name];
        assert!(default.is_none_or(|default| told.contains(&format!("`{default}`"))), "{name}: {told}");
    }
}
