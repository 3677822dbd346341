//! The recorder on clocks that step: what the contract says under "Time", step by step.

use super::command::{Command, Mode, Reply, ServerName, Vote, VoteOutcome};
use super::tests::{Bench, Disk, DiskState, SERVER, START, at_work, settings, voter};
use crate::clock::HandReaders;
use crate::readiness::Trouble;
use crate::store::StoredVote;
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

const HOUR_MS: i64 = 3_600_000;
const MINUTE_MS: i64 = 60_000;

impl Bench {
    /// The time shown, counted from [`START`] in seconds.
    fn shown_s(&self) -> i64 {
        i64::from(self.clock.now().wall.0) - i64::from(START)
    }

    /// Ten minutes and a little, in steps in which the minutely note is made.
    fn pass_ten_minutes(&mut self) {
        (0..61).for_each(|_| self.pass(10_000));
    }

    fn gravest(&self) -> Option<Trouble> {
        self.readiness.gravest().map(|(trouble, _)| trouble)
    }
}

/// Regression: the newest votes were cut, and their `next_vote_at` changed.
#[test]
fn steps_back_of_up_to_ten_minutes_change_no_cooldown_and_no_reader_sees_time_go_back() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let (ends, rows) = (bench.all_ends(), bench.rows());
    let mut last_ms = bench.clock.shown_ms();
    for step_ms in [-500_000, 500_000, -1_000, -59_000, 1_000, -20, 30_000, -3_000] {
        bench.set(step_ms);
        for _ in 0..20 {
            bench.pass(50);
            assert!(bench.clock.shown_ms() >= last_ms);
            last_ms = bench.clock.shown_ms();
        }
        assert_eq!((bench.all_ends(), bench.rows()), (ends.clone(), rows.clone()), "{step_ms}");
    }
    let is_still = |bench: &Bench| bench.clock.shown().is_still(bench.clock.now().monotonic_us.cast_signed());
    assert!(is_still(&bench));
    bench.readers.pass_ms(60_000);
    assert!(!is_still(&bench), "it goes on by itself, whatever holds up the recorder");
}

/// Regression: a clock 2 h ahead, a restart, the clock set right, and no vote was live.
#[test]
fn a_clock_that_is_ahead_shows_votes_as_ended_and_forgets_none() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let (ends, rows) = (bench.all_ends(), bench.rows());
    bench.set(2 * HOUR_MS);
    assert_eq!(bench.all_ends(), [None; 10]);
    bench.sweep();
    let mut bench = bench.killed();
    assert_eq!(bench.all_ends(), [None; 10], "the later line is shown");
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(_)));
    bench.sweep();
    let mut again = bench.killed();
    again.sweep();
    assert_eq!(again.rows()[..10], rows);
    again.set(-2 * HOUR_MS);
    assert!(again.readiness.is_ready());
    assert_eq!(again.all_ends(), ends);
    let now = again.shown_s();
    assert_eq!(again.ends(50), Some(now + 5_400), "it was cast in what is the future now");
    let killed = again.killed();
    assert!(killed.readiness.is_ready(), "the time that was wrong is not waited for");
    assert_eq!((killed.all_ends(), killed.ends(50)), (ends, again.ends(50)));
}

/// Regression: a clock that came back by small steps restored nothing.
#[test]
fn a_clock_that_comes_back_in_small_steps_has_come_back() {
    for steps_ms in [vec![-100_000, 50_000, 50_000], [vec![-1_200_000], vec![59_000; 20]].concat()] {
        let mut bench = at_work(&HandReaders::at(START));
        let (ends, rows) = (bench.all_ends(), bench.rows());
        for step_ms in steps_ms {
            bench.set(step_ms);
            bench.pass(200);
        }
        bench.sweep();
        assert_eq!((bench.all_ends(), bench.rows()), (ends, rows));
        assert!(bench.recorder.lines.is_one());
    }
}

