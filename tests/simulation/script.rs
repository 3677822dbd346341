//! Carries out a list of operations, and cuts a failing list down to the operations that the failure needs.

use super::logged;
use super::machine::{ELSEWHERE, Machine, STORE};
use super::model::{Accepts, Asked, Listed, Named as ModelNamed, Request, Settings};
use super::operations::{Ask, Ballot, End, Named, Operation, Swap, Trouble, When, draw};
use crate::util::random::Random;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use vote_status::readiness::Trouble as Told;
use vote_status::store::commit_marker::MARKER_FILE;

/// The fewest operations of a seed.
const OPERATIONS: usize = 60;
/// The most tries at cutting a case down.
const CUTS_MAX: usize = 250;
/// Failures are of one kind if the first letters of their texts, this many, are the same.
const KIND_CHARS: usize = 28;
/// In a wait longer than twice this, the process runs only for the last part, of this length.
const AWAKE_MAX_MS: i64 = 10_000;

/// A breach of the contract that a seed has shown.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) at: usize,
    pub(crate) what: String,
}

impl Finding {
    /// Findings of one kind have one cause, as far as their texts tell.
    pub(crate) fn kind(&self) -> String {
        let letters = self.what.chars().filter(|c| !c.is_ascii_digit() && *c != '-' && *c != ' ');
        letters.take(KIND_CHARS).collect()
    }
}

/// A seed's settings and operations.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) seed: u64,
    pub(crate) settings: Settings,
    pub(crate) is_in_memory: bool,
    pub(crate) operations: Vec<Operation>,
}

/// Draws the case of a seed.
pub(crate) fn case(seed: u64) -> Case {
    let mut random = Random::seeded(seed);
    let cooldown_s = *random.pick(&[5_400, 5_400, 300, 60, 600, 86_400]);
    let settings = Settings { cooldown_s, prefix: *random.pick(&[64, 64, 56]) };
    let is_in_memory = random.below(25) == 0;
    Case { seed, settings, is_in_memory, operations: draw(&mut random, OPERATIONS) }
}

/// Carries out the operations of a case.
pub(crate) fn run(case: &Case) -> Result<(), Finding> {
    run_with(&mut Machine::new(case.seed, case.settings, case.is_in_memory, false), case)
}

/// Carries them out once more, and gives an account of everything that happens.
pub(crate) fn tell(case: &Case) -> (Result<(), Finding>, Vec<String>) {
    logged::keep();
    let mut machine = Machine::new(case.seed, case.settings, case.is_in_memory, true);
    let done = run_with(&mut machine, case);
    let (writes, syncs, digest) = machine.disk.locked().fingerprint();
    machine.say(|| format!("the end: {writes} writes and {syncs} syncs left the disk as {digest:x}"));
    logged::drop_all();
    (done, machine.said.unwrap_or_default())
}

fn run_with(machine: &mut Machine, case: &Case) -> Result<(), Finding> {
    let mut at = 0;
    let all = AssertUnwindSafe(|| run_on(machine, &mut at, case));
    let done = catch_unwind(all).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("a panic: {:?}", text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))))
    });
    done.map_err(|what| Finding { at, what })
}

fn run_on(machine: &mut Machine, at: &mut usize, case: &Case) -> Result<(), String> {
    machine.start(case.settings, Accepts::default())?;
    if !machine.is_ready() {
        return Err("no start on a new disk without a fault".into());
    }
    for (number, operation) in case.operations.iter().enumerate() {
        *at = number;
        machine.say(|| format!("#{number} {operation:?}"));
        let done = carry_out(machine, operation);
        // A model that has given up knows too little to judge even this operation.
        if machine.model.is_lost {
            break;
        }
        done?;
        if machine.is_over {
            break;
        }
        if machine.is_told() {
            let live = machine.model.live.clone();
            machine.say(|| {
                let lines = live.iter().map(|live| format!("{:?}", live.lines));
                format!("{} ways: {}", live.len(), lines.take(3).collect::<Vec<_>>().join(" "))
            });
        }
        machine.check_all()?;
    }
    Ok(())
}

