//! A full disk: votes stop, what has ended is dropped all the same, and its room is for the next votes.

use super::{AT, Clocks, CommitNote, Disk, Event, STORE, StoreError, UnixSeconds, note, open, seam, server, vote};
use crate::simulation::model::{Accepts, Answer, Asked, Listed, Named, Request, Settings};
use crate::simulation::process::Process;
use crate::simulation::seam::SimulatedDisk;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use vote_status::recorder::Tuning;
use vote_status::store::embedded::EmbeddedStore;
use vote_status::store::{RoomLeft, Store};

const RESERVE: &str = "votes.reserve";
/// Votes in one commit, and such commits before the disk is full.
const BATCH: u32 = 200;
const BATCHES: u32 = 10;

/// Votes of one second each, the next ones in number.
fn batch(number: u32) -> Vec<Event> {
    (number * BATCH..(number + 1) * BATCH).map(|each| Event::Vote(vote(number, each))).collect()
}

/// Commits until there is no room; how many there were.
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
    let (disk, note) = (seam(Disk::new(0)), note());
    let mut store = open(&disk).expect("it is made");
    store.commit(&[server(1, "one")], &note).expect("it is taken");
    for number in 0..BATCHES {
        store.commit(&batch(number), &note).expect("it is taken");
    }
    store.tend().expect("it is well");
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
    assert_eq!(disk.locked().length_of(STORE), length, "the file gave its room to others");
    assert!(fill(&mut store, 2_000, &note) > 0, "dropping made no room for votes");
    store.tend().expect("it is well");
    assert!(disk.locked().length_of(STORE) >= length / 2, "the file gave its room to others");
    disk.locked().faults.is_full = false;
    store.commit(&batch(4_000), &note).expect("there is room again");
    assert_eq!(store.room(), RoomLeft::More, "it counts as full still");
}

/// A recorder on a disk.
struct Service {
    clocks: Arc<Clocks>,
    process: Process,
}

impl Service {
    /// Time passes, and then the recorder meets this.
    fn step(&mut self, after_ms: i64, requests: &[Request]) -> Vec<Answer> {
        self.clocks.pass(after_ms);
        let answered = self.process.step(requests).expect("it goes on");
        answered.into_iter().flat_map(|(_, answers)| answers).collect()
    }

    /// Whether votes of new voters, that many in one commit, are recorded.
    fn takes(&mut self, after_ms: i64, voters: std::ops::Range<u32>) -> bool {
        let address = |number| IpAddr::V4(Ipv4Addr::from_bits(number));
        let vote = |number| Asked { server: Named::Id(1), addresses: vec![address(number)], voted_at: None };
        let answers = self.step(after_ms, &[Request::Votes { asked: voters.map(vote).collect(), is_record: false }]);
        answers.iter().all(|answer| matches!(answer, Answer::Recorded { .. }))
    }
}

/// Nobody makes room on the disk, and no vote is tried: what has ended is dropped all the same, so that the next votes find
/// room.
#[test]
fn votes_that_end_on_a_full_disk_make_room_for_others() {
    let clocks = Arc::new(Clocks::at(i64::from(AT) * 1_000));
    let disk = SimulatedDisk::new(0, Arc::clone(&clocks));
    let settings = Settings { cooldown_s: 600, prefix: 64 };
    let process = Process::new(&disk, &clocks, settings, Accepts::default(), Tuning::default(), false);
    let mut service = Service { clocks, process };
    while !service.process.readiness.is_ready() {
        let _none = service.step(100, &[]);
    }
    let servers = vec![Listed { server: 1, token: None }];
    let listed = service.step(100, &[Request::List { servers, keeps: false }]);
    assert!(listed.iter().all(Answer::is_commit), "{listed:?}");
    let voters = |number: u32| number * 10 * BATCH..(number + 1) * 10 * BATCH;
    assert!((0..5).all(|number| service.takes(1_000, voters(number))), "the disk is well");
    disk.locked().faults.is_full = true;
    let refused = (5..1_000).find(|number| !service.takes(1_000, voters(*number))).expect("the disk is full");
    assert!(!service.takes(40_000, voters(refused)), "there is room, and no vote has ended");
    for _ in 0..700 {
        let _none = service.step(1_000, &[]);
    }
    assert!(service.takes(1_000, voters(refused)), "all votes have ended, and there is no room for another");
}
