//! A packed IPv4 address, and the one spelling of it that the contract accepts.

use std::fmt;
use std::net::Ipv4Addr;

/// An IPv4 address packed into 32 bits, first part in the highest byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv4(pub u32);

impl Ipv4 {
    /// Reads a dotted quad from the start of `bytes`: four decimal parts from 0 to 255 without leading zeros (never
    /// `inet_aton`'s octal, hexadecimal or short forms). Gives the address and the number of bytes read; the caller
    /// judges the bytes that follow.
    #[must_use]
    #[inline]
    pub fn parse_prefix(bytes: &[u8]) -> Option<(Self, usize)> {
        let (first, mut at) = part(bytes, 0)?;
        let mut packed = first;
        for _ in 0..3 {
            if bytes.get(at) != Some(&b'.') {
                return None;
            }
            let (value, next) = part(bytes, at + 1)?;
            packed = packed << 8 | value;
            at = next;
        }
        Some((Self(packed), at))
    }

    /// Reads a dotted quad that is all of `bytes`.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        match Self::parse_prefix(bytes) {
            Some((address, used)) if used == bytes.len() => Some(address),
            _ => None,
        }
    }
}

impl fmt::Display for Ipv4 {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv4Addr::from_bits(self.0).fmt(formatter)
    }
}

/// One decimal part from `at`: its value and where it ends.
#[inline]
fn part(bytes: &[u8], at: usize) -> Option<(u32, usize)> {
    let first = digit(bytes, at)?;
    let Some(second) = digit(bytes, at + 1) else { return Some((first, at + 1)) };
    if first == 0 {
        return None;
    }
    let two = first * 10 + second;
    let Some(third) = digit(bytes, at + 2) else { return Some((two, at + 2)) };
    let three = two * 10 + third;
    (three <= 255).then_some((three, at + 3))
}

#[inline]
fn digit(bytes: &[u8], at: usize) -> Option<u32> {
    let value = bytes.get(at)?.wrapping_sub(b'0');
    (value <= 9).then_some(u32::from(value))
}

/// Without the spaces and tabs at both ends.
#[must_use]
pub fn trim_blanks(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::Ipv4;
    use proptest::prelude::{prop_assert_eq, proptest};
    use std::net::Ipv4Addr;

    fn std_parse(bytes: &[u8]) -> Option<Ipv4> {
        std::str::from_utf8(bytes).ok()?.parse::<Ipv4Addr>().ok().map(|address| Ipv4(address.to_bits()))
    }

    proptest! {
        #[test]
        fn near_misses_parse_as_in_the_standard_library(text in "[0-9]{0,4}(\\.[0-9]{0,4}){2,4}[ .0-9a-f:]?") {
            prop_assert_eq!(Ipv4::parse(text.as_bytes()), std_parse(text.as_bytes()));
        }
    }
}
