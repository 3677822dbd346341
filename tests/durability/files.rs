//! The data directory: one process at a time, files for their owner only, and no start on anything
//! but a whole store of this version.

use crate::util::answers::NOT_READY;
use crate::util::client::get;
use crate::util::ledger::{Ledger, serve, try_serve, voted};
use crate::util::server::{Server, expect_failure};
use crate::util::wait_until;
use redb::{Database, Key, TableDefinition, Value};
use std::borrow::Borrow;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// The file of votes and servers.
pub(crate) fn store_file(folder: &Path) -> PathBuf {
    folder.join("votes.redb")
}

/// Makes a directory with a server and some votes. The service has ended in order.
pub(crate) fn furnished(folder: &Path, votes: u32) -> Ledger {
    let (server, ledger) = voted(folder, votes);
    server.stop();
    ledger
}

/// Requires that the process stays and answers the safe 503. `/readyz` gives `reason`, and its message, which
/// is also in one log line, contains `name` and `word`.
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
    // An empty list of servers would be a guess.
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

#[test]
fn a_second_process_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (first, mut ledger) = voted(folder.path(), 1);
    let ended = try_serve(folder.path(), &[]).expect_err("two processes on one directory");
    expect_failure(&ended, &[&folder.path().display().to_string()]);
    ledger.cast_all(&first, 1..2);
    ledger.expect(&first, "the first process");
    ledger.expect_after_kill(first, folder.path(), "the first process");
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

/// Puts a row into the database of the folder, or into a new one.
fn insert<K: Key + 'static, V: Value + 'static>(
    folder: &Path,
    table: TableDefinition<'_, K, V>,
    key: impl Borrow<K::SelfType<'static>>,
    value: impl Borrow<V::SelfType<'static>>,
) {
    let database = Database::create(store_file(folder)).expect("a database");
    let write = database.begin_write().expect("it can be written");
    write.open_table(table).expect("a table").insert(key, value).expect("a row");
    write.commit().expect("a commit");
}

fn remove(folder: &Path, name: &str) {
    fs::remove_file(folder.join(name)).expect("it can be removed");
}

fn replace(folder: &Path, content: &str) {
    fs::write(store_file(folder), content).expect("it can be written");
}

const META: TableDefinition<'static, &str, u64> = TableDefinition::new("meta");

