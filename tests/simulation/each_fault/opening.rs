//! A file that is half written, older, another process's, of another kind, cut, or gone, at each operation of a start. A
//! start never writes to such a file. It reads the acknowledged rows, or nothing.

use super::{
    AT, Change, Disk, Event, Faults, Kill, MARKER_FILE, Rows, STORE, SimulatedDisk, StoreError, UnixSeconds, note,
    open, renew, seam, server, vote,
};
use crate::simulation::machine::RESERVE;
use crate::simulation::seam::At;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use vote_status::store::Store;
use vote_status::store::embedded::EmbeddedStore;

/// All votes of these tests are in one slice of a store that is written anew.
const SLICE_ROWS: usize = 64;
/// The header of the library's files.
const HEADER_BYTES: usize = 320;

/// The content of the two files, store and note, of a closed store with these votes.
fn written(votes: std::ops::Range<u32>) -> (Vec<u8>, Vec<u8>) {
    let disk = seam(Disk::new(0));
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note()).expect("it is taken");
    for number in votes {
        store.commit(&[Event::Vote(vote(number, number))], &note()).expect("it is taken");
    }
    drop(store);
    let locked = disk.locked();
    let [store, marker] = [STORE, MARKER_FILE].map(|name| locked.content(name).expect("it is there"));
    (store, marker)
}

fn rows(votes: std::ops::Range<u32>) -> Rows {
    Rows::new([server(1, "one")].into_iter().chain(votes.map(|number| Event::Vote(vote(number, number)))).collect())
}

fn disk_with(files: &[(&str, &[u8])]) -> Arc<SimulatedDisk> {
    let disk = seam(Disk::new(0));
    files.iter().for_each(|(name, content)| disk.locked().put(name, content));
    disk
}

fn read(disk: &Arc<SimulatedDisk>) -> Result<Rows, StoreError> {
    open(disk).and_then(|mut store| Rows::of(&mut store))
}

/// Reads the store while `strike` changes the disk behind operation `at`. `None` where the start has fewer operations.
fn read_struck(
    disk: &Arc<SimulatedDisk>,
    at: usize,
    strike: impl Fn(&mut Disk) + Send + 'static,
) -> Option<Result<Rows, StoreError>> {
    let is_struck = strike_at(disk, at, strike);
    let found = read(disk);
    disk.set_look(None);
    is_struck.load(Ordering::Relaxed).then_some(found)
}

/// Lets `strike` change the disk behind operation `at`. Gives whether it has struck so far.
pub(super) fn strike_at(
    disk: &Arc<SimulatedDisk>,
    at: usize,
    strike: impl Fn(&mut Disk) + Send + 'static,
) -> Arc<AtomicBool> {
    let (hand, is_struck) = (Arc::clone(disk), Arc::new(AtomicBool::new(false)));
    let (mut operations, struck) = (0, Arc::clone(&is_struck));
    disk.set_look(Some(Box::new(move |_| {
        if operations == at {
            strike(&mut hand.locked());
            struck.store(true, Ordering::Relaxed);
        }
        operations += 1;
    })));
    is_struck
}

