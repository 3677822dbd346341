//! The key of a vote's row: instant, server, family of the address, address; numbers big-endian,
//! so that keys sort by time. A longer family needs no other table and no migration.

use super::{StoredVote, VoterAddress};
use crate::vote::id::ServerId;
use crate::vote::ipv4::Ipv4;
use crate::vote::time::UnixSeconds;

const FAMILY_IPV4: u8 = 4;
/// Bytes of the key of an IPv4 vote.
const KEY_BYTES_IPV4: usize = 13;

/// A key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowKey([u8; KEY_BYTES_IPV4]);

impl RowKey {
    /// As it stands in the file.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// The key of a vote.
#[must_use]
pub fn key(vote: &StoredVote) -> RowKey {
    let VoterAddress::V4(address) = vote.address;
    let mut key = [0; KEY_BYTES_IPV4];
    key[0..4].copy_from_slice(&vote.voted_at.0.to_be_bytes());
    key[4..8].copy_from_slice(&vote.server.0.to_be_bytes());
    key[8] = FAMILY_IPV4;
    key[9..13].copy_from_slice(&address.0.to_be_bytes());
    RowKey(key)
}

/// The vote of a key, or `None` where it is none that we wrote.
#[must_use]
pub fn vote(key: &[u8]) -> Option<StoredVote> {
    let key: &[u8; KEY_BYTES_IPV4] = key.try_into().ok()?;
    let word = |at: usize| u32::from_be_bytes([key[at], key[at + 1], key[at + 2], key[at + 3]]);
    (key[8] == FAMILY_IPV4).then(|| StoredVote {
        voted_at: UnixSeconds(word(0)),
        server: ServerId(word(4)),
        address: VoterAddress::V4(Ipv4(word(9))),
    })
}

/// Where the votes cast at `instant` begin.
#[must_use]
pub const fn first_at(instant: UnixSeconds) -> [u8; 4] {
    instant.0.to_be_bytes()
}

/// Where the votes cast after `instant` begin.
#[must_use]
pub const fn first_after(instant: UnixSeconds) -> [u8; 4] {
    instant.plus(1).0.to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::{first_after, key, vote};
    use crate::store::{StoredVote, VoterAddress};
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::UnixSeconds;

    #[test]
    fn keys_hold_the_vote_and_sort_by_time() {
        let at = |seconds| StoredVote {
            server: ServerId(28),
            address: VoterAddress::V4(Ipv4(0xCB00_7107)),
            voted_at: UnixSeconds(seconds),
        };
        let expected = [0, 0, 1, 0, 0, 0, 0, 28, 4, 0xCB, 0, 0x71, 7];
        assert_eq!(key(&at(256)).as_bytes(), expected);
        assert_eq!(vote(&expected), Some(at(256)));
        assert!(key(&at(256)).as_bytes() < &first_after(UnixSeconds(256))[..]);
        assert!(key(&at(257)).as_bytes() >= &first_after(UnixSeconds(256))[..]);
        assert_eq!(vote(&expected[..12]), None);
        assert_eq!(vote(&[0, 0, 1, 0, 0, 0, 0, 28, 6, 0xCB, 0, 0x71, 7]), None);
    }
}
