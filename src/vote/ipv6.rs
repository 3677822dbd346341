//! The network that an IPv6 address stands for, and the spellings of an address. A host changes the
//! second half of its address at will (RFC 8981), so a vote is the network's.

use std::fmt;
use std::net::Ipv6Addr;

use super::ipv4::Ipv4;

/// The first 64 bits of an IPv6 address, the first group in the highest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ipv6Network(pub u64);

/// How many leading bits of an IPv6 address tell one voter from another: 32 to 64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv6Prefix(u8);

impl Ipv6Prefix {
    /// Fewest bits: what a provider is given as a whole.
    pub const BITS_MIN: u8 = 32;
    /// Most bits: the network of a single household or host.
    pub const BITS_MAX: u8 = 64;
    /// The prefix where none is given.
    pub const USUAL: Self = Self(Self::BITS_MAX);

    /// A prefix of so many bits, or `None` outside 32 to 64.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits >= Self::BITS_MIN && bits <= Self::BITS_MAX { Some(Self(bits)) } else { None }
    }

    /// How many bits it has.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// A mask of the bits that count.
    #[must_use]
    pub const fn mask(self) -> u64 {
        u64::MAX << (Self::BITS_MAX - self.0)
    }
}

impl fmt::Display for Ipv6Network {
    /// As RFC 5952 spells the network's first address.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from_bits(u128::from(self.0) << 64).fmt(formatter)
    }
}

/// Reads an IPv6 address that is all of `text`, in any form of RFC 4291, 2.2: eight groups of up to four
/// hexadecimal digits in either case, `::` once for one or more groups of zeros, and a dotted quad in
/// place of the last two groups. No brackets, no zone, no prefix length.
#[must_use]
pub fn parse(text: &[u8]) -> Option<u128> {
    const GROUPS: u32 = 8;
    // Groups are shifted in from the right. Those before `::` are moved to the left at the end.
    let (mut bits, mut groups) = (0_u128, 0);
    let mut groups_before_gap = None;
    let mut rest = text;
    if let Some(after) = text.strip_prefix(b"::") {
        groups_before_gap = Some(0);
        rest = after;
    }
    // `::` may end the text, a single `:` may not.
    while !(rest.is_empty() && groups_before_gap == Some(groups)) {
        if groups == GROUPS {
            return None;
        }
        if let Some(quad) = Ipv4::parse(rest) {
            bits = bits << 32 | u128::from(quad.0);
            groups += 2;
            break;
        }
        let (group, digits) = hex_group(rest)?;
        bits = bits << 16 | u128::from(group);
        groups += 1;
        rest = match &rest[digits..] {
            [] => break,
            [b':', b':', after @ ..] if groups_before_gap.is_none() => {
                groups_before_gap = Some(groups);
                after
            }
            [b':', after @ ..] => after,
            _ => return None,
        };
    }
    match groups_before_gap {
        None => (groups == GROUPS).then_some(bits),
        Some(before) if groups < GROUPS => {
            let bits_after = 16 * (groups - before);
            let after = bits & ((1 << bits_after) - 1);
            // All 128 bits are shifted out where nothing stands before `::`.
            let moved = (bits >> bits_after).checked_shl(16 * (GROUPS - before)).unwrap_or(0);
            Some(moved | after)
        }
        Some(_) => None,
    }
}

/// One to four hexadecimal digits at the start of `text`: their value, and how many there are.
fn hex_group(text: &[u8]) -> Option<(u16, usize)> {
    let (mut group, mut digits) = (0, 0);
    for byte in text.iter().take(4) {
        let Some(digit) = char::from(*byte).to_digit(16) else { break };
        group = group << 4 | digit as u16;
        digits += 1;
    }
    (digits > 0).then_some((group, digits))
}

