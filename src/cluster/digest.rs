//! A digest of a state, independent of the order of its entries: states with the same entries have the same digest. It is for
//! comparisons, and no protection against forgery.

use serde::{Deserialize, Serialize};

use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{CooldownView, Pair, SHARDS};
use crate::vote::time::{Cooldown, UnixSeconds};

/// A state as two counts and two sums.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct Digest {
    /// The number of listed servers.
    pub servers: u64,
    /// The sum over their ids and tokens.
    pub servers_digest: String,
    /// The number of live votes.
    pub votes: u64,
    /// The sum over their servers, addresses and instants.
    pub votes_digest: String,
}

impl Digest {
    /// The digest of servers and of the votes live at `now`.
    #[must_use]
    pub fn of(servers: &Snapshot, cooldowns: &CooldownView, cooldown: Cooldown, now: UnixSeconds) -> Self {
        let listed = servers.iter_after(None).map(|(server, token)| of_server(server, token));
        let live = (0..SHARDS).flat_map(|index| {
            let mut shard = Vec::new();
            cooldowns.copy_shard(index, now, &mut shard);
            shard
        });
        let live = live.map(|entry| of_vote(entry.pair, cooldown.voted_at(entry.expires_at)));
        let ((servers, servers_digest), (votes, votes_digest)) = (summed(listed), summed(live));
        Self { servers, servers_digest, votes, votes_digest }
    }
}

/// The number of parts, and their sum in hexadecimal digits.
fn summed(parts: impl Iterator<Item = u64>) -> (u64, String) {
    let (count, sum) = parts.fold((0, 0_u64), |(count, sum), part| (count + 1, sum.wrapping_add(part)));
    (count, format!("{sum:016x}"))
}

fn of_server(server: ServerId, token: &Token) -> u64 {
    mix(mix(u64::from(server.0)).wrapping_add(fnv1a(token.as_str().as_bytes())))
}

fn of_vote(pair: Pair, voted_at: UnixSeconds) -> u64 {
    let server = u64::from(pair.server.0) << 32;
    let packed = match pair.address {
        VoterAddress::V4(address) => server | u64::from(address.0),
        VoterAddress::V6(network) => server.wrapping_add(mix(network.0)),
    };
    mix(mix(packed).wrapping_add(u64::from(voted_at.0)))
}

/// The finaliser of SplitMix64: each bit of the input affects half of the output's bits.
const fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ bits >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    bits ^ bits >> 31
}

fn fnv1a(text: &[u8]) -> u64 {
    text.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

/// The reply to `GET /v1/cluster/digest`.
#[derive(Deserialize, Serialize)]
pub struct NodeDigest {
    /// The store that the node follows.
    pub store_id: String,
    /// The number of the last entry of the store's log that its state holds.
    pub n: u64,
    /// The id of that entry.
    pub id: String,
    /// The second at which the digest was made.
    pub now: u32,
    /// The digest.
    #[serde(flatten)]
    pub state: Digest,
}

#[cfg(test)]
mod tests {
    use super::{Digest, fnv1a, mix};
    use crate::vote::address::VoterAddress;
    use crate::vote::directory::Snapshot;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::ipv6::Ipv6Network;
    use crate::vote::table::{CooldownTable, Pair};
    use crate::vote::time::{Cooldown, UnixSeconds};

    #[test]
    fn the_parts_are_as_published() {
        assert_eq!(mix(1), 0x5692_161D_100B_05E5);
        assert_eq!(fnv1a(b"a"), 0xAF63_DC4C_8601_EC8C);
    }

    #[test]
    fn order_does_not_count_and_everything_else_does() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let now = UnixSeconds(1_000_000);
        let digest = |votes: &[(u32, u32, u32)]| {
            let mut table = CooldownTable::default();
            for (server, address, voted_at) in votes {
                let address = match address % 2 {
                    0 => VoterAddress::V4(Ipv4(*address)),
                    _ => VoterAddress::V6(Ipv6Network(u64::from(*address))),
                };
                let pair = Pair { server: ServerId(*server), address };
                table.insert(pair, cooldown.expires_at(UnixSeconds(*voted_at)));
            }
            let mut servers = Snapshot::default();
            servers.insert(ServerId(1), Token::new("one").expect("a token"));
            Digest::of(&servers, &table.view(), cooldown, now)
        };
        let (one, other) = ((1, 7, 999_000), (1, 8, 999_001));
        assert_eq!(digest(&[one, other]), digest(&[other, one]));
        assert_eq!(digest(&[one, other, (1, 9, 994_600)]), digest(&[one, other]), "over at now");
        assert_ne!(digest(&[one, (1, 8, 999_002)]), digest(&[one, other]));
        assert_ne!(digest(&[one, (2, 8, 999_001)]), digest(&[one, other]));
        assert_ne!(digest(&[(1, 9, 999_000), other]), digest(&[one, other]));
        assert_eq!(digest(&[one, other]).votes, 2);
        assert_eq!(digest(&[]).servers, 1);
    }
}
