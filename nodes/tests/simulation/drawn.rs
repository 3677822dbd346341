//! No run of a seed breaks a promise.

use crate::random::seeds;
use crate::run::{Told, Width, run};
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};

/// Seeds of each width: with the planted faults, all take a minute of one processor.
const SEEDS: u64 = 300;

fn all(width: Width) {
    let functions = Functions::load(CODE).expect("it loads");
    let (seeds, began, mut sum) = (seeds(SEEDS), Instant::now(), Told::default());
    for seed in seeds.clone() {
        let told = run(&functions, seed, width, None).unwrap_or_else(|broken| panic!("{broken}"));
        sum.calls += told.calls;
        told.outcomes.into_iter().for_each(|(word, count)| *sum.outcomes.entry(word).or_default() += count);
        told.notes.into_iter().for_each(|(word, count)| *sum.notes.entry(word).or_default() += count);
    }
    println!("{:#?}\n{:#?}", sum.outcomes, sum.notes);
    println!("seeds {seeds:?}, {} calls, no promise broken, {:.1} s", sum.calls, began.elapsed().as_secs_f64());
}

#[test]
fn two_nodes_and_older_copies() {
    all(Width::Small);
}

#[test]
fn many_nodes_and_all_faults() {
    all(Width::Wide);
}
