//! The feed: a node's questions on the connection on which it follows the log, and its use of the answers.

use std::collections::HashMap;

use super::connection::Asked;
use super::giving::Batch;
use super::output::{NodeLine, NodeStanding, Note, Output, Unfit};
use super::reading::{ReadingProgress, StateReading, follows, take_entry};
use super::store_listings::StoreListings;
use super::{FeedPhase, NodeMachine};
use crate::cluster::keys::{SCHEMA, is_filling};
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Entry, LogItem, RefusalKind, StoreAnswer, StoreRefusal, StoreReply};
use crate::cluster::wire::fact::{Fact, Listing, Said};
use crate::cluster::wire::question::{OwnRecord, StoreCall, StoreQuestion};
use crate::vote::id::ServerId;
use crate::vote::settings::Settings;
use crate::vote::table::Cooling;
use crate::vote::time::UnixSeconds;

/// The purpose of a question.
#[derive(Debug)]
pub(super) enum FeedPurpose {
    /// To see whether the store holds the last entry that the node knows.
    Judge,
    /// The same, after the store has not taken the node's record.
    Beat,
    /// To renew the record of this node, and read those of the others.
    Record,
    /// To say that this node leaves.
    Leave,
    /// To read a piece of the whole state.
    Read,
    /// To read on in the log.
    Log,
    /// To give back owed facts.
    Give(Batch),
}

impl NodeMachine {
    fn ask_feed(&mut self, question: StoreQuestion, purpose: FeedPurpose, now_ms: u64) {
        let wait_ms = if let StoreQuestion::Log(_, _, Some(block_ms)) = &question { *block_ms } else { 0 };
        let deadline_ms = now_ms + self.bounds.patience_ms + wait_ms;
        self.feed.asked.push_back(Asked { purpose, deadline_ms });
        self.outputs.push(Output::Ask(NodeLine::Feed, question));
    }

    pub(super) fn judge(&mut self) {
        self.phase = FeedPhase::Judging;
    }

    pub(super) fn drop_feed(&mut self, now_ms: u64) {
        self.entries_max = (self.entries_max / 2).max(self.bounds.entries_min);
        let asked = self.feed.drop(now_ms, &self.bounds);
        self.has_left |= asked.iter().any(|asked| matches!(asked.purpose, FeedPurpose::Leave));
        if self.is_loaded && matches!(self.phase, FeedPhase::Loading(_)) {
            self.note_doubt(RebuildCause::History);
        }
        self.phase = FeedPhase::Connecting;
        self.others.miss();
    }

    /// Gives up the connection to a store that cannot be followed. It is tried again later.
    fn give_up(&mut self, why: Unfit, now_ms: u64) {
        if self.unfit.as_ref() != Some(&why) {
            self.outputs.push(Output::Note(Note::Unfit(why.clone())));
        }
        self.unfit = Some(why);
        self.close(NodeLine::Feed, now_ms);
    }

    pub(super) fn proceed_feed(&mut self, now_ms: u64) {
        if self.feed.opens(now_ms, self.bounds.connect_ms) {
            self.outputs.push(Output::Connect(NodeLine::Feed));
        }
        if !self.feed.is_up() {
            return;
        }
        if now_ms >= self.heartbeat_at_ms && self.is_loaded && !matches!(self.phase, FeedPhase::Judging) {
            self.say(now_ms);
        }
        let is_idle = self.feed.asked.is_empty();
        match &mut self.phase {
            FeedPhase::Connecting => {}
            FeedPhase::Judging if is_idle => {
                self.ask_feed(StoreQuestion::Head(self.newest()), FeedPurpose::Judge, now_ms)
            }
            FeedPhase::Loading(reading) => {
                // Pieces go out together only while the votes are read; all else waits for its answer.
                let is_read = |asked: &Asked<FeedPurpose>| matches!(asked.purpose, FeedPurpose::Read);
                let asked = self.feed.asked.iter().filter(|asked| is_read(asked)).count();
                if asked == 0 || reading.is_reading_votes() {
                    let now = self.now_s(now_ms);
                    let live_after = now.minus(self.settings.cooldown.seconds());
                    let FeedPhase::Loading(reading) = &mut self.phase else { return };
                    for question in reading.questions(&self.bounds, live_after) {
                        self.ask_feed(question, FeedPurpose::Read, now_ms);
                    }
                }
            }
            FeedPhase::Following if is_idle && (self.doubt.is_some() || self.is_suspect) => {
                self.judge();
                self.ask_feed(StoreQuestion::Head(self.newest()), FeedPurpose::Judge, now_ms);
            }
            FeedPhase::Following if is_idle => self.follow(now_ms),
            FeedPhase::Judging | FeedPhase::Following => {}
        }
    }

