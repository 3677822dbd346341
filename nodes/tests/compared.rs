//! The model and a real store get the same calls: each reply and all keys are equal after each call.

use crate::draws::{COMMANDS, COOLDOWN_S, Draws, STORE};
use crate::engine::Engine;
use crate::random::{Random, seeds};
use std::process::Command;
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const SEEDS: u64 = 60;
const CALLS: u64 = 200;
/// The most entries in a block: few, so that logs have many blocks.
const BLOCK_MAX: usize = 4;

/// The part of a reply on which two stores have to agree. Of an error that is not a function's own, nodes read only the code.
fn told(words: &[Vec<u8>], reply: Reply) -> Reply {
    match reply {
        Reply::Refused(why) => Reply::Refused(why.split(' ').next().unwrap_or_default().to_owned()),
        Reply::Array(fields) if words[0] == b"HGETALL" => Reply::Array(in_order(fields, 2)),
        Reply::Array(mut parts) if words[0] == b"HSCAN" => {
            if let Some(Reply::Array(fields)) = parts.pop() {
                parts.push(Reply::Array(in_order(fields, 2)));
            }
            Reply::Array(parts)
        }
        // Of an error of the store nodes read only the code, and records of nodes have no order.
        Reply::Array(mut parts) if parts.get(1) == Some(&Reply::bulk("VSFAILED")) => {
            parts.truncate(2);
            Reply::Array(parts)
        }
        Reply::Array(parts) if words.get(1).is_some_and(|word| word == b"vs3_node") && parts.len() > 4 => {
            Reply::Array([&parts[..4], &in_order(parts[4..].to_vec(), 2)].concat())
        }
        Reply::Array(parts) if words.get(1).is_some_and(|word| word == b"vs3_takeover") && parts.len() > 3 => {
            Reply::Array([&parts[..3], &in_order(parts[3..].to_vec(), 1)].concat())
        }
        other => other,
    }
}

fn in_order(items: Vec<Reply>, at_once: usize) -> Vec<Reply> {
    let mut groups: Vec<_> = items.chunks(at_once).map(<[Reply]>::to_vec).collect();
    groups.sort_by_cached_key(|group| format!("{group:?}"));
    groups.concat()
}

/// Keys in order, and the unordered parts of their content in order as well.
pub(crate) fn keys(told: Reply) -> Vec<Reply> {
    let Reply::Array(keys) = told else { panic!("{told:?}") };
    let keys = keys.into_iter().map(|key| match key {
        Reply::Array(mut parts) => {
            let at_once = if parts[1] == Reply::bulk("hash") { 2 } else { 1 };
            if [Reply::bulk("hash"), Reply::bulk("set")].contains(&parts[1])
                && let Some(Reply::Array(items)) = parts.pop()
            {
                parts.push(Reply::Array(in_order(items, at_once)));
            }
            Reply::Array(parts)
        }
        other => panic!("{other:?}"),
    });
    in_order(keys.collect(), 1)
}

fn spelled(words: &[Vec<u8>]) -> String {
    words.iter().map(|word| String::from_utf8_lossy(word)).collect::<Vec<_>>().join(" ")
}

/// Asks both stores the same. Gives the model's reply, or the difference.
pub(crate) fn ask_both(
    engine: &mut Engine,
    functions: &Functions,
    store: &mut Store,
    words: &[Vec<u8>],
) -> Result<Reply, String> {
    let (real, ours) = (engine.ask(words), functions.ask(store, words));
    let (its_keys, our_keys) = (keys(engine.told()), keys(store.told()));
    if told(words, real.clone()) == told(words, ours.clone()) && its_keys == our_keys {
        return Ok(ours);
    }
    let strange: Vec<_> = its_keys.iter().filter(|key| !our_keys.contains(key)).collect();
    let missing: Vec<_> = our_keys.iter().filter(|key| !its_keys.contains(key)).collect();
    Err(format!(
        "{}\nit says {real:?} and has {strange:?}\nthe model says {ours:?} and has {missing:?}",
        spelled(words)
    ))
}

