//! The key of a vote's row: instant, server, family of the address, address; numbers big-endian,
//! so that keys sort by time. An IPv6 voter is its network, in the first 64 bits.

use super::{Event, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::ServerId;
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Network;
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

const FAMILY_IPV4: u8 = 4;
const FAMILY_IPV6: u8 = 6;
/// Bytes before the address.
const HEAD_BYTES: usize = 9;
/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = HEAD_BYTES + size_of::<u64>();

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey {
    /// The key, and zeros behind it. Two keys with the same head are of one family, and of one length.
    bytes: [u8; KEY_BYTES_MAX],
    length: u8,
}

impl RowKey {
    /// The key as it stands in the file.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The key of a vote.
#[must_use]
pub fn key(vote: &StoredVote) -> RowKey {
    let mut bytes = [0; KEY_BYTES_MAX];
    bytes[0..4].copy_from_slice(&vote.voted_at.0.to_be_bytes());
    bytes[4..8].copy_from_slice(&vote.pair.server.0.to_be_bytes());
    let length = match vote.pair.address {
        VoterAddress::V4(address) => {
            bytes[8] = FAMILY_IPV4;
            bytes[9..13].copy_from_slice(&address.0.to_be_bytes());
            13
        }
        VoterAddress::V6(network) => {
            bytes[8] = FAMILY_IPV6;
            bytes[9..17].copy_from_slice(&network.0.to_be_bytes());
            17
        }
    };
    RowKey { bytes, length }
}

/// The vote of a key, or `None` for a key that this service never writes.
#[must_use]
pub fn vote(key: &[u8]) -> Option<StoredVote> {
    let (head, address) = key.split_first_chunk::<HEAD_BYTES>()?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let address = match head[8] {
        FAMILY_IPV4 => VoterAddress::V4(Ipv4(u32::from_be_bytes(address.try_into().ok()?))),
        FAMILY_IPV6 => VoterAddress::V6(Ipv6Network(u64::from_be_bytes(address.try_into().ok()?))),
        _ => return None,
    };
    Some(StoredVote { voted_at: UnixSeconds(word(0)), pair: Pair { server: ServerId(word(4)), address } })
}

/// Where the votes cast at `instant` begin.
#[must_use]
pub const fn first_at(instant: UnixSeconds) -> [u8; 4] {
    instant.0.to_be_bytes()
}

/// The rows of `events` in the file's order, each with whether it exists after them. An import's votes lie all over the
/// file: in order, the library touches each page once.
#[must_use]
pub fn last_word_on_each(events: &[Event]) -> Vec<(RowKey, bool)> {
    let mut rows: Vec<_> = events
        .iter()
        .rev()
        .filter_map(|event| match event {
            Event::Vote(vote) => Some((key(vote), true)),
            Event::VoteRemoved(vote) => Some((key(vote), false)),
            Event::Server(..) | Event::ServerRemoved(_) => None,
        })
        .collect();
    // The sort is stable and begins from the last event, so the first row of each key is the last word on it.
    rows.sort_by_key(|(key, _)| *key);
    rows.dedup_by_key(|(key, _)| *key);
    rows
}

#[cfg(test)]
mod tests {
    use super::{first_at, key, vote};
    use crate::store::StoredVote;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use crate::vote::table::Pair;
    use crate::vote::time::UnixSeconds;

    #[test]
    fn keys_hold_the_vote_and_sort_by_time() {
        let pair = |address| Pair { server: ServerId(28), address };
        let of = |address| move |at| StoredVote { pair: pair(address), voted_at: UnixSeconds(at) };
        let v4 = of(VoterAddress::V4(Ipv4(0xCB00_7107)));
        let v6 = of(VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_00FF)));
        let v4_key = [0, 0, 1, 0, 0, 0, 0, 28, 4, 0xCB, 0, 0x71, 7];
        let v6_key = [0, 0, 1, 0, 0, 0, 0, 28, 6, 0x20, 1, 0x0D, 0xB8, 0, 0, 0, 0xFF];
        assert_eq!(key(&v4(256)).as_bytes(), v4_key);
        assert_eq!(key(&v6(256)).as_bytes(), v6_key);
        assert_eq!(vote(&v4_key), Some(v4(256)));
        assert_eq!(vote(&v6_key), Some(v6(256)));
        assert!(key(&v6(256)) > key(&v4(256)) && key(&v4(257)) > key(&v6(256)));
        for votes in [&v4 as &dyn Fn(u32) -> StoredVote, &v6] {
            assert!(key(&votes(255)).as_bytes() < &first_at(UnixSeconds(256))[..]);
            assert!(key(&votes(256)).as_bytes() >= &first_at(UnixSeconds(256))[..]);
        }
    }

    #[test]
    fn what_nobody_wrote_is_no_key() {
        let [v4, v6] = [4, 6].map(|family| [0, 0, 1, 0, 0, 0, 0, 28, family, 1, 2, 3, 4, 5, 6, 7, 8]);
        for (key, is_vote) in [(&v4[..13], true), (&v6[..], true), (&v4[..], false), (&v6[..13], false)] {
            assert_eq!(vote(key).is_some(), is_vote, "{key:?}");
        }
        for length in (0..13).chain(14..17) {
            assert_eq!(vote(&v4[..length]).or(vote(&v6[..length])), None, "{length}");
        }
        assert_eq!(vote(&[0, 0, 1, 0, 0, 0, 0, 28, 5, 1, 2, 3, 4]), None);
    }
}
