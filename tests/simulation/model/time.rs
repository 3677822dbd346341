//! The service's time as the contract's section "Time" gives it: what it shows, which part of it is certain, and what
//! the store keeps of it. Where the contract leaves a choice, a span holds every time that it allows.

/// A step of the clock above this may be a mistake, in milliseconds.
const LARGE_STEP_MS: i64 = 60_000;
/// How long a large step may still be taken back: certainly, and at the latest. The recorder looks once a second.
const HOLD_MS: (i64, i64) = (597_000, 606_000);
/// A clock that comes back this close to where it was has come back.
const RETURN_MS: i64 = 2_000;
/// The service may lag behind the clock, or be ahead of it, by less than this between two looks.
const TOLERANCE_MS: i64 = 1_000;
/// The store keeps the time each minute; so long after the last commit a look may still be under way.
const KEPT_MS: i64 = 63_000;

/// A store keeps no time yet.
const NEVER_MS: i64 = -(1 << 50);

/// Everything from `lo` to `hi` is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) lo: i64,
    pub(crate) hi: i64,
}

impl Span {
    pub(crate) fn exactly(value: i64) -> Span {
        Span { lo: value, hi: value }
    }

    pub(crate) fn around(value: i64, tolerance: i64) -> Span {
        Span { lo: value - tolerance, hi: value + tolerance }
    }

    pub(crate) fn plus(self, more: i64) -> Span {
        Span { lo: self.lo.saturating_add(more), hi: self.hi.saturating_add(more) }
    }

    pub(crate) fn at_most(self, other: Span) -> Span {
        Span { lo: self.lo.min(other.lo), hi: self.hi.min(other.hi) }
    }

    pub(crate) fn or(self, other: Span) -> Span {
        Span { lo: self.lo.min(other.lo), hi: self.hi.max(other.hi) }
    }

    pub(crate) fn contains(self, value: i64) -> bool {
        (self.lo..=self.hi).contains(&value)
    }

    /// Milliseconds as whole seconds, cut off.
    pub(crate) fn seconds(self) -> Span {
        Span { lo: self.lo.div_euclid(1_000), hi: self.hi.div_euclid(1_000) }
    }
}

/// What the system's two clocks read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) wall_ms: i64,
    pub(crate) boot_ms: i64,
}

/// What a look at the clocks means for the votes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A step back of more than a minute. What had ended by `ended` stays ended; no cooldown lasts longer than its length
    /// from `now` (both in seconds).
    Back { ended: Span, now: Span },
    /// The clock has come back from such a step: every cooldown is as it was.
    Returned,
    /// It has come back in part, or perhaps too late: it is as it was, or as it was cut.
    PerhapsReturned,
    /// The step back counts for good.
    Settled,
}

/// A step forward that may still be taken back.
#[derive(Clone, Copy, Debug)]
struct Forward {
    /// How far the time is ahead of what is certain.
    ahead_ms: Span,
    /// Until then it certainly may be taken back, and from `by_ms` on certainly not (boot time).
    until_ms: i64,
    by_ms: i64,
}

/// A step back that may still be taken back.
#[derive(Clone, Copy, Debug)]
struct Back {
    /// Wall time minus boot time before the step.
    line_ms: Span,
    until_ms: i64,
    by_ms: i64,
    /// How far a step forward had been ahead that this step took back.
    was_ahead_ms: i64,
}

/// The service's time.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    last: Reading,
    shown_ms: Span,
    forward: Option<Forward>,
    back: Option<Back>,
    /// What the time was before each of the steps that may still be taken back, minus boot time. Where one is, a small
    /// step back may be left of it, for which the time stands still.
    lines_ms: Vec<Span>,
    /// When the last of them is for good (boot time).
    lines_by_ms: i64,
    /// What the store keeps: the time without a step forward that is held, and the latest that it has shown.
    kept_ms: Span,
    latest_ms: Span,
    /// Since when (boot time) the disk takes what is written.
    healthy_since_ms: Option<i64>,
}

