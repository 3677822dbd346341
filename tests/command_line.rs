//! The subcommands that are clients of a running service: their output, their exit status, and the
//! service's answers afterwards.

mod check;
mod csv;
mod documented;
mod export;
mod health;
mod hints;
mod import;
mod screen;
mod watch;

use crate::util::client::get;
use crate::util::needs::has;
use crate::util::package::text;
use crate::util::server::{Ended, Server, expect_failure, run_to_end};
use crate::util::stub::Stub;
use crate::util::time::{now_unix, rfc3339};
use serde_json::{Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

const COOLDOWN: i64 = 90 * 60;

/// The command line alone, with these variables.
fn say(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = Server::command();
    command.args(args).envs(variables.iter().copied());
    run_to_end(command)
}

/// Runs a subcommand against `server`.
fn run(server: &Server, args: &[&str]) -> Ended {
    let urls = [server.control(), server.public()].map(|addr| format!("http://{addr}"));
    say(args, &[("VOTE_STATUS_CONTROL_URL", &urls[0]), ("VOTE_STATUS_URL", &urls[1])])
}

/// Runs a subcommand without a key.
fn run_keyless(args: &[&[&str]]) -> Ended {
    let mut command = Server::command();
    command.env_remove("VOTE_STATUS_CONTROL_KEY").args(args.concat());
    run_to_end(command)
}

/// Requires this exit status, and nothing on standard error. Gives standard output.
fn expect_quiet(ended: &Ended, status: i32) -> &str {
    assert_eq!(ended.status.code(), Some(status), "{ended:?}");
    assert_eq!(ended.stderr, "", "{ended:?}");
    &ended.stdout
}

/// A service that answers every request with this.
fn stub(status: &str, body: &str) -> Stub {
    let answer = format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    Stub::answering(Vec::leak(answer.into_bytes()))
}

/// Writes a file, which is there as long as its folder.
fn write(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    fs::write(&path, content).expect("a file can be written");
    path
}

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

/// `sh -c SCRIPT`, with the binary as `$0` and `path` as `$1`.
fn shell(server: &Server, script: &str, path: &Path) -> Ended {
    let mut shell = Server::under(&["sh", "-c", script], Server::command());
    shell.arg(path).env("VOTE_STATUS_CONTROL_URL", format!("http://{}", server.control()));
    run_to_end(shell)
}

/// `import ARGS < file`
fn run_from(server: &Server, file: &Path, args: &str) -> Ended {
    shell(server, &format!("exec \"$0\" import {args} < \"$1\""), file)
}

/// The public status.
fn status(server: &Server, id: u32, ip: &str) -> Value {
    get(server.public(), &format!("/api/vote/{id}/status/{ip}")).json()
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("no JSON ({error}): {json:?}"))
}

/// Runs a subcommand on a terminal, with this typed. Gives its exit status and the text on the terminal.
fn on_terminal(server: &Server, command: &str, typed: &str) -> (Option<i32>, String) {
    let program = env!("CARGO_BIN_EXE_vote-status");
    let command = format!("{program} {command} --control-url http://{}", server.control());
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it is installed");
    child.stdin.take().expect("a pipe").write_all(typed.as_bytes()).expect("typed");
    let ended = child.wait_with_output().expect("it ends");
    (ended.status.code(), String::from_utf8(ended.stdout).expect("UTF-8").replace("\r\n", "\n"))
}

/// Regression: a removal by mistake also lost the token, without a word on how many players it concerned.
#[test]
fn a_removal_is_asked_about_on_a_terminal_and_keeps_the_way_back() {
    if !has(&["script"]) {
        return;
    }
    let server = Server::listed(&[]);
    let control = server.control_client();
    for last in 1..=3 {
        control.cast(28, [203, 0, 113, last]);
    }
    for typed in ["n\n", "\n", "\u{4}"] {
        let (status, shown) = on_terminal(&server, "server remove 28", typed);
        assert_eq!(status, Some(1), "{typed:?}: {shown}");
        assert!(shown.contains("remove server 28, with 3 cooldowns? "), "{shown}");
        assert!(shown.ends_with("vote-status: nothing was removed\n") && !shown.contains("demo"), "{shown}");
    }
    let way_back = "to list it again, without cooldowns: vote-status server add 28 --token demo\n";
    let removed = "server 28 removed, with 3 cooldowns\n";
    let (status, shown) = on_terminal(&server, "server remove 28", "y\n");
    assert_eq!(status, Some(0), "{shown}");
    assert!(shown.ends_with(&format!("{way_back}{removed}")), "{shown}");
    let added = run(&server, &["server", "add", "28", "--token", "demo"]);
    assert_eq!(expect_quiet(&added, 0), "server 28 added, token demo\n");
    let (status, shown) = on_terminal(&server, "server remove 28 --yes", "");
    assert_eq!((status, shown), (Some(0), format!("{way_back}{}", removed.replace('3', "0"))));
}

