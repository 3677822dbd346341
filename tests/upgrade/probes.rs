//! Balancers and monitors ask the control listener all the time, a takeover with a long load
//! included: each is answered, at once, by whoever is there. Black box.

use super::caller::Caller;
use super::{assert_gone_well, process};
use crate::util::client::Client;
use crate::util::control::Control;
use crate::util::response::Response;
use crate::util::server::Server;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Scope, ScopedJoinHandle, scope, sleep};
use std::time::{Duration, Instant};

/// Between two questions.
const PAUSE: Duration = Duration::from_millis(50);
/// How long the load is made to last.
const LOAD: Duration = Duration::from_secs(4);
/// Longer than this nothing is ever held up, on a machine however busy; what waited for the end of
/// the load would take as long as that.
const ANSWER_MAX: Duration = Duration::from_secs(2);

/// Has the polls end, where a test fails too.
struct End<'a>(&'a AtomicBool);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What became of the questions.
#[derive(Debug, Default)]
struct Asked {
    count: usize,
    longest: Duration,
    failures: Vec<String>,
}

impl Asked {
    fn one(&mut self, what: &str, ask: impl FnOnce() -> io::Result<Response>) {
        let since = Instant::now();
        let answer = ask();
        let took = since.elapsed();
        self.count += 1;
        self.longest = self.longest.max(took);
        let is_true = |response: &Response| {
            let text = response.text();
            response.status == 200 && (text == r#"{"ready":true}"# || text.contains("\nvote_status_ready 1\n"))
        };
        if !answer.as_ref().is_ok_and(is_true) || took > ANSWER_MAX {
            self.failures.push(format!("{what} took {took:?}: {answer:?}"));
        }
    }
}

/// Asks until told to stop: as a balancer that connects each time, and on a connection that stays
/// as long as it may.
fn poll<'scope>(
    scope: &'scope Scope<'scope, '_>,
    control: SocketAddr,
    path: &'static str,
    is_over: &'scope AtomicBool,
) -> ScopedJoinHandle<'scope, Asked> {
    scope.spawn(move || {
        let (mut asked, mut kept) = (Asked::default(), None);
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n\r\n");
        while !is_over.load(Ordering::Relaxed) {
            asked.one(path, || {
                let mut client = Client::try_connect(control)?;
                client.try_send(&request)?;
                client.try_read_response(false)
            });
            asked.one("on a kept connection", || {
                let client = match &mut kept {
                    Some(client) => client,
                    None => kept.insert(Client::try_connect(control)?),
                };
                client.try_send(&request)?;
                let response = client.try_read_response(false)?;
                if response.says_close() {
                    kept = None;
                }
                Ok(response)
            });
            sleep(PAUSE);
        }
        asked
    })
}

fn assert_answered(what: &str, polls: Vec<ScopedJoinHandle<'_, Asked>>) {
    for asked in polls.into_iter().map(|poll| poll.join().expect("no panic")) {
        let Asked { count, longest, failures } = asked;
        writeln!(io::stderr(), "{what}: {count} probes, longest {} ms", longest.as_millis()).expect("written");
        assert_eq!(failures, [""; 0], "{what}");
        assert!(count > 20, "{what}: {count}");
    }
}

#[test]
fn probes_are_answered_while_a_new_process_loads_and_votes_wait_for_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = process(folder.path(), None, &[]);
    let control = server.control_client();
    control.add_server(1, "t");
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let end = End(&is_over);
        let polls = ["/readyz", "/metrics"].map(|path| poll(scope, server.control(), path, &is_over)).into();
        // Through a load that comes to no end, twice: what was given back is given away again.
        for voter in [7_u8, 8] {
            let control = &control;
            let caller = Caller::call(folder.path());
            assert!(caller.say("hello 2").starts_with("listening\tpublic "));
            assert_eq!(caller.say("release"), "released");
            let cast = scope.spawn(move || control.cast(1, [203, 0, 113, voter]).status);
            let wrong = Control::new(server.control(), "another key").cast(1, [203, 0, 113, 9]);
            assert_eq!(wrong.status, 401, "who has no key is told so at once");
            let until = Instant::now() + LOAD / 2;
            while Instant::now() < until {
                caller.tell("loading");
                sleep(PAUSE);
            }
            assert!(!cast.is_finished(), "a vote was answered while nobody could record it");
            if voter == 8 {
                caller.tell("ready");
                caller.hear_until("moved");
            }
            drop(caller);
            assert_eq!(cast.join().expect("no panic"), 201);
        }
        drop(end);
        assert_answered("a load without end", polls);
    });
}

/// Stands still as soon as it has called, for [`LOAD`]: a slow disk would do the same.
fn slow_process(data: &Path, before: &Server) -> Server {
    let plain = Server::command();
    let id = data.join("id");
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg("echo $$ > \"$ID\"; exec \"$0\" \"$@\"").arg(plain.get_program());
    command.args(["serve", "--takeover", "--listen", &before.public().to_string()]);
    command.args(["--control", &before.control().to_string(), "--data-dir"]).arg(data);
    command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY).env("ID", &id);
    scope(|scope| {
        let new = scope.spawn(|| Server::spawn(command));
        before.wait_for_lines("another process takes over", 1);
        let id = std::fs::read_to_string(&id).expect("it has told its id");
        let pid = Pid::from_raw(id.trim().parse().expect("a number")).expect("not 0");
        kill_process(pid, Signal::STOP).expect("our own child");
        sleep(LOAD);
        kill_process(pid, Signal::CONT).expect("our own child");
        new.join().expect("it starts")
    })
}

#[test]
fn probes_are_answered_through_a_whole_takeover() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let old = process(folder.path(), None, &["--head-timeout", "60"]);
    let control = old.control_client();
    control.add_server(1, "t");
    // It cannot change hands, and holds the old process up for as long as that waits.
    let mut begun = Client::connect(old.public());
    begun.send("GET /api/vote/1/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n");
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        let end = End(&is_over);
        let polls = ["/readyz", "/metrics"].map(|path| poll(scope, old.control(), path, &is_over)).into();
        let new = slow_process(folder.path(), &old);
        assert_eq!(control.cast(1, [203, 0, 113, 7]).status, 201);
        begun.send("{}");
        assert!(begun.read_response(false).says_close());
        assert_gone_well(old);
        drop(end);
        assert_answered("a whole takeover", polls);
        drop(new);
    });
}
