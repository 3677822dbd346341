//! Cuts bytes into segments. The bytes themselves decide how, so an input that fails fails again.
//! Knows nothing of the meaning of the bytes.

/// A stream of choices that the data and a salt decide.
pub struct Choices(u64);

impl Choices {
    /// The choices for this data; another salt gives others.
    #[must_use]
    pub fn of(data: &[u8], salt: u64) -> Self {
        let offset = 0xcbf2_9ce4_8422_2325 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let hash = data.iter().fold(offset, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
        Self(hash | 1)
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    /// One of `items`, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The data in one piece.
pub fn whole(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::once(data)
}

/// The data byte by byte.
pub fn bytewise(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.chunks(1)
}

/// The data in segments of many lengths: tiny ones in some runs, large ones in others.
pub fn segments(data: &[u8], salt: u64) -> impl Iterator<Item = &[u8]> {
    let mut choices = Choices::of(data, salt);
    let longest = choices.pick(&[2, 7, 40, 300, 2_000]);
    let mut rest = data;
    std::iter::from_fn(move || {
        let length = (1 + choices.below(longest)).min(rest.len());
        let (segment, after) = rest.split_at(length);
        rest = after;
        (length > 0).then_some(segment)
    })
}

#[cfg(test)]
mod tests {
    use super::segments;

    #[test]
    fn segments_are_the_data_and_no_two_salts_cut_alike() {
        let data: Vec<u8> = (0..=255).collect();
        let cut = |salt| segments(&data, salt).map(<[u8]>::to_vec).collect::<Vec<_>>();
        for salt in 0..8 {
            assert_eq!(cut(salt).concat(), data);
            assert_eq!(cut(salt), cut(salt));
            assert_ne!(cut(salt), cut(salt + 1));
        }
        assert_eq!(segments(b"", 0).count(), 0);
    }
}