#[test]
fn after_ten_minutes_the_wall_clock_counts_and_what_it_has_ended_goes() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.set(2 * HOUR_MS);
    // While the change cannot be noted, no vote is forgotten.
    bench.disk.0.lock().is_failing = true;
    bench.pass_ten_minutes();
    assert_eq!((bench.rows().len(), bench.gravest()), (10, Some(Trouble::StoreFailing)));
    bench.disk.0.lock().is_failing = false;
    bench.pass(40_000);
    bench.sweep();
    assert_eq!((bench.rows(), bench.gravest()), (Vec::new(), None));
    bench.set(-2 * HOUR_MS);
    assert_eq!(bench.all_ends(), [None; 10]);
    assert_eq!(bench.killed().all_ends(), [None; 10]);
}

/// An hour back, from a clock that had been right or wrong: after ten minutes it counts.
fn gone_back(readers: &std::sync::Arc<HandReaders>, addresses: u32) -> Bench {
    let mut bench = at_work(readers);
    (10..addresses).for_each(|address| drop(bench.cast(address)));
    let (ends, rows) = (bench.all_ends(), bench.rows());
    bench.set(-HOUR_MS);
    assert_eq!((bench.all_ends(), bench.rows()), (ends, rows), "the certain time is shown");
    bench.pass(598_000);
    assert_eq!(bench.shown_s(), 540 + 598);
    bench
}

#[test]
fn a_time_that_goes_back_brings_the_votes_that_lie_ahead_in_one_change() {
    // Few votes are one commit. Of more than a bound the store is written anew.
    for addresses in [10, 200] {
        let readers = HandReaders::at(START);
        let mut bench = gone_back(&readers, addresses);
        let (count, renewals) = (bench.rows().len(), bench.disk.0.lock().renewals);
        bench.pass(2_000);
        assert_eq!(bench.disk.0.lock().renewals, renewals + u32::from(addresses > 100), "{addresses}");
        let to = 540 + 600 - 3_600;
        assert_eq!((bench.shown_s(), bench.rows()), (to, vec![to; count]));
        assert_eq!(bench.all_ends(), [Some(to + 5_400); 10]);
        assert_eq!(bench.killed().all_ends(), [Some(to + 5_400); 10]);
        bench.pass(1_000);
        assert_eq!(bench.shown_s(), to + 1);
    }
}

/// The contract, "Time": a vote more than 5 s ahead of the new time gets that time as its instant.
#[test]
fn a_vote_five_seconds_ahead_of_a_time_that_went_back_keeps_its_instant() {
    let mut bench = gone_back(&HandReaders::at(START), 10);
    let to = 540 + 600 - 3_600;
    let vote = |(address, seconds): (u32, i64)| {
        let voted_at = UnixSeconds(u32::try_from(i64::from(START) + seconds).expect("a time"));
        Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: Some(voted_at) }
    };
    let votes = [(100, to + 5), (101, to + 6)].map(vote).to_vec();
    bench.ask(Command::Votes(votes, Mode::Record));
    bench.pass(2_000);
    let ends = |bench: &Bench| [100, 101].map(|address| bench.ends(address));
    let expected = [Some(to + 5 + 5_400), Some(to + 5_400)];
    assert_eq!((ends(&bench), ends(&bench.killed())), (expected, expected), "in memory, and in the store");
}

/// Regression: the time that was shown stepped before the store knew of it.
#[test]
fn the_time_stays_until_the_store_has_taken_that_it_goes_back() {
    let readers = HandReaders::at(START);
    let mut bench = gone_back(&readers, 10);
    let (ends, rows) = (bench.all_ends(), bench.rows());
    bench.disk.0.lock().is_failing = true;
    for _ in 0..10 {
        bench.pass(2_000);
        assert!(bench.shown_s() >= 540 + 598);
        assert_eq!((bench.all_ends(), bench.rows()), (ends.clone(), rows.clone()));
    }
    assert_eq!(bench.gravest(), Some(Trouble::StoreFailing));
    // So does a start.
    let mut again = bench.killed();
    assert!(!again.readiness.is_ready());
    bench.disk.0.lock().is_failing = false;
    again.pass(5_000);
    assert!(again.readiness.is_ready());
    bench.pass(40_000);
    assert!(bench.shown_s() < 0);
    assert_eq!(bench.gravest(), None);
}

