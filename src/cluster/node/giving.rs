//! The facts that a node owes the store: the node knows them, and the store has lost them. Removals are given back first; then
//! the node reads and compares the state again, and gives back the rest.

use std::collections::HashSet;

use super::output::{Note, Output};
use super::share::Share;
use super::{NodeMachine, UnseenEntry};
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Done, Given, RefusalKind, StoreReply};
use crate::cluster::wire::fact::{Fact, Said};
use crate::vote::id::ServerId;

/// Facts of one server, which are given back in one call.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) server: ServerId,
    pub(super) facts: Vec<Fact>,
}

/// The facts that the node owes.
#[derive(Debug, Default)]
pub(super) struct Owed {
    takes_away: Share,
    servers: Share,
    votes: Share,
    /// Whether the store has taken a removal. Then the node compares the state again, after it has given back the rest.
    is_to_be_compared: bool,
    /// Servers with keys of a strange type.
    aside: HashSet<ServerId>,
    retry_at_ms: u64,
    /// Whether the log was read since the last batch.
    is_read: bool,
    is_refused: bool,
}

impl Owed {
    /// The number of owed facts, and one more while the state is to be compared again.
    pub(super) const fn len(&self) -> usize {
        self.takes_away.len() + self.servers.len() + self.votes.len() + self.is_to_be_compared as usize
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.takes_away.is_empty() && self.servers.is_empty() && self.votes.is_empty()
    }

    pub(super) const fn is_to_be_compared(&self) -> bool {
        self.is_to_be_compared
    }

    /// Whether a batch is due now.
    pub(super) const fn is_due(&self, now_ms: u64) -> bool {
        !self.is_empty() && self.is_read && now_ms >= self.retry_at_ms
    }

    /// The instant at which a batch is due, if anything is owed.
    pub(super) const fn retry_at_ms(&self) -> Option<u64> {
        if self.is_empty() { None } else { Some(self.retry_at_ms) }
    }

    /// Notes that the log was read.
    pub(super) const fn may_give(&mut self) {
        self.is_read = true;
    }

    /// Takes the facts owed after a comparison of the state. Servers that were set aside are tried once more.
    pub(super) fn replace(&mut self, owed: Vec<Said>, rank: usize, nodes: usize) {
        let (takes_away, rest): (Vec<_>, Vec<_>) = owed.into_iter().partition(|said| said.fact.takes_away());
        let (servers, votes) = rest.into_iter().partition(|said| matches!(said.fact, Fact::Listed(_)));
        let [takes_away, servers, votes] = [takes_away, servers, votes].map(|facts| Share::new(facts, rank, nodes));
        self.is_to_be_compared = false;
        (self.takes_away, self.servers, self.votes) = (takes_away, servers, votes);
        (self.retry_at_ms, self.is_read) = (0, true);
        self.aside.clear();
    }

    /// The next facts, by their servers. The end of a listing goes together with its successor, if that is owed too.
    /// Otherwise nodes that do not know the successor would show no server meanwhile.
    pub(super) fn next(&mut self, max: usize) -> Vec<Batch> {
        self.is_read = false;
        let share =
            [&mut self.takes_away, &mut self.servers, &mut self.votes].into_iter().find(|share| !share.is_empty());
        let mut next = share.map(|share| share.next(max)).unwrap_or_default();
        let followers: Vec<Said> = next.iter().flat_map(|said| self.followers(said)).collect();
        next.extend(followers);
        let mut batches: Vec<Batch> = Vec::new();
        for Said { server, fact } in next {
            match batches.iter_mut().find(|batch| batch.server == server) {
                Some(batch) if batch.facts.contains(&fact) => {}
                Some(batch) => batch.facts.push(fact),
                None => batches.push(Batch { server, facts: vec![fact] }),
            }
        }
        batches.iter_mut().for_each(|batch| batch.facts.sort());
        batches
    }

    /// If this fact ends a listing: the present listing of its server, if the node owes that too.
    fn followers(&self, said: &Said) -> Vec<Said> {
        match said.fact {
            Fact::ListingGone(_) => self.servers.left_of(said.server).cloned().collect(),
            _ => Vec::new(),
        }
    }

    fn share_of(&mut self, fact: &Fact) -> &mut Share {
        match fact {
            Fact::ListingGone(_) | Fact::VoteGone(..) => &mut self.takes_away,
            Fact::Listed(_) => &mut self.servers,
            Fact::Vote(..) => &mut self.votes,
        }
    }