/// Runs one seed. Gives the difference, if there is one.
pub(crate) fn differs(engine: &mut Engine, functions: &Functions, model: &Store, seed: u64) -> Option<String> {
    let mut random = Random::seeded(seed);
    let mut store = model.clone();
    store.now_us = 1_800_000_000_000_000 + random.below(1_000_000) * 1_000;
    engine.order(&["FLUSHALL"]);
    engine.order(&["ACL", "SETUSER", "voter", "+@all"]);
    // Some seeds only use the store, others damage it as well.
    let (of_functions, damage) = (random.pick(&[&30, &60, &90]), random.pick(&[&0, &0, &2]));
    let mut past = Vec::new();
    let mut next = Some(init());
    for nth in 0..CALLS {
        engine.set_clock(store.now_us / 1_000);
        let mut draws = Draws { random: &mut random, now_us: store.now_us, store: store.clone() };
        let words = next.take().unwrap_or_else(|| {
            if draws.random.is(*damage) {
                draws.damage()
            } else if draws.random.is(*of_functions) {
                draws.function()
            } else {
                draws.command()
            }
        });
        match ask_both(engine, functions, &mut store, &words) {
            Ok(reply) => past.push(format!("{} {} -> {reply:?}", store.now_us, spelled(&words))),
            Err(difference) => {
                let before = past[past.len().saturating_sub(6)..].join("\n");
                return Some(format!("TEST_SEED={seed}, call {nth}:\n{before}\n{difference}"));
            }
        }
        let far_us = 1_000_000 * random.below(2 * COOLDOWN_S);
        store.now_us = match random.below(40) {
            0 => store.now_us + far_us,
            1 => store.now_us + 20 * far_us,
            2 => store.now_us - far_us,
            3..20 => store.now_us,
            _ => store.now_us + 1_000 * random.below(2_000),
        };
        if random.is(2) {
            // A right goes, or all come back.
            let command = random.pick(&COMMANDS);
            let is_back = !store.denied.is_empty();
            let rule = if is_back { "+@all".to_owned() } else { format!("-{command}") };
            engine.order(&["ACL", "SETUSER", "voter", &rule]);
            store.denied.clear();
            store.denied.extend((!is_back).then(|| command.to_owned()));
        }
    }
    None
}

/// The call that makes an empty store one of ours.
pub(crate) fn init() -> Vec<Vec<u8>> {
    let words = ["FCALL", "vs3_init", "1", "vs:{0}:meta", STORE, &COOLDOWN_S.to_string(), "64"];
    words.map(|word| word.as_bytes().to_vec()).to_vec()
}

pub(crate) fn model() -> (Functions, Store) {
    let mut store = Store::new(0);
    store.block_max = BLOCK_MAX;
    (Functions::load(CODE).expect("the library loads"), store)
}

fn agree(program: &str) {
    let mut engine = Engine::start(program, BLOCK_MAX);
    let (functions, store) = model();
    let (seeds, began) = (seeds(SEEDS), Instant::now());
    for seed in seeds.clone() {
        if let Some(difference) = differs(&mut engine, &functions, &store, seed) {
            panic!("{program}: {difference}");
        }
    }
    let calls = (seeds.end - seeds.start) * CALLS;
    println!("{program}: seeds {seeds:?}, {calls} calls, no difference, {:.1} s", began.elapsed().as_secs_f64());
}

pub(crate) fn valkey() -> String {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../.ci/valkey");
    let made = Command::new(script).output().expect("the script runs");
    assert!(made.status.success(), "no valkey-server can be installed: {}", String::from_utf8_lossy(&made.stderr));
    String::from_utf8(made.stdout).expect("a path").trim().to_owned()
}

#[test]
fn the_model_is_a_redis() {
    agree("redis-server");
}

#[test]
fn the_model_is_a_valkey() {
    agree(&valkey());
}
