//! The steps of a run of the checker, drawn from one seed or written down for a fault that was seen
//! once. Nothing here touches a process or a socket.

use crate::cluster::checker::NODES;
use crate::cluster::util::proxy::Way;
use crate::util::ledger::{Pair, address};
use crate::util::random::Random;

/// Servers that get votes.
pub(crate) const SERVERS: u32 = 3;
/// The server that is removed and listed again now and then.
pub(crate) const GOES: u32 = SERVERS;
/// Addresses that vote: enough that most steps find one without a vote.
pub(crate) const ADDRESSES: u32 = 24;
/// These first addresses get half of the steps for themselves, so that steps meet on one pair.
const BUSY: u32 = 4;
/// Addresses of a crowd, which are none of those above.
pub(crate) const CROWD: u32 = 40;
/// The number of addresses at which a crowd may begin.
const CROWDS: u32 = 4_000;
/// The weight of a step that ends a fault, or that needs another fault before it.
const OFTEN: usize = 40;
/// The largest distance of the store's clock from the machine's, either way, in seconds.
const CLOCK_MAX_S: i64 = 40;
/// One of this many pauses of a node or of the store lasts a minute.
const MINUTES: usize = 12;
/// Commands of the nodes' user that a fault may forbid.
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
    /// A vote through a node by a voter with all these addresses, at one server.
    VoteOfSeveral(usize, Vec<Pair>),
    /// Pipelined votes for a server through a node, of [`CROWD`] addresses from this number on.
    Crowd(usize, u32, u32),
    /// A vote through a node, sent again until the answer is not 503, as a store that settles takes
    /// some time.
    VoteUntilAnswered(usize, Pair),
    /// A vote that a node must refuse, as it may not rely on the store.
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
    /// Every fault ends. Then store and nodes must agree, on a state that the model allows.
    Settle,
    /// A node is killed.
    Kill(usize),
    /// A node is started again, on its data directory or on an empty one.
    Start(usize, Directory),
    /// A node's connections to the store end, and new ones end at once.
    Cut(usize),
    /// Bytes between a node and the store are lost.
    Hole(usize),
    /// A node reaches the store again.
    Open(usize),
    /// A node is stopped for this long, in milliseconds, and goes on.
    FreezeNode(usize, u64),
    /// A node is stopped for `ms`, with a cancellation and a vote in its sockets. Their clients close the connections.
    /// Meanwhile another node gets a cancellation and a vote.
    HangUp { stopped: usize, other: usize, pair: Pair, ms: u64 },
    /// The store is stopped for this long, in milliseconds, and goes on.
    FreezeStore(u64),
    /// The store is killed, and started again after this long, in milliseconds.
    RestartStore(u64),
    /// All but the last entries of the log are removed.
    TrimLog,
    /// The log is deleted.
    DropLog,
    /// The replica receives nothing from now on.
    HoldReplica,
    /// The primary is killed, with a node where one is named, and the replica promoted.
    Promote(Option<usize>),
    /// The store's files are copied.
    Save,
    /// The store is killed, with a node where one is named, and started with the files that were copied.
    Restore(Option<usize>),
    /// The store refuses writes, whichever machine is the primary.
    RefuseWrites,
    /// The store takes writes again.
    TakeWrites,
    /// The store may evict keys from now on, so nodes must refuse votes.
    Evict,
    /// The store may evict keys, evicts the votes of all servers once the nodes know of it, and then keeps its keys again.
    DropKeys,
    /// The store may evict no keys any more.
    KeepKeys,
    /// The nodes' user may not run these commands.
    Forbid(Vec<&'static str>),
    /// The nodes' user has its documented rights again.
    Permit,
    /// Bytes from a node to the store, and back, take this long, in milliseconds.
    Delay(usize, [u64; 2]),
    /// A node receives the store's replies byte by byte.
    Trickle(usize),
    /// Bytes of one way between a node and the store are lost.
    HoleOneWay(usize, Way),
    /// The next reply to a node, and its connection, end in the middle.
    CutReply(usize),
    /// This many of the log's last entries are removed.
    DropEntries(usize),
    /// The functions are removed.
    DropFunctions,
    /// The store's clock is this far from the machine's from now on, in seconds.
    Clock(i64),
    /// The store is under strain from now on.
    Strain(Strain),
    /// The strain ends.
    Relax,
}

/// A fault of the whole store for a while, in which no other fault begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strain {
    /// A script runs: the store answers all others BUSY.
    Busy,
    /// The nodes' connections end, and the store accepts no new one.
    Clients,
    /// The store has no memory for a write.
    Memory,
    /// An empty database replaces the one with the votes.
    Swapped,
    /// The log has another name.
    Renamed,
    /// The nodes' password changes, and their connections end.
    Password,
}

/// The data directory that a node starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Directory {
    /// The one that it had.
    Kept,
    /// An empty one.
    Empty,
}

/// The effects of the steps so far that the choice of the next step depends on.
#[derive(Clone, Debug, Default)]
struct Shape {
    /// The store's clock steps, and the store forgets nothing: the service promises nothing for both together.
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
            // A start gives the store its user and its settings again: the user's rights are whole, the settings stay.
            Step::RestartStore(_) => self.is_forbidden = false,
            _ => {}
        }
    }
}

/// A cooldown in minutes, and `count` steps or a few more, drawn from the random numbers. The last step settles.
pub(crate) fn random(random: &mut Random, count: usize) -> (u32, Vec<Step>) {
    let steps_clock = random.below(4) == 0;
    // A short cooldown ends votes within the schedule, the usual one keeps them.
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
    // Both strains are writes.
    if !shape.refuses_writes {
        strains.extend([Strain::Swapped, Strain::Renamed]);
    }
    // Without memory, a store that may evict keys evicts all of them: that is another fault.
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

/// The length of a pause: 100 ms and less than `below_ms` more, or rarely a minute.
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
        // The site's records have a vote from before the removal.
        83..=86 => {
            let imported = Step::Record(*random.pick(&alive), some_pair(random, GOES), 1 + random.below(20) as i64);
            return vec![Step::Remove(node), Step::List(*random.pick(&alive)), imported];
        }
        // Crowds vote for a server that stays.
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
    // A step that ends a fault, or needs another one before it, needs more places here to be drawn as often as the
    // others.
    let mut add = |places, step: Step| steps.extend(vec![step; places]);
    if shape.steps_clock {
        add(OFTEN, Step::Clock(random.below(1 + 2 * CLOCK_MAX_S as usize) as i64 - CLOCK_MAX_S));
    } else {
        let taken_along = (alive.len() > 1 && random.below(2) == 0).then(|| *random.pick(&alive));
        add(4, if shape.is_replica_held { Step::Promote(taken_along) } else { Step::HoldReplica });
        add(3, Step::Promote(None));
        add(2, Step::DropKeys);
        // A store that goes back to its copy would send everything to a replica that receives nothing.
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

/// On average every fifth schedule, or more, has each of these steps.
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

/// Regression: after such a restart a schedule drew a write that the store refused (round 74 of seed 861751827).
#[test]
fn a_store_that_refuses_writes_refuses_them_behind_its_restart_too() {
    let mut shape = Shape::default();
    [Step::RefuseWrites, Step::Evict, Step::RestartStore(1)].iter().for_each(|step| shape.note(step));
    assert!(shape.refuses_writes && shape.may_evict);
}
