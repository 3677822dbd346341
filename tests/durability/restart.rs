//! What a start in order finds: the same votes with the same instants, the same servers and
//! tokens, and nothing that was cancelled, replaced or removed.

use crate::durability::files::stop;
use crate::util::control::Control;
use crate::util::ledger::{COOLDOWN_S, Ledger, SERVER, address, exported_votes, next_votes, serve};
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use rustix::process::Signal;
use std::path::Path;

fn restarted(server: Server, folder: &Path) -> Server {
    stop(server);
    serve(folder, &[])
}

fn record(control: &Control, number: u32, voted_at: i64) -> u16 {
    let body = format!(r#"{{"server_id":{SERVER},"ip":"{}","voted_at":{voted_at}}}"#, address(number));
    control.post("/v1/votes?mode=record", &body).status
}

fn cancel(control: &Control, number: u32) -> u16 {
    control.delete(&format!("/v1/votes/{SERVER}/{}", address(number))).status
}

/// A sender's clock may be ahead: up to 5 s are taken, and are not taken back by a restart.
#[test]
fn votes_are_the_same_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    server.control_client().add_server(SERVER, "demo");
    let mut ledger = Ledger::default();
    for (number, age_s) in [-4, 0, 1, 59, 60, 1_800, 5_300, 5_380].into_iter().enumerate() {
        let number = u32::try_from(number).expect("a small number");
        ledger.cast(&server.control_client(), (SERVER, address(number)), now_unix() - age_s);
    }
    let server = restarted(server, folder.path());
    ledger.expect(&server, "after one restart");
    let again = server.control_client().cast(SERVER, address(0));
    assert_eq!(again.status, 409, "{again:?}");
    ledger.expect(&restarted(server, folder.path()), "after two");
}

/// What has expired while nobody ran is not there; what expires a little later is.
#[test]
fn votes_end_while_nobody_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let later = now_unix() - 60;
    assert_eq!(record(&control, 2, later), 201);
    // On a busy machine a vote with a second to live may end before it is recorded.
    let mut ends = (0..6).map(|doubled| now_unix() + (1 << doubled) - COOLDOWN_S);
    let soon = ends.find(|voted_at| record(&control, 1, *voted_at) == 201).expect("it is recorded before it ends");
    stop(server);
    while now_unix() < soon + COOLDOWN_S {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let server = serve(folder.path(), &[]);
    let pairs = [1, 2].map(|number| (SERVER, address(number)));
    assert_eq!(next_votes(&server, &pairs), [None, Some(rfc3339(later + COOLDOWN_S))]);
    assert_eq!(exported_votes(&server.control_client()), [(pairs[1], rfc3339(later))].into());
}

/// Also where the process was started again within the second.
#[test]
fn a_vote_after_a_cancellation_and_a_restart_is_of_a_later_second() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = serve(folder.path(), &[]);
    server.control_client().add_server(SERVER, "demo");
    let mut instants = Vec::new();
    for _ in 0..6 {
        let response = server.control_client().cast(SERVER, address(1));
        assert_eq!(response.status, 201, "{response:?}");
        instants.push(response.json()["voted_at"].as_str().expect("an instant").to_owned());
        assert_eq!(cancel(&server.control_client(), 1), 200);
        server.signal(Signal::KILL);
        drop(server);
        server = serve(folder.path(), &[]);
    }
    assert!(instants.windows(2).all(|pair| pair[0] < pair[1]), "{instants:?}");
}
