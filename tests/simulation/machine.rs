//! One machine with one service: carries out operations, and compares every answer with the model.

use super::clocks::Clocks;
use super::disk::Faults;
use super::model::world::Seen;
use super::model::{Accepts, Answer, Model, Settings, Started};
use super::process::{Asking, Looks, Process, Request};
use super::seam::SimulatedDisk;
use std::net::IpAddr;
use std::sync::Arc;
use vote_status::readiness::Trouble;
use vote_status::store::commit_marker::MARKER_FILE;

pub(crate) const STORE: &str = "votes.redb";
pub(crate) const ELSEWHERE: &str = "elsewhere.redb";
/// The first second of each simulation.
const BEGIN_S: i64 = 1_795_000_000;
/// A service on a well disk takes votes again after this long, and what its last try took: its pauses grow, to seconds.
const RECOVERS_MS: i64 = 60_000;
/// A start on a well disk is done after this long.
const STARTS_MS: i64 = 30_000;

pub(crate) struct Machine {
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) disk: Arc<SimulatedDisk>,
    pub(crate) model: Model,
    pub(crate) process: Option<Process>,
    /// How far steps have taken the wall clock from where it was.
    pub(crate) off_ms: i64,
    /// Since when (boot time) nothing is wrong with the disk.
    well_since_ms: Option<i64>,
    /// The longest that a step has taken since the disk was well for long.
    longest_step_ms: i64,
    /// A file that was emptied or replaced in place was not written anew yet, as far as is known.
    is_unproven: bool,
    /// What is kept may be lost by the contract's leave: the simulation is over.
    pub(crate) is_over: bool,
    pub(crate) backup: Option<Vec<u8>>,
    /// The tokens that each server has had.
    pub(crate) tokens: Vec<Vec<String>>,
    addresses: Vec<IpAddr>,
    looked: usize,
    /// What kills the process in the midst of its work takes the power with it.
    pub(crate) cuts_power: bool,
    /// What happens is written down where somebody reads it.
    pub(crate) said: Option<Vec<String>>,
}

type Outcome = Result<(), String>;

impl Machine {
    pub(crate) fn new(seed: u64, settings: Settings, is_told: bool) -> Machine {
        let clocks = Arc::new(Clocks::at(BEGIN_S * 1_000));
        let disk = SimulatedDisk::new(seed, Arc::clone(&clocks));
        let model = Model::new(settings, clocks.reading());
        Machine {
            clocks,
            disk,
            model,
            process: None,
            off_ms: 0,
            well_since_ms: None,
            longest_step_ms: 0,
            is_unproven: false,
            is_over: false,
            backup: None,
            tokens: vec![Vec::new(); super::operations::SERVERS + 1],
            addresses: addresses(),
            looked: 0,
            cuts_power: false,
            said: is_told.then(Vec::new),
        }
    }

    pub(crate) fn address(&self, index: usize) -> IpAddr {
        self.addresses[index]
    }

    pub(crate) fn say(&mut self, what: impl FnOnce() -> String) {
        let reading = self.clocks.reading();
        let (wall_s, boot_s) = (reading.wall_ms as f64 / 1e3 - BEGIN_S as f64, reading.boot_ms as f64 / 1e3);
        if let Some(said) = &mut self.said {
            said.push(format!("{wall_s:.3} (boot {boot_s:.3}): {}", what()));
        }
    }

