//! Many nodes in virtual time: the machine of each node, the network, and a store that runs the very functions.
//!
//! `TEST_SEED` runs one seed, and `TEST_TOLD` tells what happens in it.
#![expect(clippy::disallowed_methods, reason = "tests say how long they took")]

mod events;
mod host;
mod plants;
mod promises;
#[path = "../random.rs"]
#[expect(dead_code, reason = "the other tests use more of it")]
mod random;
mod run;
mod wire;
mod world;

use plants::Plant;
use run::{Told, Width, run};
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};

fn all(width: Width, usual: u64) {
    let functions = Functions::load(CODE).expect("it loads");
    let (start, mut sum) = (Instant::now(), Told::default());
    let seeds = random::seeds(usual);
    let count = seeds.end - seeds.start;
    for seed in seeds {
        let told = run(&functions, seed, width, None).unwrap_or_else(|broken| panic!("{broken}"));
        sum.calls += told.calls;
        told.outcomes.into_iter().for_each(|(word, count)| *sum.outcomes.entry(word).or_default() += count);
        told.notes.into_iter().for_each(|(word, count)| *sum.notes.entry(word).or_default() += count);
    }
    let seconds = start.elapsed().as_secs_f64();
    println!("{count} seeds in {seconds:.1} s, {:.1} a second; {} calls", count as f64 / seconds, sum.calls);
    println!("{:#?}\n{:#?}", sum.outcomes, sum.notes);
}

#[test]
fn two_nodes_and_older_copies() {
    all(Width::Small, 100);
}

#[test]
fn many_nodes_and_all_faults() {
    all(Width::Wide, 100);
}

/// Faults of the functions: a name, a place that is there once, and what is planted there.
const OF_FUNCTIONS: [(&str, &str, &str); 11] = [
    ("a listing is taken away and not remembered", "set(call, 'gone', call.server .. ':' .. listing, '+inf')", ""),
    (
        "a vote that is replaced is not taken away",
        "take_vote_away(call, address, held)\n  end\n  local said",
        "end\n  local said",
    ),
    (
        "what was cancelled is taken back",
        "is_listing_gone(call, listing) or is_vote_gone(call, address, t)",
        "is_listing_gone(call, listing)",
    ),
    (
        "votes of a listing that was taken away are taken back",
        "is_listing_gone(call, listing) or is_vote_gone(call, address, t)",
        "is_vote_gone(call, address, t)",
    ),
    (
        "two histories are told apart by names alone",
        "return fields[3] == 'b' and fields[4] == bits",
        "return fields[3] == 'b'",
    ),
    ("a change is made though the store lost something", "if not holds(log, call.last, last) then", "if false then"),
    ("a call is made however late it comes", "now_ms > tonumber(until_ms)", "false"),
    ("a cancellation ends another vote", "if not held or text(held) ~= said then", "if not held then"),
    ("stamps go by the clock", "(math.floor(known / STAMP_STEP) + 1) * STAMP_STEP", "0"),
    ("an entry does not tell of a removal", "tell(call, call.server, 'x', listing)", ""),
    ("an entry does not tell of a cancellation", "tell(call, call.server, 'c', address .. ':' .. said)", ""),
];

/// Seeds in which a planted fault has to be found, unless `TEST_SEEDS` says another number.
const SEEDS: u64 = 2_000;

#[test]
#[ignore = "takes minutes"]
fn each_planted_fault_is_found() {
    let right = Functions::load(CODE).expect("it loads");
    let wanted = std::env::var("TEST_PLANT").unwrap_or_default();
    let seeds = std::env::var("TEST_SEEDS").map_or(SEEDS, |seeds| seeds.parse().expect("a number"));
    let mut missed = Vec::new();
    let mut search = |name: String, functions: &Functions, plant| {
        if !name.contains(&wanted) {
            return;
        }
        let start = Instant::now();
        let found = random::seeds(seeds).find_map(|seed| run(functions, seed, Width::Wide, plant).err());
        println!("{name}: {:.0} s: {}", start.elapsed().as_secs_f64(), found.as_deref().unwrap_or("missed"));
        missed.extend(found.is_none().then_some(name));
    };
    for plant in Plant::ALL {
        search(format!("{plant:?}"), &right, Some(plant));
    }
    for (name, place, instead) in OF_FUNCTIONS {
        assert_eq!(CODE.matches(place).count(), 1, "a fault has lost its place: {place}");
        let functions = Functions::load(&CODE.replace(place, instead)).expect("it loads");
        search(name.to_owned(), &functions, None);
    }
    assert!(missed.is_empty(), "{missed:?}");
}
