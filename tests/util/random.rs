//! A small seeded generator (splitmix64), so that a failing run can be repeated.

use std::time::{SystemTime, UNIX_EPOCH};

/// The environment variable that sets the seed.
const SEED: &str = "TEST_SEED";

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// Seeds from `TEST_SEED`, or else from the clock. Prints the seed, which the test harness
    /// shows with a failure.
    pub(crate) fn from_environment() -> Random {
        let seed = match std::env::var(SEED) {
            Ok(seed) => seed.parse().expect("TEST_SEED is a number"),
            Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| u64::from(since.subsec_nanos())),
        };
        println!("{SEED}={seed}");
        Random { state: seed }
    }

    /// Seeds from `seed`, a number of another stream.
    pub(crate) fn seeded(seed: u64) -> Random {
        Random { state: seed }
    }

    /// The next number.
    pub(crate) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a usize fits");
        usize::try_from(self.next() % bound).expect("below a usize")
    }

    /// One of `items`.
    pub(crate) fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }
}
