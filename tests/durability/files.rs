//! The data directory: one process at a time, files for their owner only, and no start on
//! anything that is not a whole store of this version.

use crate::util::answers::NOT_READY;
use crate::util::client::get;
use crate::util::ledger::{Ledger, SERVER, address, serve, try_serve};
use crate::util::server::{Ended, Server};
use crate::util::time::now_unix;
use crate::util::{DEADLINE, wait_until};
use redb::{Database, TableDefinition};
use rustix::process::Signal;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// The file that votes and servers are in.
pub(crate) fn store_file(folder: &Path) -> PathBuf {
    folder.join("votes.redb")
}

/// A directory with a server and some votes, and the service ended in order.
pub(crate) fn furnished(folder: &Path, votes: u32) -> Ledger {
    let mut ledger = Ledger::default();
    let server = serve(folder, &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    for number in 0..votes {
        ledger.cast(&control, (SERVER, address(number)), now_unix());
    }
    stop(server);
    ledger
}

/// Ends the service as its operator does.
pub(crate) fn stop(mut server: Server) {
    server.signal(Signal::TERM);
    let status = server.wait_exit(DEADLINE);
    assert!(status.success(), "{status:?}");
}

/// Requires a start that was refused as it should be: status 2, one line that names `name`,
/// nothing on standard output.
pub(crate) fn expect_refused(ended: &Ended, name: &str, what: &str) {
    assert_eq!(ended.status.code(), Some(2), "{what}: {ended:?}");
    assert_eq!(ended.stdout, "", "{what}");
    let line = ended.stderr.strip_suffix('\n').unwrap_or_else(|| panic!("{what}: {ended:?}"));
    assert!(!line.contains('\n'), "{what}: more than one line: {ended:?}");
    assert!(line.starts_with("vote-status: "), "{what}: {ended:?}");
    assert!(line.contains(name), "{what}: does not name {name}: {ended:?}");
    assert!(!line.contains("panicked"), "{what}: {ended:?}");
}

/// Requires that the process stays and answers the safe 503, and that `/readyz` and one log line say
/// `reason`, name what is wrong, and hold `word`.
pub(crate) fn expect_not_ready(server: &mut Server, reason: &str, name: &str, word: &str, what: &str) {
    let response = get(server.public(), "/api/vote/28/status/203.0.113.7");
    assert_eq!((response.status, response.text()), (503, NOT_READY.body), "{what}");
    let ready = get(server.control(), "/readyz");
    let body = ready.json();
    assert_eq!((ready.status, body["ready"].as_bool(), body["reason"].as_str()), (503, Some(false), Some(reason)));
    let message = body["message"].as_str().unwrap_or_else(|| panic!("{what}: {body}"));
    assert!(message.contains(name), "{what}: does not name {name}: {message}");
    assert!(message.contains(word), "{what}: does not say {word:?}: {message}");
    let votes = server.control_client().cast(28, [203, 0, 113, 7]);
    assert_eq!(votes.status, 503, "{what}: {votes:?}");
    // An empty list would be a guess.
    assert_eq!(server.control_client().get("/v1/servers").status, 503, "{what}");
    assert_eq!(server.metric(&format!(r#"vote_status_trouble{{reason="{reason}"}}"#)), 1, "{what}");
    assert_eq!(server.metric("vote_status_ready"), 0, "{what}");
    server.wait_for_lines(" ERROR ", 1);
    let stderr = server.stderr();
    let told: Vec<&str> = stderr.lines().filter(|line| line.contains(" ERROR ")).collect();
    assert!(matches!(told[..], [line] if line.contains(message)), "{what}: not told once:\n{stderr}");
    assert!(!stderr.contains("panicked"), "{what}:\n{stderr}");
    assert!(server.is_running(), "{what}");
}

fn expect_no_start(folder: &Path, word: &str, what: &str) {
    // Twice: a start that comes to nothing must not have made the file fit to be served.
    for _ in 0..2 {
        let mut server = serve(folder, &[]);
        let name = store_file(folder).display().to_string();
        expect_not_ready(&mut server, "store_unusable", &name, word, what);
        stop(server);
    }
}

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let first = serve(folder.path(), &[]);
    let mut ledger = Ledger::default();
    first.control_client().add_server(SERVER, "demo");
    ledger.cast(&first.control_client(), (SERVER, address(1)), now_unix());
    let ended = try_serve(folder.path(), &[]).expect_err("two processes on one directory");
    expect_refused(&ended, &folder.path().display().to_string(), "the second process");
    ledger.cast(&first.control_client(), (SERVER, address(2)), now_unix());
    ledger.expect(&first, "the first process");
    drop(first);
    ledger.expect(&serve(folder.path(), &[]), "after the first was killed");
}

#[test]
fn files_are_for_their_owner_only() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut command = Server::on(&data);
    command.env_remove("VOTE_STATUS_CONTROL_KEY");
    let server = Server::spawn(command);
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let mut names = Vec::new();
    for entry in fs::read_dir(&data).expect("the directory can be read") {
        let entry = entry.expect("an entry");
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        names.push(entry.file_name().to_string_lossy().into_owned());
    }
    for name in ["control.key", "votes.redb"] {
        assert!(names.iter().any(|found| found == name), "{name} is not in {names:?}");
    }
    drop(server);
}

#[test]
fn no_start_on_what_is_no_store() {
    let text = "no votes in here\n".repeat(1_000);
    for (what, content, was_in_use) in
        [("an empty file", "", false), ("a store that was emptied", "", true), ("a text", text.as_str(), false)]
    {
        let folder = tempfile::tempdir().expect("a temporary folder");
        if was_in_use {
            furnished(folder.path(), 1);
        }
        fs::write(store_file(folder.path()), content).expect("it can be written");
        expect_no_start(folder.path(), "damaged", what);
    }
}

/// Regression: a store that was gone was taken for a first start, and every cooldown was forgotten.
#[test]
fn no_start_where_the_store_is_gone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    drop(furnished(folder.path(), 3));
    let (store, aside) = (store_file(folder.path()), folder.path().join("aside"));
    fs::rename(&store, &aside).expect("the file can be moved");
    expect_no_start(folder.path(), "is gone", "a store that is gone");
    std::os::unix::fs::symlink("/nowhere/votes.redb", &store).expect("a link can be made");
    let name = store.display().to_string();
    expect_not_ready(&mut serve(folder.path(), &[]), "store_unavailable", &name, "No such file", "a broken link");
    fs::remove_file(&store).expect("the link can be removed");
    fs::remove_file(folder.path().join("votes.sequence")).expect("the note can be removed");
    drop(serve(folder.path(), &[]));
}

#[test]
fn no_start_on_a_folder() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::create_dir(store_file(folder.path())).expect("a folder can be made");
    let mut server = serve(folder.path(), &[]);
    let name = store_file(folder.path()).display().to_string();
    expect_not_ready(&mut server, "store_unavailable", &name, "Is a directory", "a folder in place of the file");
}