/// Leaves out operations that the failure does not need, and then parts of each remaining one.
pub(crate) fn shrink(case: &Case) -> Case {
    let Err(first) = run(case) else {
        return case.clone();
    };
    let mut needed = case.clone();
    needed.operations.truncate(first.at + 1);
    let mut tries = 0;
    let mut attempt = |needed: &mut Case, operations: Vec<Operation>| {
        tries += 1;
        let fewer = Case { operations, ..needed.clone() };
        match run(&fewer) {
            Err(finding) if tries < CUTS_MAX && finding.kind() == first.kind() => {
                *needed = fewer;
                needed.operations.truncate(finding.at + 1);
                true
            }
            _ => false,
        }
    };
    let mut size = needed.operations.len().div_ceil(2);
    while size > 0 {
        let (mut from, before) = (0, needed.operations.len());
        while from < needed.operations.len() {
            let mut fewer = needed.operations.clone();
            fewer.drain(from..(from + size).min(fewer.len()));
            if !attempt(&mut needed, fewer) {
                from += size;
            }
        }
        if size > 1 || needed.operations.len() == before {
            size /= 2;
        }
    }
    let mut at = 0;
    while at < needed.operations.len() {
        let smaller = smaller(&needed.operations[at]);
        let is_smaller = smaller.into_iter().any(|one| {
            let mut operations = needed.operations.clone();
            operations[at] = one;
            attempt(&mut needed, operations)
        });
        at += usize::from(!is_smaller);
    }
    needed
}

/// The same operation with one part less.
fn smaller(operation: &Operation) -> Vec<Operation> {
    fn without<T: Clone>(all: &[T]) -> impl Iterator<Item = Vec<T>> {
        let one_less = |index| {
            let mut fewer = all.to_vec();
            fewer.remove(index);
            fewer
        };
        (0..all.len()).filter(|_| all.len() > 1).map(one_less)
    }
    match operation {
        Operation::Ask(asks) => {
            let mut all: Vec<Operation> = without(asks).map(Operation::Ask).collect();
            for (index, ask) in asks.iter().enumerate() {
                let with = |ask: Ask| {
                    let mut asks = asks.clone();
                    asks[index] = ask;
                    Operation::Ask(asks)
                };
                match ask {
                    Ask::Votes { ballots, is_record } => {
                        all.extend(without(ballots).map(|ballots| with(Ask::Votes { ballots, is_record: *is_record })));
                        for (at, ballot) in ballots.iter().enumerate() {
                            all.extend(without(&ballot.addresses).map(|addresses| {
                                let mut ballots = ballots.clone();
                                ballots[at].addresses = addresses;
                                with(Ask::Votes { ballots, is_record: *is_record })
                            }));
                        }
                    }
                    Ask::List { servers, keeps } => {
                        all.extend(without(servers).map(|servers| with(Ask::List { servers, keeps: *keeps })));
                    }
                    _ => {}
                }
            }
            all
        }
        Operation::Flip { server, address, rounds } if *rounds > 1 => {
            vec![Operation::Flip { server: *server, address: *address, rounds: rounds - 1 }]
        }
        Operation::Strikes(strikes) => without(strikes).map(Operation::Strikes).collect(),
        _ => Vec::new(),
    }
}

fn carry_out(machine: &mut Machine, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Ask(asks) => {
            let asked = requests(machine, asks);
            ask_all(machine, &asked, &[])
        }
        Operation::AskTwice(asks, later) => {
            let [asked, later] = [asks, later].map(|asks| requests(machine, asks));
            ask_all(machine, &asked, &later)
        }
        Operation::Flip { server, address, rounds } => flip(machine, *server, *address, *rounds),
        Operation::Pass { ms } => machine.pass(*ms),
        Operation::Pause { ms } => pause(machine, *ms),
        Operation::ToEnd { server, address, off_ms } => to_end(machine, *server, *address, *off_ms),
        Operation::ToTaken { off_ms } => {
            let left_ms = machine.model.left_ms(machine.clocks.reading());
            left_ms.map_or(Ok(()), |left_ms| wait(machine, left_ms + off_ms))
        }
        Operation::Step { ms } => step(machine, *ms),
        Operation::ComeBack => step(machine, -machine.off_ms),
        Operation::Drift { ppm } => {
            machine.clocks.drift(*ppm);
            Ok(())
        }
        Operation::Restart { end, off_ms, step_ms, accepts_clock } => {
            match end {
                End::Stop => machine.stop()?,
                End::Kill => machine.end_abruptly(false),
                End::PowerCut => machine.end_abruptly(true),
            }
            machine.clocks.pass(*off_ms);
            machine.clocks.step(*step_ms);
            machine.off_ms += step_ms;
            let accepts = Accepts { clock: *accepts_clock, settings: false };
            machine.start(machine.model.settings, accepts)
        }
        Operation::OtherOptions { cooldown_s, prefix, accepts, accepts_clock, off_ms } => {
            let kept = machine.model.settings;
            let options =
                Settings { cooldown_s: cooldown_s.unwrap_or(kept.cooldown_s), prefix: prefix.unwrap_or(kept.prefix) };
            other_options(machine, options, Accepts { clock: *accepts_clock, settings: *accepts }, *off_ms)
        }
        Operation::Kill { kill, cuts_power } => {
            machine.cuts_power = *cuts_power;
            machine.faults(|faults| faults.kill = Some(*kill));
            Ok(())
        }
        Operation::Disk(trouble) => disk(machine, *trouble),
        Operation::Strikes(strikes) => {
            machine.disk.locked().strikes.extend(strikes.iter().copied());
            Ok(())
        }
        Operation::Swap(swap) => swap_files(machine, *swap),
        Operation::SecondProcess => machine.second_process(),
    }
}