#[test]
fn servers_come_and_go() {
    let server = Server::in_memory(&[]);
    let added = run(&server, &["server", "add", "28", "--token", "demo"]);
    assert_eq!(expect_quiet(&added, 0), "server 28 added, token demo\n");
    let again = run(&server, &["server", "add", "28"]);
    assert_eq!(expect_quiet(&again, 0), "server 28, token demo\n");
    let second = run(&server, &["server", "add", "3", "--json"]);
    let second = parse(expect_quiet(&second, 0));
    let token = second["token"].as_str().expect("a token was made").to_owned();
    assert_eq!((second["server_id"].as_u64(), token.len()), (Some(3), 32));

    let list = run(&server, &["server", "list"]);
    assert_eq!(expect_quiet(&list, 0), format!("3\t{token}\n28\tdemo\n"));
    let list = run(&server, &["server", "list", "--json"]);
    let expected = json!({
        "servers": [{"server_id": 3, "token": token}, {"server_id": 28, "token": "demo"}], "next": null,
    });
    assert_eq!(parse(expect_quiet(&list, 0)), expected);

    let rotated = run(&server, &["server", "rotate", "3", "--json"]);
    let rotated = parse(expect_quiet(&rotated, 0));
    assert_ne!(rotated["token"], token.as_str());
    let shown = run(&server, &["server", "show", "3", "--json"]);
    assert_eq!(parse(expect_quiet(&shown, 0)), rotated);
    let old = get(server.public(), &format!("/api/servers/{token}/vote-status/203.0.113.7"));
    assert_eq!((old.status, &old.json()["error"]), (404, &json!("unknown_token")));

    let shown = run(&server, &["server", "show", "28"]);
    assert_eq!(expect_quiet(&shown, 0), "server 28, token demo\n");
    let removed = run(&server, &["server", "remove", "28"]);
    assert_eq!(expect_quiet(&removed, 0), "server 28 removed, with 0 cooldowns\n");
    for verb in ["show", "remove", "rotate"] {
        expect_failure(&run(&server, &["server", verb, "28"]), &["unknown_server"]);
    }
    let taken = rotated["token"].as_str().expect("a token");
    expect_failure(&run(&server, &["server", "add", "9", "--token", taken]), &["token_in_use"]);
    expect_failure(&run(&server, &["server", "add", "9", "--token", "no token"]), &["invalid_token"]);
}

#[test]
fn a_list_of_many_pages_is_whole() {
    let server = Server::in_memory(&[]);
    let lines: String = (1..=2_500).map(|id| format!("{{\"server_id\":{id},\"token\":\"t{id}\"}}\n")).collect();
    assert_eq!(server.control_client().post("/v1/servers/batch", &lines).json()["recorded"], 2_500);
    let list = run(&server, &["server", "list"]);
    let expected: String = (1..=2_500).map(|id| format!("{id}\tt{id}\n")).collect();
    assert_eq!(expect_quiet(&list, 0), expected);
    let list = run(&server, &["server", "list", "--json"]);
    let json = parse(expect_quiet(&list, 0));
    assert_eq!(json["servers"].as_array().map(Vec::len), Some(2_500));
}

