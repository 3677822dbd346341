//! No room for the file, by a limit on the size of files. Votes are refused, status is served, no
//! acknowledged vote is lost, and votes go on when there is room.

use crate::durability::files::store_file;
use crate::util::client::get;
use crate::util::ledger::{COOLDOWN_S, Ledger, Pair, SERVER, address, next_votes, voted};
use crate::util::server::{Server, run_to_end};
use crate::util::time::now_unix;
use rustix::process::Resource;
use serde_json::json;
use std::fs;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The most votes that are cast until there is no room.
const CAST_MAX: u32 = 5_000;
/// Votes that are cast after that.
const CAST_WHEN_FULL: u32 = 30;

/// The longest time until votes are taken, once there is room.
const AGAIN_MAX: Duration = Duration::from_secs(10);

/// Limits the length of files, or lifts the limit.
fn limit(server: &Server, bytes: Option<u64>) {
    server.limit(Resource::Fsize, bytes, None);
}

fn bytes(folder: &Path) -> u64 {
    fs::metadata(store_file(folder)).expect("the file is there").len()
}

/// Requires that `/readyz` reports for 1.5 s that votes are refused, and why, and that `health` reports it too.
fn expect_no_votes(server: &Server, words: &str) {
    let until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < until {
        let ready = get(server.control(), "/readyz");
        let body = ready.json();
        assert_eq!((ready.status, &body["ready"], &body["votes"]), (200, &true.into(), &false.into()), "{body}");
        assert_eq!(body["reason"], "store_failing", "{body}");
        assert!(body["message"].as_str().is_some_and(|message| message.contains(words)), "{body}");
        sleep(Duration::from_millis(20));
    }
    let mut health = Server::command();
    health.args(["health", "--control-url", &format!("http://{}", server.control())]);
    let told = run_to_end(health);
    assert_eq!(told.status.code(), Some(0), "{told:?}");
    let refused = format!("ready, but votes are refused: {words}");
    assert!(told.stdout.starts_with(&refused), "no {refused:?} in {told:?}");
}

/// Requires that a trouble is logged once, not for every vote or look.
fn expect_few_lines(server: &Server) {
    let lines = server.stderr().lines().filter(|line| !line.contains(" INFO ")).count();
    assert!((1..=3).contains(&lines), "{lines} lines:\n{}", server.stderr());
}

#[test]
fn votes_wait_for_room_under_a_size_limit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, mut ledger) = voted(folder.path(), 20);
    limit(&server, Some(bytes(folder.path())));
    let full_at = (20..CAST_MAX).find(|number| !ledger.try_cast(&server, *number)).expect("it never was full");
    for number in full_at + 1..=full_at + CAST_WHEN_FULL {
        ledger.try_cast(&server, number);
    }
    ledger.expect(&server, "while there is no room");
    expect_no_votes(&server, "there is no room on the disk for the store");
    expect_few_lines(&server);
    println!("full after {} votes, {} refused", full_at - 1, ledger.refused.len());

    limit(&server, None);
    let number = ledger.cast_until_taken(&server, full_at + CAST_WHEN_FULL + 1, AGAIN_MAX);
    ledger.cast_all(&server, number..number + 1);
    assert_eq!(get(server.control(), "/readyz").json(), json!({"ready": true}));
    ledger.expect(&server, "when there is room again");
    ledger.expect_after_kill(server, folder.path(), "a disk that was full");
}

/// Without room the service cannot drop expired votes either. It must not log that 20 times a second.
#[test]
fn a_drop_that_fails_is_said_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (server, _) = voted(folder.path(), 0);
    let ends = now_unix() + 3;
    // One request: on a busy machine twenty requests may take until the first vote has ended.
    let line = |number| {
        let (ip, voted_at) = (address(number), ends - COOLDOWN_S);
        format!("{}\n", json!({"server_id": SERVER, "ip": ip, "voted_at": voted_at}))
    };
    let batch = server.control_client().post("/v1/votes/batch", &(0..20).map(line).collect::<String>()).json();
    assert_eq!(batch["recorded"], 20, "{batch}");
    limit(&server, Some(4_096));
    let pairs: Vec<Pair> = (0..20).map(|number| (SERVER, address(number))).collect();
    while now_unix() < ends + 2 {
        let asked_at = now_unix();
        let next = next_votes(&server, &pairs);
        assert!(asked_at < ends || next.iter().all(Option::is_none), "{next:?}");
        sleep(Duration::from_millis(100));
    }
    expect_few_lines(&server);
    limit(&server, None);
    Ledger::default().cast_until_taken(&server, 1, AGAIN_MAX);
}
