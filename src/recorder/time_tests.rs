//! The recorder on clocks that step: what the contract says under "Time", step by step.

use super::command::{Command, Mode, Reply, ServerName, Vote, VoteOutcome};
use super::tests::{Bench, Disk, SERVER, START, at_work, settings, voter};
use crate::clock::HandReaders;
use crate::vote::address::VoterAddress;
use crate::vote::ipv6::Ipv6Network;
use std::sync::Arc;

const HOUR_MS: i64 = 3_600_000;

/// Regression: the newest votes were cut, and their `next_vote_at` changed.
#[test]
fn small_steps_back_change_no_cooldown_and_no_reader_sees_time_go_back() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let (ends, rows) = (bench.all_ends(), bench.rows());
    let mut last_ms = bench.clock.wall_ms();
    for step_ms in [-1_000, -59_000, 1_000, -20, 30_000, -3_000] {
        bench.set(step_ms);
        for _ in 0..20 {
            bench.pass(50);
            assert!(bench.clock.wall_ms() >= last_ms);
            last_ms = bench.clock.wall_ms();
        }
        assert_eq!((bench.all_ends(), bench.rows()), (ends.clone(), rows.clone()), "{step_ms}");
    }
    assert!(bench.clock.stands_still());
    bench.pass(60_000);
    assert!(!bench.clock.stands_still());
    assert_eq!(bench.clock.drift_ms(), 0);
}

/// Regression: a clock 2 h ahead, a restart, the clock set right, and no vote was live.
#[test]
fn a_step_forward_is_held_across_restarts() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let ends = bench.all_ends();
    bench.set(2 * HOUR_MS);
    assert_eq!(bench.all_ends(), [None; 10]);
    bench.sweep();
    let mut bench = bench.killed();
    assert_eq!(bench.all_ends(), [None; 10], "the clock is followed");
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(_)));
    bench.sweep();
    let mut again = bench.killed();
    again.sweep();
    again.set(-2 * HOUR_MS);
    assert!(again.readiness.is_ready());
    assert_eq!(again.all_ends(), ends);
    assert!(again.ends(50).is_some_and(|ends| ends <= 600 + 5_400), "it was cast in what is the future now");
    let killed = again.killed();
    assert!(killed.readiness.is_ready(), "the time that was wrong is not waited for");
    assert_eq!((killed.all_ends(), killed.ends(50)), (ends, again.ends(50)));
}

/// Regression: the cut was in memory alone, so a kill soon after it made the vote last anew from the next start on.
#[test]
fn what_a_start_behind_a_held_step_forward_has_cut_stays_so_at_the_next() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(168 * HOUR_MS);
    bench.cast(50);
    readers.step_ms(-5 * HOUR_MS);
    let bench = bench.killed();
    assert_eq!(bench.ends(50), Some(540 + 163 * 3_600 + 5_400));
    readers.pass_ms(2 * HOUR_MS);
    assert_eq!(bench.killed().ends(50), None);
}

#[test]
fn a_step_back_that_lasts_is_written_after_ten_minutes_in_one_commit() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let rows = bench.rows();
    bench.set(-6 * HOUR_MS);
    let cut = bench.all_ends();
    assert_eq!(cut, [Some(540 - 6 * 3_600 + 5_400); 10]);
    bench.pass(599_000);
    assert_eq!(bench.rows(), rows);
    // Until it succeeds the rows stay as they are.
    bench.disk.0.lock().is_failing = true;
    bench.pass(2_000);
    assert_eq!((bench.rows(), bench.all_ends()), (rows, cut.clone()));
    bench.disk.0.lock().is_failing = false;
    bench.sweep();
    assert_eq!(bench.rows(), [540 - 6 * 3_600; 10]);
    assert_eq!(bench.all_ends(), cut);
    bench.set(6 * HOUR_MS);
    assert_eq!(bench.all_ends(), [None; 10], "the step back was for good");
}

/// At work, with a clock that has been an hour back for 20 s, and a disk that takes nothing from then on; with the ends of
/// the cooldowns that this has cut.
fn cut_on_a_failing_disk(readers: &Arc<HandReaders>) -> (Bench, Vec<Option<i64>>) {
    let mut bench = at_work(readers);
    bench.set(-HOUR_MS);
    bench.pass(20_000);
    let cut = bench.all_ends();
    bench.disk.0.lock().commits_failing = u32::MAX;
    (bench, cut)
}

