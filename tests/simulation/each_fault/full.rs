//! A full disk: the store refuses votes, still drops ended ones, and uses their room for the next votes.

use super::opening::strike_at;
use super::{CommitNote, Disk, Event, STORE, StoreError, UnixSeconds, note, open, seam, server, vote};
use crate::simulation::machine::RESERVE;
use crate::simulation::seam::SimulatedDisk;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vote_status::store::embedded::EmbeddedStore;
use vote_status::store::{RoomLeft, Store};

/// Votes in one commit, and the number of such commits before the disk is full.
const BATCH: u32 = 200;
const BATCHES: u32 = 10;

/// The votes of batch `number`, all of one second.
fn batch(number: u32) -> Vec<Event> {
    (number * BATCH..(number + 1) * BATCH).map(|each| Event::Vote(vote(number, each))).collect()
}

/// A store of one server with `batches` batches of votes, and with room kept back.
fn holding(batches: u32) -> (Arc<SimulatedDisk>, EmbeddedStore, CommitNote) {
    let (disk, note) = (seam(Disk::new(0)), note());
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note).expect("it is taken");
    for number in 0..batches {
        store.commit(&batch(number), &note).expect("it is taken");
    }
    store.tend().expect("it is well");
    (disk, store, note)
}

/// Commits batches until there is no room. Gives the number of commits.
fn fill(store: &mut EmbeddedStore, from: u32, note: &CommitNote) -> u32 {
    for number in from..from + 1_000 {
        match store.commit(&batch(number), note) {
            Ok(()) => {}
            Err(StoreError::Full(_)) => return number - from,
            Err(error) => panic!("commit {number}: {error}"),
        }
    }
    panic!("the disk is never full")
}

#[test]
fn what_is_kept_back_is_for_dropping_and_not_for_votes() {
    let (disk, mut store, note) = holding(BATCHES);
    let kept = |what: &str| {
        let bytes = disk.locked().content(RESERVE).map_or(0, |content| content.len());
        assert!(bytes > 0, "{what}: no room is kept back");
        bytes
    };
    let before = kept("at first");
    disk.locked().faults.is_full = true;
    fill(&mut store, BATCHES, &note);
    assert_eq!(kept("while votes find none"), before, "votes have taken of it");
    assert_eq!(store.room(), RoomLeft::Little);
    let length = disk.locked().length_of(STORE);
    // Each second has a batch.
    let dropped: usize = (1..=BATCHES)
        .map(|seconds| {
            let first = UnixSeconds(super::AT + seconds);
            store.drop_before(first, 8_192, &note).unwrap_or_else(|error| panic!("dropped up to {first}: {error}"))
        })
        .sum();
    assert_eq!(dropped, (BATCH * BATCHES) as usize);
    // The library may have made it longer, by pages without room.
    let after = disk.locked().length_of(STORE);
    assert!((length..=2 * length).contains(&after), "the file gave its room to others: {length}, {after}");
    assert!(fill(&mut store, 2_000, &note) > 0, "dropping made no room for votes");
    store.tend().expect("it is well");
    assert!(disk.locked().length_of(STORE) >= length / 2, "the file gave its room to others");
    disk.locked().faults.is_full = false;
    store.commit(&batch(4_000), &note).expect("there is room again");
    assert_eq!(store.room(), RoomLeft::More, "it counts as full still");
}

/// Regression: the library took pages of the file that had never got room, though pages of ended votes lay free before
/// them. So votes found no room for as long as the disk was full, at each try: 940 of 40,000
/// in 40 such stores, 99 in a row.
#[test]
fn votes_take_the_room_of_ended_ones_before_pages_that_never_had_any() {
    let (mut refused, mut in_a_row_max) = (0, 0);
    for batches in (BATCHES..BATCHES + 40).step_by(4) {
        let (disk, mut store, note) = holding(batches);
        disk.locked().faults.is_full = true;
        let mut number = batches;
        for _full in 0..10 {
            number += fill(&mut store, number, &note);
            let first = UnixSeconds(super::AT + number + 1);
            while store.drop_before(first, 100, &note).expect("what has ended is dropped") > 0 {}
            store.tend().expect("it is well");
            let mut in_a_row = 0;
            for each in 0..100 {
                let is_refused = store.commit(&[Event::Vote(vote(number, each))], &note).is_err();
                in_a_row = if is_refused { in_a_row + 1 } else { 0 };
                in_a_row_max = in_a_row_max.max(in_a_row);
                refused += u32::from(is_refused);
            }
            number += 1;
        }
    }
    println!("{refused} votes found no room, {in_a_row_max} in a row");
    assert!(refused < 20 && in_a_row_max <= 2, "{refused} votes found no room, {in_a_row_max} in a row");
}

