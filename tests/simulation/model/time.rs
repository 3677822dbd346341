//! The service's time by the contract's section "Time": the wall line, the certain line, the time shown, and the note of
//! all three. Where the contract leaves a choice, the functions give every way to go on.

/// The wall clock is certain up to this distance from the certain line, in milliseconds.
pub(crate) const NEAR_MS: i64 = 60_000;
/// How long the lines are apart before the service takes the wall line. The time shown stands still for up to this, too.
pub(crate) const HOLD_MS: i64 = 600_000;
/// The most that service and model differ, in milliseconds. They read the clocks at one moment, so only rounding and a
/// standstill that begins a tenth of a second late lie between them.
pub(crate) const FUZZ_MS: i64 = 130;
/// After a longer gap between two looks, the service need not know how the clocks went meanwhile.
const GAP_MS: i64 = 1_000;

/// A reading of the system's two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) wall_ms: i64,
    pub(crate) boot_ms: i64,
}

/// The store's note of the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) certain_ms: i64,
    pub(crate) wall_ms: i64,
    pub(crate) shown_ms: i64,
}

/// Two lines are apart: since when the 10 minutes run (boot clock), and the wall clock minus the boot clock then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Parted {
    since_ms: i64,
    off_ms: i64,
}

/// The lines as they are at a reading of the clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lines {
    certain_ms: i64,
    last: Reading,
    /// The time that the service shows.
    pub(crate) shown_ms: i64,
    parted: Option<Parted>,
    /// The latest that the certain line has been since the time shown went back.
    ended_by_ms: i64,
    /// The certain line before, where an earlier one has just become certain. Votes that have ended by it are left out.
    left_out_by_ms: Option<i64>,
}

/// How a start may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Lines(Lines),
    /// The clock is behind the noted lines: the start waits for it.
    Behind,
}

/// Whether the value is at most the limit: both answers where it is too near to tell.
fn at_most(value: i64, limit: i64) -> impl Iterator<Item = bool> {
    [(true, value <= limit + FUZZ_MS), (false, value > limit - FUZZ_MS)]
        .into_iter()
        .filter_map(|(answer, may_be)| may_be.then_some(answer))
}

/// Each of them once.
pub(crate) fn once<T: PartialEq>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut different = Vec::new();
    for one in all {
        if !different.contains(&one) {
            different.push(one);
        }
    }
    different
}

impl Lines {
    /// A new store: all three are the wall clock.
    pub(crate) fn new(reading: Reading) -> Lines {
        let wall_ms = reading.wall_ms;
        Lines {
            certain_ms: wall_ms,
            last: reading,
            shown_ms: wall_ms,
            parted: None,
            ended_by_ms: wall_ms,
            left_out_by_ms: None,
        }
    }

    /// The certain line, in milliseconds.
    pub(crate) fn certain_ms(&self) -> i64 {
        self.certain_ms
    }

    /// Votes that have ended by this have ended for good.
    pub(crate) fn ended_by_ms(&self) -> i64 {
        self.ended_by_ms
    }

    /// A change that goes back leaves out the votes that have ended by this.
    pub(crate) fn leaves_out_by_ms(&self) -> i64 {
        self.left_out_by_ms.unwrap_or(self.certain_ms)
    }

    /// Votes that have ended by this are left out, as an earlier line has just become certain.
    pub(crate) fn take_left_out(&mut self) -> Option<i64> {
        self.left_out_by_ms.take()
    }

    /// The boot clock at the last look.
    pub(crate) fn boot_ms(&self) -> i64 {
        self.last.boot_ms
    }

    /// Since when the 10 minutes run (boot time).
    pub(crate) fn apart_since_ms(&self) -> Option<i64> {
        self.parted.map(|parted| parted.since_ms)
    }

    pub(crate) fn is_apart(&self) -> bool {
        self.parted.is_some()
    }

    pub(crate) fn note(&self) -> Note {
        Note { certain_ms: self.certain_ms, wall_ms: self.last.wall_ms, shown_ms: self.shown_ms }
    }

