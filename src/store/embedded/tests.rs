//! The store on a real directory: its path, the files beside it, and what a start accepts.

use super::{EmbeddedStore, LOCK_FILE, STORE_FILE, Wanted, has_live_vote};
use crate::store::commit_marker::MARKER_FILE;
use crate::store::directory::DataDirectory;
use crate::store::test_disk::{LARGE_BYTES, TestDisk};
use crate::store::{CommitNote, Event, Store, StoreContent, StoreError, StoredVote, VoteVisitor};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::lines::{ClockReading, TimeNote};
use crate::vote::settings::Settings;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds};
use redb::{Database, TableDefinition};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

const AT: u32 = 1_800_000_000;
const SERVER: ServerId = ServerId(28);
/// Bytes of a page of the library.
const PAGE_BYTES: usize = 4_096;

fn open(folder: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(DataDirectory::at(folder), Wanted::Any, Arc::default(), 7)
}

fn opened(folder: &Path) -> EmbeddedStore {
    open(folder).expect("it is opened")
}

/// The store on a disk that fails as the test says.
fn opened_on(disk: &Arc<TestDisk>) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(disk.clone(), Wanted::Any, Arc::default(), 7)
}

/// The marker's content for a number.
fn marked(number: u64, mark: &[u8]) -> Vec<u8> {
    [&number.to_le_bytes()[..], &(!number).to_le_bytes(), mark].concat()
}

fn note() -> CommitNote {
    let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
    let at_ms = 1_000 * u64::from(AT);
    CommitNote {
        time: TimeNote { certain_ms: at_ms, wall_ms: at_ms, shown_ms: at_ms },
        spent_until: UnixSeconds(0),
        settings,
    }
}

fn vote(voted_at: u32) -> StoredVote {
    let pair = Pair { server: SERVER, address: VoterAddress::V4(Ipv4(1)) };
    StoredVote { pair, voted_at: UnixSeconds(voted_at) }
}

fn listing() -> Event {
    Event::Server(SERVER, Token::new("demo").expect("a token"))
}

#[test]
fn a_store_that_is_not_at_its_path_is_gone_and_one_that_cannot_be_looked_for_is_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (home, away) = (folder.path().join("data"), folder.path().join("away"));
    let mut store = opened(&home);
    let (file, elsewhere) = (home.join(STORE_FILE), folder.path().join("elsewhere"));
    assert!(matches!(store.tend(), Ok(())));
    fs::rename(&file, &elsewhere).expect("it is moved");
    assert!(matches!(store.tend(), Err(StoreError::Gone(_))), "nothing is there");
    fs::write(&file, "").expect("it is made");
    assert!(matches!(store.tend(), Err(StoreError::Gone(_))), "another file is there");
    fs::remove_file(&file).expect("it goes");
    symlink(STORE_FILE, &file).expect("a link to itself");
    assert!(matches!(store.tend(), Err(StoreError::Unavailable(_))), "the system cannot tell");
    fs::rename(&elsewhere, &file).expect("it comes back");
    assert!(matches!(store.tend(), Ok(())));
    fs::rename(&home, &away).expect("it is moved");
    fs::write(&home, "").expect("a file in the directory's place");
    assert!(matches!(store.tend(), Err(StoreError::Gone(_))), "no directory is there");
}

#[test]
fn files_beside_a_store_that_were_deleted_are_made_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = opened(folder.path());
    store.commit(&[listing()], &note()).expect("it is written");
    let [lock, marker] = [LOCK_FILE, MARKER_FILE].map(|name| folder.path().join(name));
    let noted = fs::read(&marker).expect("it is there");
    fs::remove_file(&lock).and_then(|()| fs::remove_file(&marker)).expect("they go");
    store.tend().expect("it is at its path");
    assert!(lock.exists());
    assert!(matches!(open(folder.path()), Err(StoreError::InUse(_))), "the new lock is locked");
    assert_eq!(fs::read(&marker).expect("it is there")[..16], noted[..16]);
}

