//! Redis is killed under load, and its file is torn: what was acknowledged is there after the
//! restart, and no vote is there by half.

use crate::cluster::util::engine::{Engine, url};
use crate::cluster::util::library;
use crate::cluster::util::load::SERVERS;
use crate::cluster::util::node::Node;
use crate::cluster::util::oracle::{Truth, settle};
use crate::cluster::util::proxy::{Mode, Proxy};
use crate::util::load::Load;
use crate::util::needs::rounds;
use std::fs::{self, OpenOptions};
use std::path::PathBuf;

/// Cuts of the file, from its end.
const CUTS: usize = 6;

#[test]
fn what_was_acknowledged_survives_kill_9_of_redis() {
    let Some(mut engine) = Engine::try_store(&["--appendfsync", "always"]) else { return };
    let proxy = Proxy::to(engine.addr());
    let nodes = Node::start_many(2, &url(proxy.addr()), &[]);
    nodes[0].add_servers(SERVERS);
    let load = Load::voting(&[&nodes[0], &nodes[1]], 16, 0, 0);
    for _ in 0..rounds(2) {
        load.wait_for_more(300);
        engine.kill();
        // Before any node can give back what Redis may have lost.
        proxy.set(Mode::Cut);
        let acknowledged = load.known().recorded.clone();
        engine.run();
        let kept = Truth::in_redis(&mut engine.connect());
        let lost: Vec<_> = acknowledged.keys().filter(|pair| !kept.votes.contains_key(pair)).collect();
        assert!(lost.is_empty(), "of {}: {lost:?}", acknowledged.len());
        proxy.set(Mode::Pass);
    }
    load.wait_for_more(100);
    let tally = load.stop();
    let truth = settle(&mut engine.connect(), &[&nodes[0], &nodes[1]], "after the kills");
    for (pair, voted_at) in &tally.recorded {
        assert_eq!(truth.votes.get(pair), Some(voted_at), "{pair:?}");
    }
    assert_eq!(tally.doubles, []);
}

/// A power cut may leave any part of the file's end. Event and claim of a vote go together.
#[test]
fn a_torn_file_loses_a_vote_whole_or_not_at_all() {
    let Some(mut engine) = Engine::try_start(&["--appendfsync", "always"]) else { return };
    let mut redis = engine.connect();
    library::load(&mut redis, 5_400, 1);
    for ip in 0..50 {
        assert!(library::cast_all(&mut redis, &[(1, ip)])[0].is_some());
    }
    engine.kill();
    let file = incremental_file(&engine);
    let whole = fs::read(&file).expect("the file can be read");
    let last_multi = whole.windows(5).rposition(|part| part == b"MULTI").expect("the last vote is there");
    // All over the last vote's effects: behind its first word, its middle, all but its last byte.
    for cut in 1..=CUTS {
        let length = last_multi + (whole.len() - last_multi) * cut / (CUTS + 1);
        fs::write(&file, &whole).expect("the file can be written");
        let torn = OpenOptions::new().write(true).open(&file).expect("the file can be opened");
        torn.set_len(length as u64).expect("the file can be cut");
        engine.run();
        let mut redis = engine.connect();
        let (events, claims) = (redis.ask(&["XLEN", "vs:{0}:log"]), redis.ask(&["ZCARD", "vs:{0}:s:1"]));
        assert_eq!((events.number(), claims.number()), (49, 49), "cut at {length} of {}", whole.len());
        engine.kill();
    }
}

/// The part of the append-only file that is being written.
fn incremental_file(engine: &Engine) -> PathBuf {
    let entries = fs::read_dir(engine.appendonly_folder()).expect("the folder can be read");
    let mut found = entries.map(|entry| entry.expect("an entry").path());
    found.find(|path| path.to_string_lossy().ends_with(".incr.aof")).expect("it is there")
}
