//! `watch`: lines as they come, the summary at the end, and a lost connection.

use crate::command_line::{expect_failure, parse};
use crate::util::DEADLINE;
use crate::util::client::get;
use crate::util::server::{Server, run_to_end};
use crate::util::stub::Stub;
use crate::util::wait_until;
use crate::util::watch::until_watched;
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Instant;

/// The capacity of a pipe (pipe(7)).
const PIPE_BYTES: usize = 65_536;

/// A running `watch` that writes into a pipe.
struct Watch {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Watch {
    fn begin(url: &str, args: &[&str]) -> Watch {
        let mut child = command(url, args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be run");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Watch { child, lines }
    }

    /// As [`Watch::begin`], with something on standard input.
    fn begin_reading(url: &str, args: &[&str], input: &str) -> Watch {
        let mut command = command(url, args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program can be run");
        child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it is read");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Watch { child, lines }
    }

    fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        parse(&line)
    }

    /// Ends `watch` as Ctrl-C does, and gives its last output.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        let (mut rest, mut said) = (String::new(), String::new());
        self.lines.read_to_string(&mut rest).expect("UTF-8");
        self.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
        assert!(self.child.wait().expect("it ends").success(), "{said}");
        assert_eq!(rest, "");
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // An error here means that the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(url: &str, args: &[&str]) -> Command {
    let mut command = Server::command();
    command.args(["watch", "--control-url", url]).args(args);
    command
}

/// The site saw the player's IPv4 address, the plugin asks with the IPv6 one.
#[test]
fn a_player_with_two_addresses_is_found_out() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let url = format!("http://{}", server.control());
    let mut watch = Watch::begin(&url, &["--server", "28"]);
    until_watched(&server, 1);
    get(server.public(), "/api/servers/demo/vote-status/2001:db8:0:7:1:2:3:4");
    let asked = watch.line();
    assert_eq!((&asked["kind"], &asked["ip"]), (&"question".into(), &"2001:db8:0:7::".into()));
    assert_eq!(control.cast(28, [203, 0, 113, 7]).status, 201);
    assert_eq!(watch.line()["kind"], "vote");
    get(server.public(), "/api/servers/demo/vote-status/2001:db8:0:7::1");
    assert_eq!(watch.line()["answer"], "can_vote");
    let said = watch.end();
    let expected = format!(
        "watching server 28 and every address at {url}; Ctrl-C ends the watch\n2 questions: 2 can_vote.\n\
        Server 28: asked with 2001:db8:0:7:: (2 times), voted with 203.0.113.7.\n  If these are one player, the \
        plugin asks with another address than the one that voted"
    );
    assert!(said.starts_with(&expected), "{said}");
}

#[test]
fn what_is_asked_for_is_what_is_shown() {
    let server = Server::listed(&[]);
    let url = format!("http://{}", server.control());
    let mut watches = [&["--unknown"][..], &["--ip", "203.0.113.8"]].map(|args| Watch::begin(&url, args));
    until_watched(&server, 2);
    for path in ["/api/vote/28/status/203.0.113.7", "/api/servers/forgotten/vote-status/203.0.113.7"] {
        get(server.public(), path);
    }
    get(server.public(), "/api/vote/28/status/203.0.113.8");
    assert_eq!(watches[0].line()["token_begins"], "forg");
    assert_eq!(watches[1].line()["ip"], "203.0.113.8");
    let [unknown, address] = watches.map(Watch::end);
    let begun = format!("watching the questions and votes that name no listed server and every address at {url}; ");
    assert!(unknown.starts_with(&begun), "{unknown}");
    assert!(
        unknown.contains("\n1 question: 1 unknown_token.\nunknown_token: the plugin has an old token"),
        "{unknown}"
    );
    assert!(address.starts_with(&format!("watching every server and 203.0.113.8 at {url}; ")), "{address}");
    assert!(address.contains("Server 28: asked with 203.0.113.8 (once), and no vote of these was seen"), "{address}");
}

/// The token is in no argument, which every user of the machine sees, and in no query.
#[test]
fn the_server_of_a_token_that_standard_input_gives_is_watched() {
    let server = Server::listed(&[]);
    server.control_client().add_server(29, "a+b==");
    let url = format!("http://{}", server.control());
    let mut watch = Watch::begin_reading(&url, &["--token-stdin"], "a+b==\n");
    until_watched(&server, 1);
    for vote in [28, 29, 29] {
        server.control_client().cast(vote, [203, 0, 113, 7]);
    }
    let kinds = [watch.line(), watch.line()].map(|line| (line["server_id"].clone(), line["kind"].clone()));
    assert_eq!(kinds, [(29.into(), "vote".into()), (29.into(), "attempt".into())]);
    let said = watch.end();
    assert!(said.starts_with("watching server 29 and every address at "), "{said}");
    assert!(said.contains("\n1 vote was not recorded: 1 in_cooldown.\n"), "{said}");
    let mut unknown = Watch::begin_reading(&url, &["--token-stdin"], "forgotten\n");
    let mut said = String::new();
    unknown.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert_eq!(unknown.child.wait().expect("it ends").code(), Some(2), "{said}");
    assert_eq!(said, "vote-status: no listed server has the token that standard input gave\n");
}

/// Regression: a watch of a server that is not listed showed nothing, and gave no reason.
#[test]
fn a_server_that_is_not_listed_is_told() {
    let server = Server::in_memory(&[]);
    let mut watch = Watch::begin(&format!("http://{}", server.control()), &["--server", "29"]);
    until_watched(&server, 1);
    server.control_client().add_server(29, "demo");
    assert_eq!(watch.line()["kind"], "registration");
    let said = watch.end();
    let lines: Vec<&str> = said.lines().collect();
    let [begun, unlisted, seen] = lines[..] else { panic!("{said}") };
    assert!(begun.starts_with("watching server 29 and every address at "), "{said}");
    assert!(unlisted.starts_with("this server is not listed: "), "{said}");
    assert_eq!(seen, "No question was seen.");
}

#[test]
fn what_cannot_be_watched_is_a_failure_at_once() {
    let server = Server::in_memory(&[]);
    let url = format!("http://{}", server.control());
    expect_failure(&run_to_end(command(&url, &["--ip", "203.0.113"])), &["ip must be", "400"]);
    expect_failure(&run_to_end(command(&url, &["--server", "x"])), &["0 to 4294967295"]);
    let nobody = Stub::nobody();
    expect_failure(&run_to_end(command(&nobody.url(), &[])), &[&nobody.url(), "--control-url"]);
}

/// Accepts a client, and waits for the head of its request.
fn accept(listener: &TcpListener) -> TcpStream {
    let (client, _) = listener.accept().expect("it connects");
    let mut request = BufReader::new(client.try_clone().expect("a handle"));
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert_ne!(request.read_line(&mut line).expect("a head"), 0);
    }
    client
}

