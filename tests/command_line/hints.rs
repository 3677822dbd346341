//! Messages on typing errors, on a service that listens too openly, and on options before they take effect.

use crate::command_line::{expect_failure, expect_quiet, folder, say, text};
use crate::util::server::{Server, run_to_end};
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Regression: `90m` was an "invalid digit found in string", and a wrong word was only called wrong.
#[test]
fn slips_of_the_hand_are_told_with_what_was_meant() {
    let minutes = "a whole number without a unit is wanted, 1 to 10080";
    for (args, words) in [
        (&["serve", "--cooldown-minutes", "90m"][..], &["--cooldown-minutes", "90m", minutes][..]),
        (&["serve", "--cooldown-minutes", "0"], &[minutes]),
        (&["serve", "--cooldown-minute", "90"], &["'--cooldown-minute'", "'--cooldown-minutes'"]),
        (&["check", "--sever", "28", "203.0.113.7"], &["a similar argument exists: '--server'"]),
        (&["server", "add", "28", "--tokn", "a"], &["a similar argument exists: '--token'"]),
        (&["serv"], &["similar subcommands exist", "'serve'"]),
        (&["server", "lst"], &["a similar subcommand exists: 'list'"]),
    ] {
        expect_failure(&say(args, &[]), words);
    }
    for args in [&["frobnicate"][..], &["serve", "--frobnicate"]] {
        let ended = say(args, &[]);
        expect_failure(&ended, &["frobnicate"]);
        assert!(!ended.stderr.contains("similar"), "{ended:?}");
    }
}

/// Regression: the error named an option that was not typed.
#[test]
fn a_wrong_value_of_a_variable_names_the_variable() {
    for (name, value, args, option) in [
        ("VOTE_STATUS_COOLDOWN_MINUTES", "90m", &["serve"][..], "--cooldown-minutes"),
        ("VOTE_STATUS_IN_MEMORY", "perhaps", &["serve"], "--in-memory"),
        ("VOTE_STATUS_LISTEN", "8080", &["serve", "--control", "127.0.0.1:0"], "--listen"),
        ("VOTE_STATUS_CONTROL_URL", "127.0.0.1:8081", &["health"], "--control-url"),
        ("VOTE_STATUS_URL", "ftp://x", &["check", "--server", "28", "203.0.113.7"], "--url"),
    ] {
        let ended = say(args, &[(name, value)]);
        expect_failure(&ended, &[name]);
        assert!(!ended.stderr.contains(option), "{name}: {ended:?}");
        // An option on the command line is named as it was typed.
        let typed = say(&[args, &[&format!("{option}={value}")]].concat(), &[(name, "1")]);
        expect_failure(&typed, &[option]);
        assert!(!typed.stderr.contains(name), "{name}: {typed:?}");
    }
}

/// Regression: `VOTE_STATUS_LISTN=1` was ignored without a word.
#[test]
fn a_variable_that_means_nothing_is_told() {
    let line = "the environment variable VOTE_STATUS_LISTN means nothing here";
    let mistyped =
        [("VOTE_STATUS_LISTN", "1"), ("VOTE_STATUS_STORE_PASSWORD", "x"), ("VOTE_STATUS_CONTROL", "127.0.0.1:1")];
    let ended = say(&["health", "--control-url", "http://127.0.0.1:1"], &mistyped);
    assert_eq!(ended.stderr.lines().next(), Some(format!("vote-status: {line}").as_str()), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 2, "{ended:?}");
    let mut command = Server::serve(&["--in-memory"]);
    command.env("VOTE_STATUS_LISTN", "1");
    let server = Server::spawn(command);
    assert!(server.stderr().contains(&format!("WARN {line}\n")), "{}", server.stderr());
}

/// The warnings of `serve` on its own data directory, with these options and this key.
fn warnings(data: &Path, args: &[&str], key: &str) -> Vec<String> {
    let mut command = Server::command();
    command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", text(data)]).args(args);
    command.env("VOTE_STATUS_CONTROL_KEY", key);
    // A process that ends waits for its last lines.
    let stderr = Server::spawn(command).stop().stderr();
    stderr.lines().filter_map(|line| line.split_once(" WARN ")).map(|(_, text)| text.to_owned()).collect()
}

