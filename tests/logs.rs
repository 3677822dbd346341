//! The log on standard error: its lines in both formats. No line ever has a token or a key, and the
//! service never waits for the reader of the log.

mod secrets;

use crate::util::DEADLINE;
use crate::util::client::get;
use crate::util::patience::in_time;
use crate::util::server::Server;
use rustix::process::Signal;
use serde_json::Value;
use std::process::Command;

/// Ends the server and gives its whole log.
fn told_until_the_end(server: Server) -> String {
    let server = server.stop();
    // Another thread reads the last line.
    server.wait_for_lines("stopped after ", 1);
    server.stderr()
}

/// A line without its time, whose form is checked.
fn without_time(line: &str) -> &str {
    let (time, rest) = line.split_once(' ').unwrap_or_else(|| panic!("no time: {line}"));
    let form: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    assert_eq!(form, "0000-00-00T00:00:00.000Z", "{line}");
    rest
}

#[test]
fn start_and_stop_say_what_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("UTF-8");
    let server = Server::start(&["--data-dir", data, "--workers", "3", "--max-connections", "50"]);
    let (public, control) = (server.public(), server.control());
    server.control_client().add_server(28, "demo");
    server.control_client().cast(28, [203, 0, 113, 7]);
    get(public, "/api/vote/28/status/203.0.113.7");
    get(public, "/api/vote/28/status/203.0.113.8");
    let told = told_until_the_end(server);
    let version = env!("CARGO_PKG_VERSION");
    for expected in [
        format!("INFO version {version} ready: 0 servers, 0 cooldowns of 90 minutes, read in "),
        format!(" ms from {data}"),
        format!("INFO listening on {public} (public), {control} (control); engine native, 3 workers"),
        "INFO limits: 50 connections, which hold ".to_owned(),
        " bytes together; heads of 16384 bytes and 100 lines; ".to_owned(),
        "INFO server 28 is listed".to_owned(),
        "INFO stopping: ".to_owned(),
        ": 2 status requests answered, 1 votes recorded".to_owned(),
    ] {
        assert!(told.contains(&expected), "no {expected:?} in\n{told}");
    }
    told.lines().map(without_time).for_each(drop);
}

#[test]
fn cooldowns_that_end_early_are_counted_by_their_causes() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    control.add_server(28, "demo");
    for host in 7..10 {
        assert_eq!(control.cast(28, [203, 0, 113, host]).status, 201);
    }
    let told = |counts: [u32; 3]| {
        let [cancelled, replaced, removed] = counts;
        let line = format!(
            "cooldowns that ended before their time: {cancelled} cancelled, {replaced} replaced by a later vote (mode=record), \
             {removed} of removed servers"
        );
        server.wait_for_lines(&line, 1);
    };
    assert_eq!(control.delete("/v1/votes/28/203.0.113.7").status, 200);
    told([1, 0, 0]);
    assert_eq!(control.delete("/v1/servers/28").status, 200);
    told([0, 0, 2]);
}

#[test]
fn a_level_hides_what_is_less_grave() {
    for (level, is_told) in [("error", false), ("warn", false), ("info", true), ("debug", true)] {
        let server = Server::listed(&["--log-level", level]);
        server.control_client().post("/v1/votes/batch?mode=cast", r#"{"server_id":28,"ip":"203.0.113.7"}"#);
        let server = server.stop();
        if is_told {
            server.wait_for_lines("stopped after ", 1);
        }
        let stderr = server.stderr();
        assert_eq!(stderr.contains(" INFO server 28 is listed"), is_told, "{level}:\n{stderr}");
        let is_debugged = stderr.contains(" DEBUG a batch of votes: 1 recorded, 0 unchanged, 0 invalid");
        assert_eq!(is_debugged, level == "debug", "{level}:\n{stderr}");
    }
}

/// The format, also by the environment.
#[test]
fn every_line_is_an_object_where_that_is_asked_for() {
    let mut command = Server::serve(&["--in-memory"]);
    command.env("VOTE_STATUS_LOG_LEVEL", "debug").env("VOTE_STATUS_LOG_FORMAT", "json");
    let server = Server::spawn(command);
    server.control_client().add_server(28, "demo");
    server.control_client().post("/v1/votes/batch?mode=cast", r#"{"server_id":28,"ip":"203.0.113.7"}"#);
    get(server.public(), "/api/vote/28/status/203.0.113.9");
    let told = told_until_the_end(server);
    let lines: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    for line in &lines {
        without_time(&format!("{} ", line["time"].as_str().expect("a time")));
    }
    for (level, message) in
        [("info", "server 28 is listed"), ("debug", "a batch of votes: 1 recorded, 0 unchanged, 0 invalid")]
    {
        assert!(lines.iter().any(|line| line["level"] == level && line["message"] == message), "{message}: {told}");
    }
    assert!(!told.contains("203.0.113.9"), "nothing is told of a question: {told}");
}

#[test]
fn nobody_waits_for_lines_that_nobody_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let mut command = Command::new("sh");
    // Standard error is a pipe that is open and never read.
    command.args(["-c", r#"mkfifo "$0" && exec 3<>"$0" && exec "$@" 2>&3"#]).arg(&pipe);
    let service = Server::serve(&["--in-memory", "--workers", "1"]);
    command.arg(service.get_program()).args(service.get_args()).env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    let mut server = Server::spawn(command);
    // Each of these is logged by the thread that answers it: more lines than the pipe and the queue take.
    let control = server.control_client();
    for id in 1..=3_000 {
        control.add_server(id, &format!("token-of-{id}"));
    }
    let dropped = server.metric("vote_status_log_dropped_total");
    assert!(dropped > 100, "{dropped} dropped");
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    assert_eq!(get(server.public(), "/api/vote/28/status/203.0.113.7").json()["can_vote"], false);
    server.signal(Signal::TERM);
    // Well before the drain's own end, at ten seconds.
    assert_eq!(in_time("the end", || server.wait_exit(DEADLINE)).code(), Some(0));
}