/// Regression: 18 of 54 starts repaired a file that `cp` was writing, to ruin.
#[test]
fn a_file_that_is_being_copied_is_not_written_and_is_used_once_it_is_whole() {
    let (whole, marker) = written(0..30);
    let (older, _) = written(0..10);
    let (mut waited, mut used) = (0, 0);
    // A copy into a new file, and one over an older file in its place.
    for below in [&b""[..], &older] {
        for piece_bytes in [700, 4_096, 20_000] {
            for begins_at in (0..whole.len()).step_by(9_001) {
                let copied = |end: usize| {
                    let mut content = below.to_vec();
                    content.resize(content.len().max(end), 0);
                    content[..end].copy_from_slice(&whole[..end]);
                    content
                };
                let disk = disk_with(&[(STORE, &copied(begins_at)), (MARKER_FILE, &marker)]);
                let (copier, end, is_torn) =
                    (Arc::clone(&disk), Mutex::new(begins_at), Arc::new(AtomicBool::new(false)));
                let torn = Arc::clone(&is_torn);
                let (whole_bytes, is_whole) = (whole.clone(), Arc::new(AtomicBool::new(false)));
                let ended = Arc::clone(&is_whole);
                let below = below.to_vec();
                // The copier writes a piece at each operation of the start, and checks that nothing else has written.
                let mut expected = copied(begins_at);
                disk.set_look(Some(Box::new(move |at| {
                    let mut end = end.lock().expect("no look panics");
                    if at != At::Operation || *end == whole_bytes.len() {
                        return;
                    }
                    let mut disk = copier.locked();
                    torn.fetch_or(disk.content(STORE).as_ref() != Some(&expected), Ordering::Relaxed);
                    *end = whole_bytes.len().min(*end + piece_bytes);
                    expected = below.clone();
                    expected.resize(expected.len().max(*end), 0);
                    expected[..*end].copy_from_slice(&whole_bytes[..*end]);
                    if *end == whole_bytes.len() {
                        expected.truncate(*end);
                    }
                    disk.replace(STORE, &expected);
                    ended.store(*end == whole_bytes.len(), Ordering::Relaxed);
                })));
                let what = format!("{piece_bytes} bytes at a time from {begins_at} on");
                let first = read(&disk);
                assert!(!is_torn.load(Ordering::Relaxed), "{what}: the start has written to it");
                match first {
                    Ok(found) => {
                        assert_eq!(found, rows(0..30), "{what}");
                        used += 1;
                    }
                    Err(error) => {
                        waited += usize::from(matches!(error, StoreError::Unavailable(_)));
                    }
                }
                let found =
                    (0..2_000).map(|_| read(&disk)).find(|found| found.is_ok() || is_whole.load(Ordering::Relaxed));
                assert!(!is_torn.load(Ordering::Relaxed), "{what}: a later start has written to it");
                let found = found.filter(Result::is_ok).unwrap_or_else(|| read(&disk));
                assert_eq!(found.unwrap_or_else(|error| panic!("{what}: {error}")), rows(0..30), "{what}");
                disk.set_look(None);
            }
        }
    }
    println!("{used} were whole at the first try, {waited} were told to be changing");
    assert!(used > 0 && waited > 0, "{used} used, {waited} waited");
}

/// Another file takes the place of the right one, in place, at each operation of a start.
#[test]
fn no_other_file_is_taken_or_repaired_at_any_operation_of_a_start() {
    let (right, marker) = written(0..30);
    let (older, _) = written(0..10);
    let mut mixed = right.clone();
    let half = mixed.len() / 2;
    mixed[..half].copy_from_slice(&older[..half]);
    let others: [(&str, &[u8]); 6] = [
        ("empty", b""),
        ("text", b"ip,voted_at\n203.0.113.7,2026-11-20T12:34:56Z\n"),
        ("zeros", &vec![0; right.len()]),
        ("half", &right[..half]),
        ("older", &older),
        ("half older", &mixed),
    ];
    let (mut trials, mut unseen) = (0, 0);
    for (kind, other) in others {
        for at in 0.. {
            let disk = disk_with(&[(STORE, &right), (MARKER_FILE, &marker)]);
            let content = other.to_vec();
            let Some(first) = read_struck(&disk, at, move |disk| disk.replace(STORE, &content)) else { break };
            trials += 1;
            let what = format!("{kind} at operation {at}");
            // A start that uses the file writes to it, whatever it has become since the last look.
            let is_unseen = disk.locked().content(STORE).as_deref() != Some(other);
            unseen += usize::from(is_unseen);
            if let Ok(found) = first
                && !is_unseen
            {
                assert_eq!(found, rows(0..30), "{what}");
            }
            // The next start finds the other file, and leaves it as it is.
            disk.locked().replace(STORE, other);
            assert!(read(&disk).is_err(), "{what}: it is taken");
            assert_eq!(disk.locked().content(STORE).as_deref(), Some(other), "{what}: it is written to");
            // The right one is put back.
            disk.locked().replace(STORE, &right);
            assert_eq!(read(&disk).expect("it is whole"), rows(0..30), "{what}");
        }
    }
    println!("{trials} trials, {unseen} once it was in use");
    assert!(trials > 100 && unseen * 3 < trials, "{trials}, {unseen}");
}

