//! The requests of a simulation, drawn from a seed.

use super::{ADDRESSES, Ask, Ballot, End, Named, Operation, SERVERS, When};
use crate::util::random::Random;

pub(super) fn small(random: &mut Random, bound: usize) -> i64 {
    i64::try_from(random.below(bound)).expect("small")
}

/// Draws from few pairs, so that they meet again.
pub(super) fn pair(random: &mut Random) -> (usize, usize) {
    (random.below(SERVERS), if random.below(3) > 0 { random.below(4) } else { random.below(ADDRESSES) })
}

pub(super) fn cast(server: usize, address: usize) -> Ask {
    let ballot = Ballot { server, by_token: false, addresses: vec![address], when: When::Now };
    Ask::Votes { ballots: vec![ballot], is_record: false }
}

/// A server is listed again, and requests for another server of that listing come while votes of the first are taken away.
pub(super) fn listed_again_in_parts(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let other = (server + 1) % SERVERS;
    let votes = (0..3).map(|nth| cast(server, (address + nth) % ADDRESSES)).chain([cast(other, address)]).collect();
    let list = Ask::List { servers: vec![(server, Named::New), (other, Named::New)], keeps: random.below(2) == 0 };
    let meanwhile = match random.below(4) {
        0 => vec![cast(other, address), Ask::Remove { server: other }],
        1 => vec![Ask::Remove { server: other }],
        2 => vec![Ask::Remove { server: other }, Ask::List { servers: vec![(other, Named::New)], keeps: false }],
        _ => vec![ask(random)],
    };
    vec![
        Operation::Ask(votes),
        Operation::Ask(vec![Ask::Remove { server }]),
        Operation::AskTwice(vec![list], meanwhile),
    ]
}

/// Several requests for one pair in one step: a vote, its cancellation, a vote.
pub(super) fn batch_of_one_pair(random: &mut Random) -> Vec<Operation> {
    let (server, address) = pair(random);
    let count = 2 + random.below(5);
    let asks = (0..count).map(|_| match random.below(12) {
        0..=4 => cast(server, address),
        5..=7 => Ask::Cancel { server, address },
        8 => Ask::List { servers: vec![(server, Named::New)], keeps: false },
        9 => Ask::Remove { server },
        10 => Ask::CancelAll { address },
        _ => {
            let when = *random.pick(&[When::Again(0), When::Again(1), When::Ago(0), When::Ago(-5), When::Ago(3)]);
            let ballot = Ballot { server, by_token: random.below(2) == 0, addresses: vec![address], when };
            Ask::Votes { ballots: vec![ballot], is_record: random.below(2) == 0 }
        }
    });
    let mut scene = vec![Operation::Ask(asks.collect())];
    if random.below(3) == 0 {
        let end = *random.pick(&[End::Stop, End::Kill, End::PowerCut]);
        scene.push(Operation::Restart {
            end,
            off_ms: *random.pick(&[0, 0, 50, 700]),
            step_ms: 0,
            accepts_clock: false,
        });
        scene.push(Operation::Ask(vec![cast(server, address)]));
    }
    scene
}

pub(super) fn asks(random: &mut Random) -> Operation {
    let count = if random.below(3) == 0 { 1 + random.below(4) } else { 1 };
    Operation::Ask((0..count).map(|_| ask(random)).collect())
}

pub(super) fn ask(random: &mut Random) -> Ask {
    let (server, address) = pair(random);
    match random.below(32) {
        0..=14 => {
            let is_record = random.below(5) == 0;
            Ask::Votes { ballots: vec![ballot(random, is_record)], is_record }
        }
        15..=18 => {
            let is_record = random.below(2) == 0;
            let ballots = (0..1 + random.below(5)).map(|_| ballot(random, is_record)).collect();
            Ask::Votes { ballots, is_record }
        }
        19..=22 => Ask::Cancel { server, address },
        23 => Ask::CancelAll { address },
        24 | 25 => Ask::Remove { server },
        26 => Ask::Rotate { server },
        27 | 28 => {
            let servers = (0..1 + random.below(3)).map(|_| (random.below(SERVERS), named(random))).collect();
            Ask::List { servers, keeps: random.below(2) == 0 }
        }
        _ => Ask::List { servers: vec![(server, Named::New)], keeps: false },
    }
}

fn named(random: &mut Random) -> Named {
    match random.below(6) {
        0 | 1 => Named::New,
        2 => Named::Not,
        3 | 4 => Named::Newest(random.below(SERVERS)),
        _ => Named::Earlier(random.below(SERVERS)),
    }
}

fn ballot(random: &mut Random, is_record: bool) -> Ballot {
    let count = if random.below(4) == 0 { 2 + random.below(3) } else { 1 };
    let (server, first) = pair(random);
    let when = match random.below(6) {
        _ if !is_record && random.below(3) > 0 => When::Now,
        0 | 1 => When::Ago(*random.pick(&[-7, -6, -5, -4, -1, 0])),
        2 => When::OldBy(*random.pick(&[-2, -1, 0, 1, -60, -600])),
        3 => When::Again(*random.pick(&[0, 1, -1, 5])),
        _ => When::Ago(small(random, 4_000)),
    };
    let others = (1..count).map(|_| random.below(ADDRESSES)).collect::<Vec<_>>();
    Ballot { server, by_token: random.below(5) == 0, addresses: [vec![first], others].concat(), when }
}
