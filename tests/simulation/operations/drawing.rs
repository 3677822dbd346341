//! Draws operations as scenes, in which one operation leads to the next, and with weights.

use super::requests::{ask, asks, batch_of_one_pair, cast, listed_again_in_parts, pair};
use super::{Ask, Ballot, End, Named, Operation, SERVERS, Swap, Trouble, When};
use crate::simulation::disk::{Kill, Strike};
use crate::util::random::Random;

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
    86_400_000,
    604_800_000,
    -90_000,
    -600_000,
    -3_600_000,
    -7_200_000,
    -86_400_000,
];
/// Steps near a minute, near 10 minutes and near 11.
const NEAR_STEPS_MS: &[i64] = &[
    59_000, 60_000, 61_000, -59_000, -60_000, -61_000, 599_000, 601_000, -599_000, -601_000, -660_000, -662_000,
    59_900, 60_100, -59_900, -60_100,
];
const PASSES_MS: &[i64] =
    &[10, 200, 900, 1_100, 4_000, 5_000, 30_000, 61_000, 200_000, 320_000, 590_000, 640_000, 1_900_000, 5_300_000];
const OFF_MS: &[i64] = &[0, 50, 700, 3_000, 31_000, 58_000, 61_000, 300_000, 2_000_000];

/// The operations of a seed.
pub(crate) fn draw(random: &mut Random, count: usize) -> Vec<Operation> {
    let all = (0..SERVERS).map(|server| (server, Named::New)).collect();
    let mut operations = vec![Operation::Ask(vec![Ask::List { servers: all, keeps: false }])];
    // Each seed leans to some kinds of trouble, so that some seeds are quiet in each kind.
    let leaning = Leaning { clocks: random.below(2), disk: random.below(3).min(1), ends: random.below(2) };
    while operations.len() < count {
        operations.extend(scene(random, leaning));
    }
    operations
}

/// The kinds of trouble that a seed leans to: 1, or 0.
#[derive(Clone, Copy)]
struct Leaning {
    clocks: usize,
    disk: usize,
    ends: usize,
}

type Scene = fn(&mut Random, Leaning) -> Vec<Operation>;

fn scene(random: &mut Random, leaning: Leaning) -> Vec<Operation> {
    let Leaning { clocks, disk, ends } = leaning;
    let weights: [(usize, Scene); 19] = [
        (18, |random, _| vec![asks(random)]),
        (3, |random, _| vec![flip(random)]),
        (7, |random, _| vec![Operation::Pass { ms: *random.pick(PASSES_MS) }]),
        (5, |random, _| near_the_end(random)),
        (4, |random, _| batch_of_one_pair(random)),
        (1, |random, _| listed_again_in_parts(random)),
        (3 * clocks, |random, _| vec![Operation::Step { ms: step_ms(random) }]),
        (3 * clocks, |random, _| step_and_back(random)),
        (2 * clocks, |random, _| steps_that_add_up(random)),
        (2 * clocks, |random, _| vec![clock(random)]),
        (2 * clocks, goes_back),
        (2 * clocks, |random, _| ends_as_a_line_goes_back(random)),
        (clocks, |random, _| killed_when_taken(random)),
        (clocks, |random, _| spent_in_a_standstill(random)),
        (4 * ends, restart),
        (2 * ends, |random, _| vec![other_options(random)]),
        (2 * ends, |random, _| killed_at_work(random)),
        (5 * disk, |random, _| disk_trouble(random)),
        (disk * ends, |random, _| swap(random)),
    ];
    let mut at = random.below(weights.iter().map(|(weight, _)| weight).sum());
    for (weight, scene) in weights {
        if at < weight {
            return scene(random, leaning);
        }
        at -= weight;
    }
    Vec::new()
}

fn few(random: &mut Random, bound: usize) -> u32 {
    u32::try_from(random.below(bound)).expect("small")
}

fn step_ms(random: &mut Random) -> i64 {
    let is_near = random.below(3) == 0;
    *random.pick(if is_near { NEAR_STEPS_MS } else { STEPS_MS })
}

fn clock(random: &mut Random) -> Operation {
    match random.below(4) {
        0 => Operation::Pause { ms: *random.pick(PASSES_MS) },
        1 => Operation::Drift { ppm: *random.pick(&[-400, 0, 30, 400]) },
        2 => Operation::ComeBack,
        _ => Operation::ToTaken { off_ms: *random.pick(&[-1_100, -200, 0, 200, 1_100]) },
    }
}

