//! One run: callers' changes and faults, drawn from a seed. At its end all faults are healed, and the promises are checked.

use crate::events::{Heal, Planned, Situation};
use crate::host::Process;
use crate::plants::Plant;
use crate::promises::{CLOCK_STEP_US_MAX, PATIENCE_US, voter};
use crate::world::{Network, World};
use std::collections::BTreeMap;
use vote_status::cluster::node::changes::{WantedChange, WantedServer};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::time::UnixSeconds;
use vote_status_nodes::functions::Functions;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Refusal;

pub(crate) const SECOND: u64 = 1_000_000;
/// The time in which the run draws faults, in microseconds.
const FAULTS_US: u64 = 30 * SECOND;
/// The time after the last fault in which all nodes begin to take votes again, in microseconds.
const SETTLED_US: u64 = 25 * SECOND;

/// The figures of a run.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) calls: u64,
    pub(crate) outcomes: BTreeMap<String, u64>,
    pub(crate) notes: BTreeMap<&'static str, u64>,
}

/// The kinds of faults to draw.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Width {
    /// Delays, cuts, and older copies of the store.
    Small,
    /// All faults.
    Wide,
}

/// Runs a seed.
pub(crate) fn run(functions: &Functions, seed: u64, width: Width, plant: Option<Plant>) -> Result<Told, String> {
    let mut random = crate::random::Random::seeded(seed ^ 0x5eed);
    let hosts = if width == Width::Small { 2 } else { 1 + usize::try_from(random.below(6)).expect("few") };
    let minutes = if random.is(50) { 1 } else { 5 };
    let mut world = World::new(functions, seed, hosts, minutes, plant);
    let crowd = Crowd::drawn(&mut random);
    if random.is(25) {
        world.clock_step_us = if random.is(50) { 50_000 } else { CLOCK_STEP_US_MAX };
    }
    let rest = Rest::drawn(seed).filter(|_| hosts > 1);
    if rest.as_ref().is_some_and(|rest| rest.situation == Situation::OneName) {
        world.clock_step_us = CLOCK_STEP_US_MAX;
    }
    let mut run = Run::new(random, width, crowd);
    (0..hosts).for_each(|host| world.start(host));
    run.plan_all(&mut world, rest);
    run.told(&mut world, seed)
}

/// Runs two nodes in this situation alone, without any other change or fault.
pub(crate) fn staged(
    functions: &Functions,
    seed: u64,
    situation: Situation,
    plant: Option<Plant>,
) -> Result<Told, String> {
    let mut random = crate::random::Random::seeded(seed ^ 0x5eed);
    let mut world = World::new(functions, seed, 2, 5, plant);
    if situation == Situation::OneName {
        world.clock_step_us = CLOCK_STEP_US_MAX;
    }
    let crowd = Crowd::drawn(&mut random);
    let mut run = Run::new(random, Width::Small, crowd);
    run.is_resting = true;
    (0..2).for_each(|host| world.start(host));
    world.plan(SECOND / 4, Planned::Look);
    world.plan(4 * SECOND, Planned::Stage(situation));
    run.told(&mut world, seed)
}

/// The closeness of callers: a fault between two changes of one vote needs both within one delay.
struct Crowd {
    /// The numbers of servers and of addresses that they name.
    servers: u64,
    addresses: u32,
    /// The longest time between two of them.
    pause_us_max: u64,
    /// Whether most callers cancel, remove and list.
    is_churning: bool,
    /// Whether a change at a slow node is overtaken by changes elsewhere.
    is_racing: bool,
}

impl Crowd {
    fn drawn(random: &mut crate::random::Random) -> Self {
        Self {
            servers: if random.is(50) { 1 } else { 3 },
            addresses: if random.is(50) { 2 } else { 7 },
            pause_us_max: if random.is(25) { 80_000 } else { SECOND / 2 },
            is_churning: random.is(30),
            is_racing: random.is(40),
        }
    }
}

