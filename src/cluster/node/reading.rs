//! A whole reading of the store, piece by piece, while others write. The pieces are of different moments, but all of
//! them are facts, as are the later entries of the log. Joined, they are the state at the end of the log.
//!
//! That holds within one history. A store that goes back during a reading would leave facts in it that the store lacks. So each
//! piece is asked for together with the store's last entry, and the log has to lead over each of these entries.

use std::collections::{HashMap, HashSet};

use super::bounds::Bounds;
use super::knowledge::{Join, Knowledge, Overlay};
use super::store_listings::{StoreListings, listing_after};
use crate::cluster::entry::EntryId;
use crate::cluster::keys;
use crate::cluster::reason::RebuildCause;
use crate::cluster::state::FullState;
use crate::cluster::wire::answer::{Entry, EntryFact, LogItem, StoreReply};
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::StoreQuestion;
use crate::store::Event;
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

/// The next question.
#[derive(Debug)]
enum ReadingStep {
    Meta,
    Servers(String),
    Votes,
    Gone(usize),
    Log,
    /// Whether the store still holds the last entry read.
    Check,
}

/// A reading under way.
pub(crate) struct StateReading {
    /// The cause of the reading.
    pub(super) cause: RebuildCause,
    /// The state to show.
    pub(crate) state: FullState,
    /// The facts besides the votes.
    pub(super) known: Knowledge,
    /// The last entry read.
    pub(crate) position: Last,
    /// The last entry that came with a piece.
    of_pieces: Last,
    /// The entry behind which the log is read on: `position`, or an entry of another program behind that.
    pub(crate) cursor: EntryId,
    /// The entries to ask for at once.
    entries_max: usize,
    step: ReadingStep,
    /// Whether an entry out of turn was skipped.
    has_skipped: bool,
    servers: Vec<ServerId>,
    /// The number of servers that were asked about for their votes, and of those with an answer.
    asked: usize,
    answered: usize,
    /// Votes of the log by their servers, until the reading is whole. Their listings are known once the log was read to its end,
    /// as the directory was ahead of it.
    held: Option<HeldVotes>,
    /// The unreadable parts of the store, to be reported.
    pub(crate) unreadable: Vec<String>,
}

/// The progress of a reading.
pub(crate) enum ReadingProgress {
    /// The reading has more to ask.
    More,
    /// The reading is whole, and of one history.
    Whole,
    /// The reading has to begin anew.
    Torn,
    /// The store refuses the reading.
    Refused(String),
    /// The store's id, schema, cooldown in seconds and IPv6 prefix. The caller checks whether they fit.
    Of(String, String, u64, u64),
}

impl StateReading {
    /// A reading that has asked nothing yet.
    pub(crate) fn new(cause: RebuildCause, shown: &CooldownView, entries_max: usize) -> Self {
        let state = FullState { table: shown.shadow(), servers: Snapshot::default() };
        let (known, position, of_pieces, cursor, servers, asked, answered, unreadable) = Default::default();
        Self {
            cause,
            state,
            known,
            position,
            of_pieces,
            cursor,
            entries_max,
            step: ReadingStep::Meta,
            has_skipped: false,
            servers,
            asked,
            answered,
            held: Some(HeldVotes::default()),
            unreadable,
        }
    }

    /// The questions to ask now, in one go. Votes of several servers are asked for at once, other pieces one by one.
    pub(crate) fn questions(&mut self, bounds: &Bounds, live_after: UnixSeconds) -> Vec<StoreQuestion> {
        let mut questions = self.pieces(bounds, live_after);
        let is_piece = matches!(self.step, ReadingStep::Servers(_) | ReadingStep::Votes | ReadingStep::Gone(_));
        if is_piece && !questions.is_empty() {
            questions.push(StoreQuestion::Meta);
        }
        questions
    }

    fn pieces(&mut self, bounds: &Bounds, live_after: UnixSeconds) -> Vec<StoreQuestion> {
        match &self.step {
            ReadingStep::Meta => vec![StoreQuestion::Meta],
            ReadingStep::Servers(cursor) => vec![StoreQuestion::Servers(cursor.clone(), bounds.records_max)],
            ReadingStep::Votes => {
                let until = self.servers.len().min(self.answered + bounds.servers_max);
                let servers = &self.servers[self.asked.min(until)..until];
                self.asked = self.asked.max(until);
                servers.iter().map(|server| StoreQuestion::Votes(*server, live_after)).collect()
            }
            ReadingStep::Gone(parts) => vec![StoreQuestion::Gone(bounds.records_max, *parts)],
            ReadingStep::Log => vec![StoreQuestion::Log(self.cursor, self.entries_max, None)],
            ReadingStep::Check => vec![StoreQuestion::Head(self.position)],
        }
    }

