//! A small seeded generator (splitmix64), and the seeds of a run.

use std::env::var;
use std::ops::Range;

/// A stream of numbers that follows from its seed.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    pub(crate) const fn seeded(seed: u64) -> Self {
        Self { state: seed }
    }

    pub(crate) const fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`, which is not 0.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// True in `percent` of 100 cases.
    pub(crate) const fn is(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    /// One of `items`.
    pub(crate) fn pick<'a, T: ?Sized>(&mut self, items: &[&'a T]) -> &'a T {
        let at = self.below(u64::try_from(items.len()).expect("few"));
        items[usize::try_from(at).expect("few")]
    }
}

/// The seeds of a run: the one of `TEST_SEED`, or else `usual` seeds from `VOTE_STATUS_SIMULATION_FROM` (0) on, as many times
/// more as `VOTE_STATUS_TEST_ROUNDS`.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| var(name).ok().map(|number| number.parse::<u64>().expect("a number"));
    let from = number("VOTE_STATUS_SIMULATION_FROM").unwrap_or(0);
    match number("TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => from..from + usual * number("VOTE_STATUS_TEST_ROUNDS").unwrap_or(1),
    }
}
