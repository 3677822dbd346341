//! Votes of removed servers: nothing shows them, and they are taken away before their server is listed again.

use super::command::{Command, Mode, NewServer, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome};
use super::tests::{Bench, SERVER, START, to, voter};
use crate::clock::HandReaders;
use crate::vote::id::{ServerId, Token};
use std::sync::mpsc::channel;

/// The votes of one server, which two commits take away.
const VOTES: u32 = 9_000;

fn cast(address: u32) -> Vote {
    Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None }
}

fn list() -> Command {
    Command::Servers(vec![NewServer { server: SERVER, token: Token::new("anew") }], Tokens::Keep)
}

/// A recorder with a server whose votes are too many for one commit to take away.
fn with_large_server() -> Bench {
    let mut bench = Bench::listed(&HandReaders::at(START));
    assert!(matches!(bench.ask(Command::Votes((0..VOTES).map(cast).collect(), Mode::Cast)), Reply::Votes(_)));
    assert_eq!(bench.rows().len(), 9_000);
    bench
}

#[test]
fn votes_of_a_removed_server_stay_until_they_expire() {
    let mut bench = with_large_server();
    bench.ask(Command::Remove(SERVER));
    bench.sweep();
    assert_eq!((bench.rows().len(), bench.recorder.live().table.view().len()), (9_000, 9_000));
    bench.pass(5_400_000);
    bench.sweep();
    assert_eq!((bench.rows().len(), bench.recorder.live().table.view().len()), (0, 0));
    assert!(bench.recorder.removed.is_empty());
}

#[test]
fn a_server_is_listed_again_once_its_votes_have_gone_in_parts_and_others_vote_meanwhile() {
    let mut bench = with_large_server();
    let other = NewServer { server: ServerId(29), token: Token::new("other") };
    bench.ask(Command::Servers(vec![other], Tokens::Keep));
    bench.ask(Command::Remove(SERVER));
    let elsewhere = Vote { server: ServerName::Id(ServerId(29)), ..cast(1) };
    let replies = bench.together(vec![list(), Command::Votes(vec![elsewhere], Mode::Cast)]);
    let [Reply::Votes(voted), Reply::Servers(listed)] = &replies[..] else { panic!("{replies:?}") };
    assert!(matches!(voted[..], [VoteOutcome::Recorded(_)]), "{voted:?}");
    assert!(matches!(listed[..], [ServerOutcome::Created(SERVER, _)]), "{listed:?}");
    assert_eq!((bench.rows().len(), bench.recorder.live().table.view().len()), (1, 1));
}

/// Regression: the votes of a server that was removed between two parts stayed, and counted for its new listing.
#[test]
fn a_server_that_is_removed_while_a_listing_of_it_takes_votes_away_starts_without_cooldowns() {
    let mut bench = with_large_server();
    let new = |server, token: &str| NewServer { server, token: Token::new(token) };
    bench.ask(Command::Servers(vec![new(ServerId(29), "other")], Tokens::Keep));
    bench.ask(Command::Votes(vec![Vote { server: ServerName::Id(ServerId(29)), ..cast(1) }], Mode::Cast));
    bench.ask(Command::Remove(SERVER));
    let both = Command::Servers(vec![new(SERVER, "anew"), new(ServerId(29), "other anew")], Tokens::Keep);
    let (sender, listed) = channel();
    let at_once = 0;
    assert_eq!(bench.recorder.step(vec![(both, to(sender))]).expect("it goes on"), at_once);
    assert!(listed.try_recv().is_err() && !bench.recorder.relistings.is_empty(), "it was listed in one part");
    assert_eq!(bench.ask(Command::Remove(ServerId(29))), Reply::Removed(Some(ServerId(29))));
    while bench.step() == at_once {}
    let Ok(Reply::Servers(outcomes)) = listed.try_recv() else { panic!("it was not listed") };
    assert!(matches!(outcomes[..], [ServerOutcome::Created(..), ServerOutcome::Created(..)]), "{outcomes:?}");
    assert_eq!((bench.rows().len(), bench.recorder.live().table.view().len()), (0, 0));
}

#[test]
fn a_part_that_could_not_go_refuses_the_listing_and_the_next_one_takes_the_rest() {
    let mut bench = with_large_server();
    bench.ask(Command::Remove(SERVER));
    bench.disk.0.lock().commits_failing = 1;
    let (sender, replies) = channel();
    let asked = [sender.clone(), sender].map(|sender| (list(), to(sender)));
    let at_once = 0;
    assert_eq!(bench.recorder.step(asked.into()).expect("it goes on"), at_once, "the second one waits");
    assert_ne!(bench.step(), at_once);
    assert_eq!(replies.try_iter().collect::<Vec<_>>(), [Reply::StoreUnavailable, Reply::StoreUnavailable]);
    bench.pass(1_000);
    assert!(matches!(bench.ask(list()), Reply::Servers(_)));
    assert_eq!(bench.rows().len(), 0);
}

/// As after a kill between two parts.
#[test]
fn votes_of_no_listed_server_that_a_start_finds_go_before_it_is_listed() {
    let mut bench = with_large_server();
    bench.ask(Command::Remove(SERVER));
    let mut again = bench.killed();
    assert!(again.readiness.is_ready());
    assert!(matches!(again.ask(list()), Reply::Servers(_)));
    assert_eq!((again.rows().len(), again.ends(1)), (0, None));
}

#[test]
fn every_cooldown_of_an_address_ends_at_once() {
    let mut bench = with_large_server();
    let other = NewServer { server: ServerId(29), token: Token::new("other") };
    bench.ask(Command::Servers(vec![other], Tokens::Keep));
    bench.ask(Command::Votes(vec![Vote { server: ServerName::Id(ServerId(29)), ..cast(1) }], Mode::Cast));
    assert_eq!(bench.ask(Command::CancelAll(voter(1))), Reply::CancelledAll(2));
    assert_eq!(bench.ask(Command::CancelAll(voter(1))), Reply::CancelledAll(0));
    assert_eq!((bench.ends(1), bench.ends(2).is_some(), bench.rows().len()), (None, true, 8_999));
    // Votes of a server that is not listed any more go too, though they are no cooldown.
    bench.ask(Command::Remove(SERVER));
    assert_eq!(bench.ask(Command::CancelAll(voter(2))), Reply::CancelledAll(0));
    assert_eq!(bench.rows().len(), 8_998);
}