/// One of the files is moved away at each operation of a start, and comes back.
#[test]
fn a_part_that_goes_at_any_operation_of_a_start_is_missed_or_not_needed() {
    let (right, marker) = written(0..30);
    let mut trials = 0;
    for part in [STORE, MARKER_FILE, "lock", RESERVE] {
        for at in 0.. {
            let disk = disk_with(&[(STORE, &right), (MARKER_FILE, &marker)]);
            let Some(first) = read_struck(&disk, at, move |disk| disk.move_away(part, "elsewhere")) else { break };
            trials += 1;
            let what = format!("{part} at operation {at}");
            if let Ok(found) = first {
                assert_eq!(found, rows(0..30), "{what}");
            }
            // No start makes a new store while a note tells of one.
            let second = read(&disk);
            assert!(
                second.as_ref().is_ok_and(|found| *found == rows(0..30)) || !disk.locked().has(STORE),
                "{what}: {second:?}"
            );
            if !disk.locked().has(STORE) {
                disk.locked().move_away("elsewhere", STORE);
            }
            assert_eq!(read(&disk).expect("it is whole"), rows(0..30), "{what}");
        }
    }
    println!("{trials} trials");
    assert!(trials > 100, "{trials}");
}

/// Regression: a file took the place of a link where the store was written anew.
#[test]
fn a_link_stays_one_at_any_kill_of_a_store_that_is_written_anew_behind_it() {
    let (right, marker) = written(0..30);
    let mut trials = 0;
    for at in 0.. {
        let disk = disk_with(&[(STORE, &right), (MARKER_FILE, &marker)]);
        disk.make_link(STORE, "elsewhere.redb");
        let mut store = open(&disk).expect("it is opened");
        disk.locked().faults.syncs_fail = 1;
        store.commit(&[Event::Vote(vote(99, 99))], &note()).expect_err("its sync fails");
        disk.locked().faults.kill = Some(Kill::AtOperation(at));
        let renewed = renew(&mut store, &rows(0..30), SLICE_ROWS);
        let is_over = !disk.locked().is_dead();
        disk.locked().die();
        drop(store);
        disk.locked().kill();
        disk.locked().faults.kill = None;
        assert!(disk.is_link(STORE), "a kill at operation {at}: a file has taken the place of the link");
        let mut store = open(&disk).unwrap_or_else(|error| panic!("a kill at operation {at}: {error}"));
        let found = Rows::of(&mut store).expect("it is read");
        let with_doubtful = rows(0..30).after(&Change::Of(vec![Event::Vote(vote(99, 99))]));
        assert!(found == rows(0..30) || found == with_doubtful, "a kill at operation {at}: {found:?}");
        trials += 1;
        if is_over {
            renewed.expect("it is written anew");
            break;
        }
    }
    println!("{trials} kills");
    assert!(trials > 30, "{trials}");
}

/// A start without a note makes one that has the number of the last commit, whether a vote comes or not.
#[test]
fn a_start_without_a_note_lets_no_later_one_take_an_older_copy() {
    let ((right, _), (older, _)) = (written(0..30), written(0..10));
    let disk = disk_with(&[(STORE, &right)]);
    let store = open(&disk).expect("it is whole");
    disk.locked().die();
    drop(store);
    disk.locked().kill();
    expect_refused(&disk, &older);
}

/// Without its note, or with its note alone, a store is not taken for an empty one.
#[test]
fn a_store_with_a_missing_part_is_read_or_refused() {
    let (right, marker) = written(0..30);
    let disk = disk_with(&[(STORE, &right)]);
    assert_eq!(read(&disk).expect("it is whole"), rows(0..30));
    let disk = disk_with(&[(MARKER_FILE, &marker)]);
    assert!(matches!(read(&disk), Err(StoreError::Unusable(_))));
    // A start on a full disk reads the store.
    let disk = disk_with(&[(STORE, &right), (MARKER_FILE, &marker)]);
    disk.locked().faults.is_full = true;
    assert_eq!(read(&disk).expect("it is read"), rows(0..30));
}

/// Regression: a process whose disk had failed wrote its store anew over six votes that another one had acknowledged.
#[test]
fn the_later_commits_of_another_process_are_left_alone_and_an_older_copy_is_not() {
    let disk = seam(Disk::new(0));
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note()).expect("it is taken");
    let copy = |disk: &SimulatedDisk| {
        let locked = disk.locked();
        [STORE, MARKER_FILE].map(|name| (name, locked.content(name).expect("it is there")))
    };
    let before = copy(&disk);
    for number in 0..3 {
        store.commit(&[Event::Vote(vote(number, number))], &note()).expect("it is taken");
    }
    // Another process goes on with a copy of the files.
    let files = copy(&disk);
    let others = disk_with(&[(STORE, &files[0].1), (MARKER_FILE, &files[1].1)]);
    let mut other = open(&others).expect("it is opened");
    for number in 10..16 {
        other.commit(&[Event::Vote(vote(number, number))], &note()).expect("it is taken");
    }
    let foreign = copy(&others)[0].1.clone();
    disk.locked().replace(STORE, &foreign);
    store.commit(&[Event::Vote(vote(3, 3))], &note()).expect_err("nothing in the file counts");
    for _ in 0..3 {
        let refused = renew(&mut store, &rows(0..3), SLICE_ROWS);
        assert!(matches!(refused, Err(StoreError::InUse(_))), "{refused:?}");
        assert_eq!(disk.locked().content(STORE), Some(foreign.clone()), "it is written to");
    }
    // An older copy of the own file is written anew.
    disk.locked().replace(STORE, &before[0].1);
    renew(&mut store, &rows(0..3), SLICE_ROWS).expect("it is written anew");
    drop(store);
    assert_eq!(read(&disk).expect("it is whole"), rows(0..3));
}

