//! One machine with one service. Carries out operations, and compares every answer with the model.

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
/// The file that only keeps room back: its content does not matter.
pub(crate) const RESERVE: &str = "votes.reserve";
pub(crate) const ELSEWHERE: &str = "elsewhere.redb";
/// The first second of each simulation.
pub(crate) const BEGIN_S: i64 = 1_795_000_000;
/// On a well disk the service takes votes again within this, plus the time of its longest step: its pauses grow to seconds.
const RECOVERS_MS: i64 = 30_000;
/// The longest pause between two looks of the service at its file, in milliseconds.
const LOOKS_MS: i64 = 2_000;
/// Time to write the store anew, where the process before died at its work.
const MENDS_MS: i64 = 10_000;
/// The longest start on a well disk.
const STARTS_MS: i64 = 30_000;
/// The longest pause between two tries of a start that waits.
const TRIES_AGAIN_MS: i64 = 5_000;
/// The service reports within this that its store is not at its path.
const GONE_MS: i64 = 3_000;
/// The longest pause between two notes: a minute, and a tick.
const NOTED_MS: i64 = 61_000;
/// The service notes a larger step of the clock at once.
const STEP_MS: i64 = 1_000;
/// Ticks in which the recorder sweeps the whole table.
const SWEPT_STEPS: usize = 140;
/// The check counts the table at one tick of this many.
const MEMORY_LOOKS: usize = 32;
/// The most steps at one moment until every request is answered.
const LATER_STEPS_MAX: usize = 100;
/// The longest file of a store with few votes, in bytes.
const FILE_BYTES_MAX: usize = 2 << 20;

pub(crate) struct Machine {
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) model: Model,
    pub(crate) process: Option<Process>,
    is_in_memory: bool,
    tuning: Tuning,
    /// How far steps have moved the wall clock, in total.
    pub(crate) off_ms: i64,
    /// From when on (boot time) everything has to work, as the disk is well; None where it is not.
    works_from_ms: Option<i64>,
    /// A tick has passed since then. The recorder looks at the store after the time.
    has_worked: bool,
    /// The longest that a step has taken since the disk was well for long.
    longest_step_ms: i64,
    /// Since when (boot time) the service is ready.
    ready_from_ms: i64,
    /// False where the process died at its work, or ended while not everything worked.
    is_mended: bool,
    /// A file that was emptied or replaced in place may not have been written anew yet.
    is_unproven: bool,
    /// Another file has the store's name.
    is_displaced: bool,
    /// The contract allows the loss of stored votes from here on, so the simulation ends.
    pub(crate) is_over: bool,
    pub(crate) backup: Option<Backup>,
    /// The tokens that each server has had.
    pub(crate) tokens: Vec<Vec<Arc<str>>>,
    addresses: Vec<IpAddr>,
    looked: usize,
    /// A kill at the process's work cuts the power too.
    pub(crate) cuts_power: bool,
    /// The clocks and the time shown at the end of the last step.
    last: Option<(Reading, i64)>,
    /// The time had to go back in the last step and did not, and nothing said so.
    stays_unsaid: bool,
    /// The certain line in the last ticks, oldest first.
    certain_ms: VecDeque<i64>,
    /// The account of the simulation, where it is to be told.
    pub(crate) said: Option<Vec<String>>,
    asked_last: Vec<Request>,
    /// Since when the store is not at its path.
    gone_from_ms: Option<i64>,
}

/// A copy of the store, and the model of what the copy holds.
pub(crate) struct Backup {
    content: Vec<u8>,
    model: Model,
    /// Something was acknowledged since.
    pub(crate) is_older: bool,
}

type Outcome = Result<(), String>;

/// Counters of the disk.
#[derive(Clone, Copy)]
struct Counts {
    writes: u64,
    /// Syncs, failed ones included, and writes of the header. Writes before them may be lost.
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

    /// One step of the recorder with these requests. Compares the answers, and starts a process that died in the step again.
    pub(crate) fn step(&mut self, requests: &[Request]) -> Outcome {
        self.steps(requests, &[])
    }

    /// The same, and another step with the `later` requests, and as many as it takes to answer all.
    pub(crate) fn steps(&mut self, requests: &[Request], mut later: &[Request]) -> Outcome {
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
        // A listing may wait for the removal of an earlier one.
        for _ in 0..LATER_STEPS_MAX {
            match self.process.take() {
                Some(process) if process.was_ready && (process.pending().next().is_some() || !later.is_empty()) => {
                    self.step_ready(process, std::mem::take(&mut later))?;
                }
                process => {
                    self.process = process;
                    return Ok(());
                }
            }
        }
        Err(format!("{requests:?}: not answered"))
    }

