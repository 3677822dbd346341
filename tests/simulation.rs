//! Faults of time and store, found by seeds: the real recorder, store and table over a simulated disk and simulated
//! clocks, compared with a model of the contract after each step. A simulation has one thread, no socket and no real
//! time, so that a seed does the same at each run.
//!
//! `VOTE_STATUS_SIMULATION_SEEDS` says how many seeds are run, from `VOTE_STATUS_SIMULATION_FROM` on.
//! `VOTE_STATUS_SIMULATION_SEED` repeats one. The first seed that fails is cut down to the operations that it needs, and
//! all that happens is printed.

mod clocks;
mod disk;
mod each_fault;
mod machine;
mod model;
mod operations;
mod process;
mod script;
mod seam;

use model::Settings;
use operations::{Ask, Ballot, End, Operation, Trouble};
use script::{case, run, shrink, tell};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

/// Seeds of a plain `cargo test`.
const SEEDS: u64 = 100;
/// Seeds that fail are told up to so many.
const TOLD_MAX: usize = 200;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn the_service_does_what_the_contract_says() {
    let one = number("VOTE_STATUS_SIMULATION_SEED");
    let from = one.or_else(|| number("VOTE_STATUS_SIMULATION_FROM")).unwrap_or(0);
    let count = one.map_or_else(|| number("VOTE_STATUS_SIMULATION_SEEDS").unwrap_or(SEEDS), |_| 1);
    let (next, failed) = (AtomicU64::new(from), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= from + count || failed.lock().expect("no holder panics").len() >= TOLD_MAX {
                break;
            }
            let (settings, operations) = case(seed);
            if let Err(finding) = run(seed, settings, &operations) {
                println!("seed {seed}, operation {}: {}", finding.at, finding.what);
                failed.lock().expect("no holder panics").push(seed);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let Some(seed) = failed.lock().expect("no holder panics").iter().min().copied() else {
        return;
    };
    let (settings, operations) = case(seed);
    let needed = shrink(seed, settings, &operations);
    let (outcome, said) = tell(seed, settings, &needed);
    let finding = outcome.expect_err("it fails still");
    println!("{}\nneeds {settings:?} and {needed:#?}", said.join("\n"));
    panic!("VOTE_STATUS_SIMULATION_SEED={seed}: {}", finding.what);
}

/// Regression: a store that could not be written anew after a failed sync took its disk for full, and votes that a step
/// forward had ended left at once.
#[test]
fn a_step_forward_ends_nothing_for_good_after_a_failed_sync() {
    let settings = Settings { cooldown_s: 86_400, prefix: 64 };
    let ballot = Ballot { server: 0, addresses: vec![2], ago_s: None, is_again: false, is_record: false };
    let mut operations = vec![
        Operation::Ask(vec![Ask::List { server: 0 }, Ask::Votes(vec![ballot])]),
        Operation::Disk(Trouble::SyncsFail(2)),
        Operation::Pass { ms: 640_000 },
        Operation::Step { ms: 86_400_000 },
    ];
    // The whole table is swept in some 6 s.
    operations.extend([const { Operation::Pass { ms: 1_000 } }; 10]);
    operations.push(Operation::ComeBack);
    assert_eq!(run(0, settings, &operations).map_err(|finding| finding.what), Ok(()));
}

/// Regression: the rows that a step back had cut were written before the clock was followed, and where the disk took its
/// time, so did a small step back: the time stood still later than it had to.
#[test]
fn a_slow_disk_does_not_keep_the_time_from_standing_still() {
    let settings = Settings { cooldown_s: 86_400, prefix: 64 };
    let ballot = Ballot { server: 0, addresses: vec![2], ago_s: None, is_again: false, is_record: false };
    let operations = [
        Operation::Ask(vec![Ask::List { server: 0 }, Ask::Votes(vec![ballot])]),
        Operation::Disk(Trouble::SyncTakes(4_000)),
        Operation::Step { ms: -600_000 },
        Operation::Drift { ppm: -400 },
        Operation::Pause { ms: 5_300_000 },
    ];
    assert_eq!(run(0, settings, &operations).map_err(|finding| finding.what), Ok(()));
}

/// Regression: on a full disk the row of a vote that a step forward had ended left before the table had swept it. Where
/// the clock came back, a vote for several addresses was acknowledged without the one that the table had, and it had no
/// vote after a restart.
#[test]
fn what_a_full_disk_has_dropped_is_not_taken_for_recorded() {
    let settings = Settings { cooldown_s: 86_400, prefix: 64 };
    let ballot = Ballot { server: 2, addresses: vec![5, 1], ago_s: None, is_again: false, is_record: false };
    let later = Ballot { addresses: vec![5], ..ballot.clone() };
    let record = Ballot { addresses: vec![1, 0], ago_s: Some(2_803), is_record: true, ..ballot.clone() };
    let operations = [
        Operation::Ask(vec![Ask::List { server: 2 }]),
        Operation::Ask(vec![Ask::Votes(vec![ballot])]),
        Operation::Step { ms: 604_800_000 },
        Operation::Ask(vec![Ask::Votes(vec![later])]),
        Operation::Disk(Trouble::Full),
        Operation::Pass { ms: 5_000 },
        Operation::ComeBack,
        Operation::Disk(Trouble::Heals),
        Operation::Ask(vec![Ask::Votes(vec![record])]),
        Operation::Restart { end: End::Kill, off_ms: 0, step_ms: 0, accepts_clock: false },
    ];
    assert_eq!(run(0, settings, &operations).map_err(|finding| finding.what), Ok(()));
}
