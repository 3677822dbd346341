//! The voter that an IPv6 address stands for: its network, because a host changes the second half of its address at
//! will (RFC 8981), or an IPv4 address.

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
    /// Fewest bits: the network that a provider gets as a whole.
    pub const BITS_MIN: u8 = 32;
    /// Most bits: the network of a single household or host.
    pub const BITS_MAX: u8 = 64;
    /// The default prefix.
    pub const USUAL: Self = Self(Self::BITS_MAX);

    /// A prefix of this many bits, or `None` outside 32 to 64.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits >= Self::BITS_MIN && bits <= Self::BITS_MAX { Some(Self(bits)) } else { None }
    }

    /// The number of bits.
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
    /// Prints the network's first address that stands for no IPv4 address, as RFC 5952 spells it. Reading it gives this
    /// network again.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let first = u128::from(self.0) << 64;
        let shown = if ipv4_of(first).is_some() { first | 1 << 32 } else { first };
        Ipv6Addr::from_bits(shown).fmt(formatter)
    }
}

/// The first 96 bits of the addresses that stand for an IPv4 address, which is in the other 32: mapped
/// (`::ffff:0:0/96`), translated by SIIT (`::ffff:0:0:0/96`), translated by NAT64 (`64:ff9b::/96`).
const IPV4_PREFIXES: [u128; 3] = [0xFFFF, 0xFFFF_0000, 0x0064_FF9B << 64];

/// The IPv4 address that an IPv6 address stands for, if any.
#[must_use]
pub fn ipv4_of(bits: u128) -> Option<Ipv4> {
    IPV4_PREFIXES.contains(&(bits >> 32)).then_some(Ipv4(bits as u32))
}

#[cfg(test)]
mod tests {
    use super::{Ipv6Network, Ipv6Prefix};

    #[test]
    fn a_network_is_spelled_as_in_rfc_5952() {
        for (network, text) in [
            (0, "::"),
            (0x2001_0db8_0000_0000, "2001:db8::"),
            (0x2001_0db8_0000_0001, "2001:db8:0:1::"),
            (0x0000_0000_0001_0002, "0:0:1:2::"),
            (0xABCD_0EF0_0000_0001, "abcd:ef0:0:1::"),
            // The network's first address would be read as 0.0.0.0 behind NAT64.
            (0x0064_FF9B_0000_0000, "64:ff9b::1:0:0"),
            (0x0064_FF9B_0001_0000, "64:ff9b:1::"),
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
}
