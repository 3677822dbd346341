//! Counts the votes of the address with the most recorded votes. A site that takes its proxy's address for the players'
//! reports all votes from one address. An address has one vote per server and cooldown, so this is the number of
//! servers that it voted for.
//!
//! The count uses the algorithm of Misra and Gries: it needs a few slots for any number of voters, and is never too high.

use super::command::{Reply, VoteOutcome};
use crate::vote::address::VoterAddress;
use crate::vote::time::{Cooldown, UnixSeconds};

/// Addresses that are counted at a time. The count is too low by at most a ninth of all votes.
const SLOTS: usize = 8;

/// The addresses that may have most votes.
#[derive(Debug, Default)]
pub struct FrequentVoters {
    slots: Vec<(VoterAddress, u64)>,
    /// When counting begins anew.
    until: UnixSeconds,
    /// The highest count of the period before.
    before: u64,
}

impl FrequentVoters {
    /// Counts the recorded votes of a reply. Gives the most votes of one address, in the present period of one cooldown
    /// or the period before.
    pub fn count(&mut self, reply: &Reply, now: UnixSeconds, cooldown: Cooldown) -> u64 {
        if now >= self.until {
            (self.before, self.until) = (self.most(), cooldown.expires_at(now));
            self.slots.clear();
        }
        if let Reply::Votes(outcomes) = reply {
            let recorded = outcomes.iter().filter_map(|outcome| match outcome {
                VoteOutcome::Recorded(recorded) => Some(&recorded.voter),
                _ => None,
            });
            recorded.flat_map(|voter| voter.addresses()).for_each(|address| self.add(address));
        }
        self.most().max(self.before)
    }

    fn most(&self) -> u64 {
        self.slots.iter().map(|(_, count)| *count).max().unwrap_or(0)
    }

    fn add(&mut self, address: VoterAddress) {
        if let Some((_, count)) = self.slots.iter_mut().find(|(of, _)| *of == address) {
            *count += 1;
        } else if self.slots.len() < SLOTS {
            self.slots.push((address, 1));
        } else {
            self.slots.iter_mut().for_each(|(_, count)| *count -= 1);
            self.slots.retain(|(_, count)| *count > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::FrequentVoters;
    use crate::recorder::command::{Recorded, Reply, VoteOutcome};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::{Cooldown, UnixSeconds};

    const NOW: UnixSeconds = UnixSeconds(1_795_178_096);

    fn vote(address: u32) -> Reply {
        let (voter, expires_at) = (VoterAddress::V4(Ipv4(address)).into(), NOW);
        let recorded = Recorded { server: ServerId(1), voter, voted_at: NOW, expires_at, is_confirmed: true };
        Reply::Votes(vec![VoteOutcome::Recorded(recorded), VoteOutcome::Expired])
    }

    #[test]
    fn one_address_among_many_is_found() {
        let mut voters = FrequentVoters::default();
        let cooldown = Cooldown::USUAL;
        let mut most = 0;
        // Every third vote is the proxy's.
        for number in 0..300 {
            let address = if number % 3 == 0 { 7 } else { 1_000 + number };
            most = voters.count(&vote(address), NOW, cooldown);
        }
        assert!((66..=100).contains(&most), "{most}");
        // The proxy's count lasts for one cooldown more, and no longer.
        assert_eq!(voters.count(&vote(8), cooldown.expires_at(NOW), cooldown), most);
        let later = cooldown.expires_at(cooldown.expires_at(NOW));
        assert_eq!(voters.count(&vote(8), later, cooldown), 1);
    }

    #[test]
    fn voters_of_a_few_servers_are_not_taken_for_one() {
        let mut voters = FrequentVoters::default();
        let cooldown = Cooldown::USUAL;
        let most = (0..10_000).map(|number| voters.count(&vote(number / 4), NOW, cooldown)).max();
        assert_eq!(most, Some(4));
    }

    #[test]
    fn an_address_that_comes_late_is_found_as_well() {
        let mut voters = FrequentVoters::default();
        for number in 0..8 {
            voters.count(&vote(number), NOW, Cooldown::USUAL);
        }
        // The first vote of a ninth address takes one from each of the eight.
        let counts = (0..3).map(|_| voters.count(&vote(1_000), NOW, Cooldown::USUAL));
        assert_eq!(counts.collect::<Vec<_>>(), [0, 1, 2]);
    }
}
