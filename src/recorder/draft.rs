//! The commands of one commit, checked against the state and against each other.
//!
//! This module changes neither table nor directory. It gathers the changes, so that the recorder can make them durable
//! first and apply them after, or drop them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::command::{
    Command, GenerateToken, Mode, NewServer, Recorded, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome,
};
use super::ended::EndedEarly;
use super::spent::SpentInstants;
use crate::slices::Slices;
use crate::store::{Event, StoredVote};
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{CooldownTable, Cooling, Pair};
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};
use crate::watch::Seen;

/// The changes of one commit.
#[derive(Default)]
pub(super) struct Changes {
    /// The events for the store, in order.
    pub(super) events: Vec<Event>,
    /// For each pair that changes: when its new cooldown ends, or `None` for no cooldown.
    pub(super) pairs: HashMap<Pair, Option<UnixSeconds>>,
    /// The new directory, if a server changes.
    pub(super) servers: Option<Snapshot>,
    /// Servers that are removed: their votes stay until they expire, or until the server is listed again.
    pub(super) removed: HashSet<ServerId>,
    /// Votes that are taken away.
    pub(super) spent: HashSet<StoredVote>,
    /// Cooldowns that this commit ends early. Those of removed servers are counted when the commit is applied.
    pub(super) ended: EndedEarly,
    /// The changes as watchers see them, in order.
    pub(super) seen: Vec<Seen>,
}

/// Changes that are gathered for one commit.
pub(super) struct Draft<'s> {
    pub(super) table: &'s CooldownTable,
    pub(super) servers: Arc<Snapshot>,
    pub(super) cooldown: Cooldown,
    /// The time shown.
    pub(super) now: UnixSeconds,
    /// The certain line.
    pub(super) certain: UnixSeconds,
    /// The votes that earlier commits took away.
    pub(super) spent: &'s SpentInstants,
    /// Whether the start was so recent that votes wait for the instants that an earlier process spent. The wait is
    /// bounded: a time that stands still would extend it to minutes.
    pub(super) is_after_start: bool,
    /// Unlisted servers that may have votes, and until when.
    pub(super) removed: &'s HashMap<ServerId, UnixSeconds>,
    /// See [`Tuning::generate_token`](super::Tuning::generate_token).
    pub(super) generate_token: GenerateToken,
    /// Whether there are watchers.
    pub(super) is_watched: bool,
    /// The changes gathered so far.
    pub(super) changes: Changes,
    /// Commands, and their votes and servers, checked since the recorder gave way to readers.
    pub(super) slices: Slices,
}

