//! What a run of the checker does, step by step: a list that follows from one seed, or that was
//! written down for a fault that was seen once. Nothing here touches a process or a socket.

use crate::cluster::checker::NODES;
use crate::cluster::util::proxy::Way;
use crate::util::ledger::{Pair, address};
use crate::util::random::Random;

/// Servers that get votes.
pub(crate) const SERVERS: u32 = 3;
/// The one of them that is removed and listed again now and then.
pub(crate) const GOES: u32 = SERVERS;
/// Addresses that vote: enough for a vote that is new at most steps.
pub(crate) const ADDRESSES: u32 = 24;
/// The first few of them get half of the steps, so that steps meet on one pair.
const BUSY: u32 = 4;
/// Addresses of a crowd, which are others than the ones above.
pub(crate) const CROWD: u32 = 40;
/// Crowds begin at one of so many addresses.
const CROWDS: u32 = 4_000;
/// Places of a step that ends a fault, or that needs another one before it.
const OFTEN: usize = 40;
/// The clock of the store is so far from the machine's at most, either way, in seconds.
const CLOCK_MAX_S: i64 = 40;
/// Of so many pauses of a node or of the store, one lasts a minute.
const MINUTES: usize = 12;
/// Commands of the nodes' user, which its rights may lack.
const COMMANDS: [&str; 23] = [
    "zadd",
    "xadd",
    "zrem",
    "pexpire",
    "hset",
    "hdel",
    "hget",
    "hmget",
    "hgetall",
    "hscan",
    "xread",
    "xrevrange",
    "zscore",
    "zrange",
    "zrangebyscore",
    "zremrangebyscore",
    "exists",
    "time",
    "info",
    "fcall",
    "fcall_ro",
    "function|list",
    "function|load",
];

/// One step. Nodes are named by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A vote through a node.
    Vote(usize, Pair),
    /// A vote through a node, of a voter with all these addresses at one server.
    VoteOfSeveral(usize, Vec<Pair>),
    /// Votes for a server through a node, one behind the other: of so many addresses as [`CROWD`] from this number on.
    Crowd(usize, u32, u32),
    /// A vote through a node, sent again until the answer is not 503: for as long as the store takes
    /// to settle.
    VoteUntilAnswered(usize, Pair),
    /// A vote that a node must refuse, as the store may not be relied on.
    ExpectRefused(usize, Pair),
    /// The same vote through all nodes that answer, at the same time.
    Race(Pair),
    /// A vote of some seconds ago, from the site's own records.
    Record(usize, Pair, i64),
    /// A cancellation.
    Cancel(usize, Pair),
    /// A status question.
    Ask(usize, Pair),
    /// The last server is removed.
    Remove(usize),
    /// The last server is listed again.
    List(usize),
    /// The last server gets another token.
    Rotate(usize),
    /// A pause, in milliseconds.
    Pause(u64),
    /// Every fault ends; then everybody must say the same, and it must be right.
    Settle,
    /// A node is killed.
    Kill(usize),
    /// A node is started again, on its data directory or on an empty one.
    Start(usize, Directory),
    /// A node's connections to the store end, and new ones end at once.
    Cut(usize),
    /// What a node and the store say to each other gets lost.
    Hole(usize),
    /// A node reaches the store again.
    Open(usize),
    /// A node is stopped for so long, in milliseconds, and goes on.
    FreezeNode(usize, u64),
    /// A node is stopped for so long, in milliseconds, with a cancellation and a vote in its sockets. Their clients
    /// close the connections, and what they wanted is done through another node.
    HangUp { stopped: usize, other: usize, pair: Pair, ms: u64 },
    /// The store is stopped for so long, in milliseconds, and goes on.
    FreezeStore(u64),
    /// The store is killed, and started again after so long, in milliseconds.
    RestartStore(u64),
    /// All but the last entries of the log are removed.
    TrimLog,
    /// The log is deleted.
    DropLog,
    /// The replica hears nothing from now on.
    HoldReplica,
    /// The primary is killed, with a node where one is named, and the replica promoted.
    Promote(Option<usize>),
    /// The store's files are copied.
    Save,
    /// The store is killed, with a node where one is named, and started with the files that were copied.
    Restore(Option<usize>),
    /// The store refuses writes, whichever machine is the primary.
    RefuseWrites,
    /// It takes them again.
    TakeWrites,
    /// The store may drop keys from now on, and votes must stop.
    Evict,
    /// The store may drop keys, drops the votes of all servers once the nodes know it, and keeps its keys again.
    DropKeys,
    /// It may not any more.
    KeepKeys,
    /// The nodes' user may not run these commands.
    Forbid(Vec<&'static str>),
    /// It has its documented rights again.
    Permit,
    /// What a node says to the store takes so long, and what it hears, in milliseconds.
    Delay(usize, [u64; 2]),
    /// A node hears the store byte by byte.
    Trickle(usize),
    /// What goes one way between a node and the store gets lost.
    HoleOneWay(usize, Way),
    /// The next reply to a node ends in its middle, and the connection with it.
    CutReply(usize),
    /// The last entries of the log are removed, so many of them.
    DropEntries(usize),
    /// The functions are removed.
    DropFunctions,
    /// The clock of the store is so far from the machine's from now on, in seconds.
    Clock(i64),
    /// The store is under strain from now on.
    Strain(Strain),
    /// It is under strain no longer.
    Relax,
}

