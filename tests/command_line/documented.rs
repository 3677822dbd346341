//! docs/REFERENCE.md has every option of every command, with its default, and no other. Commands in the
//! documents keep the key out of arguments, and README shows the real output.

use crate::command_line::{expect_quiet, folder, parse, say, text, write};
use crate::util::needs::has;
use crate::util::package::{files_below, read_text};
use crate::util::server::Server;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use vote_status::cli::command;

/// Options of a command and its subcommands, each with its default, or nothing where the help has the default in words.
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

/// Every user of the machine sees the arguments of a process.
#[test]
fn no_document_puts_the_key_into_an_argument() {
    let mut commands = 0;
    for path in files_below(Path::new("docs"), "md").into_iter().chain(["README.md".into(), "SECURITY.md".into()]) {
        for line in read_text(&path).lines().filter(|line| line.contains("curl ")) {
            commands += 1;
            let is_told = line.contains("Bearer") || line.contains("$KEY") || line.contains("$(cat");
            assert!(!is_told, "{}: {line}", path.display());
        }
    }
    assert!(commands >= 8, "only {commands} commands were seen");
}

/// The commands of docs/API.md, as a shell and curl take them.
#[test]
fn the_commands_of_the_control_interface_do_what_the_document_says() {
    if !has(&["curl"]) {
        return;
    }
    let (server, folder) = (Server::in_memory(&[]), folder());
    let document = read_text("docs/API.md");
    let chapter = document.split("\n## ").find(|chapter| chapter.starts_with("Record votes and manage servers\n"));
    let mut blocks = chapter.expect("the chapter").split("```").skip(1).step_by(2);
    let script = blocks.next().and_then(|block| block.strip_prefix("sh\n")).expect("the commands");
    let printed = blocks.next().and_then(|block| block.strip_prefix("json\n")).expect("what they print");
    let key = write(&folder, "control.key", &format!("{}\n", Server::KEY));
    let script = script.replace("/etc/vote-status/control.key", text(&key));
    let script = format!("umask 022\n{}", script.replace("localhost:8081", &server.control().to_string()));
    let ended = Command::new("sh").args(["-euc", &script]).current_dir(folder.path()).output().expect("a shell");
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    let said = String::from_utf8(ended.stdout).expect("UTF-8");
    let without_times = |lines: &str| {
        let objects = lines.lines().map(|line| {
            let mut object = parse(line);
            for name in ["voted_at", "next_vote_at"] {
                object.get_mut(name).into_iter().for_each(|time| *time = json!("a time"));
            }
            object
        });
        objects.collect::<Vec<_>>()
    };
    assert_eq!(without_times(&said), without_times(printed));
    let header = fs::metadata(folder.path().join("key.header")).expect("the first line makes it");
    assert_eq!(header.permissions().mode() & 0o777, 0o600);
}

#[test]
fn readme_shows_where_the_demonstration_listens() {
    let ended = say(&["serve", "--check-config", "--demo"], &[]);
    let said = expect_quiet(&ended, 0);
    let addresses = said.strip_prefix("the options are good: public ").and_then(|rest| rest.split_once("; control "));
    let (public, rest) = addresses.expect("both addresses");
    let control = rest.split(';').next().unwrap_or_default();
    let lines = format!("```text\nlistening on {public} (public)\nlistening on {control} (control)\n```");
    assert!(read_text("README.md").contains(&lines), "README lacks\n{lines}");
}
