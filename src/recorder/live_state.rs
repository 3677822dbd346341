//! The state that all threads view and only a recorder writes, with what is counted of it: the same for a
//! store of one's own and for one that nodes share.

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
    /// What the recorder counts.
    pub counters: Arc<RecorderCounters>,
    /// What the log has told of cooldowns that ended before their time.
    ended_log: EndedLog,
    /// The addresses that may have most votes.
    pub frequent: FrequentVoters,
    /// The requests that wait for votes.
    pub waiting: WaitingList,
    /// The watchers of what is asked and recorded.
    pub board: WatchBoard,
    /// Where watchers learn of changes.
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

    /// Counts what an answer says of votes.
    pub fn count(&mut self, reply: &Reply, is_kept: bool, now: UnixSeconds, cooldown: Cooldown) {
        self.counters.count(reply, is_kept);
        if is_kept {
            self.counters.one_address_votes.set(self.frequent.count(reply, now, cooldown));
        }
    }

    /// Tells of what has ended early, and samples the questions. To be called twice a second.
    pub fn tend(&mut self, now_ms: u64) {
        self.ended_log.tell(self.counters.ended(), now_ms);
        self.board.sample_questions(now_ms);
    }

    /// Tells of what has ended early since. To be called when nothing is recorded any more.
    pub fn end(&mut self) {
        self.ended_log.tell(self.counters.ended(), u64::MAX);
    }

    /// Shows these servers in place of those that were listed. Rings for the requests that wait for a server that was
    /// removed or has another token: what they ask under may name no server now.
    pub fn publish(&mut self, servers: Snapshot) {
        self.counters.servers.set(servers.len() as u64);
        let before = self.directory.snapshot();
        self.directory.publish(servers);
        let now = self.directory.snapshot();
        self.waiting.tell_where(|Pair { server, .. }| before.token(server) != now.token(server));
    }
}
