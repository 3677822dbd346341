//! What a run of the checker does, step by step: a list that follows from one seed, or that was
//! written down for a fault that was seen once. Nothing here touches a process or a socket.

use crate::cluster::checker::NODES;
use crate::util::ledger::{Pair, address};
use crate::util::random::Random;

/// Servers that get votes. The last one is removed and listed again now and then.
pub(crate) const SERVERS: u32 = 3;
/// Addresses that vote: few, so that steps meet on one pair.
const ADDRESSES: u32 = 6;
/// Commands that the functions of the store call, one of which a user's rights may lack.
const COMMANDS: [&str; 4] = ["zadd", "xadd", "zrem", "pexpire"];

/// One step. Nodes are named by their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A vote through a node.
    Vote(usize, Pair),
    /// A vote through a node, of a voter with all these addresses at one server.
    VoteOfSeveral(usize, Vec<Pair>),
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
    /// The store refuses writes.
    RefuseWrites,
    /// It takes them again.
    TakeWrites,
    /// The store may drop keys from now on, and votes must stop.
    Evict,
    /// It may not any more.
    KeepKeys,
    /// The nodes' user may not run this command.
    Forbid(&'static str),
    /// It may run all again.
    Permit,
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
    killed: [bool; NODES],
    away: [bool; NODES],
    is_replica_held: bool,
    is_saved: bool,
    refuses_writes: bool,
    may_evict: bool,
    is_forbidden: bool,
}

impl Shape {
    fn is_loss_prepared(&self) -> bool {
        self.is_replica_held || self.is_saved
    }

    fn note(&mut self, step: &Step) {
        match *step {
            Step::Settle => *self = Self::default(),
            Step::Kill(node) => self.killed[node] = true,
            Step::Start(node, _) => self.killed[node] = false,
            Step::Cut(node) | Step::Hole(node) => self.away[node] = true,
            Step::Open(node) => self.away[node] = false,
            Step::HoldReplica => self.is_replica_held = true,
            Step::Promote(node) | Step::Restore(node) => {
                (self.is_replica_held, self.is_saved, self.refuses_writes) = (false, false, false);
                (self.may_evict, self.is_forbidden) = (false, false);
                if let Some(node) = node {
                    self.killed[node] = true;
                }
            }
            Step::Save => self.is_saved = true,
            Step::RefuseWrites => self.refuses_writes = true,
            Step::TakeWrites => self.refuses_writes = false,
            Step::Evict => self.may_evict = true,
            Step::KeepKeys => self.may_evict = false,
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

/// `count` steps that follow from the stream of numbers, and a last one that settles.
pub(crate) fn random(random: &mut Random, count: usize) -> Vec<Step> {
    let mut shape = Shape::default();
    let mut steps = Vec::new();
    while steps.len() < count {
        let step = match random.below(100) {
            0..=64 => operation(random, &shape),
            65..=71 => Step::Pause(10 + random.below(400) as u64),
            72..=92 => fault(random, &shape),
            _ => Step::Settle,
        };
        shape.note(&step);
        steps.push(step);
    }
    steps.push(Step::Settle);
    steps
}

fn operation(random: &mut Random, shape: &Shape) -> Step {
    let alive: Vec<usize> = (0..NODES).filter(|node| !shape.killed[*node]).collect();
    let node = *random.pick(&alive);
    let server = 1 + random.below(SERVERS as usize) as u32;
    let pair = (server, address(random.below(ADDRESSES as usize) as u32));
    match random.below(100) {
        0..=27 => Step::Vote(node, pair),
        28..=39 => {
            let mut numbers: Vec<u32> =
                (0..1 + random.below(4)).map(|_| random.below(ADDRESSES as usize) as u32).collect();
            numbers.sort_unstable();
            numbers.dedup();
            Step::VoteOfSeveral(node, numbers.into_iter().map(|number| (server, address(number))).collect())
        }
        40..=51 => Step::Race(pair),
        52..=57 => Step::Record(node, pair, random.below(30) as i64),
        58..=74 => Step::Cancel(node, pair),
        // What the store forgets of its servers it is not told again: only where nothing will be forgotten.
        75..=80 if !shape.is_loss_prepared() => {
            random.pick(&[Step::Remove(node), Step::List(node), Step::List(node), Step::Rotate(node)]).clone()
        }
        _ => Step::Ask(node, pair),
    }
}

fn fault(random: &mut Random, shape: &Shape) -> Step {
    let mut steps = vec![
        Step::FreezeStore(100 + random.below(1_500) as u64),
        Step::RestartStore(random.below(800) as u64),
        Step::TrimLog,
        Step::DropLog,
    ];
    let alive: Vec<usize> = (0..NODES).filter(|node| !shape.killed[*node]).collect();
    for node in 0..NODES {
        let directory = *random.pick(&[Directory::Kept, Directory::Kept, Directory::Empty]);
        match (shape.killed[node], shape.away[node]) {
            (true, _) => steps.extend([Step::Start(node, directory), Step::Start(node, directory)]),
            (false, true) => steps.extend([Step::Open(node), Step::Open(node)]),
            (false, false) => {
                steps.extend([Step::Cut(node), Step::Hole(node)]);
                steps.push(Step::FreezeNode(node, 100 + random.below(2_500) as u64));
            }
        }
        if !shape.killed[node] && alive.len() > 1 {
            steps.push(Step::Kill(node));
        }
    }
    let taken_along = (alive.len() > 1 && random.below(2) == 0).then(|| *random.pick(&alive));
    steps.push(if shape.is_replica_held { Step::Promote(taken_along) } else { Step::HoldReplica });
    steps.push(Step::Promote(None));
    // A replica that hears nothing would be told everything by the store that is put back.
    if !shape.is_replica_held {
        steps.push(if shape.is_saved { Step::Restore(taken_along) } else { Step::Save });
    }
    steps.push(if shape.refuses_writes { Step::TakeWrites } else { Step::RefuseWrites });
    steps.push(if shape.may_evict { Step::KeepKeys } else { Step::Evict });
    steps.push(if shape.is_forbidden { Step::Permit } else { Step::Forbid(COMMANDS[random.below(COMMANDS.len())]) });
    random.pick(&steps).clone()
}

#[test]
fn a_schedule_follows_from_its_seed() {
    let of = |seed| random(&mut Random::seeded(seed), 200);
    assert_eq!(of(7), of(7));
    assert_ne!(of(7), of(8));
    assert_eq!(of(7).last(), Some(&Step::Settle));
    // A node that is killed gets no step but its start.
    let mut shape = Shape::default();
    for step in of(9) {
        if let Step::Vote(node, _) | Step::Ask(node, _) | Step::Cut(node) = step {
            assert!(!shape.killed[node], "{step:?}");
        }
        shape.note(&step);
    }
}
