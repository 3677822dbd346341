//! The recorder keeps the clock: a step of the wall clock has to meet table and store at one moment.
//! And it keeps in the store what time it is, so that a start with a clock that is behind is noticed.
//!
//! A step of more than a minute may be a mistake. The table follows it at once. For 10 minutes nothing that it ends or
//! shortens leaves memory or store, so that every cooldown is as it was where the clock comes back. What had ended
//! before a step back goes in the commit that notes the new time.

use super::Recorder;
use crate::clock::{Now, STANDSTILL_MAX_US};
use crate::store::{Cut, Event, StoredVote};
use crate::vote::table::{Cooling, SHARDS};
use crate::vote::time::UnixSeconds;

/// A smaller difference between the two clocks is the reading's own error, in milliseconds.
const STEP_MIN_MS: i64 = 20;
/// A smaller step is told nobody, in milliseconds.
const STEP_TOLD_MS: i64 = 1_000;
/// A larger step may be a mistake, in milliseconds.
const STEP_MAX_MS: i64 = STANDSTILL_MAX_US / 1_000;
/// Such a step is provisional for so long, in milliseconds: a clock that was wrong is set right by then.
const PROVISIONAL_MS: u64 = 600_000;
/// The time is kept with each commit, and so often without one, in milliseconds.
const NOTE_MS: u64 = 60_000;

/// A step of more than a minute, until it is clear that the clock stays there.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProvisionalStep {
    /// What the time would be without it, minus the monotonic clock, in milliseconds.
    without_ms: i64,
    /// Whether it led away from a time that was certain. The other way round it led back to it.
    is_away: bool,
    /// By the monotonic clock.
    until_ms: u64,
}

impl ProvisionalStep {
    /// What the time would be without it, in milliseconds since 1970.
    fn time_ms(self, now: Now) -> i64 {
        self.without_ms.saturating_add(now.monotonic_ms.cast_signed())
    }
}

impl Recorder {
    /// Follows the system's wall clock, and takes a step for good once it was provisional for long enough.
    pub(super) fn keep_clock(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        self.provisional.take_if(|step| now_ms >= step.until_ms);
        if self.provisional.is_none() {
            // Votes of removed servers are found in the store by their instants, which change here.
            let listed = self.live.directory.snapshot();
            let rows = self.cut.take(|row| listed.contains(row.pair.server));
            self.owe_cut(rows);
        }
        let drift_ms = self.clock.drift_ms();
        if drift_ms.abs() < STEP_MIN_MS && !self.clock.stands_still() {
            return;
        }
        if !is_large(drift_ms) {
            if self.clock.follow(drift_ms * 1_000) {
                self.live.counters.clock_steps.add(1);
                if drift_ms.abs() >= STEP_TOLD_MS {
                    let waits = if drift_ms < 0 { "; the time stands still until it has caught up" } else { "" };
                    log::warn!("the wall clock stepped by {drift_ms} ms{waits}");
                }
            }
            return;
        }
        let cut = self.step_clock(drift_ms);
        self.live.counters.clock_steps.add(1);
        log::warn!("the wall clock stepped by {drift_ms} ms; {cut} cooldowns were cut to their length");
        if self.provisional.is_some() {
            log::warn!("what that has ended or cut is kept for 10 minutes, should the clock come back in that time");
        }
        // A start must not wait for the time that was wrong.
        self.note_time();
    }

    /// Follows a large step; how many cooldowns that has cut. Where the clock comes back from the provisional step, a
    /// small step is left at most: the time is what it would have been, and follows that one.
    pub(super) fn step_clock(&mut self, drift_ms: i64) -> usize {
        let (now, wall_ms) = (self.clock.now(), self.clock.wall_ms().cast_signed());
        let left =
            self.provisional.map(|step| step.time_ms(now)).filter(|time_ms| !is_large(wall_ms + drift_ms - time_ms));
        if drift_ms < 0 {
            self.forget_over();
        } else if self.provisional.is_some() {
            self.restore_cut(|_| true);
        }
        let step_ms = left.map_or(drift_ms, |time_ms| time_ms - wall_ms);
        self.clock.adjust(step_ms);
        self.clock.follow((drift_ms - step_ms) * 1_000);
        let before_ms = wall_ms - now.monotonic_ms.cast_signed();
        self.provisional = match self.provisional {
            Some(step) if left.is_some() => self.provisional_step(before_ms, !step.is_away),
            Some(step) if step.is_away => self.provisional_step(step.without_ms, true),
            _ => self.provisional_step(before_ms, true),
        };
        let now = self.clock.now().wall;
        self.cut(Cut { beyond: now, to: now })
    }

