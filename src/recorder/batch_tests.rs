//! The commands of one commit: each is checked against the state and against those before it in the same step.

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
use super::tests::{Bench, Disk, SERVER, START, settings, voter};
use crate::clock::HandReaders;
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::Token;
use crate::vote::ipv6::Ipv6Network;
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;
use crate::waiting::Bell;
use crate::watch::WatchFilter;
use parking_lot::Mutex;
use std::sync::Arc;

fn vote(address: u32, voted_at: Option<u32>, mode: Mode) -> Command {
    let (server, voted_at) = (ServerName::Id(SERVER), voted_at.map(UnixSeconds));
    Command::Votes(vec![Vote { server, voter: voter(address).into(), voted_at }], mode)
}

/// Clients tell two votes apart by their instants.
#[test]
fn a_vote_behind_a_cancellation_in_one_commit_is_of_a_later_second() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let cast = || vote(1, None, Mode::Cast);
    let replies = bench.together(vec![cast(), Command::Cancel(SERVER, voter(1)), cast()]);
    let instants: Vec<u32> = replies
        .iter()
        .filter_map(|reply| match reply {
            Reply::Votes(outcomes) => match &outcomes[..] {
                [VoteOutcome::Recorded(recorded)] => Some(recorded.voted_at.0 - START),
                other => panic!("{other:?}"),
            },
            _ => None,
        })
        .collect();
    assert_eq!(instants, [0, 1], "{replies:?}");
}

/// A start puts two rows of one pair right, so this one asks without a start in between.
#[test]
fn the_vote_that_was_replaced_does_not_come_back_with_a_cancellation() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    for ago_s in [1_000, 500] {
        bench.ask(vote(1, Some(START - ago_s), Mode::Record));
    }
    assert_eq!(bench.rows(), [-500]);
    assert_eq!(bench.ask(Command::Cancel(SERVER, voter(1))), Reply::Cancelled(Some(true)));
    assert_eq!((bench.rows(), bench.killed().ends(1)), (Vec::new(), None));
}

#[test]
fn a_vote_is_at_most_five_seconds_ahead_and_younger_than_the_cooldown() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let (early, late) = (Some(VoteOutcome::InFuture), Some(VoteOutcome::Expired));
    for (address, shift, refused) in [(1, 5, None), (2, 6, early), (3, -5_399, None), (4, -5_400, late)] {
        let reply = bench.ask(vote(address, Some(START.saturating_add_signed(shift)), Mode::Cast));
        let Reply::Votes(outcomes) = &reply else { panic!("{reply:?}") };
        let is_expected = match refused {
            Some(outcome) => *outcomes == [outcome],
            None => matches!(outcomes[..], [VoteOutcome::Recorded(_)]),
        };
        assert!(is_expected, "{shift}: {reply:?}");
    }
}

/// The sweep may not have met the entry by then.
#[test]
fn a_vote_is_taken_in_the_second_in_which_the_cooldown_ends() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let cast = |bench: &mut Bench| (0..64).map(|address| bench.cast(address)).collect::<Vec<_>>();
    cast(&mut bench);
    bench.readers.pass_ms(5_400_000);
    for outcome in cast(&mut bench) {
        assert!(matches!(outcome, VoteOutcome::Recorded(_)), "{outcome:?}");
    }
}

#[test]
fn a_vote_and_the_removal_of_its_server_in_one_commit_leave_nothing() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let other = NewServer { server: SERVER, token: Token::new("demo") };
    bench.together(vec![
        vote(1, None, Mode::Cast),
        Command::Remove(SERVER),
        Command::Servers(vec![other], Tokens::Keep),
    ]);
    assert_eq!((bench.ends(1), bench.rows(), bench.killed().ends(1)), (None, Vec::new(), None));
}

/// Clients that know the earlier vote by its second would take it for that one.
#[test]
fn a_vote_of_two_addresses_has_no_second_in_which_a_vote_of_either_was_cancelled() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    bench.cast(2);
    bench.ask(Command::Cancel(SERVER, voter(2)));
    let both = Voter::new(&[voter(1), voter(2)]).expect("two addresses");
    let both = Vote { server: ServerName::Id(SERVER), voter: both, voted_at: None };
    bench.ask(Command::Votes(vec![both], Mode::Cast));
    assert_eq!([bench.ends(1), bench.ends(2)], [Some(5_401); 2]);
}

