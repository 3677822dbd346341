//! Servers and cooldowns as a store has them, and how events change them. One function changes both the state that is shown and a
//! state that is built apart from it.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use crate::store::Event;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::table::{CooldownTable, CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

/// A whole state, built apart from the shown one.
pub struct FullState {
    /// A shadow of the shown table.
    pub table: CooldownTable,
    /// The listed servers.
    pub servers: Snapshot,
}

impl FullState {
    /// Applies events in their order.
    pub fn apply(&mut self, events: &[Event], cooldown: Cooldown) {
        let mut servers = Cow::Owned(std::mem::take(&mut self.servers));
        let mut removed = RemovedVotes::of(events, &self.table);
        for event in events {
            apply(event, &mut self.table, &mut servers, &mut removed, cooldown);
        }
        self.servers = servers.into_owned();
    }
}

/// The votes of the servers that some events remove, found in one walk of the table for all of them.
pub(super) struct RemovedVotes(HashMap<ServerId, HashSet<Pair>>);

impl RemovedVotes {
    /// Finds the votes that the table holds before the events.
    #[must_use]
    pub(super) fn of(events: &[Event], table: &CooldownTable) -> Self {
        let removed = |event: &Event| if let Event::ServerRemoved(server) = event { Some(*server) } else { None };
        let mut held = Self(events.iter().filter_map(removed).map(|server| (server, HashSet::new())).collect());
        if !held.0.is_empty() {
            let found = table.find(|pair| held.0.contains_key(&pair.server));
            found.into_iter().for_each(|entry| held.add(entry.pair));
        }
        held
    }

    /// Adds a vote that comes with the events.
    fn add(&mut self, pair: Pair) {
        if let Some(pairs) = self.0.get_mut(&pair.server) {
            pairs.insert(pair);
        }
    }

    /// The number of a removed server's cooldowns that are live at `now`.
    #[must_use]
    pub(super) fn live(&self, server: ServerId, view: &CooldownView, now: UnixSeconds) -> usize {
        self.0.get(&server).map_or(0, |pairs| pairs.iter().filter(|pair| view.live(**pair, now).is_some()).count())
    }
}

/// Applies one event. Each event is an assignment, and the last one on a pair or a server decides. This holds if events
/// are applied again, or to a state that is ahead.
pub(super) fn apply(
    event: &Event,
    table: &mut CooldownTable,
    servers: &mut Cow<'_, Snapshot>,
    removed: &mut RemovedVotes,
    cooldown: Cooldown,
) {
    match event {
        Event::Vote(vote) => {
            table.insert(vote.pair, cooldown.expires_at(vote.voted_at));
            removed.add(vote.pair);
        }
        Event::VoteRemoved(vote) => {
            table.remove(vote.pair);
        }
        Event::Server(server, token) => {
            if !servers.to_mut().insert(*server, token.clone()) {
                // The functions keep tokens apart; only a write by hand can have done this.
                log::error!("the store gives server {server} a token that is another server's; that is not followed");
            }
        }
        Event::ServerRemoved(server) => {
            servers.to_mut().remove(*server);
            for pair in removed.0.get_mut(server).map(std::mem::take).unwrap_or_default() {
                table.remove(pair);
            }
        }
    }
}

/// The pair of an event that is a vote.
pub(super) fn voted(event: &Event) -> Option<Pair> {
    if let Event::Vote(vote) = event { Some(vote.pair) } else { None }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, prop_assert_eq, prop_oneof, proptest};

    use super::{FullState, RemovedVotes};
    use crate::store::{Event, StoredVote};
    use crate::vote::address::VoterAddress;
    use crate::vote::directory::Snapshot;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::{CooldownTable, Pair};
    use crate::vote::time::{Cooldown, UnixSeconds};

    const AT: UnixSeconds = UnixSeconds(1_795_178_096);

    fn event() -> impl Strategy<Value = Event> {
        let vote = |server, address| StoredVote {
            pair: Pair { server: ServerId(server), address: VoterAddress::V4(Ipv4(address)) },
            voted_at: AT,
        };
        prop_oneof![
            6 => (1..4_u32, 0..6_u32).prop_map(move |(server, address)| Event::Vote(vote(server, address))),
            2 => (1..4_u32, 0..6_u32).prop_map(move |(server, address)| Event::VoteRemoved(vote(server, address))),
            1 => (1..4_u32).prop_map(|server| {
                Event::Server(ServerId(server), Token::new(&format!("token-{server}")).expect("a token"))
            }),
            2 => (1..4_u32).prop_map(|server| Event::ServerRemoved(ServerId(server))),
        ]
    }

    fn shown(state: &FullState) -> (Vec<Pair>, Vec<ServerId>) {
        let mut pairs: Vec<Pair> = state.table.find(|_| true).into_iter().map(|entry| entry.pair).collect();
        pairs.sort();
        (pairs, state.servers.iter_after(None).map(|(server, _)| server).collect())
    }

    proptest! {
        /// Events make the same state together and one by one, and the votes of a removed server are counted.
        #[test]
        fn events_make_the_same_together_and_one_by_one(events in vec(event(), 0..40)) {
            let empty = || FullState { table: CooldownTable::default(), servers: Snapshot::default() };
            let (mut together, mut one_by_one) = (empty(), empty());
            let (half, rest) = events.split_at(events.len() / 2);
            let cooldown = Cooldown::USUAL;
            together.apply(half, cooldown);
            together.apply(rest, cooldown);
            for event in &events {
                if let Event::ServerRemoved(server) = event {
                    let held = one_by_one.table.find(|pair| pair.server == *server).len();
                    let removed = RemovedVotes::of(std::slice::from_ref(event), &one_by_one.table);
                    prop_assert_eq!(removed.live(*server, &one_by_one.table.view(), AT), held);
                }
                one_by_one.apply(std::slice::from_ref(event), cooldown);
            }
            prop_assert_eq!(shown(&together), shown(&one_by_one));
        }
    }
}
