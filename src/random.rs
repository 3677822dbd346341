//! Secrets from the system's generator. Knows nothing of what they are for.

use std::io;

use rustix::io::retry_on_intr;
use rustix::rand::{GetRandomFlags, getrandom};

/// 128 bits that nobody can foresee.
///
/// # Errors
/// Where the system gives none, or not all of them.
pub fn bits() -> io::Result<[u8; 16]> {
    let mut bits = [0; 16];
    let count = retry_on_intr(|| getrandom(&mut bits, GetRandomFlags::empty()))?;
    if count < bits.len() {
        return Err(io::Error::other(format!("{count} bytes of {}", bits.len())));
    }
    Ok(bits)
}

#[cfg(test)]
mod tests {
    use super::bits;

    #[test]
    fn no_two_are_the_same() {
        let first = bits().expect("the system has a generator");
        assert_ne!(first, bits().expect("the system has a generator"));
        assert!(first.iter().any(|byte| *byte != 0));
    }
}
