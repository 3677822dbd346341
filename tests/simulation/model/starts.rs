//! A start from each state that the store may have: whether it is ready, and with which state.

use super::time::{FUZZ_MS, Lines, NEAR_MS, Reading, Start, once};
use super::{Accepts, Live, Model, Outcome, Settings, Stored, WAYS_MAX};
use std::rc::Rc;

/// How a start may end.
#[derive(Clone, Debug)]
enum Started {
    Ready {
        live: Live,
        /// The start is ready only once the store has this state.
        is_changed: bool,
    },
    ClockBehind,
    WrongOption,
}

impl Model {
    fn starts(&self, stored: &Stored, options: Settings, reading: Reading, accepts: Accepts) -> Vec<Started> {
        let ways = match stored.note {
            None => vec![Start::Lines(Lines::new(reading))],
            Some(note) => Lines::start(note, reading, accepts.clock),
        };
        let ways = ways.into_iter().flat_map(|way| match way {
            Start::Lines(lines) => stored.world.behind_spent(lines).into_iter().map(Start::Lines).collect(),
            Start::Behind => vec![way],
        });
        let mut all = Vec::new();
        for way in ways {
            let Start::Lines(lines) = way else {
                all.push(Started::ClockBehind);
                // The contract does not say which of the two is reported first.
                all.extend((stored.world.settings != options).then_some(Started::WrongOption));
                continue;
            };
            let mut world = (*stored.world).clone();
            world.starts(lines.certain_ms(), self.had_ended_by_ms.max(lines.ended_by_ms()), lines.shown_ms);
            let live = Live { lines, world: Rc::new(world), noted_spent: None };
            if live.world.settings == options {
                all.push(Started::Ready { live, is_changed: false });
                continue;
            }
            let moved_ms = stored.note.map_or(0, |note| reading.wall_ms - note.wall_ms);
            let is_within_minute = !lines.is_apart() && (0..=NEAR_MS - FUZZ_MS).contains(&moved_ms);
            let (may_be_live, is_live) = live.world.has_live(lines.certain_ms());
            let may_be_wrong = may_be_live && !(accepts.settings && (accepts.clock || is_within_minute));
            let may_be_ready = !is_live || (accepts.settings && (accepts.clock || !lines.is_apart()));
            if may_be_wrong {
                all.push(Started::WrongOption);
            }
            if may_be_ready {
                all.push(Started::Ready { live, is_changed: true });
            }
        }
        all
    }

    /// The service is ready and shows this time. It has read the clocks at the first of `took`, or again at the second.
    /// Where the store `is_void`, a power cut may leave an older state than this start has seen.
    pub(crate) fn is_ready(
        &mut self,
        options: Settings,
        accepts: Accepts,
        took: (Reading, Reading),
        shown_ms: i64,
        is_void: bool,
    ) -> Outcome {
        let (mut live, mut disk) = (Vec::new(), Vec::new());
        for stored in &self.disk {
            let mut stays = false;
            for (reading, started) in once([took.0, took.1]).into_iter().flat_map(|reading| {
                self.starts(stored, options, reading, accepts).into_iter().map(move |s| (reading, s))
            }) {
                let Started::Ready { live: way, is_changed } = started else { continue };
                let took_ms = took.1.boot_ms - reading.boot_ms;
                let all = way.lines.looked_again(shown_ms, (reading, took.1), false);
                for (lines, is_back) in all.iter().flat_map(|lines| lines.shows(shown_ms, took_ms, false)) {
                    for way in way.started_as(lines, is_back, options, took_ms) {
                        if is_changed || is_back {
                            let (world, note) = (Rc::clone(&way.world), Some(way.lines.note()));
                            disk.push(Stored { world, note, at_ms: took.1.boot_ms });
                        } else {
                            stays = true;
                        }
                        live.push(way.left_out());
                    }
                }
            }
            disk.extend(Some(stored.clone()).filter(|_| stays || is_void));
        }
        if live.is_empty() {
            let why = self.why(options, accepts, took);
            return Err(format!("ready with {options:?}, {accepts:?}, at {took:?}, shows {shown_ms}: {why}"));
        }
        (self.live, self.disk, self.settings) = (once(live), once(disk), options);
        (self.had_ended_by_ms, self.doubted, self.has_committed) = (0, Vec::new(), false);
        Ok(())
    }

    fn why(&self, options: Settings, accepts: Accepts, took: (Reading, Reading)) -> String {
        let of = |stored: &Stored| {
            let ways = self.starts(stored, options, took.0, accepts).into_iter().map(|way| match way {
                Started::Ready { live, .. } => format!("{:?}", live.lines),
                other => format!("{other:?}"),
            });
            format!("from {:?} allowed is {:?}", stored.note, ways.collect::<Vec<_>>())
        };
        self.disk.iter().map(of).collect::<Vec<_>>().join("; ")
    }

    /// The start waits as its clock `is_behind`, or it is refused as its options are wrong. Where the store `is_void`, a power
    /// cut may leave an older state than this start has seen.
    pub(crate) fn did_not_start(
        &mut self,
        options: Settings,
        accepts: Accepts,
        took: (Reading, Reading),
        is_void: bool,
        is_behind: bool,
    ) -> Outcome {
        let is_so = |way: &Started| match way {
            Started::Ready { .. } => false,
            Started::ClockBehind => is_behind,
            Started::WrongOption => !is_behind,
        };
        let may_be = |stored: &Stored| {
            [took.0, took.1].iter().any(|reading| self.starts(stored, options, *reading, accepts).iter().any(is_so))
        };
        let kept: Vec<Stored> = self.disk.iter().filter(|stored| may_be(stored)).cloned().collect();
        if kept.is_empty() {
            let (what, why) =
                (if is_behind { "clock_behind" } else { "wrong option" }, self.why(options, accepts, took));
            return Err(format!("{what}: a start with {options:?}, {accepts:?} at {took:?}: {why}"));
        }
        if !is_void {
            self.disk = kept;
        }
        Ok(())
    }

    /// A start died, or the store failed in it: the store may have the state that the start would have made.
    pub(crate) fn tried_to_start(&mut self, options: Settings, accepts: Accepts, took: (Reading, Reading)) {
        let mut found = Vec::new();
        for stored in &self.disk {
            for reading in once([took.0, took.1]) {
                for started in self.starts(stored, options, reading, accepts) {
                    let Started::Ready { live, .. } = started else { continue };
                    let back = live.lines.goes_back().0.then(|| live.started_as(live.lines.back(), true, options, 0));
                    for way in back.into_iter().flatten().chain(live.started_as(live.lines, false, options, 0)) {
                        found.push(Stored { note: Some(way.lines.note()), world: way.world, at_ms: took.1.boot_ms });
                    }
                }
                // A store written anew has the state before the clock and the settings of this start are accepted.
                let accepts_some = accepts.clock || stored.world.settings != options;
                let before = stored.note.filter(|_| accepts_some).map(|note| Lines::start(note, reading, false));
                for way in before.into_iter().flatten() {
                    let Start::Lines(lines) = way else { continue };
                    let world = Rc::clone(&stored.world);
                    found.push(Stored { note: Some(lines.note()), world, at_ms: took.1.boot_ms });
                }
            }
        }
        self.disk.extend(found);
        self.disk = once(std::mem::take(&mut self.disk));
        self.is_lost |= self.disk.len() > WAYS_MAX;
    }
}
