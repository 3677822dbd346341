//! A random checker of many nodes: operations and faults from one seed on real servers, and a model of the
//! promises that hold whatever fails. At most one vote counts in a cooldown, as far as the
//! store remembers it or a node can give it back. The node that took a vote shows it at once, all nodes
//! soon, and through every fault. No address without a vote is in cooldown. In the end all nodes agree.
//!
//! A failure prints the seed and the steps. `TEST_SEED=N` plays one seed, `VOTE_STATUS_TEST_CHECKER_S=N`
//! plays new ones for N seconds.

mod failovers;
mod faults;
mod model;
mod schedule;
mod world;

use crate::util::ledger::{Pair, address};
use crate::util::needs::has;
use crate::util::random::Random;
use schedule::Directory::{Empty, Kept};
use schedule::{ADDRESSES, GOES, SERVERS, Step, Strain};
use std::fmt::Write;
use std::time::{Duration, Instant};
use world::World;

/// Nodes on the store.
const NODES: usize = 3;
/// Steps of one seed.
const STEPS: usize = 80;
/// The seed of the short run.
const SEED: u64 = 20_261_122;

/// Every pair that votes are cast for, crowds aside.
fn pairs() -> impl Iterator<Item = Pair> {
    (1..=SERVERS).flat_map(|server| (0..ADDRESSES).map(move |number| (server, address(number))))
}

/// Plays steps, and fails at the first answer that the model rules out. Gives the store's program and version.
fn play(what: &str, cooldown_minutes: u32, steps: &[Step]) -> String {
    let steps_s =
        steps.iter().filter_map(|step| if let Step::Clock(step_s) = step { Some(step_s.abs()) } else { None });
    let mut world = World::new(cooldown_minutes, steps_s.max().unwrap_or(0), &["--appendfsync", "always"]);
    let started_at = Instant::now();
    let mut played = String::new();
    for step in steps {
        writeln!(played, "{:9.3} s  {step:?}", started_at.elapsed().as_secs_f64()).expect("memory");
        if let Err(violation) = world.play(step) {
            panic!("{what}: {violation}\n{}\nthe steps until then:\n{played}", world.logs());
        }
    }
    world.store_version()
}

/// The seeds of a checker: the one of the short run, the given one, or new ones until the time is over.
pub(crate) struct Seeds {
    seeds: Random,
    is_given: bool,
    until: Option<Instant>,
    rounds: usize,
}

impl Seeds {
    pub(crate) fn from_environment() -> Seeds {
        let is_given = std::env::var_os("TEST_SEED").is_some();
        let until = std::env::var("VOTE_STATUS_TEST_CHECKER_S").ok().map(|seconds| {
            Instant::now() + Duration::from_secs(seconds.parse().expect("VOTE_STATUS_TEST_CHECKER_S is a number"))
        });
        // The short run is the same each time: new faults are searched only in a run that asks for it.
        let seeds = if is_given || until.is_some() { Random::from_environment() } else { Random::seeded(SEED) };
        Seeds { seeds, is_given, until, rounds: 0 }
    }

    /// The seed of the next round as a failure names it, and its random numbers. `None` where enough were played.
    pub(crate) fn next(&mut self) -> Option<(String, Random)> {
        let is_over = |until: Option<Instant>| until.is_none_or(|until| Instant::now() >= until);
        if self.rounds > 0 && (self.is_given || is_over(self.until)) {
            return None;
        }
        if self.is_given {
            return Some(("the given seed".to_owned(), self.seeds.clone()));
        }
        let seed = self.seeds.next();
        Some((format!("TEST_SEED={seed}"), Random::seeded(seed)))
    }

    /// A round is over, and broke no promise.
    pub(crate) fn played(&mut self, what: &str) {
        self.rounds += 1;
        println!("{what}: {} rounds", self.rounds);
    }
}

#[test]
fn random_faults_break_no_promise() {
    if !has(&["redis-server", "cc"]) {
        return;
    }
    let mut seeds = Seeds::from_environment();
    while let Some((what, mut random)) = seeds.next() {
        let (cooldown_minutes, steps) = schedule::random(&mut random, STEPS);
        let store = play(&what, cooldown_minutes, &steps);
        seeds.played(&store);
    }
}

