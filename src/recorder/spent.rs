//! Instants of votes that were taken away. Sites make a reward unique by server, address and instant, so the next vote of
//! such a pair gets another second. Knows neither table nor store.

use std::collections::HashSet;

use crate::store::StoredVote;
use crate::vote::time::{UnixSeconds, VOTE_AHEAD_MAX_S};

/// The votes taken away whose instants a new vote could get: from now to the furthest that a vote may be ahead.
#[derive(Clone, Debug, Default)]
pub(super) struct SpentInstants {
    votes: HashSet<StoredVote>,
    /// An earlier process may have spent any instant before this one. Which ones is not known any more.
    before_start: UnixSeconds,
}

impl SpentInstants {
    /// The instants that an earlier process may have spent: all before `until`.
    pub(super) fn before_start(until: UnixSeconds) -> Self {
        Self { votes: HashSet::new(), before_start: until }
    }

    /// Notes a vote that was taken away.
    pub(super) fn note(&mut self, vote: StoredVote) {
        self.votes.insert(vote);
    }

    /// Whether a vote of this pair and instant was taken away.
    #[must_use]
    pub(super) fn is_spent(&self, vote: StoredVote) -> bool {
        self.votes.contains(&vote)
    }

    /// Whether an earlier process may have spent this instant, which lies at `now` or later.
    #[must_use]
    pub(super) fn may_be_spent(&self, at: UnixSeconds, now: UnixSeconds) -> bool {
        (now..self.before_start).contains(&at)
    }

    /// The second after the latest spent instant, for the store's note.
    #[must_use]
    pub(super) fn until(&self) -> UnixSeconds {
        self.votes.iter().map(|vote| vote.voted_at.plus(1)).fold(self.before_start, UnixSeconds::max)
    }

    /// Forgets the instants that no new vote can get.
    pub(super) fn prune(&mut self, now: UnixSeconds) {
        let window = now..=now.plus(VOTE_AHEAD_MAX_S);
        self.votes.retain(|vote| window.contains(&vote.voted_at));
        if !(now.plus(1)..=now.plus(VOTE_AHEAD_MAX_S + 1)).contains(&self.before_start) {
            self.before_start = UnixSeconds(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::SpentInstants;
    use crate::store::StoredVote;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::Pair;
    use crate::vote::time::UnixSeconds;

    const NOW: UnixSeconds = UnixSeconds(1_000_000);

    fn vote(address: u32, voted_at: UnixSeconds) -> StoredVote {
        StoredVote { pair: Pair { server: ServerId(1), address: VoterAddress::V4(Ipv4(address)) }, voted_at }
    }

    #[test]
    fn an_instant_is_spent_until_it_has_passed() {
        let mut spent = SpentInstants::default();
        spent.note(vote(1, NOW));
        spent.note(vote(2, NOW.plus(5)));
        spent.prune(NOW);
        assert!(spent.is_spent(vote(1, NOW)) && !spent.is_spent(vote(2, NOW)) && !spent.is_spent(vote(1, NOW.plus(1))));
        assert_eq!(spent.until(), NOW.plus(6));
        spent.prune(NOW.plus(1));
        assert!(!spent.is_spent(vote(1, NOW)) && spent.is_spent(vote(2, NOW.plus(5))));
        // The time went back.
        spent.prune(NOW.minus(1));
        assert_eq!(spent.until(), UnixSeconds(0));
    }

    #[test]
    fn what_an_earlier_process_spent_is_told_by_its_latest_instant() {
        let mut spent = SpentInstants::before_start(NOW.plus(4));
        assert!(spent.may_be_spent(NOW, NOW) && spent.may_be_spent(NOW.plus(3), NOW));
        assert!(!spent.may_be_spent(NOW.plus(4), NOW) && !spent.may_be_spent(NOW.minus(1), NOW));
        assert_eq!(spent.until(), NOW.plus(4));
        spent.prune(NOW.plus(3));
        assert!(spent.may_be_spent(NOW.plus(3), NOW.plus(3)));
        spent.prune(NOW.plus(4));
        assert_eq!(spent.until(), UnixSeconds(0));
        // A vote may lie five seconds ahead.
        for (ahead_s, is_kept) in [(0, false), (1, true), (6, true), (7, false)] {
            let mut spent = SpentInstants::before_start(NOW.plus(ahead_s));
            spent.prune(NOW);
            assert_eq!(spent.until() == NOW.plus(ahead_s), is_kept, "{ahead_s}");
        }
        // The time went back since.
        let mut spent = SpentInstants::before_start(NOW.plus(3_600));
        spent.prune(NOW);
        assert_eq!(spent.until(), UnixSeconds(0));
    }

    /// Regression: by a clock before 1970, every vote was refused as if its instant were spent.
    #[test]
    fn where_nothing_was_spent_the_first_second_is_free() {
        let spent = SpentInstants::before_start(UnixSeconds(0));
        assert!(!spent.may_be_spent(UnixSeconds(0), UnixSeconds(0)));
        let spent = SpentInstants::before_start(UnixSeconds(1));
        assert!(spent.may_be_spent(UnixSeconds(0), UnixSeconds(0)));
    }
}
