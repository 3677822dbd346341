//! docs/REFERENCE.md has the exit status of every subcommand, and of no other.

use crate::util::package::read_text;
use clap::Command;

/// The subcommands without subcommands of their own, as they are typed.
fn leaves(command: &Command, above: &str, into: &mut Vec<String>) {
    for below in command.get_subcommands() {
        let typed = format!("{above}{}", below.get_name());
        if below.has_subcommands() {
            leaves(below, &format!("{typed} "), into);
        } else {
            into.push(typed);
        }
    }
}

#[test]
fn every_subcommand_is_documented_and_no_other() {
    let text = read_text("docs/REFERENCE.md");
    let chapter = text.split("\n## ").find(|chapter| chapter.starts_with("Exit statuses\n")).expect("the chapter");
    let rows = chapter.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" | "));
    let mut documented: Vec<&str> = rows.flat_map(|(names, _)| names.trim_end_matches('`').split("`, `")).collect();
    let mut there = Vec::new();
    leaves(&vote_status::cli::command(), "", &mut there);
    // Without the feature, the program has no subcommand for a shared store.
    if !cfg!(feature = "redis") {
        documented.retain(|name| !name.starts_with("cluster ") && *name != "reseed");
    }
    documented.sort_unstable();
    there.sort_unstable();
    assert_eq!(documented, there);
}