    /// Renews the record of this node.
    fn say(&mut self, now_ms: u64) {
        let Some(store) = self.store.clone() else { return };
        self.heartbeat_at_ms = now_ms + self.bounds.heartbeat_ms;
        self.count += 1;
        let is_sure = self.is_sure();
        let owed = self.owed.len() as u64;
        let record = OwnRecord {
            name: self.name.clone(),
            count: self.count,
            // Before the comparison with the store the node does not know what it owes.
            owed: if is_sure { owed } else { owed.max(1) },
            forgotten: self.others.forgotten(self.bounds.forget_ms),
        };
        self.ask_feed(StoreQuestion::Node(store, self.newest(), record), FeedPurpose::Record, now_ms);
    }

    /// Begins to leave as the process ends. The record of a node that owes nothing goes, so that no other node waits for it.
    pub fn leave(&mut self, now_ms: u64) {
        if let Some(store) = self.store.clone().filter(|_| self.feed.is_up() && self.is_loaded)
            && self.standing() == NodeStanding::Following
        {
            let (name, count) = (self.name.clone(), self.count + 1);
            let record = OwnRecord { forgotten: vec![name.clone()], name, count, owed: 0 };
            (self.count, self.heartbeat_at_ms) = (count, u64::MAX);
            self.ask_feed(StoreQuestion::Node(store, self.newest(), record), FeedPurpose::Leave, now_ms);
        } else {
            self.has_left = true;
        }
    }

    /// Whether there is nothing to wait for before the process ends.
    #[must_use]
    pub const fn has_left(&self) -> bool {
        self.has_left
    }

    /// Gives back and reads the log in turn.
    fn follow(&mut self, now_ms: u64) {
        if self.owed.is_due(now_ms) {
            let batch = self.owed.next(self.bounds.facts_max);
            let newest = self.newest();
            for Batch { server, facts } in batch {
                let terms = self.terms(None, newest);
                let call = StoreCall::Give(facts.clone());
                self.ask_feed(
                    StoreQuestion::Change(server, call, terms),
                    FeedPurpose::Give(Batch { server, facts }),
                    now_ms,
                );
            }
            return;
        }
        // The wait for the log ends when owed facts or the heartbeat are due.
        let until_ms = self.owed.retry_at_ms().unwrap_or(u64::MAX).min(self.heartbeat_at_ms);
        let wait_ms = until_ms.saturating_sub(now_ms).min(self.bounds.block_ms);
        let block_ms = Some(wait_ms).filter(|wait_ms| *wait_ms > 0);
        self.ask_feed(StoreQuestion::Log(self.cursor, self.entries_max, block_ms), FeedPurpose::Log, now_ms);
    }

    pub(super) fn take_feed(&mut self, answer: StoreAnswer, now_ms: u64) {
        let Some(purpose) = self.feed.hear(answer.now_ms, now_ms, &self.bounds) else { return };
        match purpose {
            FeedPurpose::Judge => self.take_judgement(answer.reply, now_ms),
            FeedPurpose::Beat => match answer.reply {
                StoreReply::Head { is_held: false, .. } if !matches!(self.phase, FeedPhase::Loading(_)) => {
                    self.note_loss(RebuildCause::History)
                }
                _ => {}
            },
            FeedPurpose::Record => self.take_records(answer.reply, now_ms),
            FeedPurpose::Leave => self.has_left = true,
            FeedPurpose::Read => self.take_piece(answer.reply, now_ms),
            FeedPurpose::Log => self.take_log(answer.reply, now_ms),
            FeedPurpose::Give(batch) => self.take_given(&batch, answer.reply, now_ms),
        }
    }