fn flip(random: &mut Random) -> Operation {
    let (server, address) = pair(random);
    Operation::Flip { server, address, rounds: 1 + random.below(9) }
}

/// A vote, and requests around the end of its cooldown.
fn near_the_end(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let mut scene = Vec::new();
    if random.below(3) > 0 {
        scene.push(Operation::Ask(vec![cast(server, address)]));
    }
    let off_ms = *random.pick(&[-1_900, -1_000, -500, 0, 0, 500, 1_000]);
    scene.push(Operation::ToEnd { server, address, off_ms });
    for _ in 0..1 + random.below(3) {
        let ask = match random.below(5) {
            0 => Ask::Cancel { server, address },
            1 => ask(random),
            _ => cast(server, address),
        };
        scene.push(Operation::Ask(vec![ask]));
        if random.below(2) == 0 {
            scene.push(Operation::Pass { ms: *random.pick(&[10, 300, 1_000]) });
        }
    }
    scene
}

/// A clock that is wrong for a while.
fn step_and_back(random: &mut Random) -> Vec<Operation> {
    let mut scene = vec![Operation::Step { ms: step_ms(random) }];
    for _ in 0..random.below(4) {
        scene.push(match random.below(4) {
            0 => asks(random),
            1 => Operation::Pass { ms: *random.pick(PASSES_MS) },
            2 => Operation::ToTaken { off_ms: *random.pick(&[-1_100, -200, 0, 200, 1_100]) },
            _ => near_the_end(random).swap_remove(0),
        });
    }
    scene.push(if random.below(3) > 0 { Operation::ComeBack } else { Operation::Step { ms: step_ms(random) } });
    scene.push(asks(random));
    scene
}

/// The time shown goes back, and a kill or a fault may meet the change that does this.
fn goes_back(random: &mut Random, leaning: Leaning) -> Vec<Operation> {
    let ms = *random.pick(&[662_000, 3_600_000, 7_200_000, 86_400_000]);
    let mut scene = Vec::new();
    if random.below(2) == 0 {
        // The clock was ahead, long enough for its line to be taken or not, and comes back.
        let off_ms = *random.pick(&[-1_100, 200, 1_100]);
        scene.extend([Operation::Step { ms }, Operation::ToTaken { off_ms }, asks(random), Operation::ComeBack]);
    } else {
        scene.extend([asks(random), Operation::Step { ms: -ms }]);
    }
    scene.extend([asks(random), Operation::ToTaken { off_ms: -100 }]);
    match random.below(4) {
        0 if leaning.ends == 1 => {
            scene.push(Operation::Kill { kill: kill(random), cuts_power: random.below(2) == 0 });
        }
        1 if leaning.disk == 1 => scene.push(Operation::Strikes(vec![(few(random, 24), strike(random))])),
        _ => {}
    }
    scene.extend([Operation::Pass { ms: 300 }, asks(random), Operation::Pass { ms: 1_100 }]);
    if random.below(2) == 0 {
        scene.extend(restart(random, leaning));
    }
    scene
}

/// A cooldown ends just before the certain line or the time goes back, so no sweep has met it.
fn ends_as_a_line_goes_back(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let when = When::OldBy(*random.pick(&[-1, -2, -2]));
    let ballot = Ballot { server, by_token: false, addresses: vec![address], when };
    let vote = Operation::Ask(vec![Ask::Votes { ballots: vec![ballot], is_record: true }]);
    let step = Operation::Step { ms: -*random.pick(&[62_000, 300_000, 662_000, 7_200_000]) };
    if random.below(3) == 0 {
        let other = Operation::OtherOptions {
            cooldown_s: Some(*random.pick(&[600, 5_400, 86_400])),
            prefix: None,
            accepts: true,
            accepts_clock: true,
            off_ms: 0,
        };
        let to_end = Operation::ToEnd { server, address, off_ms: *random.pick(&[0, 20, 2_500]) };
        return vec![vote, to_end, step, other, cast_again(server, address)];
    }
    let taken = |off_ms| Operation::ToTaken { off_ms };
    let mut scene = vec![step, taken(-2_600), vote, taken(*random.pick(&[100, 300, 1_100]))];
    if random.below(2) == 0 {
        let end = *random.pick(&[End::Stop, End::Kill, End::PowerCut]);
        scene.push(Operation::Restart { end, off_ms: 50, step_ms: 0, accepts_clock: false });
    }
    scene.push(cast_again(server, address));
    scene
}

