//! Starts on a data directory that cannot be used as it is: the process stays, answers the safe 503, says
//! why, and goes on by itself once that is mended.

use crate::durability::files::{await_ready, expect_not_ready, furnished};
use crate::durability::small_disk::SmallDisk;
use crate::util::DEADLINE;
use crate::util::ledger::{Ledger, serve};
use crate::util::needs::left_out;
use crate::util::server::Server;
use rustix::process::geteuid;
use std::fs::{self, Permissions};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Nobody's, on every Linux.
const NOBODY: u32 = 65_534;

/// Waits for what is mended, and then all is there.
fn expect_waited_for(data: &Path, ledger: &Ledger, word: &str, mend: impl FnOnce()) {
    let mut server = serve(data, &[]);
    expect_not_ready(&mut server, "store_unavailable", &data.display().to_string(), word, word);
    mend();
    await_ready(&server);
    ledger.expect(&server, word);
    server.stop();
}

#[test]
fn a_disk_that_is_read_only_or_full_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path().join("data"), 16 << 20) else { return };
    let ledger = furnished(&disk.0, 3);
    disk.remount("ro");
    expect_waited_for(&disk.0, &ledger, "Read-only file system", || disk.remount("rw"));
    for entry in fs::read_dir(&disk.0).expect("it can be read") {
        fs::remove_file(entry.expect("an entry").path()).expect("it can be removed");
    }
    disk.fill();
    expect_waited_for(&disk.0, &Ledger::default(), "No space left on device", || disk.free());
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
    await_ready(&server);
    ledger.expect(&server, what);
    server.stop();
}

/// READY=1 comes though the service is not: the manager would end it otherwise, and refused connections
/// pay. What is wrong is its status.
#[test]
fn the_manager_is_told_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, store, aside) = (folder.path().join("data"), "votes.redb", folder.path().join("aside"));
    let ledger = furnished(&data, 3);
    let path = folder.path().join("notify");
    let hidden = format!("vote-status-test-{}", std::process::id());
    let abstract_name = SocketAddr::from_abstract_name(&hidden).expect("a name");
    for (name, manager) in [
        (path.display().to_string(), UnixDatagram::bind(&path).expect("bound")),
        (format!("@{hidden}"), UnixDatagram::bind_addr(&abstract_name).expect("bound")),
    ] {
        fs::rename(data.join(store), &aside).expect("it can be moved");
        fs::create_dir(data.join(store)).expect("a folder");
        manager.set_read_timeout(Some(DEADLINE)).expect("a socket takes that");
        let next = || {
            let mut state = [0; 2_000];
            let bytes = manager.recv(&mut state).expect("told in time");
            String::from_utf8_lossy(&state[..bytes]).into_owned()
        };
        let mut start = Server::on(&data);
        start.env("NOTIFY_SOCKET", &name);
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
        server.stop();
        assert_eq!(next(), "STOPPING=1");
    }
}