fn requests(machine: &mut Machine, asks: &[Ask]) -> Vec<Request> {
    asks.iter().map(|ask| request(machine, ask)).collect()
}

/// Asks a ready service, and `later` in the step behind.
fn ask_all(machine: &mut Machine, requests: &[Request], later: &[Request]) -> Result<(), String> {
    if machine.is_ready() { machine.steps(requests, later) } else { Ok(()) }
}

fn flip(machine: &mut Machine, server: usize, address: usize, rounds: usize) -> Result<(), String> {
    let (id, address) = (id(server), machine.address(address));
    let asked = vec![Asked { server: ModelNamed::Id(id), addresses: vec![address], voted_at: None }];
    for _ in 0..rounds {
        ask_all(machine, &[Request::Votes { asked: asked.clone(), is_record: false }], &[])?;
        machine.check_all()?;
        ask_all(machine, &[Request::Cancel(id, address)], &[])?;
        machine.check_all()?;
        machine.clocks.pass(2);
    }
    Ok(())
}

fn pause(machine: &mut Machine, ms: i64) -> Result<(), String> {
    machine.sleeps();
    machine.clocks.pass(ms);
    machine.step(&[])
}

/// Waits. For most of a long time the process does not run.
fn wait(machine: &mut Machine, ms: i64) -> Result<(), String> {
    if ms > 2 * AWAKE_MAX_MS {
        pause(machine, ms - AWAKE_MAX_MS)?;
        return machine.pass(AWAKE_MAX_MS);
    }
    machine.pass(ms.max(0))
}

fn to_end(machine: &mut Machine, server: usize, address: usize, off_ms: i64) -> Result<(), String> {
    let Some(shown_ms) = machine.process.as_ref().map(|process| process.reader.shown_ms()) else { return Ok(()) };
    let latest = machine.model.any().and_then(|live| live.world.latest(id(server), machine.address(address)));
    let Some(at_s) = latest else { return Ok(()) };
    let end_ms = (at_s + machine.model.settings.cooldown_s) * 1_000;
    wait(machine, end_ms - shown_ms + off_ms)
}

fn step(machine: &mut Machine, ms: i64) -> Result<(), String> {
    machine.clocks.step(ms);
    machine.off_ms += ms;
    machine.step(&[])
}

fn other_options(machine: &mut Machine, options: Settings, accepts: Accepts, off_ms: i64) -> Result<(), String> {
    machine.stop()?;
    machine.clocks.pass(off_ms);
    machine.start(options, accepts)?;
    if machine.is_ready() || machine.is_over {
        return Ok(());
    }
    machine.stop()?;
    if accepts.settings {
        // The store may have the new settings by now, or not. The operator mends the disk and tries again.
        heal(machine);
        machine.start(options, Accepts { clock: true, settings: true })?;
        if machine.is_ready() || machine.is_over {
            return Ok(());
        }
        machine.stop()?;
    }
    machine.start(machine.model.settings, Accepts::default())
}

fn disk(machine: &mut Machine, trouble: Trouble) -> Result<(), String> {
    match trouble {
        Trouble::Strike(strike) => machine.faults(|faults| faults.strike(strike)),
        Trouble::SyncTakes(ms) => machine.faults(|faults| faults.sync_takes_ms = ms),
        Trouble::Heals => heal(machine),
        Trouble::Evicts => machine.disk.locked().evict(),
        Trouble::Emptied => return destroy(machine, &[]),
        Trouble::CutShort => {
            let content = machine.disk.locked().content(STORE).unwrap_or_default();
            return destroy(machine, &content[..content.len() / 2]);
        }
        Trouble::BackedUp => machine.back_up(),
        Trouble::Restored => {
            if let Some(backup) = machine.backup() {
                return destroy(machine, &backup);
            }
        }
        Trouble::MovedAway => {
            machine.put_back();
            machine.disk.locked().move_away(STORE, ELSEWHERE);
            machine.disturb(false);
        }
        Trouble::AnotherAtPath => {
            machine.put_back();
            let backup = machine.backup();
            let mut disk = machine.disk.locked();
            if disk.has(STORE) && !disk.is_dead() {
                disk.move_away(STORE, ELSEWHERE);
                disk.put(STORE, &backup.unwrap_or_default());
                drop(disk);
                machine.displace(true);
            }
        }
        Trouble::MovedBack => {
            machine.put_back();
            machine.disk.locked().move_away(ELSEWHERE, STORE);
        }
        Trouble::NoteDeleted => {
            machine.disk.locked().delete(MARKER_FILE);
            // Only the note tells a start that waits for its store that there is one.
            machine.is_over |= !machine.is_ready() && machine.disk.locked().has(ELSEWHERE);
        }
    }
    machine.step(&[])
}

