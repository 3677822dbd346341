//! What happens to a service, drawn from a seed: requests, clocks, faults of the disk, stops and starts.

use super::disk::Kill;
use crate::util::random::Random;

/// Servers and addresses are told by number.
pub(crate) const SERVERS: usize = 3;
pub(crate) const ADDRESSES: usize = 12;

/// One thing that happens. Plain data, so that a case can be cut down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    /// Requests that the recorder meets in one step.
    Ask(Vec<Ask>),
    /// A vote and its cancellation, again and again.
    Flip {
        server: usize,
        address: usize,
        rounds: usize,
    },
    /// Time passes.
    Pass {
        ms: i64,
    },
    /// Time passes, and the process does not run: it is stopped, or the machine is suspended.
    Pause {
        ms: i64,
    },
    /// The wall clock is set.
    Step {
        ms: i64,
    },
    /// The wall clock is set back to what it was before the steps.
    ComeBack,
    Drift {
        ppm: i64,
    },
    /// The process ends, and another one starts.
    Restart {
        end: End,
        off_ms: i64,
        step_ms: i64,
        accepts_clock: bool,
    },
    /// A start with other options in between.
    OtherOptions {
        cooldown_s: Option<i64>,
        prefix: Option<u8>,
        accepts: bool,
    },
    /// The process is killed in the midst of its work, and the power may go with it.
    Kill {
        kill: Kill,
        cuts_power: bool,
    },
    Disk(Trouble),
}

/// How a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Stop,
    Kill,
    PowerCut,
}

/// What happens to the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    SyncsFail(u32),
    ReadsFail(u32),
    Full,
    ThinAndFull,
    ReadOnly,
    SyncTakes(i64),
    Heals,
    Evicts,
    Emptied,
    BackedUp,
    Restored,
    MovedAway,
    MovedBack,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Of one mode.
    Votes(Vec<Ballot>),
    Cancel {
        server: usize,
        address: usize,
    },
    List {
        server: usize,
    },
    Remove {
        server: usize,
    },
}

/// A vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ballot {
    pub(crate) server: usize,
    pub(crate) addresses: Vec<usize>,
    /// So many seconds before now; none for now.
    pub(crate) ago_s: Option<i64>,
    /// In place of that it has the instant of the latest vote of its first address, if there was one.
    pub(crate) is_again: bool,
    pub(crate) is_record: bool,
}

/// The steps of the clock: none is so near to a minute that a look more or less decides.
const STEPS_MS: &[i64] = &[
    -300,
    -1_000,
    -1_500,
    -5_000,
    -20_000,
    -50_000,
    700,
    2_000,
    40_000,
    90_000,
    600_000,
    3_600_000,
    7_200_000,
    21_600_000,
    86_400_000,
    604_800_000,
    -90_000,
    -600_000,
    -3_600_000,
    -7_200_000,
    -21_600_000,
    -86_400_000,
];
const PASSES_MS: &[i64] =
    &[10, 200, 900, 1_100, 4_000, 5_000, 30_000, 61_000, 200_000, 320_000, 640_000, 1_900_000, 5_300_000];
const OFF_MS: &[i64] = &[0, 50, 700, 3_000, 31_000, 300_000, 2_000_000];

/// The operations of a seed.
pub(crate) fn draw(random: &mut Random, count: usize) -> Vec<Operation> {
    let listed = |server| Operation::Ask(vec![Ask::List { server }]);
    let mut operations: Vec<Operation> = (0..SERVERS).map(listed).collect();
    // Each seed leans to some kinds of trouble, so that there are quiet ones of each.
    let leaning = [random.below(2), random.below(2), random.below(2)].map(|on| on == 1);
    while operations.len() < count {
        operations.push(one(random, leaning));
    }
    operations
}