#[test]
fn votes_are_recorded_and_cancelled() {
    let server = Server::listed(&[]);
    let voted_at = now_unix() - 600;
    let next = rfc3339(voted_at + COOLDOWN);
    let seconds = voted_at.to_string();
    let recorded = run(&server, &["vote", "28", "203.0.113.7", "--voted-at", &seconds]);
    let expected = format!("recorded: 203.0.113.7 can vote again for 28 at {next}\n");
    assert_eq!(expect_quiet(&recorded, 0), expected);
    assert_eq!(status(&server, 28, "203.0.113.7")["next_vote_at"], next.as_str());
    let again = run(&server, &["vote", "28", "203.0.113.7"]);
    let expected = format!("in cooldown: 203.0.113.7 can vote again for 28 at {next}\n");
    assert_eq!(expect_quiet(&again, 1), expected);
    let again = run(&server, &["vote", "28", "203.0.113.7", "--json"]);
    let again = parse(expect_quiet(&again, 1));
    assert_eq!((&again["error"], &again["next_vote_at"]), (&json!("in_cooldown"), &json!(next)));

    let at = rfc3339(voted_at);
    let found = run(&server, &["votes", "get", "28", "203.0.113.7"]);
    let expected = format!("203.0.113.7 voted for 28 at {at}, and can vote again at {next}\n");
    assert_eq!(expect_quiet(&found, 0), expected);
    let found = run(&server, &["votes", "get", "28", "203.0.113.7", "--json"]);
    let expected = json!({"server_id": 28, "ip": "203.0.113.7", "voted_at": at, "next_vote_at": next});
    assert_eq!(parse(expect_quiet(&found, 0)), expected);

    let dated = run(&server, &["vote", "28", "203.0.113.8", "--voted-at", &at, "--json"]);
    let expected = json!({
        "recorded": true, "server_id": 28, "ip": "203.0.113.8", "voted_at": at, "next_vote_at": next,
    });
    assert_eq!(parse(expect_quiet(&dated, 0)), expected);

    let cancelled = run(&server, &["cancel", "28", "203.0.113.7"]);
    assert_eq!(expect_quiet(&cancelled, 0), "cancelled: 203.0.113.7 can vote for 28\n");
    assert_eq!(status(&server, 28, "203.0.113.7")["can_vote"], true);
    let found = run(&server, &["votes", "get", "28", "203.0.113.7"]);
    assert_eq!(expect_quiet(&found, 1), "no vote: 203.0.113.7 can vote for 28\n");
    let again = run(&server, &["cancel", "28", "203.0.113.7"]);
    assert_eq!(expect_quiet(&again, 1), "no cooldown: 203.0.113.7 can vote for 28\n");
    let voted = run(&server, &["vote", "28", "203.0.113.9", "2001:db8:0:1::7"]);
    assert_eq!(voted.status.code(), Some(0), "{voted:?}");
    for ip in ["203.0.113.9", "2001:db8:0:1:ffff::1"] {
        assert_eq!(status(&server, 28, ip)["can_vote"], false, "{ip}");
    }
    let cancelled = run(&server, &["cancel", "28", "203.0.113.8", "--json"]);
    assert_eq!(parse(expect_quiet(&cancelled, 0)), json!({"cancelled": true}));
}

#[test]
fn all_votes_of_an_address_are_cancelled() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    control.add_server(29, "other");
    for (id, ip) in [(28, "203.0.113.7"), (29, "203.0.113.7"), (28, "2001:db8::7"), (28, "203.0.113.8")] {
        assert_eq!(control.cast_at(id, ip, now_unix()).status, 201);
    }
    let cancelled = run(&server, &["cancel", "--all", "203.0.113.7"]);
    assert_eq!(expect_quiet(&cancelled, 0), "cancelled: 2 cooldowns of 203.0.113.7\n");
    let again = run(&server, &["cancel", "--all", "203.0.113.7"]);
    assert_eq!(expect_quiet(&again, 1), "no cooldown: 203.0.113.7 can vote for every server\n");
    let network = run(&server, &["cancel", "--all", "2001:db8::ffff"]);
    assert_eq!(expect_quiet(&network, 0), "cancelled: 1 cooldown of 2001:db8::ffff\n");
    assert_eq!(status(&server, 28, "203.0.113.8")["can_vote"], false);
    let json = run(&server, &["cancel", "--all", "203.0.113.8", "--json"]);
    assert_eq!(parse(expect_quiet(&json, 0)), json!({"cancelled": 1}));
    assert_eq!(status(&server, 28, "203.0.113.8")["can_vote"], true);
}