/// Regression: cooldowns that a step back before the start had cut were longer again after the next step forward, where
/// the store had not taken the rows yet.
#[test]
fn what_a_step_back_has_cut_for_good_stays_cut_while_the_store_fails() {
    let readers = HandReaders::at(START);
    let (bench, cut) = cut_on_a_failing_disk(&readers);
    readers.step_ms(200_000);
    let mut again = bench.killed();
    assert!(again.readiness.is_ready());
    assert_eq!(again.all_ends(), cut);
    again.set(90_000);
    assert_eq!(again.all_ends(), cut, "a start makes it final");
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(-HOUR_MS);
    let cut = bench.all_ends();
    bench.disk.0.lock().commits_failing = u32::MAX;
    bench.pass(601_000);
    bench.set(90_000);
    assert_eq!(bench.all_ends(), cut, "and so do ten minutes");
    bench.disk.0.lock().commits_failing = 0;
    bench.pass(40_000);
    assert_eq!((bench.all_ends(), bench.killed().all_ends()), (cut.clone(), cut), "and the rows say so");
}

/// Regression: a start could not write how they were cut, and while a step of that start was provisional no commit did, until
/// the time had gone past their instants. Behind the next start they were as long as before the step back.
#[test]
fn what_a_start_could_not_write_goes_with_the_next_commit() {
    let readers = HandReaders::at(START);
    let (bench, cut) = cut_on_a_failing_disk(&readers);
    readers.step_ms(HOUR_MS);
    let mut again = bench.killed();
    again.disk.0.lock().commits_failing = 0;
    again.pass(40_000);
    assert!(matches!(again.cast(50), VoteOutcome::Recorded(_)));
    assert_eq!((again.all_ends(), again.killed().all_ends()), (cut.clone(), cut));
}

#[test]
fn a_step_back_revives_nothing_that_had_ended() {
    let readers = HandReaders::at(START);
    for is_failing in [false, true] {
        let mut bench = at_work(&readers);
        // Then its row is in the store when the clock steps.
        bench.disk.0.lock().is_failing = is_failing;
        bench.pass(5_400_000 - 540_000);
        let ended = bench.all_ends().iter().filter(|ends| ends.is_none()).count();
        assert_eq!(ended, 1, "the first has just ended");
        bench.set(-HOUR_MS);
        bench.disk.0.lock().is_failing = false;
        assert_eq!(bench.ends(0), None);
        bench.sweep();
        let again = bench.killed();
        assert!(again.readiness.is_ready());
        assert_eq!(again.ends(0), None, "{is_failing}: after a kill");
        bench.set(HOUR_MS);
        assert_eq!(bench.ends(0), None, "{is_failing}: when the clock has come back");
        readers.step_ms(-6_000_000);
    }
}

#[test]
fn a_vote_that_was_cut_goes_with_its_row() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(-HOUR_MS);
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(3))), Reply::Cancelled(Some(true)));
    assert_eq!(bench.rows().len(), 9);
    bench.set(HOUR_MS);
    assert_eq!((bench.ends(3), bench.ends(4).is_some()), (None, true));
    bench.set(-HOUR_MS);
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::Removed(Some(SERVER)));
    bench.sweep();
    assert!(bench.rows().is_empty(), "{:?}", bench.rows());
    bench.list();
    bench.set(HOUR_MS);
    assert_eq!(bench.all_ends(), [None; 10]);
}

/// They are found in the store by their instants, which would be others by then.
#[test]
fn votes_that_wait_for_their_removal_keep_their_rows_when_a_step_back_is_for_good() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let vote = |address| Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None };
    // The last few are of a second part.
    bench.ask(Command::Votes((0..8_200).map(vote).collect(), Mode::Cast));
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::Removed(Some(SERVER)));
    bench.disk.0.lock().commits_failing = u32::MAX;
    assert_eq!(bench.rows(), [0; 8]);
    bench.set(-HOUR_MS);
    bench.pass(601_000);
    bench.disk.0.lock().commits_failing = 0;
    bench.pass(40_000);
    bench.list();
    assert_eq!(bench.rows(), [0_i64; 0]);
    bench.set(-HOUR_MS);
    assert_eq!(bench.killed().all_ends(), [None; 10]);
}

/// Regression: the vote with the later row stayed, though a step back had cut it, and the later vote of the network ended
/// with it.
#[test]
fn of_votes_that_fall_into_one_network_the_latest_as_it_was_cut_stays() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::new(&Disk::default(), &readers);
    bench.step();
    bench.list();
    let networks = [1, 2].map(|low| VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_0000 | low)));
    bench.cast_from(networks[0]);
    bench.set(-HOUR_MS);
    bench.pass(200_000);
    bench.cast_from(networks[1]);
    assert_eq!(networks.map(|network| bench.ends_of(network)), [Some(1_800), Some(2_000)]);
    let mut bench = Bench::with(&bench.disk, &readers, settings(90, 48));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert_eq!(networks.map(|network| bench.ends_of(network)), [Some(2_000); 2]);
    assert_eq!(bench.rows(), [200 - 3_600], "the row of the earlier vote has gone");
}

