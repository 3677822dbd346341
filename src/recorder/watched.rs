//! What watchers are told of changes.

use std::collections::HashSet;

use super::live_state::LiveState;
use crate::store::Event;
use crate::vote::time::Cooldown;
use crate::watch::Seen;

impl LiveState {
    /// What there is to see of `events`, which come upon the present servers: to be noted once they are shown.
    #[must_use]
    pub fn seen(&mut self, events: &[Event], cooldown: Cooldown) -> Vec<Seen> {
        let mut all = Vec::new();
        if !self.watch.look() {
            return all;
        }
        let (before, table) = (self.directory.snapshot(), &self.table);
        let mut listed = HashSet::new();
        for (index, event) in events.iter().enumerate() {
            let seen = match event {
                Event::Vote(vote) => {
                    let expires_at = cooldown.expires_at(vote.voted_at);
                    Seen::Vote { pair: table.looked_up(vote.pair), voted_at: vote.voted_at, expires_at }
                }
                // What makes room for a later vote of the same pair, or goes with its server, is no cancellation.
                Event::VoteRemoved(vote) => {
                    let pair = table.looked_up(vote.pair);
                    // Another network of the same prefix is the same voter.
                    let is_replaced = matches!(events.get(index + 1),
                        Some(Event::Vote(next)) if table.looked_up(next.pair) == pair);
                    if is_replaced || !before.contains(vote.pair.server) {
                        continue;
                    }
                    Seen::Cancellation(pair)
                }
                Event::Spent(_) => continue,
                Event::Server(server, _) if listed.insert(*server) && !before.contains(*server) => {
                    Seen::Registration(*server)
                }
                Event::Server(server, _) => Seen::Rotation(*server),
                Event::ServerRemoved(server) => Seen::Removal(*server),
            };
            if self.watch.is_wanted(&seen) {
                all.push(seen);
            }
        }
        all
    }
}
