//! A disk that hangs: a sync does not return. Status goes on, and SIGTERM ends the service in time all the same. The
//! recorder's open requests are answered as in doubt, and no acknowledged vote is lost. Every signal reports the trouble.

use crate::durability::files::furnished;
use crate::util::client::{Client, get};
use crate::util::ledger::{Ledger, SERVER, address, cast_bytes};
use crate::util::needs::{has, shim};
use crate::util::response::Response;
use crate::util::server::{Server, run_to_end};
use crate::util::time::now_unix;
use crate::util::wait_until;
use rustix::process::Signal;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::scope;
use std::time::{Duration, Instant};

const DRAIN_TIMEOUT: Duration = Duration::from_secs(3);
/// The time that a loaded machine may add.
const MARGIN: Duration = Duration::from_secs(4);
const LOG_LINE: &str = "the store did not end within --drain-timeout";

/// Syncs hang while there is a file `hang`, and then make a file `hung`. While there is a file `fail` with two numbers N and
/// E, every Nth sync fails with error E. (A tracer that delays a system call also delays the end of the process.)
const SHIM: &str = r#"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static const char *at(const char *name) {
    static __thread char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HANG_FOLDER"), name);
    return path;
}
static int hang_or(long call, int file) {
    static int count;
    int every, error;
    FILE *fail = fopen(at("fail"), "r");
    if (fail) {
        int read = fscanf(fail, "%d %d", &every, &error);
        fclose(fail);
        if (read == 2 && ++count % every == 0) {
            errno = error;
            return -1;
        }
    }
    while (access(at("hang"), F_OK) == 0) {
        close(open(at("hung"), O_CREAT | O_WRONLY, 0600));
        usleep(10000);
    }
    return syscall(call, file);
}
int fdatasync(int file) { return hang_or(SYS_fdatasync, file); }
int fsync(int file) { return hang_or(SYS_fsync, file); }
"#;

/// The service on `data`, with syncs that files in `folder` control.
pub(crate) fn serve_shimmed(folder: &Path, data: &Path) -> Server {
    Server::spawn(shimmed(folder, data))
}

/// The command of [`serve_shimmed`].
pub(crate) fn shimmed(folder: &Path, data: &Path) -> Command {
    let mut command = Server::on(data);
    command.env("LD_PRELOAD", shim(folder, SHIM)).env("HANG_FOLDER", folder).args(["--drain-timeout", "3"]);
    command
}

/// Casts until an answer announces the end of the service, and gives that answer.
fn cast_to_the_end(ledger: &mut Ledger, server: &Server) -> Response {
    for number in 100.. {
        let (pair, voted_at) = ((SERVER, address(number)), now_unix());
        let response = server.control_client().cast_at(pair.0, &pair.1.to_string(), voted_at);
        let known = if response.status == 201 { &mut ledger.recorded } else { &mut ledger.unanswered };
        known.insert(pair, voted_at);
        if response.says_close() {
            return response;
        }
    }
    unreachable!("the service ends before that")
}

fn expect_in_doubt(response: &Response, what: &str) {
    assert_eq!(response.status, 503, "{response:?}");
    let body = response.json();
    assert_eq!(body["error"], "store_unavailable", "{body}");
    assert!(body["message"].as_str().is_some_and(|message| message.contains(what)), "{body}");
    assert!(response.says_close(), "{response:?}");
}

/// SIGTERM while a sync hangs: of a commit, or of a store that is written anew after a failed sync.
/// Regression: the listeners closed without an answer, and the process stayed for as long as the disk hung.
#[test]
fn a_stop_while_a_sync_hangs_answers_what_is_under_way_and_ends() {
    if !has(&["cc"]) {
        return;
    }
    for is_anew in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (data, at) = (folder.path().join("data"), |name| folder.path().join(name));
        let mut ledger = furnished(&data, 10);
        let mut server = serve_shimmed(folder.path(), &data);
        if is_anew {
            fs::write(at("fail"), "1 5").expect("the folder takes a file");
            assert!(!ledger.try_cast(&server, 10), "the sync fails");
        }
        fs::write(at("hang"), "").expect("the folder takes a file");
        let _gone = fs::remove_file(at("fail"));
        let (known, running) = (&mut ledger, &server);
        let since = scope(|scope| {
            let vote = scope.spawn(move || cast_to_the_end(known, running));
            wait_until("a sync hangs", || at("hung").exists());
            let line = format!(r#"{{"server_id":{SERVER},"ip":"192.0.2.1","voted_at":"2026-01-01T00:00:00Z"}}"#);
            let mut batch = Client::connect(running.control());
            batch.send(running.control_client().request_bytes("POST", "/v1/votes/batch", Some(&line)));
            assert_eq!(get(running.public(), "/api/vote/28/status/192.0.2.7").status, 200, "status goes on");
            let since = Instant::now();
            running.signal(Signal::TERM);
            expect_in_doubt(&vote.join().expect("each vote is answered"), "it may have been recorded or not");
            expect_in_doubt(&batch.read_response(false), "of the rest some may have been");
            since
        });
        let status = server.wait_exit(DRAIN_TIMEOUT + MARGIN);
        println!("written anew: {is_anew}: ended after {:?}, {status}", since.elapsed());
        assert!(since.elapsed() < DRAIN_TIMEOUT + MARGIN, "{:?}", since.elapsed());
        assert_eq!(status.code(), Some(1), "{}", server.stderr());
        let stderr = server.stderr();
        let told: Vec<&str> = stderr.lines().filter(|line| line.contains(LOG_LINE)).collect();
        let doing = if is_anew { "writing the store anew from memory" } else { "making one commit" };
        let doing = format!("; the recorder has been {doing} for ");
        assert!(matches!(told[..], [line] if line.contains(" ERROR ") && line.contains(&doing)), "{stderr}");
        assert!(!stderr.contains("stopped after"), "{stderr}");
        ledger.expect_after_kill(server, &data, "a stop");
    }
}