/// A time without callers and faults, except for one situation: no later entry shows a node that it has missed one.
struct Rest {
    at_us: u64,
    /// Whether the run heals all faults before the situation.
    is_healed: bool,
    /// The instant of the situation, and the situation.
    staged_us: u64,
    situation: Situation,
}

impl Rest {
    /// Draws from numbers of its own: the other draws of a seed do not depend on it.
    fn drawn(seed: u64) -> Option<Self> {
        let mut random = crate::random::Random::seeded(seed ^ 0x0007_e59a);
        if !random.is(20) {
            return None;
        }
        let situation = match random.below(10) {
            0..4 => Situation::OneName,
            4..8 => Situation::LateGift,
            8 => Situation::Race,
            _ => Situation::HalfKnown,
        };
        let at_us = 8 * SECOND + random.below(10 * SECOND);
        let staged_us = at_us + 3 * SECOND + random.below(5 * SECOND);
        Some(Self { at_us, is_healed: random.is(80), staged_us, situation })
    }
}

/// The state of a run that goes on.
pub(crate) struct Run {
    pub(crate) random: crate::random::Random,
    width: Width,
    crowd: Crowd,
    callers: u64,
    faults_until_us: u64,
    /// Whether callers want only planned changes, and no more faults are drawn.
    is_resting: bool,
}

impl Run {
    const fn new(random: crate::random::Random, width: Width, crowd: Crowd) -> Self {
        Self { random, width, crowd, callers: 0, faults_until_us: FAULTS_US, is_resting: false }
    }

    /// Carries out the plan, and gives the figures of the run.
    fn told(&mut self, world: &mut World<'_>, seed: u64) -> Result<Told, String> {
        let answer =
            self.go(world).map_err(|broken| format!("TEST_SEED={seed}, {:.6} s: {broken}", world.now_us as f64 / 1e6));
        let (outcomes, notes) = (world.promises.outcomes.clone(), world.pairs_of_notes().clone());
        answer.map(|()| Told { calls: world.calls, outcomes, notes })
    }

    fn plan_all(&self, world: &mut World<'_>, rest: Option<Rest>) {
        world.plan(SECOND / 2, Planned::Op);
        world.plan(2 * SECOND, Planned::Fault);
        world.plan(SECOND, Planned::Copy);
        world.plan(SECOND / 4, Planned::Look);
        if self.crowd.is_racing && world.hosts.len() > 1 {
            world.plan(3 * SECOND, Planned::Race);
        }
        if let Some(rest) = rest {
            world.plan(rest.at_us, Planned::Rest(rest.is_healed));
            world.plan(rest.staged_us, Planned::Stage(rest.situation));
        }
    }

    fn go(&mut self, world: &mut World<'_>) -> Result<(), String> {
        self.until(world, FAULTS_US)?;
        self.heal_all(world);
        let healed_us = world.now_us;
        loop {
            self.until(world, world.now_us + SECOND)?;
            let is_well = (0..world.hosts.len()).all(|host| self.refusal(world, host).is_none());
            if is_well {
                break;
            }
            if world.now_us > healed_us + SETTLED_US {
                let why =
                    (0..world.hosts.len()).filter_map(|host| Some(format!("{host}: {}", self.refusal(world, host)?)));
                return Err(format!("no votes are taken long after the last fault: {:?}", why.collect::<Vec<_>>()));
            }
        }
        // Callers go on for a moment, and then stop.
        self.until(world, world.now_us + 2 * SECOND)?;
        self.is_resting = true;
        self.until(world, world.now_us + 6 * SECOND)?;
        self.look_at_end(world)
    }

    fn refusal(&self, world: &World<'_>, host: usize) -> Option<String> {
        let now_ms = world.now_us / 1_000;
        let process = world.hosts[host].process.as_ref();
        process.map_or_else(|| Some("it does not run".to_owned()), |process| process.node.refusal(false, now_ms))
    }