/// Each strain takes effect: otherwise the checker would stage no fault.
#[test]
fn votes_are_refused_under_each_strain_and_taken_after_it() {
    if !has(&["redis-server"]) {
        return;
    }
    let mut steps = Vec::new();
    // `Renamed` is left out, as votes go on without the log.
    let strains = [Strain::Busy, Strain::Clients, Strain::Memory, Strain::Password, Strain::Swapped];
    for (number, strain) in (1..).zip(strains) {
        let pair = (1, address(number));
        steps.extend([Step::Strain(strain), Step::ExpectRefused(0, pair), Step::ExpectRefused(1, pair), Step::Relax]);
        steps.extend([Step::VoteUntilAnswered(0, pair), Step::Settle]);
    }
    play("strains", 90, &steps);
}

/// Faults that were found by hand before there was a checker, each as the steps that showed it.
mod found {
    use super::{Empty, GOES, Kept, NODES, Step, address, has, play};

    fn some_pairs() -> [crate::util::ledger::Pair; 4] {
        [(1, address(1)), (1, address(2)), (2, address(3)), (2, address(4))]
    }

    /// The node that dies with the store and starts again.
    const LAST: usize = NODES - 1;

    fn check(what: &str, steps: &[Step]) {
        if has(&["redis-server"]) {
            play(what, 90, steps);
        }
    }

    /// A primary with a vote that its replica lacks died with a node, or the store went back to a copy from before the vote. The
    /// node, started again, took the vote a second time before the others had given it back.
    #[test]
    fn a_node_that_starts_after_a_loss_takes_no_vote_that_others_show() {
        let mut steps = Vec::new();
        for (pair, directory) in some_pairs().into_iter().zip([Kept, Empty, Kept, Empty]) {
            let [before, loss] = match pair.0 {
                1 => [Step::HoldReplica, Step::Promote(Some(LAST))],
                _ => [Step::Save, Step::Restore(Some(LAST))],
            };
            steps.extend([before, Step::Vote(0, pair), loss, Step::Start(LAST, directory)]);
            steps.extend([Step::VoteUntilAnswered(LAST, pair), Step::Settle]);
        }
        check("a start after a loss", &steps);
    }

    /// The user lacked the right to one command: the function wrote the entry in the log, and not the vote.
    #[test]
    fn a_vote_is_whole_or_not_at_all_where_rights_are_missing() {
        let mut steps = Vec::new();
        for (pair, command) in some_pairs().into_iter().zip(["zadd", "xadd", "pexpire", "zremrangebyscore"]) {
            steps.extend([Step::Forbid(vec![command]), Step::Vote(0, pair), Step::Pause(300)]);
            steps.extend((0..NODES).map(|node| Step::Ask(node, pair)));
            steps.extend([Step::Permit, Step::Settle]);
        }
        check("missing rights", &steps);
    }

    /// The store forgot a vote and refused to take it back: the nodes stopped showing it.
    #[test]
    fn a_vote_that_cannot_be_given_back_yet_is_shown() {
        let mut steps = Vec::new();
        for pair in some_pairs() {
            steps.extend([Step::HoldReplica, Step::Vote(0, pair), Step::Promote(None), Step::RefuseWrites]);
            for _ in 0..4 {
                steps.extend([Step::Pause(500), Step::Ask(0, pair)]);
            }
            steps.extend([Step::TakeWrites, Step::Settle]);
        }
        check("a store that takes nothing back yet", &steps);
    }

    /// Vote, cancellation and vote within a second had one instant. So two votes had one reward, and
    /// after a loss the store refused the second one.
    #[test]
    fn two_votes_around_a_cancellation_have_two_instants() {
        let mut steps = Vec::new();
        for pair in some_pairs() {
            steps.push(Step::HoldReplica);
            for _ in 0..3 {
                steps.extend([Step::Vote(0, pair), Step::Cancel(1, pair)]);
            }
            steps.extend([Step::VoteUntilAnswered(2, pair), Step::Promote(None), Step::Settle]);
        }
        check("votes around a cancellation", &steps);
    }

    /// Eviction is switched on while nodes run.
    #[test]
    fn votes_stop_while_the_store_may_drop_them() {
        let mut steps = vec![Step::Vote(0, some_pairs()[0]), Step::Evict, Step::Pause(2_500)];
        steps.extend((0..NODES).map(|node| Step::ExpectRefused(node, (1, address(5)))));
        steps.extend([Step::KeepKeys, Step::Settle, Step::Vote(1, (1, address(5))), Step::Settle]);
        check("eviction", &steps);
    }

