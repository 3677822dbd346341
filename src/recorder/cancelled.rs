//! When votes had been cast that were cancelled, or removed with their server. Sites make a reward unique by
//! server, address and instant, so the next vote of such a pair gets another second. Knows neither table nor
//! store.

use std::collections::HashSet;

use crate::limits::CANCELLED_VOTES_MAX;
use crate::store::StoredVote;
use crate::vote::time::{Cooldown, UnixSeconds};

/// Votes that were cancelled or removed lately, by the pairs under which the table looks them up.
#[derive(Debug, Default)]
pub(super) struct CancelledVotes(HashSet<StoredVote>);

impl CancelledVotes {
    /// A vote was cancelled.
    pub(super) fn note(&mut self, vote: StoredVote) {
        self.0.insert(vote);
    }

    /// Takes in what came later.
    pub(super) fn extend(&mut self, later: Self) {
        self.0.extend(later.0);
    }

    /// Whether a vote of the pair that was cancelled had been cast in this second.
    #[must_use]
    pub(super) fn is_cancelled(&self, vote: StoredVote) -> bool {
        self.0.contains(&vote)
    }

    /// All of them.
    pub(super) fn votes(&self) -> impl Iterator<Item = StoredVote> {
        self.0.iter().copied()
    }

    /// Forgets votes so old that no new one can be taken for them. Where too many are left, keeps only those of
    /// this very second.
    pub(super) fn prune(&mut self, now: UnixSeconds, cooldown: Cooldown) {
        let mut since = now.minus(cooldown.seconds());
        for _ in 0..2 {
            self.0.retain(|vote| vote.voted_at > since);
            if self.0.len() <= CANCELLED_VOTES_MAX {
                break;
            }
            since = now.minus(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CancelledVotes;
    use crate::limits::CANCELLED_VOTES_MAX;
    use crate::store::StoredVote;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::Pair;
    use crate::vote::time::{Cooldown, UnixSeconds};

    const NOW: UnixSeconds = UnixSeconds(1_000_000);

    fn vote(address: u32, voted_at: UnixSeconds) -> StoredVote {
        StoredVote { pair: Pair { server: ServerId(1), address: VoterAddress::V4(Ipv4(address)) }, voted_at }
    }

    #[test]
    fn what_is_long_gone_is_forgotten_and_no_more_is_kept_than_there_is_room_for() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let mut cancelled = CancelledVotes::default();
        cancelled.note(vote(1, NOW));
        cancelled.prune(NOW.plus(5_399), cooldown);
        assert!(cancelled.is_cancelled(vote(1, NOW)));
        cancelled.prune(NOW.plus(5_400), cooldown);
        assert!(!cancelled.is_cancelled(vote(1, NOW)));
        let many = u32::try_from(CANCELLED_VOTES_MAX).expect("fewer than addresses");
        (0..=many).for_each(|address| cancelled.note(vote(address, NOW.minus(10))));
        cancelled.note(vote(many + 1, NOW));
        cancelled.prune(NOW, cooldown);
        assert!(!cancelled.is_cancelled(vote(1, NOW.minus(10))) && cancelled.is_cancelled(vote(many + 1, NOW)));
    }
}
