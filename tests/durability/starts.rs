//! Starts on a data directory that cannot be used as it is. The process stays, answers the safe 503, reports
//! the reason, and goes on by itself once the directory is mended.

use crate::durability::files::{await_ready, expect_not_ready, furnished};
use crate::durability::small_disk::SmallDisk;
use crate::util::DEADLINE;
use crate::util::ledger::serve;
use crate::util::server::Server;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

#[test]
fn a_disk_that_is_read_only_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let Some(disk) = SmallDisk::mount(folder.path().join("data"), 16 << 20) else { return };
    let ledger = furnished(&disk.0, 3);
    disk.remount("ro");
    let (mut server, what) = (serve(&disk.0, &[]), "Read-only file system");
    expect_not_ready(&mut server, "store_unavailable", &disk.0.display().to_string(), what, what);
    disk.remount("rw");
    await_ready(&server);
    ledger.expect(&server, what);
    server.stop();
}

/// A path with a line end must not become an assignment in a message to the service manager.
#[test]
fn the_manager_is_told_in_one_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data\nMAINPID=1");
    furnished(&data, 1);
    fs::remove_file(data.join("votes.redb")).expect("it can be removed");
    let path = folder.path().join("notify");
    let manager = UnixDatagram::bind(&path).expect("bound");
    manager.set_read_timeout(Some(DEADLINE)).expect("a socket takes that");
    let mut start = Server::on(&data);
    start.env("NOTIFY_SOCKET", &path);
    let server = Server::spawn(start);
    for expected in ["READY=1", "STATUS=not well (store_unusable): "] {
        let mut state = [0; 2_000];
        let bytes = manager.recv(&mut state).expect("told in time");
        let told = String::from_utf8_lossy(&state[..bytes]).into_owned();
        assert!(told.starts_with(expected) && !told.contains('\n'), "{told:?}");
    }
    server.stop();
}

/// The service sends READY=1 though it is not ready: otherwise the manager would end it, and refused connections
/// pay rewards. Its STATUS names the trouble.
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