    /// Notes that the state has to be read whole. A cause by which the store may have lost something outweighs all others.
    pub(super) fn note_doubt(&mut self, cause: RebuildCause) {
        self.doubt = RebuildCause::graver(self.doubt, Some(cause));
    }

    /// Notes that the store does not hold the last known entry, or that its log does not go on behind it.
    pub(super) fn note_loss(&mut self, cause: RebuildCause) {
        self.note_doubt(cause);
        if self.is_waiting {
            self.others.begin_again(false);
        }
    }

    /// Notes a loss that the votes' connection has seen. In every other phase the node is about to ask anyway.
    pub(super) fn suspect(&mut self) {
        self.is_suspect |= matches!(self.phase, FeedPhase::Following);
    }

    fn take_judgement(&mut self, reply: StoreReply, now_ms: u64) {
        let (is_held, store, schema) = match reply {
            StoreReply::Head { is_held, store, schema, version, .. } => {
                self.is_foreign = version != self.version;
                (is_held, store, schema)
            }
            StoreReply::Refused(refusal) => return self.give_up(Unfit::Refused(refusal.text), now_ms),
            _ => return self.give_up(strange(), now_ms),
        };
        if let Some(why) = self.misfit(&store, &schema) {
            return self.give_up(why, now_ms);
        }
        if matches!(self.unfit.take(), Some(Unfit::Empty | Unfit::Filling | Unfit::Other(_))) {
            self.note_doubt(RebuildCause::Store);
        }
        if is_held && self.is_loaded && self.doubt.is_none() {
            self.phase = FeedPhase::Following;
            if std::mem::take(&mut self.is_suspect) {
                // The votes go to another machine than the feed's.
                self.close(NodeLine::Votes, now_ms);
            }
            return;
        }
        self.is_suspect = false;
        if !is_held && self.is_loaded {
            self.note_loss(RebuildCause::History);
        }
        // Facts from replies take part in the comparison. A doubt that comes up from now on needs another reading.
        let unseen = std::mem::take(&mut self.unseen);
        let now = self.now_s(now_ms);
        self.join(now, |join| unseen.into_iter().flat_map(|unseen| unseen.facts).for_each(|said| join.take(said)));
        let cause = self.doubt.take().filter(|_| self.is_loaded).unwrap_or(RebuildCause::Start);
        self.phase = FeedPhase::Loading(Box::new(StateReading::new(cause, &self.shown, self.entries_max)));
    }

    /// Why this is not the store to follow.
    fn misfit(&self, store: &str, schema: &str) -> Option<Unfit> {
        match &self.store {
            _ if store.is_empty() => Some(Unfit::Empty),
            _ if is_filling(store) => Some(Unfit::Filling),
            Some(own) if own != store => Some(Unfit::Other(store.to_owned())),
            _ if schema != SCHEMA => Some(Unfit::Schema(schema.to_owned())),
            _ => None,
        }
    }

    fn take_records(&mut self, reply: StoreReply, now_ms: u64) {
        match reply {
            StoreReply::Nodes { is_held, version, records, last } => {
                self.is_foreign = version != self.version;
                self.head_n = last.n;
                self.others.hear(&records, &self.name, now_ms, 2 * self.bounds.heartbeat_ms);
                if !is_held && !matches!(self.phase, FeedPhase::Loading(_)) {
                    self.note_loss(RebuildCause::History);
                }
                self.look_at_others();
            }
            // The judgement finds out which store it is.
            StoreReply::Refused(StoreRefusal { kind: RefusalKind::OtherStore, .. })
                if !matches!(self.phase, FeedPhase::Loading(_)) =>
            {
                self.judge();
            }
            StoreReply::Refused(StoreRefusal { kind: RefusalKind::OtherStore | RefusalKind::Elsewhere, text }) => {
                self.give_up(Unfit::Refused(text), now_ms);
            }
            _ => {
                // The store takes no writes. The node can still ask whether it has lost something.
                self.others.miss();
                self.ask_feed(StoreQuestion::Head(self.newest()), FeedPurpose::Beat, now_ms);
            }
        }
    }