/// A woken request looks once, so the change must be there by then. The bell rings for the voter of the vote's network.
#[test]
fn a_bell_rings_once_there_is_what_it_tells_of() {
    let mut bench = Bench::with(&Disk::default(), &HandReaders::at(START), settings(90, 48));
    bench.step();
    bench.list();
    let [waits, votes] = [0, 1].map(|low| VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_0000 | low)));
    let (live, now, pair) = (bench.recorder.live(), bench.clock.now().wall, Pair { server: SERVER, address: waits });
    let (waiting, cooldowns, directory) = (live.waiting.clone(), live.table.view(), Mutex::new(live.directory.view()));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&seen);
    let bell: Bell = Arc::new(move |_| {
        let is_in_cooldown = directory.lock().current().contains(SERVER) && cooldowns.live(pair, now).is_some();
        noted.lock().push(is_in_cooldown);
    });
    waiting.set_slots(1);
    let mut slot = waiting.enter().expect("a slot");
    slot.register(pair, &bell, 1);
    bench.cast_from(votes);
    slot.register(pair, &bell, 1);
    let anew = NewServer { server: SERVER, token: Token::new("anew") };
    bench.together(vec![Command::Remove(SERVER), Command::Servers(vec![anew], Tokens::Keep)]);
    assert_eq!(*seen.lock(), [true, false]);
    assert_eq!(bench.ends_of(waits), None, "the votes of the earlier listing are gone");
    slot.register(pair, &bell, 1);
    bench.cast_from(votes);
    assert_eq!(*seen.lock(), [true, false, true]);
}

#[test]
fn a_watcher_sees_nothing_of_a_vote_that_was_not_kept() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let board = bench.recorder.live().board.clone();
    let seat = board.sit(WatchFilter::default(), 0, 0).expect("a seat");
    bench.cast(1);
    assert_eq!(seat.take(UnixSeconds(START), 0).lines().count(), 1);
    bench.disk.0.lock().commits_failing = 1;
    assert_eq!(bench.ask(vote(2, None, Mode::Cast)), Reply::StoreUnavailable);
    assert_eq!(seat.take(UnixSeconds(START), 0), "");
}

/// Regression: the votes of the removed server were seen as cancelled.
#[test]
fn a_watcher_sees_what_was_asked_for_of_a_removal_and_a_listing() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    bench.cast(1);
    let board = bench.recorder.live().board.clone();
    let seat = board.sit(WatchFilter::default(), 0, 0).expect("a seat");
    let anew = NewServer { server: SERVER, token: Token::new("anew") };
    bench.together(vec![Command::Remove(SERVER), Command::Servers(vec![anew], Tokens::Keep)]);
    let seen = seat.take(UnixSeconds(START), 0);
    assert_eq!(seen.lines().count(), 2, "{seen}");
    assert!(!seen.contains("cancel"), "{seen}");
}

#[test]
fn a_watcher_sees_a_vote_in_place_of_another_and_no_cancellation() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let board = bench.recorder.live().board.clone();
    let seat = board.sit(WatchFilter::default(), 0, 0).expect("a seat");
    for ago_s in [1_000, 500] {
        bench.ask(vote(1, Some(START - ago_s), Mode::Record));
    }
    let seen = seat.take(UnixSeconds(START), 0);
    assert_eq!(seen.lines().filter(|line| line.contains(r#""kind":"vote""#)).count(), 2, "{seen}");
    assert!(seen.lines().nth(1).is_some_and(|line| line.contains(r#""kind":"replacement""#)), "{seen}");
    assert_eq!(seen.lines().count(), 3, "{seen}");
}

/// Each of these may get a player a second reward.
#[test]
fn cooldowns_that_end_before_their_time_are_counted_by_cause() {
    let mut bench = Bench::listed(&HandReaders::at(START));
    let ended = |bench: &Bench| bench.recorder.live().counters.ended().by_cause().map(|(_, count)| count);
    (1..=6).for_each(|address| assert!(matches!(bench.cast(address), VoteOutcome::Recorded(_))));
    bench.ask(Command::Cancel(SERVER, voter(1)));
    bench.ask(Command::Cancel(SERVER, voter(1)));
    bench.ask(Command::CancelAll(voter(2)));
    assert_eq!(ended(&bench), [2, 0, 0, 0]);
    // An unchanged vote and a first vote end nothing.
    for voted_at in [START, START - 60] {
        bench.ask(vote(3, Some(voted_at), Mode::Record));
    }
    bench.ask(vote(7, Some(START - 60), Mode::Record));
    assert_eq!(ended(&bench), [2, 0, 0, 0]);
    bench.ask(vote(3, Some(START + 1), Mode::Record));
    assert_eq!(ended(&bench), [2, 1, 0, 0]);
    // A change that was not kept is not counted.
    bench.disk.0.lock().commits_failing = 1;
    assert_eq!(bench.ask(Command::Remove(SERVER)), Reply::StoreUnavailable);
    assert_eq!(ended(&bench), [2, 1, 0, 0]);
    bench.pass(10_000);
    // 3 to 7 are live; in the commit that removes the server one goes and one comes.
    let commands = vec![Command::Cancel(SERVER, voter(4)), vote(8, None, Mode::Cast), Command::Remove(SERVER)];
    bench.together(commands);
    assert_eq!(ended(&bench), [3, 1, 5, 0]);
}