impl Draft<'_> {
    /// Checks one command, and gathers its changes. Gives the command back if it lists a server again that may have
    /// votes of an earlier listing: those must go first.
    pub(super) fn check(&mut self, command: Command) -> Result<Reply, Command> {
        self.slices.done(1);
        Ok(match command {
            Command::Votes(votes, mode) => Reply::Votes(votes.into_iter().map(|vote| self.vote(&vote, mode)).collect()),
            Command::Cancel(server, address) => Reply::Cancelled(self.cancel(server, address)),
            Command::CancelAll(address) => Reply::CancelledAll(self.cancel_all(address)),
            Command::Servers(ref servers, _) if servers.iter().any(|new| self.may_have_votes(new.server)) => {
                return Err(command);
            }
            Command::Servers(servers, tokens) => {
                Reply::Servers(servers.into_iter().map(|server| self.list(server, tokens)).collect())
            }
            Command::Rotate(server) => Reply::Servers(vec![self.rotate(server)]),
            Command::Remove(server) => Reply::Removed(self.remove(server).then_some(server)),
            // The digest compares nodes with the store that they share. No other node shares this one.
            Command::Digest => Reply::StoreUnavailable,
        })
    }

    fn servers(&self) -> &Snapshot {
        self.changes.servers.as_ref().unwrap_or(&self.servers)
    }

    fn servers_mut(&mut self) -> &mut Snapshot {
        self.changes.servers.get_or_insert_with(|| Snapshot::clone(&self.servers))
    }

    fn may_have_votes(&self, server: ServerId) -> bool {
        !self.servers().contains(server)
            && (self.removed.contains_key(&server) || self.changes.removed.contains(&server))
    }

    /// The pair of an address that a command names: an IPv6 voter is its network.
    fn pair(&self, server: ServerId, address: VoterAddress) -> Pair {
        Pair { server, address: self.table.view().voter(address) }
    }

    /// When the cooldown of a pair ends or ended, the changes of this draft included.
    fn expires_at(&self, pair: Pair) -> Option<UnixSeconds> {
        self.changes.pairs.get(&pair).copied().unwrap_or_else(|| self.table.expires_at(pair))
    }

    /// When the cooldown of a pair ends, if the pair is in one.
    fn live(&self, pair: Pair) -> Option<UnixSeconds> {
        self.expires_at(pair).filter(|expires_at| self.now < *expires_at)
    }

    fn see(&mut self, seen: impl FnOnce() -> Seen) {
        if self.is_watched {
            self.changes.seen.push(seen());
        }
    }

    fn vote(&mut self, vote: &Vote, mode: Mode) -> VoteOutcome {
        self.slices.done(1);
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
        match mode {
            Mode::Cast if expires_at <= self.now => VoteOutcome::Expired,
            Mode::Cast => self.cast(server, vote),
            // A vote that only the later line has ended may be live again.
            Mode::Record if expires_at <= self.certain => VoteOutcome::Expired,
            Mode::Record => self.record(server, vote, expires_at),
        }
    }

    /// The pairs that a vote is for.
    fn pairs_of(&self, server: ServerId, voter: &Voter) -> Vec<Pair> {
        let voters = self.table.view().voters(voter);
        voters.into_iter().map(|address| Pair { server, address }).collect()
    }

    /// Casts a vote for all of its pairs. A cooldown of any of them refuses the vote.
    fn cast(&mut self, server: ServerId, vote: &Vote) -> VoteOutcome {
        let pairs = self.pairs_of(server, &vote.voter);
        let live = pairs.iter().filter_map(|pair| Some((pair.address, self.live(*pair)?)));
        if let Some((address, expires_at)) = live.max_by_key(|(_, expires_at)| *expires_at) {
            return VoteOutcome::InCooldown(address, expires_at);
        }
        let Some(voted_at) = self.free_second(&pairs, vote) else { return VoteOutcome::TooManyChanges };
        let expires_at = self.cooldown.expires_at(voted_at);
        pairs.iter().for_each(|pair| self.put(*pair, expires_at));
        VoteOutcome::Recorded(self.recorded(server, vote, expires_at))
    }

    /// Records a vote of the caller's own records: each of its pairs keeps the later vote.
    fn record(&mut self, server: ServerId, vote: &Vote, expires_at: UnixSeconds) -> VoteOutcome {
        let pairs = self.pairs_of(server, &vote.voter);
        let has_ended = |until: &UnixSeconds| *until <= self.certain;
        let held = |pair: &Pair| self.expires_at(*pair).filter(|until| !has_ended(until));
        let latest = pairs.iter().filter_map(held).max();
        let earlier: Vec<Pair> =
            pairs.iter().filter(|pair| held(pair).is_none_or(|until| until < expires_at)).copied().collect();
        if earlier.is_empty() {
            return VoteOutcome::Unchanged(self.recorded(server, vote, latest.unwrap_or(expires_at)));
        }
        earlier.into_iter().for_each(|pair| self.put(pair, expires_at));
        VoteOutcome::Recorded(self.recorded(server, vote, expires_at))
    }

    /// Puts in a vote for a pair, in place of an earlier one.
    fn put(&mut self, pair: Pair, expires_at: UnixSeconds) {
        if let Some(until) = self.live(pair) {
            let voted_at = self.cooldown.voted_at(until);
            self.changes.ended.replaced += 1;
            self.see(|| Seen::Replacement { pair, voted_at, expires_at: until });
        }
        self.take_away(pair);
        let vote = StoredVote::of(Cooling { pair, expires_at }, self.cooldown);
        self.changes.events.push(Event::Vote(vote));
        self.changes.pairs.insert(pair, Some(expires_at));
        self.see(|| Seen::Vote { pair, voted_at: vote.voted_at, expires_at });
    }

    /// Takes away the vote of a pair, if there is one, and spends its instant.
    fn take_away(&mut self, pair: Pair) {
        let Some(expires_at) = self.expires_at(pair) else { return };
        let vote = StoredVote::of(Cooling { pair, expires_at }, self.cooldown);
        self.changes.events.push(Event::VoteRemoved(vote));
        self.changes.pairs.insert(pair, None);
        if vote.voted_at >= self.now {
            self.changes.spent.insert(vote);
        }
    }

    /// The first second, from the vote's own on, that no vote taken away from these pairs has spent. `None` where it would be
    /// too far ahead of the clock. Only for a cast vote: a recorded one keeps the instant of the caller's records.
    fn free_second(&self, pairs: &[Pair], vote: &Vote) -> Option<UnixSeconds> {
        let first = vote.voted_at.unwrap_or(self.now);
        if self.is_after_start && self.spent.may_be_spent(first, self.now) {
            return None;
        }
        let is_spent = |pair: Pair, voted_at| {
            let vote = StoredVote { pair, voted_at };
            self.spent.is_spent(vote)
                || self.spent.may_be_spent(voted_at, self.now)
                || self.changes.spent.contains(&vote)
        };
        let mut seconds = (first.0..=self.now.plus(VOTE_AHEAD_MAX_S).0).map(UnixSeconds);
        seconds.find(|at| !pairs.iter().any(|pair| is_spent(*pair, *at)))
    }

    fn recorded(&self, server: ServerId, vote: &Vote, expires_at: UnixSeconds) -> Recorded {
        let (voter, voted_at) = (vote.voter.clone(), self.cooldown.voted_at(expires_at));
        Recorded { server, voter, voted_at, expires_at, is_confirmed: true }
    }

    fn cancel(&mut self, server: ServerId, address: VoterAddress) -> Option<bool> {
        if !self.servers().contains(server) {
            return None;
        }
        let pair = self.pair(server, address);
        let is_live = self.live(pair).is_some();
        if is_live {
            self.take_away(pair);
            self.changes.ended.cancelled += 1;
            self.see(|| Seen::Cancellation(pair));
        }
        Some(is_live)
    }

    /// Takes away all votes of an address, also those for unlisted servers. Gives the number of cooldowns that this ends.
    fn cancel_all(&mut self, address: VoterAddress) -> usize {
        let address = self.table.view().voter(address);
        let mut pairs: Vec<Pair> =
            self.table.find(|pair| pair.address == address).into_iter().map(|found| found.pair).collect();
        pairs.extend(self.changes.pairs.keys().filter(|pair| pair.address == address));
        pairs.sort_unstable();
        pairs.dedup();
        let mut cancelled = 0;
        for pair in pairs {
            let is_live = self.live(pair).is_some() && self.servers().contains(pair.server);
            self.take_away(pair);
            if is_live {
                cancelled += 1;
                self.changes.ended.cancelled += 1;
                self.see(|| Seen::Cancellation(pair));
            }
        }
        cancelled
    }

    fn list(&mut self, new: NewServer, tokens: Tokens) -> ServerOutcome {
        self.slices.done(1);
        let held = self.servers().token(new.server).cloned();
        match (held, new.token) {
            (Some(held), None) => ServerOutcome::Unchanged(new.server, held),
            (Some(held), Some(token)) if held == token => ServerOutcome::Unchanged(new.server, held),
            (Some(_), Some(_)) if tokens == Tokens::Keep => ServerOutcome::TokenDiffers,
            (Some(_), token) => self.give_token(new.server, token, ServerOutcome::Changed),
            (None, token) => self.give_token(new.server, token.or_else(self.generate_token), ServerOutcome::Created),
        }
    }

    fn rotate(&mut self, server: ServerId) -> ServerOutcome {
        if self.servers().contains(server) {
            let token = (self.generate_token)();
            self.give_token(server, token, ServerOutcome::Changed)
        } else {
            ServerOutcome::Unknown
        }
    }

    /// Lists the server with this token. `None` stands for a token that could not be generated.
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
        let is_listed = self.servers().contains(server);
        self.see(|| if is_listed { Seen::Rotation(server) } else { Seen::Registration(server) });
        self.servers_mut().insert(server, token.clone());
        self.changes.events.push(Event::Server(server, token.clone()));
        outcome(server, token)
    }

    fn remove(&mut self, server: ServerId) -> bool {
        if !self.servers().contains(server) {
            return false;
        }
        self.servers_mut().remove(server);
        self.changes.removed.insert(server);
        self.changes.events.push(Event::ServerRemoved(server));
        self.see(|| Seen::Removal(server));
        true
    }

    /// Takes away votes of a server that is to be listed again.
    pub(super) fn take_away_all(&mut self, votes: &[Cooling]) {
        votes.iter().for_each(|held| self.take_away(held.pair));
    }
}
