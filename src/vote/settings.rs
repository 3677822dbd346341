//! What a store was made with, and what its votes are read by. A start with other settings is refused.

use std::fmt;

use super::ipv6::Ipv6Prefix;
use super::time::Cooldown;

/// The settings of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The cooldown's length.
    pub cooldown: Cooldown,
    /// By how many bits IPv6 voters are told apart.
    pub ipv6_prefix: Ipv6Prefix,
}

impl fmt::Display for Settings {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (minutes, bits) = (self.cooldown.minutes(), self.ipv6_prefix.bits());
        write!(formatter, "--cooldown-minutes {minutes} --ipv6-prefix {bits}")
    }
}
