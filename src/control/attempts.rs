//! Tells watchers of votes that were reported and not recorded, and why. Knows the command and the recorder's
//! reply. Recorded votes reach watchers from the recorder, and with a shared store from every node.

use std::sync::Arc;

use crate::clock::Clock;
use crate::recorder::command::{Command, Reply, ServerName, Vote, VoteOutcome};
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::table::CooldownView;
use crate::vote::time::Cooldown;
use crate::watch::{Attempt, HeldCooldown, Seen, WatchPost, token_beginning};

/// The votes of one command, until its reply is there. Made only while a client watches.
pub(super) struct AttemptObserver {
    pub(super) votes: Vec<Vote>,
    pub(super) watch: WatchPost,
    pub(super) clock: Clock,
    pub(super) cooldown: Cooldown,
    pub(super) cooldowns: CooldownView,
    pub(super) servers: Arc<Snapshot>,
}

impl AttemptObserver {
    /// The votes of a command; `None` for another kind of command.
    pub(super) fn votes_of(command: &Command) -> Option<Vec<Vote>> {
        if let Command::Votes(votes, _) = command { Some(votes.clone()) } else { None }
    }

    /// The reply is there. Each vote that was not recorded gives a line for each of its addresses.
    pub(super) fn replied(&self, reply: &Reply) {
        match reply {
            Reply::Votes(outcomes) => {
                self.votes.iter().zip(outcomes).for_each(|(vote, outcome)| self.came(vote, outcome));
            }
            Reply::StoreSilent => self.votes.iter().for_each(|vote| self.note(vote, "in_doubt", None)),
            _ => self.votes.iter().for_each(|vote| self.note(vote, "store_unavailable", None)),
        }
    }

    fn came(&self, vote: &Vote, outcome: &VoteOutcome) {
        let held = match outcome {
            VoteOutcome::Recorded(_) => return,
            VoteOutcome::InCooldown(address, until) => {
                Some(HeldCooldown { of: *address, since: self.cooldown.voted_at(*until), until: *until })
            }
            _ => None,
        };
        self.note(vote, outcome.word(), held);
    }

    fn note(&self, vote: &Vote, outcome: &'static str, held: Option<HeldCooldown>) {
        let (server, token_begins) = self.server(&vote.server);
        for address in self.cooldowns.voters(&vote.voter) {
            let (token_begins, address) = (token_begins.clone(), Some(address));
            let attempt = Attempt { server, token_begins, address, voted_at: vote.voted_at, outcome, held };
            self.watch.note(self.clock.now().wall, Seen::Attempt(attempt));
        }
    }

    fn server(&self, name: &ServerName) -> (Option<ServerId>, Option<String>) {
        match name {
            ServerName::Id(server) => (Some(*server), None),
            ServerName::Token(token) => {
                let token = token.as_str().as_bytes();
                let server = self.servers.find(token);
                (server, if server.is_some() { None } else { token_beginning(token, &self.servers) })
            }
        }
    }
}