#[test]
fn a_time_that_goes_back_revives_nothing_that_had_ended() {
    let readers = HandReaders::at(START);
    for is_failing in [false, true] {
        let mut bench = at_work(&readers);
        // Then its row is in the store when the clock steps.
        bench.disk.0.lock().is_failing = is_failing;
        bench.pass(5_400_000 - 540_000);
        let ended = bench.all_ends().iter().filter(|ends| ends.is_none()).count();
        assert_eq!(ended, 1, "the first has just ended");
        bench.set(-2 * HOUR_MS);
        bench.disk.0.lock().is_failing = false;
        bench.pass_ten_minutes();
        bench.pass_ten_minutes();
        assert!(bench.shown_s() < 0);
        assert_eq!(bench.ends(0), None);
        let again = bench.killed();
        assert!(again.readiness.is_ready());
        assert_eq!(again.ends(0), None, "{is_failing}: after a kill");
        readers.step_ms(-6_000_000);
    }
}

/// Regression: an ordinary boot without a battery clock, and NTP a little later, made votes that had ended live again.
#[test]
fn a_boot_whose_clock_is_a_few_minutes_ahead_until_it_is_corrected_revives_nothing() {
    for ahead_ms in [61_000, 300_000, 599_000] {
        let readers = HandReaders::at(START);
        let bench = at_work(&readers);
        // A minute before the end of the first vote's cooldown.
        readers.pass_ms(5_340_000 - 540_000 - 70_000);
        readers.step_ms(ahead_ms);
        let mut again = bench.killed();
        assert_eq!(again.ends(0).is_some(), ahead_ms == 61_000);
        again.pass(20_000);
        let shown = again.all_ends();
        again.set(-ahead_ms);
        assert_eq!(again.all_ends(), shown, "{ahead_ms}");
        again.pass(1_000);
        assert_eq!(again.all_ends(), shown, "{ahead_ms}");
    }
}

/// Regression: the start was refused as `clock_behind`.
#[test]
fn a_restart_during_a_standstill_goes_on_with_it() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(300_000);
    bench.set(-300_000);
    let shown = bench.shown_s();
    assert_eq!(shown, 840);
    let mut again = bench.killed();
    assert!(again.readiness.is_ready());
    assert_eq!((again.shown_s(), again.all_ends()), (shown, bench.all_ends()));
    again.pass(320_000);
    assert_eq!(again.shown_s(), 860);
}

#[test]
fn a_start_behind_its_note_waits_for_the_clock() {
    let readers = HandReaders::at(START);
    let bench = at_work(&readers);
    readers.step_ms(-61_000 - MINUTE_MS);
    let mut again = bench.killed();
    assert_eq!((again.readiness.is_ready(), again.gravest()), (false, Some(Trouble::ClockBehind)));
    again.set(61_000);
    again.pass(100);
    assert_eq!((again.readiness.is_ready(), again.gravest()), (true, None));
    let mut accepting = Bench::new(&bench.disk, &readers);
    accepting.recorder.accepts.clock = true;
    readers.step_ms(-5 * HOUR_MS);
    accepting.step();
    assert!(accepting.readiness.is_ready() && accepting.recorder.lines.is_one());
    assert_eq!(accepting.rows(), [accepting.shown_s(); 10]);
    readers.step_ms(10 * HOUR_MS);
}