#[test]
fn what_the_service_refuses_is_one_line_and_status_2() {
    let server = Server::listed(&[]);
    let future = (now_unix() + 3_600).to_string();
    let local = rfc3339(now_unix()).trim_end_matches('Z').to_owned();
    for (args, word) in [
        (&["vote", "29", "203.0.113.7"][..], "unknown_server"),
        (&["vote", "28", "203.0.113.256"], "invalid_vote"),
        (&["vote", "28", "203.0.113.7", "--voted-at", "0"], "invalid_vote"),
        (&["vote", "28", "203.0.113.7", "--voted-at", "-1"], "invalid_vote"),
        (&["vote", "28", "203.0.113.7", "--voted-at", &future], "invalid_vote"),
        (&["vote", "28", "203.0.113.7", "--voted-at", &local], "offset"),
        (&["vote", "028", "203.0.113.7"], "'028'"),
        (&["vote", "28"], "<IP>"),
        (&["cancel", "29", "203.0.113.7"], "unknown_server"),
        (&["votes", "get", "29", "203.0.113.7"], "unknown_server"),
        (&["votes", "get", "28", "203.0.113"], "invalid_vote"),
        (&["votes"], "subcommand"),
        (&["cancel", "28", "../../servers/28"], "invalid_vote"),
        (&["cancel", "28"], "<IP>"),
        (&["cancel", "--all", "../servers/28"], "invalid_vote"),
        (&["cancel", "28", "203.0.113.7", "--all", "203.0.113.7"], "'--all <IP>'"),
        (&["server", "add", "4294967296"], "4294967296"),
        (&["server", "nonsense"], "nonsense"),
        (&["server"], "subcommand"),
        (&["import"], "--votes"),
        (&["import", "--votes", "-", "--servers", "-"], "standard input"),
        (&["import", "/nonexistent/file"], "/nonexistent/file"),
        (&["export"], "<FILE>"),
        (&["check", "203.0.113.7"], "--server"),
    ] {
        let ended = run(&server, args);
        expect_failure(&ended, &[word]);
        assert_eq!(ended.stdout, "", "{args:?}");
    }
    assert_eq!(status(&server, 28, "203.0.113.7")["can_vote"], true);
}

#[test]
fn without_the_service_or_its_key_the_remedy_is_told() {
    let server = Server::in_memory(&[]);
    let every: &[&[&str]] = &[
        &["server", "list"],
        &["server", "add", "28"],
        &["vote", "28", "203.0.113.7"],
        &["cancel", "28", "203.0.113.7"],
        &["votes", "get", "28", "203.0.113.7"],
        &["import", "-"],
        &["export", "-"],
    ];
    let nobody = Stub::nobody();
    let html = Stub::answering(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 4\r\n\r\n<a/>");
    let folder = tempfile::tempdir().expect("a temporary folder");
    for args in every {
        let at = |url: &str, key: Option<&str>| {
            let mut command = Server::command();
            command.args(*args).args(["--control-url", url, "--data-dir", text(folder.path())]);
            match key {
                Some(key) => command.env("VOTE_STATUS_CONTROL_KEY", key),
                None => command.env_remove("VOTE_STATUS_CONTROL_KEY"),
            };
            run_to_end(command)
        };
        let real = format!("http://{}", server.control());
        expect_failure(&at(&real, Some("wrong")), &["control key", &real, "--control-key-file"]);
        expect_failure(&at(&real, None), &["no control key", "--data-dir", "VOTE_STATUS_CONTROL_KEY"]);
        expect_failure(&at(&nobody.url(), Some("any")), &[&nobody.url(), "vote-status serve", "--control-url"]);
        expect_failure(&at("127.0.0.1:8081", Some("any")), &["--control-url", "http://"]);
        expect_failure(&at(&html.url(), Some("any")), &[&html.url(), "502"]);
        let public = format!("http://{}", server.public());
        expect_failure(&at(&public, Some("any")), &[&public, "is the public listener", "--control-url"]);
    }
}

#[test]
fn the_key_comes_from_the_places_of_serve() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut serve = Server::on(&data);
    serve.env_remove("VOTE_STATUS_CONTROL_KEY");
    let server = Server::spawn(serve);
    let elsewhere = folder.path().join("key");
    fs::copy(data.join("control.key"), &elsewhere).expect("the key was made");
    let url = format!("http://{}/", server.control());
    let options: [&[&str]; 2] = [&["--data-dir", text(&data)], &["--control-key-file", text(&elsewhere)]];
    for options in options {
        let mut command = Server::command();
        command.env_remove("VOTE_STATUS_CONTROL_KEY").args(["server", "list", "--control-url", &url]).args(options);
        let ended = run_to_end(command);
        assert_eq!(expect_quiet(&ended, 0), "", "{options:?}");
    }
}