    /// Whether the node knows all that the store lacks.
    fn is_sure(&self) -> bool {
        matches!(self.phase, FeedPhase::Following) && self.doubt.is_none() && !self.is_suspect
    }

    fn look_at_others(&mut self) {
        let least_ms = self.bounds.least_wait_ms;
        let is_sure = self.is_sure();
        if self.is_waiting && is_sure && self.others.are_clear(least_ms, self.bounds.silence_ms) {
            self.is_waiting = false;
            self.outputs.push(Output::Note(Note::WaitIsOver));
        }
    }

    fn take_piece(&mut self, reply: StoreReply, now_ms: u64) {
        let now = self.now_s(now_ms);
        let cooldown = self.settings.cooldown;
        let FeedPhase::Loading(reading) = &mut self.phase else { return };
        let progress = reading.take(reply, &self.bounds, cooldown, now);
        // A whole reading has to go on at a least rate, and has no deadline for all its questions.
        self.feed.extend(now_ms + self.bounds.patience_ms);
        match progress {
            ReadingProgress::More => {}
            ReadingProgress::Of(store, schema, cooldown_s, prefix) => {
                let Settings { cooldown, ipv6_prefix } = self.settings;
                if let Some(why) = self.misfit(&store, &schema) {
                    self.give_up(why, now_ms);
                } else if cooldown_s != u64::from(cooldown.seconds()) {
                    self.give_up(Unfit::Cooldown(cooldown_s), now_ms);
                } else if prefix != u64::from(ipv6_prefix.bits()) {
                    self.give_up(Unfit::Prefix(prefix), now_ms);
                } else if self.store.is_none() {
                    self.store = Some(store.clone());
                    self.outputs.push(Output::Keep(store));
                }
            }
            ReadingProgress::Torn => {
                self.note_doubt(RebuildCause::Gap);
                self.judge();
            }
            ReadingProgress::Refused(why) => self.give_up(Unfit::Refused(why), now_ms),
            ReadingProgress::Whole => {
                let phase = std::mem::replace(&mut self.phase, FeedPhase::Following);
                if let FeedPhase::Loading(reading) = phase {
                    self.compare(*reading, now);
                    self.heartbeat_at_ms = now_ms;
                }
            }
        }
    }

    /// Joins the shown state to the state that was read, which takes its place. The node owes the facts that the store lacks.
    fn compare(&mut self, mut reading: StateReading, now: UnixSeconds) {
        let cooldown = self.settings.cooldown;
        self.known.forget_over(now, cooldown);
        reading.known.forget_over(now, cooldown);
        let stored: HashMap<ServerId, Listing> =
            reading.known.servers().map(|(server, record)| (server, record.listing)).collect();
        let mut owed = reading.join(self.known.gone(), cooldown, now);
        let listed = self.known.servers();
        let listed = listed.map(|(server, record)| Said { server, fact: Fact::Listed(record.clone()) }).collect();
        owed.extend(reading.join(listed, cooldown, now));
        self.store_listings = StoreListings::default();
        for said in &owed {
            let known = reading.known.listing(said.server);
            self.store_listings.set(said.server, stored.get(&said.server).copied(), known);
        }
        let (mut shard, mut index) = (Vec::new(), 0);
        while self.shown.copy_shard(index, now, &mut shard) {
            let known = &self.known;
            let votes = shard.drain(..).filter_map(|Cooling { pair, expires_at }| {
                let listing = known.record(pair.server)?.listing;
                let fact = Fact::Vote(listing, cooldown.voted_at(expires_at), pair.address);
                Some(Said { server: pair.server, fact })
            });
            owed.extend(reading.join(votes.collect(), cooldown, now));
            index += 1;
        }
        // The log will bring these entries: replies told of them while the state was read.
        self.unseen.retain(|unseen| unseen.last.n > reading.position.n);
        owed.retain(|said| !self.unseen.iter().any(|unseen| unseen.facts.contains(said)));
        reading.state.servers = reading.known.snapshot();
        if !self.is_loaded || std::mem::take(&mut self.may_others_know) {
            self.is_waiting = true;
            self.others.begin_again(reading.position.n == 0 && reading.known.is_empty());
            self.outputs.push(Output::Note(Note::Waits));
        }
        reading.unreadable.drain(..).for_each(|what| self.outputs.push(Output::Note(Note::Unreadable(what))));
        self.outputs.push(Output::Note(Note::Read(reading.cause, owed.len())));
        (self.position, self.cursor, self.known) = (reading.position, reading.cursor, reading.known);
        self.head_n = self.position.n;
        self.outputs.push(Output::Replace(Box::new(reading.state)));
        let (rank, nodes) = self.others.rank(&self.name, self.bounds.silence_ms);
        self.owed.replace(owed, rank, nodes);
        (self.is_loaded, self.is_at_end) = (true, true);
    }