    fn until(&mut self, world: &mut World<'_>, until_us: u64) -> Result<(), String> {
        while let Some(planned) = world.step(until_us) {
            match planned {
                Some(Planned::Op) if !self.is_resting => {
                    self.op(world);
                    world.plan(20_000 + self.random.below(self.crowd.pause_us_max), Planned::Op);
                }
                Some(Planned::Fault) if world.now_us < self.faults_until_us && !self.is_resting => {
                    self.fault(world);
                    world.plan(SECOND / 2 + self.random.below(5 * SECOND), Planned::Fault);
                }
                Some(Planned::Back) if world.now_us < self.faults_until_us => {
                    // Messages on their way to a slow node may be lost, and the node may be as fast as the others again.
                    if self.random.is(50) {
                        world.cut_all();
                        world.hosts.iter_mut().for_each(|host| host.network = Network::USUAL);
                        (0..world.hosts.len()).for_each(|host| world.trouble(host, 0));
                    } else if self.random.is(50) {
                        (0..world.hosts.len()).for_each(|host| self.slow(world, host));
                    }
                    self.go_back(world);
                }
                Some(Planned::Race) if world.now_us < self.faults_until_us && !self.is_resting => {
                    if self.random.is(60) {
                        self.race(world);
                    } else {
                        self.half_know(world);
                    }
                    world.plan(2 * SECOND + self.random.below(4 * SECOND), Planned::Race);
                }
                None | Some(Planned::Op | Planned::Fault | Planned::Back | Planned::Race) => {}
                Some(Planned::Rest(is_healed)) => {
                    self.is_resting = true;
                    if is_healed {
                        self.heal_all(world);
                    }
                }
                Some(Planned::Stage(situation)) => self.stage(world, situation),
                Some(Planned::Act(situation, host)) => self.act(world, situation, host),
                Some(Planned::Undo { copied_us, is_clock_back }) => {
                    let copy = world.copies.iter().rposition(|(clock_us, _)| *clock_us == copied_us);
                    if let Some(at) = copy.filter(|_| world.is_store_up) {
                        Self::put_back(world, at, is_clock_back);
                    }
                }
                Some(Planned::Cut(host)) => world.cut_off(host),
                Some(Planned::Again(host)) => self.again(world, host),
                Some(Planned::Want(host, change)) => self.want(world, host, change),
                Some(Planned::Heal(heal)) => self.heal(world, heal),
                Some(Planned::Copy) => {
                    if world.is_store_up {
                        world.copy();
                    }
                    world.plan(SECOND / 10 + self.random.below(3 * SECOND), Planned::Copy);
                }
                Some(Planned::Look) => {
                    let (store_s, now_us) = (world.store_s(), world.now_us);
                    for host in 0..world.hosts.len() {
                        if let Some(process) = &world.hosts[host].process {
                            world.promises.look(process, store_s, now_us);
                        }
                    }
                    world.plan(SECOND / 4, Planned::Look);
                }
            }
            if let Some(broken) = world.promises.broken() {
                return Err(broken);
            }
        }
        Ok(())
    }

    fn token(&mut self) -> Token {
        let name = format!("token-{}", self.random.below(5));
        Token::new(&name).expect("a token")
    }

    pub(crate) fn addresses(&mut self) -> Vec<VoterAddress> {
        let addresses = self.crowd.addresses;
        let first = u32::try_from(self.random.below(addresses.into())).expect("few");
        let count = if self.random.is(25) { 2 } else { 1 };
        (0..count).map(|at| voter(1 + (first + at) % addresses)).collect()
    }

    /// The instant of a vote from a caller's own records.
    fn instant(&mut self, world: &World<'_>) -> UnixSeconds {
        UnixSeconds(world.store_s().0 - u32::try_from(self.random.below(40)).expect("few"))
    }

    pub(crate) fn host(&mut self, world: &World<'_>) -> usize {
        let hosts = u64::try_from(world.hosts.len()).expect("few");
        usize::try_from(self.random.below(hosts)).expect("few")
    }

    fn server(&mut self) -> ServerId {
        ServerId(1 + u32::try_from(self.random.below(self.crowd.servers)).expect("few"))
    }

