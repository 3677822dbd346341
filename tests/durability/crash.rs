//! kill -9 while votes come in, again and again on one directory. Each answered vote is there after
//! the next start, and none is there by half.

use crate::util::DEADLINE;
use crate::util::client::Client;
use crate::util::control::Control;
use crate::util::ledger::{Ledger, Pair, SERVER, address, cast_bytes, serve, voted};
use crate::util::needs::rounds;
use crate::util::random::Random;
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use rustix::process::Signal;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

const CONNECTIONS: usize = 32;
/// The most votes that are answered before the kill, about.
const ANSWERED_MAX: usize = 300;

/// The votes of one connection: the instant of each, and whether it was answered.
type Sent = Vec<(Pair, i64, bool)>;

#[test]
fn what_was_answered_survives_kill_9() {
    let mut random = Random::from_environment();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_, mut all) = voted(folder.path(), 0);
    let next = AtomicU32::new(0);
    for round in 0..rounds(30) {
        let server = serve(folder.path(), &[]);
        let wait = Kill { answered: random.below(ANSWERED_MAX), then: Duration::from_micros(random.next() % 5_000) };
        note_all(&mut all, cast_until_killed(server, &next, &wait));
        let server = serve(folder.path(), &[]);
        all.expect(&server, &format!("round {round}"));
    }
    println!("{} votes answered, {} not answered", all.recorded.len(), all.unanswered.len());
    assert!(all.recorded.len() > all.unanswered.len(), "hardly any vote was answered");
}

fn note_all(ledger: &mut Ledger, sent: Sent) {
    for (pair, voted_at, is_answered) in sent {
        let votes = if is_answered { &mut ledger.recorded } else { &mut ledger.unanswered };
        votes.insert(pair, voted_at);
    }
}

/// When to kill: the time `then` after `answered` answers.
struct Kill {
    answered: usize,
    then: Duration,
}

fn cast_until_killed(mut server: Server, next: &AtomicU32, kill: &Kill) -> Sent {
    let (control, addr) = (server.control_client(), server.control());
    let answered = AtomicUsize::new(0);
    scope(|threads| {
        let cast = || threads.spawn(|| cast_until_closed(&control, addr, next, &answered));
        let casting: Vec<_> = (0..CONNECTIONS).map(|_| cast()).collect();
        let until = Instant::now() + DEADLINE;
        while answered.load(Ordering::Relaxed) < kill.answered && Instant::now() < until {
            sleep(Duration::from_micros(200));
        }
        sleep(kill.then);
        server.signal(Signal::KILL);
        server.wait_exit(DEADLINE);
        let sent = casting.into_iter().map(|thread| thread.join().expect("a caller failed"));
        sent.flatten().collect()
    })
}

fn cast_until_closed(control: &Control, addr: SocketAddr, next: &AtomicU32, answered: &AtomicUsize) -> Sent {
    let mut sent = Sent::new();
    let Ok(mut client) = Client::try_connect(addr) else { return sent };
    loop {
        let (pair, voted_at) = ((SERVER, address(next.fetch_add(1, Ordering::Relaxed))), now_unix());
        let request = cast_bytes(control, pair, voted_at);
        let response = client.try_send(request).and_then(|()| client.try_read_response(false));
        let Ok(response) = response else {
            sent.push((pair, voted_at, false));
            return sent;
        };
        assert_eq!(response.status, 201, "{response:?}");
        assert_eq!(response.json()["next_vote_at"], rfc3339(voted_at + 5_400), "{response:?}");
        sent.push((pair, voted_at, true));
        answered.fetch_add(1, Ordering::Relaxed);
    }
}