    /// A step that is provisional for 10 minutes from now: see [`ProvisionalStep`].
    pub(super) fn provisional_step(&self, without_ms: i64, is_away: bool) -> Option<ProvisionalStep> {
        let until_ms = self.clock.now().monotonic_ms + PROVISIONAL_MS;
        self.is_lasting().then_some(ProvisionalStep { without_ms, is_away, until_ms })
    }

    fn is_lasting(&self) -> bool {
        self.store.as_ref().is_none_or(|store| store.is_lasting())
    }

    /// Forgets what is over for good and would be live again: in the table now, in the store with the next access.
    fn forget_over(&mut self) {
        loop {
            let now = self.clock.now().wall;
            let over_by = self.over_by();
            self.live.table.sweep(over_by, SHARDS);
            if self.clock.now().wall == now {
                self.owed_drop = self.owed_drop.max(Some(over_by));
                return;
            }
        }
    }

    /// Cuts what lasts too long after such a step; how many cooldowns those are.
    pub(super) fn cut(&mut self, step: Cut) -> usize {
        let ends_at = self.cooldown.expires_at(step.to);
        let cut = self.live.table.cut(step.beyond, self.cooldown, ends_at);
        if self.is_lasting() && !cut.is_empty() {
            let table = &self.live.table;
            self.cut.add(step, cut.iter().map(|row| (table.looked_up(row.pair), *row)));
        }
        cut.len()
    }

    /// Has the cooldowns that were cut last as long as their rows say.
    pub(super) fn restore_cut(&mut self, goes: impl Fn(&Cooling) -> bool) {
        for row in self.cut.take(goes) {
            self.live.table.insert(row.pair, row.expires_at);
        }
        self.cut.end_steps();
    }

    /// These cooldowns stay as they were cut, whatever the clock does: their rows say so with the next commit.
    pub(super) fn owe_cut(&mut self, rows: impl IntoIterator<Item = Cooling>) {
        for row in rows {
            let held = self.live.table.held(row.pair).filter(|held| held.pair == row.pair);
            self.owed.push(Event::VoteRemoved(StoredVote::of(row, self.cooldown)));
            self.owed.extend(held.map(|held| Event::Vote(StoredVote::of(held, self.cooldown))));
        }
    }

    /// What has ended by then is over for good. A provisional step forward ends nothing.
    pub(super) fn over_by(&self) -> UnixSeconds {
        seconds(self.settled_ms())
    }

    /// The time of the service, without a provisional step forward, in milliseconds since 1970.
    pub(super) fn settled_ms(&self) -> u64 {
        let away = self.provisional.filter(|step| step.is_away);
        let without_ms = away.map_or(i64::MAX, |step| step.time_ms(self.clock.now()));
        self.clock.wall_ms().min(without_ms.max(0).unsigned_abs())
    }

    /// Notes the time in the store, if it takes changes.
    pub(super) fn note_time(&mut self) {
        // A drop that failed says nothing of commits, and is not tried again before there is something to drop.
        if self.patience.is_failing || self.is_store_gone() {
            return;
        }
        self.noted_at_ms = self.clock.now().monotonic_ms;
        let _noted = self.write(Vec::new());
    }

    pub(super) fn note_time_when_due(&mut self, now: Now) {
        if now.monotonic_ms >= self.noted_at_ms + NOTE_MS {
            self.note_time();
        }
    }
}

/// Whether a step of the clock may be a mistake.
pub(super) const fn is_large(drift_ms: i64) -> bool {
    drift_ms.abs() > STEP_MAX_MS
}

/// The second of an instant in milliseconds.
pub(super) fn seconds(ms: u64) -> UnixSeconds {
    UnixSeconds(u32::try_from(ms / 1_000).unwrap_or(u32::MAX))
}
