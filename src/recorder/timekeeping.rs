//! The recorder keeps the clock: a step of the wall clock has to meet table and store at one moment.
//! And it keeps in the store what time it is, so that a start with a clock that is behind is noticed.

use super::{COMMIT_EVENTS_MAX, Recorder};
use crate::clock::Now;
use crate::store::{Event, StoredVote};
use crate::vote::table::Cooling;
use crate::vote::time::UnixSeconds;

/// A smaller difference between the two clocks is the reading's own error, in milliseconds.
const STEP_MIN_MS: i64 = 20;
/// A smaller step is told nobody, in milliseconds.
const STEP_TOLD_MS: i64 = 1_000;
/// A larger step forward may be a glitch, in milliseconds.
const JUMP_MIN_MS: i64 = 60_000;
/// What a jump ended is held for so long, in milliseconds: a clock that was wrong is set right by then.
const JUMP_HELD_MS: u64 = 600_000;
/// The time is kept with each commit, and so often without one, in milliseconds.
const NOTE_MS: u64 = 60_000;

/// The clock has jumped ahead. Until it is clear that it stays there nothing is dropped.
#[derive(Clone, Copy, Debug)]
pub(super) struct Jump {
    /// How far ahead it is of where it would be without, in milliseconds; above 0.
    ahead_ms: i64,
    /// By the monotonic clock.
    held_until_ms: u64,
    /// It is how long the service has not run, as far as the clock can be trusted.
    is_of_start: bool,
}

impl Recorder {
    /// Follows the system's wall clock. A step forward is followed at once: a cooldown is a promise
    /// in wall time. Before a step back is followed, what has expired and would be live again is
    /// dropped, and what would last longer than a cooldown from then on is cut to that: nothing is
    /// revived, lengthened or lost. Where the step back undoes a jump, what that has ended is as it was.
    pub(super) fn keep_clock(&mut self) {
        let drift_ms = self.clock.drift_ms();
        if drift_ms.abs() < STEP_MIN_MS {
            return;
        }
        let after = self.clock.foresee(drift_ms);
        let cut = if drift_ms < 0 { self.step_back(drift_ms, after) } else { Vec::new() };
        self.clock.adjust(drift_ms);
        self.live.counters.clock_steps.add(1);
        if drift_ms.abs() >= STEP_TOLD_MS {
            log::warn!("the wall clock stepped by {drift_ms} ms; {} cooldowns were cut to their length", cut.len());
        }
        if drift_ms > JUMP_MIN_MS {
            let held_until_ms = self.clock.now().monotonic_ms + JUMP_HELD_MS;
            let ahead_ms = self.jump.map_or(0, |jump| jump.ahead_ms).saturating_add(drift_ms);
            self.jump = Some(Jump { ahead_ms, held_until_ms, is_of_start: false });
            log::warn!("what that has ended is kept for 10 minutes, should the clock step back in that time");
        }
        self.note_cut(&cut, after);
        if drift_ms <= -STEP_TOLD_MS {
            // A start must not wait for the time that was wrong.
            self.note_time();
        }
    }

    /// Makes table and store fit a step back, before anybody sees it. Gives the entries that are cut, as
    /// they were.
    fn step_back(&mut self, drift_ms: i64, after: UnixSeconds) -> Vec<Cooling> {
        // Votes of servers that were struck off are found in the store by their instants, which change here:
        // they go first.
        while self.remove_part() {}
        // A small step back is a correction of its own, and does not undo a jump.
        let ahead_ms = self.jump.filter(|_| drift_ms < -JUMP_MIN_MS).map_or(0, |jump| jump.ahead_ms);
        // The time as it would be without the jump. Readers go on by the old time while this works, so a second
        // more has passed for them.
        let before = self.clock.foresee(-ahead_ms).plus(1);
        self.jump = self.jump.and_then(|jump| {
            let ahead_ms = jump.ahead_ms.saturating_add(drift_ms);
            (ahead_ms > 0).then_some(Jump { ahead_ms, ..jump })
        });
        if after < before {
            self.drop_ended(after, before);
        }
        self.live.table.step_back(before, after, self.cooldown)
    }

    /// Drops the rows of votes that had ended by `before` and have not at `after`: they must not come back, nor
    /// with the next start.
    pub(super) fn drop_ended(&mut self, after: UnixSeconds, before: UnixSeconds) {
        let length_s = self.cooldown.seconds();
        let Some(until) = before.0.checked_sub(length_s) else { return };
        let since = after.minus(length_s).plus(1);
        let dropped = self.store().and_then(|store| store.drop_cast(since, UnixSeconds(until), usize::MAX));
        if let Err(error) = dropped {
            log::warn!("{error}; a restart may bring back cooldowns that had expired before the clock stepped back");
        }
    }

    /// Moves the rows of cooldowns that were cut to a length from `now`, with the next commit that succeeds: a
    /// later change has to meet the right row.
    pub(super) fn note_cut(&mut self, cut: &[Cooling], now: UnixSeconds) {
        let cooldown = self.cooldown;
        for part in cut.chunks(COMMIT_EVENTS_MAX / 2) {
            for Cooling { pair, expires_at } in part {
                self.owed.push(Event::VoteGone(StoredVote::new(*pair, cooldown.voted_at(*expires_at))));
                self.owed.push(Event::Vote(StoredVote::new(*pair, now)));
            }
            self.commit(Vec::new());
        }
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

    /// Whether so much has passed from `known` to `now` that it may be a jump.
    pub(super) fn is_jump(known: UnixSeconds, now: UnixSeconds) -> bool {
        i64::from(now.0) - i64::from(known.0) > JUMP_MIN_MS / 1_000
    }

    /// Takes the time since the store was last used, at `known`, for a jump: nobody can tell whether it has
    /// passed or the clock is wrong.
    pub(super) fn hold_from(&mut self, known: UnixSeconds, start: Now) {
        let ahead_ms = (i64::from(start.wall.0) - i64::from(known.0)) * 1_000;
        self.jump = Some(Jump { ahead_ms, held_until_ms: start.monotonic_ms + JUMP_HELD_MS, is_of_start: true });
    }

    /// Whether votes that have ended are kept, as the clock may step back. Not those that ended while the
    /// service did not run, where the disk is full: it waits for their room.
    pub(super) fn is_held(&mut self, now: Now) -> bool {
        self.jump = self.jump.filter(|jump| now.monotonic_ms < jump.held_until_ms);
        let is_full = || self.is_store_failing() || self.store.as_ref().is_some_and(|store| !store.has_more_room());
        self.jump.is_some_and(|jump| !(jump.is_of_start && is_full()))
    }
}
