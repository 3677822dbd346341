//! How the recorder writes to its store: it commits, writes the whole store anew from memory, and drops ended rows.
//! [`crate::readiness`] shows each of these as work.

use std::collections::HashSet;

use super::Recorder;
use super::command::Reply;
use super::health::StoreHealth;
use crate::clock::Now;
use crate::limits::RENEWAL_SLICES_MIN;
use crate::readiness::Work;
use crate::store::{CommitNote, Event, RoomLeft, StoreContent, StoreError, StoredVote, VoteVisitor};
use crate::vote::lines::TimeNote;
use crate::vote::table::Cooling;
use crate::vote::time::UnixSeconds;

/// The fewest rows that are dropped at once. A full disk may have no room for dropping many.
const DROP_ROWS_MIN: usize = 64;

impl Recorder {
    /// Commits `events`, all or nothing, with the instants that they spend. The error is the reply to every command of
    /// the commit.
    pub(super) fn commit(&mut self, events: &[Event], spent: HashSet<StoredVote>) -> Result<(), Reply> {
        if events.is_empty() {
            return Ok(());
        }
        if !self.may_write(true) {
            return Err(Reply::StoreUnavailable);
        }
        // A void store is renewed before the instants are noted: if the commit is refused afterwards, the renewed store must
        // not have them.
        self.renew_if_void()?;
        let before = (!spent.is_empty()).then(|| self.spent.clone());
        spent.into_iter().for_each(|vote| self.spent.note(vote));
        let outcome = self.write(events, self.lines.note());
        if let (Err(Reply::StoreUnavailable), Some(before)) = (&outcome, before) {
            self.spent = before;
        }
        outcome
    }

    /// Writes a store that is void anew.
    fn renew_if_void(&mut self) -> Result<(), Reply> {
        if !self.is_store_void() {
            return Ok(());
        }
        let (cooldown, certain) = (self.settings.cooldown, self.lines.certain());
        let vote = |entry: Cooling| (entry.expires_at > certain).then(|| StoredVote::of(entry, cooldown));
        self.renew(self.lines.note(), &vote)
    }

    /// Writes `events` and the note, with these lines of time, in one commit. A store that is void is written anew first.
    pub(super) fn write(&mut self, events: &[Event], time: TimeNote) -> Result<(), Reply> {
        self.renew_if_void()?;
        let (start, note) = (self.clock.now(), self.note(time));
        let Some(store) = &mut self.store else { return Err(Reply::StoreUnavailable) };
        self.readiness.begin(Work::Commit, start.monotonic_ms);
        let committed = store.commit(events, &note);
        self.readiness.end();
        self.end_write(committed, start)?;
        if !events.is_empty() {
            self.live.counters.commit_us.record(self.clock.now().monotonic_us - start.monotonic_us);
            self.live.counters.commit_events.record(events.len() as u64);
        }
        Ok(())
    }