    pub(crate) fn faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.disk.locked().faults);
    }

    fn is_disk_well(&self) -> bool {
        let disk = self.disk.locked();
        let faults = disk.faults;
        disk.has(STORE)
            && faults == Faults { kill: faults.kill, sync_takes_ms: faults.sync_takes_ms, ..Faults::default() }
    }

    /// Notes since when the disk is well, and what the model has to know of it.
    fn look_at_disk(&mut self) {
        let boot_ms = self.clocks.reading().boot_ms;
        if self.is_disk_well() {
            self.well_since_ms.get_or_insert(boot_ms);
        } else {
            self.well_since_ms = None;
        }
        let has_recovered = self.has_recovered();
        self.model.time.disk(has_recovered);
        if !has_recovered {
            self.model.ended_rows_may_be_gone();
        }
    }

    /// Whether the disk has been well for so long that everything works.
    fn has_recovered(&self) -> bool {
        let boot_ms = self.clocks.reading().boot_ms;
        self.well_since_ms.is_some_and(|since_ms| boot_ms - since_ms >= RECOVERS_MS + self.longest_step_ms)
    }

    /// Something other than a fault has happened to the disk.
    pub(crate) fn disturb(&mut self, is_destroyed: bool) {
        self.well_since_ms = None;
        self.is_unproven |= is_destroyed;
        self.model.ended_rows_may_be_gone();
    }

    /// Nothing recovers while the process does not run.
    pub(crate) fn sleeps(&mut self) {
        if !self.has_recovered() {
            self.well_since_ms = None;
        }
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.was_ready)
    }

    // Steps of the recorder.

    /// One step of the recorder with these requests; its answers are compared. A process that dies in it is started again.
    pub(crate) fn step(&mut self, requests: &[Request]) -> Outcome {
        self.look_at_disk();
        let Some(mut process) = self.process.take() else {
            return Ok(());
        };
        let reading = self.clocks.reading();
        let may_die = self.disk.locked().faults.kill.is_some();
        let before = may_die.then(|| self.model.clone());
        if process.was_ready {
            self.model.look(reading);
        }
        {
            let mut looks = process.looks.lock().expect("no look panics");
            *looks = Looks { asking: self.sample(requests), ..Looks::default() };
        }
        let requests = if process.was_ready { requests } else { &[] };
        if !requests.is_empty() {
            process.wait_for(&self.sample(requests));
        }
        let was_there = self.disk.locked().has(STORE);
        let answers = process.step(requests);
        let (is_dead, after) = (self.disk.locked().is_dead(), self.clocks.reading());
        if !requests.is_empty() || is_dead {
            self.say(|| format!("{requests:?} {}: {answers:?}", if is_dead { "dies" } else { "" }));
        }
        if !was_there && answers.iter().flatten().flatten().any(is_commit) {
            return Err(format!("{answers:?}: acknowledged, though the store's file is not at its path"));
        }
        let looks = std::mem::take(&mut *process.looks.lock().expect("no look panics"));
        let is_new = !process.was_ready && process.readiness.is_ready() && !is_dead;
        self.model.took_ms = after.boot_ms - reading.boot_ms;
        let before_ms = if self.has_recovered() { 0 } else { self.longest_step_ms };
        self.longest_step_ms = before_ms.max(self.model.took_ms);
        let (options, accepts) = (process.options, process.accepts);
        let trouble = process.trouble();
        process.was_ready |= is_new;
        let is_ready = process.was_ready;
        self.process = Some(process);
        if is_new {
            self.model.may_start(options, reading.wall_ms, accepts, Started::Ready)?;
            self.model.start(options, reading);
            self.model.took_ms = 0;
            self.model.look(after);
            self.well_since_ms = None;
        } else if is_ready {
            let moments = self.compare(requests, &answers.unwrap_or_default(), is_dead)?;
            self.judge(requests, &moments, looks)?;
            self.model.took_ms = 0;
            if after != reading {
                self.model.look(after);
            }
        } else if let Err(error) = answers {
            self.process = None;
            self.say(|| format!("refused: {error}"));
            self.model.may_start(options, reading.wall_ms, accepts, Started::WrongOption)?;
        } else if let Some((Trouble::ClockBehind, why)) = trouble {
            self.model
                .may_start(options, reading.wall_ms, accepts, Started::ClockBehind)
                .map_err(|what| format!("{what}: {why}"))?;
        }
        self.model.took_ms = 0;
        if is_dead {
            before.iter().for_each(|before| self.model.died(before));
            self.end_abruptly(self.cuts_power);
            // One that was not ready may have changed the settings.
            let (options, accepts) =
                if is_ready { (self.model.settings, Accepts::default()) } else { (options, accepts) };
            self.start(options, accepts)?;
        }
        Ok(())
    }

    /// Compares answers with the model. Gives the model as it was before each request.
    fn compare(&mut self, requests: &[Request], answers: &[Vec<Answer>], is_dead: bool) -> Result<Vec<Model>, String> {
        let mut moments = Vec::new();
        let in_doubt = |asked: usize| vec![Answer::InDoubt; asked];
        let mut is_taken = false;
        for (index, request) in requests.iter().enumerate() {
            let asked = if let Request::Votes(asked) = request { asked.len() } else { 1 };
            // Who has died has told nobody anything.
            let answers = if is_dead { in_doubt(asked) } else { answers[index].clone() };
            if answers.len() != asked {
                return Err(format!("{request:?}: answered by {answers:?}"));
            }
            let is_refused = answers.iter().any(|answer| matches!(answer, Answer::Refused | Answer::InDoubt));
            if !is_dead && is_refused && self.has_recovered() {
                return Err(format!("{request:?}: refused, though the disk has been well for a minute"));
            }
            is_taken |= answers.iter().any(is_commit);
            moments.push(self.model.clone());
            match request {
                Request::Votes(asked) => {
                    for (asked, answer) in asked.iter().zip(&answers) {
                        self.model.vote(asked, answer)?;
                    }
                }
                Request::Cancel(server, address) => self.model.cancel(*server, *address, &answers[0])?,
                Request::List(server, token) => self.model.list(*server, token, &answers[0])?,
                Request::Remove(server) => self.model.remove(*server, &answers[0])?,
            }
        }
        self.is_unproven &= !is_taken;
        Ok(moments)
    }

    /// What readers saw while the recorder worked is as it was before a request, or behind the last.
    fn judge(&mut self, requests: &[Request], moments: &[Model], looks: Looks) -> Outcome {
        let Looks { asking, seen, seen_when_told } = looks;
        for (Asking { server, token, address }, seen) in
            seen_when_told.iter().map(|(index, seen)| (&asking[*index], *seen))
        {
            if !self.model.may_see(*server, token.as_deref(), self.model.voter(*address), seen) {
                return Err(format!("{server}, {address}: {seen:?} when a caller had been told of a change"));
            }
        }
        for (asking, seen) in seen.iter().map(|(index, seen)| (&asking[*index], seen)) {
            let (server, by) = (asking.server, asking.token.as_deref());
            let voter = self.model.voter(asking.address);
            // What is in one commit becomes visible in any order; but what goes with a server is gone under a new token.
            let is_removed = requests.contains(&Request::Remove(server));
            let by_then = if *seen == Seen::CanVote || !is_removed { None } else { by };
            let was_so = |model: &Model| [by, by_then].iter().any(|by| model.may_see(server, *by, voter, *seen));
            if moments.iter().any(was_so) {
                continue;
            }
            if !self.model.may_see(server, by, voter, *seen) {
                return Err(format!("a reader beside the recorder saw {seen:?} for {asking:?}, which was never so"));
            }
            if !moments.is_empty() {
                self.model.see_for_good(server, by, voter, *seen);
            }
        }
        Ok(())
    }

    /// What readers ask while the recorder works: all that the requests are about, and something else.
    fn sample(&mut self, requests: &[Request]) -> Vec<Asking> {
        let mut asking = Vec::new();
        for request in requests {
            let votes: Vec<(u32, IpAddr)> = match request {
                Request::Votes(asked) => {
                    let each =
                        asked.iter().flat_map(|asked| asked.addresses.iter().map(|address| (asked.server, *address)));
                    each.collect()
                }
                Request::Cancel(server, address) => vec![(*server, *address)],
                Request::List(server, token) => {
                    let by_token =
                        |address: &IpAddr| Asking { server: *server, token: Some(token.clone()), address: *address };
                    asking.extend(self.addresses.iter().map(by_token));
                    Vec::new()
                }
                Request::Remove(server) => self.addresses.iter().map(|address| (*server, *address)).collect(),
            };
            asking.extend(votes.into_iter().map(|(server, address)| Asking { server, token: None, address }));
        }
        self.looked += 1;
        let server = u32::try_from(1 + self.looked % super::operations::SERVERS).expect("few");
        let address = self.addresses[self.looked % self.addresses.len()];
        asking.push(Asking { server, token: None, address });
        asking
    }

    /// Asks for everything, as the public service would be asked.
    pub(crate) fn check_all(&mut self) -> Outcome {
        let Some(mut process) = self.process.take().filter(|process| process.was_ready) else {
            return Ok(());
        };
        let checked = self.check_with(&mut process);
        self.process = Some(process);
        checked
    }

    fn check_with(&mut self, process: &mut Process) -> Outcome {
        let (now, allowed) = (process.reader.now(), self.model.now());
        if !allowed.contains(now) {
            return Err(format!("the service's time is {now}, allowed is {allowed:?}"));
        }
        for server in 1..=super::operations::SERVERS {
            let id = u32::try_from(server).expect("few");
            let newest = self.tokens[server].last().cloned();
            for by in [None, newest] {
                for address in self.addresses.clone() {
                    let asking = Asking { server: id, token: by.clone(), address };
                    let seen = process.reader.ask(&asking);
                    self.model.see(id, by.as_deref(), self.model.voter(address), seen)?;
                }
            }
        }
        Ok(())
    }

    // Time.

    /// Time passes, and the recorder is called as it wants; for a long time less often.
    pub(crate) fn pass(&mut self, ms: i64) -> Outcome {
        let (stride_ms, mut left_ms) = ((ms / 25).min(30_000), ms);
        while left_ms > 0 {
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
        // A store that somebody has moved away meanwhile is not where a power cut leaves it.
        self.is_over |= cuts_power && !self.disk.locked().has(STORE);
        self.disk.locked().die();
        self.process = None;
        self.is_over |= self.is_unproven;
        let mut disk = self.disk.locked();
        if cuts_power { disk.cut_power() } else { disk.kill() }
    }

    /// A stop in order.
    pub(crate) fn stop(&mut self) {
        let is_ready = self.is_ready();
        if let Some(process) = self.process.take() {
            if is_ready {
                self.model.look(self.clocks.reading());
            }
            process.close();
            if is_ready {
                self.model.look(self.clocks.reading());
            }
        }
        self.is_over |= self.is_unproven;
        let is_dead = self.disk.locked().is_dead();
        self.disk.locked().kill();
        if is_dead && self.cuts_power {
            // See `Machine::end_abruptly`.
            self.is_over |= !self.disk.locked().has(STORE);
            self.disk.locked().cut_power();
        }
    }

    /// Whether the number of the last commit and its complement are beside the store.
    fn is_noted(&self) -> bool {
        let note = self.disk.locked().content(MARKER_FILE).unwrap_or_default();
        note.get(..16).is_some_and(|note| (0..8).all(|at| note[at] == !note[at + 8]))
    }

    /// A start; waits until the service is ready, or says what is in the way.
    pub(crate) fn start(&mut self, options: Settings, accepts: Accepts) -> Outcome {
        // A store that was moved away is known to be missing by the note of its last commit, which need not outlast a power
        // cut.
        self.is_over |= self.disk.locked().has(ELSEWHERE) && !self.is_noted();
        if self.is_over {
            return Ok(());
        }
        self.say(|| format!("a start with {options:?} {accepts:?}"));
        self.process = Some(Process::new(&self.disk, &self.clocks, options, accepts));
        let from_ms = self.clocks.reading().boot_ms;
        while self.process.is_some() && !self.is_ready() && self.clocks.reading().boot_ms - from_ms < STARTS_MS {
            self.step(&[])?;
            let rest_ms = self.process.as_ref().map_or(0, Process::rest_ms);
            if !self.is_ready() {
                self.clocks.pass(rest_ms.max(1));
            }
        }
        let trouble = self.process.as_ref().and_then(Process::trouble);
        let is_ready = self.is_ready();
        self.say(|| format!("ready: {is_ready}, trouble: {trouble:?}"));
        let is_waiting = matches!(trouble, Some((Trouble::ClockBehind, _)));
        let is_well_since = self.well_since_ms.is_some_and(|since_ms| since_ms <= from_ms);
        if self.process.is_some() && !self.is_ready() && !is_waiting && is_well_since {
            return Err(format!("no start on a well disk: {trouble:?}"));
        }
        Ok(())
    }
}

fn is_commit(answer: &Answer) -> bool {
    matches!(answer, Answer::Recorded { .. } | Answer::Cancelled | Answer::Listed { .. } | Answer::Removed)
}

/// Of both families; some stand for one voter, some for one under a shorter prefix.
fn addresses() -> Vec<IpAddr> {
    let text = [
        "203.0.113.7",
        "198.51.100.1",
        "10.0.0.1",
        "::ffff:203.0.113.7",
        "0.0.0.0",
        "255.255.255.255",
        "2001:db8:0:1::1",
        "2001:db8:0:1:ffff::2",
        "2001:db8:0:2::1",
        "2001:db8:0:100::1",
        "2001:db8:1::1",
        "::1",
    ];
    text.iter().map(|text| text.parse().expect("an address")).collect()
}
