//! Another store at the path of the service's own: an older copy, or an empty directory. Cooldowns end with that, so plugins
//! pay again. The log and a metric show it.

use crate::durability::files::{await_ready, store_file};
use crate::util::ledger::{Ledger, SERVER, address, next_votes, serve, voted};
use crate::util::server::Server;
use crate::util::wait_until;
use std::fs;
use std::path::Path;

const COMMIT: &str = "vote_status_store_commit";

/// When the store that this start opened was last written, and its last commit.
#[track_caller]
pub(super) fn taken_up(server: &Server) -> (String, u64) {
    const WRITTEN: &str = "the store was last written at ";
    // The line may come after `/readyz` is ready.
    let line = server.wait_for_line(WRITTEN);
    let line = line.split_once(WRITTEN).expect("it was waited for").1;
    let (at, commit) = line.split_once(": commit ").expect("a commit");
    (at.to_owned(), commit.parse().expect("a number"))
}

/// Stops the service in order, and gives the last commit of its store.
#[track_caller]
pub(super) fn closed(server: Server) -> u64 {
    let told = server.stop().stderr();
    let commit = told.split_once("the store is closed: commit ").expect("the line").1.lines().next();
    commit.and_then(|commit| commit.parse().ok()).expect("a number")
}

/// Copies the files of a directory into a new one.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder can be made");
    for entry in fs::read_dir(from).expect("it can be read") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("it can be copied");
    }
}

/// Requires that the start has logged the older store's commit and count of cooldowns, and that the metric has fallen. An
/// address with a later vote may vote again.
#[track_caller]
fn expect_older(server: &Server, older: &Ledger, copied: u64, [newest, shown]: [u64; 2], what: &str) {
    let (at, commit) = taken_up(server);
    assert!(at.starts_with("20"), "{what}: {at}");
    assert_eq!(commit, copied, "{what}: {newest} before");
    let count = format!("ready: 1 servers, {} cooldowns", older.recorded.len());
    server.wait_for_lines(&count, 1);
    wait_until("the metric", || server.metric(COMMIT) >= commit);
    let now = server.metric(COMMIT);
    assert!(now < shown, "{what}: {COMMIT} was {shown}, and is {now}");
    older.expect(server, what);
}

#[test]
fn another_store_at_the_path_is_in_the_log_and_in_a_metric() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [data, older, newer] = ["data", "older", "newer"].map(|name| folder.path().join(name));
    let (server, ledger) = voted(&data, 3);
    let copied = closed(server);
    copy(&data, &older);
    let server = serve(&data, &[]);
    assert_eq!(taken_up(&server).1, copied, "its own store");
    // One commit for each vote: more than a start makes.
    let mut later = ledger.clone();
    later.cast_all(&server, 3..33);
    wait_until("the metric", || server.metric(COMMIT) >= copied + 30);
    let shown = server.metric(COMMIT);
    let newest = closed(server);
    assert!(newest >= shown, "{newest}, {shown}");
    copy(&data, &newer);

    // The older file alone. The note beside it gives it away, until the operator deletes the note.
    fs::copy(store_file(&older), store_file(&data)).expect("it can be put back");
    let server = serve(&data, &[]);
    server.wait_for_lines(&format!("that {newest} was acknowledged"), 1);
    assert!(!server.stderr().contains("the store was last written at"), "{}", server.stderr());
    fs::remove_file(data.join("votes.sequence")).expect("it is there");
    await_ready(&server);
    expect_older(&server, &ledger, copied, [newest, shown], "the file");
    drop(server);

    // The older directory as a whole.
    fs::remove_dir_all(&data).expect("it can be removed");
    copy(&older, &data);
    let server = serve(&data, &[]);
    expect_older(&server, &ledger, copied, [newest, shown], "the directory");
    drop(server);

    // No directory.
    fs::remove_dir_all(&data).expect("it can be removed");
    let server = serve(&data, &[]);
    server.wait_for_lines("the store is new: no earlier vote counts", 1);
    server.wait_for_lines("ready: 0 servers, 0 cooldowns", 1);
    server.control_client().add_server(SERVER, "demo");
    wait_until("the metric", || server.metric(COMMIT) > 0);
    assert!(server.metric(COMMIT) < copied, "{}", server.metric(COMMIT));
    assert_eq!(next_votes(&server, &[(SERVER, address(1))]), [None]);
    drop(server);

    // The newer directory again: no cooldown has ended, and nothing looks as if.
    fs::remove_dir_all(&data).expect("it can be removed");
    copy(&newer, &data);
    let server = serve(&data, &[]);
    assert_eq!(taken_up(&server).1, newest);
    wait_until("the metric", || server.metric(COMMIT) >= shown);
    later.expect(&server, "the newer one");
}
