//! Starts with other settings, with a clock that is accepted, and on a store that is void.

use super::Accepts;
use super::command::{Command, Reply, VoteOutcome};
use super::ended::EndedEarly;
use super::tests::{Bench, Disk, SERVER, START, settings};
use crate::clock::HandReaders;
use crate::limits::RENEWAL_SLICES_MIN;
use crate::store::StoreError;
use crate::vote::address::VoterAddress;
use crate::vote::ipv6::Ipv6Network;
use std::sync::Arc;

/// A disk with votes for a cooldown of 90 minutes, one a quarter of an hour old, and one that has just ended.
fn voted(readers: &Arc<HandReaders>) -> Disk {
    readers.step_ms(-5_500_000);
    let mut bench = Bench::listed(readers);
    bench.cast(1);
    readers.pass_ms(4_600_000);
    bench.cast(2);
    readers.pass_ms(900_000);
    bench.cast(3);
    assert_eq!([1, 2, 3].map(|address| bench.ends(address)), [None, Some(4_500), Some(5_400)]);
    // As after a kill: the row of the ended vote may still be there.
    bench.recorder.note_time();
    bench.disk
}

/// A start that accepts other settings, where the first commits fail.
fn with_commits_failing(count: u32) -> Bench {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    disk.0.lock().commits_failing = count;
    let mut bench = Bench::with(&disk, &readers, settings(120, 64));
    bench.recorder.accepts.settings = true;
    bench
}

#[test]
fn settings_that_are_accepted_change_every_cooldown_for_good() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    // With a longer length, each cooldown lasts that much longer, and ended ones stay ended.
    for (minutes, ends, moved) in [
        (120, [None, Some(6_300), Some(7_200)], 2),
        (10, [None, None, Some(600)], 2),
        (90, [None, None, Some(5_400)], 1),
    ] {
        let mut bench = Bench::with(&disk, &readers, settings(minutes, 64));
        bench.recorder.accepts.settings = true;
        bench.step();
        assert_eq!([1, 2, 3].map(|address| bench.ends(address)), ends, "{minutes} minutes");
        let counted = bench.recorder.live().counters.ended();
        assert_eq!(counted, EndedEarly { settings: moved, ..EndedEarly::default() }, "{minutes} minutes");
        let mut again = Bench::with(&disk, &readers, settings(minutes, 64));
        again.step();
        assert_eq!([1, 2, 3].map(|address| again.ends(address)), ends, "{minutes} minutes, without the option");
    }
}

#[test]
fn a_store_takes_other_settings_from_the_second_in_which_its_last_cooldown_ends() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    let mut is_ready = |ms| {
        // By a clock that was not read since the last note, the votes might be live.
        bench.pass(ms);
        bench.recorder.note_time();
        let mut other = Bench::with(&disk, &readers, settings(10_080, 48));
        // A start whose settings are refused ends.
        other.recorder.step(Vec::new()).is_ok() && other.readiness.is_ready()
    };
    assert_eq!([is_ready(5_399_000), is_ready(1_000)], [false, true]);
}

/// Regression: a start with a clock that was ahead and with other settings dropped all votes for good.
#[test]
fn settings_are_accepted_only_where_the_time_is_certain() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    let start = |minutes, accepts| {
        let mut bench = Bench::with(&disk, &readers, settings(minutes, 64));
        bench.recorder.accepts = accepts;
        bench.recorder.step(Vec::new()).map(|_| bench.readiness.is_ready())
    };
    let (none, accepted) = (Accepts::default(), Accepts { clock: false, settings: true });
    let rows = disk.0.lock().votes.clone();
    readers.step_ms(7_200_000);
    for accepts in [none, accepted] {
        let Err(StoreError::Settings(message)) = start(120, accepts) else { panic!("{accepts:?}") };
        assert_eq!(message.contains("--accept-clock"), accepts.settings, "{message}");
        assert_eq!(disk.0.lock().votes, rows);
    }
    assert!(matches!(start(90, none), Ok(true)), "it is told that the clock is ahead");
    readers.step_ms(-7_200_000);
    assert!(matches!(start(120, accepted), Ok(true)));
    assert!(matches!(start(120, none), Ok(true)), "for good");
    readers.step_ms(7_200_000);
    assert!(matches!(start(90, Accepts { clock: true, settings: true }), Ok(true)));
}

