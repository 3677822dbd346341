//! A data directory: the store that it belongs to, and the files at its paths.

use crate::durability::files::{furnished, store_file};
use crate::util::ledger::{Ledger, serve, try_serve, voted};
use crate::util::server::{Server, expect_failure, run_to_end};
use rustix::fs::{FlockOperation, flock};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Regression: a start without `--store` served votes of long ago, forgot those of the shared store, and accepted replaced
/// tokens.
#[test]
fn the_directory_of_a_shared_store_does_not_start_without_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = furnished(folder.path(), 3);
    let id = folder.path().join("store.id");
    fs::write(&id, "0123456789abcdef\n").expect("the folder takes a file");
    for more in [&[][..], &["--check-config"], &["--require-store"]] {
        let ended = try_serve(folder.path(), more).err().unwrap_or_else(|| panic!("{more:?} was taken"));
        expect_failure(&ended, &["--store", "store.id", "export", "import"]);
    }
    fs::remove_file(id).expect("it is there");
    ledger.expect(&serve(folder.path(), &[]), "the way back to one file");
}

/// Marks the store as killed in a sync, so that the next start writes it anew.
fn mark_as_killed_in_a_sync(folder: &Path) {
    let mut marker = File::options().append(true).open(folder.join("votes.sequence")).expect("it is there");
    let length = marker.metadata().expect("it is there").len();
    marker.set_len(16).and_then(|()| marker.write_all(b"?")).unwrap_or_else(|error| panic!("{length}: {error}"));
}

/// Regression: a file took the place of the link, and left the linked store behind.
#[test]
fn a_link_to_the_store_stays_one_when_the_store_is_written_anew() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (data, elsewhere) = (folder.path().join("data"), folder.path().join("disk"));
    fs::create_dir(&elsewhere).expect("the folder takes a folder");
    let mut ledger = furnished(&data, 3);
    let (link, target) = (store_file(&data), elsewhere.join("store"));
    fs::rename(&link, &target).and_then(|()| symlink(&target, &link)).expect("a link");
    mark_as_killed_in_a_sync(&data);
    let server = serve(&data, &[]);
    server.wait_for_lines("written anew", 1);
    assert!(link.is_symlink(), "a file has taken the place of the link");
    ledger.cast_all(&server, 3..6);
    ledger.expect_after_kill(server, &data, "behind a link");
    assert!(link.is_symlink() && !elsewhere.join("store.new").exists());
}

/// Regression: with `init` at the moment of the first start, both ended with status 2.
#[test]
fn a_directory_that_is_in_use_for_a_moment_is_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let held = || {
        let lock = File::options().create(true).append(true).open(folder.path().join("lock")).expect("the lock");
        flock(&lock, FlockOperation::LockExclusive).expect("it is free");
        thread::spawn(move || {
            // About the time that another process takes to make a store.
            thread::sleep(Duration::from_millis(300));
            drop(lock);
        })
    };
    let init = || {
        let mut command = Server::command();
        command.arg("init").arg("--data-dir").arg(folder.path());
        run_to_end(command)
    };
    let holder = held();
    let ended = init();
    assert!(ended.status.success(), "{ended:?}");
    holder.join().expect("no panic");
    expect_failure(&init(), &["there is a store already"]);
    let holder = held();
    let server = serve(folder.path(), &[]);
    holder.join().expect("no panic");
    server.control_client().add_server(28, "demo");
    let mut ledger = Ledger::default();
    ledger.cast_all(&server, 0..2);
    ledger.expect_after_kill(server, folder.path(), "after a wait");
}

/// Regression: a start ruined a file by its repair while the file was being copied back.
#[test]
fn a_store_that_is_being_copied_is_waited_for_and_not_written() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, ledger) = voted(folder.path(), 200);
    drop(server);
    let file = store_file(folder.path());
    let whole = fs::read(&file).expect("it can be read");
    let pieces = whole.len().div_ceil(8);
    fs::write(&file, &whole[..pieces]).expect("it can be written");
    let mut copy = File::options().append(true).open(&file).expect("it is there");
    let (rest, path) = (whole[pieces..].to_vec(), file.clone());
    let copier = thread::spawn(move || {
        let mut written = pieces;
        for piece in rest.chunks(pieces) {
            thread::sleep(Duration::from_millis(400));
            let before = fs::metadata(&path).expect("it is there").len();
            assert_eq!(before, written as u64, "something else has made it longer or shorter");
            copy.write_all(piece).expect("it can be written");
            written += piece.len();
        }
    });
    let server = serve(folder.path(), &[]);
    copier.join().expect("nothing else has written to it");
    server.wait_for_lines("ready", 1);
    ledger.expect(&server, "once it is whole");
    assert!(!server.stderr().contains("panicked"), "{}", server.stderr());
}
