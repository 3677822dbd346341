//! When votes had been cast that were cancelled, or removed with their server. Sites make a reward unique by
//! server, address and instant, so the next vote of such a pair gets another second. Knows neither table nor
//! store.

use std::collections::{HashMap, HashSet};

use crate::limits::CANCELLED_VOTES_MAX;
use crate::vote::id::ServerId;
use crate::vote::table::Pair;
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

/// Votes that were cancelled or removed lately.
#[derive(Debug, Default)]
pub(super) struct CancelledVotes {
    /// Pairs, and when a cancelled vote of theirs had been cast.
    votes: HashSet<(Pair, UnixSeconds)>,
    /// The latest second of the votes of a removed server.
    servers: HashMap<ServerId, UnixSeconds>,
    /// The latest second of any vote that was taken away before this process started.
    before: Option<UnixSeconds>,
}

impl CancelledVotes {
    /// What is known from before the start.
    #[must_use]
    pub(super) fn before(latest: Option<UnixSeconds>) -> Self {
        Self { before: latest, ..Self::default() }
    }

    /// A vote was cancelled.
    pub(super) fn note_pair(&mut self, pair: Pair, voted_at: UnixSeconds) {
        self.votes.insert((pair, voted_at));
    }

    /// A server was removed, with votes of up to this instant.
    pub(super) fn note_server(&mut self, server: ServerId, latest: UnixSeconds) {
        let known = self.servers.entry(server).or_insert(latest);
        *known = latest.max(*known);
    }

    /// Takes in what came later.
    pub(super) fn extend(&mut self, later: Self) {
        self.votes.extend(later.votes);
        for (server, latest) in later.servers {
            self.note_server(server, latest);
        }
    }

    /// Whether a vote of the pair that was cancelled had been cast in this second.
    #[must_use]
    pub(super) fn is_cancelled(&self, pair: Pair, at: UnixSeconds) -> bool {
        self.votes.contains(&(pair, at))
    }

    /// Whether a vote of the pair that was taken away may have been cast in this second, which is `now` or later.
    #[must_use]
    pub(super) fn may_be_taken(&self, pair: Pair, at: UnixSeconds, now: UnixSeconds) -> bool {
        // A clock that was set back long ago is no reason to stamp votes ahead of it.
        let latest = [self.servers.get(&pair.server).copied(), self.before].into_iter().flatten();
        self.is_cancelled(pair, at)
            || latest.filter(|latest| *latest <= now.plus(VOTE_AHEAD_MAX_S)).any(|latest| at <= latest)
    }

    /// Forgets votes so old that no new one can be taken for them. Where too many are left, keeps only those of
    /// this very second.
    pub(super) fn prune(&mut self, now: UnixSeconds, cooldown: Cooldown) {
        let mut since = now.minus(cooldown.seconds());
        for _ in 0..2 {
            self.votes.retain(|(_, voted_at)| *voted_at > since);
            if self.votes.len() <= CANCELLED_VOTES_MAX {
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
    use crate::limits::CANCELLED_VOTES_MAX;
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
    fn a_second_is_taken_by_a_vote_that_was_cast_in_it() {
        let mut cancelled = CancelledVotes::before(Some(NOW.minus(3)));
        let taken = |cancelled: &CancelledVotes, pair| -> Vec<u32> {
            (0..=5).filter(|ahead| cancelled.may_be_taken(pair, NOW.plus(*ahead), NOW)).collect()
        };
        assert_eq!(taken(&cancelled, pair(1, 1)), [0_u32; 0]);
        cancelled.note_pair(pair(1, 1), NOW.plus(2));
        cancelled.note_pair(pair(1, 1), NOW);
        cancelled.note_server(ServerId(3), NOW.plus(1));
        assert_eq!(taken(&cancelled, pair(1, 1)), [0, 2]);
        assert_eq!(taken(&cancelled, pair(1, 2)), [0_u32; 0]);
        assert_eq!(taken(&cancelled, pair(3, 1)), [0, 1], "any vote of a removed server");
        let cancelled = CancelledVotes::before(Some(NOW.plus(4)));
        assert_eq!(taken(&cancelled, pair(2, 2)), [0, 1, 2, 3, 4]);
        assert!(!cancelled.may_be_taken(pair(2, 2), NOW.minus(600), NOW.minus(600)), "the clock was set back");
    }

    #[test]
    fn what_is_long_gone_is_forgotten_and_no_more_is_kept_than_there_is_room_for() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let mut cancelled = CancelledVotes::default();
        cancelled.note_pair(pair(1, 1), NOW);
        cancelled.prune(NOW.plus(5_399), cooldown);
        assert!(cancelled.is_cancelled(pair(1, 1), NOW));
        cancelled.prune(NOW.plus(5_400), cooldown);
        assert!(!cancelled.is_cancelled(pair(1, 1), NOW));
        let many = u32::try_from(CANCELLED_VOTES_MAX).expect("fewer than addresses");
        (0..=many).for_each(|address| cancelled.note_pair(pair(1, address), NOW.minus(10)));
        cancelled.note_pair(pair(2, 1), NOW);
        cancelled.prune(NOW, cooldown);
        assert!(!cancelled.is_cancelled(pair(1, 1), NOW.minus(10)) && cancelled.is_cancelled(pair(2, 1), NOW));
    }
}