#[test]
fn a_key_that_may_be_guessed_and_a_listener_that_others_reach_are_told() {
    let folder = folder();
    let data = folder.path().join("data");
    assert_eq!(warnings(&data, &["--control", "127.0.0.1:0"], &"k".repeat(16)), Vec::<String>::new());
    let told = warnings(&data, &["--control", "0.0.0.0:0"], &"k".repeat(15));
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].starts_with("the control key has 15 characters, and may be guessed: "), "{told:?}");
    assert!(told[1].starts_with("the control listener is on 0.0.0.0:"), "{told:?}");
}

/// Regression: VOTE_STATUS_CONTROL_KEY_FILE, set for the subcommands, moved the key of a `serve` in the same shell.
#[test]
fn a_key_that_stands_before_the_directory_s_own_is_told() {
    let folder = folder();
    let data = folder.path().join("data");
    fs::DirBuilder::new().mode(0o700).create(&data).expect("a directory");
    fs::write(data.join("control.key"), "a-key-of-the-directory\n").expect("a file can be written");
    fs::set_permissions(data.join("control.key"), fs::Permissions::from_mode(0o600)).expect("it is ours");
    let file = folder.path().join("site.key");
    fs::write(&file, "a-key-of-another-file").expect("a file can be written");
    let mut command = Server::command();
    command.args(["serve", "--check-config", "--data-dir", text(&data)]).env_remove("VOTE_STATUS_CONTROL_KEY");
    command.env("VOTE_STATUS_CONTROL_KEY_FILE", &file);
    let ended = run_to_end(command);
    assert!(ended.stderr.contains("WARN the control key is not the one in "), "{ended:?}");
    let told = warnings(&data, &["--control", "127.0.0.1:0"], "a-key-of-the-environment");
    assert!(told.iter().any(|line| line.starts_with("the control key is not the one in ")), "{told:?}");
    assert_eq!(warnings(&data, &["--control", "127.0.0.1:0"], "a-key-of-the-directory"), Vec::<String>::new());
}

#[test]
fn options_are_checked_and_nothing_is_touched() {
    let folder = folder();
    let data = folder.path().join("data");
    let check = |args: &[&str]| say(&[&["serve", "--check-config", "--data-dir", text(&data)], args].concat(), &[]);
    let good = "the options are good: public 127.0.0.1:8080; control 127.0.0.1:8081; ";
    let usual = "cooldown 90 minutes; IPv6 prefix 64 bits";
    let ended = check(&["--listen", "127.0.0.1:8080"]);
    assert_eq!(expect_quiet(&ended, 0), format!("{good}store in the data directory {}; {usual}\n", text(&data)));
    assert!(!data.exists());
    for (args, mode) in [
        (
            &["--in-memory", "--max-waiting", "5", "--max-connections", "5"][..],
            "store in memory, where nothing is kept",
        ),
        (&["--demo"], "a demonstration in memory, where nothing is kept"),
        #[cfg(feature = "redis")]
        (&["--store", "redis://127.0.0.1:1", "--stale-max", "5"], "store shared with other nodes, redis://127.0.0.1:1"),
    ] {
        let ended = check(&[&["--listen", "127.0.0.1:8080"], args].concat());
        assert_eq!(expect_quiet(&ended, 0), format!("{good}{mode}; {usual}\n"));
    }
    let ended = check(&["--listen", "127.0.0.1:8080", "--cooldown-minutes", "5", "--ipv6-prefix", "56"]);
    assert!(expect_quiet(&ended, 0).ends_with("; cooldown 5 minutes; IPv6 prefix 56 bits\n"), "{ended:?}");
    assert!(!folder.path().join("data").exists());
}