    fn settle(&mut self, said: &Said) {
        self.is_to_be_compared |= self.share_of(&said.fact).settle(said) && said.fact.takes_away();
    }

    /// Leaves the facts of a server until the state is compared again. Gives whether that is news.
    fn set_aside(&mut self, server: ServerId) -> bool {
        for share in [&mut self.takes_away, &mut self.servers, &mut self.votes] {
            share.settle_where(|said| said.server == server);
        }
        self.aside.insert(server)
    }

    /// Takes facts that the log has brought: the node owes neither these nor the facts that they outweigh any more. It owes
    /// `follows` now. These facts follow from the log's and the node's own facts together, so the store does not know them.
    pub(super) fn come(&mut self, taken: &[Said], follows: Vec<Said>) {
        if self.is_empty() && follows.is_empty() {
            return;
        }
        for said in taken {
            self.settle(said);
            match &said.fact {
                Fact::ListingGone(listing) => {
                    let is_of_it = |owed: &Said| owed.listing() == Some(*listing);
                    self.servers.settle_where(is_of_it);
                    self.votes.settle_where(is_of_it);
                }
                Fact::VoteGone(at, address) => {
                    let is_gone = |owed: &Said| {
                        let Fact::Vote(_, instant, voter) = &owed.fact else { return false };
                        (owed.server, voter) == (said.server, address) && instant <= at
                    };
                    self.votes.settle_where(is_gone);
                }
                Fact::Listed(record) => {
                    let is_before = |owed: &Said| matches!(&owed.fact, Fact::Listed(held) if owed.server == said.server && held <= record);
                    self.servers.settle_where(is_before);
                }
                Fact::Vote(..) => {}
            }
        }
        if !follows.is_empty() {
            let all = self.takes_away.left().cloned().chain(follows).collect();
            self.takes_away = Share::new(all, 0, 1);
        }
    }
}

