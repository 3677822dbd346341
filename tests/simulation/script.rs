//! Carries out a list of operations, and cuts a list that fails down to what it needs.

use super::machine::{Machine, STORE};
use super::model::{Accepts, Asked, Settings};
use super::operations::{Ask, Ballot, End, Operation, SERVERS, Trouble, draw};
use super::process::Request;
use crate::util::random::Random;
use std::net::IpAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations of a seed.
const OPERATIONS: usize = 60;
/// Tries at cutting a case down.
const CUTS_MAX: usize = 400;
/// Failures whose texts begin alike are of one kind.
const KIND_CHARS: usize = 40;
/// No step is made that is as near as this to a minute: what the service reads of it decides.
const MINUTE_MS: std::ops::RangeInclusive<i64> = 57_600..=62_400;
/// No step is made while the time may stand still: whether two small ones are a large one is not said.
const STANDS_STILL_MAX_MS: i64 = 2_400;

/// What a seed showed that the contract does not allow.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    pub(crate) at: usize,
    pub(crate) what: String,
}

/// A seed's settings and operations.
pub(crate) fn case(seed: u64) -> (Settings, Vec<Operation>) {
    let mut random = Random::seeded(seed);
    let cooldown_s = *random.pick(&[5_400, 5_400, 300, 86_400]);
    let settings = Settings { cooldown_s, prefix: *random.pick(&[64, 64, 56]) };
    (settings, draw(&mut random, OPERATIONS))
}

/// Carries out the operations.
pub(crate) fn run(seed: u64, settings: Settings, operations: &[Operation]) -> Result<(), Finding> {
    run_with(&mut Machine::new(seed, settings, false), settings, operations)
}

/// Carries them out once more, and tells all that happens.
pub(crate) fn tell(seed: u64, settings: Settings, operations: &[Operation]) -> (Result<(), Finding>, Vec<String>) {
    let mut machine = Machine::new(seed, settings, true);
    let done = run_with(&mut machine, settings, operations);
    (done, machine.said.unwrap_or_default())
}

fn run_with(machine: &mut Machine, settings: Settings, operations: &[Operation]) -> Result<(), Finding> {
    let mut at = 0;
    let all = AssertUnwindSafe(|| run_on(machine, &mut at, settings, operations));
    let done = catch_unwind(all).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(format!("a panic: {:?}", text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string))))
    });
    done.map_err(|what| Finding { at, what })
}

fn run_on(machine: &mut Machine, at: &mut usize, settings: Settings, operations: &[Operation]) -> Result<(), String> {
    machine.start(settings, Accepts::default())?;
    if !machine.is_ready() {
        return Err("no start on a new disk without a fault".into());
    }
    for (number, operation) in operations.iter().enumerate() {
        if machine.is_over {
            break;
        }
        *at = number;
        machine.say(|| format!("#{number} {operation:?}"));
        carry_out(machine, operation)?;
        machine.check_all()?;
    }
    Ok(())
}

/// Leaves out what the failure does not need.
pub(crate) fn shrink(seed: u64, settings: Settings, operations: &[Operation]) -> Vec<Operation> {
    let kind = |what: &str| what.chars().filter(|c| !c.is_ascii_digit()).take(KIND_CHARS).collect::<String>();
    let Err(first) = run(seed, settings, operations) else {
        return operations.to_vec();
    };
    let mut needed = operations[..(first.at + 1).min(operations.len())].to_vec();
    let (mut tries, mut size) = (0, needed.len().div_ceil(2));
    while size > 0 && tries < CUTS_MAX {
        let mut from = 0;
        let before = needed.len();
        while from < needed.len() && tries < CUTS_MAX {
            let mut fewer = needed.clone();
            fewer.drain(from..(from + size).min(needed.len()));
            tries += 1;
            match run(seed, settings, &fewer) {
                Err(finding) if kind(&finding.what) == kind(&first.what) => {
                    needed = fewer[..(finding.at + 1).min(fewer.len())].to_vec()
                }
                _ => from += size,
            }
        }
        if size > 1 || needed.len() == before {
            size /= 2;
        }
    }
    needed
}

fn carry_out(machine: &mut Machine, operation: &Operation) -> Result<(), String> {
    match operation {
        Operation::Ask(asks) => {
            let requests: Vec<Request> = asks.iter().map(|ask| request(machine, ask)).collect();
            ask_all(machine, &requests)
        }
        Operation::Flip { server, address, rounds } => {
            let (id, address) = (id(*server), machine.address(*address));
            let asked = Asked { server: id, addresses: vec![address], voted_at: None, is_record: false };
            for _ in 0..*rounds {
                ask_all(machine, &[Request::Votes(vec![asked.clone()])])?;
                machine.check_all()?;
                ask_all(machine, &[Request::Cancel(id, address)])?;
                machine.check_all()?;
                machine.clocks.pass(2);
            }
            Ok(())
        }
        Operation::Pass { ms } => machine.pass(*ms),
        Operation::Pause { ms } => {
            machine.sleeps();
            machine.clocks.pass(*ms);
            machine.step(&[])
        }
        Operation::Step { ms } => step(machine, *ms),
        Operation::ComeBack => step(machine, -machine.off_ms),
        Operation::Drift { ppm } => {
            machine.clocks.drift(*ppm);
            Ok(())
        }
        Operation::Restart { end, off_ms, step_ms, accepts_clock } => {
            match end {
                End::Stop => machine.stop(),
                End::Kill => machine.end_abruptly(false),
                End::PowerCut => machine.end_abruptly(true),
            }
            machine.clocks.pass(*off_ms);
            machine.clocks.step(*step_ms);
            machine.off_ms += step_ms;
            let accepts = Accepts { clock: *accepts_clock, settings: false };
            machine.start(machine.model.settings, accepts)
        }
        Operation::OtherOptions { cooldown_s, prefix, accepts } => {
            other_options(machine, *cooldown_s, *prefix, *accepts)
        }
        Operation::Kill { kill, cuts_power } => {
            machine.cuts_power = *cuts_power;
            machine.faults(|faults| faults.kill = Some(*kill));
            Ok(())
        }
        Operation::Disk(trouble) => disk(machine, *trouble),
    }
}