/// What the whole store suffers for a while, in which no other fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strain {
    /// A script runs: everybody else is told BUSY.
    Busy,
    /// The connections of the nodes end, and no new one is let in.
    Clients,
    /// There is no memory for a write.
    Memory,
    /// An empty database is in place of the one of the votes.
    Swapped,
    /// The log has another name.
    Renamed,
    /// The nodes' password is another one, and their connections end.
    Password,
}

/// What a node is started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// What it had.
    Kept,
    /// Nothing.
    Empty,
}

/// What the steps so far have done to nodes and store, as far as the choice of the next one needs it.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// The clock of the store steps, and the store forgets nothing: what both together do is not promised.
    steps_clock: bool,
    killed: [bool; NODES],
    away: [bool; NODES],
    is_replica_held: bool,
    is_saved: bool,
    refuses_writes: bool,
    may_evict: bool,
    is_forbidden: bool,
}

impl Shape {
    fn note(&mut self, step: &Step) {
        match *step {
            Step::Settle => *self = Self { steps_clock: self.steps_clock, ..Self::default() },
            Step::Kill(node) => self.killed[node] = true,
            Step::Start(node, _) => self.killed[node] = false,
            Step::Cut(node) | Step::Hole(node) | Step::Trickle(node) | Step::HoleOneWay(node, _) => {
                self.away[node] = true;
            }
            Step::Open(node) => self.away[node] = false,
            Step::HoldReplica => self.is_replica_held = true,
            Step::Promote(node) | Step::Restore(node) => {
                (self.is_replica_held, self.is_saved, self.is_forbidden) = (false, false, false);
                if let Some(node) = node {
                    self.killed[node] = true;
                }
            }
            Step::Save => self.is_saved = true,
            Step::RefuseWrites => self.refuses_writes = true,
            Step::TakeWrites => self.refuses_writes = false,
            Step::Evict => self.may_evict = true,
            Step::KeepKeys | Step::DropKeys => self.may_evict = false,
            Step::Forbid(_) => self.is_forbidden = true,
            Step::Permit => self.is_forbidden = false,
            // Its settings are gone with the process.
            Step::RestartStore(_) => {
                (self.refuses_writes, self.may_evict, self.is_forbidden) = (false, false, false);
            }
            _ => {}
        }
    }
}

