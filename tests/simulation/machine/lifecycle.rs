//! Starts, stops and kills of the service, and the swaps of its files meanwhile.

use super::{ELSEWHERE, Machine, Outcome, STARTS_MS, STORE, SWEPT_STEPS};
use crate::simulation::model::time::FUZZ_MS;
use crate::simulation::model::{Accepts, Model, Settings};
use crate::simulation::process::{Process, opens};
use crate::simulation::seam::SimulatedDisk;
use std::sync::Arc;
use vote_status::readiness::Trouble;
use vote_status::store::commit_marker::MARKER_FILE;
use vote_status::store::{Event, StoreError, StoredVote};
use vote_status::vote::time::UnixSeconds;

impl Machine {
    /// Lets time pass, and calls the recorder when it wants to be called; less often in a long time.
    pub(crate) fn pass(&mut self, ms: i64) -> Outcome {
        let (stride_ms, mut left_ms) = ((ms / 25).min(30_000), ms);
        while left_ms > 0 && !self.model.is_lost {
            let rest_ms = self.process.as_ref().map_or(1_000, Process::rest_ms);
            let passed_ms = rest_ms.max(stride_ms).clamp(1, left_ms);
            self.clocks.pass(passed_ms);
            left_ms -= passed_ms;
            self.step(&[])?;
        }
        Ok(())
    }

    // Ends and starts.

    /// A kill, or a power cut.
    pub(crate) fn end_abruptly(&mut self, cuts_power: bool) {
        self.put_back();
        // A power cut does not bring back a store that was moved away, so the simulation ends.
        self.is_over |= cuts_power && !self.disk.locked().has(STORE) && !self.is_in_memory;
        self.disk.locked().die();
        self.is_mended &= self.works();
        self.process = None;
        self.ended();
        let mut disk = self.disk.locked();
        if cuts_power { disk.cut_power() } else { disk.kill() }
    }

    /// A stop in order.
    pub(crate) fn stop(&mut self) -> Outcome {
        self.put_back();
        self.is_mended &= self.works();
        let is_ready = self.is_ready();
        if let Some(process) = self.process.take() {
            let begin = self.clocks.reading();
            let (before, shown_ms) = (self.counts(), process.reader.shown_ms());
            if is_ready {
                self.model.look(begin, shown_ms, true);
            }
            process.close();
            if is_ready && self.counts().writes > before.writes {
                let took = (begin, self.clocks.reading());
                if !self.works() {
                    self.model.tried_to_go_back(took.1.boot_ms);
                }
                self.model.wrote(took);
            }
        }
        let is_dead = self.disk.locked().is_dead();
        let judged = if is_ready && !is_dead { self.judge_rows() } else { Ok(()) };
        self.ended();
        self.is_mended &= !is_dead;
        self.disk.locked().kill();
        if is_dead && self.cuts_power {
            // See `Machine::end_abruptly`.
            self.is_over |= !self.disk.locked().has(STORE);
            self.disk.locked().cut_power();
        }
        judged
    }

    /// Votes that ended long ago have left the file. One that ended lately may still be there.
    fn judge_rows(&self) -> Outcome {
        let ended_by_ms = self.certain_ms.front().filter(|_| self.certain_ms.len() >= SWEPT_STEPS);
        let Some(ended_by_ms) = ended_by_ms.filter(|_| self.works() && !self.is_in_memory) else { return Ok(()) };
        let mut copy = self.disk.locked().clone();
        copy.kill();
        let opened = opens(&SimulatedDisk::holding(copy, Arc::clone(&self.clocks)))();
        let mut rows = Vec::new();
        let read = opened.and_then(|mut store| store.replay(UnixSeconds(0), &mut |event| rows.extend(vote_of(event))));
        read.map_err(|error| format!("behind a stop: {error}"))?;
        let ends_ms = |vote: &StoredVote| (i64::from(vote.voted_at.0) + self.model.settings.cooldown_s) * 1_000;
        let not_ended_by = |ms: i64| rows.iter().filter(move |vote| ends_ms(vote) > ms);
        let old = rows.len() - not_ended_by(*ended_by_ms - FUZZ_MS).count();
        if old > 0 {
            return Err(format!("the file has {old} votes that ended long ago"));
        }
        // A row that ended lately may be of a pair whose next vote is there too, or was cancelled.
        let now_ms = self.model.latest_certain_ms();
        let (live, most) = (not_ended_by(now_ms).count(), self.model.held_max(now_ms));
        if live > most {
            return Err(format!("the file has {live} votes, and {most} have not ended"));
        }
        Ok(())
    }

    pub(super) fn ended(&mut self) {
        self.model.ends();
        self.last = None;
        self.is_over |= self.is_unproven;
        if self.is_in_memory {
            self.model = Model::new(self.model.settings);
        }
    }

    /// The operator puts the store back over another file at its path, before anything else.
    pub(crate) fn put_back(&mut self) {
        if self.is_displaced {
            self.disk.locked().move_away(ELSEWHERE, STORE);
            self.displace(false);
        }
    }

