//! The state that everybody views and only a recorder writes, with what is counted of it: the same for a
//! store of one's own and for one that nodes share.

use std::sync::Arc;

use super::counters::RecorderCounters;
use crate::vote::directory::{Directory, DirectoryView, Snapshot};
use crate::vote::table::{CooldownTable, CooldownView};

/// Cooldowns, servers and counters.
#[derive(Default)]
pub struct LiveState {
    pub(super) table: CooldownTable,
    pub(super) directory: Directory,
    pub(super) counters: Arc<RecorderCounters>,
}

impl LiveState {
    /// A view of the cooldowns.
    #[must_use]
    pub fn cooldowns(&self) -> CooldownView {
        self.table.view()
    }

    /// A view of the listed servers.
    #[must_use]
    pub fn directory(&self) -> DirectoryView {
        self.directory.view()
    }

    /// What the recorder counts.
    #[must_use]
    pub fn counters(&self) -> Arc<RecorderCounters> {
        Arc::clone(&self.counters)
    }

    /// Shows these servers in place of those that were listed.
    pub(super) fn publish(&mut self, servers: Snapshot) {
        self.counters.servers.set(servers.len() as u64);
        self.directory.publish(servers);
    }
}
