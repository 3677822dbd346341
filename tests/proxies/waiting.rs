//! `?wait=N` through each proxy, with the service's own file and inside a site. The proxy lets it wait, and answers all
//! other requests within a caller's patience as before, also while the service is frozen.

use crate::proxies::away::{TOKEN_PATH, expect_away};
use crate::proxies::before;
use crate::proxies::front::{Front, Kind};
use crate::proxies::site::site;
use crate::util::answers::CAN_VOTE;
use crate::util::client::Client;
use crate::util::patience::in_time;
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::{DEADLINE, wait_until};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

/// Longer than the 4 s that a proxy gives the service for all other requests.
const BEFORE_THE_VOTE: Duration = Duration::from_secs(5);

const PATH: &str = "/api/vote/28/status/203.0.113.7";

/// Requests that wait, each on a connection of its own.
const WAITING: &[&str] = &[
    "GET /api/vote/28/status/203.0.113.7?wait=50",
    "GET /api/servers/demo/vote-status/203.0.113.7/?_=1&wait=25",
    "HEAD /api/vote/28/status/%3A%3Affff%3A203.0.113.7?wait=0000000099999&_=1",
];

/// Queries that do not wait.
const NOT_WAITING: &[&str] = &["", "?wait=0", "?wait=5s", "?wait=", "?await=5", "?wait=-5", "?Wait=5", "?x=wait=5"];

fn ask(addr: SocketAddr, line: &str) -> Client {
    let mut client = Client::connect(addr);
    client.send(format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    client
}

/// The service's own files, and those for a site, which is asked over TLS as the plain one redirects.
#[test]
fn a_wait_is_told_through_each_proxy_and_a_frozen_service_is_noticed_as_before() {
    let (server, pages) = (Server::listed(&[]), Stub::nobody());
    let kinds = [Kind::Nginx, Kind::Haproxy, Kind::Caddy];
    let alone = kinds.iter().filter_map(|kind| before(*kind, &server));
    let inside = kinds.iter().filter_map(|kind| site(*kind, server.public(), pages.addr()));
    let mut fronts: Vec<Front> = alone.chain(inside).collect();
    let addrs: Vec<SocketAddr> = fronts.iter_mut().flat_map(|front| [front.plain, front.tunnel()]).collect();

    let ways = || addrs.iter().flat_map(|addr| WAITING.iter().map(move |line| (*addr, *line)));
    let mut held: Vec<Client> = ways().map(|(addr, line)| ask(addr, line)).collect();
    server.await_metric("vote_status_waiting", held.len() as u64);
    let since = Instant::now();
    for addr in &addrs {
        for query in NOT_WAITING {
            let response = in_time(query, || ask(*addr, &format!("GET {PATH}{query}")).read_response(false));
            assert_eq!((response.status, response.text()), (200, CAN_VOTE.body), "{query}");
        }
    }
    sleep(BEFORE_THE_VOTE.saturating_sub(since.elapsed()));
    assert_eq!(server.control_client().cast(28, [203, 0, 113, 7]).status, 201);
    let told = Instant::now();
    for (client, (addr, line)) in held.iter_mut().zip(ways()) {
        let is_head = line.starts_with("HEAD");
        let response = client.read_response(is_head);
        assert_eq!(response.status, 200, "{addr} {line}: {response:?}");
        assert!(is_head || response.json()["can_vote"] == false, "{addr} {line}: {response:?}");
        // The connection still works.
        client.send(format!("GET {TOKEN_PATH} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
        assert_eq!(client.read_response(false).text(), CAN_VOTE.body, "{addr} {line}");
    }
    println!("{} told within {:?} after {BEFORE_THE_VOTE:?}", held.len(), told.elapsed());

    server.pause();
    scope(|threads| {
        for (addr, query) in addrs.iter().zip(NOT_WAITING.iter().cycle()) {
            threads.spawn(move || {
                let label = format!("{addr} {query:?} of a frozen service");
                let asked = || ask(*addr, &format!("GET {PATH}{query}")).read_response(false);
                expect_away(&label, &in_time(&label, asked), false);
            });
        }
    });
}

/// The wait is answered at once with the safe body, or goes on at the other node. The node is killed soon, and after the
/// 4 s for which nginx tries another node.
#[test]
fn a_node_that_is_killed_under_a_wait_leaves_nobody_without_an_answer() {
    scope(|threads| {
        for kind in [Kind::Nginx, Kind::Haproxy, Kind::Caddy] {
            for pause in [Duration::ZERO, BEFORE_THE_VOTE] {
                threads.spawn(move || kill_under_a_wait(kind, pause));
            }
        }
    });
}

fn kill_under_a_wait(kind: Kind, pause: Duration) {
    let mut nodes = [Server::listed(&[]), Server::listed(&[])];
    let Some(front) = Front::start(kind, &nodes.each_ref().map(Server::public)) else { return };
    // The second request of a connection, as a proxy may close after one without an answer.
    let mut client = ask(front.plain, &format!("GET {TOKEN_PATH}"));
    assert_eq!(client.read_response(false).status, 200);
    client.send(format!("GET {PATH}?wait=50 HTTP/1.1\r\nHost: a\r\n\r\n"));
    let waits = |server: &Server| server.metric("vote_status_waiting") == 1;
    wait_until("one of the two holds it", || nodes.iter().any(waits));
    sleep(pause);
    let holder = usize::from(waits(&nodes[1]));
    nodes[holder].signal(Signal::KILL);
    nodes[holder].wait_exit(DEADLINE);
    assert_eq!(nodes[1 - holder].control_client().cast(28, [203, 0, 113, 7]).status, 201);
    let from = Instant::now();
    let response = in_time(&format!("{kind:?}"), || client.read_response(false));
    if response.status == 200 {
        assert_eq!(response.json()["can_vote"], false, "{kind:?}: {response:?}");
    } else {
        expect_away(&format!("{kind:?}"), &response, false);
    }
    println!("{kind:?}: killed after {pause:?}, answered {} after {:?}", response.status, from.elapsed());
}

#[test]
fn who_goes_away_behind_nginx_and_caddy_is_taken_out() {
    let server = Server::listed(&[]);
    for kind in [Kind::Nginx, Kind::Caddy] {
        let Some(front) = before(kind, &server) else { continue };
        let client = ask(front.plain, &format!("GET {PATH}?wait=50"));
        server.await_metric("vote_status_waiting", 1);
        drop(client);
        server.await_metric("vote_status_waiting", 0);
    }
}
