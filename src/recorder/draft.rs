//! The commands of one commit, checked against the state and against each other.
//!
//! Nothing here changes the table or the directory: the changes are gathered, so that they can be
//! made durable first and applied after, or forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use super::cancelled::CancelledVotes;
use super::command::{
    Command, Mode, NewServer, Recorded, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome, generate_token,
};
use super::cut::CutVotes;
use super::removal::Removals;
use crate::store::{Event, StoredVote};
use crate::vote::address::Voter;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{CooldownTable, Cooling, Pair};
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

/// What one commit changes.
#[derive(Default)]
pub(super) struct Changes {
    /// For the store, in order.
    pub(super) events: Vec<Event>,
    /// What the table will hold for each pair that changes, `None` for nothing. Pairs are named as the table looks them
    /// up; what is held is under the voter's own address, as its row is.
    pub(super) pairs: HashMap<Pair, Option<Cooling>>,
    /// The directory that will be, once a server changed.
    pub(super) servers: Option<Snapshot>,
    /// Votes that are taken away.
    pub(super) cancelled: CancelledVotes,
    /// Servers that are removed (`true`), and those that are listed again after that (`false`).
    pub(super) removed: HashMap<ServerId, bool>,
}

/// Changes that are gathered for one commit.
pub(super) struct Draft<'s> {
    pub(super) table: &'s CooldownTable,
    pub(super) servers: Arc<Snapshot>,
    pub(super) cooldown: Cooldown,
    pub(super) now: UnixSeconds,
    /// What was taken away before.
    pub(super) cancelled_before: &'s CancelledVotes,
    /// Votes that are still to go with their servers.
    pub(super) removals: &'s Removals,
    /// Votes with rows of other instants than the table says.
    pub(super) cut: &'s CutVotes,
    /// What was gathered so far.
    pub(super) changes: Changes,
}