fn ask_all(machine: &mut Machine, requests: &[Request]) -> Result<(), String> {
    let servers = (0..SERVERS).map(id);
    if machine.is_ready() && servers.into_iter().all(|server| machine.model.may_be_asked(server)) {
        machine.step(requests)?;
    }
    Ok(())
}

fn step(machine: &mut Machine, ms: i64) -> Result<(), String> {
    let ahead_ms = machine.model.time.shown_ms().hi - machine.clocks.reading().wall_ms;
    if machine.is_ready() && (ahead_ms > STANDS_STILL_MAX_MS || MINUTE_MS.contains(&ms.abs())) {
        return Ok(());
    }
    machine.clocks.step(ms);
    machine.off_ms += ms;
    machine.step(&[])
}

fn other_options(
    machine: &mut Machine,
    cooldown_s: Option<i64>,
    prefix: Option<u8>,
    accepts: bool,
) -> Result<(), String> {
    let kept = machine.model.settings;
    let mut options =
        Settings { cooldown_s: cooldown_s.unwrap_or(kept.cooldown_s), prefix: prefix.unwrap_or(kept.prefix) };
    if accepts {
        // What a longer prefix makes of a network is not said.
        options.prefix = options.prefix.min(kept.prefix);
    }
    machine.stop();
    machine.start(options, Accepts { clock: false, settings: accepts })?;
    if machine.is_ready() || machine.is_over {
        return Ok(());
    }
    machine.stop();
    if accepts {
        // The store may have them by now, or not: the owner sees to the disk, and tries it again.
        heal(machine);
        machine.start(options, Accepts { clock: false, settings: true })?;
        if machine.is_ready() || machine.is_over {
            return Ok(());
        }
        machine.stop();
    }
    machine.start(machine.model.settings, Accepts::default())
}

fn disk(machine: &mut Machine, trouble: Trouble) -> Result<(), String> {
    match trouble {
        Trouble::SyncsFail(count) => machine.faults(|faults| faults.syncs_fail = count),
        Trouble::ReadsFail(count) => machine.faults(|faults| faults.reads_fail = count),
        Trouble::Full => machine.faults(|faults| faults.is_full = true),
        Trouble::ThinAndFull => machine.faults(|faults| faults.is_thin_and_full = true),
        Trouble::ReadOnly => machine.faults(|faults| faults.is_read_only = true),
        Trouble::SyncTakes(ms) => machine.faults(|faults| faults.sync_takes_ms = ms),
        Trouble::Heals => heal(machine),
        Trouble::Evicts => machine.disk.locked().evict(),
        Trouble::Emptied => return destroy(machine, &[]),
        Trouble::BackedUp => machine.backup = machine.disk.locked().content(STORE),
        Trouble::Restored => {
            if let Some(backup) = machine.backup.clone() {
                return destroy(machine, &backup);
            }
        }
        Trouble::MovedAway => {
            machine.disk.locked().move_away(STORE, super::machine::ELSEWHERE);
            machine.disturb(false);
        }
        Trouble::MovedBack => machine.disk.locked().move_away(super::machine::ELSEWHERE, STORE),
    }
    machine.step(&[])
}

fn heal(machine: &mut Machine) {
    machine.faults(|faults| *faults = super::disk::Faults { kill: faults.kill, ..Default::default() });
    machine.disk.locked().move_away(super::machine::ELSEWHERE, STORE);
}

/// Somebody empties the file or copies another over it. The service looks every second.
fn destroy(machine: &mut Machine, content: &[u8]) -> Result<(), String> {
    if !machine.is_ready() || !machine.disk.locked().has(STORE) {
        return Ok(());
    }
    machine.disk.locked().replace(STORE, content);
    machine.disturb(true);
    machine.pass(3_000)
}

fn id(server: usize) -> u32 {
    u32::try_from(server + 1).expect("few")
}

fn request(machine: &mut Machine, ask: &Ask) -> Request {
    match ask {
        Ask::Votes(ballots) => Request::Votes(ballots.iter().map(|ballot| asked(machine, ballot)).collect()),
        Ask::Cancel { server, address } => Request::Cancel(id(*server), machine.address(*address)),
        Ask::List { server } => {
            let tokens = &mut machine.tokens[server + 1];
            let token = format!("token-{}-{}", server + 1, tokens.len());
            tokens.push(token.clone());
            Request::List(id(*server), token)
        }
        Ask::Remove { server } => Request::Remove(id(*server)),
    }
}

fn asked(machine: &Machine, ballot: &Ballot) -> Asked {
    let now = machine.clocks.reading().wall_ms / 1_000;
    let ago_s = if ballot.is_record { Some(ballot.ago_s.unwrap_or(0)) } else { ballot.ago_s };
    let addresses: Vec<IpAddr> = ballot.addresses.iter().map(|address| machine.address(*address)).collect();
    let server = id(ballot.server);
    let again = machine.model.latest(server, addresses[0]).filter(|_| ballot.is_again);
    let voted_at = again.or(ago_s.map(|ago_s| now - ago_s));
    Asked { server, addresses, voted_at, is_record: ballot.is_record }
}
