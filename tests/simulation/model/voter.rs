//! Voters: addresses that count as one.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A voter: an IPv4 address or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Voter {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Voter {
    /// The voter that an address stands for.
    pub(crate) fn of(address: IpAddr, prefix: u8) -> Voter {
        let address = match address {
            IpAddr::V4(address) => return Voter::V4(address),
            IpAddr::V6(address) => address,
        };
        let bits = u128::from(address);
        let last = u32::try_from(bits & 0xffff_ffff).expect("32 bits");
        let (mapped, nat64, siit) = (0xffff_u128 << 32, 0x0064_ff9b_u128 << 96, 0xffff_u128 << 48);
        if [mapped, nat64, siit].contains(&(bits - u128::from(last))) {
            return Voter::V4(Ipv4Addr::from(last));
        }
        Voter::V6(Ipv6Addr::from(bits & (u128::MAX << (128 - u32::from(prefix)))))
    }

    /// The voter that this one is under a shorter prefix.
    pub(super) fn under(self, prefix: u8) -> Voter {
        match self {
            Voter::V4(_) => self,
            Voter::V6(network) => Voter::of(IpAddr::V6(network), prefix),
        }
    }
}
