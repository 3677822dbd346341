//! Single faults, planted in copies of the functions and in the model. The checks have to find each.

use crate::compared::{differs, model};
use crate::engine::Engine;
use crate::join;
use crate::situations;
use std::panic::catch_unwind;
use vote_status_nodes::commands::{Run, find};
use vote_status_nodes::functions::{CODE, Functions, PRELUDE};
use vote_status_nodes::keyspace::{Content, Kind};
use vote_status_nodes::reply::{Answer, Reply};
use vote_status_nodes::store::Store;

/// The most seeds to find a fault.
const SEEDS: u64 = 100;

/// Faults of the functions: a name, the text at a place, and the text in its stead.
const OF_FUNCTIONS: [(&str, &str, &str); 32] = [
    ("a late call is carried out", "until_ms ~= '' and now_ms > tonumber(until_ms)", "false"),
    (
        "another store's call is carried out",
        "if held[1] ~= store then\n      refuse('VSSTORE', 'this store is empty, or another one than the node follows')\n    elseif held[2]",
        "if held[2]",
    ),
    (
        "a change is made where the caller's last entry is lost",
        "if not holds(log, call.last, last, held[6]) then",
        "if false then",
    ),
    ("an entry of the same name is taken for the caller's", " and fields[4] == bits", ""),
    ("no node knows that the log was exchanged", "'p', before }", "'p', '0' }"),
    ("an entry's number is left out", "call.n = n + 1", "call.n = n + 2"),
    (
        "a cast does not ask for a cooldown",
        "    if latest then\n      return { 'cooldown'",
        "    if false then\n      return { 'cooldown'",
    ),
    ("a cast takes an instant that was taken away", "t = math.max(t, gone_until(call, address) + 1)", ""),
    (
        "a vote of an instant that was cancelled is recorded again",
        "    if t <= gone_until(call, address) then\n      return { 'cancelled'",
        "    if false then\n      return { 'cancelled'",
    ),
    ("a cooldown ends early", "local over_s = call.now_s - call.cd", "local over_s = call.now_s - call.cd + 60"),
    ("the votes of a server go early", "(ends - over_s + SPARE_S)", "(latest - call.now_s + 1)"),
    (
        "the votes of a server go with the first of them",
        "may_be_new or spare_end(latest) > spare_end(before)",
        "before == 0",
    ),
    ("an entry is held by its place alone", "or said == recent then", "or recent then"),
    ("an earlier record takes a later vote's place", "or not held or held < t then", "or true then"),
    ("what is over is recorded", "  elseif t + call.cd <= call.now_s then\n    return { 'over', '' }", ""),
    ("a cancellation ends whatever vote is there", "not held or text(held) ~= said", "not held"),
    ("a cancelled vote stays", "set(call, 'votes', address, false)", ""),
    ("a cancellation is not remembered", "set(call, 'gone', address_name(call, address), text(t))", ""),
    (
        "a cancelled vote is given back",
        "elseif t <= gone_until(call, address) then\n    return 'gone'",
        "elseif false then\n    return 'gone'",
    ),
    (
        "an earlier vote that is given back takes a later one's place",
        "elseif held and held > t then",
        "elseif false then",
    ),
    ("a vote is given back under another listing", "elseif not is_of_present then", "elseif not record then"),
    ("a removal takes whatever listing is there", "not record or record.listing ~= listing", "not record"),
    ("a removed server keeps its votes", "if call.is_emptied then\n    writes", "if false then\n    writes"),
    ("a removed listing is not remembered", "set(call, 'gone', call.server .. ':' .. listing, '+inf')", ""),
    ("a vote whose listing was removed counts as cancelled", "return 'ended', now", "return 'gone', now"),
    ("a removed listing comes back", "if is_listing_gone(call, given.listing) then", "if false then"),
    (
        "an entry does not say that a listing was taken away",
        "tell(call, call.server, 'x', listing)",
        "tell(call, call.server, 'x', '')",
    ),
    ("the listing that came last stands", "and is_greater(held.listing, given.listing)", "and false"),
    (
        "the token that came last stands",
        "and not is_later(given.stamp, given.token, held.stamp, held.token)",
        "and given.token == held.token",
    ),
    (
        "a token goes to the server that came last",
        "holder and not is_later(stamp, listing, other.stamp, other.listing)",
        "false",
    ),
    (
        "a token that was replaced stays",
        "    set(call, 'holders', former.token, false)\n  end\n  local record",
        "  end\n  local record",
    ),
    ("two servers have one token", "return record and record.token == token and holder or nil, record", "return nil"),
];

fn planted(code: &str, place: &str, instead: &str) -> String {
    assert_eq!(code.matches(place).count(), 1, "a fault has lost its place: {place}");
    code.replace(place, instead)
}

#[test]
fn each_fault_of_the_functions_is_found() {
    let mut missed = Vec::new();
    for (name, place, instead) in OF_FUNCTIONS {
        let code = planted(CODE, place, instead);
        let functions = Functions::load(&code).expect("it loads");
        let staged = situations::ALL.iter().find(|(_, play)| catch_unwind(|| play(&code)).is_err());
        let found = staged.map(|(situation, _)| (*situation).to_owned());
        let found = found.or_else(|| (0..SEEDS).find_map(|seed| join::run(&functions, seed, false).err()));
        println!("{name}: {}", found.as_deref().and_then(|found| found.split(": ").next()).unwrap_or("missed"));
        missed.extend(found.is_none().then_some(name));
    }
    assert!(missed.is_empty(), "{missed:?}");
}

fn right(name: &str) -> Run {
    find(name.as_bytes()).expect("a command").run
}

/// Runs `XTRIM`. If the stream is empty then, the fault makes it a new one.
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

/// Faults of the Lua environment of the functions.
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