impl Draft<'_> {
    /// Checks one command, and gathers what it changes.
    pub(super) fn check(&mut self, command: Command) -> Reply {
        match command {
            Command::Votes(votes, mode) => Reply::Votes(votes.into_iter().map(|vote| self.vote(&vote, mode)).collect()),
            Command::Cancel(server, address) => Reply::Cancelled(self.cancel(Pair { server, address })),
            Command::Servers(servers, tokens) => {
                Reply::Servers(servers.into_iter().map(|server| self.list(server, tokens)).collect())
            }
            Command::Rotate(server) => Reply::Servers(vec![self.rotate(server)]),
            Command::Remove(server) => Reply::Removed(self.remove(server).then_some(server)),
            // Nodes are compared with the store that they share, and this one is nobody else's.
            Command::Digest => Reply::StoreUnavailable,
        }
    }

    fn servers(&self) -> &Snapshot {
        self.changes.servers.as_ref().unwrap_or(&self.servers)
    }

    fn servers_mut(&mut self) -> &mut Snapshot {
        self.changes.servers.get_or_insert_with(|| Snapshot::clone(&self.servers))
    }

    /// What is held for a pair, the changes of this draft included, expired or not.
    fn held(&self, pair: Pair) -> Option<Cooling> {
        match self.changes.pairs.get(&self.table.looked_up(pair)) {
            Some(changed) => *changed,
            None => self.table.held(pair),
        }
    }

    /// What is held for a pair that is in cooldown.
    fn live(&self, pair: Pair) -> Option<Cooling> {
        self.held(pair).filter(|held| self.now < held.expires_at)
    }

    fn vote(&mut self, vote: &Vote, mode: Mode) -> VoteOutcome {
        let server = match &vote.server {
            ServerName::Id(server) => Some(*server).filter(|server| self.servers().contains(*server)),
            ServerName::Token(token) => self.servers().find(token.as_str().as_bytes()),
        };
        let Some(server) = server else { return VoteOutcome::UnknownServer };
        let voted_at = vote.voted_at.unwrap_or(self.now);
        let expires_at = self.cooldown.expires_at(voted_at);
        if voted_at > self.now.plus(VOTE_AHEAD_MAX_S) {
            return VoteOutcome::InFuture;
        }
        if expires_at <= self.now {
            return VoteOutcome::Expired;
        }
        match mode {
            Mode::Cast => self.cast(server, vote),
            Mode::Record => self.record(server, vote, expires_at),
        }
    }

    /// The pairs that a vote is for. Addresses that the table takes for one count once.
    fn pairs_of(&self, server: ServerId, voter: &Voter) -> Vec<Pair> {
        let mut pairs: Vec<Pair> = Vec::with_capacity(voter.addresses_len());
        for pair in voter.addresses().map(|address| Pair { server, address }) {
            if !pairs.iter().any(|other| self.table.looked_up(*other) == self.table.looked_up(pair)) {
                pairs.push(pair);
            }
        }
        pairs
    }

    /// A vote that is cast is for all of its pairs: one of them in cooldown refuses it.
    fn cast(&mut self, server: ServerId, vote: &Vote) -> VoteOutcome {
        let pairs = self.pairs_of(server, &vote.voter);
        let live = pairs.iter().filter_map(|pair| Some((pair.address, self.live(*pair)?.expires_at)));
        if let Some((address, held)) = live.max_by_key(|(_, held)| *held) {
            return VoteOutcome::InCooldown(address, held);
        }
        let Some(voted_at) = self.free_second(&pairs, vote) else { return VoteOutcome::TooManyChanges };
        let expires_at = self.cooldown.expires_at(voted_at);
        pairs.iter().for_each(|pair| self.put(*pair, expires_at));
        VoteOutcome::Recorded(self.recorded(server, vote, expires_at))
    }

    /// A vote of the caller's own records: for each of its pairs the later vote stays.
    fn record(&mut self, server: ServerId, vote: &Vote, expires_at: UnixSeconds) -> VoteOutcome {
        let pairs = self.pairs_of(server, &vote.voter);
        let held = pairs.iter().filter_map(|pair| self.live(*pair)).map(|held| held.expires_at).max();
        let is_earlier = |pair: &&Pair| self.live(**pair).is_none_or(|held| held.expires_at < expires_at);
        let earlier: Vec<Pair> = pairs.iter().filter(is_earlier).copied().collect();
        if earlier.is_empty() {
            return VoteOutcome::Unchanged(self.recorded(server, vote, held.unwrap_or(expires_at)));
        }
        earlier.into_iter().for_each(|pair| self.put(pair, expires_at));
        VoteOutcome::Recorded(self.recorded(server, vote, expires_at))
    }

    fn put(&mut self, pair: Pair, expires_at: UnixSeconds) {
        // The row of the earlier vote goes: cancelling the later one must not bring it back, nor its instant.
        if let Some(earlier) = self.live(pair) {
            self.spend(earlier);
        }
        self.forget_row(pair, self.held(pair));
        let new = Cooling { pair, expires_at };
        self.changes.events.push(Event::Vote(StoredVote::of(new, self.cooldown)));
        self.changes.pairs.insert(self.table.looked_up(pair), Some(new));
    }

    /// The first second, from that of the vote on, in which no vote of these pairs had been cast that was taken away.
    /// `None` where that would be too far ahead of the clock. Only for a vote that is cast: one that is recorded
    /// keeps the instant of the caller's records.
    fn free_second(&self, pairs: &[Pair], vote: &Vote) -> Option<UnixSeconds> {
        let is_taken = |pair: &Pair, at| {
            let vote = StoredVote { pair: self.table.looked_up(*pair), voted_at: at };
            [self.cancelled_before, &self.changes.cancelled].into_iter().any(|cancelled| cancelled.is_cancelled(vote))
        };
        let first = vote.voted_at.unwrap_or(self.now);
        let mut seconds = (first.0..=self.now.plus(VOTE_AHEAD_MAX_S).0).map(UnixSeconds);
        seconds.find(|at| !pairs.iter().any(|pair| is_taken(pair, *at)))
    }

    fn recorded(&self, server: ServerId, vote: &Vote, expires_at: UnixSeconds) -> Recorded {
        let (voter, voted_at) = (vote.voter.clone(), self.cooldown.voted_at(expires_at));
        Recorded { server, voter, voted_at, expires_at, is_confirmed: true }
    }

    fn cancel(&mut self, pair: Pair) -> Option<bool> {
        if !self.servers().contains(pair.server) {
            return None;
        }
        let live = self.live(pair);
        if let Some(held) = live {
            self.forget(held);
            self.spend(held);
        }
        Some(live.is_some())
    }

    /// No later vote of the pair gets the instant of this one.
    fn spend(&mut self, Cooling { pair, expires_at }: Cooling) {
        let spent = StoredVote::of(Cooling { pair: self.table.looked_up(pair), expires_at }, self.cooldown);
        self.changes.cancelled.note(spent);
        self.changes.events.push(Event::Spent(spent));
    }

    /// The row of a pair goes. That of a vote that was cut is of another instant than what is held.
    fn forget_row(&mut self, pair: Pair, held: Option<Cooling>) {
        let looked_up = self.table.looked_up(pair);
        let cut = if self.changes.pairs.contains_key(&looked_up) { None } else { self.cut.row(looked_up) };
        if let Some(row) = cut.or(held) {
            self.changes.events.push(Event::VoteRemoved(StoredVote::of(row, self.cooldown)));
        }
    }

    fn forget(&mut self, held: Cooling) {
        self.forget_row(held.pair, Some(held));
        self.changes.pairs.insert(self.table.looked_up(held.pair), None);
    }

    fn list(&mut self, new: NewServer, tokens: Tokens) -> ServerOutcome {
        let held = self.servers().token(new.server).cloned();
        match (held, new.token) {
            (Some(held), None) => ServerOutcome::Unchanged(new.server, held),
            (Some(held), Some(token)) if held == token => ServerOutcome::Unchanged(new.server, held),
            (Some(_), Some(_)) if tokens == Tokens::Keep => ServerOutcome::TokenDiffers,
            (Some(_), token) => self.give_token(new.server, token, ServerOutcome::Changed),
            (None, token) => self.give_token(new.server, token.or_else(generate_token), ServerOutcome::Created),
        }
    }

    fn rotate(&mut self, server: ServerId) -> ServerOutcome {
        if self.servers().contains(server) {
            self.give_token(server, generate_token(), ServerOutcome::Changed)
        } else {
            ServerOutcome::Unknown
        }
    }

    /// Lists the server with this token; `None` where one was to be generated and could not be.
    fn give_token(
        &mut self,
        server: ServerId,
        token: Option<Token>,
        outcome: fn(ServerId, Token) -> ServerOutcome,
    ) -> ServerOutcome {
        let Some(token) = token else { return ServerOutcome::NotGenerated };
        if self.servers().find(token.as_str().as_bytes()).is_some() {
            return ServerOutcome::TokenInUse;
        }
        self.finish_removal(server);
        self.servers_mut().insert(server, token.clone());
        self.changes.events.push(Event::Server(server, token.clone()));
        outcome(server, token)
    }

    /// What is left of an earlier server of this id goes before it is listed again.
    fn finish_removal(&mut self, server: ServerId) {
        let left = match self.changes.removed.get(&server) {
            // Votes that a step back has cut and ended are in the table no longer, and may come back.
            Some(true) => self.table.of_server(server).into_iter().chain(self.cut.of_server(server)).collect(),
            Some(false) => return,
            None => self.removals.of(server),
        };
        if left.is_empty() && !self.changes.removed.contains_key(&server) {
            return;
        }
        self.forget_all(&left);
        self.changes.removed.insert(server, false);
    }

    /// Takes these votes away, except those that this draft has taken away already.
    pub(super) fn forget_all(&mut self, entries: &[Cooling]) {
        for held in entries {
            if !self.changes.pairs.contains_key(&self.table.looked_up(held.pair)) {
                self.forget(*held);
                // Of the others that go with a server there may be very many.
                let voted_at = self.cooldown.voted_at(held.expires_at);
                if (self.now..=self.now.plus(VOTE_AHEAD_MAX_S)).contains(&voted_at) {
                    self.spend(*held);
                }
            }
        }
    }

    fn remove(&mut self, server: ServerId) -> bool {
        if !self.servers().contains(server) {
            return false;
        }
        // Votes of this draft go at once. Those in the table go later, in parts: see [`Removals`].
        let cast_here: Vec<_> =
            self.changes.pairs.values().flatten().filter(|held| held.pair.server == server).copied().collect();
        for held in cast_here {
            self.forget(held);
            self.spend(held);
        }
        self.changes.removed.insert(server, true);
        self.servers_mut().remove(server);
        self.changes.events.push(Event::ServerRemoved(server));
        true
    }
}