/// A store with one vote. A failure has closed its file, and the next change opens the file again. Also gives a copy from
/// before that vote.
fn with_closed_file() -> (Arc<SimulatedDisk>, EmbeddedStore, Vec<u8>) {
    let disk = disk_with(&[]);
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note()).expect("it is taken");
    let older = disk.locked().content(STORE).expect("it is there");
    store.commit(&[Event::Vote(vote(0, 0))], &note()).expect("it is taken");
    let faults = Faults { changes_fail: 1, errno: 5, reads_fail: u32::MAX, ..Faults::default() };
    disk.locked().faults = faults;
    let failed = store.commit(&[Event::Vote(vote(2, 2))], &note());
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    disk.locked().faults = Faults::default();
    (disk, store, older)
}

/// An older copy is written over the file while a failing store has it closed.
#[test]
fn an_older_copy_in_a_file_that_is_closed_is_written_anew() {
    let (disk, mut store, older) = with_closed_file();
    disk.locked().replace(STORE, &older);
    let refused = store.commit(&[Event::Vote(vote(3, 3))], &note());
    assert!(refused.is_err() && store.is_void(), "it is taken");
    renew(&mut store, &rows(0..1), SLICE_ROWS).expect("it is written anew");
    drop(store);
    assert_eq!(read(&disk).expect("it is whole"), rows(0..1));
}

/// Another file takes the path at any operation of the first commit after a failure. Votes that were acknowledged behind
/// that would be in no file that a start finds.
#[test]
fn a_file_that_is_opened_again_is_the_one_at_the_path() {
    let mut trials = 0;
    for at in 0.. {
        let (disk, mut store, _) = with_closed_file();
        let is_struck = strike_at(&disk, at, |disk| {
            let copy = disk.content(STORE).expect("it is there");
            disk.move_away(STORE, "elsewhere");
            disk.put(STORE, &copy);
        });
        let _first = store.commit(&[Event::Vote(vote(3, 3))], &note());
        disk.set_look(None);
        if !is_struck.load(Ordering::Relaxed) {
            break;
        }
        let second = store.commit(&[Event::Vote(vote(4, 4))], &note());
        assert!(second.is_err(), "another file at operation {at}: a vote is acknowledged that no start finds");
        trials += 1;
    }
    println!("{trials} trials");
    assert!(trials > 10, "{trials}");
}

/// A read fails once, at any operation of a drop that opens the file again. The next change, on a disk that is well, works.
#[test]
fn a_read_that_fails_in_a_drop_fails_nothing_behind_it() {
    let mut failures = 0;
    for at in 0.. {
        let (disk, mut store, _) = with_closed_file();
        let is_struck = strike_at(&disk, at, |disk| disk.faults.reads_fail = 1);
        let dropped = store.drop_before(UnixSeconds(AT), 100, &note());
        disk.set_look(None);
        if !is_struck.load(Ordering::Relaxed) {
            break;
        }
        disk.locked().faults.reads_fail = 0;
        store.commit(&[Event::Vote(vote(3, 3))], &note()).unwrap_or_else(|error| panic!("operation {at}: {error}"));
        failures += usize::from(dropped.is_err());
    }
    println!("{failures} reads failed");
    assert!(failures > 3, "{failures}");
}

