//! The invariants between table, directory and store after each round, checked in debug builds.

#[cfg(debug_assertions)]
use std::collections::HashSet;

use super::Recorder;
#[cfg(debug_assertions)]
use super::health::StoreHealth;
#[cfg(debug_assertions)]
use crate::store::{Event, StoredVote};

/// When to compare the store with memory.
#[derive(Debug, Default)]
pub(super) struct StoreCheck {
    /// Whether a commit of this round has succeeded.
    #[cfg(debug_assertions)]
    is_written: bool,
    /// The rows that may be read by now.
    #[cfg(debug_assertions)]
    rows: usize,
    /// Removed servers at the last look at the table.
    #[cfg(debug_assertions)]
    removed: usize,
}

#[cfg(not(debug_assertions))]
impl StoreCheck {
    #[expect(clippy::unused_self, reason = "checked in debug builds only")]
    pub(super) const fn written(&mut self) {}
}

#[cfg(not(debug_assertions))]
impl Recorder {
    #[expect(clippy::unused_self, reason = "checked in debug builds only")]
    pub(super) const fn check_invariants(&mut self) {}
}

#[cfg(debug_assertions)]
impl StoreCheck {
    /// The rows that each commit allows to be read: a small store is read after each commit, a large one seldom.
    const ROWS_PER_COMMIT: usize = 8;

    pub(super) const fn written(&mut self) {
        (self.is_written, self.rows) = (true, self.rows + Self::ROWS_PER_COMMIT);
    }

    /// Whether to read a store of this many rows.
    const fn is_due(&mut self, rows: usize) -> bool {
        let is_due = rows <= self.rows;
        if is_due {
            self.rows = 0;
        }
        is_due
    }
}

#[cfg(debug_assertions)]
impl Recorder {
    /// The most entries of a table whose servers are looked up.
    const LOOKED_UP_MAX: usize = 64;

    pub(super) fn check_invariants(&mut self) {
        let (certain, shown, listed) = (self.lines.certain(), self.lines.now(), self.live.directory.snapshot());
        assert!(certain <= shown, "the certain line, {certain}, is ahead of the time shown, {shown}");
        assert!(self.removed.keys().all(|server| !listed.contains(*server)), "a removed server is listed");
        let is_written = std::mem::take(&mut self.store_check.is_written);
        let removed_before = std::mem::replace(&mut self.store_check.removed, self.removed.len());
        // No commit has brought an entry, and no removed server was forgotten: there is nothing to check.
        if !is_written && removed_before == self.removed.len() {
            return;
        }
        let rows = self.live.table.view().len();
        if is_written && self.store_check.is_due(rows) {
            self.compare_store();
        }
        if rows > Self::LOOKED_UP_MAX {
            return;
        }
        for held in self.live.table.find(|_| true) {
            let may_be_left = listed.contains(held.pair.server) || self.removed.contains_key(&held.pair.server);
            assert!(may_be_left || held.expires_at <= shown, "{held:?} is of no server");
        }
    }

    /// Asserts that a start would read from the store exactly the votes in memory, except those that the certain line
    /// has ended.
    fn compare_store(&mut self) {
        let (certain, cooldown, is_void) = (self.lines.certain(), self.settings.cooldown, self.is_store_void());
        let Some(store) = self.store.as_mut().filter(|_| matches!(self.health, StoreHealth::Well { .. }) && !is_void)
        else {
            return;
        };
        let (mut servers, mut stored) = (Vec::new(), HashSet::new());
        let read = store.replay(cooldown.first_live(certain), &mut |event| match event {
            Event::Server(server, token) => servers.push((server, token)),
            Event::Vote(vote) => assert!(stored.insert(vote), "{vote:?} is stored twice"),
            Event::VoteRemoved(_) | Event::ServerRemoved(_) => {}
        });
        if let Err(error) = read {
            // An unreadable disk proves nothing. A file that something else has written to is reported by the first
            // look that finds it.
            if store.is_void() {
                let now = self.clock.now();
                self.note_failure(&error, now, now);
            }
            return;
        }
        // `--in-memory` stores nothing.
        if !matches!(store.note(), Ok(Some(_))) {
            return;
        }
        let held = self.live.table.find(|_| true).into_iter().filter(|held| certain < held.expires_at);
        let held: HashSet<_> = held.map(|held| StoredVote::of(held, cooldown)).collect();
        let of_one: Vec<_> = stored.symmetric_difference(&held).collect();
        assert!(of_one.is_empty(), "store and table differ, with the certain line at {certain}: {of_one:?}");
        let listed = self.live.directory.snapshot();
        assert!(servers.iter().map(|(server, token)| (*server, token)).eq(listed.iter_after(None)), "{servers:?}");
    }
}