/// Regression: under a longer length a vote that was cut and had ended was live for readers.
#[test]
fn a_vote_that_was_cut_and_has_ended_stays_ended_under_other_settings() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(-6 * HOUR_MS);
    readers.pass_ms(5_400_000);
    let mut bench = Bench::with(&bench.disk, &readers, settings(120, 64));
    bench.recorder.accepts.settings = true;
    bench.step();
    assert!(bench.readiness.is_ready());
    assert_eq!(bench.all_ends(), [None; 10]);
    assert!(bench.rows().is_empty(), "{:?}", bench.rows());
}

/// Regression: the newest row was one that a step back had cut, and a start with other settings was ready.
#[test]
fn a_vote_that_was_cast_after_a_step_back_refuses_other_settings() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(-6 * HOUR_MS);
    bench.pass(300_000);
    bench.cast(50);
    readers.pass_ms(5_200_000);
    let mut other = Bench::with(&bench.disk, &readers, settings(120, 64));
    other.recorder.step(Vec::new()).expect_err("a vote is live");
}

/// Regression: a start took votes that were cast after two steps back for ones that the first of them had cut.
#[test]
fn a_vote_that_was_cast_after_two_steps_back_is_not_cut_by_a_start() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(-HOUR_MS);
    bench.pass(300_000);
    bench.cast(50);
    bench.set(-200_000);
    bench.pass(250_000);
    bench.cast(60);
    let ends = bench.ends(60);
    assert_eq!(ends, Some(540 - 3_600 + 350 + 5_400));
    assert_eq!(bench.killed().ends(60), ends);
}

/// Regression: the store kept the time without the step forward alone, and after a restart the newest votes were cut.
#[test]
fn a_small_step_back_behind_a_held_step_forward_changes_no_cooldown_at_a_restart() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(HOUR_MS);
    bench.cast(50);
    let ends = bench.ends(50);
    bench.set(-40_000);
    let shown = bench.clock.now().wall;
    let again = bench.killed();
    assert!(again.readiness.is_ready() && again.clock.stands_still());
    assert_eq!((again.ends(50), again.clock.now().wall), (ends, shown));
    readers.step_ms(40_000 - HOUR_MS);
    let before = at_work(&HandReaders::at(START));
    assert_eq!(bench.killed().all_ends(), before.all_ends(), "the step forward is taken back");
}

/// Regression: cooldowns that a step back had cut were restored and cut anew, so they ended later.
#[test]
fn a_second_step_back_makes_no_cooldown_longer() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let ends = bench.all_ends();
    bench.set(-6 * HOUR_MS);
    let cut = bench.all_ends();
    bench.pass(200_000);
    bench.cast(50);
    bench.set(-100_000);
    let later = bench.ends(50);
    assert_eq!(bench.all_ends(), cut);
    assert_eq!(later, cut[0].map(|ends| ends + 100), "this one was cut by the second step");
    let again = bench.killed();
    assert_eq!((again.all_ends(), again.ends(50)), (cut, later), "after a kill");
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    for step_ms in [-6 * HOUR_MS, -100_000, 2 * HOUR_MS, 4 * HOUR_MS + 100_000] {
        bench.set(step_ms);
    }
    assert_eq!(bench.all_ends(), ends, "the clock has come back");
}

/// What is left of a step that is taken back is a small one: the time stands still.
#[test]
fn a_clock_that_comes_back_to_a_little_before_has_come_back() {
    for step_ms in [6 * HOUR_MS, -6 * HOUR_MS] {
        let readers = HandReaders::at(START);
        let mut bench = at_work(&readers);
        let (ends, wall) = (bench.all_ends(), bench.clock.now().wall);
        bench.set(step_ms);
        bench.set(-step_ms - 50_000);
        assert_eq!((bench.all_ends(), bench.clock.now().wall), (ends.clone(), wall), "{step_ms}");
        // A start waits until the clock has caught up.
        bench.pass(50_000);
        assert_eq!(bench.killed().all_ends(), ends, "{step_ms}, after a kill");
    }
}