#[test]
fn no_start_on_another_programs_database() {
    let other: TableDefinition<'static, &str, &str> = TableDefinition::new("other");
    let same_name: TableDefinition<'static, u64, u64> = TableDefinition::new("meta");
    let foreign: [&dyn Fn(&Database); 3] = [
        &|database| {
            let write = database.begin_write().expect("it can be written");
            write.open_table(other).expect("a table").insert("key", "value").expect("a row");
            write.commit().expect("a commit");
        },
        &|database| {
            let write = database.begin_write().expect("it can be written");
            write.open_table(same_name).expect("a table").insert(1, 1).expect("a row");
            write.commit().expect("a commit");
        },
        &|database| {
            let write = database.begin_write().expect("it can be written");
            write.open_table(META).expect("a table").insert("else", 1).expect("a row");
            write.commit().expect("a commit");
        },
    ];
    for (number, make) in foreign.iter().enumerate() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        make(&Database::create(store_file(folder.path())).expect("a database"));
        expect_no_start(folder.path(), "no store of vote-status", &format!("foreign database {number}"));
    }
}

/// A store of another version is refused by its number, and is not called damaged.
#[test]
fn no_start_on_another_versions_store() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    furnished(folder.path(), 1);
    for (schema, word) in [(4, "newer version"), (2, "before the first release"), (1, "before the first release")] {
        let database = Database::open(store_file(folder.path())).expect("a database");
        let write = database.begin_write().expect("it can be written");
        let held =
            write.open_table(META).expect("a table").insert("schema", schema).expect("a row").map(|row| row.value());
        assert!(held.is_some());
        write.commit().expect("a commit");
        drop(database);
        expect_no_start(folder.path(), word, &format!("schema {schema}"));
        let mut server = serve(folder.path(), &[]);
        let name = store_file(folder.path()).display().to_string();
        expect_not_ready(
            &mut server,
            "store_unusable",
            &name,
            &format!("(schema {schema}, this one reads 3)"),
            "by number",
        );
        assert!(!server.stderr().contains("damaged"), "{}", server.stderr());
        stop(server);
    }
}

