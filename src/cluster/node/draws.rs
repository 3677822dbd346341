//! The random numbers of a machine that has no source of its own.

/// Numbers that follow from the caller's seed, so a simulation can repeat them. SplitMix64 (Steele, Lea and Flood, 2014), once
/// for each half of the seed.
#[derive(Debug)]
pub(super) struct Draws([u64; 2]);

impl Draws {
    pub(super) const fn of(seed: [u64; 2]) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> i64 {
        let mut mixed = 0;
        for state in &mut self.0 {
            *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut next = *state;
            next = (next ^ (next >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            next = (next ^ (next >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^= next ^ (next >> 31);
            mixed = mixed.rotate_left(23);
        }
        mixed.cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use super::Draws;

    /// The first three numbers of SplitMix64 with the seed 1234567, as its authors' program prints them, are
    /// 6457827717110365317, 3203168211198807973 and 9817491932198370423. The second half begins at 0.
    #[test]
    fn the_numbers_are_those_of_splitmix64() {
        const OF_1234567: [u64; 3] = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        const OF_0: [u64; 3] = [0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4, 0x06c4_5d18_8009_454f];
        let mut draws = Draws::of([1_234_567, 0]);
        for (first, second) in OF_1234567.into_iter().zip(OF_0) {
            let expected = (first.rotate_left(23) ^ second).rotate_left(23);
            assert_eq!(draws.next(), expected.cast_signed());
        }
    }
}
