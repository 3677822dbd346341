//! The reports to watchers about the changes that the log brings, and the count of cooldowns that these end early.

use std::collections::HashSet;
use std::sync::Arc;

use super::state::RemovedVotes;
use crate::recorder::ended::EndedEarly;
use crate::recorder::live_state::LiveState;
use crate::store::Event;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::time::{Cooldown, UnixSeconds};
use crate::watch::Seen;

/// Observes events, each before the recorder applies it.
pub(super) struct EventObserver {
    /// The servers before the first event.
    before: Arc<Snapshot>,
    listed: HashSet<ServerId>,
    cooldown: Cooldown,
    now: UnixSeconds,
    is_watched: bool,
    seen: Vec<Seen>,
    ended: EndedEarly,
}

impl EventObserver {
    /// An observer of events that meet this state.
    #[must_use]
    pub(super) fn new(live: &mut LiveState, cooldown: Cooldown, now: UnixSeconds) -> Self {
        let (is_watched, before) = (live.watch.look(), live.directory.snapshot());
        let (listed, seen, ended) = Default::default();
        Self { before, listed, cooldown, now, is_watched, seen, ended }
    }

    /// Observes this event.
    pub(super) fn comes(&mut self, event: &Event, removed: &RemovedVotes, live: &LiveState) {
        match event {
            Event::Vote(vote) => {
                let (pair, expires_at) = (vote.pair, self.cooldown.expires_at(vote.voted_at));
                // A vote that comes again changes nothing.
                let is_another = |until: &UnixSeconds| self.now < *until && *until != expires_at;
                if let Some(until) = live.table.expires_at(pair).filter(is_another) {
                    self.ended.replaced += 1;
                    let voted_at = self.cooldown.voted_at(until);
                    self.see(live, Seen::Replacement { pair, voted_at, expires_at: until });
                }
                self.see(live, Seen::Vote { pair, voted_at: vote.voted_at, expires_at });
            }
            // A vote that goes with its server is no cancellation.
            Event::VoteRemoved(vote) => {
                if self.before.contains(vote.pair.server) {
                    self.ended.cancelled += 1;
                    self.see(live, Seen::Cancellation(vote.pair));
                }
            }
            Event::Server(server, _) => {
                let is_new = self.listed.insert(*server) && !self.before.contains(*server);
                self.see(live, if is_new { Seen::Registration(*server) } else { Seen::Rotation(*server) });
            }
            Event::ServerRemoved(server) => {
                self.ended.removed += removed.live(*server, &live.table.view(), self.now) as u64;
                self.see(live, Seen::Removal(*server));
            }
        }
    }

    fn see(&mut self, live: &LiveState, seen: Seen) {
        if self.is_watched && live.watch.is_wanted(&seen) {
            self.seen.push(seen);
        }
    }

    /// Counts the ended cooldowns. Gives the reports, to be noted once the events are shown.
    #[must_use]
    pub(super) fn end(self, live: &LiveState) -> Vec<Seen> {
        live.counters.end(self.ended);
        self.seen
    }
}