impl Time {
    /// A new store: no time is kept.
    pub(crate) fn new(reading: Reading) -> Time {
        Time {
            last: reading,
            shown_ms: Span::around(reading.wall_ms, TOLERANCE_MS),
            forward: None,
            back: None,
            lines_ms: Vec::new(),
            lines_by_ms: 0,
            kept_ms: Span { lo: NEVER_MS, hi: reading.wall_ms },
            latest_ms: Span { lo: NEVER_MS, hi: reading.wall_ms },
            healthy_since_ms: None,
        }
    }

    /// What the service's clock may show, in milliseconds.
    pub(crate) fn shown_ms(&self) -> Span {
        self.shown_ms
    }

    /// The same in whole seconds.
    pub(crate) fn now(&self) -> Span {
        self.shown_ms.seconds()
    }

    /// What a turn means for the votes in the store: what it could not note it does not know.
    pub(crate) fn in_store(&self, turn: Turn) -> Turn {
        match turn {
            _ if self.healthy_since_ms.is_some() => turn,
            Turn::Back { ended, now } => Turn::Back { ended: Span { lo: ended.lo.min(self.kept().lo), ..ended }, now },
            Turn::Returned => Turn::PerhapsReturned,
            other => other,
        }
    }

    /// What of the time is certain, in seconds: a vote that has ended by then has ended for good.
    pub(crate) fn certain(&self) -> Span {
        self.certain_ms().seconds()
    }

    /// The time that the store keeps, in seconds.
    pub(crate) fn kept(&self) -> Span {
        self.kept_ms.seconds()
    }

    fn certain_ms(&self) -> Span {
        let Some(forward) = self.forward else {
            return self.shown_ms;
        };
        let held_ms = if self.last.boot_ms < forward.until_ms { forward.ahead_ms.lo } else { 0 };
        Span { lo: self.shown_ms.lo - forward.ahead_ms.hi, hi: self.shown_ms.hi - held_ms }
    }

    /// An acknowledged commit keeps the time with it.
    pub(crate) fn committed(&mut self) {
        self.kept_ms = self.certain_ms();
        self.latest_ms = self.shown_ms;
    }

    /// Says whether the disk takes what is written.
    pub(crate) fn disk(&mut self, is_healthy: bool) {
        match (is_healthy, self.healthy_since_ms) {
            (false, _) => self.healthy_since_ms = None,
            (true, None) => self.healthy_since_ms = Some(self.last.boot_ms),
            (true, Some(_)) => {}
        }
    }

    /// What the held forward steps had ended may have left: on a full disk, or with a file written anew.
    pub(crate) fn held_rows_may_be_gone(&mut self) {
        if let Some(forward) = &mut self.forward {
            forward.until_ms = forward.until_ms.min(self.last.boot_ms);
        }
    }

    /// The clocks read this while the service runs.
    pub(crate) fn look(&mut self, reading: Reading) -> Vec<Turn> {
        let elapsed_ms = reading.boot_ms - self.last.boot_ms;
        let step_ms = reading.wall_ms - self.last.wall_ms - elapsed_ms;
        let line_ms = self.last.wall_ms - self.last.boot_ms;
        let shown_ms = Span::around(reading.wall_ms, TOLERANCE_MS);
        let mut turns = Vec::new();
        if step_ms.abs() > LARGE_STEP_MS {
            let ended = self.certain();
            if reading.boot_ms >= self.lines_by_ms {
                self.lines_ms.clear();
            }
            self.lines_ms.push(Span { lo: line_ms - TOLERANCE_MS, hi: self.shown_ms.hi - self.last.boot_ms });
            (self.last, self.shown_ms) = (reading, shown_ms);
            self.may_stand_still(0);
            turns.extend(if step_ms < 0 {
                Some(self.step_back(ended, line_ms, -step_ms))
            } else {
                self.step_forward(step_ms)
            });
        } else {
            // A small step back: the time stands still.
            self.last = reading;
            if let Some(Forward { ahead_ms, .. }) = &mut self.forward {
                // The time without the step need not have followed it.
                *ahead_ms = Span { lo: (ahead_ms.lo + step_ms.min(0)).max(0), hi: ahead_ms.hi + step_ms.max(0) };
            }
            let unset_ms = reading.wall_ms - step_ms + TOLERANCE_MS;
            let hi = self.shown_ms.hi.max(shown_ms.hi).max(unset_ms);
            self.shown_ms = Span { lo: self.shown_ms.lo.max(shown_ms.lo), hi };
        }
        let is_healthy = self.is_healthy_for(HOLD_MS.1 - HOLD_MS.0);
        let is_settled = |by_ms: i64| reading.boot_ms >= by_ms && is_healthy;
        if self.back.is_some_and(|back| is_settled(back.by_ms)) {
            self.back = None;
            turns.push(Turn::Settled);
        }
        if self.forward.is_some_and(|forward| is_settled(forward.by_ms)) {
            self.forward = None;
        }
        let certain_ms = self.certain_ms();
        self.kept_ms.hi = self.kept_ms.hi.max(certain_ms.hi);
        self.latest_ms.hi = self.latest_ms.hi.max(self.shown_ms.hi);
        if self.is_healthy_for(KEPT_MS) {
            self.kept_ms.lo = self.kept_ms.lo.max(certain_ms.lo - KEPT_MS);
            self.latest_ms.lo = self.latest_ms.lo.max(self.shown_ms.lo - KEPT_MS);
        }
        turns
    }

