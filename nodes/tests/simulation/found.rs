//! The test of the simulation: it finds single faults of a node and of the functions, planted one at a time.
//!
//! Each fault has the first of 2,000 seeds that finds it. `VOTE_STATUS_TEST_LONG` looks for all faults with the seeds of the run
//! instead, and may miss rare ones. `TEST_PLANT` limits the search to faults with this text in their names.

use crate::plants::Plant;
use crate::random::seeds;
use crate::run::{Width, run};
use std::env::{var, var_os};
use std::ops::Range;
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};

/// Faults of a node, and of the messages between it and the store.
const OF_NODES: [(Plant, u64); 18] = [
    (Plant::NoTerm, 346),
    (Plant::NoLast, 4),
    (Plant::AlwaysHeld, 0),
    (Plant::OwesNothing, 1),
    (Plant::WaitsForNobody, 127),
    (Plant::CancelsWhatStands, 16),
    (Plant::RemovesWhatStands, 16),
    (Plant::ListsOverWhatStands, 30),
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

/// Faults of the functions: a name, the seed, the text at a place that is there once, and the text in its stead.
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
        4,
        "if not holds(log, call.last, last, held[6]) then",
        "if false then",
    ),
    ("a call is made however late it comes", 346, "now_ms > tonumber(until_ms)", "false"),
    ("a cancellation ends another vote", 5, "if not held or text(held) ~= said then", "if not held then"),
    ("stamps go by the clock", 5, "(math.floor(known / STAMP_STEP) + 1) * STAMP_STEP", "0"),
    ("an entry does not tell of a removal", 0, "tell(call, call.server, 'x', listing)", ""),
    ("an entry does not tell of a cancellation", 0, "tell(call, call.server, 'c', address .. ':' .. text(t))", ""),
];

/// The number of seeds, from the named one on, of which one has to find the fault: a change of the simulation draws other runs.
const NEAR: u64 = 20;
/// The number of seeds of a long search.
const LONG: u64 = 2_000;
/// The number of seeds above which a fault is rare.
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
