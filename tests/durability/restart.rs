//! What a start in order finds: the same votes with the same instants, the same servers and
//! tokens, and nothing that was cancelled, replaced or removed.

use crate::durability::files::stop;
use crate::util::client::get;
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

#[test]
fn cancelled_votes_stay_cancelled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let mut ledger = Ledger::default();
    for number in 0..4 {
        ledger.cast(&control, (SERVER, address(number)), now_unix() - 60);
    }
    // Cancelled; cancelled and cast again; cancelled, cast and cancelled.
    for number in [1, 2, 3] {
        assert_eq!(cancel(&control, number), 200);
    }
    ledger.cast(&control, (SERVER, address(2)), now_unix() - 30);
    ledger.cast(&control, (SERVER, address(3)), now_unix() - 30);
    assert_eq!(cancel(&control, 3), 200);
    for number in [1, 3] {
        ledger.recorded.remove(&(SERVER, address(number)));
        ledger.refused.push((SERVER, address(number)));
    }
    ledger.expect(&server, "before the restart");
    ledger.expect(&restarted(server, folder.path()), "after it");
}

#[test]
fn replaced_votes_stay_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let (now, pair) = (now_unix(), (SERVER, address(1)));
    let mut ledger = Ledger::default();
    assert_eq!(record(&control, 1, now - 1_000), 201);
    assert_eq!(record(&control, 1, now - 500), 201);
    assert_eq!(record(&control, 1, now - 800), 200, "an earlier vote changes nothing");
    ledger.recorded.insert(pair, now - 500);
    let server = restarted(server, folder.path());
    ledger.expect(&server, "the later vote");
    // Once that is cancelled, the earlier one must not come forward.
    assert_eq!(cancel(&server.control_client(), 1), 200);
    ledger.recorded.remove(&pair);
    ledger.refused.push(pair);
    ledger.expect(&server, "cancelled");
    ledger.expect(&restarted(server, folder.path()), "cancelled, after a restart");
}

#[test]
fn removed_servers_take_their_votes_along() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    control.add_server(29, "other");
    let mut ledger = Ledger::default();
    ledger.cast(&control, (29, address(1)), now_unix());
    for number in 0..3 {
        let response = control.cast(SERVER, address(number));
        assert_eq!(response.status, 201, "{response:?}");
        ledger.refused.push((SERVER, address(number)));
    }
    assert_eq!(control.delete(&format!("/v1/servers/{SERVER}")).status, 200);
    let server = restarted(server, folder.path());
    let gone = get(server.public(), &format!("/api/vote/{SERVER}/status/{}", address(1)));
    assert_eq!(gone.status, 404, "{gone:?}");
    let gone = get(server.public(), &format!("/api/servers/demo/vote-status/{}", address(1)));
    assert_eq!(gone.status, 404, "{gone:?}");
    server.control_client().add_server(SERVER, "demo");
    ledger.expect(&server, "listed again");
    ledger.expect(&restarted(server, folder.path()), "listed again, after a restart");
}

#[test]
fn servers_and_tokens_are_the_same_after_a_restart() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    let longest = "t".repeat(128);
    for (id, token) in [(0, "zero"), (1, "one"), (2, "two"), (u32::MAX, longest.as_str())] {
        control.add_server(id, token);
    }
    // A changed token, one that changed hands, a generated one, and a server that is gone.
    assert_eq!(control.put("/v1/servers/1", r#"{"token":"uno"}"#).status, 200);
    control.add_server(3, "one");
    assert_eq!(control.post("/v1/servers/2/token", "").status, 200);
    assert_eq!(control.delete("/v1/servers/0").status, 200);
    assert_eq!(control.put("/v1/servers/4", "{}").status, 201);
    let before = control.get("/v1/servers").json();
    assert_eq!(before["servers"].as_array().map(Vec::len), Some(5), "{before}");
    let server = restarted(server, folder.path());
    let control = server.control_client();
    assert_eq!(control.get("/v1/servers").json(), before);
    for (token, status) in [("zero", 404), ("one", 200), ("uno", 200), ("two", 404), (longest.as_str(), 200)] {
        let response = get(server.public(), &format!("/api/servers/{token}/vote-status/10.0.0.1"));
        assert_eq!(response.status, status, "{token}: {response:?}");
    }
    let rotated = before["servers"].as_array().expect("a list").iter().find(|server| server["server_id"] == 2);
    let token = rotated.expect("server 2")["token"].as_str().expect("a token");
    let response = get(server.public(), &format!("/api/servers/{token}/vote-status/10.0.0.1"));
    assert_eq!(response.status, 200, "{response:?}");
}

/// What has expired while nobody ran is not there; what expires a little later is.
#[test]
fn votes_end_while_nobody_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &[]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let (soon, later) = (now_unix() + 1 - COOLDOWN_S, now_unix() - 60);
    assert_eq!(record(&control, 1, soon), 201);
    assert_eq!(record(&control, 2, later), 201);
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
