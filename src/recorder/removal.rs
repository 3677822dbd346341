//! Votes of removed servers, which leave table and store in parts: those of a large server at once would delay
//! other votes for a second. The server itself is removed at once, so no question finds them; and before a server of
//! the same id is listed again, all of them go.
//!
//! After a crash between two parts the rest is found by the next start: votes of no listed server.

use std::collections::{HashMap, HashSet};

use super::Recorder;
use crate::vote::id::ServerId;
use crate::vote::table::Cooling;

/// Votes in one part. They are taken in order of time, as they lie in the store: some 50 pages.
const PART_ROWS: usize = 8_192;

/// What is still to go.
#[derive(Debug, Default)]
pub(super) struct Removals {
    /// The earliest vote last.
    entries: Vec<Cooling>,
    servers: HashSet<ServerId>,
}

impl Removals {
    /// All of these go; their servers are not listed.
    pub(super) fn add(&mut self, entries: Vec<Cooling>) {
        self.servers.extend(entries.iter().map(|entry| entry.pair.server));
        self.entries.extend(entries);
        self.entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.expires_at));
    }

    /// Whether nothing is left to go.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is left of this server.
    pub(super) fn of(&self, server: ServerId) -> Vec<Cooling> {
        if !self.servers.contains(&server) {
            return Vec::new();
        }
        self.entries.iter().filter(|entry| entry.pair.server == server).copied().collect()
    }

    /// All of this server were taken away: it may be listed again.
    pub(super) fn forget(&mut self, server: ServerId) {
        if self.servers.remove(&server) {
            self.entries.retain(|entry| entry.pair.server != server);
        }
    }

    /// The next part.
    pub(super) fn part(&self) -> &[Cooling] {
        &self.entries[self.entries.len() - self.entries.len().min(PART_ROWS)..]
    }

    /// The part was taken away.
    pub(super) fn part_is_removed(&mut self) {
        self.entries.truncate(self.entries.len() - self.entries.len().min(PART_ROWS));
        if self.entries.is_empty() {
            *self = Self::default();
        }
    }
}

impl Recorder {
    /// Takes away a part of the votes of removed servers; whether there is more, to go at once.
    pub(super) fn remove_part(&mut self) -> bool {
        if self.removals.is_empty() {
            return false;
        }
        let mut draft = self.draft();
        draft.forget_all(self.removals.part());
        let changes = draft.changes;
        let is_removed = self.round(changes, Vec::new());
        if is_removed {
            self.removals.part_is_removed();
        }
        is_removed && !self.removals.is_empty()
    }

    /// Servers of a commit were removed (`true`), or were and are listed again.
    pub(super) fn note_removed_servers(&mut self, removed: HashMap<ServerId, bool>) {
        for (server, is_removed) in removed {
            if is_removed {
                // By the instants of their rows.
                self.restore_cut(|row| row.pair.server == server);
                self.removals.add(self.live.table.of_server(server));
            } else {
                self.removals.forget(server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Removals;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::ServerId;
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::{Cooling, Pair};
    use crate::vote::time::UnixSeconds;

    #[test]
    fn parts_go_in_order_of_time() {
        let entry = |server, at| Cooling {
            pair: Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(at)) },
            expires_at: UnixSeconds(at),
        };
        let mut removals = Removals::default();
        removals.add((0..20_000).map(|at| entry(1, at * 7 % 20_000)).collect());
        removals.add(vec![entry(2, 5)]);
        assert_eq!(removals.of(ServerId(2)), [entry(2, 5)]);
        removals.forget(ServerId(2));
        assert!(removals.of(ServerId(2)).is_empty());
        let mut latest = None;
        let mut parts = 0;
        while !removals.is_empty() {
            let (first, last) = (removals.part().last(), removals.part().first());
            assert!(latest < first.map(|entry| entry.expires_at));
            latest = last.map(|entry| entry.expires_at);
            removals.part_is_removed();
            parts += 1;
        }
        assert_eq!((parts, latest), (3, Some(UnixSeconds(19_999))));
    }
}
