//! Votes of removed servers stay in table and store until they expire: nothing shows the votes of an unlisted server.
//! Before a server is listed again, the votes left from its earlier listing are taken away in parts. All votes of a
//! large server at once would delay other votes for a second.
//!
//! After a crash between two parts, the next start finds the rest as votes of an unlisted server.

use std::collections::HashSet;

use super::command::{Command, Reply};
use super::queue::Respond;
use super::{Changes, Recorder};
use crate::vote::id::ServerId;
use crate::vote::table::Cooling;
use crate::vote::time::VOTE_AHEAD_MAX_S;

/// A command that lists servers again. It waits until the votes of their earlier listings are gone.
pub(super) struct Relisting {
    command: Command,
    respond: Respond,
    /// The votes left to take away, the earliest last: the store keeps them in order of time. `None` before they are found.
    votes: Option<Vec<Cooling>>,
}

impl Relisting {
    pub(super) const fn new(command: Command, respond: Respond) -> Self {
        Self { command, respond, votes: None }
    }

    /// Refuses the command: a commit failed, or the process ends.
    pub(super) fn refuse(self) {
        (self.respond)(Reply::StoreUnavailable);
    }

    /// The servers that the command lists.
    fn servers(&self) -> HashSet<ServerId> {
        match &self.command {
            Command::Servers(servers, _) => servers.iter().map(|new| new.server).collect(),
            _ => HashSet::new(),
        }
    }
}

impl Recorder {
    /// Continues the first command that lists servers again; gives whether there is more to do at once. The listing
    /// itself is the last commit.
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
            relisting.votes = Some(votes);
            self.relistings.push_front(relisting);
        }
        !self.relistings.is_empty()
    }

    /// The votes left from the earlier listings, without those of servers that are listed again meanwhile.
    fn left_of(&self, relisting: &Relisting) -> Vec<Cooling> {
        let (wanted, listed) = (relisting.servers(), self.live.directory.snapshot());
        let mut votes = self.live.table.find(|pair| wanted.contains(&pair.server) && !listed.contains(pair.server));
        votes.sort_unstable_by_key(|held| std::cmp::Reverse(held.expires_at));
        votes
    }

    /// Notes the servers that a commit removed. None of their votes lasts longer than a vote cast now.
    pub(super) fn note_removed(&mut self, changes: &Changes) {
        let until = self.settings.cooldown.expires_at(self.clock.now().wall.plus(VOTE_AHEAD_MAX_S));
        self.removed.extend(changes.removed.iter().map(|server| (*server, until)));
        // The listing under way may name such a server, and has to take its votes away as well.
        if let Some(relisting) = self.relistings.front_mut()
            && relisting.servers().iter().any(|server| changes.removed.contains(server))
        {
            relisting.votes = None;
        }
    }

    /// Forgets the removed servers that have no vote any more.
    pub(super) fn prune_removed(&mut self) {
        let certain = self.lines.certain();
        self.removed.retain(|_, until| certain < *until);
    }
}