/// A cooldown in minutes, `count` steps that follow from the stream of numbers, and a last one that settles.
pub(crate) fn random(random: &mut Random, count: usize) -> (u32, Vec<Step>) {
    let steps_clock = random.below(4) == 0;
    // A short one ends votes while it runs, the usual one keeps them.
    let cooldown_minutes = if steps_clock { 90 } else { *random.pick(&[1, 90]) };
    let mut shape = Shape { steps_clock, ..Shape::default() };
    let mut steps = Vec::new();
    while steps.len() < count {
        let next = match random.below(100) {
            0..=64 => operation(random, &shape),
            65..=71 => vec![Step::Pause(10 + random.below(400) as u64)],
            72..=88 => vec![fault(random, &shape)],
            89..=92 => strain(random, &shape),
            _ => vec![Step::Settle],
        };
        next.iter().for_each(|step| shape.note(step));
        steps.extend(next);
    }
    steps.push(Step::Settle);
    (cooldown_minutes, steps)
}

/// Strain for as long as a few operations take.
fn strain(random: &mut Random, shape: &Shape) -> Vec<Step> {
    let mut strains = vec![Strain::Busy, Strain::Clients, Strain::Password];
    // Both are writes.
    if !shape.refuses_writes {
        strains.extend([Strain::Swapped, Strain::Renamed]);
    }
    // Without memory, a store that may drop keys drops all of them: that is another fault.
    if !shape.may_evict {
        strains.push(Strain::Memory);
    }
    let mut steps = vec![Step::Strain(*random.pick(&strains))];
    for _ in 0..1 + random.below(6) {
        steps.extend(operation(random, shape));
        if random.below(3) == 0 {
            steps.push(Step::Pause(10 + random.below(1_500) as u64));
        }
    }
    steps.push(Step::Relax);
    steps
}

/// How long a pause lasts that is below `below_ms` but for the rare one.
fn pause_ms(random: &mut Random, below_ms: usize) -> u64 {
    if random.below(MINUTES) == 0 { 60_000 } else { 100 + random.below(below_ms) as u64 }
}

fn operation(random: &mut Random, shape: &Shape) -> Vec<Step> {
    let alive: Vec<usize> = (0..NODES).filter(|node| !shape.killed[*node]).collect();
    let node = *random.pick(&alive);
    let server = 1 + random.below(SERVERS as usize) as u32;
    let pair = some_pair(random, server);
    let step = match random.below(100) {
        0..=33 => Step::Vote(node, pair),
        34..=45 => {
            let mut numbers: Vec<u32> = (0..1 + random.below(4)).map(|_| some_number(random)).collect();
            numbers.sort_unstable();
            numbers.dedup();
            Step::VoteOfSeveral(node, numbers.into_iter().map(|number| (server, address(number))).collect())
        }
        46..=55 => Step::Race(pair),
        56..=61 => Step::Record(node, pair, random.below(30) as i64),
        62..=76 => Step::Cancel(node, pair),
        77..=82 => random.pick(&[Step::Remove(node), Step::List(node), Step::List(node), Step::Rotate(node)]).clone(),
        // The site's own books have a vote that lies before the removal.
        83..=86 => {
            let imported = Step::Record(*random.pick(&alive), some_pair(random, GOES), 1 + random.below(20) as i64);
            return vec![Step::Remove(node), Step::List(*random.pick(&alive)), imported];
        }
        // For a server that stays.
        87..=90 => {
            let first = 1_000 + random.below(CROWDS as usize) as u32;
            Step::Crowd(node, 1 + random.below(GOES as usize - 1) as u32, first)
        }
        _ => Step::Ask(node, pair),
    };
    vec![step]
}

fn some_pair(random: &mut Random, server: u32) -> Pair {
    (server, address(some_number(random)))
}

fn some_number(random: &mut Random) -> u32 {
    let numbers = *random.pick(&[ADDRESSES, BUSY]);
    random.below(numbers as usize) as u32
}

