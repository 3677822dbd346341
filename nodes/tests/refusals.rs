//! A store that takes no writes, and a store's report of itself: the model does as a real one.

use crate::compared::{ask_both, init, model, valkey};
use crate::draws::Draws;
use crate::engine::Engine;
use crate::random::Random;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};
use vote_status_nodes::functions::Functions;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::{Refusal, Store};

const CALLS: usize = 150;

fn fields(reply: &Reply) -> BTreeMap<String, String> {
    let Reply::Bulk(bytes) = reply else { panic!("{reply:?}") };
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| line.trim().split_once(':'))
        .map(|(name, said)| (name.to_owned(), said.to_owned()))
        .collect()
}

fn info(engine: &mut Engine, field: &str) -> String {
    fields(&engine.order(&["INFO"])).remove(field).expect("a field")
}

/// Takes away the folder of the server's file.
fn break_disk(engine: &mut Engine) {
    let gone = engine.folder().join("gone");
    fs::create_dir(&gone).expect("a folder");
    engine.order(&["CONFIG", "SET", "dir", &gone.display().to_string()]);
    fs::remove_dir(&gone).expect("an empty folder");
    engine.order(&["CONFIG", "SET", "save", "3600 1"]);
    engine.order(&["BGSAVE"]);
    let until = Instant::now() + Duration::from_secs(20);
    while info(engine, "rdb_last_bgsave_status") != "err" {
        assert!(Instant::now() < until, "the file was written");
    }
}

/// Asks both stores the same, many times. Gives the number of calls that the store's state refused.
fn refused(engine: &mut Engine, functions: &Functions, store: &mut Store, random: &mut Random) -> usize {
    let mut count = 0;
    for nth in 0..CALLS {
        let mut draws = Draws { random, now_us: store.now_us, store: store.clone() };
        let words = if nth % 2 == 0 { draws.function() } else { draws.command() };
        let reply = ask_both(engine, functions, store, &words).unwrap_or_else(|difference| panic!("{difference}"));
        let codes = ["OOM", "READONLY", "NOREPLICAS", "MISCONF"];
        count += usize::from(matches!(reply, Reply::Refused(why) if codes.iter().any(|code| why.starts_with(code))));
    }
    count
}

fn refuse_alike(program: &str) {
    let mut engine = Engine::start(program, 4);
    let (functions, mut store) = model();
    let mut random = Random::seeded(1);
    store.now_us = 1_800_000_000_000_000;
    engine.set_clock(store.now_us / 1_000);
    ask_both(&mut engine, &functions, &mut store, &init()).unwrap_or_else(|difference| panic!("{difference}"));
    for (refusal, on, off) in [
        (Refusal::Memory, "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
        (Refusal::NoReplicas, "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
        (Refusal::Replica, "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
        (Refusal::Disk, "", "CONFIG SET stop-writes-on-bgsave-error no"),
    ] {
        assert_eq!(refused(&mut engine, &functions, &mut store, &mut random), 0, "before {refusal:?}");
        if on.is_empty() {
            break_disk(&mut engine);
        } else {
            engine.order(&on.split(' ').collect::<Vec<_>>());
        }
        store.refusal = Some(refusal);
        let count = refused(&mut engine, &functions, &mut store, &mut random);
        println!("{program}: {refusal:?}: {count} of {CALLS} calls refused");
        assert!(count > CALLS / 4);
        engine.order(&off.split(' ').collect::<Vec<_>>());
        store.refusal = None;
    }
    assert_eq!(refused(&mut engine, &functions, &mut store, &mut random), 0, "at the end");
    let (ours, its) = (fields(&store.ask(&["INFO"])), fields(&engine.order(&["INFO"])));
    assert!(ours.keys().all(|name| its.contains_key(name)), "{ours:?}");
    for name in ["role", "evicted_keys", "maxmemory_policy", "cluster_enabled"] {
        assert_eq!(ours[name], its[name], "{name}");
    }
}

#[test]
fn a_redis_refuses_as_the_model() {
    refuse_alike("redis-server");
}

#[test]
fn a_valkey_refuses_as_the_model() {
    refuse_alike(&valkey());
}

/// Both stores scan a directory with many servers in parts.
#[test]
fn a_scan_brings_every_field() {
    let mut engine = Engine::start("redis-server", 4);
    let (functions, mut store) = model();
    store.now_us = 1_800_000_000_000_000;
    let mut words: Vec<Vec<u8>> = vec![b"HSET".to_vec(), b"vs:{0}:dir".to_vec()];
    words.extend((0..2_000).map(|nth: u32| nth.to_string().into_bytes()));
    ask_both(&mut engine, &functions, &mut store, &words).unwrap_or_else(|difference| panic!("{difference}"));
    let scan = |ask: &mut dyn FnMut(&[Vec<u8>]) -> Reply| {
        let (mut cursor, mut found, mut steps) = (b"0".to_vec(), BTreeMap::new(), 0);
        loop {
            let words = [&b"HSCAN"[..], b"vs:{0}:dir", &cursor, b"COUNT", b"100"].map(<[u8]>::to_vec);
            let Reply::Array(parts) = ask(&words) else { panic!("no parts") };
            let [Reply::Bulk(next), Reply::Array(fields)] = parts.as_slice() else { panic!("{parts:?}") };
            for pair in fields.chunks_exact(2) {
                found.insert(format!("{:?}", pair[0]), format!("{:?}", pair[1]));
            }
            steps += 1;
            cursor.clone_from(next);
            if cursor == b"0" {
                return (found, steps);
            }
        }
    };
    let ((real, its_steps), (ours, our_steps)) =
        (scan(&mut |words| engine.ask(words)), scan(&mut |words| store.ask(words)));
    assert_eq!((real.len(), real), (1_000, ours));
    assert!(its_steps > 5 && our_steps > 5, "{its_steps} and {our_steps}");
}