    fn is_healthy_for(&self, ms: i64) -> bool {
        self.healthy_since_ms.is_some_and(|since_ms| self.last.boot_ms - since_ms >= ms)
    }

    fn step_back(&mut self, ended: Span, line_ms: i64, step_ms: i64) -> Turn {
        let boot_ms = self.last.boot_ms;
        let (until_ms, by_ms) = (boot_ms + HOLD_MS.0, boot_ms + HOLD_MS.1);
        let line_ms = Span::exactly(line_ms);
        let mut back = Back { line_ms, until_ms, by_ms, was_ahead_ms: 0 };
        if let Some(earlier) = self.back {
            let is_certain = boot_ms < earlier.until_ms;
            let line_ms = if is_certain { earlier.line_ms } else { earlier.line_ms.or(line_ms) };
            back = Back { line_ms, until_ms: earlier.until_ms, ..back };
        }
        if let Some(forward) = self.forward.take() {
            // The steps meet: what the forward step is taken back to is as it was, what is cut may be as it was.
            back = Back { until_ms: boot_ms, was_ahead_ms: forward.ahead_ms.hi, ..back };
            let left_ms = forward.ahead_ms.plus(-step_ms);
            if left_ms.hi > RETURN_MS {
                let ahead_ms = Span { lo: 0, hi: left_ms.hi };
                self.forward = Some(Forward { ahead_ms, until_ms: boot_ms, by_ms });
            }
        }
        self.back = Some(back);
        // The kept time follows at once where the disk takes it.
        (self.kept_ms, self.latest_ms) = match self.healthy_since_ms {
            Some(_) => (self.certain_ms(), self.shown_ms),
            None => (self.kept_ms.or(self.certain_ms()), self.latest_ms.or(self.shown_ms)),
        };
        Turn::Back { ended, now: self.now() }
    }

    fn step_forward(&mut self, step_ms: i64) -> Option<Turn> {
        let boot_ms = self.last.boot_ms;
        let (until_ms, by_ms) = (boot_ms + HOLD_MS.0, boot_ms + HOLD_MS.1);
        let Some(back) = self.back.take() else {
            let before = self.forward.unwrap_or(Forward { ahead_ms: Span::exactly(0), until_ms, by_ms });
            let ahead_ms = before.ahead_ms.plus(step_ms);
            self.forward = Some(Forward { ahead_ms, until_ms: before.until_ms, by_ms });
            return None;
        };
        let line_ms = self.last.wall_ms - boot_ms;
        let is_back = (line_ms - back.line_ms.hi).abs() <= LARGE_STEP_MS - 2 * TOLERANCE_MS;
        if is_back && boot_ms < back.until_ms {
            return Some(Turn::Returned);
        }
        // It may come back yet.
        self.back = Some(Back { by_ms, ..back });
        let before_ms = self.forward.map_or(0, |forward| forward.ahead_ms.hi);
        let ahead_ms = Span { lo: 0, hi: (before_ms + step_ms).max(back.was_ahead_ms) };
        self.forward = Some(Forward { ahead_ms, until_ms: boot_ms, by_ms });
        Some(Turn::PerhapsReturned)
    }

