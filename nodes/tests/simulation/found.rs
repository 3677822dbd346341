//! The simulation's own test: it finds single faults of a node and of the functions, planted one at a time.
//!
//! Each fault has the first seed that finds it, of 2,000. `VOTE_STATUS_TEST_LONG` looks for all of them with the seeds of the run
//! instead, and may miss rare ones. `TEST_PLANT` is a part of the names of those that are looked for.

use crate::plants::Plant;
use crate::random::seeds;
use crate::run::{Width, run};
use std::env::{var, var_os};
use std::ops::Range;
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};

/// Faults of a node, and of what passes between it and the store.
const OF_NODES: [(Plant, u64); 18] = [
    (Plant::NoTerm, 92),
    (Plant::NoLast, 545),
    (Plant::AlwaysHeld, 0),
    (Plant::OwesNothing, 1),
    (Plant::WaitsForNobody, 127),
    (Plant::CancelsWhatStands, 16),
    (Plant::RemovesWhatStands, 16),
    (Plant::ListsOverWhatStands, 3),
    (Plant::GoneIsNotRead, 0),
    (Plant::NothingGoneIsGiven, 0),
    (Plant::NoServerIsGiven, 1),
    (Plant::NoVoteIsGiven, 0),
    (Plant::LastIsNotGiven, 0),
    (Plant::TimeIsAhead, 0),
    (Plant::ShortSilence, 136),
    (Plant::VoteIsNotFound, 0),
    (Plant::ServersAreMissing, 0),
    (Plant::EntryIsEmpty, 2),
];

/// Faults of the functions: a name, the seed, a place that is there once, and what is planted there.
const OF_FUNCTIONS: [(&str, u64, &str, &str); 11] = [
    ("a listing is taken away and not remembered", 0, "set(call, 'gone', call.server .. ':' .. listing, '+inf')", ""),
    (
        "what was cancelled is taken back",
        60,
        "elseif t <= gone_until(call, address) then\n    return 'gone', now\n  ",
        "",
    ),
    (
        "votes of any listing are taken back",
        2,
        "elseif is_listing_gone(call, listing) then\n    return 'ended', now\n  \
         elseif t <= gone_until(call, address) then\n    return 'gone', now\n  \
         elseif not is_of_present then\n    return 'unlisted', now\n",
        "elseif t <= gone_until(call, address) then\n    return 'gone', now\n",
    ),
    ("a vote whose listing was taken away counts as cancelled", 2, "return 'ended', now", "return 'gone', now"),
    (
        "two histories are told apart by names alone",
        19,
        "return fields[3] == 'b' and fields[4] == bits",
        "return fields[3] == 'b'",
    ),
    (
        "a change is made though the store lost something",
        545,
        "if not holds(log, call.last, last, held[6]) then",
        "if false then",
    ),
    ("a call is made however late it comes", 92, "now_ms > tonumber(until_ms)", "false"),
    ("a cancellation ends another vote", 5, "if not held or text(held) ~= said then", "if not held then"),
    ("stamps go by the clock", 5, "(math.floor(known / STAMP_STEP) + 1) * STAMP_STEP", "0"),
    ("an entry does not tell of a removal", 0, "tell(call, call.server, 'x', listing)", ""),
    ("an entry does not tell of a cancellation", 0, "tell(call, call.server, 'c', address .. ':' .. text(t))", ""),
];

/// A change of the simulation draws other runs: then one of so many seeds from the named one on finds the fault.
const NEAR: u64 = 20;
/// Seeds of a run that looks for each fault.
const LONG: u64 = 2_000;
/// A fault that takes more seeds than this is rare.
const RARE: u64 = 100;

/// The first of these seeds that fails with the fault, and not without it.
fn found(right: &Functions, functions: &Functions, plant: Option<Plant>, mut seeds: Range<u64>) -> Option<String> {
    seeds.find_map(|seed| {
        let broken = run(functions, seed, Width::Wide, plant).err()?;
        run(right, seed, Width::Wide, None).is_ok().then_some(broken)
    })
}

#[test]
fn each_planted_fault_is_found() {
    let right = Functions::load(CODE).expect("it loads");
    let (wanted, is_long) = (var("TEST_PLANT").unwrap_or_default(), var_os("VOTE_STATUS_TEST_LONG").is_some());
    let (mut tried, mut missed) = (0, Vec::new());
    let mut search = |name: &str, functions: &Functions, plant, seed: u64| {
        if !name.contains(&wanted) {
            return;
        }
        let seeds = if is_long { seeds(LONG) } else { seed..seed + NEAR };
        let began = Instant::now();
        let found = found(&right, functions, plant, seeds);
        println!("{name}: {:.1} s: {}", began.elapsed().as_secs_f64(), found.as_deref().unwrap_or("missed"));
        tried += 1;
        let may_miss = is_long && seed > RARE;
        missed.extend((found.is_none() && !may_miss).then(|| name.to_owned()));
    };
    for (plant, seed) in OF_NODES {
        search(&format!("{plant:?}"), &right, Some(plant), seed);
    }
    for (name, seed, place, instead) in OF_FUNCTIONS {
        assert_eq!(CODE.matches(place).count(), 1, "a fault has lost its place: {place}");
        let functions = Functions::load(&CODE.replace(place, instead)).expect("it loads");
        search(name, &functions, None, seed);
    }
    assert!(tried > 0, "no fault was tried");
    assert!(missed.is_empty(), "of {tried} faults, these were not found: {missed:?}");
    println!("{tried} faults tried, none missed but rare ones");
}