    pub(crate) fn list(&mut self, server: ServerId, said: Option<Token>) -> WantedChange {
        let bits = self.random.next();
        let spare = said.clone().unwrap_or_else(|| Token::new(&format!("spare-{bits}")).expect("a token"));
        WantedChange::List { server, said, spare, bits }
    }

    pub(crate) fn rotate(&mut self, server: ServerId) -> WantedChange {
        WantedChange::Rotate(server, Token::new(&format!("new-{}", self.random.next())).expect("a token"))
    }

    fn op(&mut self, world: &mut World<'_>) {
        let (host, server) = (self.host(world), self.server());
        let name = if self.random.is(15) { WantedServer::Token(self.token()) } else { WantedServer::Id(server) };
        let is_listed = world
            .hosts
            .iter()
            .filter_map(|host| host.process.as_ref())
            .any(|process| process.shown.servers.contains(server));
        let drawn = match is_listed || self.random.is(20) {
            true if self.crowd.is_churning && self.random.is(60) => 60 + self.random.below(40),
            true => self.random.below(100),
            false => 80,
        };
        let change = match drawn {
            0..45 => {
                let at = self.random.is(20).then(|| self.instant(world));
                WantedChange::Cast(name, at, self.addresses())
            }
            45..60 => {
                let at = self.instant(world);
                WantedChange::Record(name, at, self.addresses())
            }
            60..78 => WantedChange::Cancel(server, self.addresses()[0]),
            78..90 => {
                let said = self.random.is(60).then(|| self.token());
                self.list(server, said)
            }
            90..96 => self.rotate(server),
            _ => WantedChange::Remove(server),
        };
        self.want(world, host, change);
    }

    /// Wants one of the latest votes once more.
    fn again(&mut self, world: &mut World<'_>, host: usize) {
        let votes = &world.promises.votes;
        let latest = &votes[votes.len().saturating_sub(5)..];
        if !latest.is_empty() {
            let at = usize::try_from(self.random.below(latest.len() as u64)).expect("few");
            let pair = latest[at].pair;
            self.want(world, host, WantedChange::Cast(WantedServer::Id(pair.server), None, vec![pair.address]));
        }
    }

    pub(crate) fn want(&mut self, world: &mut World<'_>, host: usize, change: WantedChange) {
        let Some(process) = world.hosts[host].process.as_ref().map(|process| process.number) else { return };
        self.callers += 1;
        let (caller, now_us) = (self.callers, world.now_us);
        world.tell(|| format!("caller {caller} at host {host}: {change:?}"));
        world.promises.wants(caller, change.clone(), process, now_us);
        world.want(host, caller, change);
    }