fn cast_again(server: usize, address: usize) -> Operation {
    Operation::Ask(vec![cast(server, address)])
}

/// A kill as soon as the service has taken the wall line, and the clock comes back.
fn killed_when_taken(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let end = *random.pick(&[End::Kill, End::PowerCut]);
    vec![
        cast_again(server, address),
        Operation::Step { ms: *random.pick(&[3_600_000, 7_200_000, 86_400_000]) },
        Operation::ToTaken { off_ms: *random.pick(&[60, 200]) },
        Operation::Restart { end, off_ms: *random.pick(&[0, 50, 700]), step_ms: 0, accepts_clock: false },
        Operation::ComeBack,
        Operation::Pass { ms: 300 },
        cast_again(server, address),
    ]
}

/// Votes come and go while the time stands still, and the process is killed.
fn spent_in_a_standstill(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let end = *random.pick(&[End::Kill, End::PowerCut]);
    vec![
        Operation::Step { ms: -*random.pick(&[20_000, 50_000, 300_000]) },
        Operation::Pass { ms: 300 },
        Operation::Flip { server, address, rounds: 1 + random.below(8) },
        Operation::Restart { end, off_ms: 50, step_ms: 0, accepts_clock: false },
        Operation::Pass { ms: *random.pick(&[50, 900, 7_000]) },
        Operation::Flip { server, address, rounds: 1 },
    ]
}

/// Small steps of the clock that make a large one.
fn steps_that_add_up(random: &mut Random) -> Vec<Operation> {
    let (first_ms, then_ms, count) = *random.pick(&[
        (-100_000, 50_000, 2),
        (-1_200_000, 59_000, 20),
        (59_000, -59_000, 4),
        (0, -59_000, 21),
        (0, 59_000, 12),
        (90_000, -31_000, 3),
        (0, -900, 20),
    ]);
    let pass_ms = *random.pick(&[50, 900, 5_000, 61_000]);
    let mut scene = vec![Operation::Step { ms: first_ms }, asks(random)];
    for _ in 0..count {
        scene.extend([Operation::Step { ms: then_ms }, Operation::Pass { ms: pass_ms }]);
    }
    scene.push(asks(random));
    scene
}

fn kill(random: &mut Random) -> Kill {
    if random.below(2) == 0 {
        return Kill::AtOperation(few(random, 60));
    }
    Kill::AtSync { syncs: few(random, 4), fails: random.below(2) == 0 }
}

/// A kill, and requests in which it strikes.
fn killed_at_work(random: &mut Random) -> Vec<Operation> {
    let kill = Operation::Kill { kill: kill(random), cuts_power: random.below(2) == 0 };
    vec![kill, asks(random), asks(random)]
}

fn restart(random: &mut Random, leaning: Leaning) -> Vec<Operation> {
    let step_ms = if leaning.clocks == 1 && random.below(3) == 0 { step_ms(random) } else { 0 };
    let off_ms = *random.pick(OFF_MS);
    let end = *random.pick(&[End::Stop, End::Kill, End::PowerCut]);
    let mut scene = Vec::new();
    if random.below(3) == 0 {
        scene.push(flip(random));
    }
    scene.push(Operation::Restart { end, off_ms, step_ms, accepts_clock: random.below(5) == 0 });
    if random.below(2) == 0 {
        scene.push(asks(random));
    }
    scene
}

fn other_options(random: &mut Random) -> Operation {
    Operation::OtherOptions {
        cooldown_s: if random.below(3) > 0 { Some(*random.pick(&[60, 300, 600, 5_400, 86_400])) } else { None },
        prefix: if random.below(2) == 0 { Some(*random.pick(&[48, 56, 64])) } else { None },
        accepts: random.below(2) == 0,
        accepts_clock: random.below(4) == 0,
        off_ms: *random.pick(&[0, 0, 0, 50_000, 130_000, 6_000_000]),
    }
}

