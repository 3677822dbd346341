//! The last entry of the log that a store or a node knows. By it a node sees whether the store has lost something.

use std::fmt;

use crate::cluster::entry::EntryId;

/// An entry of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Last {
    /// Its number in a count without gaps; 0 before the first one.
    pub n: u64,
    /// Its name.
    pub id: EntryId,
    /// The random bits of its writer: two histories of a store do not have the same bits at one number.
    pub bits: i64,
}

impl Last {
    /// Reads an entry of the form "NUMBER NAME BITS".
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let last = Self {
            n: parts.next()?.parse().ok()?,
            id: EntryId::read(parts.next()?)?,
            bits: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(last)
    }

    /// The mark of this entry in the next one: the last six digits of its bits, or as many as there are.
    #[must_use]
    pub fn mark(&self) -> String {
        let mut digits = self.bits.unsigned_abs().to_string();
        digits.split_off(digits.len().saturating_sub(6))
    }
}

impl fmt::Display for Last {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {} {}", self.n, self.id, self.bits)
    }
}