fn fault(random: &mut Random, shape: &Shape) -> Step {
    let mut steps = vec![
        Step::FreezeStore(pause_ms(random, 1_500)),
        Step::RestartStore(random.below(800) as u64),
        Step::TrimLog,
        Step::DropLog,
        Step::DropEntries(1 + random.below(4)),
        Step::DropFunctions,
    ];
    let alive: Vec<usize> = (0..NODES).filter(|node| !shape.killed[*node]).collect();
    for node in 0..NODES {
        let directory = *random.pick(&[Directory::Kept, Directory::Kept, Directory::Empty]);
        match (shape.killed[node], shape.away[node]) {
            (true, _) => steps.extend([Step::Start(node, directory), Step::Start(node, directory)]),
            (false, true) => steps.extend([Step::Open(node), Step::Open(node)]),
            (false, false) => {
                let way = *random.pick(&[Way::There, Way::Back]);
                steps.extend([Step::Cut(node), Step::Hole(node), Step::Trickle(node), Step::HoleOneWay(node, way)]);
                steps.push(Step::FreezeNode(node, pause_ms(random, 2_500)));
                let delays_ms = [(); 2].map(|()| *random.pick(&[0, 0, 30, 150, 700]));
                steps.extend([Step::CutReply(node), Step::Delay(node, delays_ms)]);
            }
        }
        if !shape.killed[node] && alive.len() > 1 {
            steps.push(Step::Kill(node));
        }
    }
    if alive.len() > 1 {
        let stopped = random.below(alive.len());
        let other = (stopped + 1 + random.below(alive.len() - 1)) % alive.len();
        let server = 1 + random.below(SERVERS as usize) as u32;
        let pair = some_pair(random, server);
        let ms = *random.pick(&[100, 700, 1_300, 2_500, 6_500]);
        let hang_up = Step::HangUp { stopped: alive[stopped], other: alive[other], pair, ms };
        steps.extend([hang_up.clone(), hang_up]);
    }
    // What ends a fault, or needs another one before it, is drawn as often as what can come at any moment only where it
    // has more places here.
    let mut add = |places, step: Step| steps.extend(vec![step; places]);
    if shape.steps_clock {
        add(OFTEN, Step::Clock(random.below(1 + 2 * CLOCK_MAX_S as usize) as i64 - CLOCK_MAX_S));
    } else {
        let taken_along = (alive.len() > 1 && random.below(2) == 0).then(|| *random.pick(&alive));
        add(4, if shape.is_replica_held { Step::Promote(taken_along) } else { Step::HoldReplica });
        add(3, Step::Promote(None));
        add(2, Step::DropKeys);
        // A replica that hears nothing would be told everything by the store that is put back.
        match (shape.is_replica_held, shape.is_saved) {
            (true, _) => {}
            (false, true) => add(OFTEN, Step::Restore(taken_along)),
            (false, false) => add(6, Step::Save),
        }
    }
    if shape.refuses_writes {
        add(OFTEN, Step::TakeWrites)
    } else {
        add(4, Step::RefuseWrites)
    }
    if shape.may_evict {
        add(OFTEN, Step::KeepKeys)
    } else {
        add(4, Step::Evict)
    }
    if shape.is_forbidden {
        add(OFTEN, Step::Permit);
    } else {
        add(4, Step::Forbid((0..1 + random.below(3)).map(|_| *random.pick(&COMMANDS)).collect()));
    }
    random.pick(&steps).clone()
}

/// Every fifth schedule or more has each of them.
#[test]
fn what_needs_another_fault_before_it_is_drawn_as_well() {
    let steps: Vec<Step> = (0..200).flat_map(|seed| random(&mut Random::seeded(seed), 80).1).collect();
    let count = |is_it: fn(&Step) -> bool| steps.iter().filter(|step| is_it(step)).count();
    let counts = [
        count(|step| matches!(step, Step::Restore(_))),
        count(|step| matches!(step, Step::TakeWrites)),
        count(|step| matches!(step, Step::KeepKeys)),
        count(|step| matches!(step, Step::Permit)),
        count(|step| matches!(step, Step::Promote(_))),
        count(|step| matches!(step, Step::Clock(_))),
        count(|step| matches!(step, Step::Strain(_))),
    ];
    assert!(counts.iter().all(|count| *count >= 40), "{counts:?}");
}
