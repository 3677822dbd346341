//! Votes of removed servers stay in table and store until they expire: nothing shows the votes of a server that is not
//! listed. Before a server is listed again, what is left of its earlier listing goes, in parts: those of a large server at
//! once would delay other votes for a second.
//!
//! After a crash between two parts the rest is found by the next start: votes of a server that is not listed.

use std::collections::HashSet;

use super::command::{Command, Reply};
use super::queue::Respond;
use super::{Changes, Recorder};
use crate::vote::id::ServerId;
use crate::vote::table::Cooling;
use crate::vote::time::VOTE_AHEAD_MAX_S;

/// A command that lists servers again, until the votes of their earlier listings are gone.
pub(super) struct Relisting {
    command: Command,
    respond: Respond,
    /// The votes that are left, the earliest last: in the store they lie in order of time. `None` before they are found.
    votes: Option<Vec<Cooling>>,
}

impl Relisting {
    pub(super) const fn new(command: Command, respond: Respond) -> Self {
        Self { command, respond, votes: None }
    }

    /// The process ends first.
    pub(super) fn refuse(self) {
        (self.respond)(Reply::StoreUnavailable);
    }

    /// The servers that it lists.
    fn servers(&self) -> HashSet<ServerId> {
        match &self.command {
            Command::Servers(servers, _) => servers.iter().map(|new| new.server).collect(),
            _ => HashSet::new(),
        }
    }
}

impl Recorder {
    /// Goes on with the first command that lists servers again; whether there is more to do at once. The listing itself
    /// is the last commit.
    pub(super) fn relist_part(&mut self) -> bool {
        let Some(mut relisting) = self.relistings.pop_front() else { return false };
        let mut votes = relisting.votes.take().unwrap_or_else(|| self.left_of(&relisting));
        if !votes.is_empty() {
            let part = votes.split_off(votes.len().saturating_sub(self.tuning.part_rows));
            let mut draft = self.draft(false);
            draft.take_away_all(&part);
            let changes = draft.changes;
            if !self.round(changes, Vec::new()) {
                relisting.refuse();
                return !self.relistings.is_empty();
            }
        }
        if votes.is_empty() {
            for server in relisting.servers() {
                self.removed.remove(&server);
            }
            let (changes, replies) = self.check(vec![(relisting.command, relisting.respond)]);
            self.round(changes, replies);
        } else {
            self.relistings.push_front(Relisting { votes: Some(votes), ..relisting });
        }
        !self.relistings.is_empty()
    }

    /// What is left of the earlier listings, of servers that are not listed again meanwhile.
    fn left_of(&self, relisting: &Relisting) -> Vec<Cooling> {
        let (wanted, listed) = (relisting.servers(), self.live.directory.snapshot());
        let mut votes = self.live.table.find(|pair| wanted.contains(&pair.server) && !listed.contains(pair.server));
        votes.sort_unstable_by_key(|held| std::cmp::Reverse(held.expires_at));
        votes
    }

    /// Servers of a commit were removed. None of their votes lasts longer than one that was cast now.
    pub(super) fn note_removed(&mut self, changes: &Changes) {
        let until = self.settings.cooldown.expires_at(self.clock.now().wall.plus(VOTE_AHEAD_MAX_S));
        self.removed.extend(changes.removed.iter().map(|server| (*server, until)));
    }

    /// Forgets the removed servers that have no vote any more.
    pub(super) fn prune_removed(&mut self) {
        let certain = self.lines.certain();
        self.removed.retain(|_, until| certain < *until);
    }
}