/// The content of a line is text to a screen, in the line and in the summary.
#[test]
fn a_line_that_a_terminal_would_obey_is_escaped() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut watch = Watch::begin(&format!("http://{}", listener.local_addr().expect("an address")), &[]);
    let mut client = accept(&listener);
    let trick = "203.0.113.7\u{1b}[2J\u{9b}2J\u{202e}\n";
    let seen = serde_json::json!({ "kind": "vote", "server_id": 28, "ip": trick }).to_string();
    let chunk = format!("{:x}\r\n{seen}\n\r\n", seen.len() + 1);
    client.write_all(format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}").as_bytes()).expect("sent");
    let mut shown = String::new();
    watch.lines.read_line(&mut shown).expect("a line");
    assert_eq!(parse(&shown)["ip"], trick);
    let said = watch.end();
    assert!(said.contains(r"203.0.113.7\u001b[2J\u009b2J\u202e\u000a"), "{said:?}");
    for text in [shown, said] {
        assert!(
            !text.contains(|character: char| character != '\n' && character.is_control() || character == '\u{202e}'),
            "{text:?}"
        );
    }
}

/// Regression: a reader that took no more lines kept the process, as the signal waited behind them.
#[test]
fn a_signal_ends_a_watch_behind_a_full_pipe() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let mut watch = Watch::begin(&format!("http://{}", listener.local_addr().expect("an address")), &[]);
    let mut client = accept(&listener);
    let seen = r#"{"at":"2026-11-20T12:34:56Z","kind":"registration","server_id":28}"#.to_owned() + "\n";
    let lines = seen.repeat(2 * PIPE_BYTES / seen.len());
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.write_all(format!("{head}{:x}\r\n{lines}\r\n", lines.len()).as_bytes()).expect("sent");
    let waiting_bytes = || usize::try_from(ioctl_fionread(watch.lines.get_ref()).expect("a pipe")).expect("few");
    // The kernel leaves the rest of a page free that is too short for a line.
    wait_until("the pipe is full", || waiting_bytes() > PIPE_BYTES / 10 * 9);
    kill_process(Pid::from_child(&watch.child), Signal::TERM).expect("it runs");
    let mut ended = None;
    wait_until("it ends", || {
        ended = watch.child.try_wait().expect("a child");
        ended.is_some()
    });
    assert_eq!(ended.and_then(|status| status.signal()), Some(Signal::TERM.as_raw()));
    let mut said = String::new();
    watch.child.stderr.take().expect("a pipe").read_to_string(&mut said).expect("UTF-8");
    assert!(said.ends_with("standard output takes no more lines: the summary is left out\n"), "{said}");
}

/// A restart of the service does not end a watch, whether the stream is cut or comes to its end.
#[test]
fn a_lost_connection_is_tried_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let mut watch = Watch::begin(&url, &[]);
    let serve = thread::spawn(move || {
        for end in ["", "0\r\n\r\n", "hold"] {
            let mut client = accept(&listener);
            let seen = r#"{"at":"2026-11-20T12:34:56Z","kind":"registration","server_id":28}"#;
            let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
            let chunk = format!("{:x}\r\n{seen}\n\r\n", seen.len() + 1);
            client.write_all([head, &chunk, end].concat().trim_end_matches("hold").as_bytes()).expect("sent");
            if end == "hold" {
                return Some(client);
            }
        }
        None
    });
    let since = Instant::now();
    for _ in 0..3 {
        assert_eq!(watch.line()["server_id"], 28);
    }
    assert!(since.elapsed() < DEADLINE);
    let held = serve.join().expect("served");
    let said = watch.end();
    drop(held);
    assert!(said.contains(&format!("vote-status: {url} ")) && said.contains("; trying again\n"), "{said}");
    assert!(said.ends_with("No question was seen.\n"), "{said}");
}