/// A drop finds no room at any of its operations, and then the sync of the file that the store opens again fails. The file is
/// void from then on, and the error must say so: fewer rows would help only against want of room.
#[test]
fn a_drop_without_room_tells_that_the_file_counts_no_more() {
    let (mut without_room, mut void) = (0, 0);
    for at in 0.. {
        let (disk, note) = (seam(Disk::new(0)), note());
        let mut store = open(&disk).expect("it is made");
        store.commit(&[server(1, "one")], &note).expect("it is taken");
        store.commit(&batch(0), &note).expect("it is taken");
        // The second failed change keeps the store from giving up its reserve.
        let is_struck = strike_at(&disk, at, |disk| {
            (disk.faults.changes_fail, disk.faults.errno, disk.faults.syncs_fail) = (2, 122, 1);
        });
        let dropped = store.drop_before(UnixSeconds(super::AT + 1), 8_192, &note);
        disk.set_look(None);
        if !is_struck.load(Ordering::Relaxed) {
            break;
        }
        match dropped {
            Err(StoreError::Full(why)) => {
                assert!(!store.is_void(), "operation {at}: {why}");
                without_room += 1;
            }
            Err(StoreError::Unavailable(why)) if why.contains("os error 122") => {
                assert!(store.is_void() && why.contains("nothing in the file counts"), "operation {at}: {why}");
                void += 1;
            }
            _ => {}
        }
    }
    println!("{without_room} without room, {void} void");
    assert!(void > 3, "{void} void, {without_room} without room");
}

/// Something else cuts the file to half.
fn cut(disk: &mut Disk) {
    let content = disk.content(STORE).expect("it is there");
    disk.replace(STORE, &content[..content.len() / 2]);
}

/// Regression: a commit that made the file longer, or wrote behind its end, hid that something else had cut it. Votes were
/// acknowledged, and the next start found a damaged file.
#[test]
fn a_file_that_was_cut_is_told_of_before_it_grows_again() {
    for (batches, count) in (0..=BATCHES).flat_map(|batches| [1, 4, 20].map(|count| (batches, count))) {
        let (disk, mut store, note) = holding(batches);
        cut(&mut disk.locked());
        let votes: Vec<Event> = (1_000..1_000 + count).flat_map(batch).collect();
        let committed = store.commit(&votes, &note);
        assert!(committed.is_err() && store.is_void(), "{count} batches behind {batches}: {committed:?}");
    }
}

/// A drop uses up the reserve, and the disk stays full: the store's own file gives what it has beyond the need of the next votes.
#[test]
fn on_a_full_disk_the_file_gives_spare_bytes_for_the_reserve() {
    let batches = 32 * BATCHES;
    let (disk, mut store, note) = holding(batches);
    let whole = disk.locked().length_of(RESERVE);
    disk.locked().faults.is_full = true;
    let filled = fill(&mut store, batches, &note);
    for seconds in 1..=batches + filled {
        store.drop_before(UnixSeconds(super::AT + seconds), 8_192, &note).expect("it has room");
    }
    assert!(disk.locked().length_of(RESERVE) < whole, "the drop took nothing of {whole} bytes in reserve");
    store.commit(&batch(5_000), &note).expect("it has room");
    let before = disk.locked().length_of(STORE);
    store.tend().expect("it is well");
    assert_eq!(before - disk.locked().length_of(STORE), 64 << 10, "one piece of the reserve");
}
