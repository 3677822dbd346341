//! Situations alone: the code keeps all promises in each, and a planted fault breaks one.

use crate::events::Situation;
use crate::random::seeds;
use crate::run::staged;
use vote_status_nodes::functions::{CODE, Functions};

/// The number of seeds: at least one of them draws the details that matter.
const SEEDS: u64 = 40;

/// Situations, each with a fault of the functions that breaks a promise in it: the text at a place, and the text in its stead.
const STAGED: [(Situation, &str, &str); 2] = [
    (Situation::OneName, "return fields[3] == 'b' and fields[4] == bits", "return fields[3] == 'b'"),
    (Situation::LateGift, "return 'ended', now", "return 'gone', now"),
];

#[test]
fn a_situation_alone_finds_its_fault() {
    let right = Functions::load(CODE).expect("it loads");
    let (seeds, is_one) = (seeds(SEEDS), std::env::var_os("TEST_SEED").is_some());
    for (situation, place, instead) in STAGED {
        assert_eq!(CODE.matches(place).count(), 1, "a fault has lost its place: {place}");
        let planted = Functions::load(&CODE.replace(place, instead)).expect("it loads");
        let mut found = Vec::new();
        for seed in seeds.clone() {
            staged(&right, seed, situation).unwrap_or_else(|broken| panic!("{situation:?}: {broken}"));
            found.extend(staged(&planted, seed, situation).err());
        }
        println!(
            "{situation:?}: {} of seeds {seeds:?}: {}",
            found.len(),
            found.first().map_or("missed", String::as_str)
        );
        assert!(is_one || !found.is_empty(), "{situation:?} does not find its fault");
    }
}
