//! The parts of the store's values and replies: names of entries, addresses, texts and numbers.

use std::fmt;

use super::resp::Value;
use crate::vote::address::VoterAddress;
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Network;

/// The name of an entry in the store's log. Later entries have greater names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct EntryId {
    /// Milliseconds by the store's clock.
    pub ms: u64,
    /// Tells entries of one millisecond apart.
    pub sequence: u64,
}

impl fmt::Display for EntryId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}-{}", self.ms, self.sequence)
    }
}

impl EntryId {
    /// Reads the name of an entry; `None` if the text is no name.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let (ms, sequence) = name.split_once('-')?;
        Some(Self { ms: ms.parse().ok()?, sequence: sequence.parse().ok()? })
    }
}

/// The items of an array.
#[must_use]
pub fn items(value: &Value) -> Option<&[Value]> {
    if let Value::Array(items) = value { Some(items) } else { None }
}

/// A text of a reply.
#[must_use]
pub fn text(value: &Value) -> Option<&str> {
    if let Value::Text(bytes) = value { std::str::from_utf8(bytes).ok() } else { None }
}

/// A number of a reply, which may come as text.
#[must_use]
pub fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).ok(),
        other => text(other)?.parse().ok(),
    }
}

/// The store's text for an address: an IPv4 address is its number, and an IPv6 network its first 64 bits in 16 hexadecimal
/// digits.
#[must_use]
pub fn member(address: VoterAddress) -> String {
    match address {
        VoterAddress::V4(address) => address.0.to_string(),
        VoterAddress::V6(network) => format!("{:016x}", network.0),
    }
}

/// The address that has this text in the store; the reverse of [`member`].
#[must_use]
pub fn address(member: &str) -> Option<VoterAddress> {
    match member.len() {
        16 if member.bytes().all(|digit| digit.is_ascii_hexdigit()) => {
            u64::from_str_radix(member, 16).ok().map(|bits| VoterAddress::V6(Ipv6Network(bits)))
        }
        1..=10 if member.bytes().all(|digit| digit.is_ascii_digit()) => {
            member.parse().ok().map(|number| VoterAddress::V4(Ipv4(number)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryId, address, member};
    use crate::vote::address::VoterAddress;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;

    #[test]
    fn names_of_entries() {
        assert_eq!(EntryId::read("1795172696123-7"), Some(EntryId { ms: 1_795_172_696_123, sequence: 7 }));
        assert_eq!(EntryId { ms: 12, sequence: 0 }.to_string(), "12-0");
        for bad in ["", "1", "1-", "-1", "1-x", "1-2-3"] {
            assert_eq!(EntryId::read(bad), None, "{bad}");
        }
        assert!(EntryId { ms: 2, sequence: 0 } > EntryId { ms: 1, sequence: 9 });
    }

    #[test]
    fn addresses_of_both_families_are_told_apart_by_their_length() {
        let network = VoterAddress::V6(Ipv6Network(0x2001_0db8_0001_0000));
        for (text, expected) in [
            ("0", VoterAddress::V4(Ipv4(0))),
            ("4294967295", VoterAddress::V4(Ipv4(u32::MAX))),
            ("20010db800010000", network),
            ("0000000000000007", VoterAddress::V6(Ipv6Network(7))),
        ] {
            assert_eq!((address(text), member(expected)), (Some(expected), text.to_owned()));
        }
        for bad in ["", "-1", "+7", "4294967296", "00000000007", "20010db80001000", "+0010db800010000", "demo"] {
            assert_eq!(address(bad), None, "{bad}");
        }
    }
}