    /// The later of the two lines.
    pub(crate) fn target_ms(&self) -> i64 {
        self.certain_ms.max(self.last.wall_ms)
    }

    /// Whether the time shown goes back: perhaps, certainly.
    pub(crate) fn goes_back(&self) -> (bool, bool) {
        let ahead_ms = self.shown_ms - self.target_ms();
        (ahead_ms > HOLD_MS - FUZZ_MS, ahead_ms > HOLD_MS + FUZZ_MS)
    }

    /// The change that goes back is made.
    pub(crate) fn back(&self) -> Lines {
        Lines { shown_ms: self.target_ms(), ended_by_ms: self.certain_ms, left_out_by_ms: None, ..*self }
    }

    /// The same where the simulation has not seen the time: the error of a reading may make it another second.
    pub(crate) fn back_unseen(&self) -> Vec<Lines> {
        let back = self.back();
        let near = [-FUZZ_MS, FUZZ_MS].map(|fuzz_ms| Lines { shown_ms: back.shown_ms + fuzz_ms, ..back });
        let is_another = |lines: &Lines| lines.shown_ms.div_euclid(1_000) != back.shown_ms.div_euclid(1_000);
        once(near.into_iter().filter(is_another).chain([back]))
    }

    /// These lines, and those of another look at the end of a step that took a while and shows this time.
    pub(crate) fn looked_again(self, shown_ms: i64, took: (Reading, Reading), may_wait: bool) -> Vec<Lines> {
        let took_ms = took.1.boot_ms - took.0.boot_ms;
        let mut all = vec![self];
        if took_ms > 0 {
            all.extend(self.look(took.1, shown_ms.min(self.shown_ms + took_ms), may_wait));
            all.extend(self.look(took.1, self.shown_ms, may_wait));
        }
        all
    }

    /// The lines that fit the time shown, `took_ms` after the look. Each with whether the time has gone back.
    pub(crate) fn shows(&self, shown_ms: i64, took_ms: i64, may_wait: bool) -> Vec<(Lines, bool)> {
        let fits = |from_ms: i64| (from_ms - FUZZ_MS..=from_ms + took_ms + FUZZ_MS).contains(&shown_ms);
        let (perhaps, certainly) = self.goes_back();
        let mut ways = Vec::new();
        if fits(self.shown_ms) && (may_wait || !certainly) {
            ways.push((Lines { shown_ms, ..*self }, false));
        }
        if perhaps && fits(self.target_ms()) {
            ways.push((Lines { shown_ms, ..self.back() }, true));
        }
        ways
    }

    /// The service looks at its clocks, and has shown `before_ms` until then.
    ///
    /// Where the store cannot be written, a line that becomes certain `may_wait`, as the service cannot note it.
    pub(crate) fn look(&self, reading: Reading, before_ms: i64, may_wait: bool) -> Vec<Lines> {
        let run_ms = reading.boot_ms - self.last.boot_ms;
        let carried_ms = self.certain_ms + run_ms;
        let on = Lines { last: reading, shown_ms: before_ms, left_out_by_ms: None, ..*self };
        let ways = match self.parted {
            None => on.look_at_one(carried_ms, run_ms > GAP_MS),
            Some(parted) => Lines { certain_ms: carried_ms, ..on }.look_at_two(parted, may_wait),
        };
        let shown = |lines: Lines| Lines {
            shown_ms: before_ms.max(lines.target_ms()),
            ended_by_ms: lines.ended_by_ms.max(lines.certain_ms),
            ..lines
        };
        once(ways.into_iter().map(shown))
    }

