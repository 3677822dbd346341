//! Starts on a data directory that cannot be used as it is: the process stays, answers the safe 503, says
//! why, and goes on by itself once that is mended.

use crate::durability::files::{await_ready, expect_not_ready, furnished, stop};
use crate::durability::small_disk::SmallDisk;
use crate::util::client::get;
use crate::util::ledger::{Ledger, serve};
use crate::util::needs::left_out;
use crate::util::server::Server;
use crate::util::{DEADLINE, wait_until};
use rustix::process::{Signal, geteuid};
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Nobody's, on every Linux.
const NOBODY: u32 = 65_534;

fn run(program: &str, arguments: &[&str], path: &Path) -> bool {
    let status = Command::new(program).args(arguments).arg(path).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// What is mended is noticed, and all is there; a signal to stop is heard before and after.
fn expect_mended(server: Server, ledger: &Ledger, what: &str) {
    await_ready(&server);
    ledger.expect(&server, what);
    stop(server);
}

#[test]
fn a_read_only_directory_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    fs::create_dir(&data).expect("a folder");
    let Some(disk) = SmallDisk::cover(data.clone(), 16 << 20) else {
        return left_out("nothing can be mounted here");
    };
    let ledger = furnished(&data, 3);
    assert!(run("mount", &["-o", "remount,ro"], &data));
    let what = "mounted read-only";
    for ends in [true, false] {
        let mut server = serve(&data, &[]);
        let name = data.display().to_string();
        expect_not_ready(&mut server, "store_unavailable", &name, "Read-only file system", what);
        if ends {
            stop(server);
        } else {
            assert!(run("mount", &["-o", "remount,rw"], &data));
            expect_mended(server, &ledger, what);
        }
    }
    drop(disk);
}

#[test]
fn a_full_disk_without_a_store_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path().join("data"), 256 << 10) else {
        return left_out("nothing can be mounted here");
    };
    let mut fill = File::create(disk.0.join("fill")).expect("a file");
    while fill.write_all(&[7; 4_096]).is_ok() {}
    let mut server = serve(&disk.0, &[]);
    let name = disk.0.display().to_string();
    expect_not_ready(&mut server, "store_unavailable", &name, "No space left on device", "a full disk");
    fs::remove_file(disk.0.join("fill")).expect("it can be removed");
    drop(fill);
    assert!(run("mount", &["-o", "remount,size=16m"], &disk.0));
    expect_mended(server, &Ledger::default(), "a full disk");
}

#[test]
fn a_directory_that_may_not_be_read_is_waited_for() {
    if !geteuid().is_root() {
        return left_out("only root may start a process of another user");
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let ledger = furnished(&data, 3);
    let set = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).expect("a mode");
    set(folder.path(), 0o755);
    set(&data, 0o700);
    let mut start = Server::on(&data);
    start.uid(NOBODY);
    // A binary that nobody else may read says nothing of the directory.
    if !Command::new(start.get_program()).arg("--version").uid(NOBODY).output().is_ok_and(|run| run.status.success()) {
        return left_out("another user may not run the binary");
    }
    let mut server = Server::spawn(start);
    let (name, what) = (data.display().to_string(), "another user's directory");
    expect_not_ready(&mut server, "store_unavailable", &name, "Permission denied", what);
    for entry in fs::read_dir(&data).expect("it can be read") {
        chown(entry.expect("an entry").path(), Some(NOBODY), None).expect("an owner");
    }
    chown(&data, Some(NOBODY), None).expect("an owner");
    expect_mended(server, &ledger, what);
}

/// Status requests need no key. Regression: a pipe was waited for, and nothing was ever answered.
#[test]
fn a_control_key_that_is_no_file_keeps_nobody_from_an_answer() {
    for (kind, with_key) in [("folder", false), ("pipe", false), ("pipe", true)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let ledger = furnished(folder.path(), 3);
        let key = folder.path().join("control.key");
        if kind == "pipe" {
            assert!(run("mkfifo", &[], &key));
        } else {
            fs::create_dir(&key).expect("a folder");
        }
        let mut start = Server::on(folder.path());
        if with_key {
            let server = Server::spawn(start);
            ledger.expect(&server, kind);
            stop(server);
            continue;
        }
        start.env_remove("VOTE_STATUS_CONTROL_KEY");
        let server = Server::spawn(start);
        wait_until("the votes are loaded", || get(server.control(), "/readyz").status == 200);
        assert_eq!(get(server.control(), "/readyz").json()["reason"], "control_key", "{kind}");
        assert_eq!(server.control_client().cast(28, [203, 0, 113, 7]).status, 503, "{kind}");
        if kind == "pipe" { fs::remove_file(&key) } else { fs::remove_dir(&key) }.expect("it can be removed");
        fs::write(&key, Server::KEY).expect("a key can be written");
        wait_until(kind, || get(server.control(), "/readyz").json()["reason"].is_null());
        ledger.expect(&server, kind);
        stop(server);
    }
}

/// READY=1 comes though the service is not: the manager would end it otherwise, and refused connections
/// pay. What is wrong is its status.
#[test]
fn the_manager_is_told_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, store, aside) = (folder.path().join("data"), "votes.redb", folder.path().join("aside"));
    let ledger = furnished(&data, 3);
    fs::rename(data.join(store), &aside).expect("it can be moved");
    fs::create_dir(data.join(store)).expect("a folder");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bound");
    manager.set_read_timeout(Some(DEADLINE)).expect("a socket takes that");
    let next = || {
        let mut state = [0; 2_000];
        let bytes = manager.recv(&mut state).expect("told in time");
        String::from_utf8_lossy(&state[..bytes]).into_owned()
    };
    let mut start = Server::on(&data);
    start.env("NOTIFY_SOCKET", &path);
    let mut server = Server::spawn(start);
    assert_eq!(next(), "READY=1");
    let told = next();
    assert!(told.starts_with("STATUS=not well (store_unavailable): the store "), "{told}");
    assert!(told.contains("Is a directory"), "{told}");
    expect_not_ready(&mut server, "store_unavailable", store, "Is a directory", "under a manager");
    fs::remove_dir(data.join(store)).expect("it can be removed");
    fs::rename(&aside, data.join(store)).expect("it can be put back");
    assert_eq!(next(), "STATUS=well again");
    await_ready(&server);
    ledger.expect(&server, "under a manager");
    server.signal(Signal::TERM);
    assert_eq!(next(), "STOPPING=1");
    assert!(server.wait_exit(DEADLINE).success());
}
