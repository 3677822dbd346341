//! When votes had been cast that were cancelled, or removed with their server. Sites make a reward unique by
//! server, address and instant, so the next vote of such a pair gets a later second. Knows neither table nor
//! store.

use std::collections::HashMap;

use crate::limits::GONE_PAIRS_MAX;
use crate::vote::id::ServerId;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

/// Votes that were cancelled or removed lately.
#[derive(Debug, Default)]
pub struct CancelledVotes {
    /// When the pair's cancelled vote had been cast.
    pairs: HashMap<Pair, UnixSeconds>,
    /// The latest second of the votes of a removed server.
    servers: HashMap<ServerId, UnixSeconds>,
    /// The latest second of any vote that was taken away before this process started.
    before: Option<UnixSeconds>,
}

impl CancelledVotes {
    /// What is known from before the start.
    #[must_use]
    pub fn before(latest: Option<UnixSeconds>) -> Self {
        Self { before: latest, ..Self::default() }
    }

    /// A vote was cancelled.
    pub fn note_pair(&mut self, pair: Pair, voted_at: UnixSeconds) {
        let held = self.pairs.entry(pair).or_insert(voted_at);
        *held = voted_at.max(*held);
    }

    /// A server was removed, with votes of up to this instant.
    pub fn note_server(&mut self, server: ServerId, latest: UnixSeconds) {
        let held = self.servers.entry(server).or_insert(latest);
        *held = latest.max(*held);
    }

    /// Takes in what came later.
    pub fn extend(&mut self, later: Self) {
        for (pair, voted_at) in later.pairs {
            self.note_pair(pair, voted_at);
        }
        for (server, latest) in later.servers {
            self.note_server(server, latest);
        }
    }

    /// When the pair's cancelled vote had been cast.
    #[must_use]
    pub fn pair(&self, pair: Pair) -> Option<UnixSeconds> {
        self.pairs.get(&pair).copied()
    }

    /// The latest second in which a vote of the pair may have been cast that is gone now. A vote that is cast
    /// at `now` must not be taken for that one.
    #[must_use]
    pub fn latest(&self, pair: Pair, now: UnixSeconds) -> Option<UnixSeconds> {
        // A clock that was set back long ago is no reason to stamp votes ahead of it.
        let before = self.before.filter(|before| *before <= now.plus(VOTE_AHEAD_MAX_S));
        [self.pair(pair), self.servers.get(&pair.server).copied(), before].into_iter().flatten().max()
    }

    /// Forgets votes so old that no new one can be taken for them. Where too many are left, keeps only those of
    /// this very second.
    pub fn prune(&mut self, now: UnixSeconds, cooldown: Cooldown) {
        let mut since = now.minus(cooldown.seconds());
        for _ in 0..2 {
            self.pairs.retain(|_, voted_at| *voted_at > since);
            if self.pairs.len() <= GONE_PAIRS_MAX {
                break;
            }
            since = now.minus(1);
        }
        self.servers.retain(|_, latest| *latest >= now.minus(1));
        self.before = self.before.filter(|before| *before >= now.minus(1));
    }
}

#[cfg(test)]
mod tests {
    use super::CancelledVotes;
    use crate::limits::GONE_PAIRS_MAX;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::Pair;
    use crate::vote::time::{Cooldown, UnixSeconds};

    const NOW: UnixSeconds = UnixSeconds(1_000_000);

    fn pair(server: u32, address: u32) -> Pair {
        Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(address)) }
    }

    #[test]
    fn the_latest_that_is_gone_counts() {
        let mut gone = CancelledVotes::before(Some(NOW.minus(3)));
        assert_eq!(gone.latest(pair(1, 1), NOW), Some(NOW.minus(3)));
        gone.note_server(ServerId(1), NOW.minus(1));
        gone.note_pair(pair(1, 1), NOW.plus(2));
        gone.note_pair(pair(1, 1), NOW);
        assert_eq!(gone.latest(pair(1, 1), NOW), Some(NOW.plus(2)));
        assert_eq!(gone.latest(pair(1, 2), NOW), Some(NOW.minus(1)));
        assert_eq!(gone.latest(pair(2, 2), NOW), Some(NOW.minus(3)));
        assert_eq!(gone.latest(pair(2, 2), NOW.minus(600)), None, "the clock was set back");
    }

    #[test]
    fn what_is_long_gone_is_forgotten_and_no_more_is_kept_than_there_is_room_for() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let mut gone = CancelledVotes::default();
        gone.note_pair(pair(1, 1), NOW);
        gone.prune(NOW.plus(5_399), cooldown);
        assert_eq!(gone.pair(pair(1, 1)), Some(NOW));
        gone.prune(NOW.plus(5_400), cooldown);
        assert_eq!(gone.pair(pair(1, 1)), None);
        let many = u32::try_from(GONE_PAIRS_MAX).expect("fewer than addresses");
        (0..=many).for_each(|address| gone.note_pair(pair(1, address), NOW.minus(10)));
        gone.note_pair(pair(2, 1), NOW);
        gone.prune(NOW, cooldown);
        assert_eq!((gone.pair(pair(1, 1)), gone.pair(pair(2, 1))), (None, Some(NOW)));
    }
}