    /// Whether the number of the last commit and its complement are beside the store.
    pub(super) fn is_noted(&self) -> bool {
        let note = self.disk.locked().content(MARKER_FILE).unwrap_or_default();
        note.get(..16).is_some_and(|note| (0..8).all(|at| note[at] == !note[at + 8]))
    }

    /// Whether the store was moved away and no note tells of it. A note that this start has made for an empty store says
    /// nothing of the other.
    pub(super) fn may_be_forgotten(&self) -> bool {
        let has = |name| self.disk.locked().has(name);
        has(ELSEWHERE) && (has(STORE) || !self.is_noted())
    }

    /// Starts the service, and waits until it is ready or reports a trouble.
    pub(crate) fn start(&mut self, options: Settings, accepts: Accepts) -> Outcome {
        // Only the note of its last commit tells that a store was moved away. A power cut may lose that note.
        self.is_over |= self.disk.locked().has(ELSEWHERE) && !self.is_noted();
        if self.is_over {
            return Ok(());
        }
        // No process starts in no time. After a step of the clock the moment of its reading matters, and the contract names none.
        self.clocks.pass(2);
        if self.clocks.has_stepped() {
            self.faults(|faults| faults.sync_takes_ms = 0);
        }
        self.say(|| format!("a start with {options:?} {accepts:?}"));
        self.process =
            Some(Process::new(&self.disk, &self.clocks, options, accepts, self.tuning.clone(), self.is_in_memory));
        let from_ms = self.clocks.reading().boot_ms;
        let mut is_well = self.is_in_memory || self.is_disk_well();
        while self.process.is_some() && !self.is_ready() && self.clocks.reading().boot_ms - from_ms < STARTS_MS {
            self.step(&[])?;
            let rest_ms = self.process.as_ref().map_or(0, Process::rest_ms);
            if !self.is_ready() {
                self.clocks.pass(rest_ms.max(50));
            }
        }
        is_well &= self.is_in_memory || self.is_disk_well();
        let trouble = self.process.as_ref().and_then(Process::trouble);
        let is_ready = self.is_ready();
        self.say(|| format!("ready: {is_ready}, trouble: {trouble:?}"));
        let is_waiting = matches!(trouble, Some((Trouble::ClockBehind, _)));
        if self.process.is_some() && !is_ready && !is_waiting && is_well {
            return Err(format!("no start on a well disk: {trouble:?}"));
        }
        if self.process.is_some() && !is_ready && trouble.is_none() {
            return Err("it is not ready, and nothing says why".into());
        }
        Ok(())
    }

    // The files of a stopped process.

    /// Whether everything works, so that the outcome of a swap is certain.
    pub(crate) fn can_be_swapped(&self) -> bool {
        self.works() && !self.is_in_memory && !self.is_unproven && self.disk.locked().faults.kill.is_none()
    }

    /// Starts the service, requires that it reports the store as unusable, and stops it again.
    pub(crate) fn is_refused(&mut self, what: &str, words: &[Trouble]) -> Outcome {
        self.process = Some(Process::new(
            &self.disk,
            &self.clocks,
            self.model.settings,
            Accepts::default(),
            self.tuning.clone(),
            false,
        ));
        let begin_ms = self.clocks.reading().boot_ms;
        while self.clocks.reading().boot_ms - begin_ms < 2_000 {
            let mut process = self.process.take().expect("it was started");
            let stepped = process.step(&[]);
            let (is_ready, trouble) = (process.readiness.is_ready(), process.trouble().map(|(trouble, _)| trouble));
            let rest_ms = process.rest_ms();
            self.process = Some(process);
            let is_told = stepped.is_err() || trouble.is_some_and(|trouble| words.contains(&trouble));
            if is_ready || !is_told {
                return Err(format!("{what}: ready {is_ready}, {trouble:?}, {:?}", stepped.err()));
            }
            self.clocks.pass(rest_ms.max(200));
        }
        self.process = None;
        self.disk.locked().kill();
        Ok(())
    }

    /// The older copy replaces the store; gives the newer one.
    pub(crate) fn restore(&mut self) -> Option<Vec<u8>> {
        let backup = self.backup.as_ref()?;
        let mut disk = self.disk.locked();
        let newer = disk.content(STORE)?;
        disk.replace(STORE, &backup.content);
        Some(newer)
    }

    /// Takes the model back to the state of the copy.
    pub(crate) fn is_restored(&mut self) {
        if let Some(backup) = &self.backup {
            self.model.replaced_by(&backup.model);
        }
    }

    /// A second process is refused the store.
    pub(crate) fn second_process(&mut self) -> Outcome {
        if !self.works() || !self.is_ready() || self.is_in_memory || self.disk.locked().faults.kill.is_some() {
            return Ok(());
        }
        match opens(&self.disk)() {
            Err(StoreError::InUse(_)) => Ok(()),
            Err(error) => Err(format!("a second process: {error:?}")),
            Ok(_) => Err("a second process opens the store".into()),
        }
    }
}

fn vote_of(event: Event) -> Option<StoredVote> {
    match event {
        Event::Vote(vote) => Some(vote),
        _ => None,
    }
}
