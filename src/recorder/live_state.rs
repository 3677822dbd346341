//! The state that all threads read and only a recorder writes, with its counters. It is the same for a node's own store
//! and for a shared one.

use std::sync::Arc;

use super::command::Reply;
use super::counters::RecorderCounters;
use super::ended::EndedLog;
use super::frequent::FrequentVoters;
use crate::vote::directory::{Directory, Snapshot};
use crate::vote::table::{CooldownTable, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};
use crate::waiting::WaitingList;
use crate::watch::{WatchBoard, WatchPost};

/// Cooldowns, servers and counters.
pub struct LiveState {
    /// The cooldowns.
    pub table: CooldownTable,
    /// The listed servers.
    pub directory: Directory,
    /// The recorder's counters.
    pub counters: Arc<RecorderCounters>,
    /// The log of cooldowns that ended before their time.
    ended_log: EndedLog,
    /// The addresses that may have most votes.
    pub frequent: FrequentVoters,
    /// The requests that wait for votes.
    pub waiting: WaitingList,
    /// The watchers of questions and changes.
    pub board: WatchBoard,
    /// Where the recorder notes changes for watchers.
    pub watch: WatchPost,
}

impl LiveState {
    /// A state without servers, over this table.
    #[must_use]
    pub fn new(table: CooldownTable) -> Self {
        let board = WatchBoard::default();
        let (directory, counters, ended_log, frequent, waiting) = Default::default();
        Self { table, directory, counters, ended_log, frequent, waiting, watch: board.post(), board }
    }

    /// Counts the votes of a reply.
    pub fn count(&mut self, reply: &Reply, is_kept: bool, now: UnixSeconds, cooldown: Cooldown) {
        self.counters.count(reply, is_kept);
        if is_kept {
            self.counters.one_address_votes.set(self.frequent.count(reply, now, cooldown));
        }
    }

    /// Logs the cooldowns that ended early, and begins a sample of the questions. To be called twice a second.
    pub fn tend(&mut self, now_ms: u64) {
        self.ended_log.tell(self.counters.ended(), now_ms);
        self.board.sample_questions(now_ms);
    }

    /// Logs the last cooldowns that ended early. To be called once nothing more is recorded.
    pub fn end(&mut self) {
        self.ended_log.tell(self.counters.ended(), u64::MAX);
    }

    /// Shows these servers in place of the earlier ones. Rings for the requests that wait for a removed server or one
    /// with another token: the name that they ask with may name no server now.
    pub fn publish(&mut self, servers: Snapshot) {
        self.counters.servers.set(servers.len() as u64);
        let before = self.directory.snapshot();
        self.directory.publish(servers);
        let now = self.directory.snapshot();
        self.waiting.tell_where(|Pair { server, .. }| before.token(server) != now.token(server));
    }
}

#[cfg(test)]
mod tests {
    use super::LiveState;
    use crate::recorder::command::{Recorded, Reply, VoteOutcome};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::CooldownTable;
    use crate::vote::time::{Cooldown, UnixSeconds};

    #[test]
    fn votes_count_by_outcome_and_kept_ones_by_address() {
        let (now, cooldown) = (UnixSeconds(1_795_178_096), Cooldown::USUAL);
        let voter = VoterAddress::V4(Ipv4(7)).into();
        let recorded = Recorded { server: ServerId(1), voter, voted_at: now, expires_at: now, is_confirmed: true };
        let reply = Reply::Votes(vec![VoteOutcome::Recorded(recorded)]);
        let mut live = LiveState::new(CooldownTable::default());
        let counted = |live: &LiveState| {
            let votes: Vec<_> = live.counters.votes().filter(|(_, count)| *count > 0).collect();
            (votes, live.counters.one_address_votes.get())
        };
        live.count(&reply, false, now, cooldown);
        assert_eq!(counted(&live), (vec![("store_unavailable", 1)], 0));
        live.count(&reply, true, now, cooldown);
        assert_eq!(counted(&live), (vec![("recorded", 1), ("store_unavailable", 1)], 1));
    }
}
