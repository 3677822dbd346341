//! The store's listings at the entry that a node has come to, if the node knows other ones. A vote in the log names its
//! server and no listing: it is of the listing that the store has at that entry.

use std::collections::HashMap;

use crate::cluster::wire::fact::{Fact, Listing, Said};
use crate::vote::id::ServerId;

/// The store's listings that differ from those that the node knows.
#[derive(Debug, Default)]
pub(super) struct StoreListings(HashMap<ServerId, Option<Listing>>);

impl StoreListings {
    /// The store's listing of a server for which the node knows this one.
    pub(super) fn of(&self, server: ServerId, known: Option<Listing>) -> Option<Listing> {
        self.0.get(&server).copied().unwrap_or(known)
    }

    /// Notes that the store has the listing `stored` of a server, and the node knows the listing `known`.
    pub(super) fn set(&mut self, server: ServerId, stored: Option<Listing>, known: Option<Listing>) {
        if stored == known {
            self.0.remove(&server);
        } else {
            self.0.insert(server, stored);
        }
    }
}

/// The listing that the store has of a fact's server after that fact of its log, from the listing before it.
pub(super) fn listing_after(said: &Said, before: Option<Listing>) -> Option<Listing> {
    match &said.fact {
        Fact::Listed(record) => Some(record.listing),
        Fact::ListingGone(listing) if before == Some(*listing) => None,
        Fact::ListingGone(_) | Fact::VoteGone(..) | Fact::Vote(..) => before,
    }
}

#[cfg(test)]
mod tests {
    use super::listing_after;
    use crate::cluster::wire::fact::{Fact, Listing, Said};
    use crate::vote::id::ServerId;

    #[test]
    fn a_removal_ends_its_own_listing_alone() {
        let read = |text: &str| Listing::read(text).expect("a listing");
        let one = read("1800000000000000-00000000000000ab");
        let other = read("1900000000000000-00000000000000cd");
        let gone = Said { server: ServerId(28), fact: Fact::ListingGone(one) };
        assert_eq!(
            [Some(one), Some(other), None].map(|before| listing_after(&gone, before)),
            [None, Some(other), None]
        );
    }
}
