//! The loops' signs of life for the service manager (`WatchdogSec=`). The loops turn while a disk hangs, and no sign covers up
//! a stuck one.

use crate::durability::files::furnished;
use crate::durability::hangs::shimmed;
use crate::util::DEADLINE;
use crate::util::client::{Client, get};
use crate::util::needs::{has, shim};
use crate::util::server::Server;
use crate::util::wait_until;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest pause between two signs that the manager allows.
const ALLOWED: Duration = Duration::from_secs(2);
const SIGN: &str = "WATCHDOG=1";

/// The loop of the thread `STUCK_THREAD` hangs before it waits for the kernel, while there is a file `stuck`. It then makes
/// a file `hung`.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int is_there(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HANG_FOLDER"), name);
    return access(path, F_OK) == 0;
}
static void say(const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("HANG_FOLDER"), name);
    close(open(path, O_CREAT | O_WRONLY, 0600));
}
int epoll_wait(int poll, struct epoll_event *events, int count, int timeout) {
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    while (strcmp(name, getenv("STUCK_THREAD")) == 0 && is_there("stuck")) {
        say("hung");
        usleep(10000);
    }
    return syscall(SYS_epoll_pwait, poll, events, count, timeout, NULL, 8);
}
"#;

/// The service manager's end.
struct Manager(UnixDatagram);

impl Manager {
    fn watching(command: &mut Command, folder: &Path) -> Manager {
        let path = folder.join("notify");
        let manager = UnixDatagram::bind(&path).expect("bound");
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", ALLOWED.as_micros().to_string());
        Manager(manager)
    }

    /// The next message to the manager, if one comes in this time.
    fn next(&self, patience: Duration) -> Option<String> {
        self.0.set_read_timeout(Some(patience.max(Duration::from_millis(1)))).expect("a socket takes that");
        let mut state = [0; 2_000];
        let bytes = self.0.recv(&mut state).ok()?;
        Some(String::from_utf8_lossy(&state[..bytes]).into_owned())
    }

    /// Waits for `count` signs.
    fn await_signs(&self, count: usize) {
        for number in 0..count {
            while self.next(DEADLINE).unwrap_or_else(|| panic!("sign {number} did not come")) != SIGN {}
        }
    }

    /// The signs that come in this time.
    fn signs_in(&self, time: Duration) -> usize {
        let (until, mut signs) = (Instant::now() + time, 0);
        while let Some(left) = until.checked_duration_since(Instant::now()) {
            signs += usize::from(self.next(left).is_some_and(|told| told == SIGN));
        }
        signs
    }
}

/// A disk that hangs does not stop the loops: status goes on, and ending the process would pay rewards.
#[test]
fn a_recorder_that_hangs_ends_no_process() {
    if !has(&["cc"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, at) = (folder.path().join("data"), |name| folder.path().join(name));
    furnished(&data, 3);
    let mut command = shimmed(folder.path(), &data);
    let manager = Manager::watching(&mut command, folder.path());
    let server = Server::spawn(command);
    manager.await_signs(1);
    fs::write(at("hang"), "").expect("the folder takes a file");
    let mut vote = Client::connect(server.control());
    let body = r#"{"server_id":28,"ip":"198.51.100.7"}"#;
    vote.send(server.control_client().request_bytes("POST", "/v1/votes", Some(body)));
    wait_until("a sync hangs", || at("hung").exists());
    while manager.next(Duration::from_millis(1)).is_some() {}
    manager.await_signs(6);
    assert_eq!(get(server.public(), "/api/vote/28/status/198.51.100.7").status, 200);
    fs::remove_file(at("hang")).expect("it is there");
    assert_eq!(vote.read_response(false).status, 201);
    server.stop();
}

/// A store that takes long to read, or cannot be read, does not stop the loops either: they answer 503 meanwhile.
#[test]
fn a_store_that_is_not_read_ends_no_process() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    furnished(&data, 3);
    fs::remove_file(data.join("votes.redb")).expect("it is there");
    let mut command = Server::on(&data);
    let manager = Manager::watching(&mut command, folder.path());
    let server = Server::spawn(command);
    manager.await_signs(4);
    assert_eq!(get(server.public(), "/readyz").status, 503);
    server.stop();
}

/// A single stuck loop, whichever, ends the signs. At most one sign may have been on its way.
#[test]
fn a_loop_that_is_stuck_is_not_covered_up() {
    if !has(&["cc"]) {
        return;
    }
    for thread in ["worker", "control"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let at = |name| folder.path().join(name);
        let mut command = Server::on(&at("data"));
        command.env("LD_PRELOAD", shim(folder.path(), SHIM)).env("HANG_FOLDER", folder.path());
        command.env("STUCK_THREAD", thread);
        let manager = Manager::watching(&mut command, folder.path());
        let server = Server::spawn(command);
        manager.await_signs(3);
        fs::write(at("stuck"), "").expect("the folder takes a file");
        wait_until("the loop hangs", || at("hung").exists());
        while manager.next(Duration::from_millis(1)).is_some() {}
        let signs = manager.signs_in(ALLOWED * 3);
        assert!(signs <= 1, "{thread}: {signs} signs while it was stuck");
        fs::remove_file(at("stuck")).expect("it is there");
        manager.await_signs(2);
        server.stop();
    }
}

/// The variables may be meant for another process.
#[test]
fn a_process_that_is_not_watched_gives_no_sign() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = Server::serve_in_memory(&["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
    let manager = Manager::watching(&mut command, folder.path());
    command.env("WATCHDOG_PID", "1");
    Server::spawn(command).stop();
    let told: Vec<String> = std::iter::from_fn(|| manager.next(Duration::from_millis(1))).collect();
    assert_eq!(told, ["READY=1", "STOPPING=1"]);
}