    fn fault(&mut self, world: &mut World<'_>) {
        let host = self.host(world);
        let kinds = if self.width == Width::Small { 5 } else { 17 };
        let length_us = 100_000 + self.random.below(6 * SECOND);
        let kind = self.random.below(kinds);
        if matches!(kind, 1 | 5 | 6 | 7 | 13 | 15 | 16) {
            world.trouble(host, length_us + 2 * SECOND);
        } else if matches!(kind, 4 | 11) {
            (0..world.hosts.len()).for_each(|host| world.trouble(host, length_us + 2 * SECOND));
        }
        match kind {
            0 | 12 => {
                let length_us = 2 * length_us;
                let slow = |random: &mut crate::random::Random| 1_000 << random.below(13);
                let (there_us, back_us) = (slow(&mut self.random), slow(&mut self.random));
                let cut = self.random.below(2) * self.random.below(60);
                // A node gives nothing back, either, if replies take longer than it waits for them.
                if cut > 0 || there_us + back_us > PATIENCE_US {
                    world.trouble(host, length_us + 2 * SECOND);
                }
                connect(world, host, Network { there_us, back_us, cut, ..Network::USUAL }, length_us);
            }
            1 => {
                let line = usize::from(self.random.is(50));
                world.tell(|| format!("FAULT link {line} of host {host} is cut"));
                world.cut(2 * host + line);
            }
            2 => self.go_back(world),
            // One node knows less than the others when the store forgets.
            3 => {
                self.slow(world, host);
                world.plan(self.random.below(2 * SECOND), Planned::Back);
            }
            4 => {
                world.tell(|| "FAULT all links are cut".to_owned());
                world.cut_all();
            }
            5 => {
                world.tell(|| format!("FAULT host {host} is in a hole"));
                world.hosts[host].network = Network { is_hole: true, ..Network::USUAL };
                world.plan(length_us, Planned::Heal(Heal::Network(host)));
            }
            6 => {
                world.tell(|| format!("FAULT host {host} is paused"));
                world.hosts[host].paused_until_us = world.now_us + length_us;
            }
            7 => {
                if world.hosts[host].process.is_some() {
                    world.stop(host);
                    if self.random.is(20) {
                        world.hosts[host].disk = None;
                    }
                    world.plan(length_us / 2, Planned::Heal(Heal::Start(host)));
                }
            }
            8 => {
                let refusals = [Refusal::Memory, Refusal::Replica, Refusal::Disk, Refusal::NoReplicas];
                let at = usize::try_from(self.random.below(4)).expect("few");
                world.tell(|| format!("FAULT the store refuses: {:?}", refusals[at]));
                world.store.refusal = Some(refusals[at]);
                world.plan(length_us, Planned::Heal(Heal::Writes));
            }
            9 => {
                let kept = self.random.below(3) * self.random.below(20);
                world.tell(|| format!("FAULT the log is trimmed to {kept}"));
                let words = ["XTRIM", "vs:{0}:log", "MAXLEN", &kept.to_string()].map(str::to_owned);
                world.call(&words);
            }
            // A node starts at the moment at which the store forgets.
            13 | 15 | 16 => {
                let are_slow = self.random.is(50);
                (0..world.hosts.len())
                    .filter(|other| are_slow && *other != host)
                    .for_each(|other| self.slow(world, other));
                self.go_back(world);
                if world.hosts[host].process.is_some() {
                    world.stop(host);
                    world.plan(self.random.below(SECOND / 2), Planned::Heal(Heal::Start(host)));
                    for _ in 0..20 {
                        world.plan(self.random.below(6 * SECOND), Planned::Again(host));
                    }
                }
            }
            // Calls are held up, and the clock lets them through.
            14 => {
                world.tell(|| "FAULT the clock goes back by 50 s, and the votes' links are cut".to_owned());
                world.clock_us -= 50_000_000;
                world.promises.stepped_us = Some(world.now_us);
                (0..world.hosts.len()).for_each(|host| world.cut(2 * host + 1));
            }
            10 => {
                let back_us = if self.random.is(50) { 50_000_000 } else { 5_000_000 };
                let by_us = i64::try_from(self.random.below(10 * SECOND)).expect("few") - back_us;
                world.tell(|| format!("FAULT the store's clock steps by {by_us} us"));
                world.clock_us += by_us;
                world.promises.stepped_us = Some(world.now_us);
            }
            _ => {
                world.tell(|| "FAULT the store is down".to_owned());
                world.is_store_up = false;
                world.cut_all();
                world.plan(length_us / 2, Planned::Heal(Heal::Up));
            }
        }
    }

    /// Gives a host a network that takes up to a second for each message.
    pub(crate) fn slow(&mut self, world: &mut World<'_>, host: usize) {
        let (there_us, back_us) = (self.random.below(SECOND).max(1), self.random.below(SECOND).max(1));
        connect(world, host, Network { there_us, back_us, ..Network::USUAL }, 5 * SECOND);
    }

    /// The store goes back to an older copy.
    fn go_back(&mut self, world: &mut World<'_>) {
        if world.copies.is_empty() || !world.is_store_up {
            return;
        }
        let count = u64::try_from(world.copies.len()).expect("few");
        let at = usize::try_from(self.random.below(count)).expect("few");
        let is_clock_back = self.random.is(50);
        Self::put_back(world, at, is_clock_back);
        if self.random.is(50) {
            world.cut_all();
            (0..world.hosts.len()).for_each(|host| world.trouble(host, 0));
        }
    }

