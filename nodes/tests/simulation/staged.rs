//! Situations alone: the code keeps all promises in each, and a planted fault breaks one.

use crate::events::Situation;
use crate::plants::Plant;
use crate::random::seeds;
use crate::run::staged;
use vote_status_nodes::functions::{CODE, Functions};

/// The number of seeds: at least one of them draws the details that matter.
const SEEDS: u64 = 40;

/// A fault that breaks a promise.
enum Planted {
    /// Of the functions: the text at a place, and the text in its stead.
    Functions(&'static str, &'static str),
    /// Of a node.
    Node(Plant),
}

/// Situations, each with a fault that breaks a promise in it.
const STAGED: [(Situation, Planted); 3] = [
    (
        Situation::OneName,
        Planted::Functions("return fields[3] == 'b' and fields[4] == bits", "return fields[3] == 'b'"),
    ),
    (Situation::LateGift, Planted::Functions("return 'ended', now", "return 'gone', now")),
    (Situation::Moved, Planted::Node(Plant::OneProcess)),
];

#[test]
fn a_situation_alone_finds_its_fault() {
    let right = Functions::load(CODE).expect("it loads");
    let (seeds, is_one) = (seeds(SEEDS), std::env::var_os("TEST_SEED").is_some());
    for (situation, planted) in STAGED {
        let (code, plant) = match planted {
            Planted::Functions(place, instead) => {
                assert_eq!(CODE.matches(place).count(), 1, "a fault has lost its place: {place}");
                (CODE.replace(place, instead), None)
            }
            Planted::Node(plant) => (CODE.to_owned(), Some(plant)),
        };
        let functions = Functions::load(&code).expect("it loads");
        let mut found = Vec::new();
        for seed in seeds.clone() {
            staged(&right, seed, situation, None).unwrap_or_else(|broken| panic!("{situation:?}: {broken}"));
            found.extend(staged(&functions, seed, situation, plant).err());
        }
        println!(
            "{situation:?}: {} of seeds {seeds:?}: {}",
            found.len(),
            found.first().map_or("missed", String::as_str)
        );
        assert!(is_one || !found.is_empty(), "{situation:?} does not find its fault");
    }
}
