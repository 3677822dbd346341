//! Voters against waiters: a question that is on its way while its vote is recorded is told of it, whichever
//! is first. A round is bounded by the deadline of a read, which is sooner than the wait is over.

use super::server;
use crate::util::client::Client;
use crate::util::random::Random;
use crate::util::server::Server;
use std::sync::Barrier;
use std::thread::scope;

/// Rounds, each with an address of its own; many more where time does not matter.
fn rounds() -> u32 {
    if std::env::var_os("VOTE_STATUS_TEST_LONG").is_some() { 100_000 } else { 2_000 }
}

/// Waiters of one round.
const WAITERS: usize = 4;

#[test]
fn every_waiter_is_told_with_one_worker() {
    race(&server(&["--workers", "1"]), rounds());
}

#[test]
fn every_waiter_is_told_with_two_workers() {
    race(&server(&["--workers", "2"]), rounds());
}

/// Casts a vote while the same is asked on some connections. Between the two there is a random number of
/// steps of either, so that each comes first, and at the same time, in some of the rounds.
fn race(server: &Server, rounds: u32) {
    let control = server.control_client();
    let mut random = Random::from_environment();
    let seeds: Vec<u64> = (0..=WAITERS).map(|_| random.next()).collect();
    let barrier = Barrier::new(WAITERS + 1);
    let address = |round: u32| std::net::Ipv4Addr::from(0x0A00_0000 + round);
    scope(|threads| {
        for seed in &seeds[1..] {
            let (barrier, server) = (&barrier, &server);
            threads.spawn(move || {
                let mut random = Random::seeded(*seed);
                let mut client = Client::connect(server.public());
                for round in 0..rounds {
                    barrier.wait();
                    pause(&mut random);
                    client.send(format!(
                        "GET /api/vote/28/status/{}?wait=50 HTTP/1.1\r\nHost: a\r\n\r\n",
                        address(round)
                    ));
                    let response = client.try_read_response(false);
                    let told = response.as_ref().is_ok_and(|response| response.json()["can_vote"] == false);
                    // Nothing fails before all have come here: nobody waits for a thread that has gone.
                    barrier.wait();
                    assert!(told, "round {round}: {response:?}");
                }
            });
        }
        let mut random = Random::seeded(seeds[0]);
        let mut voter = Client::connect(server.control());
        for round in 0..rounds {
            let body = format!(r#"{{"server_id":28,"ip":"{}"}}"#, address(round));
            let vote = control.request_bytes("POST", "/v1/votes", Some(&body));
            barrier.wait();
            pause(&mut random);
            voter.send(&vote);
            let response = voter.try_read_response(false);
            barrier.wait();
            assert_eq!(response.as_ref().map_or(0, |response| response.status), 201, "round {round}: {response:?}");
        }
    });
}

fn pause(random: &mut Random) {
    for _ in 0..random.below(2_000) {
        std::hint::spin_loop();
    }
}
