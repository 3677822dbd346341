//! The facts that a node knows besides the shown votes: the records of servers, and removals. Facts are joined in any order; the
//! same facts make the same state everywhere.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::cluster::wire::answer::Gone;
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::store::{Event, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

/// Servers, and removals.
#[derive(Clone, Debug, Default)]
pub(super) struct Knowledge {
    servers: BTreeMap<ServerId, Record>,
    tokens: HashMap<Token, ServerId>,
    /// For each address the instant up to which its votes were taken away.
    gone_votes: BTreeMap<(ServerId, VoterAddress), UnixSeconds>,
    gone_listings: BTreeMap<Listing, ServerId>,
    /// The greatest stamp that the node has seen.
    pub(super) stamp: u64,
}

impl Knowledge {
    /// The record of a server.
    pub(super) fn record(&self, server: ServerId) -> Option<&Record> {
        self.servers.get(&server)
    }

    /// The listing of a server.
    pub(super) fn listing(&self, server: ServerId) -> Option<Listing> {
        self.record(server).map(|record| record.listing)
    }

    /// All listed servers.
    pub(super) fn servers(&self) -> impl Iterator<Item = (ServerId, &Record)> {
        self.servers.iter().map(|(server, record)| (*server, record))
    }

    /// The listed servers, as they are shown.
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::default();
        for (server, record) in self.servers() {
            let _is_its_own = snapshot.insert(server, record.token.clone());
        }
        snapshot
    }

    /// Whether the node knows no server and no ended listing.
    pub(super) fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.gone_listings.is_empty()
    }

    /// Takes in a removal that the store holds, before there is anything to take away.
    pub(super) fn note_gone(&mut self, gone: Gone) {
        match gone {
            Gone::Listing(server, listing) => {
                self.gone_listings.insert(listing, server);
            }
            Gone::Vote(server, at, address) => {
                let until = self.gone_votes.entry((server, address)).or_insert(at);
                *until = at.max(*until);
            }
        }
    }

    /// Forgets removed votes that would be over by now.
    pub(super) fn forget_over(&mut self, now: UnixSeconds, cooldown: Cooldown) {
        self.gone_votes.retain(|_, at| now < cooldown.expires_at(*at));
    }

    fn has_gone(&self, server: ServerId, at: UnixSeconds, address: VoterAddress) -> bool {
        self.gone_votes.get(&(server, address)) >= Some(&at)
    }

    /// All removals, except for listings of unknown servers.
    pub(super) fn gone(&self) -> Vec<Said> {
        let listings = self.gone_listings.iter().filter(|(_, server)| server.0 != 0);
        let listings = listings.map(|(listing, server)| Said { server: *server, fact: Fact::ListingGone(*listing) });
        let votes = self.gone_votes.iter();
        let votes = votes.map(|((server, address), at)| Said { server: *server, fact: Fact::VoteGone(*at, *address) });
        listings.chain(votes).collect()
    }
}

/// The changes of the shown state by events that are not carried out yet.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    changed: HashMap<Pair, Option<UnixSeconds>>,
    /// Servers that lose all votes by the events.
    dropped: HashSet<ServerId>,
}

/// Joins facts to the known and shown ones, and collects the events to show and the new facts.
pub(super) struct Join<'k> {
    known: &'k mut Knowledge,
    shown: &'k CooldownView,
    overlay: &'k mut Overlay,
    cooldown: Cooldown,
    now: UnixSeconds,
    /// The events to show.
    events: Vec<Event>,
    /// Facts that were not known before: the joined ones, and those that follow from them.
    fresh: Vec<Said>,
}

impl<'k> Join<'k> {
    /// Begins to join facts; votes that are over at `now` do not count.
    pub(super) fn new(
        known: &'k mut Knowledge,
        shown: &'k CooldownView,
        overlay: &'k mut Overlay,
        cooldown: Cooldown,
        now: UnixSeconds,
    ) -> Self {
        Self { known, shown, overlay, cooldown, now, events: Vec::new(), fresh: Vec::new() }
    }

    /// The events to show, and the new facts.
    pub(super) fn end(self) -> (Vec<Event>, Vec<Said>) {
        (self.events, self.fresh)
    }

    /// The listing of a server after the facts so far.
    pub(super) fn listing(&self, server: ServerId) -> Option<Listing> {
        self.known.listing(server)
    }

    /// Whether the shown state agrees with a fact.
    pub(super) fn has(&self, said: &Said) -> bool {
        let listed = self.known.record(said.server);
        match &said.fact {
            Fact::ListingGone(listing) => listed.is_none_or(|record| record.listing != *listing),
            Fact::VoteGone(at, address) => {
                self.held(Pair { server: said.server, address: *address }).is_none_or(|held| held > *at)
            }
            Fact::Listed(record) => listed >= Some(record),
            Fact::Vote(listing, at, address) => {
                let held = self.held(Pair { server: said.server, address: *address });
                listed.is_some_and(|record| record.listing == *listing) && held >= Some(*at)
            }
        }
    }

