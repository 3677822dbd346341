//! Many callers over many pairs, across the end of cooldowns: exactly one vote per pair and
//! cooldown is recorded. With a store on disk, as in use.

use crate::util::client::Client;
use crate::util::control::Control;
use crate::util::ledger::{Pair, SERVER, address, cast_bytes, serve};
use crate::util::random::Random;
use crate::util::time::{now_unix_ms, rfc3339};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::thread::{scope, sleep};
use std::time::Duration;

const CONNECTIONS: usize = 64;
const PAIRS: u32 = 1_000;
const ROUNDS: usize = 3;
/// Length of the cooldown.
const COOLDOWN_S: i64 = 60;
/// What is left of a cooldown when its round begins: votes are cast with an earlier instant, so
/// that no round lasts a minute. A round has to be over by then; on a machine that is too busy it is longer.
const LEFT_S: i64 = 14;
/// A round begins so long before the cooldowns of the one before it end.
const EARLY_MS: i64 = 500;
/// Requests that are sent before their answers are read.
const PIPELINED: usize = 25;

#[test]
fn one_vote_per_pair_and_cooldown() {
    let mut random = Random::from_environment();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &["--cooldown-minutes", "1"]);
    let (control, addr) = (server.control_client(), server.control());
    control.add_server(SERVER, "demo");
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| Client::connect(addr)).collect();
    let (mut left_s, mut round) = (LEFT_S, 0);
    let mut voted_at = now_unix_ms() / 1_000 + left_s - COOLDOWN_S;
    while round < ROUNDS {
        let mut works = Vec::new();
        for client in &mut clients {
            works.push(Round { control: &control, addr, client, voted_at, pairs: shuffled(&mut random) });
        }
        let recorded = scope(|threads| {
            let started: Vec<_> = works.into_iter().map(|work| threads.spawn(move || work.cast_all())).collect();
            let mut recorded: HashMap<Pair, usize> = HashMap::new();
            for thread in started {
                for pair in thread.join().expect("a caller failed") {
                    *recorded.entry(pair).or_default() += 1;
                }
            }
            recorded
        });
        let late_ms = now_unix_ms() - (voted_at + COOLDOWN_S) * 1_000;
        if late_ms >= 0 {
            // A busy machine: again, with more time. What this round has recorded is over.
            left_s *= 2;
            assert!(left_s < COOLDOWN_S, "round {round} was not over in time: {late_ms} ms too late");
            voted_at = now_unix_ms() / 1_000 + left_s - COOLDOWN_S;
            continue;
        }
        for number in 0..PAIRS {
            let count = recorded.get(&(SERVER, address(number))).copied().unwrap_or(0);
            assert_eq!(count, 1, "round {round}: {} was recorded {count} times", address(number));
        }
        println!("round {round}: {PAIRS} pairs recorded once each, {} ms before their end", -late_ms);
        let next_ms = (voted_at + COOLDOWN_S) * 1_000 - EARLY_MS;
        sleep(Duration::from_millis(u64::try_from(next_ms - now_unix_ms()).unwrap_or(0)));
        voted_at += left_s;
        round += 1;
    }
}

/// What one connection does in a round.
struct Round<'r> {
    control: &'r Control,
    addr: SocketAddr,
    client: &'r mut Client,
    voted_at: i64,
    /// In an order of its own.
    pairs: Vec<Pair>,
}

fn shuffled(random: &mut Random) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = (0..PAIRS).map(|number| (SERVER, address(number))).collect();
    for at in (1..pairs.len()).rev() {
        pairs.swap(at, random.below(at + 1));
    }
    pairs
}

impl Round<'_> {
    /// Casts each pair until it is in the cooldown of this round, whoever
    /// has put it there; gives the pairs that this connection was told to be recorded.
    fn cast_all(self) -> Vec<Pair> {
        let mut pairs = self.pairs;
        let next_vote_at = rfc3339(self.voted_at + COOLDOWN_S);
        let mut recorded = Vec::new();
        while !pairs.is_empty() {
            let mut still_cooling = Vec::new();
            for part in pairs.chunks(PIPELINED) {
                let requests = part.iter().map(|pair| cast_bytes(self.control, *pair, self.voted_at));
                self.client.send(requests.collect::<String>());
                for pair in part {
                    let response = self.client.read_response(false);
                    let is_this_round = response.json()["next_vote_at"] == next_vote_at;
                    match response.status {
                        201 if is_this_round => recorded.push(*pair),
                        409 if is_this_round => {}
                        409 => still_cooling.push(*pair),
                        _ => panic!("{} at {}: {response:?}", pair.1, self.addr),
                    }
                }
            }
            pairs = still_cooling;
        }
        recorded
    }
}
