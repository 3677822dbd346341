//! A voter's address, of either family, as votes and questions name it.

use std::fmt;
use std::net::Ipv6Addr;

use super::ipv4::{Ipv4, trim_blanks};
use super::ipv6::{Ipv6Network, ipv4_of};

/// Longest text of an IPv6 address: eight groups, the last two as a dotted quad.
const IPV6_CHARS_MAX: usize = "ffff:ffff:ffff:ffff:ffff:ffff:255.255.255.255".len();

/// An address as it tells one voter from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoterAddress {
    /// An IPv4 address, or an IPv6 address that stands for one.
    V4(Ipv4),
    /// An IPv6 address, as its network.
    V6(Ipv6Network),
}

impl VoterAddress {
    /// Reads an address that is all of `text`: a dotted quad, or any form of RFC 4291 without brackets, zone and
    /// prefix length. Mapped and translated forms mean their IPv4 address.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let Some(address) = Ipv4::parse(text) {
            return Some(Self::V4(address));
        }
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() <= IPV6_CHARS_MAX)?;
        let bits = text.parse::<Ipv6Addr>().ok()?.to_bits();
        Some(ipv4_of(bits).map_or(Self::V6(Ipv6Network((bits >> 64) as u64)), Self::V4))
    }

    /// Reads the contract's `ipUser` after percent-decoding: blanks around it are dropped.
    #[must_use]
    pub fn parse_user(text: &[u8]) -> Option<Self> {
        Self::parse(trim_blanks(text))
    }
}

impl fmt::Display for VoterAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::V4(address) => address.fmt(formatter),
            Self::V6(network) => network.fmt(formatter),
        }
    }
}

/// The addresses that one voter was seen with: from 1 to 8, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voter {
    first: VoterAddress,
    /// Empty for nearly every voter, and then it takes no memory of its own.
    others: Box<[VoterAddress]>,
}

impl Voter {
    /// Most addresses of one voter (contract).
    pub const ADDRESSES_MAX: usize = 8;

    /// A voter of these addresses; a repeated one counts once. `None` for no address, or too many.
    #[must_use]
    pub fn new(addresses: &[VoterAddress]) -> Option<Self> {
        if addresses.len() > Self::ADDRESSES_MAX {
            return None;
        }
        let (first, rest) = addresses.split_first()?;
        let is_new = |at: usize| !addresses[..=at].contains(&addresses[at + 1]);
        let others = rest.iter().enumerate().filter(|(at, _)| is_new(*at)).map(|(_, address)| *address);
        Some(Self { first: *first, others: others.collect() })
    }

    /// The address that was named first.
    #[must_use]
    pub const fn first(&self) -> VoterAddress {
        self.first
    }

    /// All addresses, in the order in which they were named.
    pub fn addresses(&self) -> impl Iterator<Item = VoterAddress> + '_ {
        [self.first].into_iter().chain(self.others.iter().copied())
    }

    /// Number of addresses.
    #[must_use]
    pub const fn addresses_len(&self) -> usize {
        1 + self.others.len()
    }
}

impl From<VoterAddress> for Voter {
    fn from(first: VoterAddress) -> Self {
        Self { first, others: Box::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::{Voter, VoterAddress};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn spellings_of_both_families() {
        let v4 = Some(VoterAddress::V4(Ipv4(0xCB00_7107)));
        let v6 = |network| Some(VoterAddress::V6(Ipv6Network(network)));
        for (text, expected) in [
            (" \t203.0.113.7 \t", v4),
            ("::FFFF:cb00:7107", v4),
            (" 0000:0000:0000:0000:0000:FFFF:CB00:7107", v4),
            // Translated by SIIT and by NAT64.
            ("::ffff:0:203.0.113.7", v4),
            ("64:ff9b::203.0.113.7", v4),
            ("0064:FF9B:0:0:0:0:cb00:7107", v4),
            // None of these: other prefixes, or the ffff elsewhere.
            ("::203.0.113.7", v6(0)),
            ("::ffff:0:0:203.0.113.7", v6(0xffff)),
            ("::ffff:1:203.0.113.7", v6(0)),
            ("64:ff9b::1:203.0.113.7", v6(0x0064_ff9b_0000_0000)),
            ("64:ff9b:1::203.0.113.7", v6(0x0064_ff9b_0001_0000)),
            ("64:ff9b::1:0:0", v6(0x0064_ff9b_0000_0000)),
            ("64:ff9a::203.0.113.7", v6(0x0064_ff9a_0000_0000)),
            ("::1", v6(0)),
            ("1:2:3:4:5:6:7::", v6(0x0001_0002_0003_0004)),
            ("::2:3:4:5:6:7:8", v6(0x0000_0002_0003_0004)),
            ("0001:0002:0003:0004:0005:0006:203.000.113.007", None),
            ("0001:0002:0003:0004:0005:0006:203.100.113.107", v6(0x0001_0002_0003_0004)),
            ("2001:DB8:0:0:ffff::1", v6(0x2001_0db8_0000_0000)),
            ("\t2001:db8:1:2:3:4:5:6 ", v6(0x2001_0db8_0001_0002)),
            ("::ffff:203.0.113.07", None),
            ("[2001:db8::1]", None),
            ("fe80::1%eth0", None),
            ("", None),
            (" ", None),
        ] {
            assert_eq!(VoterAddress::parse_user(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_voter_has_from_one_to_eight_addresses_each_once() {
        let v4 = |number| VoterAddress::V4(Ipv4(number));
        let v6 = VoterAddress::V6(Ipv6Network(7));
        let addresses = |given: &[VoterAddress]| Voter::new(given).map(|voter| voter.addresses().collect::<Vec<_>>());
        assert_eq!(addresses(&[]), None);
        assert_eq!(addresses(&[v4(1)]), Some(vec![v4(1)]));
        assert_eq!(addresses(&[v4(1), v6, v4(1), v4(2), v6]), Some(vec![v4(1), v6, v4(2)]));
        let nine: Vec<_> = (0..9).map(v4).collect();
        assert_eq!(addresses(&nine[..8]).as_deref(), Some(&nine[..8]));
        assert_eq!(addresses(&nine), None);
        assert_eq!(Voter::new(&[v6]), Some(Voter::from(v6)));
    }

    proptest! {
        #[test]
        fn every_address_survives_printing(v4 in any::<u32>(), v6 in any::<u64>()) {
            for address in [VoterAddress::V4(Ipv4(v4)), VoterAddress::V6(Ipv6Network(v6))] {
                prop_assert_eq!(VoterAddress::parse(address.to_string().as_bytes()), Some(address));
            }
            for prefix in ["::ffff:", "::ffff:0:", "64:ff9b::"] {
                let text = format!("{prefix}{}", Ipv4(v4));
                prop_assert_eq!(VoterAddress::parse_user(text.as_bytes()), Some(VoterAddress::V4(Ipv4(v4))));
            }
            let around = VoterAddress::V6(Ipv6Network(0x0064_FF9B_0000_0000));
            prop_assert_eq!(VoterAddress::parse(around.to_string().as_bytes()), Some(around));
        }
    }
}
