//! Single faults, planted in copies of the functions and in the model: the checks have to find each.

use crate::compared::{differs, model};
use crate::engine::Engine;
use crate::join;
use vote_status_nodes::commands::{Run, find};
use vote_status_nodes::functions::{CODE, Functions, PRELUDE};
use vote_status_nodes::keyspace::{Content, Kind};
use vote_status_nodes::reply::{Answer, Reply};
use vote_status_nodes::store::Store;

/// Seeds that a fault may take.
const SEEDS: u64 = 100;

/// Faults of the functions: a place, and what stands there instead.
const OF_FUNCTIONS: [(&str, &str, &str); 20] = [
    ("a late call is carried out", "now_ms > tonumber(args[2])", "false"),
    ("another store's call is carried out", "held[1] ~= args[1] or not cd", "not cd"),
    ("an entry's number is left out", "call.n = call.n + 1", "call.n = call.n + 2"),
    ("names do not go on where the clock has gone back", "ms = math.max(now_ms + ahead, last_ms)", "ms = now_ms"),
    ("a cast does not ask for a cooldown", "if latest then", "if false then"),
    (
        "a cast asks its first address alone",
        "{ 'ZADD', claims, '0', '0' }",
        "{ 'ZADD', claims, '0', '0' }), table.remove(ips, 2",
    ),
    (
        "a cast takes an instant that was cancelled",
        "elseif score(gone, vote_name(call, ips[at], t)) then",
        "elseif false then",
    ),
    ("a cooldown ends early", "claims, '-inf', call.now_s - call.cd)", "claims, '-inf', call.now_s - call.cd + 30)"),
    ("the votes of a server go early", "last[2] - call.now_s + call.cd + SPARE_S", "last[2] - call.now_s + SPARE_S"),
    ("an entry leaves its instant out", "if not is_said then", "if false then"),
    ("an earlier record takes a later vote's place", "if not (is_live and held >= t) then", "if true then"),
    ("what is over is recorded", "if t + cd <= now_s then", "if false then"),
    ("a cancelled vote stays", "redis.call('ZREM', claims, ip)", ""),
    ("a cancellation is not remembered", "redis.call('ZADD', gone, held, name)", ""),
    ("a cancelled vote is given back", "score(call.gone, vote_name(call, ip, t)) or", ""),
    (
        "a removed listing's vote is given back",
        " or score(call.gone, listing) then\n    return { 1, call.record and",
        " then\n    return { 1, call.record and",
    ),
    ("a removed server keeps its votes", "redis.call('UNLINK', claims)", ""),
    ("a removed listing is not remembered", "redis.call('ZADD', gone, latest + AHEAD_MAX_S, listing)", ""),
    ("a token that was replaced stays", "redis.call('HDEL', tok, former)", ""),
    ("two servers have one token", "return holder and holder ~= call.server", "return false"),
];

fn planted(code: &str, place: &str, instead: &str) -> String {
    assert_eq!(code.matches(place).count(), 1, "a fault has lost its place: {place}");
    code.replace(place, instead)
}

#[test]
fn each_fault_of_the_functions_is_found() {
    let mut missed = Vec::new();
    for (name, place, instead) in OF_FUNCTIONS {
        let functions = Functions::load(&planted(CODE, place, instead)).expect("it loads");
        let found = (0..SEEDS).find_map(|seed| join::run(&functions, seed, false).err());
        println!("{name}: {}", found.as_deref().and_then(|found| found.split(": ").next()).unwrap_or("missed"));
        missed.extend(found.is_none().then_some(name));
    }
    assert!(missed.is_empty(), "{missed:?}");
}

fn right(name: &str) -> Run {
    find(name.as_bytes()).expect("a command").run
}

/// Runs the command, and then counts what is in the stream, for one that is wrong when nothing is left.
fn forgets_last(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let reply = right("xtrim")(store, args)?;
    if right("xlen")(store, &args[..1])? == Reply::Int(0) && right("exists")(store, &args[..1])? == Reply::Int(1) {
        store.keys.put(&args[0], vote_status_nodes::logs::Log::default().content());
    }
    Ok(reply)
}

