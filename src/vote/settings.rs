//! The settings that a store was made with, and that its votes are read with. A start with other settings is refused
//! while a vote is live, unless the operator accepts them.

use std::fmt;

use super::ipv6::Ipv6Prefix;
use super::time::Cooldown;

/// The settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cooldown's length.
    pub cooldown: Cooldown,
    /// The number of bits that tell IPv6 voters apart.
    pub ipv6_prefix: Ipv6Prefix,
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, bits) = (self.cooldown.minutes(), self.ipv6_prefix.bits());
        write!(formatter, "--cooldown-minutes {minutes} --ipv6-prefix {bits}")
    }
}