/// A file that was closed in order has no commit that a power cut interrupted. So damage in it is not taken for one, and no
/// start undoes a commit in silence, with a note or without.
#[test]
fn a_page_that_is_damaged_loses_no_vote_without_a_note() {
    let (right, _) = written(0..30);
    let (mut whole, mut refused) = (0, 0);
    // Every byte of the header, which says what the last commit is, and one in each part of the pages.
    let in_pages = |at: usize| (at..at + 1_024).find(|at| right.get(*at).is_some_and(|byte| *byte != 0));
    for at in (0..HEADER_BYTES).chain((HEADER_BYTES..right.len()).step_by(1_024).filter_map(in_pages)) {
        let mut content = right.clone();
        content[at] ^= 0x55;
        match read(&disk_with(&[(STORE, &content)])) {
            Ok(found) => {
                assert_eq!(found, rows(0..30), "damage at {at}");
                whole += 1;
            }
            Err(_) => refused += 1,
        }
    }
    println!("{whole} were whole, {refused} refused");
    assert!(whole > 0 && refused > 0, "{whole} whole, {refused} refused");
}

/// A note with a half-written number says nothing of the store.
#[test]
fn a_half_written_note_refuses_no_store() {
    let (right, mut marker) = written(0..30);
    // The number is a later one, and its complement still belongs to the last one.
    marker[0] = marker[0].wrapping_add(1);
    let disk = disk_with(&[(STORE, &right), (MARKER_FILE, &marker)]);
    assert_eq!(read(&disk).expect("it is whole"), rows(0..30));
}

/// Puts an older file in the store's place. A start must refuse it, as later commits were acknowledged.
fn expect_refused(disk: &Arc<SimulatedDisk>, older: &[u8]) {
    disk.locked().replace(STORE, older);
    let found = read(disk);
    assert!(matches!(&found, Err(StoreError::Unusable(why)) if why.contains("was acknowledged")), "{found:?}");
}

/// A deleted note is made again with its number, whether a vote comes or not.
#[test]
fn a_note_that_is_made_again_refuses_an_older_copy() {
    let disk = seam(Disk::new(0));
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note()).expect("it is taken");
    let older = disk.locked().content(STORE).expect("it is there");
    store.commit(&[Event::Vote(vote(1, 1))], &note()).expect("it is taken");
    disk.locked().delete(MARKER_FILE);
    store.tend().expect("it is well");
    disk.locked().die();
    drop(store);
    disk.locked().kill();
    expect_refused(&disk, &older);
}

/// A copy that was made after a failed commit holds that commit. A start refuses the copy once the store was written anew
/// and has acknowledged another commit.
#[test]
fn a_copy_with_a_failed_commit_takes_the_place_of_no_later_one() {
    let disk = seam(Disk::new(0));
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one"), Event::Vote(vote(1, 1))], &note()).expect("it is taken");
    disk.locked().faults.syncs_fail = 1;
    store.commit(&[Event::Vote(vote(2, 2))], &note()).expect_err("its sync fails");
    let copy = disk.locked().content(STORE).expect("it is there");
    let held = read(&disk_with(&[(STORE, &copy)])).expect("the copy is whole");
    assert_eq!(held.votes().count(), 2, "the copy has what had failed: {held:?}");
    let kept = Rows::new(vec![server(1, "one"), Event::Vote(vote(1, 1))]);
    renew(&mut store, &kept, SLICE_ROWS).expect("it is written anew");
    store.commit(&[Event::Vote(vote(3, 3))], &note()).expect("it is taken");
    drop(store);
    expect_refused(&disk, &copy);
}

/// While a process lives, no other one opens its file: not without the directory's lock, and not while its disk fails.
#[test]
fn the_file_stays_locked_while_the_store_fails() {
    let disk = seam(Disk::new(0));
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note()).expect("it is taken");
    for fails in [false, true] {
        if fails {
            disk.locked().faults.syncs_fail = 1;
            store.commit(&[Event::Vote(vote(1, 1))], &note()).expect_err("its sync fails");
        }
        disk.locked().delete("lock");
        let second = open(&disk).map(drop);
        assert!(matches!(second, Err(StoreError::InUse(_))), "{second:?}");
    }
}

/// Regression: the library panicked where it was closed, and nothing caught it.
#[test]
fn a_void_file_whose_pages_are_lost_while_a_start_waits_is_closed_without_a_panic() {
    for numbers in 1..40 {
        let disk = disk_with(&[]);
        let mut store = open(&disk).expect("it is made");
        for number in 0..numbers {
            store.commit(&[Event::Vote(vote(number, number))], &note()).expect("it is taken");
        }
        disk.locked().faults.syncs_fail = 1;
        assert!(store.commit(&[Event::Vote(vote(numbers, numbers))], &note()).is_err());
        disk.locked().die();
        drop(store);
        disk.locked().kill();
        let mut store = open(&disk).expect("it is opened");
        disk.locked().evict();
        let _read = store.replay(UnixSeconds(0), &mut |_| {});
    }
}
