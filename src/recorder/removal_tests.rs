//! Votes of removed servers: they go in parts, and a step of the clock may have left their rows behind.

use super::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote};
use super::tests::{Bench, Disk, SERVER, START, settings, voter};
use crate::clock::HandReaders;
use crate::vote::id::Token;

/// Their votes go in two parts.
const VOTES: u32 = 9_000;

fn cast(address: u32) -> Vote {
    Vote { server: ServerName::Id(SERVER), voter: voter(address).into(), voted_at: None }
}

fn list() -> Command {
    Command::Servers(vec![NewServer { server: SERVER, token: Token::new("anew") }], Tokens::Keep)
}

/// A recorder with a server of so many votes that one commit does not take them all away.
fn with_large_server() -> Bench {
    let mut bench = Bench::listed(&HandReaders::at(START));
    assert!(matches!(bench.ask(Command::Votes((0..VOTES).map(cast).collect(), Mode::Cast)), Reply::Votes(_)));
    assert_eq!(bench.rows().len(), 9_000);
    bench
}

#[test]
fn a_vote_behind_a_new_listing_stays_though_parts_of_the_earlier_one_were_left() {
    let mut bench = with_large_server();
    bench.ask(Command::Remove(SERVER));
    assert_eq!(bench.rows().len(), 9_000 - 8_192);
    let votes = (0..VOTES).step_by(100).map(cast).collect();
    bench.together(vec![list(), Command::Votes(votes, Mode::Cast)]);
    for _ in 0..4 {
        bench.pass(1_000);
    }
    let live = (0..VOTES).filter(|address| bench.ends(*address).is_some()).count();
    assert_eq!((live, bench.rows().len()), (90, 90));
}

#[test]
fn a_part_that_could_not_go_goes_later() {
    let mut bench = with_large_server();
    bench.ask(Command::Remove(SERVER));
    bench.disk.0.lock().commits_failing = 1;
    bench.step();
    assert_eq!(bench.rows().len(), 9_000 - 8_192);
    for _ in 0..8 {
        bench.pass(1_000);
    }
    assert_eq!(bench.rows().len(), 0);
}

/// Their cooldowns had ended, and would come back with the clock.
#[test]
fn rows_that_a_step_back_has_cut_do_not_outlive_a_new_listing() {
    for is_one_commit in [false, true] {
        let mut bench = Bench::with(&Disk::default(), &HandReaders::at(START), settings(5, 64));
        bench.step();
        bench.list();
        (0..3).for_each(|address| drop(bench.cast(address)));
        bench.set(-3_600_000);
        bench.pass(301_000);
        bench.sweep();
        assert_eq!((bench.ends(0), bench.rows()), (None, vec![0; 3]));
        if is_one_commit {
            bench.together(vec![Command::Remove(SERVER), list()]);
        } else {
            bench.ask(Command::Remove(SERVER));
            bench.ask(list());
        }
        assert_eq!(bench.rows(), [0_i64; 0], "{is_one_commit}");
        bench.set(3_600_000 - 302_000);
        assert_eq!(bench.ends(0), None, "{is_one_commit}");
    }
}
