//! The access log: what a line says, how many requests get one, and that nobody waits for it.

use super::{told_until_the_end, without_time};
use crate::util::DEADLINE;
use crate::util::client::{Client, exchange, get};
use crate::util::patience::in_time;
use crate::util::server::Server;
use rustix::process::Signal;
use std::process::Command;

const REQUEST: &str = "GET /api/vote/28/status/203.0.113.9 HTTP/1.1\r\nHost: a\r\n\r\n";

/// Requests in one piece; the answers are read.
fn ask(client: &mut Client, count: usize) {
    client.send(REQUEST.repeat(count));
    for _ in 0..count {
        assert_eq!(client.read_response(false).status, 200);
    }
}

/// A sample of `/metrics`.
fn metric(server: &Server, name: &str) -> u64 {
    metrics(server, [name])[0]
}

/// Of one moment: a scrape is a line of the log itself.
fn metrics<const COUNT: usize>(server: &Server, names: [&str; COUNT]) -> [u64; COUNT] {
    let page = get(server.control(), "/metrics");
    names.map(|name| of(page.text(), name))
}

fn of(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')).expect(name);
    line.parse().expect("a whole number")
}

#[test]
fn a_line_says_what_was_understood_and_answered() {
    let server = Server::in_memory(&["--access-log", "1", "--workers", "1"]);
    let control = server.control_client();
    control.add_server(28, "demo");
    let (public, private) = (server.public(), server.control());
    for (request, expected) in [
        ("GET /api/vote/28/status/203.0.113.9?t=1 HTTP/1.1", "GET /api/vote/28/status/203.0.113.9 200"),
        ("GET /api/vote/28/status/::ffff:203.0.113.9/ HTTP/1.1", "GET /api/vote/28/status/203.0.113.9 200"),
        ("GET /api/vote/29/status/203.0.113.9 HTTP/1.1", "GET /api/vote/-/status/203.0.113.9 404"),
        ("GET /api/vote/028/status/203.0.113.9 HTTP/1.1", "GET /api/vote/-/status/203.0.113.9 400"),
        ("GET /api/vote/28/status/secret HTTP/1.1", "GET /api/vote/28/status/- 400"),
        ("GET /api/servers/demo/vote-status/203.0.113.9 HTTP/1.1", "GET /api/servers/***/vote-status/203.0.113.9 200"),
        ("POST /api/servers/demo/vote-status/1.2.3.4 HTTP/1.1", "POST /api/servers/***/vote-status/1.2.3.4 405"),
        ("OPTIONS * HTTP/1.1", "OPTIONS * 204"),
        ("PURGE /somewhere/else HTTP/1.1", "- - 404"),
        ("GET /%zz HTTP/1.1", "- - 400"),
        ("nothing like it", "- - 400"),
    ] {
        let response = exchange(public, format!("{request}\r\nHost: a\r\n\r\n"));
        let bytes = response.raw_head.len() + response.body.len();
        let told = server_line(&server, expected);
        let rest = told.strip_prefix("ACCESS public 127.0.0.1:").expect("the listener and the peer");
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        let figures = rest.strip_prefix(&format!(" {expected} {bytes} B ")).unwrap_or_else(|| panic!("{told}"));
        let duration: u64 = figures.strip_suffix(" us").expect("a unit").parse().expect("a duration");
        assert!(duration < 20_000_000, "{told}");
    }
    control.get("/v1/servers/28");
    control.delete("/v1/votes/28/203.0.113.9");
    exchange(private, "GET /v1/servers/28 HTTP/1.1\r\nHost: a\r\n\r\n");
    let told = told_until_the_end(server);
    for (expected, times) in [
        (" PUT /v1/servers/- 201 ", 1),
        (" GET /v1/servers/28 200 ", 1),
        (" GET /v1/servers/28 401 ", 1),
        (" DELETE /v1/votes/28/203.0.113.9 404 ", 1),
        (" ACCESS public ", 11),
        (" ACCESS control ", 4),
    ] {
        assert_eq!(told.matches(expected).count(), times, "{expected} in\n{told}");
    }
}

/// The last line that has `part`, once it is there; it is forgotten for the next one that asks.
fn server_line(server: &Server, part: &str) -> String {
    super::await_line(server, part);
    let stderr = server.stderr();
    let line = stderr.lines().rfind(|line| line.contains(part)).expect("it was there");
    without_time(line).to_owned()
}

#[test]
fn one_in_so_many_is_told_of() {
    let server = Server::in_memory(&["--access-log", "1/10", "--workers", "1"]);
    server.control_client().add_server(28, "demo");
    let mut client = Client::connect(server.public());
    for _ in 0..50 {
        ask(&mut client, 100);
    }
    drop(client);
    let told = told_until_the_end(server);
    let lines = told.matches(" ACCESS public ").count();
    assert!((400..=600).contains(&lines), "{lines} of 5000");
}

#[test]
fn nothing_is_told_unless_asked_for() {
    let server = Server::in_memory(&["--log-level", "debug"]);
    get(server.public(), "/api/vote/28/status/203.0.113.9");
    assert!(!told_until_the_end(server).contains("ACCESS"));
}

#[test]
fn nobody_waits_for_lines_that_nobody_reads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let pipe = folder.path().join("pipe");
    let mut command = Command::new("sh");
    // Standard error is a pipe that is open and never read.
    command.args(["-c", r#"mkfifo "$0" && exec 3<>"$0" && exec "$@" 2>&3"#]).arg(&pipe);
    command.arg(env!("CARGO_BIN_EXE_vote-status")).env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    command.args(["serve", "--in-memory", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
    command.args(["--access-log", "1", "--workers", "1"]);
    let mut server = Server::spawn(command);
    server.control_client().add_server(28, "demo");
    let mut client = Client::connect(server.public());
    for _ in 0..100 {
        ask(&mut client, 100);
    }
    let names = ["vote_status_access_log_lines_total", "vote_status_access_log_dropped_total"];
    let [told, dropped] = metrics(&server, names);
    assert!(dropped > 3_000, "{told} told, {dropped} dropped");
    // With the one that added the server; the scrape is counted once it is answered.
    assert_eq!(told + dropped, 10_000 + 1, "{told} told, {dropped} dropped");
    // Each of these tells of itself, on the thread that answers it: more lines than may wait.
    let control = server.control_client();
    for id in 1_001..=2_200 {
        control.add_server(id, &format!("token-of-{id}"));
    }
    assert!(metric(&server, "vote_status_log_dropped_total") > 100);
    control.cast(28, [203, 0, 113, 7]);
    assert_eq!(exchange(server.public(), REQUEST.replace(".9", ".7")).json()["can_vote"], false);
    server.signal(Signal::TERM);
    // Well before the drain's own end, at ten seconds.
    assert_eq!(in_time("the end", || server.wait_exit(DEADLINE)).code(), Some(0));
}