#[test]
fn a_store_tells_its_size_and_its_last_commit_and_one_that_is_written_anew_skips_a_number() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut store = opened(folder.path());
    assert_eq!(store.commit_number(), 0);
    for count in 1..=3 {
        store.commit(&[listing()], &note()).expect("it is written");
        assert_eq!(store.commit_number(), count);
    }
    let servers = Snapshot::default();
    let content = StoreContent { servers: &servers, votes: &|_: &mut VoteVisitor<'_>| (), slice_rows: 64 };
    store.renew(&content, &note()).expect("it is written anew");
    assert_eq!(store.commit_number(), 5);
    assert_eq!(store.size_bytes(), fs::metadata(folder.path().join(STORE_FILE)).expect("it is there").len());
}

#[test]
fn a_store_without_a_commit_is_made_again_and_another_one_is_missed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(STORE_FILE);
    drop(opened(folder.path()));
    fs::remove_file(&file).expect("it goes");
    opened(folder.path()).commit(&[listing()], &note()).expect("it is written");
    fs::remove_file(&file).expect("it goes");
    assert!(matches!(open(folder.path()), Err(StoreError::Unusable(_))));
}

#[test]
fn a_file_that_is_empty_or_of_another_version_is_refused_and_the_line_says_which() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(STORE_FILE);
    let refused = || match open(folder.path()) {
        Err(StoreError::Unusable(why)) => why,
        other => panic!("{:?}", other.err()),
    };
    drop(opened(folder.path()));
    for (schema, writer) in [(5, "a newer version"), (2, "a build before the first release")] {
        let database = Database::open(&file).expect("it is a file of the library");
        let write = database.begin_write().expect("it writes");
        let meta = TableDefinition::<&str, u64>::new("meta");
        write.open_table(meta).expect("the table").insert("schema", schema).expect("it is put in");
        write.commit().expect("it is written");
        drop(database);
        assert!(refused().contains(writer), "{schema}: {}", refused());
    }
    fs::write(&file, "").expect("it is emptied");
    assert!(refused().contains("it is empty"), "{}", refused());
}

#[test]
fn a_vote_is_live_until_its_cooldown_has_ended_by_the_certain_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = DataDirectory::at(folder.path());
    let at = |after_s: i64| {
        let reading = ClockReading { wall_us: 1_000_000 * (i64::from(AT) + after_s), monotonic_us: 0 };
        has_live_vote(&*disk, reading)
    };
    assert_eq!(at(0), None, "there is no store");
    let mut store = opened(folder.path());
    assert_eq!(at(0), Some(false));
    // It ends in half a minute.
    store.commit(&[listing(), Event::Vote(vote(AT - 5_370))], &note()).expect("it is written");
    assert_eq!([0, 29, 30].map(at), [Some(true), Some(true), Some(false)]);
    drop(store);
    fs::write(folder.path().join(STORE_FILE), "no store").expect("it is spoilt");
    assert_eq!(at(0), None, "it cannot be read");
}

#[test]
fn damage_counts_as_none_while_something_else_writes_to_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = TestDisk::at(folder.path(), LARGE_BYTES);
    fs::write(folder.path().join(STORE_FILE), "half a copy").expect("it is made");
    disk.state.is_changing.store(true, Ordering::Relaxed);
    assert!(matches!(opened_on(&disk), Err(StoreError::Unavailable(_))));
    disk.state.is_changing.store(false, Ordering::Relaxed);
    assert!(matches!(opened_on(&disk), Err(StoreError::Unusable(_))));
}

#[test]
fn a_disk_that_cannot_be_read_is_no_damage() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let disk = TestDisk::at(folder.path(), LARGE_BYTES);
    let mut store = opened_on(&disk).expect("it is opened");
    let votes: Vec<Event> = (0..1_000).map(|second| Event::Vote(vote(AT + second))).collect();
    store.commit(&votes, &note()).expect("it is written");
    drop(store);
    let mut store = opened_on(&disk).expect("it is opened");
    disk.state.is_unreadable.store(true, Ordering::Relaxed);
    let read = store.replay(UnixSeconds(0), &mut drop);
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
}