/// Regression: a store that was written anew while a step was provisional had the votes as the step had cut them.
#[test]
fn a_store_that_is_written_anew_keeps_what_a_held_step_has_ended_or_cut() {
    for step_ms in [6 * HOUR_MS, -6 * HOUR_MS] {
        let readers = HandReaders::at(START);
        let mut bench = at_work(&readers);
        let (ends, rows) = (bench.all_ends(), bench.rows());
        bench.set(step_ms);
        bench.sweep();
        bench.disk.0.lock().is_void = true;
        bench.sweep();
        assert!(!bench.disk.0.lock().is_void);
        assert_eq!(bench.rows(), rows, "{step_ms}");
        bench.set(-step_ms);
        assert_eq!(bench.all_ends(), ends, "{step_ms}");
        assert_eq!(bench.killed().all_ends(), ends, "{step_ms}, after a kill");
    }
}

/// Regression: a vote that a later record had replaced gave its instant to the next one, once that was cancelled.
#[test]
fn the_instant_of_a_vote_that_was_replaced_is_given_to_no_other() {
    let mut bench = at_work(&HandReaders::at(START));
    let VoteOutcome::Recorded(first) = bench.cast(50) else { panic!("it is the first") };
    let voted_at = Some(first.voted_at.plus(3));
    let later = Vote { server: ServerName::Id(SERVER), voter: voter(50).into(), voted_at };
    bench.ask(Command::Votes(vec![later], Mode::Record));
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
    let VoteOutcome::Recorded(next) = bench.cast(50) else { panic!("it is free") };
    assert_eq!(next.voted_at, first.voted_at.plus(1));
}

/// Regression: a vote that brought an instant of now got that of a vote that was removed with its server.
#[test]
fn a_vote_that_brings_its_instant_gets_none_that_was_removed() {
    let mut bench = at_work(&HandReaders::at(START));
    let VoteOutcome::Recorded(first) = bench.cast(50) else { panic!("it is the first") };
    bench.ask(Command::Remove(SERVER));
    bench.list();
    let again = Vote { server: ServerName::Id(SERVER), voter: voter(50).into(), voted_at: Some(first.voted_at) };
    let Reply::Votes(outcomes) = bench.ask(Command::Votes(vec![again], Mode::Cast)) else { panic!("it is answered") };
    let [VoteOutcome::Recorded(second)] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert_eq!(second.voted_at, first.voted_at.plus(1));
}

/// Regression: of what was cancelled before a start the latest instant alone was known, and only where it was not over.
#[test]
fn a_vote_that_brings_its_instant_gets_none_that_was_cancelled_before_a_start() {
    let mut bench = at_work(&HandReaders::at(START));
    let VoteOutcome::Recorded(first) = bench.cast(50) else { panic!("it is the first") };
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
    bench.pass(60_000);
    let is_void = [false, true];
    for (round, is_void) in (1..).zip(is_void) {
        bench.disk.0.lock().is_void = is_void;
        bench.pass(500);
        bench = bench.killed();
        let again = Vote { server: ServerName::Id(SERVER), voter: voter(50).into(), voted_at: Some(first.voted_at) };
        let Reply::Votes(outcomes) = bench.ask(Command::Votes(vec![again], Mode::Cast)) else { panic!("a vote") };
        let [VoteOutcome::Recorded(next)] = &outcomes[..] else { panic!("{outcomes:?}") };
        assert_eq!(next.voted_at, first.voted_at.plus(round));
        assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
    }
}

/// Regression: the first vote after a removal got the next second, where none had been cast in this one.
#[test]
fn a_server_without_a_vote_in_this_second_leaves_it_free() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.pass(1_000);
    let now = bench.clock.now().wall;
    bench.ask(Command::Remove(SERVER));
    bench.list();
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(recorded) if recorded.voted_at == now));
}

/// Regression: 400 rounds of vote and cancellation stamped a vote 398 s ahead of the clock, and the next start blamed
/// the clock for that.
#[test]
fn no_vote_is_stamped_more_than_five_seconds_ahead() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    for round in 0..8 {
        let mut instants = Vec::new();
        for _ in 0..400 {
            match bench.cast(1) {
                VoteOutcome::Recorded(recorded) => instants.push(recorded.voted_at.0 - START),
                VoteOutcome::TooManyChanges => continue,
                other => panic!("{other:?}"),
            }
            assert_eq!(bench.ask(Command::Cancel(SERVER, voter(1))), Reply::Cancelled(Some(true)));
        }
        let expected: Vec<u32> = if round == 0 { (0..=5).collect() } else { vec![round + 5] };
        assert_eq!(instants, expected, "each second once, and none further ahead");
        bench.pass(1_000);
    }
    bench.cast(2);
    assert!(bench.killed().readiness.is_ready(), "a vote's instant is never taken for the clock");
}