/// Regression: the row of a vote that had ended was not loaded, so the change did not take it away. The next start, by the
/// line that had gone back, showed it for a day.
#[test]
fn rows_that_had_ended_before_a_start_do_not_outlive_a_time_that_goes_back() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::listed(&readers);
    bench.set(-24 * HOUR_MS);
    let voted_at = Some(UnixSeconds(START - 5_399));
    let vote = Vote { server: ServerName::Id(SERVER), voter: voter(1).into(), voted_at };
    bench.ask(Command::Votes(vec![vote], Mode::Record));
    assert_eq!((bench.ends(1), bench.rows()), (Some(1), vec![-5_399]));
    readers.pass_ms(58_000);
    for _ in 0..2 {
        let mut again = Bench::new(&bench.disk, &readers);
        again.recorder.accepts.clock = true;
        again.step();
        assert!(again.readiness.is_ready());
        assert_eq!((again.ends(1), again.rows()), (None, Vec::new()));
        readers.pass_ms(31_000);
    }
}

/// Regression: `mv` put the right store in place, and the service did not look at it.
#[test]
fn a_start_behind_its_note_sees_that_another_store_is_in_its_place() {
    let readers = HandReaders::at(START);
    let bench = at_work(&readers);
    readers.step_ms(-HOUR_MS);
    let mut again = bench.killed();
    assert_eq!(again.gravest(), Some(Trouble::ClockBehind));
    *bench.disk.0.lock() = DiskState { is_gone: true, ..DiskState::default() };
    again.pass(100);
    assert_eq!((again.readiness.is_ready(), again.gravest()), (true, None));
}

/// Regression: the vote of a clock before 1970 was in the store and was not read.
#[test]
fn the_first_instant_of_all_is_read_like_any_other() {
    let readers = HandReaders::at(100);
    let disk = Disk::default();
    let pair = Pair { server: SERVER, address: voter(1) };
    let mut bench = Bench::new(&disk, &readers);
    bench.step();
    bench.list();
    disk.0.lock().votes.push(StoredVote { pair, voted_at: UnixSeconds(0) });
    let again = bench.killed();
    let now = again.clock.now().wall;
    assert_eq!(again.recorder.live().table.view().live(pair, now), Some(UnixSeconds(5_400)));
}

#[test]
fn the_lines_are_noted_each_minute_and_at_a_step() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let noted = |bench: &Bench| {
        let time = bench.disk.0.lock().note.expect("it was written").time;
        [time.certain_ms, time.wall_ms, time.shown_ms].map(|ms| (ms / 1_000).cast_signed() - i64::from(START))
    };
    bench.pass(59_000);
    assert_eq!(noted(&bench), [540; 3]);
    bench.pass(2_000);
    assert_eq!(noted(&bench), [601; 3]);
    bench.set(900);
    assert_eq!(noted(&bench), [601; 3]);
    bench.set(3_600_100);
    assert_eq!(noted(&bench), [601, 601 + 3_601, 601 + 3_601]);
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

/// Regression: behind a long commit the instants were forgotten by a later time than the one that was noted. A start showed
/// that time again, and gave a spent instant away.
#[test]
fn a_note_has_the_instants_that_its_time_may_give_again() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    assert!(matches!(bench.cast(1), VoteOutcome::Recorded(_)));
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(1))), Reply::Cancelled(Some(true)));
    bench.readers.pass_ms(1_000);
    bench.recorder.sweep(bench.clock.now(), 0);
    bench.recorder.note_time();
    let note = bench.disk.0.lock().note.expect("it was noted");
    assert_eq!((note.time.shown_ms / 1_000, note.spent_until), (u64::from(START), UnixSeconds(START + 1)));
}

