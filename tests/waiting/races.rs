//! Voters against waiters: a question that is on its way while its vote is recorded is told of the vote, whichever
//! is first. The deadline of a read bounds a round, and is shorter than the wait.

use super::{cooldown, request};
use crate::util::client::Client;
use crate::util::endpoint::Endpoint;
use crate::util::needs::is_long;
use crate::util::random::Random;
use crate::util::response::Response;
use crate::util::server::Server;
use std::net::Ipv4Addr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

/// Waiters of one round.
const WAITERS: usize = 4;
/// How often, and after which pause, a request that was answered 503 is sent again.
const AGAIN_MAX: usize = 20;
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// Gives the cooldown in a right answer, and `None` for a wrong one. The flag: the request was sent again after a 503.
type Judge = fn(&Response, bool) -> Option<String>;

/// The number of rounds, each with an address of its own; many more in a long run.
fn rounds(usual: u32) -> u32 {
    if is_long() { usual * 50 } else { usual }
}

#[test]
fn every_waiter_is_told_with_one_worker_and_with_two() {
    for workers in ["1", "2"] {
        race(&[&Server::listed(&["--workers", workers])], rounds(2_000), 2_000);
    }
}

/// Each asks and votes through both nodes in turn: the feed wakes waiters as the recorder does.
#[cfg(feature = "redis")]
#[test]
fn every_waiter_is_told_through_two_nodes() {
    use crate::cluster::util::{engine::Engine, node::Node};
    let Some(store) = Engine::try_store(&[]) else { return };
    let nodes = Node::start_many(2, &store.url(), &[]);
    nodes[0].control().add_server(28, "demo");
    for node in &nodes {
        node.wait_until_recording(28);
        node.wait_until_listed(28);
    }
    race(&[nodes[0].server(), nodes[1].server()], rounds(200), 200_000);
}

/// Casts a vote while some connections ask for the same pair. Each first pauses for up to `steps` steps, so that in some
/// rounds each comes first, and in some all come at the same time. All must get the cooldown of the vote.
fn race(servers: &[&Server], rounds: u32, steps: usize) {
    let (barrier, is_over) = (Barrier::new(WAITERS + 1), AtomicBool::new(false));
    let take_part =
        |seed: u64, to: &dyn Fn(&Server) -> Endpoint, request: &dyn Fn(Ipv4Addr) -> String, judge: Judge| {
            let mut random = Random::seeded(seed);
            let mut clients: Vec<Client> = servers.iter().map(|server| Client::connect(to(server))).collect();
            let mut given = Vec::new();
            for round in 0..rounds {
                barrier.wait();
                (0..random.below(steps)).for_each(|_| std::hint::spin_loop());
                let client = &mut clients[random.below(servers.len())];
                let request = request(Ipv4Addr::from(0x0A00_0000 + round));
                let mut ask = || client.try_send(request.clone()).and_then(|()| client.try_read_response(false));
                let (mut response, mut again) = (ask(), 0);
                // On a machine that stalls, a node may lose the store for a moment. It answers 503, and is asked again.
                while again < AGAIN_MAX && response.as_ref().is_ok_and(|response| response.status == 503) {
                    sleep(AGAIN_AFTER);
                    (response, again) = (ask(), again + 1);
                }
                let told = response.as_ref().ok().and_then(|response| judge(response, again > 0));
                is_over.fetch_or(told.is_none(), Ordering::Relaxed);
                given.push(told.ok_or_else(|| format!("{response:?}")));
                // A party that has failed goes only after the same round as all others, so none waits for it.
                barrier.wait();
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
            }
            given
        };
    let mut random = Random::from_environment();
    let seeds: Vec<u64> = (0..=WAITERS).map(|_| random.next()).collect();
    let ask = |address| request("GET", &format!("/api/vote/28/status/{address}?wait=50"));
    let control = servers[0].control_client();
    let vote =
        |address| control.request_bytes("POST", "/v1/votes", Some(&format!(r#"{{"server_id":28,"ip":"{address}"}}"#)));
    let told: Judge = |response, _| (response.status == 200).then(|| response.text().to_owned());
    // A vote in doubt may have been recorded.
    let recorded: Judge = |response, is_again| match response.status {
        409 if !is_again => None,
        201 | 409 => response.json()["next_vote_at"].as_str().map(cooldown),
        _ => None,
    };
    scope(|threads| {
        let waiters = seeds[1..]
            .iter()
            .map(|seed| threads.spawn(|| take_part(*seed, &|server| server.public().into(), &ask, told)));
        let waiters: Vec<_> = waiters.collect();
        let voted = take_part(seeds[0], &|server| server.control().into(), &vote, recorded);
        for waiter in waiters {
            let told = waiter.join().expect("a thread that ends");
            for (round, (told, voted)) in told.iter().zip(&voted).enumerate() {
                assert!(told.is_ok() && told == voted, "round {round}: {voted:?}, and told {told:?}");
            }
        }
    });
}
