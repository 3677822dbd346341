//! Rows past their cooldown are dropped: under a steady stream of votes the file stops growing.
//!
//! The usual run takes 20 s: votes come with instants that leave them 2 s of their minute.
//! `VOTE_STATUS_TEST_LONG=1` has them live the whole minute, for ten minutes and more: too long for
//! every change, right before a release.

use crate::durability::files::store_file;
use crate::util::client::Client;
use crate::util::ledger::{SERVER, address, next_votes, serve};
use crate::util::needs::is_long;
use crate::util::time::now_unix;
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

const COOLDOWN_S: i64 = 60;
/// Votes a second.
const RATE: u32 = 10_000;
/// Batches a second.
const BATCHES: u32 = 4;
/// Lengths of a cooldown that the stream lasts.
const LENGTHS: u32 = 10;

#[test]
fn a_steady_stream_does_not_grow_the_file() {
    let lived_s: u32 = if is_long() { 60 } else { 2 };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = serve(folder.path(), &["--cooldown-minutes", "1"]);
    let control = server.control_client();
    control.add_server(SERVER, "demo");
    let mut client = Client::connect(server.control());
    let begin = Instant::now();
    let (mut sent, mut second_bytes) = (0, 0);
    for batch in 0..lived_s * LENGTHS * BATCHES {
        let due = begin + Duration::from_millis(u64::from(batch) * 1_000 / u64::from(BATCHES));
        sleep(due.saturating_duration_since(Instant::now()));
        let voted_at = now_unix() + i64::from(lived_s) - COOLDOWN_S;
        let mut lines = String::new();
        for _ in 0..RATE / BATCHES {
            let ip = address(sent);
            let line = format!(r#"{{"server_id":{SERVER},"ip":"{ip}","voted_at":{voted_at}}}"#);
            lines.push_str(&line);
            lines.push('\n');
            sent += 1;
        }
        client.send(control.request_bytes("POST", "/v1/votes/batch", Some(&lines)));
        let response = client.read_response(false);
        assert_eq!(response.status, 200, "{response:?}");
        assert_eq!(response.json()["recorded"], RATE / BATCHES, "{response:?}");
        if batch == lived_s * 2 * BATCHES {
            second_bytes = fs::metadata(store_file(folder.path())).expect("the file is there").len();
        }
    }
    let took = begin.elapsed();
    let end_bytes = fs::metadata(store_file(folder.path())).expect("the file is there").len();
    println!("{sent} votes in {took:?}: {second_bytes} bytes after two lengths, {end_bytes} after {LENGTHS}");
    assert!(end_bytes <= 2 * second_bytes, "{end_bytes} bytes after {LENGTHS} lengths, {second_bytes} after two");
    // The last second's votes are there, and those before the last length are not.
    let pairs = |from: u32| (from..from + 100).map(|number| (SERVER, address(number))).collect::<Vec<_>>();
    assert!(next_votes(&server, &pairs(sent - 100)).iter().all(Option::is_some), "the newest votes");
    let old = sent - RATE * (lived_s + 2);
    assert!(next_votes(&server, &pairs(old)).iter().all(Option::is_none), "votes that have ended");
}
