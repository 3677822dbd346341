//! How the recorder keeps time: it reads the clocks, follows the rule of time (`vote/lines`), and notes the lines in
//! the store. A time that goes back changes the store, the clock and the table, in this order.

use super::Recorder;
use super::command::Reply;
use crate::clock::Now;
use crate::store::{Event, StoredVote};
use crate::vote::lines::TimeLines;
use crate::vote::table::Cooling;
use crate::vote::time::{Cooldown, UnixSeconds, VOTE_AHEAD_MAX_S};

/// The time is noted with each commit, and at least this often, in milliseconds.
const NOTE_MS: u64 = 60_000;

/// How votes change when the time goes back.
#[derive(Clone, Copy)]
struct GoingBack {
    cooldown: Cooldown,
    to: UnixSeconds,
}

impl GoingBack {
    /// Votes that end after this lie ahead of the new time by more than a vote may.
    fn beyond(self) -> UnixSeconds {
        self.cooldown.expires_at(self.to.plus(VOTE_AHEAD_MAX_S))
    }

    /// The vote of an entry after the change.
    fn vote(self, entry: Cooling) -> StoredVote {
        let vote = StoredVote::of(entry, self.cooldown);
        if entry.expires_at > self.beyond() { StoredVote { voted_at: self.to, ..vote } } else { vote }
    }
}

impl Recorder {
    /// Reads the clocks, and follows them.
    pub(super) fn keep_time(&mut self) {
        let Some(reading) = self.clock.read() else { return };
        let before = self.lines;
        let then = self.lines.read(reading);
        self.show_time();
        if before.is_one() != self.lines.is_one() {
            self.say_lines();
        }
        if let Some(lines) = then
            && self.may_write(false)
        {
            let _told = self.change_lines(lines);
        }
        if self.lines.is_step_unnoted() {
            if !before.is_step_unnoted() {
                self.live.counters.clock_steps.add(1);
                log::warn!("the wall clock stepped; it is {} the certain time now", self.distance());
            }
            self.note_time();
        }
    }

    /// Shows the time to readers.
    pub(super) fn show_time(&self) {
        self.clock.show(self.lines.shown());
        self.clock.show_certain(self.lines.certain());
        let apart_s = if self.lines.is_one() { 0 } else { self.distance_s().unsigned_abs().max(1) };
        self.live.counters.clock_apart_s.set(apart_s);
    }

    fn distance_s(&self) -> i64 {
        self.lines.distance_us() / 1_000_000
    }

    fn distance(&self) -> String {
        let side = if self.distance_s() < 0 { "behind" } else { "ahead of" };
        format!("{} s {side}", self.distance_s().unsigned_abs())
    }

    pub(super) fn say_lines(&self) {
        let (now, certain) = (self.lines.now(), self.lines.certain());
        if self.lines.is_one() {
            log::info!("the wall clock is certain again: it is {certain}, and {now} is shown");
            return;
        }
        log::warn!(
            "the wall clock is {} the certain time ({certain}), and nobody knows which is right: {now} is shown, the later one, and no vote is forgotten by it; after 10 minutes without another step the wall clock counts",
            self.distance()
        );
    }

    /// Changes the lines, in the store first. Where the certain line goes back, the votes that it has ended are
    /// forgotten before: they would count again.
    pub(super) fn change_lines(&mut self, lines: TimeLines) -> Result<(), Reply> {
        if lines.certain() < self.lines.certain() {
            self.forget_all_ended()?;
        }
        if lines.now() >= self.lines.now() {
            self.write(&[], lines.note())?;
            self.lines = lines;
            self.show_time();
            log::warn!("the wall clock counts as certain from now on: it is {}", self.lines.certain());
            return Ok(());
        }
        let back = GoingBack { cooldown: self.settings.cooldown, to: lines.now() };
        // After a short step few votes lie ahead, and one commit moves them. Above a bound the store is written anew
        // instead, which takes no more memory for more votes.
        match self.events_of(back) {
            Some(events) => self.write(&events, lines.note())?,
            None => self.renew(lines.note(), &move |entry| Some(back.vote(entry)))?,
        }
        self.lines = lines;
        self.show_time();
        self.live.table.bring_back(back.beyond(), back.cooldown.expires_at(back.to));
        self.spent.prune(self.lines.now());
        // Votes that had ended by the time shown are visible again.
        self.live.waiting.tell_where(|_| true);
        log::warn!(
            "the time shown went back to {}; votes from later than that have it as their instant",
            self.lines.now()
        );
        Ok(())
    }

    /// The changes of rows where the time goes back, unless they are more than one commit takes.
    fn events_of(&self, back: GoingBack) -> Option<Vec<Event>> {
        let (view, mut events, mut shard) = (self.live.table.view(), Vec::new(), Vec::new());
        for index in 0..self.live.table.shards() {
            shard.clear();
            view.copy_shard(index, UnixSeconds(0), &mut shard);
            for entry in &shard {
                let (before, after) = (StoredVote::of(*entry, back.cooldown), back.vote(*entry));
                if after != before {
                    events.extend([Event::VoteRemoved(before), Event::Vote(after)]);
                }
            }
            if events.len() > self.tuning.commit_events_max {
                return None;
            }
        }
        Some(events)
    }

    /// Notes the time in the store, if it takes changes.
    pub(super) fn note_time(&mut self) {
        if self.may_write(false) {
            let _told = self.write(&[], self.lines.note());
        }
    }

    pub(super) fn note_time_when_due(&mut self, now: Now) {
        if now.monotonic_ms >= self.noted_at_ms + NOTE_MS {
            self.note_time();
        }
    }
}
