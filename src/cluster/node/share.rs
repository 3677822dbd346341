//! Owed facts of one kind, in the same order at every node, so that nodes that owe the same share the work.

use crate::cluster::wire::fact::{Fact, Said};
use crate::vote::address::Voter;
use crate::vote::id::ServerId;

/// Facts to give to the store.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// The facts in an order that is the same everywhere: servers by a hash, and facts of one server together.
    facts: Vec<(u64, Said)>,
    /// Whether each fact is settled: it need not be given any more.
    settled: Vec<bool>,
    left: usize,
    /// The index at which the next batch begins.
    at: usize,
}

/// A place for each server, independent of its number of votes.
const fn place_of(server: ServerId) -> u64 {
    let mixed = (server.0 as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93)
}

impl Share {
    /// A share of all these facts. The node of this rank among this number of nodes begins at its part.
    pub(super) fn new(facts: Vec<Said>, rank: usize, nodes: usize) -> Self {
        let mut facts: Vec<(u64, Said)> = facts.into_iter().map(|said| (place_of(said.server), said)).collect();
        facts.sort_unstable();
        facts.dedup();
        let (left, mut at) = (facts.len(), facts.len() * rank / nodes.max(1));
        // The addresses of a vote stay together.
        while at > 0 && at < left && are_together(&facts[at - 1].1, &facts[at].1) {
            at -= 1;
        }
        Self { settled: vec![false; left], facts, left, at }
    }

    /// The number of facts left.
    pub(super) const fn len(&self) -> usize {
        self.left
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Settles a fact. Gives whether it was left.
    pub(super) fn settle(&mut self, said: &Said) -> bool {
        let Some(place) = self.place(said).filter(|place| !self.settled[*place]) else { return false };
        self.settled[place] = true;
        self.left -= 1;
        true
    }

    /// Settles all facts for which `is_settled` is true.
    pub(super) fn settle_where(&mut self, is_settled: impl Fn(&Said) -> bool) {
        for ((_, said), settled) in self.facts.iter().zip(&mut self.settled) {
            if !*settled && is_settled(said) {
                *settled = true;
                self.left -= 1;
            }
        }
    }

    /// The next facts, about `max`: votes of one server and instant may be one vote, and stay together.
    pub(super) fn next(&mut self, max: usize) -> Vec<Said> {
        let mut batch: Vec<Said> = Vec::new();
        for _ in 0..self.facts.len() {
            self.at %= self.facts.len();
            let said = &self.facts[self.at].1;
            let is_cut =
                batch.len() >= max + Voter::ADDRESSES_MAX || batch.last().is_none_or(|last| !are_together(last, said));
            let is_full = batch.len() >= max && is_cut;
            if is_full {
                break;
            }
            if !self.settled[self.at] {
                batch.push(said.clone());
            }
            self.at += 1;
        }
        batch
    }

    /// All facts left.
    pub(super) fn left(&self) -> impl Iterator<Item = &Said> {
        self.facts.iter().zip(&self.settled).filter(|(_, settled)| !**settled).map(|((_, said), _)| said)
    }

    /// The facts left of a server.
    pub(super) fn left_of(&self, server: ServerId) -> impl Iterator<Item = &Said> {
        let place = place_of(server);
        let from = self.facts.partition_point(|(other, _)| *other < place);
        let of_it =
            self.facts[from..].iter().zip(&self.settled[from..]).take_while(move |((other, _), _)| *other == place);
        of_it.filter(|(_, settled)| !**settled).map(|((_, said), _)| said)
    }

    fn place(&self, said: &Said) -> Option<usize> {
        let place = place_of(said.server);
        self.facts.binary_search_by(|(other, held)| other.cmp(&place).then_with(|| held.cmp(said))).ok()
    }
}

/// Whether two facts may be of one vote.
fn are_together(one: &Said, other: &Said) -> bool {
    match (&one.fact, &other.fact) {
        (Fact::Vote(_, at, _), Fact::Vote(_, instant, _)) => one.server == other.server && at == instant,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Share, place_of};
    use crate::cluster::wire::fact::{Fact, Listing, Said};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::UnixSeconds;

    fn facts(count: u32) -> Vec<Said> {
        let fact = |at| Fact::VoteGone(UnixSeconds(at), VoterAddress::V4(Ipv4(7)));
        (0..count).map(|at| Said { server: ServerId(at % 7), fact: fact(at) }).collect()
    }

    fn vote(at: u32, address: u32) -> Said {
        let listing = Listing::read("1800000000000000-00000000000000ab").expect("a listing");
        Said { server: ServerId(1), fact: Fact::Vote(listing, UnixSeconds(at), VoterAddress::V4(Ipv4(address))) }
    }

    #[test]
    fn nodes_begin_at_their_ranks_and_give_each_fact_once() {
        let mut given = Vec::new();
        for rank in 0..3 {
            let mut share = Share::new(facts(300), rank, 3);
            let batch = share.next(100);
            assert_eq!(batch.len(), 100);
            for said in &batch {
                assert!(!given.contains(said), "two nodes begin with the same");
                assert!(share.settle(said) && !share.settle(said));
            }
            given.extend(batch);
            assert_eq!((share.len(), share.next(1_000).len()), (200, 200));
        }
        assert_eq!(given.len(), 300);
    }

    #[test]
    fn what_is_settled_is_not_given() {
        let (mut share, all) = (Share::new(facts(5), 0, 1), facts(5));
        share.settle_where(|said| *said == all[2]);
        assert!(!share.settle(&all[2]));
        assert_eq!((share.next(9).len(), share.left().count()), (4, 4));
        share.settle_where(|_| true);
        assert!(share.is_empty() && share.next(9).is_empty());
    }

    #[test]
    fn the_addresses_of_a_vote_are_given_together() {
        let votes = vec![vote(9, 0), vote(9, 1), vote(9, 2), vote(10, 0)];
        for rank in 0..2 {
            assert_eq!(Share::new(votes.clone(), rank, 2).next(1), votes[..3], "rank {rank}");
        }
    }

    /// Nodes of all versions have the same order.
    #[test]
    fn each_server_has_its_place() {
        let places = [0, 28, u32::MAX].map(|server| place_of(ServerId(server)));
        assert_eq!(places, [0x17fb_89ee_8a31_3dc4, 0xa902_8015_11bf_9e46, 0xce45_7292_35b3_010f]);
    }

    #[test]
    fn the_facts_left_of_a_server_are_its_own() {
        let (mut share, all) = (Share::new(facts(21), 0, 1), facts(21));
        share.settle(&all[9]);
        for server in 0..7 {
            let mut left: Vec<Said> = share.left_of(ServerId(server)).cloned().collect();
            left.sort_unstable();
            let of_it = |said: &&Said| said.server == ServerId(server) && **said != all[9];
            assert_eq!(left, all.iter().filter(of_it).cloned().collect::<Vec<_>>(), "{server}");
        }
        assert_eq!(share.left_of(ServerId(7)).count(), 0);
    }

    #[test]
    fn more_votes_of_one_instant_than_a_vote_can_have_are_given_in_parts() {
        // Eight addresses are one vote at most.
        assert_eq!(Share::new((0..50).map(|address| vote(9, address)).collect(), 0, 1).next(4).len(), 12);
    }
}
