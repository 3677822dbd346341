//! The service is frozen with requests under way, and then killed. The proxy has to answer each request.

use crate::proxies::away::{TOKEN_PATH, expect_away};
use crate::proxies::front::Kind;
use crate::proxies::site::site;
use crate::proxies::{again_if_late, before, each_proxy};
use crate::util::DEADLINE;
use crate::util::answers::prepare;
use crate::util::checks::PATH;
use crate::util::client::Client;
use crate::util::server::Server;
use crate::util::stub::Stub;
use rustix::process::Signal;
use std::net::SocketAddr;
use std::thread::sleep;
use std::time::Duration;

/// Requests under way in each scene.
const ASKED: usize = 40;

/// The pause between the requests and the kill: none, and long enough for health checks to have failed.
const PAUSES: [Duration; 2] = [Duration::ZERO, Duration::from_millis(2500)];

#[test]
fn every_request_of_a_frozen_service_that_is_killed_is_answered() {
    each_proxy(every_scene);
}

/// Through the service's own file and the one for a site, plain and over TLS.
fn every_scene(kind: Kind) {
    let mut unanswered = 0;
    for pause in PAUSES {
        for is_site in [false, true] {
            for over_tls in [false, true] {
                let (server, pages) = (Server::in_memory(&[]), Stub::nobody());
                prepare(&server);
                let front = if is_site { site(kind, server.public(), pages.addr()) } else { before(kind, &server) };
                let Some(mut front) = front else { return };
                let count = scene(if over_tls { front.tunnel() } else { front.plain }, server, pause);
                println!("{kind:?}, a site {is_site}, TLS {over_tls}, {pause:?}: {count} of {ASKED} without an answer");
                unanswered += count;
            }
        }
    }
    assert_eq!(unanswered, 0, "{kind:?}: requests without an answer");
}

/// Returns how many requests get no answer. Half of them are the first of their connection, half follow another.
fn scene(addr: SocketAddr, mut server: Server, pause: Duration) -> usize {
    let ask = |client: &mut Client, path: &str| {
        client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    };
    let mut clients: Vec<Client> = (0..ASKED).map(|_| Client::connect(addr)).collect();
    // Requests at the same time, so that the proxy has many connections to the service.
    clients.iter_mut().step_by(2).for_each(|client| ask(client, PATH));
    for client in clients.iter_mut().step_by(2) {
        let response = again_if_late(client.read_response(false), || {
            *client = Client::connect(addr);
            ask(client, PATH);
            client.read_response(false)
        });
        assert_eq!(response.status, 200, "while the service runs");
    }
    server.pause();
    let paths = [PATH, PATH, TOKEN_PATH, TOKEN_PATH].into_iter().cycle();
    clients.iter_mut().zip(paths).for_each(|(client, path)| ask(client, path));
    sleep(pause);
    server.signal(Signal::KILL);
    server.wait_exit(DEADLINE);
    let answers = clients.iter_mut().map(|client| client.try_read_response(false));
    let (answered, failed): (Vec<_>, Vec<_>) = answers.partition(Result::is_ok);
    answered.into_iter().flatten().for_each(|response| expect_away("killed", &response, false));
    failed.len()
}
