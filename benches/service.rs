//! Criterion benchmarks of everything on the hot path, each beside an alternative to compare with.

mod support;

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use support::{BY_TOKEN, Bench, CAN_VOTE, CURL, HEADS, IN_COOLDOWN, NOW, UNKNOWN_SERVER};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::answer::in_cooldown_body;
use vote_status::vote::id::ServerId;
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::table::{CooldownTable, CooldownView, Pair};
use vote_status::vote::time::{Cooldown, UnixSeconds};

/// Bytes of a request to bytes of its response, beside `httparse` alone on the same bytes.
fn respond(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("respond");
    for (name, head) in HEADS {
        let request = [CAN_VOTE, head].concat().into_bytes();
        let mut bench = Bench::new();
        group.bench_with_input(BenchmarkId::new("can_vote", name), &request, |bencher, request| {
            bencher.iter(|| black_box(bench.answer(black_box(request)).len()));
            bench.check(request);
        });
        group.bench_with_input(BenchmarkId::new("httparse alone", name), &request, |bencher, request| {
            bencher.iter(|| {
                let mut headers = [httparse::EMPTY_HEADER; 32];
                let mut parsed = httparse::Request::new(&mut headers);
                black_box(parsed.parse(black_box(request))).is_ok_and(|status| status.is_complete())
            });
        });
    }
    for (name, line) in [("in_cooldown", IN_COOLDOWN), ("by_token", BY_TOKEN), ("error", UNKNOWN_SERVER)] {
        let request = [line, CURL].concat().into_bytes();
        let mut bench = Bench::new();
        group.bench_function(BenchmarkId::new(name, "curl"), |bencher| {
            bencher.iter(|| black_box(bench.answer(black_box(&request)).len()));
            bench.check(&request);
        });
    }
    group.finish();
}

/// Parses an address, beside the standard library.
fn ipv4(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("ipv4");
    let text = "203.0.113.207";
    group.bench_function("parse", |bencher| bencher.iter(|| Ipv4::parse(black_box(text.as_bytes()))));
    group.bench_function("std", |bencher| bencher.iter(|| black_box(text).parse::<Ipv4Addr>()));
    group.finish();
}

const fn pair(index: u32) -> Pair {
    // Spread over servers and addresses, as a multiplicative hash does.
    Pair { server: ServerId(index % 5_000), address: VoterAddress::V4(Ipv4(index.wrapping_mul(0x9E37_79B1))) }
}

fn filled(entries: u32) -> CooldownTable {
    let mut table = CooldownTable::default();
    for index in 0..entries {
        table.insert(pair(index), NOW.plus(600));
    }
    table
}

/// The table at one thousand and at ten million entries.
fn table(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("table");
    for (name, entries) in [("1 thousand", 1_000_u32), ("10 million", 10_000_000)] {
        let mut table = filled(entries);
        let view = table.view();
        let mut index = 0_u32;
        let mut next = move || {
            index = index.wrapping_mul(0x0019_660D).wrapping_add(0x3C6E_F35F);
            index
        };
        group.bench_function(BenchmarkId::new("hit", name), |bencher| {
            bencher.iter(|| view.live(pair(next() % entries), NOW));
        });
        group.bench_function(BenchmarkId::new("miss", name), |bencher| {
            bencher.iter(|| view.live(pair(entries + next() % entries), NOW));
        });
        group.bench_function(BenchmarkId::new("cast", name), |bencher| {
            bencher.iter(|| table.insert(pair(next() % entries), NOW.plus(600)));
        });
        group.bench_function(BenchmarkId::new("sweep of a shard", name), |bencher| {
            bencher.iter(|| table.sweep(NOW, 1));
        });
    }
    group.finish();
}

/// Look-ups from several threads at once: time of each thread's look-up.
fn threads(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("threads");
    let table = filled(1_000_000);
    for count in [1_u32, 2, 4, 8] {
        group.bench_function(BenchmarkId::new("hit", count), |bencher| {
            bencher.iter_custom(|rounds| read_from(&table.view(), count, rounds));
        });
    }
    group.finish();
}

#[expect(clippy::disallowed_methods, reason = "time is what it measures")]
fn read_from(view: &CooldownView, threads: u32, rounds: u64) -> Duration {
    let start = Instant::now();
    thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                for round in 0..rounds {
                    let index = (round as u32).wrapping_mul(0x9E37_79B1).wrapping_add(thread) % 1_000_000;
                    black_box(view.live(pair(index), NOW));
                }
            });
        }
    });
    start.elapsed()
}

#[derive(serde::Serialize)]
struct Body<'a> {
    success: bool,
    can_vote: bool,
    message: &'a str,
    next_vote_at: &'a str,
    cooldown_minutes: u32,
}

/// The template with its two places patched (whole response), beside `serde_json` and `format!`
/// writing the body alone.
fn template(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("template");
    let cooldown = Cooldown::from_minutes(90).expect("in range");
    let request = [IN_COOLDOWN, "Host: a\r\n\r\n"].concat().into_bytes();
    let mut bench = Bench::new();
    group.bench_function("request to response", |bencher| {
        bencher.iter(|| black_box(bench.answer(black_box(&request)).len()));
    });
    group.bench_function("serde_json", |bencher| {
        let mut out = Vec::with_capacity(512);
        bencher.iter(|| {
            out.clear();
            let message = format!("Vous pourrez voter à nouveau dans {} minutes", black_box(42));
            let next_vote_at = UnixSeconds(black_box(1_795_178_096)).to_string();
            let body = Body {
                success: false,
                can_vote: false,
                message: &message,
                next_vote_at: &next_vote_at,
                cooldown_minutes: 90,
            };
            serde_json::to_writer(&mut out, &body).expect("a Vec takes all");
            out.len()
        });
    });
    group.bench_function("format", |bencher| {
        bencher.iter(|| in_cooldown_body(cooldown, black_box(42), UnixSeconds(black_box(1_795_178_096))).len());
    });
    group.finish();
}

criterion_group!(benches, respond, ipv4, table, threads, template);
criterion_main!(benches);
