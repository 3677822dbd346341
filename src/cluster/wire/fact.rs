//! Facts: what a store and its nodes hold about servers and votes. Facts only add up, and in any order they make the same state.

use std::cmp::Ordering;
use std::fmt;

use super::sha1;
use crate::cluster::entry::member;
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// Tells one listing of a server from every other one of any server. The later listing of a server is the greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listing {
    /// The stamp of its first token; 0 for one of version 1.0.0.
    stamp: u64,
    bits: u64,
}

impl Listing {
    /// Reads the name of a listing: 16 digits, `-`, and 16 hexadecimal digits.
    #[must_use]
    pub fn read(name: &str) -> Option<Self> {
        let (stamp, bits) = name.split_once('-')?;
        let is_name = stamp.len() == 16 && bits.len() == 16 && stamp.bytes().all(|digit| digit.is_ascii_digit());
        let is_lower = bits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        if !is_name || !is_lower {
            return None;
        }
        Some(Self { stamp: stamp.parse().ok()?, bits: u64::from_str_radix(bits, 16).ok()? })
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:016}-{:016x}", self.stamp, self.bits)
    }
}

/// A server as it is listed. The greater of two records is the one that stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The server's listing.
    pub listing: Listing,
    /// The stamp since which it has its token: of two tokens of a listing the one with the later stamp stands.
    pub stamp: u64,
    /// The server's token.
    pub token: Token,
}

impl Record {
    /// Reads a record as the store holds it; `None` if the text is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix("v2;")?.splitn(3, ';');
        let (listing, stamp) = (Listing::read(parts.next()?)?, parts.next()?.parse().ok()?);
        Some(Self { listing, stamp, token: Token::stored(parts.next()?)? })
    }
}

impl Ord for Record {
    fn cmp(&self, other: &Self) -> Ordering {
        let bytes = |record: &Self| record.token.as_str().as_bytes().to_vec();
        let since = (self.listing, self.stamp).cmp(&(other.listing, other.stamp));
        since.then_with(|| bytes(self).cmp(&bytes(other)))
    }
}

impl PartialOrd for Record {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Record {
    /// Whether this record began its listing: the name of a listing has its first stamp.
    #[must_use]
    pub const fn begins_its_listing(&self) -> bool {
        self.stamp == self.listing.stamp
    }

    /// Whether this record keeps a token that another server's record claims as well.
    #[must_use]
    pub fn keeps_its_token(&self, other: &Self) -> bool {
        (self.stamp, self.listing) > (other.stamp, other.listing)
    }

    /// The record that replaces this one if another server keeps its token. It follows from this record, so that every store and
    /// every node makes the same one.
    #[must_use]
    pub fn spare(&self) -> Self {
        let digest = sha1::hex(format!("{};{}", self.listing, self.token.as_str()).as_bytes());
        let token = Token::stored(&digest).unwrap_or_else(|| self.token.clone());
        Self { listing: self.listing, stamp: self.stamp + 1, token }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "v2;{};{};{}", self.listing, self.stamp, self.token.as_str())
    }
}

/// A fact of a server. Facts are given back in this order: removals come first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// This listing was taken away.
    ListingGone(Listing),
    /// The votes of this address up to this instant were taken away.
    VoteGone(UnixSeconds, VoterAddress),
    /// A listing has this token since its stamp.
    Listed(Record),
    /// This vote was made under this listing.
    Vote(Listing, UnixSeconds, VoterAddress),
}

/// A fact, with its server.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Said {
    /// The server.
    pub server: ServerId,
    /// The fact.
    pub fact: Fact,
}

impl Fact {
    /// Whether the fact takes something away.
    #[must_use]
    pub const fn takes_away(&self) -> bool {
        matches!(self, Self::ListingGone(_) | Self::VoteGone(..))
    }

    /// The fact's name and value in entries and calls. The listing of a vote is a pair of its own.
    #[must_use]
    pub fn words(&self) -> [String; 2] {
        let vote = |address: VoterAddress, at: UnixSeconds| format!("{}:{}", member(address), at.0);
        let (name, value) = match self {
            Self::ListingGone(listing) => ("x", listing.to_string()),
            Self::VoteGone(at, address) => ("c", vote(*address, *at)),
            Self::Listed(record) => ("r", record.to_string()),
            Self::Vote(_, at, address) => ("v", vote(*address, *at)),
        };
        [name.to_owned(), value]
    }
}

impl Said {
    /// The listing that the fact is about, if it names one.
    #[must_use]
    pub const fn listing(&self) -> Option<Listing> {
        match &self.fact {
            Fact::ListingGone(listing) | Fact::Vote(listing, ..) => Some(*listing),
            Fact::Listed(record) => Some(record.listing),
            Fact::VoteGone(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Listing, Record};

    #[test]
    fn records_keep_their_parts_apart_whatever_the_token_has() {
        let text = "v2;1800000000000000-00000000000000ab;1800000000000001;a;b==";
        let record = Record::read(text).map(|record| record.to_string());
        assert_eq!(record.as_deref(), None, "no token has a semicolon today");
        let text = "v2;1800000000000000-00000000000000ab;1800000000000001;a+b==";
        let record = Record::read(text).expect("a record");
        assert_eq!((record.to_string().as_str(), record.stamp), (text, 1_800_000_000_000_001));
        for bad in ["", "v1;demo;00000000000000ab", "v2;x;1;demo", "v2;1800000000000000-00000000000000ab;x;demo"] {
            assert_eq!(Record::read(bad), None, "{bad}");
        }
    }

    #[test]
    fn listings_are_ordered_as_their_names_are() {
        let names = [
            "0000000000000000-00000000000000ab",
            "1800000000000000-0000000000000000",
            "1800000000000000-000000000000000a",
        ];
        let listings = names.map(|name| Listing::read(name).expect("a listing"));
        assert!(listings.is_sorted() && names.is_sorted());
        assert_eq!(listings.map(|listing| listing.to_string()), names);
        for bad in ["", "1-2", "1800000000000000-00000000000000AB", "+800000000000000-00000000000000ab"] {
            assert_eq!(Listing::read(bad), None, "{bad}");
        }
    }
}
