//! One machine with one service: carries out operations, and compares every answer with the model.

use super::clocks::Clocks;
use super::disk::Faults;
use super::logged;
use super::model::time::{FUZZ_MS, Reading};
use super::model::{Accepts, Answer, Asking, Model, Request, Settings, Sight};
use super::process::{Looks, Process};
use super::seam::SimulatedDisk;
use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use vote_status::readiness::Trouble;
use vote_status::recorder::Tuning;
use vote_status::store::StoreError;

mod chance;
mod judging;
mod lifecycle;
mod works;

use chance::tuning;

pub(crate) const STORE: &str = "votes.redb";
/// The file that only keeps room back: nothing hangs on what it holds.
pub(crate) const RESERVE: &str = "votes.reserve";
pub(crate) const ELSEWHERE: &str = "elsewhere.redb";
/// The first second of each simulation.
pub(crate) const BEGIN_S: i64 = 1_795_000_000;
/// A service on a well disk takes votes again after this long, and what its last try took: its pauses grow, to seconds.
const RECOVERS_MS: i64 = 30_000;
/// And looks at its file so often, in milliseconds, at the latest.
const LOOKS_MS: i64 = 2_000;
/// Where a process died at its work, its store may have to be written anew.
const MENDS_MS: i64 = 10_000;
/// A start on a well disk is done after this long.
const STARTS_MS: i64 = 30_000;
/// A start that waits for something looks again after this long.
const TRIES_AGAIN_MS: i64 = 5_000;
/// A store that is not at its path is told of within this.
const GONE_MS: i64 = 3_000;
/// The time is noted each minute, at a tick.
const NOTED_MS: i64 = 61_000;
/// A step of the clock above this is noted at once.
const STEP_MS: i64 = 1_000;
/// Steps of the recorder in which the whole table is swept.
const SWEPT_STEPS: usize = 140;
/// The table is counted at one tick of so many.
const MEMORY_LOOKS: usize = 32;
/// Steps at one moment in which everything is answered.
const LATER_STEPS_MAX: usize = 100;
/// The file of a store with few votes is not longer, in bytes.
const FILE_BYTES_MAX: usize = 2 << 20;

pub(crate) struct Machine {
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) model: Model,
    pub(crate) process: Option<Process>,
    is_in_memory: bool,
    tuning: Tuning,
    /// How far steps have taken the wall clock from where it was.
    pub(crate) off_ms: i64,
    /// From when on (boot time) everything works, as nothing is wrong with the disk.
    works_from_ms: Option<i64>,
    /// A tick has passed since then: the recorder looks after the store behind the time.
    has_worked: bool,
    /// The longest that a step has taken since the disk was well for long.
    longest_step_ms: i64,
    /// Since when (boot time) the service is ready.
    ready_from_ms: i64,
    /// The process died in the midst of its work, or it was not well then.
    is_mended: bool,
    /// A file that was emptied or replaced in place was not written anew yet, as far as is known.
    is_unproven: bool,
    /// Another file has the store's name.
    is_displaced: bool,
    /// What is kept may be lost by the contract's leave: the simulation is over.
    pub(crate) is_over: bool,
    pub(crate) backup: Option<Backup>,
    /// The tokens that each server has had.
    pub(crate) tokens: Vec<Vec<Arc<str>>>,
    addresses: Vec<IpAddr>,
    looked: usize,
    /// What kills the process in the midst of its work takes the power with it.
    pub(crate) cuts_power: bool,
    /// What clocks and service showed at the end of the last step.
    last: Option<(Reading, i64)>,
    /// The time had to go back in the last step and did not, and nothing said so.
    stays_unsaid: bool,
    /// What the certain line was in the last steps.
    certain_ms: VecDeque<i64>,
    /// What happens is written down where somebody reads it.
    pub(crate) said: Option<Vec<String>>,
    asked_last: Vec<Request>,
    /// Since when the store is not at its path.
    gone_from_ms: Option<i64>,
}

/// A copy of the store, and what it may hold.
pub(crate) struct Backup {
    content: Vec<u8>,
    model: Model,
    /// Something was acknowledged since.
    pub(crate) is_older: bool,
}

type Outcome = Result<(), String>;

/// What the disk has done.
#[derive(Clone, Copy)]
struct Counts {
    writes: u64,
    /// Syncs, and writes of the header: what was written before need not last.
    syncs: u64,
    failed_syncs: u64,
}

