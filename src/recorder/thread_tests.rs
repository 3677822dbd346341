//! The recorder's thread: how it starts, waits and ends, and what it does in each tick.

use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
use super::queue::RecorderHandle;
use super::tests::{Bench, Disk, SERVER, START, listing, voter};
use crate::clock::HandReaders;
use crate::readiness::Trouble;
use crate::store::StoreError;
use crate::vote::id::ServerId;

/// The longest wait for an answer of another thread.
const DEADLINE: Duration = Duration::from_secs(60);

fn votes(addresses: std::ops::Range<u32>) -> Command {
    let vote = |address| Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None };
    Command::Votes(addresses.map(vote).collect(), Mode::Cast)
}

fn submit(handle: &RecorderHandle, command: Command) -> Receiver<Reply> {
    let (sender, reply) = channel();
    handle.submit(command, Box::new(move |reply| drop(sender.send(reply)))).expect("there is room");
    reply
}

#[test]
fn a_load_records_its_seed_before_it_ends() {
    let mut bench = Bench::new(&Disk::default(), &HandReaders::at(START));
    bench.recorder.load(vec![listing()]).expect("the store opens");
    assert_eq!(bench.disk.0.lock().servers.len(), 1);
    assert!(bench.recorder.live().directory.snapshot().contains(SERVER));
    assert!(matches!(bench.cast(7), VoteOutcome::Recorded(_)), "it takes votes");
}

/// A service that is restarted may still have the store open. Another one that has it for a second is an error.
#[test]
fn a_start_waits_a_second_for_a_store_that_is_in_use() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    disk.0.lock().is_in_use = true;
    let mut bench = Bench::new(&disk, &readers);
    for _ in 0..10 {
        assert_eq!(bench.step(), 100);
        readers.pass_ms(100);
    }
    let refused = bench.recorder.step(Vec::new());
    assert!(matches!(refused, Err(StoreError::InUse(_))), "{refused:?}");

    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    disk.0.lock().is_in_use = true;
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    readers.pass_ms(999);
    assert_eq!(bench.step(), 100);
    disk.0.lock().is_in_use = false;
    readers.pass_ms(100);
    bench.step();
    assert!(bench.readiness.is_ready());
}

#[test]
fn a_store_that_is_in_use_behind_a_failure_is_tried_on() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    disk.0.lock().is_failing = true;
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    let trouble = |bench: &Bench| bench.readiness.gravest().map(|(trouble, _)| trouble);
    assert_eq!(trouble(&bench), Some(Trouble::StoreUnavailable));
    (disk.0.lock().is_failing, disk.0.lock().is_in_use) = (false, true);
    for _ in 0..3 {
        readers.pass_ms(5_000);
        bench.step();
        assert_eq!(trouble(&bench), Some(Trouble::StoreInUse), "one reason at a time");
    }
    disk.0.lock().is_in_use = false;
    readers.pass_ms(5_000);
    bench.step();
    assert_eq!(trouble(&bench), None);
}

#[test]
fn a_command_counts_by_its_addresses_or_its_servers() {
    let server = |id| NewServer { server: ServerId(id), token: None };
    let lines = [
        votes(0..3).lines(),
        Command::Servers((0..4).map(server).collect(), Tokens::Keep).lines(),
        Command::Remove(SERVER).lines(),
    ];
    assert_eq!(lines, [3, 4, 1]);
}

#[test]
fn an_outcome_has_the_word_of_its_index() {
    let outcomes = [VoteOutcome::Expired, VoteOutcome::UnknownServer, VoteOutcome::Cancelled];
    assert_eq!(outcomes.map(|outcome| outcome.word()), ["expired", "unknown_server", "cancelled"]);
}

#[test]
fn it_records_until_the_last_handle_is_dropped_and_notes_the_time_at_its_end() {
    let bench = Bench::listed(&HandReaders::at(START));
    let Bench { disk, readers, recorder, handle, .. } = bench;
    let running = thread::spawn(move || recorder.run());
    let outcome = || match submit(&handle, votes(7..8)).recv_timeout(DEADLINE) {
        Ok(Reply::Votes(mut outcomes)) => outcomes.remove(0),
        other => panic!("{other:?}"),
    };
    assert!(matches!(outcome(), VoteOutcome::Recorded(_)));
    assert_eq!(disk.0.lock().votes.len(), 1);
    readers.pass_ms(5_000);
    // Nothing is committed for a refused vote, but its round reads the clocks.
    assert!(matches!(outcome(), VoteOutcome::InCooldown(..)));
    drop(handle);
    running.join().expect("it ends");
    let noted = disk.0.lock().note.expect("there is a note").time;
    assert_eq!(noted.wall_ms, (u64::from(START) + 5) * 1_000);
}