/// A start knows the latest spent instant, but not its pair.
#[test]
fn a_start_gives_no_instant_that_an_earlier_process_has_spent() {
    for is_void in [false, true] {
        let mut bench = at_work(&HandReaders::at(START));
        let mut instants = Vec::new();
        for _ in 0..3 {
            let VoteOutcome::Recorded(recorded) = bench.cast(50) else { panic!("it is free") };
            instants.push(i64::from(recorded.voted_at.0) - i64::from(START));
            assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
        }
        assert_eq!(instants, [540, 541, 542]);
        bench.disk.0.lock().is_void = is_void;
        bench.pass(500);
        let mut again = bench.killed();
        for _ in 0..3 {
            assert_eq!(again.cast(50), VoteOutcome::TooManyChanges);
            assert_eq!(again.cast(51), VoteOutcome::TooManyChanges, "of which pair is not known");
            again.pass(1_000);
        }
        let VoteOutcome::Recorded(next) = again.cast(50) else { panic!("these seconds are over") };
        assert_eq!(i64::from(next.voted_at.0) - i64::from(START), 543);
    }
}

/// Regression: the instant counted as spent, and the next start refused votes with 429.
#[test]
fn a_cancellation_that_was_refused_spends_no_instant() {
    let mut bench = at_work(&HandReaders::at(START));
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(_)));
    bench.disk.0.lock().commits_failing = 1;
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::StoreUnavailable);
    bench.pass(900);
    assert!(matches!(bench.killed().cast(51), VoteOutcome::Recorded(_)));
}

/// Regression: every vote was refused for as long as the time stood still.
#[test]
fn a_time_that_stands_still_after_a_start_does_not_keep_votes_waiting() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    bench.set(500_000);
    bench.set(-500_000);
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(_)));
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
    let mut again = bench.killed();
    let VoteOutcome::Recorded(next) = again.cast(51) else { panic!("the time is behind the instant") };
    assert_eq!((again.shown_s(), i64::from(next.voted_at.0) - i64::from(START)), (1_041, 1_041));
}

/// The same where the time stands still since the start.
#[test]
fn a_time_that_stands_still_since_a_start_keeps_votes_waiting_for_six_seconds() {
    let mut bench = at_work(&HandReaders::at(START));
    bench.set(500_000);
    assert!(matches!(bench.cast(50), VoteOutcome::Recorded(_)));
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(50))), Reply::Cancelled(Some(true)));
    let mut again = bench.killed();
    again.set(-500_000);
    let shown_s = again.shown_s();
    again.pass(5_999);
    assert_eq!((again.cast(51), again.shown_s()), (VoteOutcome::TooManyChanges, shown_s));
    again.pass(1);
    let VoteOutcome::Recorded(next) = again.cast(51) else { panic!("it has another instant") };
    assert_eq!((again.shown_s(), i64::from(next.voted_at.0) - i64::from(START)), (shown_s, shown_s + 1));
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
    assert!(bench.killed().readiness.is_ready(), "a vote's instant is never taken for the clock");
}

/// Regression: the certain line went back, and the table held a vote that it had ended and no sweep had met.
#[test]
fn a_vote_that_has_ended_stays_so_where_the_certain_line_goes_back() {
    let readers = HandReaders::at(START);
    let mut bench = Bench::with(&Disk::default(), &readers, settings(10, 64));
    bench.step();
    bench.list();
    assert!(matches!(bench.cast(0), VoteOutcome::Recorded(_)));
    bench.set(-62_000);
    bench.pass(640_000);
    assert_eq!(bench.recorder.lines.certain(), UnixSeconds(START + 578), "the wall clock counts");
    assert!(bench.recorder.live().table.view().is_empty() && bench.rows().is_empty());
}

#[test]
fn the_distance_of_the_clock_is_told_in_seconds() {
    let readers = HandReaders::at(START);
    let mut bench = at_work(&readers);
    let apart_s = |bench: &Bench| bench.recorder.live().counters.clock_apart_s.get();
    assert_eq!(apart_s(&bench), 0);
    bench.set(2 * HOUR_MS);
    bench.sweep();
    assert_eq!(apart_s(&bench), 7_200);
    bench.set(-2 * HOUR_MS);
    bench.sweep();
    assert_eq!(apart_s(&bench), 0);
}