/// Faults of the model's commands.
const OF_COMMANDS: [(&str, &str, Run); 10] = [
    ("a trimmed log forgets its last name", "xtrim", forgets_last),
    ("a log is never trimmed", "xadd", |store, args| {
        let is_trimming = args[1].eq_ignore_ascii_case(b"MINID") || args[1].eq_ignore_ascii_case(b"MAXLEN");
        let args = if is_trimming { [&args[..1], &args[4..]].concat() } else { args.to_vec() };
        right("xadd")(store, &args)
    }),
    ("a reading of the log counts from its start", "xrevrange", |store, args| {
        let forward = [&args[..1], &[args[2].clone(), args[1].clone()], &args[3..]].concat();
        right("xrange")(store, &forward)
    }),
    ("an emptied hash stays", "hdel", |store, args| {
        let was_there = right("exists")(store, &args[..1])?;
        let reply = right("hdel")(store, args)?;
        if was_there == Reply::Int(1) && right("exists")(store, &args[..1])? == Reply::Int(0) {
            store.keys.put(&args[0], Content::Hash(std::collections::BTreeMap::new()));
        }
        Ok(reply)
    }),
    ("a field that is set anew counts as new", "hset", |store, args| {
        right("hset")(store, args)?;
        Ok(Reply::count(args.len() / 2))
    }),
    ("an excluded bound is included", "zrangebyscore", |store, args| {
        let mut args = args.to_vec();
        args[2] = args[2].strip_prefix(b"(").unwrap_or(&args[2]).to_vec();
        right("zrangebyscore")(store, &args)
    }),
    ("a member goes with a score just above", "zremrangebyscore", |store, args| {
        let high = String::from_utf8_lossy(&args[2]).parse::<u64>().map(|high| (high + 1).to_string().into_bytes());
        right("zremrangebyscore")(store, &[args[0].clone(), args[1].clone(), high.unwrap_or_else(|_| args[2].clone())])
    }),
    ("a missing score is a nought", "zscore", |store, args| match right("zscore")(store, args)? {
        Reply::Nil => Ok(Reply::bulk("0")),
        score => Ok(score),
    }),
    ("no key expires", "pexpire", |store, args| right("exists")(store, &args[..1])),
    ("a key of another type is emptied", "hget", |store, args| {
        let reply = right("hget")(store, args);
        if reply.is_err() {
            right("del")(store, &args[..1])?;
        }
        reply
    }),
];

/// Faults of what the functions find in the store.
const OF_PRELUDE: [(&str, &str, &str); 3] = [
    (
        "what cannot be read is not there",
        "local reply = ask(...)\n    return reply",
        "local reply, is_refused = ask(...)\n    return not is_refused and reply",
    ),
    ("a refusal is thrown where it is asked for", "local reply = ask(...)\n", "local reply = redis.call(...)\n"),
    ("every right is there", "acl_check_cmd = may_call", "acl_check_cmd = function() return true end"),
];

#[test]
fn each_fault_of_the_model_is_found() {
    let (right, store) = model();
    let mut engine = Engine::start("redis-server", store.block_max);
    let mut missed = Vec::new();
    let mut search = |name, functions: &Functions, store: &Store| {
        let found = (0..SEEDS).find_map(|seed| differs(&mut engine, functions, store, seed));
        println!("{name}: {}", found.as_deref().and_then(|found| found.split(":\n").next()).unwrap_or("missed"));
        missed.extend(found.is_none().then_some(name));
    };
    for (name, command, run) in OF_COMMANDS {
        let mut store = store.clone();
        store.replaced.insert(command, run);
        search(name, &right, &store);
    }
    for (name, place, instead) in OF_PRELUDE {
        let functions = Functions::load_in(&planted(PRELUDE, place, instead), CODE).expect("it loads");
        search(name, &functions, &store);
    }
    let mut store = store.clone();
    store.block_max = 100;
    search("blocks are larger", &right, &store);
    assert!(missed.is_empty(), "{missed:?}");
}