fn one(random: &mut Random, [clocks, disk, ends]: [bool; 3]) -> Operation {
    loop {
        let operation = match random.below(24) {
            0..=8 => asks(random),
            9 => Operation::Flip {
                server: random.below(SERVERS),
                address: random.below(ADDRESSES),
                rounds: 1 + random.below(9),
            },
            10..=13 => Operation::Pass { ms: *random.pick(PASSES_MS) },
            14 if clocks => Operation::Pause { ms: *random.pick(PASSES_MS) },
            15 if clocks => Operation::Step { ms: *random.pick(STEPS_MS) },
            16 if clocks => Operation::ComeBack,
            17 if clocks => Operation::Drift { ppm: *random.pick(&[-400, 0, 30, 400]) },
            18 | 19 if ends => restart(random, clocks),
            20 if ends && random.below(2) == 0 => other_options(random),
            21 if ends => Operation::Kill { kill: kill(random), cuts_power: random.below(2) == 0 },
            22 | 23 if disk => Operation::Disk(trouble(random)),
            _ => continue,
        };
        return operation;
    }
}

fn asks(random: &mut Random) -> Operation {
    let count = if random.below(3) == 0 { 1 + random.below(4) } else { 1 };
    Operation::Ask((0..count).map(|_| ask(random)).collect())
}

fn ask(random: &mut Random) -> Ask {
    match random.below(20) {
        0..=9 => {
            let is_record = random.below(6) == 0;
            Ask::Votes(vec![ballot(random, is_record)])
        }
        10..=12 => {
            let is_record = random.below(2) == 0;
            Ask::Votes((0..1 + random.below(5)).map(|_| ballot(random, is_record)).collect())
        }
        13..=15 => Ask::Cancel { server: random.below(SERVERS), address: random.below(ADDRESSES) },
        16 | 17 => Ask::Remove { server: random.below(SERVERS) },
        _ => Ask::List { server: random.below(SERVERS) },
    }
}

fn ballot(random: &mut Random, is_record: bool) -> Ballot {
    let count = if random.below(4) == 0 { 2 + random.below(3) } else { 1 };
    let ago_s = match random.below(4) {
        _ if !is_record && random.below(3) > 0 => None,
        0 => Some(*random.pick(&[-7, -5, -4, -1, 0])),
        1 => Some(*random.pick(&[5_399, 5_400, 299, 300, 60])),
        _ => Some(i64::try_from(random.below(4_000)).expect("small")),
    };
    Ballot {
        server: random.below(SERVERS),
        addresses: (0..count).map(|_| random.below(ADDRESSES)).collect(),
        ago_s,
        // Not drawn anew, so that a seed stays what it was. No picked age is among them.
        is_again: ago_s.is_some_and(|ago_s| ago_s % 8 == 6),
        is_record,
    }
}

fn kill(random: &mut Random) -> Kill {
    if random.below(2) == 0 {
        return Kill::AtOperation(u32::try_from(random.below(60)).expect("small"));
    }
    Kill::AtSync { syncs: u32::try_from(random.below(4)).expect("small"), fails: random.below(2) == 0 }
}

fn restart(random: &mut Random, clocks: bool) -> Operation {
    Operation::Restart {
        end: *random.pick(&[End::Stop, End::Kill, End::PowerCut]),
        off_ms: *random.pick(OFF_MS),
        step_ms: if clocks && random.below(3) == 0 { *random.pick(STEPS_MS) } else { 0 },
        accepts_clock: random.below(4) == 0,
    }
}

fn other_options(random: &mut Random) -> Operation {
    Operation::OtherOptions {
        cooldown_s: if random.below(2) == 0 { Some(*random.pick(&[60, 300, 600, 5_400, 86_400])) } else { None },
        prefix: if random.below(2) == 0 { Some(*random.pick(&[48, 56, 64])) } else { None },
        accepts: random.below(3) == 0,
    }
}

fn trouble(random: &mut Random) -> Trouble {
    let few = 1 + u32::try_from(random.below(3)).expect("small");
    match random.below(24) {
        0..=3 => Trouble::SyncsFail(few),
        4 => Trouble::ReadsFail(few),
        5 | 6 => Trouble::Full,
        7 | 8 => Trouble::ThinAndFull,
        9 => Trouble::ReadOnly,
        10 => Trouble::SyncTakes(*random.pick(&[20, 900, 4_000, 30_000])),
        11..=16 => Trouble::Heals,
        17 | 18 => Trouble::Evicts,
        19 => Trouble::Emptied,
        20 => Trouble::BackedUp,
        21 => Trouble::Restored,
        22 => Trouble::MovedAway,
        _ => Trouble::MovedBack,
    }
}
