//! The store on a real directory: its path, the files beside it, and what a start accepts.

use super::{EmbeddedStore, LOCK_FILE, STORE_FILE, Wanted, has_live_vote};
use crate::store::commit_marker::MARKER_FILE;
use crate::store::directory::DataDirectory;
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

const AT: u32 = 1_800_000_000;
const SERVER: ServerId = ServerId(28);

fn open(folder: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open(DataDirectory::at(folder), Wanted::Any, Arc::default(), 7)
}

fn opened(folder: &Path) -> EmbeddedStore {
    open(folder).expect("it is opened")
}

fn note() -> CommitNote {
    let cooldown = Cooldown::from_minutes(90).expect("in range");
    let settings = Settings { cooldown, ipv6_prefix: Ipv6Prefix::from_bits(64).expect("in range") };
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
