//! What the store has lost in a failure and this node still knows: noted, and offered to it. Every
//! node may offer: the store refuses what it has, what was taken away since, and what has no place.

use redis::Cmd;

use super::calls;
use super::link::LinkError;
use super::primary::Primary;
use crate::recorder::shared::FeedDoor;
use crate::recorder::shared::state::State;
use crate::store::{Address, StoredVote};
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::table::{Cooling, Pair, SHARDS};

/// What is offered in one go.
const OFFERS_AT_ONCE: usize = 1_024;
/// A store that refuses offers is left alone for so long, in milliseconds.
const PAUSE_MS: u64 = 1_000;

/// What is owed to the store.
#[derive(Default)]
pub struct Arrears {
    /// Offered before any vote, which needs its server.
    servers: Vec<(ServerId, Token)>,
    votes: Vec<StoredVote>,
    retry_at_ms: u64,
    /// Whether it was said that the store refuses.
    is_refused: bool,
}

impl Arrears {
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

    /// Notes the live votes of the state before that are not in the one that is viewed now. The store
    /// remembers a cancellation, and a removal of a server, as long as a vote lives.
    pub fn note_votes(&mut self, old: &State, door: &FeedDoor) {
        let now = door.clock.now().wall;
        let (view, mut shard) = (old.table.view(), Vec::new());
        for index in 0..SHARDS {
            shard.clear();
            view.copy_shard(index, now, &mut shard);
            let lost = shard.iter().filter(|Cooling { pair, expires_at }| {
                door.cooldowns.live(*pair, now).is_none_or(|stored| stored < *expires_at)
            });
            self.votes.extend(lost.map(|Cooling { pair, expires_at }| StoredVote {
                server: pair.server,
                address: Address::V4(pair.address),
                voted_at: door.cooldown.voted_at(*expires_at),
            }));
        }
    }

    /// Notes the servers of the state before that are not `listed` any more. Only a node that was
    /// up to date within a cooldown's length may: the store remembers a removal no longer. A
    /// token that differs is only told of: which of the two is the later one nobody knows.
    pub fn note_servers(&mut self, old: &State, listed: &Snapshot) {
        let mut differing = 0;
        for (server, token) in old.servers.iter_after(None) {
            match listed.token(server) {
                None => self.servers.push((server, token.clone())),
                Some(other) if other != token => differing += 1,
                Some(_) => {}
            }
        }
        if differing > 0 {
            log::warn!(
                "{differing} servers have another token in the store than here; if one was changed just before the store failed, change it again"
            );
        }
    }

    /// Notes what an earlier past of the store had taken, and was on its way to this node when it
    /// ended; whether there was anything.
    pub fn note_unseen(&mut self, door: &FeedDoor) -> bool {
        let now = door.clock.now().wall;
        let before = self.votes.len();
        self.votes.extend(door.take_unseen().into_iter().filter(|vote| {
            let Address::V4(address) = vote.address;
            let held = door.cooldowns.live(Pair { server: vote.server, address }, now);
            held.is_none_or(|held| held < door.cooldown.expires_at(vote.voted_at))
        }));
        self.votes.len() > before
    }

    /// Offers some of it.
    ///
    /// # Errors
    /// [`LinkError::Lost`]; what was offered is offered again then.
    pub fn offer(&mut self, primary: &mut Primary, door: &FeedDoor) -> Result<(), LinkError> {
        let now_ms = door.clock.now().monotonic_ms;
        let Some(store) = door.status.store() else { return Ok(()) };
        if !primary.has_own_functions {
            // No vote goes there from this node either, until the store is one for this version.
            self.retry_at_ms = now_ms + PAUSE_MS;
            return Ok(());
        }
        let (rest, calls): (_, Vec<Cmd>) = if self.servers.is_empty() {
            let rest = self.votes.len().saturating_sub(OFFERS_AT_ONCE);
            (rest, self.votes[rest..].iter().map(|vote| calls::restore(store, vote)).collect())
        } else {
            let rest = self.servers.len().saturating_sub(OFFERS_AT_ONCE);
            (rest, self.servers[rest..].iter().map(|(server, token)| calls::relist(store, *server, token)).collect())
        };
        let mut packed = Vec::new();
        calls.iter().for_each(|call| call.write_packed_command(&mut packed));
        let (replies, lost) = primary.link.ask_all(&packed, calls.len());
        if let Some(lost) = lost {
            return Err(lost);
        }
        if let Some(refusal) = replies.iter().find_map(|reply| reply.as_ref().err()) {
            if !self.is_refused {
                log::warn!("lost votes cannot be given back yet: {refusal}");
            }
            self.is_refused = true;
            self.retry_at_ms = now_ms + PAUSE_MS;
            return Ok(());
        }
        self.is_refused = false;
        let taken = replies.iter().flatten().filter(|reply| calls::read_restore(reply) == Some(true)).count();
        self.count(taken, calls.len() - taken, rest, door);
        Ok(())
    }

    fn count(&mut self, taken: usize, refused: usize, rest: usize, door: &FeedDoor) {
        if !self.servers.is_empty() {
            self.servers.truncate(rest);
            log::info!("lost servers were offered: {taken} listed again and {refused} refused");
            return;
        }
        self.votes.truncate(rest);
        door.status.restored.add(taken as u64);
        door.status.not_restored.add(refused as u64);
        if self.votes.is_empty() {
            let (restored, refused) = (door.status.restored.get(), door.status.not_restored.get());
            log::info!("lost votes were offered: {restored} restored and {refused} refused since the start");
        }
    }
}
