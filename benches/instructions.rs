//! Runs one case a number of times, for callgrind to count. `benches/count` subtracts two runs.
//! Usage: `instructions CASE TIMES`

mod support;

use std::hint::black_box;

use support::{BY_TOKEN, Bench, CAN_VOTE, HEADS, IN_COOLDOWN, UNKNOWN_SERVER};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::ServerId;
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::table::{CooldownTable, Pair};
use vote_status::vote::time::UnixSeconds;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let (case, times) = match arguments.as_slice() {
        [_, case, times] => (case.as_str(), times.parse().expect("a number of times")),
        _ => return println!("usage: instructions CASE TIMES"), // as `cargo bench` and `cargo test` call it
    };
    match case.split_once('/') {
        Some(("table", operation)) => table(operation, times),
        Some((parts @ ("respond" | "httparse"), request)) => {
            let (line, head) = request.split_once('-').expect("LINE-HEAD");
            let line = [
                ("can_vote", CAN_VOTE),
                ("in_cooldown", IN_COOLDOWN),
                ("unknown", UNKNOWN_SERVER),
                ("token", BY_TOKEN),
            ]
            .into_iter()
            .find(|(name, _)| *name == line)
            .expect("a known line");
            let head = HEADS.into_iter().find(|(name, _)| *name == head).expect("a known head");
            let request = [line.1, head.1].concat();
            if parts == "respond" { respond(request.as_bytes(), times) } else { httparse(request.as_bytes(), times) }
        }
        _ => panic!("no such case: {case}"),
    }
}

fn respond(request: &[u8], times: u32) {
    let mut bench = Bench::new();
    for _ in 0..times {
        black_box(bench.answer(black_box(request)));
    }
    bench.check(request);
}

fn httparse(request: &[u8], times: u32) {
    for _ in 0..times {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut parsed = httparse::Request::new(&mut headers);
        assert!(black_box(parsed.parse(black_box(request))).is_ok_and(|status| status.is_complete()));
    }
}

fn table(operation: &str, times: u32) {
    let mut table = CooldownTable::default();
    // Only the number is hidden from the compiler, as on the hot path the family is known where the address was read.
    let pair = |address| Pair { server: ServerId(28), address: VoterAddress::V4(Ipv4(black_box(address))) };
    // A sweep walks whole shards. With 84 entries in each on average, every shard has 128 places, whatever the
    // seed. With few entries, the count varied by a quarter with the seed.
    let entries = if operation == "sweep" { 86_000 } else { 1_000 };
    for address in 0..entries {
        table.insert(pair(address), UnixSeconds(100));
    }
    let view = table.view();
    for round in 0..times {
        match operation {
            "hit" => assert!(black_box(view.live(pair(round % 1_000), UnixSeconds(50))).is_some()),
            "miss" => assert!(black_box(view.live(pair(1_000_000 + round), UnixSeconds(50))).is_none()),
            "cast" => table.insert(pair(round % 1_000), UnixSeconds(100)),
            "sweep" => assert_eq!(black_box(table.sweep(UnixSeconds(50), 1)), 0),
            _ => panic!("no such case: table/{operation}"),
        }
    }
}