/// A demonstration listens on this machine alone, unless an address is given.
#[test]
fn a_demonstration_is_for_this_machine() {
    for (args, variable, public) in [
        (&["--demo"][..], ("VOTE_STATUS_WORKERS", "1"), "127.0.0.1:8080"),
        (&[], ("VOTE_STATUS_DEMO", "1"), "127.0.0.1:8080"),
        (&["--demo", "--listen", "0.0.0.0:8080"], ("VOTE_STATUS_WORKERS", "1"), "0.0.0.0:8080"),
        (&["--demo"], ("VOTE_STATUS_LISTEN", "0.0.0.0:8080"), "0.0.0.0:8080"),
        (&["--in-memory"], ("VOTE_STATUS_DEMO", "false"), "0.0.0.0:8080"),
    ] {
        let ended = say(&[&["serve", "--check-config"], args].concat(), &[variable]);
        let said = expect_quiet(&ended, 0);
        assert!(
            said.starts_with(&format!("the options are good: public {public}; ")),
            "{args:?}, {variable:?}: {said}"
        );
    }
}

/// Regression: `--check-config` called each of these good.
#[test]
fn options_that_do_not_work_or_not_do_what_they_say_are_not_good() {
    let folder = folder();
    let file = folder.path().join("file");
    fs::write(&file, "").expect("a file can be written");
    let below = file.join("socket");
    for (args, words) in [
        (
            &["--listen", "127.0.0.1:8080", "--control", "127.0.0.1:8080"][..],
            &["--control 127.0.0.1:8080", "--listen"][..],
        ),
        (&["--listen", "0.0.0.0:8081"], &["--control 127.0.0.1:8081 is the address of --listen 0.0.0.0:8081"]),
        (
            &["--listen", "unix:/no/such/folder/socket"],
            &["--listen unix:/no/such/folder/socket: /no/such/folder: No such"],
        ),
        (&["--control", &format!("unix:{}", text(&below))], &["--control unix:", "not a directory"]),
        (&["--listen", "203.0.113.7:8080"], &["--listen 203.0.113.7:8080: the address is not one of this machine"]),
        (&["--control", "[2001:db8::7]:8081"], &["--control [2001:db8::7]:8081: "]),
        (&["--control-key-file", "/no/such/file"], &["cannot read the control key file /no/such/file"]),
        (&["--data-dir", "/dev/null"], &["the data directory /dev/null is no directory"]),
        (&["--data-dir", "/proc/no/such"], &["the data directory /proc/no/such cannot be made or used"]),
        (&["--max-waiting", "6", "--max-connections", "5"], &["--max-waiting 6 is more than --max-connections 5"]),
        (&["--stale-max", "5"], &["--stale-max means nothing without a shared store"]),
        (&["--in-memory", "--stale-max", "5"], &["--stale-max means nothing without a shared store"]),
        #[cfg(feature = "redis")]
        (&["--store", "redis://:secret@127.0.0.1:1"], &["--store holds a password", "--store-password-file"]),
    ] {
        let mut command = Server::command();
        command.args(["serve", "--check-config"]).args(args).current_dir(folder.path());
        command.env_remove("VOTE_STATUS_CONTROL_KEY");
        let ended = run_to_end(command);
        expect_failure(&ended, words);
        assert_eq!(ended.stdout, "", "{args:?}");
        assert!(!ended.stderr.contains("secret"), "{ended:?}");
    }
    let left: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// The start refuses options that can never work, and warns of options without their effect.
#[test]
fn a_control_listener_on_the_public_address_is_refused_at_the_start() {
    let same = ["serve", "--in-memory", "--listen", "127.0.0.1:8099", "--control", "127.0.0.1:8099"];
    expect_failure(&say(&same, &[]), &["--control 127.0.0.1:8099 is the address of --listen 127.0.0.1:8099"]);
    let server = Server::in_memory(&["--max-waiting", "6", "--max-connections", "5"]);
    server.wait_for_lines("WARN an option does nothing: --max-waiting 6 is more than --max-connections 5", 1);
}
