//! What the store has lost in a failure and this node still knows. It is noted, still shown, and offered to the
//! store again. Every node may offer: the store refuses what it has, what was taken away since, and what has no
//! place, and says what it has instead. Until it has answered, this node shows what was acknowledged.

use std::collections::HashSet;

use redis::{Cmd, Value};

use super::calls::{self, GivenBack, Term};
use super::entry::ListingId;
use super::feed_error::FeedError;
use super::follower::{FeedDoor, FollowerMessage};
use super::link::LinkError;
use super::primary::Primary;
use super::snapshot::Listings;
use super::state::FullState;
use crate::store::{Event, StoredVote};
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{Cooling, Pair, SHARDS};
use crate::vote::time::{Cooldown, UnixSeconds};

/// What is offered in one go.
const OFFERS_AT_ONCE: usize = 1_024;
/// A store that refuses offers is left alone for so long, in milliseconds.
const PAUSE_MS: u64 = 1_000;

type LostServer = (ServerId, Token, Option<ListingId>);
type LostVote = (StoredVote, Option<ListingId>);

/// What is owed to the store, each with its listing: a server that was removed and listed again has another one.
#[derive(Default)]
pub struct Reoffer {
    /// Offered before any vote, which needs its server.
    servers: Vec<LostServer>,
    votes: Vec<LostVote>,
    retry_at_ms: u64,
    /// Whether it was said that the store refuses.
    is_refused: bool,
}