impl NodeMachine {
    pub(super) fn take_given(&mut self, batch: &Batch, reply: StoreReply, now_ms: u64) {
        let said = |fact: &Fact| Said { server: batch.server, fact: fact.clone() };
        let was_empty = self.owed.is_empty();
        match reply {
            StoreReply::Done(Done::Given(given), made) => {
                let (mut learnt, mut taken) = (Vec::new(), Vec::new());
                for (fact, given) in batch.facts.iter().zip(given) {
                    match given {
                        Given::Stands => {
                            self.owed.settle(&said(fact));
                            taken.push(said(fact));
                        }
                        Given::Over => self.owed.settle(&said(fact)),
                        // The log may bring that fact later: meanwhile neither would be shown.
                        Given::Outweighed(by) => {
                            self.owed.settle(&said(fact));
                            learnt.push(said(&by));
                        }
                        // The node knows the listing, and the store has lost it since.
                        Given::Unlisted => self.note_doubt(RebuildCause::History),
                    }
                }
                self.outputs.push(Output::Note(Note::Given(taken.len(), batch.facts.len() - taken.len())));
                let (now, server) = (self.now_s(now_ms), batch.server);
                let stored = self.store_listings.of(server, self.known.listing(server));
                self.join(now, |join| learnt.into_iter().for_each(|said| join.take(said)));
                // The log may still have votes of the store's present listing.
                self.store_listings.set(server, stored, self.known.listing(server));
                self.owed.is_refused = false;
                // The node owes none of these facts any more. If the store loses them before the log brings them, the node must
                // notice.
                if let Some(last) = made.filter(|last| last.n > self.position.n) {
                    self.unseen.push(UnseenEntry { last, facts: taken, is_shown: false });
                }
            }
            StoreReply::Refused(refusal) if refusal.kind == RefusalKind::Lost => {
                self.note_loss(RebuildCause::History);
            }
            StoreReply::Refused(refusal) if refusal.kind == RefusalKind::Key => {
                if self.owed.set_aside(batch.server) {
                    self.outputs.push(Output::Note(Note::SetAside(batch.server, refusal.text)));
                }
            }
            StoreReply::Refused(refusal) => {
                self.owed.retry_at_ms = now_ms + self.bounds.refused_pause_ms;
                if !std::mem::replace(&mut self.owed.is_refused, true) {
                    self.outputs.push(Output::Note(Note::Refused(refusal.text)));
                }
            }
            _ => self.owed.retry_at_ms = now_ms + self.bounds.refused_pause_ms,
        }
        if self.owed.is_empty() && !was_empty {
            self.end_giving();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Batch, Owed};
    use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::UnixSeconds;

    fn removal(server: u32) -> Said {
        let fact = Fact::VoteGone(UnixSeconds(9), VoterAddress::V4(Ipv4(7)));
        Said { server: ServerId(server), fact }
    }

    fn listing(stamp: u64) -> Listing {
        Listing::read(&format!("{stamp:016}-00000000000000ab")).expect("it is a listing")
    }

    /// A server with a listing of this stamp.
    fn listed(server: u32, stamp: u64) -> Said {
        let token = Token::new("demo").expect("it is a token");
        Said { server: ServerId(server), fact: Fact::Listed(Record { listing: listing(stamp), stamp, token }) }
    }

    fn vote(server: u32, stamp: u64, at: u32, voter: u32) -> Said {
        let fact = Fact::Vote(listing(stamp), UnixSeconds(at), VoterAddress::V4(Ipv4(voter)));
        Said { server: ServerId(server), fact }
    }

    /// The facts left, in their order.
    fn left(owed: &Owed) -> Vec<Said> {
        let shares = [&owed.takes_away, &owed.servers, &owed.votes];
        let mut left: Vec<Said> = shares.into_iter().flat_map(|share| share.left().cloned()).collect();
        left.sort();
        left
    }

    #[test]
    fn the_ends_of_listings_go_together_with_the_present_listing_of_their_server() {
        let ended = |stamp| Said { server: ServerId(1), fact: Fact::ListingGone(listing(stamp)) };
        let mut owed = Owed::default();
        owed.replace(vec![vote(1, 3, 9, 7), listed(1, 3), listed(2, 3), ended(2), ended(1)], 0, 1);
        let batches = owed.next(9);
        let [Batch { server: ServerId(1), facts }] = &batches[..] else { panic!("{batches:?}") };
        assert_eq!(*facts, [ended(1), ended(2), listed(1, 3)].map(|said| said.fact));
    }

    #[test]
    fn facts_of_a_listing_that_the_log_has_ended_are_owed_no_more() {
        let mut owed = Owed::default();
        owed.replace(vec![listed(1, 1), listed(2, 2), vote(1, 1, 9, 7), vote(1, 2, 9, 7)], 0, 1);
        owed.come(&[Said { server: ServerId(1), fact: Fact::ListingGone(listing(1)) }], Vec::new());
        assert_eq!(left(&owed), [vote(1, 2, 9, 7), listed(2, 2)]);
    }

    #[test]
    fn votes_of_an_address_up_to_the_instant_of_a_removal_are_owed_no_more() {
        let mut owed = Owed::default();
        let others = [vote(1, 1, 9, 8), vote(1, 1, 10, 7), vote(2, 1, 9, 7)];
        owed.replace([vec![vote(1, 1, 8, 7), vote(1, 1, 9, 7)], others.to_vec()].concat(), 0, 1);
        owed.come(&[removal(1)], Vec::new());
        assert_eq!(left(&owed), others);
    }

    #[test]
    fn a_removal_that_follows_from_the_log_is_owed_besides_the_rest() {
        let mut owed = Owed::default();
        owed.replace(vec![removal(1), vote(1, 1, 10, 7)], 0, 1);
        owed.come(&[], vec![removal(2)]);
        assert_eq!(left(&owed), [removal(1), vote(1, 1, 10, 7), removal(2)]);
    }

    /// Regression: a removal of a server with a key of a strange type was set aside. Then the node read the whole state,
    /// owed the removal again, and so on without a pause, and took no votes.
    #[test]
    fn the_state_is_compared_again_once_the_store_has_taken_a_removal() {
        let mut owed = Owed::default();
        owed.replace(vec![removal(1), removal(2)], 0, 1);
        assert!(owed.set_aside(ServerId(1)) && !owed.set_aside(ServerId(1)));
        assert_eq!((owed.len(), owed.is_to_be_compared()), (1, false));
        owed.come(&[removal(2)], Vec::new());
        assert_eq!((owed.is_empty(), owed.is_to_be_compared()), (true, true));
        owed.replace(vec![removal(1)], 0, 1);
        owed.set_aside(ServerId(1));
        assert_eq!((owed.is_empty(), owed.is_to_be_compared()), (true, false));
    }

    #[test]
    fn a_batch_that_was_refused_is_due_after_its_pause() {
        let mut owed = Owed::default();
        assert_eq!(owed.retry_at_ms(), None);
        owed.replace(vec![removal(1)], 0, 1);
        owed.retry_at_ms = 250;
        assert_eq!(owed.retry_at_ms(), Some(250));
        assert!(!owed.is_due(249) && owed.is_due(250));
    }
}