fn strike(random: &mut Random) -> Strike {
    let count = 1 + few(random, 3);
    match random.below(12) {
        0..=3 => Strike::SyncsFail(count),
        4 => Strike::ReadsFail(count),
        5 => Strike::LooksFail(count),
        // EIO, EACCES, EFBIG, EDQUOT, ENOSPC.
        6 | 7 => Strike::ChangesFail { count, errno: *random.pick(&[5, 13, 27, 122, 28]) },
        8 | 9 => Strike::Full,
        10 => Strike::ThinAndFull,
        _ => Strike::ReadOnly,
    }
}

fn disk_trouble(random: &mut Random) -> Vec<Operation> {
    match random.below(10) {
        0..=3 => {
            // Most of them meet the very next commit.
            let within = *random.pick(&[8, 16, 24, 60]);
            let first = (few(random, within), strike(random));
            let second = (random.below(3) == 0).then(|| (few(random, 30), strike(random)));
            let mut scene = vec![Operation::Strikes([Some(first), second].into_iter().flatten().collect())];
            scene.extend((0..1 + random.below(3)).map(|_| asks(random)));
            if random.below(3) > 0 {
                scene.push(Operation::Disk(Trouble::Heals));
                if random.below(2) == 0 {
                    // Long enough that a service on a well disk has to take votes again.
                    scene.extend([Operation::Pass { ms: 31_000 }, asks(random)]);
                }
            }
            scene
        }
        4 => {
            let ms = *random.pick(&[20, 900, 2_500, 4_000, 30_000]);
            let mut scene =
                vec![Operation::Disk(Trouble::SyncTakes(ms)), asks(random), Operation::Disk(Trouble::Heals)];
            if random.below(2) == 0 {
                // Writing the store anew is slow too.
                scene.insert(1, Operation::Strikes(vec![(few(random, 24), Strike::SyncsFail(1))]));
            }
            scene
        }
        5 => {
            let away = match random.below(3) {
                0 => Operation::Disk(Trouble::MovedAway),
                1 => Operation::Disk(Trouble::AnotherAtPath),
                _ => Operation::Strikes(vec![(few(random, 24), Strike::MovedAway)]),
            };
            // The service notices it whether a vote comes or not.
            let meanwhile = if random.below(2) == 0 { asks(random) } else { Operation::Pass { ms: 4_000 } };
            let back = Operation::Disk(Trouble::MovedBack);
            let heals = Operation::Disk(Trouble::Heals);
            vec![away, meanwhile, heals, back, Operation::Pass { ms: 31_000 }, asks(random)]
        }
        6 if random.below(2) == 0 => {
            // Another program writes to the file.
            let trouble = *random.pick(&[Trouble::Emptied, Trouble::CutShort, Trouble::Restored]);
            let meanwhile = if random.below(2) == 0 { asks(random) } else { Operation::Pass { ms: 60_000 } };
            vec![
                Operation::Disk(Trouble::BackedUp),
                asks(random),
                Operation::Disk(trouble),
                meanwhile,
                Operation::Pass { ms: 31_000 },
                asks(random),
            ]
        }
        6 => vec![Operation::SecondProcess],
        7 => {
            // Long enough that the pauses between tries have grown.
            let full = Operation::Disk(Trouble::Strike(Strike::Full));
            let heals = Operation::Disk(Trouble::Heals);
            vec![
                full,
                asks(random),
                Operation::Pass { ms: 200_000 },
                asks(random),
                heals,
                Operation::Pass { ms: 31_000 },
            ]
        }
        _ => vec![Operation::Disk(trouble(random))],
    }
}

fn trouble(random: &mut Random) -> Trouble {
    match random.below(16) {
        0..=3 => Trouble::Strike(strike(random)),
        4 => Trouble::SyncTakes(*random.pick(&[20, 900])),
        5..=7 => Trouble::Heals,
        8 | 9 => Trouble::Evicts,
        10 => Trouble::Emptied,
        11 => Trouble::BackedUp,
        12 => Trouble::Restored,
        13 => Trouble::MovedAway,
        14 => Trouble::NoteDeleted,
        _ => Trouble::MovedBack,
    }
}

/// The operator copies the store, and later swaps files.
fn swap(random: &mut Random) -> Vec<Operation> {
    let swap = *random.pick(&[Swap::Older, Swap::OlderWithoutNote, Swap::NoNote, Swap::Gone]);
    let mut scene = vec![Operation::Disk(Trouble::BackedUp)];
    scene.extend((0..random.below(4)).map(|_| asks(random)));
    scene.push(Operation::Swap(swap));
    scene
}