#[cfg(test)]
mod tests {
    use super::{Ipv6Network, Ipv6Prefix, parse};
    use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};
    use std::net::Ipv6Addr;

    fn std_parse(text: &[u8]) -> Option<u128> {
        std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits)
    }

    #[test]
    fn spellings() {
        for (text, expected) in [
            ("::", Some(0)),
            ("::1", Some(1)),
            ("1::", Some(1 << 112)),
            ("2001:db8::7", Some(0x2001_0db8_0000_0000_0000_0000_0000_0007)),
            ("2001:0DB8:0:0:0:0:0:07", Some(0x2001_0db8_0000_0000_0000_0000_0000_0007)),
            ("1:2:3:4:5:6:7::", Some(0x0001_0002_0003_0004_0005_0006_0007_0000)),
            ("::2:3:4:5:6:7:8", Some(0x0000_0002_0003_0004_0005_0006_0007_0008)),
            ("1:2:3:4:5:6:7:8", Some(0x0001_0002_0003_0004_0005_0006_0007_0008)),
            ("1:2:3::6:7:8", Some(0x0001_0002_0003_0000_0000_0006_0007_0008)),
            ("64:ff9b::203.0.113.7", Some(0x0064_ff9b_0000_0000_0000_0000_cb00_7107)),
            ("1:2:3:4:5:6:203.0.113.7", Some(0x0001_0002_0003_0004_0005_0006_cb00_7107)),
            ("::ffff:203.0.113.7", Some(0xffff_cb00_7107)),
            ("", None),
            (":", None),
            (":::", None),
            ("1", None),
            ("1:", None),
            (":1::", None),
            ("1::2:", None),
            ("1::2::3", None),
            ("1:::2", None),
            ("12345::", None),
            ("::00001", None),
            ("::g", None),
            ("1:2:3:4:5:6:7", None),
            ("1:2:3:4:5:6:7:8:9", None),
            ("1:2:3:4::5:6:7:8", None),
            ("1:2:3:4:5:6:7:8::", None),
            ("1:2:3:4:5:6:7:203.0.113.7", None),
            ("1:2:3:4:5:6::203.0.113.7", None),
            ("203.0.113.7::", None),
            ("::203.0.113.7:1", None),
            ("::203.0.113.07", None),
            ("203.0.113.7", None),
            ("[::1]", None),
            ("fe80::1%1", None),
            ("2001:db8::/64", None),
            ("::1 ", None),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_network_is_spelled_as_in_rfc_5952() {
        for (network, text) in [
            (0, "::"),
            (0x2001_0db8_0000_0000, "2001:db8::"),
            (0x2001_0db8_0000_0001, "2001:db8:0:1::"),
            (0x0000_0000_0001_0002, "0:0:1:2::"),
            (0xABCD_0EF0_0000_0001, "abcd:ef0:0:1::"),
        ] {
            assert_eq!(Ipv6Network(network).to_string(), text);
        }
    }

    #[test]
    fn a_prefix_is_from_32_to_64_bits() {
        let masks = [31, 32, 48, 63, 64, 65].map(|bits| Ipv6Prefix::from_bits(bits).map(Ipv6Prefix::mask));
        let of = |mask| Some(mask);
        assert_eq!(
            masks,
            [None, of(0xFFFF_FFFF_0000_0000), of(0xFFFF_FFFF_FFFF_0000), of(u64::MAX - 1), of(u64::MAX), None]
        );
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_parse_as_in_the_standard_library(bytes: Vec<u8>) {
            prop_assert_eq!(parse(&bytes), std_parse(&bytes));
        }

        #[test]
        fn near_misses_parse_as_in_the_standard_library(
            text in prop_oneof![
                "(::?)?([0-9a-fA-F]{1,4}::?){0,8}([0-9a-fA-F]{1,5}|[0-9]{1,3}(\\.[0-9]{1,3}){3})?[ %:./]?",
                "([0f]{0,5}:){6,7}([0f]{0,5}|0\\.1\\.2\\.[0-9]{1,4})",
                "[0-9a-fA-F:.]{0,40}",
            ],
        ) {
            prop_assert_eq!(parse(text.as_bytes()), std_parse(text.as_bytes()), "{}", text);
        }

        /// Every way to write eight groups: any run of zeros may be left out, the last two may be a quad.
        #[test]
        fn every_spelling_of_an_address_is_that_address(
            groups in any::<[u16; 8]>(),
            zeros in (0_usize..8, 0_usize..=8),
            padding in 1_usize..=4,
            has_quad: bool,
            is_upper: bool,
        ) {
            let mut groups = groups;
            let (from, to) = (zeros.0, (zeros.0 + zeros.1).min(if has_quad { 6 } else { 8 }));
            if from < to {
                groups[from..to].fill(0);
            }
            let bits = groups.iter().fold(0_u128, |bits, group| bits << 16 | u128::from(*group));
            let plain = if has_quad { 6 } else { 8 };
            let group = |group: &u16| format!("{group:0padding$x}");
            let mut words: Vec<String> = groups[..plain].iter().map(group).collect();
            if has_quad {
                let [high, low] = [groups[6].to_be_bytes(), groups[7].to_be_bytes()];
                words.push(format!("{}.{}.{}.{}", high[0], high[1], low[0], low[1]));
            }
            let text = if from < to {
                format!("{}::{}", words[..from].join(":"), words[to..].join(":"))
            } else {
                words.join(":")
            };
            let text = if is_upper { text.to_ascii_uppercase() } else { text };
            prop_assert_eq!(parse(text.as_bytes()), Some(bits), "{}", text);
        }

        #[test]
        fn every_network_survives_printing(bits: u64) {
            let address = parse(Ipv6Network(bits).to_string().as_bytes());
            prop_assert_eq!(address, Some(u128::from(bits) << 64));
        }
    }
}