impl Reoffer {
    /// Whether nothing is owed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.servers.is_empty() && self.votes.is_empty()
    }

    /// Whether there is something to offer now.
    #[must_use]
    pub fn is_due(&self, now_ms: u64) -> bool {
        !self.is_empty() && now_ms >= self.retry_at_ms
    }

    /// Servers and votes that are owed.
    #[must_use]
    pub fn len(&self) -> usize {
        self.servers.len() + self.votes.len()
    }

    /// Notes the live votes that are viewed, under these listings, and not in `next`, the state that the store has now.
    pub fn note_votes(&mut self, next: &FullState, door: &FeedDoor, listings: &Listings) {
        let (now, cooldown) = (door.clock.now().wall, door.cooldown);
        // Votes that were owed before and are viewed are found again below.
        self.votes.retain(|(vote, _)| !is_viewed(vote, door));
        let mut shard = Vec::new();
        for index in 0..SHARDS {
            shard.clear();
            door.cooldowns.copy_shard(index, now, &mut shard);
            let lost = shard.iter().filter(|Cooling { pair, expires_at }| is_later(next, *pair, *expires_at));
            self.votes.extend(lost.map(|entry| (StoredVote::of(*entry, cooldown), listings.of(entry.pair.server))));
        }
    }

    /// Notes the servers that are viewed, under these listings, and not `listed` any more. Only a node that was up to
    /// date within a cooldown's length may: the store remembers a removal no longer. A token that differs is only told
    /// of: which of the two is the later one nobody knows, unless the store `has_all` that came to this node: then it
    /// was changed while this node was away.
    pub fn note_servers(&mut self, listed: &Snapshot, door: &FeedDoor, listings: &Listings, has_all: bool) {
        let viewed = door.directory.clone().shared();
        let mut differing = 0;
        self.servers.clear();
        for (server, token) in viewed.iter_after(None) {
            match listed.token(server) {
                None => self.servers.push((server, token.clone(), listings.of(server))),
                Some(other) if other != token => differing += 1,
                Some(_) => {}
            }
        }
        if differing > 0 && !has_all {
            log::warn!(
                "{differing} servers have another token in the store than here; if one was changed just before the store failed, change it again"
            );
        }
    }

    /// Forgets what the store says was taken away. It is asked before anything is shown: a store that takes no
    /// writes takes nothing back either, for as long as it likes.
    ///
    /// # Errors
    /// [`LinkError`]
    pub fn forget_gone(&mut self, primary: &mut Primary) -> Result<(), LinkError> {
        let listings: HashSet<ListingId> = self
            .votes
            .iter()
            .map(|(_, listing)| listing)
            .chain(self.servers.iter().map(|(.., listing)| listing))
            .flatten()
            .copied()
            .collect();
        let listings: Vec<ListingId> = listings.into_iter().collect();
        let are_gone = ask_whether_gone(primary, &listings, ListingId::to_string)?;
        let gone: HashSet<ListingId> =
            listings.into_iter().zip(are_gone).filter(|(_, is_gone)| *is_gone).map(|(listing, _)| listing).collect();
        let stays = |listing: &Option<ListingId>| listing.is_none_or(|listing| !gone.contains(&listing));
        self.servers.retain(|(.., listing)| stays(listing));
        self.votes.retain(|(_, listing)| stays(listing));
        let mut are_gone = ask_whether_gone(primary, &self.votes, |(vote, _)| calls::name(vote))?.into_iter();
        self.votes.retain(|_| are_gone.next() != Some(true));
        Ok(())
    }

    /// Puts what is owed over the state that the store has now: what was acknowledged is shown until the
    /// store has taken it back, or has said what it has in its place.
    pub fn lay_over(&self, state: &mut FullState, cooldown: Cooldown) {
        for (server, token, _) in &self.servers {
            // Where the token is another server's by now, that one keeps it.
            let _is_shown = !state.servers.contains(*server) && state.servers.insert(*server, token.clone());
        }
        for (vote, _) in &self.votes {
            let (pair, expires_at) = (vote.pair, cooldown.expires_at(vote.voted_at));
            if state.servers.contains(pair.server) && is_later(state, pair, expires_at) {
                state.table.insert(pair, expires_at);
            }
        }
    }

    /// Notes the votes that the store took in an earlier history, with these listings, and that never came to this
    /// node. Gives whether there were any.
    pub fn note_unseen(&mut self, door: &FeedDoor, listings: &Listings) -> bool {
        let before = self.votes.len();
        let unseen = door.take_unseen().into_iter().filter(|vote| !is_viewed(vote, door));
        self.votes.extend(unseen.map(|vote| (vote, listings.of(vote.pair.server))));
        door.status.owed.set(self.len() as u64);
        self.votes.len() > before
    }

    /// Offers a part of what is owed.
    ///
    /// # Errors
    /// [`FeedError`]; what was offered is offered again then.
    pub fn offer(&mut self, primary: &mut Primary, door: &FeedDoor) -> Result<(), FeedError> {
        let Some(store) = door.status.store.get() else { return Ok(()) };
        let term = Term { store, until_ms: None };
        let refusal = match door.status.barrier.get() {
            // This node sends no votes either.
            Some((reason, why)) => Some(LinkError::Refused(reason, why)),
            None if self.servers.is_empty() => self.offer_votes(primary, door, term)?,
            None => self.offer_servers(primary, door, term)?,
        };
        door.status.owed.set(self.len() as u64);
        if let Some(refusal) = &refusal {
            self.retry_at_ms = door.clock.now().monotonic_ms + PAUSE_MS;
            if !self.is_refused {
                let owed = self.len();
                log::error!(
                    "lost votes cannot be given back yet: {refusal}; {owed} votes and servers are known to nodes alone, and lost with the last of them: do not restart this node"
                );
            }
        }
        self.is_refused = refusal.is_some();
        Ok(())
    }

    /// Gives a refusal, if there was one. What was refused so is owed still.
    fn offer_servers(
        &mut self,
        primary: &mut Primary,
        door: &FeedDoor,
        term: Term<'_>,
    ) -> Result<Option<LinkError>, FeedError> {
        let (mut taken, mut refused, mut corrections) = (0_u64, 0_u64, Vec::new());
        let question = |(server, token, listing): &LostServer| calls::relist(term, *server, token, *listing);
        let refusal = offer_last(primary, &mut self.servers, question, |(server, ..), reply| {
            match calls::read_relist(reply)? {
                GivenBack::Taken => taken += 1,
                GivenBack::Refused(held) => {
                    refused += 1;
                    corrections.push(held.map_or(Event::ServerRemoved(*server), |held| Event::Server(*server, held)));
                }
            }
            Some(())
        })?;
        door.tell(FollowerMessage::Changes(corrections, None))?;
        if taken + refused > 0 {
            log::info!("lost servers were offered: {taken} listed again and {refused} refused");
        }
        Ok(refusal)
    }

    /// As [`Reoffer::offer_servers`].
    fn offer_votes(
        &mut self,
        primary: &mut Primary,
        door: &FeedDoor,
        term: Term<'_>,
    ) -> Result<Option<LinkError>, FeedError> {
        let mut corrections = Vec::new();
        let question = |(vote, listing): &LostVote| calls::restore(term, vote, *listing);
        let refusal = offer_last(primary, &mut self.votes, question, |(vote, _), reply| {
            match calls::read_restore(reply)? {
                GivenBack::Taken => door.status.restored.add(1),
                GivenBack::Refused(held) => {
                    door.status.not_restored.add(1);
                    corrections.push(Event::VoteRemoved(*vote));
                    corrections.extend(held.map(|voted_at| Event::Vote(StoredVote { voted_at, ..*vote })));
                }
            }
            Some(())
        })?;
        door.tell(FollowerMessage::Changes(corrections, None))?;
        if self.votes.is_empty() {
            let (restored, refused) = (door.status.restored.get(), door.status.not_restored.get());
            log::info!("lost votes were offered: {restored} restored and {refused} refused since the start");
        }
        Ok(refusal)
    }
}