    fn take_log(&mut self, reply: StoreReply, now_ms: u64) {
        if self.doubt.is_some() {
            // The known facts may be ahead of the log by now. A whole reading follows, and has these entries too.
            return;
        }
        let lines = match reply {
            StoreReply::Log(lines) => lines,
            StoreReply::Refused(refusal) => return self.give_up(Unfit::Refused(refusal.text), now_ms),
            _ => return self.give_up(strange(), now_ms),
        };
        if lines.is_empty() && self.head_n > self.position.n {
            // The log was cut behind the entries read, and no later entry shows it.
            return self.note_loss(RebuildCause::Gap);
        }
        self.is_at_end = lines.len() < self.entries_max;
        if self.is_at_end {
            self.entries_max = self.bounds.entries_max;
        }
        let mut entries = Vec::new();
        let mut is_whole = true;
        for line in lines {
            match line {
                LogItem::Strange(id) => {
                    self.cursor = id;
                    self.outputs.push(Output::Note(Note::Strange(id)));
                }
                LogItem::Entry(entry) if follows(self.position, &entry) && !self.is_forked(&entry) => {
                    (self.position, self.cursor) = (entry.last, entry.last.id);
                    entries.push(entry);
                }
                LogItem::Entry(_) | LogItem::Unreadable(_) => {
                    is_whole = false;
                    break;
                }
            }
        }
        self.take_entries(entries, now_ms);
        if !is_whole {
            self.note_loss(RebuildCause::Gap);
        }
        if self.owed.is_empty() {
            self.look_at_others();
        }
        self.owed.may_give();
    }

    /// Whether a reply told of another entry with this number.
    fn is_forked(&self, entry: &Entry) -> bool {
        self.unseen.iter().any(|unseen| unseen.last.n == entry.last.n && unseen.last != entry.last)
    }

    fn take_entries(&mut self, entries: Vec<Entry>, now_ms: u64) {
        if entries.is_empty() {
            return;
        }
        let now = self.now_s(now_ms);
        for entry in &entries {
            let pending = self.callers.get(&entry.last.bits).and_then(|caller| self.pending.get_mut(caller));
            if let Some(pending) = pending {
                pending.is_seen = true;
            }
        }
        let mut listings = std::mem::take(&mut self.store_listings);
        let (taken, fresh) = self.join(now, |join| {
            let facts = entries.into_iter().flat_map(|entry| take_entry(join, &mut listings, entry.facts));
            facts.collect::<Vec<_>>()
        });
        self.store_listings = listings;
        let reached = self.position.n;
        self.unseen.retain(|unseen| unseen.last.n > reached);
        // The store does not know the facts that follow from an entry and the node's own facts.
        let follows: Vec<Said> =
            fresh.into_iter().filter(|said| said.fact.takes_away() && !taken.contains(said)).collect();
        let was_empty = self.owed.is_empty();
        self.owed.come(&taken, follows);
        if self.owed.is_empty() && !was_empty {
            self.end_giving();
        }
        self.acknowledge(now_ms);
    }

    /// Ends the giving back. The node tells the others at once, or compares the state again.
    pub(super) fn end_giving(&mut self) {
        if self.owed.is_to_be_compared() {
            self.note_doubt(RebuildCause::History);
        } else {
            self.outputs.push(Output::Note(Note::GivenBack));
            self.heartbeat_at_ms = 0;
        }
    }
}

fn strange() -> Unfit {
    Unfit::Refused("a strange reply".to_owned())
}

#[cfg(test)]
#[path = "feed_tests.rs"]
mod tests;