/// A start that was cut short while it made the file leaves another name behind.
#[test]
fn a_half_made_store_is_made_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("votes.new"), "half of a file").expect("a file can be made");
    let mut ledger = Ledger::default();
    let server = serve(folder.path(), &[]);
    server.control_client().add_server(SERVER, "demo");
    ledger.cast(&server.control_client(), (SERVER, address(1)), now_unix());
    stop(server);
    ledger.expect(&serve(folder.path(), &[]), "after a restart");
}

/// What the message for a damaged store advises: put back a copy.
#[test]
fn a_copy_that_was_put_back_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = furnished(folder.path(), 5);
    let copy = fs::read(store_file(folder.path())).expect("the file can be read");
    let server = serve(folder.path(), &[]);
    let mut later = ledger.clone();
    later.cast(&server.control_client(), (SERVER, address(100)), now_unix());
    stop(server);
    fs::write(store_file(folder.path()), b"damaged").expect("the file can be damaged");
    expect_no_start(folder.path(), "put back a copy", "a damaged file");
    fs::write(store_file(folder.path()), copy).expect("a copy can be put back");
    // As the line says, and nothing more: what else has to be done stands in it.
    let mut server = serve(folder.path(), &[]);
    let what = "a copy older than the note beside it";
    expect_not_ready(&mut server, "store_unusable", "votes.redb", "votes.sequence", what);
    fs::remove_file(folder.path().join("votes.sequence")).expect("the note can be removed");
    await_ready(&server);
    ledger.expect(&server, "the copy");
}

/// Waits until a service that was not ready goes on by itself.
pub(crate) fn await_ready(server: &Server) {
    wait_until("it is ready", || get(server.control_endpoint(), "/readyz").status == 200);
}

/// Regression: the new key was written into whatever had its name, another user's file of mode 0666 or
/// what a link led to.
#[test]
fn the_key_is_made_in_a_file_of_its_own() {
    for is_link in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (new, other) = (folder.path().join("control.key.new"), folder.path().join("other"));
        let planted = if is_link { &other } else { &new };
        fs::write(planted, "planted").expect("a file");
        fs::set_permissions(planted, fs::Permissions::from_mode(0o666)).expect("a mode");
        if is_link {
            std::os::unix::fs::symlink(&other, &new).expect("a link");
        }
        let held = fs::File::open(planted).expect("it is there");
        let mut command = Server::on(folder.path());
        command.env_remove("VOTE_STATUS_CONTROL_KEY");
        let server = Server::spawn(command);
        let key = folder.path().join("control.key");
        let there = fs::symlink_metadata(&key).expect("a key is made");
        assert!(there.is_file() && there.permissions().mode() & 0o777 == 0o600, "{there:?}");
        assert_eq!(std::io::read_to_string(held).expect("a text"), "planted");
        assert!(!new.exists() && fs::symlink_metadata(&new).is_err());
        drop(server);
    }
}

#[test]
fn what_others_may_read_or_write_is_warned_of() {
    for (directory_mode, key_mode, expected) in [
        (0o700, 0o600, &[][..]),
        (0o777, 0o644, &["the data directory ", "(mode 0777)", "the control key file ", "(mode 0644)"]),
        (0o700, 0o666, &["the control key file ", "may be read and written by others (mode 0666)"]),
    ] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let key = folder.path().join("control.key");
        fs::write(&key, "the-control-key-of-the-tests\n").expect("a file");
        fs::set_permissions(&key, fs::Permissions::from_mode(key_mode)).expect("a mode");
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(directory_mode)).expect("a mode");
        let mut command = Server::on(folder.path());
        command.env_remove("VOTE_STATUS_CONTROL_KEY");
        let mut server = Server::spawn(command);
        server.signal(Signal::TERM);
        assert!(server.wait_exit(DEADLINE).success());
        let told = server.stderr();
        for words in expected {
            assert!(told.contains(words), "no {words:?} in {told}");
        }
        let warnings = told.lines().filter(|line| line.contains("by others")).count();
        assert_eq!(warnings, expected.iter().filter(|words| words.starts_with("the ")).count(), "{told}");
    }
}