    /// Judges a step of a process that is not ready yet.
    fn step_of_start(
        &mut self,
        mut process: Process,
        begin: Reading,
        (before, tries): (Counts, bool),
        refused: Option<StoreError>,
    ) -> Outcome {
        let (options, accepts) = (process.options, process.accepts);
        let end = self.clocks.reading();
        // A start opens the store before it reads the clocks, and may write to it afterwards.
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
            return self
                .model
                .did_not_start(options, accepts, took, is_void, false)
                .map_err(|why| format!("{why}: {error}"));
        }
        let trouble = process.trouble();
        let took_ms = end.boot_ms - begin.boot_ms;
        self.longest_step_ms = self.longest_step_ms.max(took_ms);
        // A try that took long may delay the next one as long.
        if process.rest_ms() > TRIES_AGAIN_MS + self.longest_step_ms {
            return Err(format!("a start that waits for {trouble:?} goes on in {} ms only", process.rest_ms()));
        }
        let is_there = self.disk.locked().has(STORE) && !self.is_displaced;
        if let Some((Trouble::StoreUnusable, why)) = trouble.as_ref().filter(|_| is_there && tries) {
            if self.disk.locked().may_lack_mark() {
                self.is_over = true;
                return Ok(());
            }
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
            self.model
                .did_not_start(options, accepts, took, !self.is_mended, true)
                .map_err(|what| format!("{what}: {why}"))?;
        } else if self.counts().writes > before.writes {
            // Changes of a start that failed may be stored all the same. A file in which a sync has failed is void.
            self.model.tried_to_start(options, accepts, took);
            self.is_mended &= self.counts().failed_syncs == before.failed_syncs;
        }
        self.process = Some(process);
        Ok(())
    }

    /// Makes a step of a ready process, and judges it.
    fn step_ready(&mut self, mut process: Process, requests: &[Request]) -> Outcome {
        let begin = self.clocks.reading();
        let is_tick = process.rest_ms() == 0;
        // A commit before the fatal one may be made with the lines as they were.
        let may_wait = !self.has_worked || self.disk.locked().faults.kill.is_some();
        let before_ms = process.reader.shown_ms();
        self.may_have_shown(begin, before_ms)?;
        self.model.look(begin, before_ms, may_wait);
        let pending: Vec<Request> = process.pending().chain(requests).cloned().collect();
        // Where the time may go back, the clients of the last requests go on waiting.
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
            let judged = self.died(&process, &step);
            self.process = Some(process);
            judged?;
            return self.dies(self.model.settings, Accepts::default());
        }
        let judged = self.judge(&mut process, step);
        self.process = Some(process);
        judged
    }

    /// Between two steps the time shown goes on or stands still.
    fn may_have_shown(&self, reading: Reading, shown_ms: i64) -> Outcome {
        let Some((last, last_ms)) = self.last else { return Ok(()) };
        let most_ms = last_ms + reading.boot_ms - last.boot_ms;
        if (last_ms..=most_ms + FUZZ_MS).contains(&shown_ms) {
            return Ok(());
        }
        Err(format!("the time shown went from {last_ms} to {shown_ms} between {last:?} and {reading:?}"))
    }

    /// Judges a step in which the process died: its answers hold, but refusals and the rest are in doubt.
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

    /// The process was killed at its work: starts another one.
    fn dies(&mut self, options: Settings, accepts: Accepts) -> Outcome {
        self.is_mended = false;
        self.end_abruptly(self.cuts_power);
        self.start(options, accepts)
    }

    /// Asks for every pair, and by the last two tokens, as clients of the public service do.
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

/// The outcome of a step.
struct Step<'a> {
    requests: &'a [Request],
    /// The answers of this step, some of them to requests of earlier steps.
    answers: Vec<(Request, Vec<Answer>)>,
    took: (Reading, Reading),
    before_ms: i64,
    shown_ms: i64,
    looks: Looks,
    /// The readers' answers before the step.
    sights: Vec<Sight>,
    before: Counts,
    is_dead: bool,
    was_there: bool,
    /// The recorder's pause was over.
    is_tick: bool,
}

/// Addresses of both families. Some are one voter, some only under a shorter prefix.
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
