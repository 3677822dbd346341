//! Many callers at once: a vote is recorded at most once, and an acknowledged vote is seen.

use crate::util::client::{Client, get};
use crate::util::random::Random;
use crate::util::server::Server;
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::thread::scope;

const CALLERS: usize = 64;

#[test]
fn one_of_many_casts_is_recorded() {
    let server = Server::listed(&["--workers", "2"]);
    let control = server.control_client();
    let mut clients: Vec<Client> = (0..CALLERS).map(|_| Client::connect(server.control())).collect();
    for client in &mut clients {
        client.expect_open();
    }
    for round in 0..20 {
        let body = format!(r#"{{"server_id":28,"ip":"198.51.100.{round}"}}"#);
        let request = control.request_bytes("POST", "/v1/votes", Some(&body));
        let path = format!("/api/vote/28/status/198.51.100.{round}");
        let answers = at_once(&mut clients, |client| {
            client.send(&request);
            let response = client.read_response(false);
            let cast = response.json()["next_vote_at"].clone();
            // Recorded or refused, the cooldown is visible from the answer on.
            let seen = get(server.public(), &path).json()["next_vote_at"].clone();
            assert_eq!(cast, seen, "{response:?}");
            (response.status, cast.to_string())
        });
        let count = |status| answers.iter().filter(|answer| answer.0 == status).count();
        assert_eq!((count(201), count(409)), (1, CALLERS - 1), "round {round}");
        let instants: BTreeSet<_> = answers.iter().map(|answer| &answer.1).collect();
        assert_eq!(instants.len(), 1, "round {round}: {instants:?}");
        assert!(!instants.contains(&"null".to_owned()), "round {round}");
    }
}

/// Each caller's voter has some of eight addresses of both families, and any two voters share one. Exactly one
/// vote is recorded, with all of its addresses.
#[test]
fn one_of_many_overlapping_voters_is_recorded_whole() {
    let server = Server::listed(&["--workers", "2"]);
    let control = server.control_client();
    let mut random = Random::from_environment();
    for round in 0..20 {
        let address = |index: usize| match index % 2 {
            0 => format!("198.51.{round}.{index}"),
            _ => format!("2001:db8:{round}:{index}::{:x}", index + 1),
        };
        // More than half of the eight, in any order: two such lists have one in common.
        let mut voters: Vec<(Client, Vec<usize>)> = (0..CALLERS)
            .map(|_| {
                let mut indices: Vec<usize> = (0..8).collect();
                (0..8).for_each(|at| indices.swap(at, random.below(8)));
                indices.truncate(5 + random.below(4));
                (Client::connect(server.control()), indices)
            })
            .collect();
        let answers = at_once(&mut voters, |(client, indices)| {
            let ips: Vec<String> = indices.iter().map(|index| format!("{:?}", address(*index))).collect();
            let body = format!(r#"{{"server_id":28,"ips":[{}]}}"#, ips.join(","));
            client.send(control.request_bytes("POST", "/v1/votes", Some(&body)));
            client.read_response(false).status
        });
        let count = |status| answers.iter().filter(|answer| **answer == status).count();
        assert_eq!((count(201), count(409)), (1, CALLERS - 1), "round {round}");
        let winner = answers.iter().position(|status| *status == 201).expect("one was recorded");
        for index in 0..8 {
            let status = get(server.public(), &format!("/api/vote/28/status/{}", address(index))).json();
            let is_cooling = voters[winner].1.contains(&index);
            assert_eq!(status["can_vote"], !is_cooling, "round {round}, address {index} of {:?}", voters[winner].1);
        }
    }
}

/// Does `work` with each of `items` on a thread of its own, all released together. Nothing can fail
/// before that, so no thread waits for one that is gone.
fn at_once<T: Send, R: Send>(items: &mut [T], work: impl Fn(&mut T) -> R + Sync) -> Vec<R> {
    let barrier = Barrier::new(items.len());
    let (barrier, work) = (&barrier, &work);
    scope(|threads| {
        let start = |item| {
            threads.spawn(move || {
                barrier.wait();
                work(item)
            })
        };
        let started: Vec<_> = items.iter_mut().map(start).collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined.map(|done| done.expect("a caller failed")).collect()
    })
}
