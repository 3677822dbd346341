//! The functions that the service puts into Redis, called by hand: one atomic step keeps its promise for every caller. At
//! most one vote of a pair counts, and a vote is there whole or not at all.

use crate::cluster::util::calls::{KEYS, STORE, claims, make_store};
use crate::cluster::util::engine::Engine;
use crate::cluster::util::resp::{Redis, Value};
use crate::util::DEADLINE;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::scope;
use std::time::Instant;

/// Cuts of the file within its last vote.
const CUTS: usize = 6;
/// Servers with votes.
const SERVERS: u32 = 20;
/// A cooldown short enough to see many votes of one pair, in seconds.
const SHORT_S: u32 = 1;
/// The run ends after this many votes of pairs that had voted before.
const AGAIN: usize = 100;

/// Four callers call the library with a cooldown of a second, as fast as they can. It accepts a pair again, and never
/// sooner: two votes of one race would have no second between them.
#[test]
fn no_pair_is_accepted_again_within_its_cooldown() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    make_store(&mut engine.connect(), SHORT_S, SERVERS);
    let votes: Vec<(u32, u32)> = (0..100).map(|nth| (1 + nth % SERVERS, nth)).collect();
    let (taken, until) = (AtomicUsize::new(0), Instant::now() + DEADLINE);
    let call = || {
        let mut redis = engine.connect();
        let mut accepted = Vec::new();
        while taken.load(Ordering::Relaxed) < votes.len() + AGAIN {
            assert!(Instant::now() < until, "hardly any is accepted again");
            let answers = cast_all(&mut redis, &votes);
            let new = votes.iter().zip(answers).filter_map(|(vote, answer)| Some((*vote, answer?)));
            let before = accepted.len();
            accepted.extend(new);
            taken.fetch_add(accepted.len() - before, Ordering::Relaxed);
        }
        accepted
    };
    let mut accepted: Vec<_> = scope(|threads| {
        let started: Vec<_> = (0..4).map(|_| threads.spawn(call)).collect();
        started.into_iter().flat_map(|caller| caller.join().expect("a caller failed")).collect()
    });
    accepted.sort_unstable();
    let again = accepted.windows(2).filter(|two| two[0].0 == two[1].0).map(|two| two[1].1 - two[0].1);
    let least = again.min().expect("pairs are accepted again");
    assert!(least >= i64::from(SHORT_S), "{least} s");
}

/// A power cut may leave any part of the file's end. Entry, claim and number of a vote are there together or not at all.
#[test]
fn a_torn_file_loses_a_vote_whole_or_not_at_all() {
    let Some(mut engine) = Engine::try_start(&["--appendfsync", "always"]) else { return };
    let mut redis = engine.connect();
    make_store(&mut redis, 5_400, 1);
    let listed = redis.ask(&["XLEN", KEYS[0]]).number();
    for ip in 0..50 {
        assert!(cast_all(&mut redis, &[(1, ip)])[0].is_some());
    }
    engine.kill();
    let file = incremental_file(&engine);
    let whole = fs::read(&file).expect("the file can be read");
    let last_multi = whole.windows(5).rposition(|part| part == b"MULTI").expect("the last vote is there");
    // Cuts are spread over the last vote's effects.
    for cut in 1..=CUTS {
        let length = last_multi + (whole.len() - last_multi) * cut / (CUTS + 1);
        fs::write(&file, &whole).expect("the file can be written");
        let torn = OpenOptions::new().write(true).open(&file).expect("the file can be opened");
        torn.set_len(length as u64).expect("the file can be cut");
        engine.run();
        let mut redis = engine.connect();
        let (entries, votes) = (redis.ask(&["XLEN", KEYS[0]]), redis.ask(&["ZCARD", &claims(1)]));
        let last = redis.ask(&["HGET", KEYS[3], "last"]).text().to_owned();
        let n: i64 = last.split(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        let shown = (entries.number(), votes.number(), n);
        assert_eq!(shown, (listed + 49, 49, listed + 49), "cut at {length} of {}", whole.len());
        engine.kill();
    }
}

/// The part of the append-only file that Redis appends to.
fn incremental_file(engine: &Engine) -> PathBuf {
    let entries = fs::read_dir(engine.appendonly_folder()).expect("the folder can be read");
    let mut found = entries.map(|entry| entry.expect("an entry").path());
    found.find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("it is there")
}

/// Casts votes in one write. Gives the second of each accepted vote, by the clock of Redis.
fn cast_all(redis: &mut Redis, votes: &[(u32, u32)]) -> Vec<Option<i64>> {
    let [log, dir, tok, meta, gone] = KEYS;
    let commands: Vec<_> =
        votes.iter().map(|(server, ip)| [claims(*server), server.to_string(), ip.to_string()]).collect();
    let words: Vec<_> = commands
        .iter()
        .map(|[claims, server, ip]| {
            let keys = ["FCALL", "vs3_vote", "6", log, claims, dir, tok, meta, gone];
            // The call has no term and names no last entry.
            [&keys[..], &[STORE, "", "", ip, server, "cast", "", ip]].concat()
        })
        .collect();
    let slices: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    redis.pipeline(&slices).expect("Redis answers").iter().map(accepted_at).collect()
}

/// The instant of an accepted vote. The outcome stands behind the store's time, and its instant follows.
fn accepted_at(reply: &Value) -> Option<i64> {
    let fields = reply.list();
    let word = fields[1].text();
    assert!(matches!(word, "recorded" | "cooldown"), "{reply:?}");
    (word == "recorded").then(|| fields[3].number())
}
