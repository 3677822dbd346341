//! Secrets from the system's generator, and numbers that need not be secret. Knows nothing of what they are for.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 unpredictable bits.
///
/// # Errors
/// Where the system gives no bits, or not all of them.
pub fn bits() -> io::Result<[u8; 16]> {
    let mut bits = [0; 16];
    let count = retry_on_intr(|| getrandom(&mut bits, GetRandomFlags::empty()))?;
    if count < bits.len() {
        return Err(io::Error::other(format!("{count} bytes of {}", bits.len())));
    }
    Ok(bits)
}

/// A number that no other process has. It is no secret: only the standard library's own seed has a part in it.
#[must_use]
pub fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

#[cfg(test)]
mod tests {
    use super::{bits, number};

    #[test]
    fn numbers_differ() {
        let drawn: std::collections::BTreeSet<_> = (0..100).map(|_| number()).collect();
        assert_eq!(drawn.len(), 100);
    }

    /// A part of the bits that is never filled, or filled from the time, would have bits that stay the same.
    #[test]
    fn every_bit_varies() {
        let drawn: Vec<u128> =
            (0..200).map(|_| u128::from_be_bytes(bits().expect("the system has a generator"))).collect();
        assert_eq!(drawn.iter().fold(0, |ones, bits| ones | bits), u128::MAX, "some are never 1");
        assert_eq!(drawn.iter().fold(u128::MAX, |zeros, bits| zeros & bits), 0, "some are never 0");
        assert_eq!(drawn.iter().collect::<std::collections::BTreeSet<_>>().len(), drawn.len(), "two are the same");
    }
}