impl Machine {
    pub(crate) fn new(seed: u64, settings: Settings, is_in_memory: bool, is_told: bool) -> Machine {
        let clocks = Arc::new(Clocks::at(BEGIN_S * 1_000));
        let disk = SimulatedDisk::new(seed, Arc::clone(&clocks));
        Machine {
            clocks,
            disk,
            model: Model::new(settings),
            process: None,
            is_in_memory,
            tuning: tuning(seed),
            off_ms: 0,
            works_from_ms: None,
            has_worked: false,
            longest_step_ms: 0,
            ready_from_ms: 0,
            is_mended: true,
            is_unproven: false,
            is_displaced: false,
            is_over: false,
            backup: None,
            tokens: vec![Vec::new(); super::operations::SERVERS + 1],
            addresses: addresses(),
            looked: 0,
            cuts_power: false,
            last: None,
            stays_unsaid: false,
            certain_ms: VecDeque::new(),
            said: is_told.then(Vec::new),
            asked_last: Vec::new(),
            gone_from_ms: None,
        }
    }

    pub(crate) fn address(&self, index: usize) -> IpAddr {
        self.addresses[index]
    }

    pub(crate) fn is_told(&self) -> bool {
        self.said.is_some()
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        let reading = self.clocks.reading();
        let (wall_s, boot_s) = (reading.wall_ms as f64 / 1e3 - BEGIN_S as f64, reading.boot_ms as f64 / 1e3);
        if let Some(said) = &mut self.said {
            said.extend(logged::take().into_iter().map(|line| format!("    {line}")));
            said.push(format!("{wall_s:.3} (boot {boot_s:.3}): {}", what()));
        }
    }

    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.disk.locked().faults);
    }

    /// The service's second.
    pub(crate) fn now_s(&self) -> i64 {
        self.process.as_ref().map_or(self.clocks.reading().wall_ms / 1_000, |process| process.reader.now_s())
    }

    // The disk.

    pub(crate) fn is_ready(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.was_ready)
    }

    fn counts(&self) -> Counts {
        let disk = self.disk.locked();
        let (syncs, failed_syncs) = (disk.syncs + disk.failed_syncs + disk.head_writes, disk.failed_syncs);
        Counts { writes: disk.writes, syncs, failed_syncs }
    }

    pub(crate) fn back_up(&mut self) {
        if self.works() && self.is_ready() {
            let content = self.disk.locked().content(STORE);
            let model = self.model.clone();
            self.backup = content.map(|content| Backup { content, model, is_older: false });
        }
    }

    pub(crate) fn backup(&self) -> Option<Vec<u8>> {
        self.backup.as_ref().map(|backup| backup.content.clone())
    }

    // Steps of the recorder.

    /// One step of the recorder with these requests; its answers are compared. A process that dies in it is started again.
    pub(crate) fn step(&mut self, requests: &[Request]) -> Outcome {
        self.look_at_disk();
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        if !process.was_ready {
            let begin = self.clocks.reading();
            process.asks(Vec::new(), false);
            let (before, tries, was_noted) = (self.counts(), process.rest_ms() == 0, self.is_noted());
            self.clocks.take_read_first();
            let stepped = process.step(&[]);
            if !was_noted && self.may_be_forgotten() {
                self.is_over = true;
                return Ok(());
            }
            return self.step_of_start(process, begin, (before, tries), stepped.err());
        }
        self.step_ready(process, requests)?;
        // A listing may wait until an earlier one is taken away.
        for _ in 0..LATER_STEPS_MAX {
            match self.process.take() {
                Some(process) if process.pending().next().is_some() => self.step_ready(process, &[])?,
                process => {
                    self.process = process;
                    return Ok(());
                }
            }
        }
        Err(format!("{requests:?}: not answered"))
    }

    /// What a step of a process that is not ready yet has come to.
    fn step_of_start(
        &mut self,
        mut process: Process,
        begin: Reading,
        (before, tries): (Counts, bool),
        refused: Option<StoreError>,
    ) -> Outcome {
        let (options, accepts) = (process.options, process.accepts);
        let end = self.clocks.reading();
        // The store is opened before the clocks are read, and may be written to behind that.
        let took = (self.clocks.take_read_first().unwrap_or(begin), end);
        let shown_ms = process.reader.shown_ms();
        if self.disk.locked().is_dead() {
            self.say(|| "dies at its start".into());
            self.process = Some(process);
            self.model.tried_to_start(options, accepts, took);
            return self.dies(options, accepts);
        }
        if let Some(error) = refused {
            self.say(|| format!("refused: {error}"));
            let is_void = !self.is_mended;
            return self.model.is_wrong(options, accepts, took, is_void).map_err(|why| format!("{why}: {error}"));
        }
        let trouble = process.trouble();
        let took_ms = end.boot_ms - begin.boot_ms;
        self.longest_step_ms = self.longest_step_ms.max(took_ms);
        // A try that took long is not made again sooner.
        if process.rest_ms() > TRIES_AGAIN_MS + self.longest_step_ms {
            return Err(format!("a start that waits for {trouble:?} goes on in {} ms only", process.rest_ms()));
        }
        let is_there = self.disk.locked().has(STORE) && !self.is_displaced;
        if let Some((Trouble::StoreUnusable, why)) = trouble.as_ref().filter(|_| is_there && tries) {
            return Err(format!("a sound store counts as unusable: {why}"));
        }
        if process.readiness.is_ready() {
            process.was_ready = true;
            if let Some((trouble, why)) = trouble.as_ref().filter(|_| self.works_from_ms.is_some() && self.is_mended) {
                return Err(format!("ready, and the trouble is {trouble:?}: {why}"));
            }
            self.model.is_ready(options, accepts, took, shown_ms, !self.is_mended)?;
            if self.counts().writes > before.writes {
                self.model.wrote(took);
            }
            self.ready_from_ms = took.1.boot_ms;
            let mends_ms = if self.is_mended { 0 } else { MENDS_MS + self.longest_step_ms };
            self.works_from_ms = self.works_from_ms.map(|_| took.1.boot_ms + mends_ms);
            self.has_worked = self.works();
            self.is_mended = true;
            self.last = Some((took.1, shown_ms));
            self.certain_ms.clear();
        } else if let Some((Trouble::ClockBehind, why)) = trouble.as_ref().filter(|_| tries) {
            self.model.is_behind(options, accepts, took).map_err(|what| format!("{what}: {why}"))?;
        } else if self.counts().writes > before.writes {
            // What it could not keep may be stored all the same.
            self.model.tried_to_start(options, accepts, took);
        }
        self.process = Some(process);
        Ok(())
    }

    /// The step of a process that is ready.
    fn step_ready(&mut self, mut process: Process, requests: &[Request]) -> Outcome {
        let begin = self.clocks.reading();
        let is_tick = process.rest_ms() == 0;
        // A commit before the one in which it dies may be made by the lines as they were.
        let may_wait = !self.has_worked || self.disk.locked().faults.kill.is_some();
        let before_ms = process.reader.shown_ms();
        self.may_have_shown(begin, before_ms)?;
        self.model.look(begin, before_ms, may_wait);
        let pending: Vec<Request> = process.pending().chain(requests).cloned().collect();
        // Where the time may go back, clients that asked last go on waiting.
        let may_go_back = self.model.live.iter().any(|live| live.lines.is_apart() || live.lines.goes_back().0);
        if !pending.is_empty() {
            self.asked_last.clone_from(&pending);
        }
        let is_waiting = !pending.is_empty() || may_go_back;
        let asking = if is_waiting { self.sample(&self.asked_last.clone()) } else { Vec::new() };
        process.asks(asking.clone(), is_waiting);
        let sights: Vec<Sight> = asking.iter().map(|asking| process.reader.ask(asking)).collect();
        let was_there = self.disk.locked().has(STORE);
        let before = self.counts();
        let stepped = process.step(requests);
        let (is_dead, end) = (self.disk.locked().is_dead(), self.clocks.reading());
        if !requests.is_empty() || is_dead {
            let now = process.reader.shown_ms() as f64 / 1e3 - BEGIN_S as f64;
            self.say(|| format!("{requests:?} {}: {stepped:?} shows {now:.3}", if is_dead { "dies" } else { "" }));
        }
        let answers = stepped.map_err(|error| format!("a step of a process that was ready: {error}"))?;
        let took = (begin, end);
        let shown_ms = process.reader.shown_ms();
        let looks = process.take_looks();
        let step = Step {
            requests: &pending,
            answers,
            took,
            shown_ms,
            before_ms,
            looks,
            sights,
            before,
            is_dead,
            was_there,
            is_tick,
        };
        if is_dead {
            // Of what was answered nobody knows either.
            let judged = self.died(&process, &step);
            self.process = Some(process);
            judged?;
            return self.dies(self.model.settings, Accepts::default());
        }
        let judged = self.judge(&mut process, step);
        self.process = Some(process);
        judged
    }

    /// Between two steps the time goes on, or stands still.
    fn may_have_shown(&self, reading: Reading, shown_ms: i64) -> Outcome {
        let Some((last, last_ms)) = self.last else { return Ok(()) };
        let most_ms = last_ms + reading.boot_ms - last.boot_ms;
        if (last_ms..=most_ms + FUZZ_MS).contains(&shown_ms) {
            return Ok(());
        }
        Err(format!("the time shown went from {last_ms} to {shown_ms} between {last:?} and {reading:?}"))
    }

    /// What the process had answered before it died is so; of the rest nobody knows.
    fn died(&mut self, process: &Process, step: &Step<'_>) -> Outcome {
        let first = self.model.live.clone();
        let seconds = step.seconds();
        self.model.may_have_gone_back();
        let mut known = first;
        known.extend(self.model.live.iter().cloned());
        let unanswered = process.pending().cloned().map(|request| {
            let answers = vec![Answer::InDoubt; request.parts()];
            (request, answers)
        });
        for (request, answers) in step.answers.iter().cloned().chain(unanswered) {
            for (part, answer) in answers.into_iter().enumerate() {
                let answer = if answer == Answer::Refused { Answer::InDoubt } else { answer };
                self.model.answered(&request, part, &seconds, &answer)?;
            }
            known.extend(self.model.live.iter().cloned());
        }
        self.model.wrote(step.took);
        for (asking, sight) in step.looks.seen.iter().map(|(index, sight, _)| (&step.looks.asking[*index], *sight)) {
            if !step.may_be_midway(asking, sight) && !known.iter().any(|live| live.may_see(asking, sight)) {
                self.model.was_seen(asking, sight);
            }
        }
        Ok(())
    }

    /// The process was killed in the midst of its work: another one is started.
    fn dies(&mut self, options: Settings, accepts: Accepts) -> Outcome {
        self.is_mended = false;
        self.end_abruptly(self.cuts_power);
        self.start(options, accepts)
    }

    /// Asks for everything, as the public service would be asked.
    pub(crate) fn check_all(&mut self) -> Outcome {
        let Some(process) = self.process.as_mut().filter(|process| process.was_ready) else {
            return Ok(());
        };
        let mut seen = Vec::new();
        for server in 1..=super::operations::SERVERS {
            let newest = self.tokens[server].last().cloned();
            let earlier = self.tokens[server].iter().rev().nth(1).cloned();
            let server = u32::try_from(server).expect("few");
            for address in &self.addresses {
                let asking = Asking { server, token: None, address: *address };
                seen.push((asking.clone(), process.reader.ask(&asking)));
            }
            for token in [newest, earlier].into_iter().flatten() {
                let asking = Asking { server, token: Some(token), address: self.addresses[0] };
                seen.push((asking.clone(), process.reader.ask(&asking)));
            }
        }
        self.model.sees(&seen)
    }

    // Time.
}

/// What came of a step.
struct Step<'a> {
    requests: &'a [Request],
    /// What was answered in it, which may have been asked in an earlier one.
    answers: Vec<(Request, Vec<Answer>)>,
    took: (Reading, Reading),
    before_ms: i64,
    shown_ms: i64,
    looks: Looks,
    /// What was seen of all that is asked, before the step.
    sights: Vec<Sight>,
    before: Counts,
    is_dead: bool,
    was_there: bool,
    /// The recorder wanted to be called.
    is_tick: bool,
}

/// Of both families; some stand for one voter, some for one under a shorter prefix.
fn addresses() -> Vec<IpAddr> {
    let text = [
        "203.0.113.7",
        "2001:db8:0:1::1",
        "2001:db8:0:1:ffff::2",
        "2001:db8:0:2::1",
        "198.51.100.1",
        "10.0.0.1",
        "::ffff:203.0.113.7",
        "0.0.0.0",
        "255.255.255.255",
        "2001:db8:0:100::1",
        "2001:db8:1::1",
        "::1",
    ];
    text.iter().map(|text| text.parse().expect("an address")).collect()
}