/// A damage to a directory with a store and its note, and the reason and a word of the report.
type NoStore = (&'static str, fn(&Path), &'static str, &'static str);

/// Regression: the service took a missing store for a first start and forgot every cooldown. It refuses a store of another
/// version by its number, and does not call it damaged.
const NO_STORES: [NoStore; 10] = [
    ("a text", |folder| replace(folder, &"no votes in here\n".repeat(1_000)), "store_unusable", "damaged"),
    (
        "an empty file without a note",
        |folder| {
            remove(folder, "votes.sequence");
            replace(folder, "");
        },
        "store_unusable",
        "damaged",
    ),
    ("gone", |folder| remove(folder, "votes.redb"), "store_unusable", "is gone"),
    (
        "a broken link",
        |folder| {
            remove(folder, "votes.redb");
            symlink("/nowhere/votes.redb", store_file(folder)).expect("a link can be made");
        },
        "store_unavailable",
        "No such file",
    ),
    (
        "a folder",
        |folder| {
            remove(folder, "votes.redb");
            fs::create_dir(store_file(folder)).expect("a folder can be made");
        },
        "store_unavailable",
        "Is a directory",
    ),
    (
        "another program's table",
        |folder| {
            remove(folder, "votes.redb");
            insert(folder, TableDefinition::<&str, &str>::new("other"), "key", "value");
        },
        "store_unusable",
        "no store of vote-status",
    ),
    (
        "a table of the same name",
        |folder| {
            remove(folder, "votes.redb");
            insert(folder, TableDefinition::<u64, u64>::new("meta"), 1, 1);
        },
        "store_unusable",
        "no store of vote-status",
    ),
    (
        "a table of the same name and kind",
        |folder| {
            remove(folder, "votes.redb");
            insert(folder, META, "else", 1);
        },
        "store_unusable",
        "no store of vote-status",
    ),
    (
        "a newer version's",
        |folder| insert(folder, META, "schema", 5),
        "store_unusable",
        "a newer version (schema 5, this one reads 4)",
    ),
    (
        "an older version's",
        |folder| insert(folder, META, "schema", 2),
        "store_unusable",
        "a build before the first release (schema 2, this one reads 4)",
    ),
];

#[test]
fn no_start_on_what_is_no_store_of_this_version() {
    for (what, spoil, reason, word) in NO_STORES {
        let folder = tempfile::tempdir().expect("a temporary folder");
        furnished(folder.path(), 3);
        spoil(folder.path());
        // Twice: a refused start must not make the file acceptable.
        for _ in 0..2 {
            let mut server = serve(folder.path(), &[]);
            expect_not_ready(&mut server, reason, &store_file(folder.path()).display().to_string(), word, what);
            server.stop();
        }
    }
}

/// Version 1.0.0 accepted the tokens `.` and `..`. Such a store opens, its votes hold, and the token names
/// no server.
#[test]
fn a_store_with_a_token_of_dots_opens() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = furnished(folder.path(), 3);
    insert(folder.path(), TableDefinition::<u32, &str>::new("servers"), 29, "..");
    let server = serve(folder.path(), &[]);
    ledger.expect(&server, "the store of 1.0.0");
    let control = server.control_client();
    assert_eq!(control.get("/v1/servers/29").json()["token"], "..");
    assert_eq!(get(server.public(), "/api/vote/29/status/203.0.113.7").status, 200);
    for path in ["/api/servers/../vote-status/203.0.113.7", "/api/servers/%2e./vote-status/2001:db8::7"] {
        let response = get(server.public(), path);
        assert_eq!((response.status, &response.json()["error"]), (404, &"unknown_token".into()), "{path}");
    }
    assert_eq!(control.post("/v1/votes", r#"{"token":"..","ip":"203.0.113.7"}"#).status, 404);
    // A new token is the way out, and leaves nothing of the old one.
    let token = control.post("/v1/servers/29/token", "").json()["token"].as_str().expect("a token").to_owned();
    assert_eq!(get(server.public(), &format!("/api/servers/{token}/vote-status/203.0.113.7")).status, 200);
}

/// The message for a damaged store advises to put back a copy.
#[test]
fn a_copy_that_was_put_back_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ledger = furnished(folder.path(), 5);
    let copy = fs::read(store_file(folder.path())).expect("the file can be read");
    let server = serve(folder.path(), &[]);
    ledger.clone().cast_all(&server, 100..101);
    server.stop();
    fs::write(store_file(folder.path()), b"damaged").expect("the file can be damaged");
    let mut server = serve(folder.path(), &[]);
    expect_not_ready(&mut server, "store_unusable", "votes.redb", "put back a copy", "a damaged file");
    server.stop();
    fs::write(store_file(folder.path()), copy).expect("a copy can be put back");
    // Only this step of the message: the next message names the rest.
    let mut server = serve(folder.path(), &[]);
    let what = "a copy older than the note beside it";
    expect_not_ready(&mut server, "store_unusable", "votes.redb", "votes.sequence", what);
    remove(folder.path(), "votes.sequence");
    await_ready(&server);
    ledger.expect(&server, "the copy");
}

/// Waits until a service that was not ready goes on by itself.
pub(crate) fn await_ready(server: &Server) {
    wait_until("it is ready", || get(server.control_endpoint(), "/readyz").status == 200);
}

/// Regression: the service wrote the new key into any file of that name: another user's of mode 0666, or
/// the target of a link.
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
        let told = Server::spawn(command).stop().stderr();
        for words in expected {
            assert!(told.contains(words), "no {words:?} in {told}");
        }
        let warnings = told.lines().filter(|line| line.contains("by others")).count();
        assert_eq!(warnings, expected.iter().filter(|words| words.starts_with("the ")).count(), "{told}");
    }
}