    /// The store goes back to this copy, and goes on there.
    fn put_back(world: &mut World<'_>, at: usize, is_clock_back: bool) {
        world.copies.truncate(at + 1);
        let (clock_us, mut copy) = world.copies[at].clone();
        copy.refusal = world.store.refusal;
        world.tell(|| {
            format!(
                "FAULT the store goes back by {} us, its clock too: {is_clock_back}",
                world.store_us().saturating_sub(clock_us)
            )
        });
        if is_clock_back {
            world.promises.stepped_us = Some(world.now_us);
            world.clock_us -=
                i64::try_from(world.store_us()).expect("a time") - i64::try_from(clock_us).expect("a time");
        }
        world.store = copy;
        world.promises.lost_us = Some(world.now_us);
    }

    fn heal(&mut self, world: &mut World<'_>, heal: Heal) {
        world.tell(|| format!("HEALED {heal:?}"));
        match heal {
            Heal::Start(host) if world.hosts[host].process.is_none() => world.start(host),
            Heal::Start(_) => {}
            Heal::Network(host) => world.hosts[host].network = Network::USUAL,
            Heal::Writes => world.store.refusal = None,
            Heal::Up => world.is_store_up = true,
            Heal::Former => world.end_former(),
        }
    }

    fn heal_all(&mut self, world: &mut World<'_>) {
        world.tell(|| "ALL IS WELL".to_owned());
        (world.store.refusal, world.is_store_up) = (None, true);
        for host in 0..world.hosts.len() {
            world.hosts[host].network = Network::USUAL;
            if world.hosts[host].process.is_none() {
                world.start(host);
            }
        }
    }

    fn look_at_end(&mut self, world: &mut World<'_>) -> Result<(), String> {
        let store_s = world.store_s();
        let processes: Vec<&Process> = world.hosts.iter().filter_map(|host| host.process.as_ref()).collect();
        world.promises.look_at_end(&processes, store_s);
        if let Some(broken) = world.promises.broken() {
            return Err(broken);
        }
        let cooldown = world.settings.cooldown;
        // A vote that ends at this moment may have ended at one of them. A vote that a clock ahead has ended stays over.
        let latest = world.promises.latest.max(store_s);
        let is_live = |at: UnixSeconds| cooldown.expires_at(at) > latest.plus(1);
        let shown = |process: &Process| {
            let votes: Vec<_> = process.votes().into_iter().filter(|(_, at)| is_live(*at)).collect();
            (process.servers(), votes)
        };
        let first = shown(processes[0]);
        for process in &processes[1..] {
            let other = shown(process);
            if other != first {
                return Err(format!(
                    "process {} shows {first:?}, and process {} {other:?}",
                    processes[0].number, process.number
                ));
            }
        }
        let (servers, votes) = first;
        let mut held = Vec::new();
        for (server, _) in &servers {
            let words = ["ZRANGE", &format!("vs:{{0}}:s:{server}"), "0", "-1", "WITHSCORES"].map(str::to_owned);
            let Reply::Array(items) = world.call(&words) else { continue };
            held.extend(items.chunks_exact(2).map(|pair| format!("{server} {pair:?}")));
        }
        let live = held.iter().filter(|line| {
            let at = line.rsplit('"').nth(1).and_then(|at| at.parse().ok()).map(UnixSeconds);
            at.is_some_and(is_live)
        });
        if live.count() != votes.len() {
            return Err(format!("the store has {held:?}, and all nodes show {votes:?}"));
        }
        Ok(())
    }
}

/// Gives a host this network for a while.
fn connect(world: &mut World<'_>, host: usize, network: Network, length_us: u64) {
    world.hosts[host].network = network;
    world.tell(|| format!("FAULT host {host} has the network {network:?}"));
    world.plan(length_us, Planned::Heal(Heal::Network(host)));
}