    /// Within a minute the certain line follows the wall clock forward, and waits where the wall clock is behind it.
    fn look_at_one(self, carried_ms: i64, is_gap: bool) -> Vec<Lines> {
        let wall_ms = self.last.wall_ms;
        let mut ways = Vec::new();
        let waits = wall_ms <= self.certain_ms;
        let mut distances = vec![(wall_ms - if waits { self.certain_ms } else { carried_ms }).abs()];
        if is_gap {
            distances.push((wall_ms - carried_ms).abs());
        }
        for is_near in distances.into_iter().flat_map(|distance_ms| at_most(distance_ms, NEAR_MS)) {
            if !is_near {
                ways.push(Lines { certain_ms: carried_ms, ..self }.part());
                continue;
            }
            ways.push(Lines { certain_ms: self.certain_ms.max(wall_ms), ..self });
            if is_gap && wall_ms < carried_ms {
                // The service cannot know when in the gap the wall clock went back.
                ways.push(Lines { certain_ms: carried_ms, ..self });
            }
        }
        ways
    }

    fn look_at_two(self, parted: Parted, may_wait: bool) -> Vec<Lines> {
        let Reading { wall_ms, boot_ms } = self.last;
        let mut ways = Vec::new();
        for stays in at_most((wall_ms - boot_ms - parted.off_ms).abs(), NEAR_MS) {
            let on = if stays { Lines { parted: Some(parted), ..self } } else { self.part() };
            for is_near in at_most((wall_ms - on.certain_ms).abs(), NEAR_MS) {
                if is_near {
                    ways.push(Lines { certain_ms: on.certain_ms.max(wall_ms), parted: None, ..on });
                    continue;
                }
                let since_ms = on.parted.map_or(boot_ms, |parted| parted.since_ms);
                for is_over in at_most(HOLD_MS, boot_ms - since_ms) {
                    // `ended_by_ms` keeps the certain line of before.
                    let ended_by_ms = on.ended_by_ms.max(on.certain_ms);
                    let taken = Lines { parted: None, ended_by_ms, ..on }.take(wall_ms);
                    if is_over {
                        ways.push(taken);
                    }
                    if !is_over || may_wait {
                        ways.push(on);
                    }
                }
            }
        }
        ways
    }

    /// The wall line becomes certain.
    fn take(self, wall_ms: i64) -> Lines {
        let left_out_by_ms = (wall_ms < self.certain_ms).then_some(self.certain_ms);
        Lines { certain_ms: wall_ms, left_out_by_ms, ..self }
    }

    fn part(self) -> Lines {
        let Reading { wall_ms, boot_ms } = self.last;
        Lines { parted: Some(Parted { since_ms: boot_ms, off_ms: wall_ms - boot_ms }), ..self }
    }

    /// A start goes on from the note.
    pub(crate) fn start(note: Note, reading: Reading, accepts: bool) -> Vec<Start> {
        let wall_ms = reading.wall_ms;
        let mut ways = Vec::new();
        let behind_ms = note.certain_ms.min(note.wall_ms) - wall_ms;
        for is_caught_up in at_most(behind_ms, NEAR_MS) {
            if !is_caught_up && !accepts {
                ways.push(Start::Behind);
                continue;
            }
            let moved_ms = wall_ms - note.wall_ms;
            for is_back in [moved_ms < 0, moved_ms < -FUZZ_MS] {
                let certain_ms = note.certain_ms + moved_ms.clamp(0, NEAR_MS);
                let shown_ms = note.shown_ms + if is_back { NEAR_MS } else { 0 };
                let on = Lines {
                    certain_ms,
                    last: reading,
                    shown_ms,
                    parted: None,
                    ended_by_ms: certain_ms,
                    left_out_by_ms: None,
                };
                if accepts {
                    ways.push(Start::Lines(on.take(wall_ms).shown_at_start()));
                    continue;
                }
                for is_near in at_most((wall_ms - certain_ms).abs(), NEAR_MS) {
                    let one = Lines { certain_ms: certain_ms.max(wall_ms), ..on };
                    ways.push(Start::Lines(if is_near { one } else { on.part() }.shown_at_start()));
                }
            }
        }
        ways
    }

    fn shown_at_start(self) -> Lines {
        let ended_by_ms = self.ended_by_ms.max(self.certain_ms);
        Lines { shown_ms: self.shown_ms.max(self.target_ms()), ended_by_ms, ..self }
    }
}

#[cfg(test)]
mod tests;