    /// After a large step or a start, which may have read the clock so long after the last reading.
    fn may_stand_still(&mut self, took_ms: i64) {
        self.lines_by_ms = self.last.boot_ms + took_ms + HOLD_MS.1;
        let longest_ms = self.last.wall_ms + took_ms + LARGE_STEP_MS + TOLERANCE_MS;
        for time_ms in self.lines_ms.iter().map(|line_ms| line_ms.plus(self.last.boot_ms)) {
            if time_ms.lo <= longest_ms {
                self.shown_ms.hi = self.shown_ms.hi.max(time_ms.hi.min(longest_ms));
            }
        }
    }

    /// Whether a step back may still be taken back.
    pub(crate) fn is_back(&self) -> bool {
        self.back.is_some()
    }

    /// The process died in the midst of what came after `before`: the store may keep the time of then.
    pub(crate) fn died(&mut self, before: &Time) {
        self.kept_ms = self.kept_ms.or(before.kept_ms);
        self.latest_ms = self.latest_ms.or(before.latest_ms);
    }

    /// Whether a start with the clock at these times may be ready, and whether it must be, as far as the clock says.
    pub(crate) fn may_and_must_start(&self, wall_ms: Span) -> (bool, bool) {
        let (kept, wall) = (self.kept(), wall_ms.seconds());
        (wall.hi + 2 >= kept.lo, wall.lo > kept.hi)
    }

    /// The service has become ready; it has taken so long since this reading, and may have read the clock at any moment of
    /// that.
    pub(crate) fn start(&mut self, reading: Reading, took_ms: i64) -> Vec<Turn> {
        let kept_ms = self.kept_ms;
        // A store that keeps no time yet was not used before.
        let behind_ms = self.latest_ms.plus(-reading.wall_ms);
        let stands_still_ms = if behind_ms.hi <= LARGE_STEP_MS { behind_ms.hi.max(0) } else { 0 };
        let gap_ms = if kept_ms.lo == NEVER_MS { 0 } else { reading.wall_ms + took_ms + stands_still_ms - kept_ms.lo };
        let step_ms = reading.wall_ms - self.last.wall_ms - (reading.boot_ms - self.last.boot_ms);
        self.last = reading;
        self.back = None;
        self.shown_ms = Span::around(reading.wall_ms, TOLERANCE_MS);
        let by_ms = reading.boot_ms + took_ms + HOLD_MS.1;
        let forward = self.forward.take();
        if gap_ms > LARGE_STEP_MS {
            // It may be a step or the time for which nothing ran.
            let still_ahead_ms = |held: Forward| (held.ahead_ms.lo + step_ms.min(0)).max(0);
            let ahead_ms = Span { lo: forward.map_or(0, still_ahead_ms), hi: gap_ms };
            let until_ms = forward.map_or(reading.boot_ms, |held| held.until_ms);
            self.forward = Some(Forward { ahead_ms, until_ms, by_ms });
        }
        let ended = kept_ms.seconds();
        let never = Span::exactly(1 << 50);
        let mut turns = vec![Turn::Back { ended, now: never }];
        let line_ms = |time_ms: Span| Span { hi: time_ms.hi + TOLERANCE_MS, ..time_ms }.plus(-reading.boot_ms);
        self.lines_ms = vec![line_ms(kept_ms), line_ms(self.latest_ms)];
        self.may_stand_still(took_ms);
        if behind_ms.hi <= LARGE_STEP_MS {
            self.shown_ms.lo = self.shown_ms.lo.max(self.latest_ms.lo);
        } else {
            let line_ms = self.latest_ms.plus(-reading.boot_ms);
            self.back = Some(Back { line_ms, until_ms: reading.boot_ms, by_ms, was_ahead_ms: gap_ms });
            (self.kept_ms, self.latest_ms) = (self.certain_ms().or(kept_ms), self.shown_ms.or(self.latest_ms));
            let now_ms = Span { hi: self.shown_ms.hi + took_ms, ..self.shown_ms };
            turns = vec![Turn::Back { ended, now: now_ms.seconds() }];
            if behind_ms.lo <= LARGE_STEP_MS {
                turns.push(Turn::PerhapsReturned);
            }
        }
        self.healthy_since_ms = None;
        turns
    }
}