/// Offers the last ones of what is owed, and takes out each that is answered as `settle` can read it. Gives a refusal
/// of another, if there was one.
fn offer_last<T>(
    primary: &mut Primary,
    owed: &mut Vec<T>,
    question: impl Fn(&T) -> Cmd,
    mut settle: impl FnMut(&T, &Value) -> Option<()>,
) -> Result<Option<LinkError>, LinkError> {
    let from = owed.len().saturating_sub(OFFERS_AT_ONCE);
    let (replies, lost) = primary.link.ask_all(owed[from..].iter().map(question));
    if let Some(lost) = lost {
        return Err(lost);
    }
    let mut refusal = None;
    for (offered, reply) in owed.split_off(from).into_iter().zip(replies) {
        let strange = || primary.link.strange("an answer to what was given back");
        if let Err(error) = reply.and_then(|reply| settle(&offered, &reply).ok_or_else(strange)) {
            refusal = Some(error);
            owed.push(offered);
        }
    }
    Ok(refusal)
}

/// Whether the store has taken each of these away, in their order.
fn ask_whether_gone<T>(
    primary: &mut Primary,
    asked: &[T],
    name: impl Fn(&T) -> String,
) -> Result<Vec<bool>, LinkError> {
    let mut are_gone = Vec::with_capacity(asked.len());
    for asked in asked.chunks(OFFERS_AT_ONCE) {
        let (replies, lost) = primary.link.ask_all(asked.iter().map(|asked| calls::is_gone(&name(asked))));
        for reply in replies {
            are_gone.push(reply? != Value::Nil);
        }
        lost.map_or(Ok(()), Err)?;
    }
    Ok(are_gone)
}

/// Whether this vote or a later one of its pair is viewed.
fn is_viewed(vote: &StoredVote, door: &FeedDoor) -> bool {
    let held = door.cooldowns.live(vote.pair, door.clock.now().wall);
    held.is_some_and(|held| held >= door.cooldown.expires_at(vote.voted_at))
}

/// Whether the state has none or an earlier vote of the pair.
fn is_later(state: &FullState, pair: Pair, expires_at: UnixSeconds) -> bool {
    state.table.expires_at(pair).is_none_or(|held| held < expires_at)
}
