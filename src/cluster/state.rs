//! Servers and cooldowns as a store has them, and what an event makes of them. One function for
//! both: for the state that is viewed, and for one that is built apart from it.

use std::borrow::Cow;

use crate::store::Event;
use crate::vote::directory::Snapshot;
use crate::vote::table::{CooldownTable, Pair};
use crate::vote::time::Cooldown;

/// A whole state, built apart.
pub struct FullState {
    /// A shadow of the table that is viewed.
    pub table: CooldownTable,
    /// The listed servers.
    pub servers: Snapshot,
}

impl FullState {
    /// Applies events in their order.
    pub fn apply(&mut self, events: &[Event], cooldown: Cooldown) {
        let mut servers = Cow::Owned(std::mem::take(&mut self.servers));
        for event in events {
            apply(event, &mut self.table, &mut servers, cooldown);
        }
        self.servers = servers.into_owned();
    }
}

/// Applies one event. Each is an assignment: applied again, or over a state that is ahead of it, the
/// last one on a pair or a server still has the last word.
pub(super) fn apply(event: &Event, table: &mut CooldownTable, servers: &mut Cow<'_, Snapshot>, cooldown: Cooldown) {
    match event {
        Event::Vote(vote) => table.insert(vote.pair, cooldown.expires_at(vote.voted_at)),
        Event::VoteRemoved(vote) => {
            table.remove(vote.pair);
        }
        Event::Server(server, token) => {
            if !servers.to_mut().insert(*server, token.clone()) {
                // The store keeps tokens apart; only a hand in it can have done this.
                log::error!("the store gives server {server} a token that is another server's; that is not followed");
            }
        }
        Event::ServerRemoved(server) => {
            servers.to_mut().remove(*server);
            for held in table.find(|pair| pair.server == *server) {
                table.remove(held.pair);
            }
        }
    }
}

/// The pair of an event that is a vote.
pub(super) fn voted(event: &Event) -> Option<Pair> {
    if let Event::Vote(vote) = event { Some(vote.pair) } else { None }
}
