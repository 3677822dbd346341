//! Faults of time and store, found by seeds: the real recorder, store and table over a simulated disk and simulated
//! clocks, compared with a model of the contract after each step. A simulation has one thread, no socket and no real
//! time, so that a seed does the same at each run.
//!
//! `VOTE_STATUS_SIMULATION_SEEDS` says how many seeds are run, from `VOTE_STATUS_SIMULATION_FROM` on.
//! `VOTE_STATUS_SIMULATION_SEED` repeats one. For each kind of failure, the test shrinks the first seed to the operations
//! that the failure needs, and prints all that happens.

mod clocks;
mod disk;
mod each_fault;
mod going_back;
mod logged;
mod machine;
mod model;
mod operations;
mod process;
mod script;
mod seam;

use disk::{Kill, Strike};
use model::Settings;
use operations::{Ask, Ballot, End, Named, Operation, Swap, Trouble, When};
use script::{Case, case, run, shrink, tell};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Seeds of a plain `cargo test`.
const SEEDS: u64 = 1_000;
/// Seeds that are run twice.
const SEEDS_TWICE: u64 = 20;
/// No further seed is begun once this many kinds of failures are found.
const KINDS_MAX: usize = 8;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn the_service_does_what_the_contract_says() {
    let one = number("VOTE_STATUS_SIMULATION_SEED");
    let from = one.or_else(|| number("VOTE_STATUS_SIMULATION_FROM")).unwrap_or(0);
    let count = one.map_or_else(|| number("VOTE_STATUS_SIMULATION_SEEDS").unwrap_or(SEEDS), |_| 1);
    // The failed seeds of each kind, with their messages.
    let (next, failed) = (AtomicU64::new(from), Mutex::new(BTreeMap::<String, Vec<(u64, String)>>::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count || failed.lock().expect("no holder panics").len() >= KINDS_MAX {
                break;
            }
            if let Err(finding) = run(&case(seed)) {
                let said = format!("operation {}: {}", finding.at, finding.what);
                println!("seed {seed}, {said}");
                let mut failed = failed.lock().expect("no holder panics");
                failed.entry(finding.kind()).or_default().push((seed, said));
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut failed = failed.into_inner().expect("no holder panics");
    failed.values_mut().for_each(|seeds| seeds.sort());
    for seeds in failed.values() {
        let (seed, said) = &seeds[0];
        println!("{} seeds as {seed}: {said}", seeds.len());
    }
    for (seed, _) in failed.values().map(|seeds| &seeds[0]) {
        let needed = shrink(&case(*seed));
        let (outcome, said) = tell(&needed);
        let finding = outcome.expect_err("it fails still");
        println!("\nseed {seed}\n{}\nneeds {needed:#?}: {}\n", said.join("\n"), finding.what);
    }
    // `contrib/nightly` runs each of these again.
    let repeat: Vec<_> = failed.values().map(|seeds| format!("VOTE_STATUS_SIMULATION_SEED={}", seeds[0].0)).collect();
    assert!(repeat.is_empty(), "{}", repeat.join(" or "));
}

/// A seed fixes every request, answer, log line and operation of the disk. Hash maps have other keys in each run, so this
/// test finds an order that depends on them.
#[test]
fn a_seed_does_the_same_each_time() {
    for seed in 0..SEEDS_TWICE {
        let case = case(seed);
        let (first, second) = (tell(&case).1, tell(&case).1);
        let differs = first.iter().zip(&second).find(|(first, second)| first != second);
        assert_eq!(differs, None, "seed {seed}");
        assert!(
            first.len() == second.len() && first.len() > 100,
            "seed {seed}: {} and {} lines",
            first.len(),
            second.len()
        );
    }
}

// Regressions: the faults of version 1.0.0 that the rule of two lines has ended.

/// A new vote of the first server, and one by another address that ends in 10 minutes.
fn with_votes() -> Vec<Operation> {
    let ballot = |when| Ballot { server: 0, by_token: false, addresses: vec![2], when };
    let other = Ballot { addresses: vec![0], ..ballot(When::OldBy(-600)) };
    vec![list(&[0]), votes(vec![ballot(When::Now), other], false)]
}

/// Lists servers with new tokens.
fn list(servers: &[usize]) -> Operation {
    let servers = servers.iter().map(|server| (*server, Named::New)).collect();
    Operation::Ask(vec![Ask::List { servers, keeps: false }])
}

/// One request with these votes.
fn votes(ballots: Vec<Ballot>, is_record: bool) -> Operation {
    Operation::Ask(vec![Ask::Votes { ballots, is_record }])
}

/// Requires that the contract holds in these operations behind those votes.
fn holds(operations: &[Operation]) {
    holds_from(0, &[&with_votes(), operations].concat());
}

/// The same from an empty store. The seed draws the limits, and which unsynced writes the disk keeps.
fn holds_from(seed: u64, operations: &[Operation]) {
    holds_under(Settings { cooldown_s: 5_400, prefix: 64 }, seed, operations);
}

/// The same, with these settings.
fn holds_under(settings: Settings, seed: u64, operations: &[Operation]) {
    let case = Case { seed, settings, is_in_memory: false, operations: operations.to_vec() };
    if let Err(finding) = run(&case) {
        panic!("{}\n{}", finding.what, tell(&case).1.join("\n"));
    }
}

fn restart(off_ms: i64, step_ms: i64) -> Operation {
    Operation::Restart { end: End::Kill, off_ms, step_ms, accepts_clock: false }
}

/// The time shown goes back in one change: wherever a kill strikes, the time has gone back or it has not.
#[test]
fn a_kill_while_the_time_goes_back_loses_nothing() {
    for operations in 0..40 {
        for cuts_power in [false, true] {
            let kill = Operation::Kill { kill: Kill::AtOperation(operations), cuts_power };
            holds(&[
                Operation::Step { ms: -7_200_000 },
                Operation::ToTaken { off_ms: -100 },
                kill,
                Operation::Pass { ms: 2_000 },
                Operation::Pass { ms: 2_000 },
            ]);
        }
    }
}

/// A clock that comes back in small steps counts as one that comes back.
#[test]
fn a_clock_that_comes_back_in_small_steps_changes_nothing() {
    let small = |ms| [Operation::Step { ms }, Operation::Pass { ms: 400 }];
    holds(&[vec![Operation::Step { ms: -100_000 }], small(50_000).to_vec(), small(50_000).to_vec()].concat());
    let mut operations = vec![Operation::Step { ms: -1_200_000 }];
    operations.extend((0..20).flat_map(|_| small(59_000)));
    operations.extend([Operation::Step { ms: 20_000 }, Operation::Pass { ms: 900_000 }]);
    holds(&operations);
}

/// A start with a clock that is ahead, and with other settings, forgets no vote.
#[test]
fn other_settings_with_a_clock_that_is_ahead_forget_nothing() {
    for accepts in [false, true] {
        for off_ms in [0, 130_000] {
            let other = Operation::OtherOptions {
                cooldown_s: Some(86_400),
                prefix: None,
                accepts,
                accepts_clock: false,
                off_ms,
            };
            holds(&[Operation::Step { ms: 7_200_000 }, other, Operation::ComeBack, Operation::Pass { ms: 2_000 }]);
        }
    }
}

/// A boot whose clock is ahead until it is corrected makes no ended vote live.
#[test]
fn a_boot_that_is_ahead_until_it_is_corrected_revives_nothing() {
    for ahead_ms in [61_000, 300_000, 599_000] {
        holds(&[
            Operation::Pass { ms: 550_000 },
            restart(5_000, ahead_ms),
            Operation::Pass { ms: 20_000 },
            Operation::ComeBack,
            Operation::Pass { ms: 700_000 },
        ]);
    }
}

/// A start while the time stands still is ready.
#[test]
fn a_restart_during_a_standstill_is_ready() {
    holds(&[
        Operation::Step { ms: -500_000 },
        Operation::ToTaken { off_ms: 1_000 },
        restart(1_000, 0),
        Operation::Pass { ms: 600_000 },
    ]);
}

/// A vote of the first server by another address.
fn another_vote() -> Operation {
    let ballot = Ballot { server: 0, by_token: true, addresses: vec![11], when: When::Now };
    votes(vec![ballot], false)
}

/// An older copy is refused although the note of the last commit was deleted just before a stop.
#[test]
fn a_note_that_is_deleted_before_a_stop_refuses_an_older_copy() {
    holds(&[
        Operation::Pass { ms: 31_000 },
        Operation::Disk(Trouble::NoteDeleted),
        Operation::Disk(Trouble::BackedUp),
        another_vote(),
        Operation::Swap(Swap::Older),
    ]);
}

/// A void store may show a commit that failed. A note that is made again has another number, so it refuses no store that
/// a power cut leaves.
#[test]
fn a_note_that_is_made_again_has_no_number_of_a_failed_commit() {
    holds_from(
        8_003_381,
        &[
            list(&[0]),
            Operation::Disk(Trouble::Strike(Strike::SyncsFail(3))),
            Operation::OtherOptions { cooldown_s: None, prefix: None, accepts: false, accepts_clock: false, off_ms: 0 },
            another_vote(),
            Operation::Disk(Trouble::NoteDeleted),
            Operation::Restart { end: End::Stop, off_ms: 0, step_ms: 0, accepts_clock: false },
            another_vote(),
            Operation::Restart { end: End::PowerCut, off_ms: 3_000, step_ms: 0, accepts_clock: false },
        ],
    );
}

/// With slow syncs one step is long enough for a store to fail and to work again.
#[test]
fn a_store_that_works_again_in_the_step_in_which_it_failed_was_told_as_failing() {
    let strike = Strike::ChangesFail { count: 2, errno: 28 };
    let slow = Operation::Disk(Trouble::SyncTakes(30_000));
    holds_from(8_053_251, &[Operation::Disk(Trouble::Strike(strike)), slow, list(&[2])]);
}

/// The file may hold the row of a vote that has just ended beside the row of the same pair's next vote.
#[test]
fn a_row_that_has_just_ended_may_stand_beside_the_next_one() {
    let ballot = |addresses, when| Ballot { server: 0, by_token: false, addresses, when };
    holds_from(
        14_001_472,
        &[
            list(&[0]),
            Operation::Pass { ms: 5_300_000 },
            votes(vec![ballot(vec![11, 5, 3], When::Now)], false),
            Operation::Pass { ms: 5_401_000 },
            votes(vec![ballot(vec![5, 11], When::OldBy(-60)), ballot(vec![3], When::Ago(0))], true),
            Operation::Restart { end: End::Stop, off_ms: 0, step_ms: 0, accepts_clock: false },
        ],
    );
}

/// The store is moved away while a start opens it behind a power cut, which may have lost the note of its last commit. Only
/// without that note the start may make an empty store.
#[test]
fn a_store_that_is_moved_away_in_a_start_is_missed_where_a_note_tells_of_it() {
    for seed in 0..4 {
        for operations in 0..40 {
            holds_from(
                seed,
                &[
                    &with_votes()[..],
                    &[
                        Operation::Strikes(vec![(operations, Strike::MovedAway)]),
                        Operation::Restart { end: End::PowerCut, off_ms: 0, step_ms: 0, accepts_clock: false },
                    ],
                ]
                .concat(),
            );
        }
    }
}

/// The recorder sees a store that comes back at its next tick, after it has looked at the clocks. So a time that has to go
/// back waits for the tick after that.
#[test]
fn a_time_that_goes_back_waits_for_a_store_that_is_back() {
    holds_from(
        20_024_928,
        &[
            list(&[0]),
            Operation::Step { ms: 7_200_000 },
            Operation::ToTaken { off_ms: 200 },
            Operation::ComeBack,
            Operation::Pass { ms: 590_000 },
            Operation::Disk(Trouble::MovedAway),
            another_vote(),
            Operation::Disk(Trouble::Heals),
            Operation::Pass { ms: 1_900_000 },
        ],
    );
}

/// In a start with shorter networks the time goes back. Of two votes that become one pair's, the latest stays, by the
/// instants before or after the time went back.
#[test]
fn a_start_with_shorter_networks_may_merge_votes_before_the_time_goes_back() {
    let vote = |address, when, is_record| {
        votes(vec![Ballot { server: 1, by_token: false, addresses: vec![address], when }], is_record)
    };
    let other = Operation::OtherOptions {
        cooldown_s: Some(86_400),
        prefix: Some(48),
        accepts: true,
        accepts_clock: false,
        off_ms: 0,
    };
    holds_under(
        Settings { cooldown_s: 300, prefix: 64 },
        20_031_237,
        &[
            list(&[1]),
            vote(3, When::Ago(-4), false),
            Operation::Step { ms: 600_000 },
            vote(10, When::Now, false),
            Operation::Ask(vec![Ask::Cancel { server: 1, address: 10 }]),
            Operation::ComeBack,
            vote(1, When::Ago(-5), true),
            other,
        ],
    );
}

/// A start opens its store, which takes time where the file may be changing or a sync is slow. Then it reads the clocks and
/// writes to the store: its lines and its note are those of that reading.
#[test]
fn the_lines_of_a_start_begin_where_it_reads_the_clocks() {
    let restart = Operation::Restart { end: End::PowerCut, off_ms: 31_000, step_ms: 0, accepts_clock: false };
    let other = || Operation::OtherOptions {
        cooldown_s: Some(86_400),
        prefix: None,
        accepts: true,
        accepts_clock: true,
        off_ms: 0,
    };
    holds_under(
        Settings { cooldown_s: 60, prefix: 56 },
        30_011_521,
        &[
            Operation::Disk(Trouble::SyncTakes(900)),
            restart,
            Operation::Strikes(vec![(1, Strike::ChangesFail { count: 2, errno: 13 })]),
            Operation::Step { ms: -300_000 },
            other(),
        ],
    );
    let vote = |server, by_token, addresses, when, is_record| {
        let ballot = Ballot { server, by_token, addresses, when };
        Ask::Votes { ballots: vec![ballot], is_record }
    };
    holds_under(
        Settings { cooldown_s: 60, prefix: 64 },
        30_006_262,
        &[
            list(&[0, 1, 2]),
            other(),
            Operation::Ask(vec![vote(2, false, vec![1], When::Now, false)]),
            Operation::Ask(vec![vote(0, false, vec![2], When::Again(1), true), Ask::Remove { server: 2 }]),
            Operation::Flip { server: 0, address: 0, rounds: 5 },
            Operation::Restart { end: End::Stop, off_ms: 58_000, step_ms: 0, accepts_clock: false },
            Operation::Ask(vec![Ask::Remove { server: 1 }]),
            Operation::Disk(Trouble::Strike(Strike::Full)),
            Operation::Pass { ms: 200_000 },
            Operation::Ask(vec![vote(0, true, vec![4], When::Now, false)]),
            Operation::Kill { kill: Kill::AtOperation(52), cuts_power: true },
            Operation::Step { ms: -7_200_000 },
            Operation::ToTaken { off_ms: -2_600 },
        ],
    );
}

/// An earlier line becomes certain, and then a vote is recorded that the line before would have ended. The vote stays where
/// the time goes back, as no line that became certain since has ended it.
#[test]
fn a_vote_that_comes_behind_an_earlier_line_is_not_ended_by_the_line_before() {
    let vote = |server, by_token, address, when| {
        votes(vec![Ballot { server, by_token, addresses: vec![address], when }], true)
    };
    holds_under(
        Settings { cooldown_s: 300, prefix: 56 },
        30_016_646,
        &[
            list(&[1]),
            Operation::Step { ms: -59_000 },
            Operation::Pass { ms: 61_000 },
            Operation::Step { ms: -59_000 },
            Operation::Pass { ms: 61_000 },
            Operation::ComeBack,
            Operation::Step { ms: -662_000 },
            Operation::ToTaken { off_ms: 0 },
            Operation::ComeBack,
            vote(1, true, 0, When::Ago(568)),
            vote(2, false, 1, When::OldBy(-1)),
            Operation::Step { ms: -7_200_000 },
        ],
    );
}