    /// Whether several pieces are asked for at once.
    pub(crate) const fn is_reading_votes(&self) -> bool {
        matches!(self.step, ReadingStep::Votes)
    }

    /// Takes in an answer.
    pub(crate) fn take(
        &mut self,
        reply: StoreReply,
        bounds: &Bounds,
        cooldown: Cooldown,
        now: UnixSeconds,
    ) -> ReadingProgress {
        match (&self.step, reply) {
            (ReadingStep::Meta, StoreReply::Meta { store, schema, cooldown_s, prefix, last, stamp }) => {
                (self.position, self.of_pieces, self.cursor, self.known.stamp) = (last, last, last.id, stamp);
                self.step = ReadingStep::Servers("0".to_owned());
                return ReadingProgress::Of(store, schema, cooldown_s, prefix);
            }
            // This answer came with a piece.
            (_, StoreReply::Meta { last, .. }) => {
                if last != self.of_pieces && last.n <= self.of_pieces.n {
                    return ReadingProgress::Torn;
                }
                self.of_pieces = last;
            }
            (ReadingStep::Servers(_), StoreReply::Servers(next, servers)) => {
                self.note_servers(servers, cooldown, now);
                self.step = if next == "0" { self.begin_votes() } else { ReadingStep::Servers(next) };
            }
            (ReadingStep::Votes, StoreReply::Votes(votes)) => {
                let server = self.servers[self.answered];
                for (address, at) in votes {
                    self.state.table.insert(Pair { server, address }, cooldown.expires_at(at));
                }
                self.count_votes();
            }
            (ReadingStep::Votes, StoreReply::Refused(refusal)) if refusal.text.starts_with("WRONGTYPE") => {
                let key = keys::claims(self.servers[self.answered]);
                self.unreadable.push(format!("{key} ({})", refusal.text));
                self.count_votes();
            }
            (ReadingStep::Gone(parts), StoreReply::Gone(gone, members)) => {
                let parts = *parts;
                gone.into_iter().for_each(|gone| self.known.note_gone(gone));
                self.step = if members < bounds.records_max { ReadingStep::Log } else { ReadingStep::Gone(parts + 1) };
            }
            (ReadingStep::Log, StoreReply::Log(lines)) => {
                let is_all = lines.len() < self.entries_max;
                if !self.follow(lines, cooldown, now) {
                    return ReadingProgress::Torn;
                }
                if is_all && self.position.n < self.of_pieces.n {
                    return ReadingProgress::Torn;
                }
                if is_all {
                    self.step = ReadingStep::Check;
                }
            }
            // If the store's last entry is the last one read, an entry out of turn is another program's.
            (ReadingStep::Check, StoreReply::Head { is_held: true, last, .. })
                if !self.has_skipped || last == self.position =>
            {
                self.join_held(cooldown, now);
                return ReadingProgress::Whole;
            }
            (_, StoreReply::Refused(refusal)) => return ReadingProgress::Refused(refusal.text),
            _ => return ReadingProgress::Torn,
        }
        ReadingProgress::More
    }

    /// The listed servers, as they are shown.
    pub(crate) fn servers(&self) -> Snapshot {
        self.known.snapshot()
    }

    fn begin_votes(&mut self) -> ReadingStep {
        self.servers = self.known.servers().map(|(server, _)| server).collect();
        self.servers.sort_unstable();
        if self.servers.is_empty() { ReadingStep::Gone(0) } else { ReadingStep::Votes }
    }

    fn count_votes(&mut self) {
        self.answered += 1;
        if self.answered == self.servers.len() {
            self.step = ReadingStep::Gone(0);
        }
    }

    fn note_servers(&mut self, servers: Vec<(ServerId, Option<Record>)>, cooldown: Cooldown, now: UnixSeconds) {
        let mut said = Vec::new();
        for (server, record) in servers {
            match record {
                Some(record) => said.push(Said { server, fact: Fact::Listed(record) }),
                None => self.unreadable.push(format!("{} {server}", keys::DIRECTORY)),
            }
        }
        let _of_the_store = self.join(said, cooldown, now);
    }

    /// Joins facts to the reading. Gives the new ones.
    pub(super) fn join(&mut self, facts: Vec<Said>, cooldown: Cooldown, now: UnixSeconds) -> Vec<Said> {
        let shown = self.state.table.view();
        let mut overlay = Overlay::default();
        let mut join = Join::new(&mut self.known, &shown, &mut overlay, cooldown, now);
        facts.into_iter().for_each(|said| join.take(said));
        let (events, fresh) = join.end();
        self.show(&events, cooldown);
        fresh
    }