fn heal(machine: &mut Machine) {
    machine.faults(|faults| *faults = super::disk::Faults { kill: faults.kill, ..Default::default() });
    machine.disk.locked().strikes.clear();
    machine.put_back();
    machine.disk.locked().move_away(ELSEWHERE, STORE);
}

/// The operator empties the file or copies another over it. The service looks every second.
fn destroy(machine: &mut Machine, content: &[u8]) -> Result<(), String> {
    if !machine.is_ready() || !machine.disk.locked().has(STORE) {
        return Ok(());
    }
    machine.put_back();
    machine.disk.locked().replace(STORE, content);
    machine.disturb(true);
    machine.pass(3_000)
}

fn swap_files(machine: &mut Machine, swap: Swap) -> Result<(), String> {
    if !machine.is_ready() || !machine.can_be_swapped() {
        return Ok(());
    }
    machine.stop()?;
    let is_older = machine.backup.as_ref().is_some_and(|backup| backup.is_older);
    match swap {
        _ if machine.is_over => {}
        Swap::Older if is_older => {
            if let Some(newer) = machine.restore() {
                machine.is_refused("an older copy", &[Told::StoreUnusable])?;
                machine.disk.locked().replace(STORE, &newer);
            }
        }
        Swap::OlderWithoutNote if is_older => {
            if machine.restore().is_some() {
                machine.disk.locked().delete(MARKER_FILE);
                machine.is_restored();
            }
        }
        Swap::Older | Swap::OlderWithoutNote => {}
        Swap::NoNote => machine.disk.locked().delete(MARKER_FILE),
        Swap::Gone => {
            machine.disk.locked().move_away(STORE, ELSEWHERE);
            machine.is_refused("the store is gone", &[Told::StoreUnusable, Told::StoreUnavailable])?;
            machine.disk.locked().move_away(ELSEWHERE, STORE);
        }
    }
    machine.start(machine.model.settings, Accepts { clock: swap == Swap::OlderWithoutNote, settings: false })
}

fn id(server: usize) -> u32 {
    u32::try_from(server + 1).expect("few")
}

fn request(machine: &mut Machine, ask: &Ask) -> Request {
    match ask {
        Ask::Votes { ballots, is_record } => {
            let asked = ballots.iter().map(|ballot| asked(machine, ballot, *is_record)).collect();
            Request::Votes { asked, is_record: *is_record }
        }
        Ask::Cancel { server, address } => Request::Cancel(id(*server), machine.address(*address)),
        Ask::CancelAll { address } => Request::CancelAll(machine.address(*address)),
        Ask::List { servers, keeps } => {
            let listed = |(server, named): &(usize, Named)| Listed {
                server: id(*server),
                token: token(machine, *server, *named),
            };
            Request::List { servers: servers.iter().map(listed).collect(), keeps: *keeps }
        }
        Ask::Rotate { server } => Request::Rotate(id(*server)),
        Ask::Remove { server } => Request::Remove(id(*server)),
    }
}

fn token(machine: &mut Machine, server: usize, named: Named) -> Option<Arc<str>> {
    let newest = |back: usize, server: usize| machine.tokens[server + 1].iter().rev().nth(back).cloned();
    let found = match named {
        Named::Not => return None,
        Named::New => None,
        Named::Newest(server) => newest(0, server),
        Named::Earlier(server) => newest(1, server),
    };
    found.or_else(|| {
        let tokens = &mut machine.tokens[server + 1];
        let token: Arc<str> = Arc::from(format!("token-{}-{}", server + 1, tokens.len()));
        tokens.push(Arc::clone(&token));
        Some(token)
    })
}

fn asked(machine: &Machine, ballot: &Ballot, is_record: bool) -> Asked {
    let now_s = machine.now_s();
    let addresses: Vec<IpAddr> = ballot.addresses.iter().map(|address| machine.address(*address)).collect();
    let latest = machine.model.any().and_then(|live| live.world.latest(id(ballot.server), addresses[0]));
    let voted_at = match ballot.when {
        When::Now => None,
        When::Ago(seconds) => Some(now_s - seconds),
        When::OldBy(seconds) => Some(now_s - machine.model.settings.cooldown_s - seconds),
        When::Again(later) => Some(latest.unwrap_or(now_s) + later),
    };
    let voted_at = voted_at.or_else(|| is_record.then_some(now_s));
    let token = machine.tokens[ballot.server + 1].last().filter(|_| ballot.by_token).cloned();
    let server = token.map_or(ModelNamed::Id(id(ballot.server)), ModelNamed::Token);
    Asked { server, addresses, voted_at }
}