/// Regression: the sync of the commit that kept the new settings failed. The next try read them from the file, was
/// ready, and after a power cut the old ones were back.
#[test]
fn accepted_settings_are_kept_before_the_service_is_ready() {
    let mut bench = with_commits_failing(1);
    bench.step();
    assert!(!bench.readiness.is_ready());
    bench.pass(1_000);
    assert!(bench.readiness.is_ready());
    assert_eq!(bench.readiness.gravest(), None, "it was said for ever that the store fails");
    assert_eq!(bench.disk.0.lock().note.expect("it was written").settings, settings(120, 64));
}

#[test]
fn failures_of_a_start_do_not_lengthen_the_pauses_of_a_store_that_works() {
    let mut bench = with_commits_failing(6);
    for _ in 0..7 {
        assert!(!bench.readiness.is_ready());
        let pause_ms = bench.step();
        bench.readers.pass_ms(i64::try_from(pause_ms).expect("a pause"));
    }
    assert!(bench.readiness.is_ready());
    bench.disk.0.lock().commits_failing = 1;
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::StoreUnavailable);
    bench.pass(100);
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::Removed(Some(SERVER)));
}

/// Regression: the store was written anew within the start, and connections on passed sockets waited for it.
#[test]
fn a_start_does_not_wait_until_a_void_store_is_written_anew() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    disk.0.lock().is_void = true;
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    assert!(bench.readiness.is_ready() && disk.0.lock().is_void);
    bench.pass(500);
    assert!(!disk.0.lock().is_void);
}

/// Regression: the votes of a store that is written anew were put in order all at once. A start that did so took a quarter more
/// memory than the run before it.
#[test]
fn a_store_is_written_anew_by_small_parts_of_its_votes() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    for address in 1..=80 {
        bench.cast(address);
    }
    bench.disk.0.lock().is_void = true;
    bench.pass(500);
    let disk = bench.disk.0.lock();
    assert_eq!((disk.votes.len(), disk.slice_rows), (80, 80 / RENEWAL_SLICES_MIN + 1));
}

#[test]
fn of_votes_that_fall_into_one_network_the_latest_stays() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    let disk = bench.disk.clone();
    let networks = [1, 2].map(|low| VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_0000 | low)));
    for network in networks {
        assert!(matches!(bench.cast_from(network), VoteOutcome::Recorded(_)));
        readers.pass_ms(1_000);
    }
    let mut bench = Bench::with(&disk, &readers, settings(90, 48));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!(networks.map(|network| bench.ends_of(network)), [Some(5_401); 2]);
    assert_eq!(disk.0.lock().votes.len(), 1, "the row of the earlier vote has gone");
    let ended = |bench: &Bench| bench.recorder.live().counters.ended().settings;
    assert_eq!(ended(&bench), 1);
    // The store knows the networks only, so a longer prefix forgets their votes.
    bench = Bench::with(&disk, &readers, settings(90, 64));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!((networks.map(|network| bench.ends_of(network)), ended(&bench)), ([None; 2], 1));
    assert!(disk.0.lock().votes.is_empty());
}

/// Regression: the noted lines decided, and a vote that had ended by the accepted clock was live for a day.
#[test]
fn settings_go_by_the_clock_that_is_accepted() {
    let readers = HandReaders::at(START);
    let disk = voted(&readers);
    // After a long downtime: the certain line does not know of it.
    readers.pass_ms(6_000_000);
    let mut bench = Bench::with(&disk, &readers, settings(1_440, 48));
    bench.recorder.accepts.clock = true;
    bench.step();
    assert!(bench.readiness.is_ready(), "no vote is live by that clock");
    assert_eq!([1, 2, 3].map(|address| bench.ends(address)), [None; 3]);
}
