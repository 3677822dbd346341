//! What watchers are told of changes.

use std::collections::HashSet;

use super::live_state::LiveState;
use crate::store::{Event, StoredVote};
use crate::vote::time::{Cooldown, UnixSeconds};
use crate::watch::Seen;

impl LiveState {
    /// Holds back what there is to see of `events`, which come upon the present servers; see
    /// [`crate::watch::WatchPost::settle`].
    pub(super) fn stage(&mut self, events: &[Event], cooldown: Cooldown, now: UnixSeconds) {
        if !self.watch.look() {
            return;
        }
        let (before, table) = (self.directory.snapshot(), &self.table);
        let mut listed = HashSet::new();
        for (index, event) in events.iter().enumerate() {
            let seen = match event {
                Event::Vote(vote) => {
                    let expires_at = cooldown.expires_at(vote.voted_at);
                    Seen::Vote { pair: table.looked_up(vote.pair()), voted_at: vote.voted_at, expires_at }
                }
                // It makes room for a later vote of the same pair, or goes with its server.
                Event::VoteGone(vote) if is_replaced(vote, events.get(index + 1)) || !before.contains(vote.server) => {
                    continue;
                }
                Event::VoteGone(vote) => Seen::Cancellation(table.looked_up(vote.pair())),
                Event::Server(server, _) if listed.insert(*server) && !before.contains(*server) => {
                    Seen::Registration(*server)
                }
                Event::Server(server, _) => Seen::Rotation(*server),
                Event::ServerGone(server) => Seen::Removal(*server),
            };
            self.watch.stage(now, seen);
        }
    }
}

fn is_replaced(vote: &StoredVote, next: Option<&Event>) -> bool {
    matches!(next, Some(Event::Vote(next)) if next.pair() == vote.pair())
}