#[test]
fn it_takes_as_many_commands_as_one_commit_has_room_for() {
    let bench = Bench::listed(&HandReaders::at(START));
    let _replies: Vec<_> = (0..5).map(|_| submit(&bench.handle, votes(0..60))).collect();
    let counts = (0..4).map(|_| bench.recorder.wait(0).expect("a handle is left").len());
    // A commit has room for 100 votes, and the command that reaches this is the last.
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2, 1, 0]);
    let Bench { recorder, handle, .. } = bench;
    drop(handle);
    assert!(recorder.wait(u64::MAX).is_none());
}

/// Regression: a sweep walked one part of the table per round, however long rounds took. During imports the table kept
/// votes for minutes after they had expired, and grew by them.
#[test]
fn a_sweep_makes_up_for_the_time_that_a_round_has_taken() {
    const VOTES: u32 = 200;
    let mut bench = Bench::listed(&HandReaders::at(START));
    (0..VOTES).for_each(|address| assert!(matches!(bench.cast(address), VoteOutcome::Recorded(_))));
    (0..89).for_each(|_| bench.pass(60_000));
    assert_eq!(bench.recorder.live().table.view().len(), VOTES as usize);
    bench.pass(60_000);
    (0..3).for_each(|_| bench.pass(1_600));
    assert_eq!(bench.recorder.live().table.view().len(), 0, "the whole table takes 6.4 s");
}

/// A tick comes every 50 ms, and 128 of them go over the whole table.
#[test]
fn a_sweep_in_time_makes_up_for_nothing() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    (0..1_000).for_each(|address| assert!(matches!(bench.cast(address), VoteOutcome::Recorded(_))));
    (0..89).for_each(|_| bench.pass(60_000));
    bench.pass(59_950);
    assert_eq!(bench.recorder.live().table.view().len(), 1_000);
    // Each tick comes 10 ms late, and a part of a tick counts for nothing.
    (0..64).for_each(|_| bench.pass(60));
    let left = bench.recorder.live().table.view().len();
    assert!((300..=700).contains(&left), "{left} of 1,000 are left after half of the way");
}

#[test]
fn the_store_is_looked_after_twice_a_second() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    bench.pass(500);
    let before = bench.disk.0.lock().tends;
    (0..40).for_each(|_| bench.pass(50));
    assert_eq!(bench.disk.0.lock().tends - before, 4, "in two seconds");
}

/// A store that fails again within ten seconds is tried as seldom as one that only fails.
#[test]
fn a_failure_soon_after_a_success_goes_on_from_the_last_pause() {
    let pauses = |well_ms: i64| {
        let readers = HandReaders::at(START);
        let mut bench = Bench::listed(&readers);
        let mut next = 0..;
        let mut try_once = |bench: &mut Bench| {
            let address = next.next().expect("a number");
            bench.ask(votes(address..address + 1)) != Reply::StoreUnavailable
        };
        let mut pauses = Vec::new();
        for _ in 0..3 {
            bench.disk.0.lock().commits_failing = 1;
            assert!(!try_once(&mut bench));
            let mut paused_ms = 0;
            while !try_once(&mut bench) {
                readers.pass_ms(100);
                paused_ms += 100;
            }
            pauses.push(paused_ms);
            readers.pass_ms(well_ms);
        }
        pauses
    };
    assert_eq!(pauses(9_999), [100, 200, 400]);
    assert_eq!(pauses(10_000), [100, 100, 100]);
}

#[test]
fn commits_loads_and_steps_of_the_clock_are_counted() {
    let (disk, readers) = (Disk::default(), HandReaders::at(START));
    disk.0.lock().is_failing = true;
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    disk.0.lock().is_failing = false;
    bench.pass(60_000);
    assert!(bench.readiness.is_ready());
    let counted = |bench: &Bench| {
        let counters = &bench.recorder.live().counters;
        (
            counters.commit_us.totals(),
            counters.commit_events.totals(),
            counters.load_ms.get(),
            counters.clock_steps.get(),
        )
    };
    assert_eq!(counted(&bench), ((0, 0), (0, 0), 0, 0), "a note of the time alone does not count");
    bench.list();
    bench.ask(votes(0..5));
    // No time passes within a step of this test.
    assert_eq!(counted(&bench), ((2, 0), (2, 6), 0, 0));
    bench.set(1_001);
    bench.pass(50);
    assert_eq!(counted(&bench).3, 1, "a second step is told once it comes");
    bench.set(-1_001);
    assert_eq!(counted(&bench).3, 2);
}
