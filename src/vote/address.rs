//! A voter's address, of either family: what votes and questions are about.

use std::fmt;

use super::ipv4::{Ipv4, trim_blanks};
use super::ipv6::{self, Ipv6Network};

/// An address as it tells one voter from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VoterAddress {
    /// IPv4, or its mapped form in IPv6.
    V4(Ipv4),
    /// IPv6, for which its network stands.
    V6(Ipv6Network),
}

impl VoterAddress {
    /// Reads an address that is all of `text`: a dotted quad, or any form of RFC 4291, of which the
    /// IPv4-mapped ones mean that IPv4.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        if let Some(address) = Ipv4::parse(text) {
            return Some(Self::V4(address));
        }
        let bits = ipv6::parse(text)?;
        let is_mapped = bits >> 32 == 0xFFFF;
        Some(if is_mapped { Self::V4(Ipv4(bits as u32)) } else { Self::V6(Ipv6Network((bits >> 64) as u64)) })
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

#[cfg(test)]
mod tests {
    use super::VoterAddress;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use proptest::prelude::{any, prop_assert_eq, proptest};

    #[test]
    fn spellings_of_both_families() {
        let v4 = Some(VoterAddress::V4(Ipv4(0xCB00_7107)));
        let v6 = |network| Some(VoterAddress::V6(Ipv6Network(network)));
        for (text, expected) in [
            ("203.0.113.7", v4),
            (" \t203.0.113.7 \t", v4),
            ("::ffff:203.0.113.7", v4),
            ("::FFFF:cb00:7107", v4),
            ("0:0:0:0:0:ffff:203.0.113.7", v4),
            (" 0000:0000:0000:0000:0000:FFFF:CB00:7107", v4),
            // Neither of these is mapped: other prefixes, or the ffff elsewhere.
            ("::203.0.113.7", v6(0)),
            ("::ffff:0:203.0.113.7", v6(0)),
            ("64:ff9b::203.0.113.7", v6(0x0064_ff9b_0000_0000)),
            ("ffff::203.0.113.7", v6(0xffff_0000_0000_0000)),
            ("::1", v6(0)),
            ("2001:db8::1", v6(0x2001_0db8_0000_0000)),
            ("2001:DB8:0:0:ffff::1", v6(0x2001_0db8_0000_0000)),
            ("\t2001:db8:1:2:3:4:5:6 ", v6(0x2001_0db8_0001_0002)),
            ("::ffff:203.0.113.07", None),
            ("203.0.113.7\n", None),
            ("[2001:db8::1]", None),
            ("fe80::1%eth0", None),
            ("2001:db8::/64", None),
            ("", None),
            (" ", None),
        ] {
            assert_eq!(VoterAddress::parse_user(text.as_bytes()), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_address_survives_printing(v4 in any::<u32>(), v6 in any::<u64>()) {
            for address in [VoterAddress::V4(Ipv4(v4)), VoterAddress::V6(Ipv6Network(v6))] {
                prop_assert_eq!(VoterAddress::parse(address.to_string().as_bytes()), Some(address));
            }
            let mapped = format!("::ffff:{}", Ipv4(v4));
            prop_assert_eq!(VoterAddress::parse_user(mapped.as_bytes()), Some(VoterAddress::V4(Ipv4(v4))));
        }
    }
}