    /// A server was removed and listed again, with a vote from before the removal, and the store forgot all of it. Then the
    /// store refused the server and its votes, and a vote from before one that was cancelled.
    #[test]
    fn a_listing_and_its_votes_come_back_behind_a_removal() {
        let [cast, imported, cancelled] = [(GOES, address(1)), (GOES, address(2)), (1, address(3))];
        let mut steps = Vec::new();
        for (lost, by) in [(vec![Step::Save], Step::Restore(None)), (vec![Step::HoldReplica], Step::Promote(None))] {
            steps.extend([Step::Remove(0), Step::List(1)]);
            steps.extend(lost);
            steps.extend([Step::Remove(0), Step::List(1), Step::Vote(2, cast), Step::Record(0, imported, 10)]);
            steps.extend([Step::Vote(1, cancelled), Step::Cancel(1, cancelled), Step::Record(0, cancelled, 10), by]);
            steps.extend([Step::Ask(2, cast), Step::Ask(0, imported), Step::Ask(0, cancelled), Step::Settle]);
        }
        check("a listing behind a removal", &steps);
    }

    /// A node that started just after an eviction took votes that the others still showed.
    #[test]
    fn a_node_that_starts_behind_an_eviction_takes_no_vote_that_others_show() {
        let mut steps = Vec::new();
        for (pair, directory) in some_pairs().into_iter().take(2).zip([Kept, Empty]) {
            steps.extend([Step::Vote(0, pair), Step::Kill(LAST), Step::DropKeys, Step::Start(LAST, directory)]);
            steps.extend([Step::VoteUntilAnswered(LAST, pair), Step::Settle]);
        }
        check("a start behind an eviction", &steps);
    }

    /// Redis evicted votes, and started again before a node had looked: the new process reports no evictions.
    #[test]
    fn what_was_dropped_before_a_restart_is_given_back() {
        let mut steps = Vec::new();
        for pair in some_pairs() {
            steps.extend([Step::Vote(0, pair), Step::DropKeys, Step::RestartStore(100), Step::Settle]);
        }
        check("votes that were dropped before a restart", &steps);
    }

    /// The log lost entries that a node had not read while it was away, and then all entries.
    #[test]
    fn a_log_that_was_cut_behind_a_node_is_noticed() {
        let mut steps = vec![Step::Hole(0), Step::Crowd(1, 1, 1_000), Step::TrimLog, Step::Open(0), Step::Settle];
        steps.extend([Step::Cut(0), Step::Crowd(1, 1, 2_000), Step::TrimLog, Step::Open(0), Step::Settle]);
        steps.extend([Step::DropLog, Step::Crowd(2, 2, 1_000), Step::Settle]);
        check("a log that was cut", &steps);
    }

    /// The store went back to an older state, and on past the last entry of a node that was away.
    #[test]
    fn a_node_that_was_away_notices_another_history() {
        let mut steps = vec![Step::Crowd(0, 1, 1_000), Step::Save, Step::Crowd(0, 1, 2_000), Step::Cut(0)];
        steps.extend([Step::Restore(None), Step::Crowd(1, 1, 3_000), Step::Crowd(2, 2, 1_000), Step::Open(0)]);
        steps.push(Step::Settle);
        check("another history", &steps);
    }

    /// The time for which a starting node waits for the others ran out while no node could give votes back.
    #[test]
    fn a_node_that_starts_waits_as_long_as_the_store_takes_no_writes() {
        let pair = some_pairs()[0];
        let mut steps = vec![Step::HoldReplica, Step::Vote(0, pair), Step::RefuseWrites, Step::Promote(Some(LAST))];
        steps.extend([Step::Start(LAST, Empty), Step::Pause(5_500), Step::ExpectRefused(LAST, pair)]);
        steps.extend([Step::TakeWrites, Step::VoteUntilAnswered(LAST, pair), Step::Settle]);
        check("a start while the store takes no writes", &steps);
    }

    /// A stopped node went on and made changes for clients that had gone.
    #[test]
    fn a_stopped_node_does_nothing_for_clients_that_have_gone() {
        let mut steps = Vec::new();
        for (pair, ms) in some_pairs().into_iter().zip([50, 500, 50, 1_500]) {
            steps.extend([Step::Vote(0, pair), Step::HangUp { stopped: 1, other: 0, pair, ms }, Step::Settle]);
        }
        check("clients that have gone", &steps);
    }
}