    /// Joins the votes of the log, under the listings that stand at its end.
    fn join_held(&mut self, cooldown: Cooldown, now: UnixSeconds) {
        let mut votes = Vec::new();
        for (server, held) in self.held.take().map(|held| held.0).unwrap_or_default() {
            let Some(listing) = self.known.listing(server) else { continue };
            votes.extend(held.into_iter().map(|(at, address)| Said { server, fact: Fact::Vote(listing, at, address) }));
        }
        let _of_the_store = self.join(votes, cooldown, now);
    }

    fn show(&mut self, events: &[Event], cooldown: Cooldown) {
        if !events.is_empty() {
            self.state.apply(events, cooldown);
        }
    }

    /// Takes in entries of the log. Gives whether the log goes on from here. A finished reading may follow the log
    /// further.
    pub(crate) fn follow(&mut self, lines: Vec<LogItem>, cooldown: Cooldown, now: UnixSeconds) -> bool {
        let shown = self.state.table.view();
        let mut overlay = Overlay::default();
        let mut join = Join::new(&mut self.known, &shown, &mut overlay, cooldown, now);
        for line in lines {
            match line {
                LogItem::Strange(id) => self.cursor = id,
                LogItem::Entry(entry) if follows(self.position, &entry) => {
                    if entry.last.n == self.of_pieces.n && entry.last != self.of_pieces {
                        return false;
                    }
                    (self.position, self.cursor) = (entry.last, entry.last.id);
                    let facts = match &mut self.held {
                        Some(held) => held.hold(entry.facts, |server| join.listing(server)),
                        None => Some(entry.facts),
                    };
                    let Some(facts) = facts else { return false };
                    take_entry(&mut join, &mut StoreListings::default(), facts);
                }
                LogItem::Entry(entry) if self.held.is_some() => {
                    (self.cursor, self.has_skipped) = (entry.last.id, true);
                }
                LogItem::Entry(_) | LogItem::Unreadable(_) => return false,
            }
        }
        let (events, _) = join.end();
        self.show(&events, cooldown);
        true
    }
}

/// See [`StateReading::held`].
#[derive(Default)]
struct HeldVotes(HashMap<ServerId, Vec<(UnixSeconds, VoterAddress)>>);

impl HeldVotes {
    /// Takes the votes out of an entry's facts, and gives the other facts. Once a server's present listing ends or another
    /// one begins, the votes held before are of an earlier listing, and are dropped. The end of an earlier listing drops
    /// none: it may come late, from a node that was away. `None` if an entry has both an end and a listing with a later
    /// token: that listing may have begun with this entry, or long before.
    fn hold(&mut self, facts: Vec<EntryFact>, present: impl Fn(ServerId) -> Option<Listing>) -> Option<Vec<EntryFact>> {
        let mut ended = HashSet::new();
        let mut rest = Vec::new();
        for fact in facts {
            match &fact {
                EntryFact::Vote(server, at, address) => {
                    self.0.entry(*server).or_default().push((*at, *address));
                    continue;
                }
                EntryFact::Other(Said { server, fact: Fact::ListingGone(listing) }) => {
                    ended.insert(*server);
                    if present(*server) == Some(*listing) {
                        self.0.remove(server);
                    }
                }
                EntryFact::Other(Said { server, fact: Fact::Listed(record) }) => {
                    if record.begins_its_listing() {
                        self.0.remove(server);
                    } else if ended.contains(server) && self.0.contains_key(server) {
                        return None;
                    }
                }
                EntryFact::Other(_) => {}
            }
            rest.push(fact);
        }
        Some(rest)
    }
}

/// Whether an entry is the next one behind this one.
pub(super) fn follows(position: Last, entry: &Entry) -> bool {
    entry.last.n == position.n + 1 && entry.before == position.mark()
}

/// Joins an entry's facts, and gives them. A vote is of the listing that the store has at that place in the log.
pub(super) fn take_entry(join: &mut Join<'_>, listings: &mut StoreListings, facts: Vec<EntryFact>) -> Vec<Said> {
    let mut taken = Vec::new();
    for fact in facts {
        let said = match fact {
            EntryFact::Other(said) => {
                let before = listings.of(said.server, join.listing(said.server));
                join.take(said.clone());
                listings.set(said.server, listing_after(&said, before), join.listing(said.server));
                said
            }
            EntryFact::Vote(server, at, address) => {
                let Some(listing) = listings.of(server, join.listing(server)) else { continue };
                let said = Said { server, fact: Fact::Vote(listing, at, address) };
                join.take(said.clone());
                said
            }
        };
        taken.push(said);
    }
    taken
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