/// Regression: while the disk hung, votes hung, and `/readyz`, `health`, the log and every metric reported that all was well.
#[test]
fn a_commit_of_more_than_two_seconds_is_told_until_it_is_over() {
    if !has(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, hang) = (folder.path().join("data"), folder.path().join("hang"));
    let mut ledger = furnished(&data, 10);
    let server = serve_shimmed(folder.path(), &data);
    let readyz = || get(server.control(), "/readyz");
    let well = readyz();
    assert_eq!((well.status, &well.json()["ready"]), (200, &true.into()), "{well:?}");
    let slow = r#"vote_status_trouble{reason="store_slow"}"#;
    assert_eq!(server.metric(slow), 0);

    let since = Instant::now();
    fs::write(&hang, "").expect("the folder takes a file");
    scope(|scope| {
        let vote = scope.spawn(|| ledger.try_cast(&server, 10));
        wait_until("it is told", || readyz().json()["reason"] == "store_slow");
        assert!(since.elapsed() > Duration::from_secs(2), "{:?}", since.elapsed());
        let (told, body) = (readyz(), readyz().json());
        assert_eq!((told.status, &body["ready"], &body["votes"]), (200, &true.into(), &false.into()), "{body}");
        let message = body["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("the recorder has been making one commit for "), "{message}");
        assert_eq!(server.metric(slow), 1);
        let at_work_s = server.sample(r#"vote_status_store_work_seconds{work="commit"}"#).expect("a metric");
        assert!(at_work_s > 2.0, "{at_work_s}");
        server.wait_for_lines("(store_slow; told again each minute while it lasts)", 1);
        let health = run_to_end(health(&server));
        let line = "ready, but votes are refused: the recorder has been making one commit for ";
        assert!(health.status.success() && health.stdout.starts_with(line), "{health:?}");
        assert_eq!(get(server.public(), "/api/vote/28/status/192.0.2.7").status, 200, "status goes on");
        fs::remove_file(&hang).expect("the disk goes on");
        assert!(vote.join().expect("the vote is answered"), "the vote is recorded");
    });
    // The answer comes after the commit: from then on all is well.
    assert_eq!((readyz().json(), server.metric(slow)), (well.json(), 0));
    ledger.expect(&server, "after the disk has hung");
}

/// After a kill in the middle of a commit, the start writes the store anew. A disk that hangs then is reported too.
#[test]
fn a_start_that_hangs_while_it_writes_the_store_anew_is_told() {
    if !has(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, hang) = (folder.path().join("data"), folder.path().join("hang"));
    let mut ledger = furnished(&data, 10);
    let mut server = serve_shimmed(folder.path(), &data);
    fs::write(&hang, "").expect("the folder takes a file");
    let (pair, voted_at) = ((SERVER, address(10)), now_unix());
    let mut vote = Client::connect(server.control());
    vote.send(cast_bytes(&server.control_client(), pair, voted_at));
    ledger.unanswered.insert(pair, voted_at);
    wait_until("a sync hangs", || folder.path().join("hung").exists());
    server.signal(Signal::KILL);
    server.wait_exit(MARGIN);

    let server = serve_shimmed(folder.path(), &data);
    let readyz = || get(server.control(), "/readyz");
    wait_until("it is told", || readyz().json()["reason"] == "store_slow");
    let body = readyz().json();
    let message = body["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("the recorder has been writing the store anew from memory for "), "{body}");
    assert_eq!(body["votes"], false, "{body}");
    fs::remove_file(&hang).expect("the disk goes on");
    wait_until("all is well", || readyz().json().get("reason").is_none() && readyz().status == 200);
    ledger.expect(&server, "after a start on a disk that hung");
    assert!(ledger.try_cast(&server, 11), "votes are taken");
}

fn health(server: &Server) -> Command {
    let mut command = Server::command();
    command.args(["health", "--control-url", &format!("http://{}", server.control())]);
    command
}