    /// Writes the store anew from memory, with these lines of time. `vote` gives the vote of each table entry, or
    /// `None` to leave it out.
    pub(super) fn renew(&mut self, time: TimeNote, vote: &dyn Fn(Cooling) -> Option<StoredVote>) -> Result<(), Reply> {
        let (start, note) = (self.clock.now(), self.note(time));
        let (servers, view, shards) =
            (self.live.directory.snapshot(), self.live.table.view(), self.live.table.shards());
        let votes = |visit: &mut VoteVisitor<'_>| {
            let mut shard = Vec::new();
            for index in 0..shards {
                shard.clear();
                view.copy_shard(index, UnixSeconds(0), &mut shard);
                shard.iter().filter_map(|entry| vote(*entry)).for_each(&mut *visit);
            }
        };
        let slice_rows = (view.len() / RENEWAL_SLICES_MIN + 1).min(self.tuning.renewal_slice_rows);
        let content = StoreContent { servers: &servers, votes: &votes, slice_rows };
        let Some(store) = &mut self.store else { return Err(Reply::StoreUnavailable) };
        self.readiness.begin(Work::Renewal, start.monotonic_ms);
        let renewed = store.renew(&content, &note);
        self.readiness.end();
        self.end_write(renewed, start)?;
        log::warn!(
            "the store was written anew from memory, with {} servers and up to {} votes",
            servers.len(),
            view.len()
        );
        Ok(())
    }

    /// The note that goes with a commit.
    fn note(&self, time: TimeNote) -> CommitNote {
        CommitNote { time, spent_until: self.spent.until(), settings: self.settings }
    }

    /// Notes the outcome of a write that began at `start`.
    fn end_write(&mut self, outcome: Result<(), StoreError>, start: Now) -> Result<(), Reply> {
        self.note_outcome(&outcome, start);
        outcome.map_err(|error| match error {
            // The commit failed at its sync or after it: the events may be on the disk.
            StoreError::InDoubt(_) => Reply::StoreSilent,
            _ => Reply::StoreUnavailable,
        })?;
        self.written(start.monotonic_ms);
        Ok(())
    }

    /// Drops rows of cooldowns that have ended by the certain line. On a full disk this may use the reserve, and makes
    /// room for votes.
    pub(super) fn drop_ended(&mut self, now: Now) {
        let may_drop = match &self.health {
            StoreHealth::Well { .. } => true,
            StoreHealth::Failing(retry) => retry.is_full(),
            StoreHealth::Gone => false,
        };
        if !may_drop || self.drop_retry.as_mut().is_some_and(|retry| !retry.is_due(now, true, || RoomLeft::Little)) {
            return;
        }
        let rows_max = self.drop_rows;
        match self.drop_part(rows_max) {
            // Nothing was written, so this does not prove that the store works.
            Ok(0) => {}
            Ok(_) => {
                self.drop_retry = None;
                self.drop_rows = (2 * rows_max).min(self.tuning.part_rows);
                if let StoreHealth::Failing(retry) = &mut self.health {
                    retry.has_room();
                }
            }
            Err(error) => {
                // Fewer rows change fewer pages, for which there may be room, so they are tried at the next tick. The
                // recorder pauses only if the fewest rows find no room.
                let rows_min = DROP_ROWS_MIN.min(self.tuning.part_rows);
                self.drop_rows = (rows_max / 4).max(rows_min);
                if rows_max > rows_min && matches!(error, StoreError::Full(_)) {
                    self.live.counters.commit_failures.add(1);
                    return;
                }
                self.drop_retry = Some(self.drop_retry.unwrap_or_default().after(&error, now, self.clock.now()));
                self.note_outcome(&Err(error), now);
            }
        }
    }

    /// Forgets all votes that have ended by the certain line, in table and store. This precedes a step back of that
    /// line: the votes would count again.
    pub(super) fn forget_all_ended(&mut self) -> Result<(), Reply> {
        self.live.table.sweep(self.lines.certain(), self.live.table.shards());
        loop {
            let start = self.clock.now();
            match self.drop_part(self.tuning.part_rows) {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) => return self.end_write(Err(error), start),
            }
        }
    }

    /// Drops up to `rows_max` ended rows in one commit; gives their number.
    fn drop_part(&mut self, rows_max: usize) -> Result<usize, StoreError> {
        let (start_ms, first) =
            (self.clock.now().monotonic_ms, self.settings.cooldown.first_live(self.lines.certain()));
        let note = self.note(self.lines.note());
        let Some(store) = &mut self.store else { return Ok(0) };
        self.readiness.begin(Work::Commit, start_ms);
        let dropped = store.drop_before(first, rows_max, &note);
        self.readiness.end();
        let rows = dropped?;
        if rows > 0 {
            self.live.counters.dropped.add(rows as u64);
            self.written(start_ms);
        }
        Ok(rows)
    }

    /// A commit that began at `start_ms` of the monotonic clock is durable, and the lines of time with it.
    const fn written(&mut self, start_ms: u64) {
        self.noted_at_ms = start_ms;
        self.lines.noted();
        self.store_check.written();
    }
}
