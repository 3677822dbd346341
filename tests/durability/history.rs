//! A history of changes as a recorder makes them, and what is kept after each: the model that a
//! store is compared with. Knows the store's events; not how one keeps them.

use crate::util::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use vote_status::store::{Cut, Event, Store, StoreError, StoredVote};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::ipv6::{Ipv6Network, Ipv6Prefix};
use vote_status::vote::settings::Settings;
use vote_status::vote::table::Pair;
use vote_status::vote::time::{Cooldown, UnixSeconds};

/// Rows that are dropped in one go at most: all of them, here.
const DROP_ROWS_MAX: usize = 1 << 20;
/// When a history begins: 2026-11-20T12:34:56Z.
const BEGIN: u32 = 1_795_178_096;

/// What is kept: votes as (instant, server, address), and the token of each server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) votes: BTreeSet<(u32, u32, u32)>,
    pub(crate) servers: BTreeMap<u32, String>,
}

/// One commit.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// These changes together.
    Commit(Vec<Event>),
    /// The votes up to this instant go.
    Drop(UnixSeconds),
}

impl Step {
    /// Does it to a store.
    pub(crate) fn run(&self, store: &mut dyn Store) -> Result<(), StoreError> {
        match self {
            Step::Commit(events) => store.commit(events, &besides()),
            Step::Drop(until) => store.drop_cast(*until, DROP_ROWS_MAX, &besides()).map(drop),
        }
    }
}

impl Kept {
    /// What a store says that it keeps.
    pub(crate) fn of(store: &mut dyn Store) -> Result<Kept, StoreError> {
        let mut kept = Kept::default();
        store.replay(UnixSeconds(0), &mut |event| kept.apply(&event))?;
        Ok(kept)
    }

    /// All that is kept, as a recorder hands it to a store that is written anew.
    pub(crate) fn rows(&self) -> Vec<Event> {
        let servers = self.servers.iter().map(|(id, token)| server(*id, token));
        let votes = self.votes.iter().map(|vote| Event::Vote(stored(*vote)));
        servers.chain(votes).collect()
    }

    /// What is kept after a step.
    pub(crate) fn take(&mut self, step: &Step) {
        match step {
            Step::Commit(events) => events.iter().for_each(|event| self.apply(event)),
            Step::Drop(until) => self.votes.retain(|vote| vote.0 > until.0),
        }
    }

    /// Requires that this is the same as what was wanted, and says what is not.
    pub(crate) fn expect(&self, wanted: &Kept, what: &str) {
        let lost: Vec<_> = wanted.votes.difference(&self.votes).collect();
        let invented: Vec<_> = self.votes.difference(&wanted.votes).collect();
        assert!(self.votes == wanted.votes, "{what}: votes lost {lost:?}, votes that must not be there {invented:?}");
        assert_eq!(self.servers, wanted.servers, "{what}");
    }

    fn apply(&mut self, event: &Event) {
        match event {
            Event::Vote(vote) => drop(self.votes.insert(row(vote))),
            Event::VoteRemoved(vote) => drop(self.votes.remove(&row(vote))),
            Event::Server(server, token) => drop(self.servers.insert(server.0, token.as_str().to_owned())),
            Event::ServerRemoved(server) => drop(self.servers.remove(&server.0)),
        }
    }
}

fn row(vote: &StoredVote) -> (u32, u32, u32) {
    let number = match vote.pair.address {
        VoterAddress::V4(address) => address.0,
        VoterAddress::V6(network) => network.0 as u32,
    };
    (vote.voted_at.0, vote.pair.server.0, number)
}

/// Addresses of both families by turns.
pub(crate) fn address(number: u32) -> VoterAddress {
    if number.is_multiple_of(2) {
        VoterAddress::V4(Ipv4(number))
    } else {
        VoterAddress::V6(Ipv6Network(u64::from(number)))
    }
}

/// What is kept besides votes and servers.
pub(crate) fn besides() -> vote_status::store::Kept {
    let (shown_ms, latest_removed) = (u64::from(BEGIN) * 1_000, Some(UnixSeconds(BEGIN + 9)));
    let cuts = vec![Cut { beyond: UnixSeconds(BEGIN), to: UnixSeconds(BEGIN - 3_600) }];
    let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
    vote_status::store::Kept { shown_ms, settled_ms: shown_ms - 7, settings, cuts, latest_removed }
}

/// A vote as the store keeps it.
pub(crate) fn vote(voted_at: u32, server: u32, address: u32) -> Event {
    Event::Vote(stored((voted_at, server, address)))
}

/// The end of a vote.
pub(crate) fn vote_removed(voted_at: u32, server: u32, address: u32) -> Event {
    Event::VoteRemoved(stored((voted_at, server, address)))
}

/// A server with its token.
pub(crate) fn server(id: u32, token: &str) -> Event {
    Event::Server(ServerId(id), Token::new(token).expect("a token"))
}

fn stored((voted_at, server, number): (u32, u32, u32)) -> StoredVote {
    let pair = Pair { server: ServerId(server), address: address(number) };
    StoredVote { pair, voted_at: UnixSeconds(voted_at) }
}

/// Makes up steps that follow from one another: a second a step, a few votes, now and then a
/// cancelled one, a server that comes, changes or goes, and the oldest votes dropped.
#[derive(Debug)]
pub(crate) struct History {
    now: u32,
    addresses: u32,
    steps: u32,
}

/// A vote is dropped when it is so old, in seconds: the number of votes levels out.
const AGE_MAX_S: u32 = 200;

impl History {
    pub(crate) fn new() -> History {
        History { now: BEGIN, addresses: 0, steps: 0 }
    }

    /// The next step on top of what is kept. Every address votes once only, so that a vote that
    /// was never sent could not hide among those that were.
    pub(crate) fn next(&mut self, kept: &Kept, random: &mut Random) -> Step {
        self.now += 1;
        self.steps += 1;
        let oldest = kept.votes.first().map_or(self.now, |vote| vote.0);
        if self.steps.is_multiple_of(20) && oldest + AGE_MAX_S <= self.now {
            return Step::Drop(UnixSeconds(self.now - AGE_MAX_S));
        }
        let mut events = Vec::new();
        for _ in 0..1 + random.below(4) {
            self.addresses += 1;
            events.push(vote(self.now, number(random.below(50)), self.addresses));
        }
        if random.below(4) == 0 {
            let cancelled = kept.votes.iter().nth(random.below(kept.votes.len().max(1)));
            events.extend(cancelled.map(|gone| Event::VoteRemoved(stored(*gone))));
        }
        if random.below(8) == 0 {
            let id = number(random.below(50));
            events.push(server(id, &format!("token-{id}-{}", self.steps)));
        }
        if random.below(16) == 0 {
            events.push(Event::ServerRemoved(ServerId(number(random.below(50)))));
        }
        Step::Commit(events)
    }
}

fn number(small: usize) -> u32 {
    u32::try_from(small).expect("a small number")
}