    /// Whether another vote of a fact's address counts: one that the fact neither makes nor takes away.
    pub(super) fn has_another_vote(&self, said: &Said) -> bool {
        let held = |address| self.held(Pair { server: said.server, address });
        match said.fact {
            Fact::Vote(_, at, address) => held(address).is_some_and(|held| held != at),
            Fact::VoteGone(at, address) => held(address).is_some_and(|held| held > at),
            Fact::Listed(_) | Fact::ListingGone(_) => false,
        }
    }

    /// Whether a fact lists a server anew or takes its listing away.
    pub(super) fn changes_listing(&self, said: &Said) -> bool {
        match &said.fact {
            Fact::ListingGone(_) => true,
            Fact::Listed(record) => self.listing(said.server) != Some(record.listing),
            Fact::VoteGone(..) | Fact::Vote(..) => false,
        }
    }

    /// Joins a fact.
    pub(super) fn take(&mut self, said: Said) {
        let Said { server, fact } = said;
        match fact {
            Fact::ListingGone(listing) => self.take_away_listing(server, listing),
            Fact::VoteGone(at, address) => self.take_away_votes(server, at, address),
            Fact::Listed(record) => self.list(server, record),
            Fact::Vote(listing, at, address) => self.vote(server, listing, at, address),
        }
    }

    /// The instant of the live vote that is shown for a pair, after the events so far.
    pub(super) fn held(&self, pair: Pair) -> Option<UnixSeconds> {
        self.shown_at(pair, self.now)
    }

    fn shown_at(&self, pair: Pair, now: UnixSeconds) -> Option<UnixSeconds> {
        match self.overlay.changed.get(&pair) {
            Some(held) => *held,
            None if self.overlay.dropped.contains(&pair.server) => None,
            None => self.shown.live(pair, now).map(|expires_at| self.cooldown.voted_at(expires_at)),
        }
    }

    fn is_over(&self, at: UnixSeconds) -> bool {
        self.cooldown.expires_at(at) <= self.now
    }

    fn take_away_listing(&mut self, server: ServerId, listing: Listing) {
        if self.known.gone_listings.insert(listing, server).is_none() {
            self.fresh.push(Said { server, fact: Fact::ListingGone(listing) });
        }
        if let Some(record) = self.known.servers.get(&server).filter(|record| record.listing == listing) {
            self.known.tokens.remove(&record.token);
            self.known.servers.remove(&server);
            self.overlay.changed.retain(|pair, _| pair.server != server);
            self.overlay.dropped.insert(server);
            self.events.push(Event::ServerRemoved(server));
        }
    }

    /// Takes away a vote that is over, too: if the clock is set back, the node would show it again.
    fn take_away_votes(&mut self, server: ServerId, at: UnixSeconds, address: VoterAddress) {
        if !self.known.has_gone(server, at, address) {
            self.known.gone_votes.insert((server, address), at);
            self.fresh.push(Said { server, fact: Fact::VoteGone(at, address) });
        }
        let pair = Pair { server, address };
        if let Some(voted_at) = self.shown_at(pair, UnixSeconds(0)).filter(|held| *held <= at) {
            self.overlay.changed.insert(pair, None);
            self.events.push(Event::VoteRemoved(StoredVote { pair, voted_at }));
        }
    }

    fn list(&mut self, server: ServerId, record: Record) {
        self.known.stamp = self.known.stamp.max(record.stamp);
        if self.known.gone_listings.contains_key(&record.listing) {
            return;
        }
        if let Some(held) = self.known.servers.get(&server) {
            if held.listing > record.listing {
                return self.take_away_listing(server, record.listing);
            }
            if *held >= record {
                return;
            }
            if held.listing < record.listing {
                let former = held.listing;
                self.take_away_listing(server, former);
            }
        }
        self.fresh.push(Said { server, fact: Fact::Listed(record.clone()) });
        self.set(server, record);
    }

    /// Gives a server its record. If two servers have one token, one of them gets a spare.
    fn set(&mut self, server: ServerId, mut record: Record) {
        let other = self.known.tokens.get(&record.token).copied().filter(|other| *other != server);
        if let Some(other) = other
            && let Some(held) = self.known.servers.get(&other)
        {
            if held.keeps_its_token(&record) {
                record = record.spare();
            } else {
                let spare = held.spare();
                self.put(other, spare);
            }
        }
        self.put(server, record);
    }

    fn put(&mut self, server: ServerId, record: Record) {
        self.events.push(Event::Server(server, record.token.clone()));
        self.known.tokens.insert(record.token.clone(), server);
        if let Some(former) = self.known.servers.insert(server, record)
            && self.known.tokens.get(&former.token) == Some(&server)
            && self.known.servers[&server].token != former.token
        {
            self.known.tokens.remove(&former.token);
        }
    }

    fn vote(&mut self, server: ServerId, listing: Listing, at: UnixSeconds, address: VoterAddress) {
        let is_listed_so = self.listing(server) == Some(listing);
        if !is_listed_so || self.is_over(at) || self.known.has_gone(server, at, address) {
            return;
        }
        let pair = Pair { server, address };
        if self.held(pair) >= Some(at) {
            return;
        }
        self.overlay.changed.insert(pair, Some(at));
        self.events.push(Event::Vote(StoredVote { pair, voted_at: at }));
        self.fresh.push(Said { server, fact: Fact::Vote(listing, at, address) });
    }
}

#[cfg(test)]
#[path = "knowledge_tests.rs"]
mod tests;