#[test]
fn a_void_file_that_changes_while_it_is_read_is_not_believed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, marker] = [STORE_FILE, MARKER_FILE].map(|name| folder.path().join(name));
    let mut store = opened(folder.path());
    store.commit(&[listing()], &note()).expect("it is written");
    drop(store);
    // As after a kill during a sync.
    fs::write(&marker, marked(1, b"?")).expect("it is marked");
    let mut store = opened(folder.path());
    assert!(store.is_void());
    let mut bytes = fs::read(&file).expect("it is there");
    bytes.push(0);
    fs::write(&file, bytes).expect("it is written");
    let read = store.replay(UnixSeconds(0), &mut drop);
    assert!(matches!(read, Err(StoreError::Unavailable(_))), "{read:?}");
}

#[test]
fn a_file_that_something_else_has_written_to_is_left_as_it_is() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join(STORE_FILE);
    let mut store = opened(folder.path());
    store.commit(&[listing()], &note()).expect("it is written");
    let mut bytes = fs::read(&file).expect("it is there");
    bytes[100] ^= 1;
    fs::write(&file, &bytes).expect("it is written");
    store.commit(&[listing()], &note()).expect_err("it is another's file now");
    drop(store);
    assert!(fs::read(&file).expect("it is there") == bytes, "it was written to");
}

/// Files of two commits: one closed in order, and one of a process that was killed, with such a damage that the library
/// undoes the second commit.
struct Files {
    closed: Vec<u8>,
    undone: Vec<u8>,
}

fn files(folder: &Path) -> Files {
    let file = folder.join(STORE_FILE);
    let bytes = || fs::read(&file).expect("it is there");
    let disk = TestDisk::at(folder, LARGE_BYTES);
    let mut store = opened_on(&disk).expect("it is opened");
    store.commit(&[listing()], &note()).expect("it is written");
    store.commit(&[Event::Vote(vote(AT))], &note()).expect("it is written");
    let killed = bytes();
    drop(store);
    let closed = bytes();
    for page in 1..killed.len() / PAGE_BYTES {
        let mut undone = killed.clone();
        undone[page * PAGE_BYTES + 8] ^= 1;
        fs::write(&file, &undone).expect("it is written");
        fs::remove_file(folder.join(MARKER_FILE)).expect("it goes");
        if opened_on(&disk).is_ok_and(|store| store.commit_number() == 1) {
            return Files { closed, undone };
        }
    }
    panic!("no damage undoes the last commit");
}

#[test]
fn a_start_that_undoes_a_commit_asks_whether_something_else_writes_to_the_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, marker] = [STORE_FILE, MARKER_FILE].map(|name| folder.path().join(name));
    let Files { closed, undone } = files(folder.path());
    let disk = TestDisk::at(folder.path(), LARGE_BYTES);
    let start = |bytes: &[u8], number: Option<u64>| {
        let noted = number.map_or(Vec::new(), |number| marked(number, &[]));
        fs::write(&file, bytes).and_then(|()| fs::write(&marker, noted)).expect("they are written");
        opened_on(&disk).map(|store| store.commit_number())
    };
    assert!(matches!(start(&undone, Some(1)), Ok(1)));
    disk.state.is_changing.store(true, Ordering::Relaxed);
    assert!(matches!(start(&undone, Some(1)), Err(StoreError::Unavailable(_))));
    assert!(matches!(start(&closed, Some(2)), Ok(2)));
    assert!(matches!(start(&closed, None), Ok(2)));
}

#[test]
fn the_number_of_a_void_store_s_last_commit_is_not_noted() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let marker = folder.path().join(MARKER_FILE);
    let Files { closed, .. } = files(folder.path());
    fs::write(folder.path().join(STORE_FILE), closed).expect("it is written");
    for (mark, noted) in [(&b""[..], 2), (b"?", 0)] {
        fs::write(&marker, marked(0, mark)).expect("it is written");
        drop(opened(folder.path()));
        assert_eq!(fs::read(&marker).expect("it is there")[..16], marked(noted, &[]));
    }
}
