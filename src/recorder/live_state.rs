//! The state that all threads view and only a recorder writes, with what is counted of it: the same for a
//! store of one's own and for one that nodes share.

use std::sync::Arc;

use super::cancelled::CancelledVotes;
use super::counters::RecorderCounters;
use super::cut::CutVotes;
use crate::store::{Event, StoredVote};
use crate::vote::directory::{Directory, Snapshot};
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::table::{CooldownTable, Pair, SHARDS};
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
    /// The requests that wait for votes.
    pub waiting: WaitingList,
    /// The watchers of what is asked and recorded.
    pub board: WatchBoard,
    /// Where watchers learn of changes.
    pub watch: WatchPost,
}

impl LiveState {
    /// An empty state, in which IPv6 voters are told apart by so many bits.
    #[must_use]
    pub fn new(ipv6_prefix: Ipv6Prefix) -> Self {
        let (board, table) = (WatchBoard::default(), CooldownTable::with_prefix(ipv6_prefix));
        let (directory, counters, waiting) = Default::default();
        Self { table, directory, counters, waiting, watch: board.post(), board }
    }

    /// All that a store has to keep: the listed servers, then the votes for them, as they are where the clock comes
    /// back from a step that has cut some of them, and the instants of those that were cancelled.
    pub(super) fn rows(
        &self,
        cooldown: Cooldown,
        cut: &CutVotes,
        cancelled: &CancelledVotes,
    ) -> impl Iterator<Item = Event> {
        let (servers, cooldowns) = (self.directory.snapshot(), self.table.view());
        let listed: Vec<_> =
            servers.iter_after(None).map(|(server, token)| Event::Server(server, token.clone())).collect();
        let shard = move |index| {
            let mut held = Vec::new();
            cooldowns.copy_shard(index, UnixSeconds(0), &mut held);
            held
        };
        let uncut = (0..SHARDS).flat_map(shard).filter(|held| cut.row(self.table.looked_up(held.pair)).is_none());
        let all = uncut.chain(cut.rows().map(|(_, row)| row));
        let votes = all.filter(move |held| servers.contains(held.pair.server));
        let row = move |held| Event::Vote(StoredVote::of(held, cooldown));
        listed.into_iter().chain(votes.map(row)).chain(cancelled.votes().map(Event::Spent))
    }

    /// Rings for the requests that wait for a vote for `pair`, which is in the table by now.
    pub fn tell(&self, pair: Pair) {
        self.waiting.tell(self.table.looked_up(pair));
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
