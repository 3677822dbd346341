//! The recorder keeps the clock: a step of the wall clock has to meet table and store at one moment.
//! And it keeps in the store what time it is, so that a start with a clock that is behind is noticed.
//!
//! A step of more than a minute may be a mistake. The table follows it at once. For 10 minutes nothing that it ends or
//! shortens leaves memory or store, so that every cooldown is as it was where the clock comes back. What had ended
//! before a step back goes in the commit that notes the new time.

use super::cut::CutVotes;
use super::{CommitOutcome, Recorder};
use crate::clock::{Now, STANDSTILL_MAX_US};
use crate::store::{Event, StoredVote};
use crate::vote::table::{Pair, SHARDS};
use crate::vote::time::UnixSeconds;

/// A smaller difference between the two clocks is the reading's own error, in milliseconds.
const STEP_MIN_MS: i64 = 20;
/// A smaller step is told nobody, in milliseconds.
const STEP_TOLD_MS: i64 = 1_000;
/// A larger step may be a mistake, in milliseconds.
const STEP_MAX_MS: i64 = STANDSTILL_MAX_US / 1_000;
/// Such a step is held for so long, in milliseconds: a clock that was wrong is set right by then.
const HELD_MS: u64 = 600_000;
/// The time is kept with each commit, and so often without one, in milliseconds.
const NOTE_MS: u64 = 60_000;

/// A step of more than a minute, until it is clear that the clock stays there.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldStep {
    /// What the time would be without it, minus the monotonic clock, in milliseconds.
    without_ms: i64,
    /// Where the latest such step led.
    to: UnixSeconds,
    /// By the monotonic clock.
    until_ms: u64,
}

/// A span of ends of cooldowns, both included.
type Ends = (UnixSeconds, UnixSeconds);

impl Recorder {
    /// Follows the system's wall clock, and takes a step for good once it was held for long enough.
    pub(super) fn keep_clock(&mut self) {
        let now_ms = self.clock.now().monotonic_ms;
        if self.held.is_none_or(|held| now_ms >= held.until_ms) && self.write_cut() {
            self.held = None;
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
        self.step_clock(drift_ms);
        let now = self.clock.now().wall;
        let cut = self.cut(now, now);
        self.live.counters.clock_steps.add(1);
        log::warn!("the wall clock stepped by {drift_ms} ms; {cut} cooldowns were cut to their length");
        if self.held.is_some() {
            log::warn!("what that has ended or cut is kept for 10 minutes, should the clock come back in that time");
        }
        // A start must not wait for the time that was wrong.
        self.note_time();
    }

    /// Follows a large step. What would last too long from then on has to be cut next.
    pub(super) fn step_clock(&mut self, drift_ms: i64) {
        let monotonic_ms = i64::try_from(self.clock.now().monotonic_ms).unwrap_or(i64::MAX);
        let wall_ms = i64::try_from(self.clock.wall_ms()).unwrap_or(i64::MAX);
        let without_ms = self.held.map_or(wall_ms - monotonic_ms, |held| held.without_ms);
        self.restore_cut(|_| true);
        if drift_ms < 0 {
            self.forget_over();
        }
        self.clock.adjust(drift_ms);
        let now = self.clock.now();
        let is_lasting = self.store.as_ref().is_none_or(|store| store.is_lasting());
        let until_ms = now.monotonic_ms + HELD_MS;
        self.held = is_lasting.then_some(HeldStep { without_ms, to: now.wall, until_ms });
    }

    /// Forgets what is over for good and would be live again: in the table now, in the store with the next access.
    fn forget_over(&mut self) {
        loop {
            let now = self.clock.now().wall;
            let over = self.over(now, false);
            self.live.table.sweep_if(SHARDS, |ends_at| is_in(&over, ends_at));
            if self.clock.now().wall == now {
                self.owed_drops.extend(over);
                return;
            }
        }
    }

    /// Has every cooldown that lasts too long end a length after `stepped_to`; how many those are.
    pub(super) fn cut(&mut self, now: UnixSeconds, stepped_to: UnixSeconds) -> usize {
        let ends_at = self.cooldown.expires_at(stepped_to);
        let cut = self.live.table.cut(now, self.cooldown, ends_at);
        if self.store.as_ref().is_none_or(|store| store.is_lasting()) {
            let table = &self.live.table;
            let rows = cut.iter().map(|row| (table.looked_up(row.pair), *row));
            self.cut = CutVotes::new(stepped_to, rows);
        }
        cut.len()
    }

    /// Has the cooldowns that were cut last as long as their rows say.
    pub(super) fn restore_cut(&mut self, goes: impl Fn(Pair) -> bool) {
        for (_, row) in self.cut.take(goes) {
            self.live.table.insert(row.pair, row.expires_at);
        }
    }

    /// Has the rows of cooldowns that were cut say so, in one commit; whether none is left.
    pub(super) fn write_cut(&mut self) -> bool {
        if self.cut.stepped_to().is_none() {
            return true;
        }
        // Votes of servers that were struck off are found in the store by their instants, which change here.
        while self.remove_part() {}
        if self.is_store_gone || !self.may_try(self.clock.now()) {
            return false;
        }
        let cut = std::mem::take(&mut self.cut);
        let voted_at = |ends_at| self.cooldown.voted_at(ends_at);
        let gone = cut.rows().map(|(_, row)| Event::VoteGone(StoredVote::new(row.pair, voted_at(row.expires_at))));
        let held = cut.rows().filter_map(|(pair, _)| self.live.table.held(pair));
        let kept = held.map(|held| Event::Vote(StoredVote::new(held.pair, voted_at(held.expires_at))));
        let events = gone.chain(kept).collect();
        if self.write(events) == CommitOutcome::Yes {
            return true;
        }
        self.cut = cut;
        false
    }

    /// The ends of cooldowns that are over for good. A step that is held ends none of those that it has met. On a full
    /// disk ended votes may leave at once.
    pub(super) fn over(&self, now: UnixSeconds, is_full: bool) -> Vec<Ends> {
        let Some(held) = self.held.filter(|_| !is_full) else { return vec![(UnixSeconds(0), now)] };
        let settled = seconds(self.settled_ms()).min(now);
        // Votes that were cast since.
        let later = self.cooldown.expires_at(held.to).max(settled.plus(1));
        [(UnixSeconds(0), settled), (later, now)].into_iter().filter(|(from, to)| from <= to).collect()
    }

    /// The time of the service, without a step forward that is held, in milliseconds since 1970.
    pub(super) fn settled_ms(&self) -> u64 {
        let monotonic_ms = i64::try_from(self.clock.now().monotonic_ms).unwrap_or(i64::MAX);
        let without_ms = self.held.map_or(i64::MAX, |held| held.without_ms.saturating_add(monotonic_ms));
        self.clock.wall_ms().min(without_ms.max(0).unsigned_abs())
    }

    /// Notes the time in the store, if it takes changes.
    pub(super) fn note_time(&mut self) {
        if self.is_store_failing() || self.is_store_gone {
            return;
        }
        self.noted_at_ms = self.clock.now().monotonic_ms;
        self.write(Vec::new());
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

/// Whether a cooldown that ends at `ends_at` is in one of the spans.
pub(super) fn is_in(spans: &[Ends], ends_at: UnixSeconds) -> bool {
    spans.iter().any(|(from, to)| (*from..=*to).contains(&ends_at))
}

/// The second of an instant in milliseconds.
pub(super) fn seconds(ms: u64) -> UnixSeconds {
    UnixSeconds(u32::try_from(ms / 1_000).unwrap_or(u32::MAX))
}
