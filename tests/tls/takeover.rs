//! Another process takes over while clients ask under TLS: none that comes anew is refused, and
//! those that are connected are answered and told of the end.

use super::{GET, ask, folder, text};
use crate::util::DEADLINE;
use crate::util::answers::NOT_READY;
use crate::util::client::Client;
use crate::util::server::Server;
use crate::util::tls::Pair;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

fn process(data: &Path, pair: &Pair, public: &str, control: &str) -> Server {
    let mut command = Server::command();
    command.args(["serve", "--takeover", "--data-dir", text(data), "--listen", public, "--control", control]);
    command.args(["--tls-cert", text(&pair.cert), "--tls-key", text(&pair.key)]);
    Server::spawn(command)
}

#[test]
fn a_takeover_refuses_nobody() {
    const TAKEOVERS: usize = 3;
    let Some(folder) = folder() else { return };
    let pair = Pair::make(folder.path(), "pair", "ec");
    let data = folder.path().join("data");
    let mut running = process(&data, &pair, "127.0.0.1:0", "127.0.0.1:0");
    running.control_client().add_server(28, "demo");
    let (public, control) = (running.public().to_string(), running.control().to_string());
    let endpoint = running.publics()[0].clone();
    let (answered, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    scope(|scope| {
        for _ in 0..3 {
            let (endpoint, answered, is_over) = (&endpoint, &answered, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    ask(&mut Client::connect(endpoint));
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for _ in 0..TAKEOVERS {
            let until = Instant::now() + DEADLINE;
            let before = answered.load(Ordering::Relaxed);
            while answered.load(Ordering::Relaxed) < before + 50 && Instant::now() < until {
                sleep(Duration::from_millis(5));
            }
            let mut idle = Client::connect(&endpoint);
            ask(&mut idle);
            let mut begun = Client::connect(&endpoint);
            ask(&mut begun);
            begun.send(&GET[..20]);
            let next = process(&data, &pair, &public, &control);
            begun.send(&GET[20..]);
            let response = begun.read_response(false);
            // That process no longer knows of all votes, and guesses nothing.
            assert_eq!(response.text(), NOT_READY.body, "{response:?}");
            begun.expect_closed();
            idle.expect_closed();
            assert_eq!(running.wait_exit(DEADLINE).code(), Some(0), "{}", running.stderr());
            assert!(!running.stderr().contains("panicked"), "{}", running.stderr());
            running = next;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let answered = answered.into_inner();
    assert!(answered > TAKEOVERS * 50, "too few answers: {answered}");
}
