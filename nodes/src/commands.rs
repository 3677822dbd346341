//! The commands that the model knows, with their arguments and rights, and the code of those for keys and streams.

use crate::hashes::{hdel, hget, hgetall, hlen, hmget, hscan, hset};
use crate::keyspace::{Content, Kind};
use crate::logs::{EntryName, Kept, Log, Wanted};
use crate::reply::{Answer, Reply, is_option, no_syntax, said, whole};
use crate::sorted::{zadd, zcard, zrange, zrangebyscore, zrem, zremrangebyscore, zscore};
use crate::store::Store;
use std::collections::BTreeSet;

/// The code of a command: it takes a store and the words behind the name.
pub type Run = fn(&mut Store, &[Vec<u8>]) -> Answer;

/// A command.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    /// The name, in lower case.
    pub name: &'static str,
    /// The fewest words behind the name.
    pub words_min: usize,
    /// The most words behind the name.
    pub words_max: usize,
    /// Whether a store that takes no writes refuses the command.
    pub writes: bool,
    /// Whether a full store refuses the command.
    pub grows: bool,
    /// The code of the command.
    pub run: Run,
}

const MANY: usize = usize::MAX;

const fn reads(name: &'static str, words_min: usize, words_max: usize, run: Run) -> Command {
    Command { name, words_min, words_max, writes: false, grows: false, run }
}

const fn takes(name: &'static str, words_min: usize, words_max: usize, run: Run) -> Command {
    Command { name, words_min, words_max, writes: true, grows: false, run }
}

const fn puts(name: &'static str, words_min: usize, words_max: usize, run: Run) -> Command {
    Command { name, words_min, words_max, writes: true, grows: true, run }
}

/// All commands, by name.
pub const COMMANDS: [Command; 35] = [
    takes("del", 1, MANY, del),
    reads("exists", 1, MANY, exists),
    takes("flushall", 0, 0, flushall),
    takes("hdel", 2, MANY, hdel),
    reads("hget", 2, 2, hget),
    reads("hgetall", 1, 1, hgetall),
    reads("hlen", 1, 1, hlen),
    reads("hmget", 2, MANY, hmget),
    reads("hscan", 2, MANY, hscan),
    puts("hset", 3, MANY, hset),
    reads("info", 0, MANY, info),
    takes("pexpire", 2, 2, pexpire),
    reads("ping", 0, 0, |_, _| Ok(Reply::Status("PONG".to_owned()))),
    reads("pttl", 1, 1, pttl),
    puts("rpush", 2, MANY, rpush),
    puts("sadd", 2, MANY, sadd),
    puts("set", 2, 2, set),
    reads("time", 0, 0, time),
    reads("type", 1, 1, kind),
    takes("unlink", 1, MANY, del),
    reads("wait", 2, 2, wait),
    puts("xadd", 4, MANY, xadd),
    takes("xdel", 2, MANY, xdel),
    reads("xlen", 1, 1, xlen),
    reads("xrange", 3, MANY, |store, args| range(store, args, &args[1], &args[2], false)),
    reads("xread", 3, MANY, xread),
    reads("xrevrange", 3, MANY, |store, args| range(store, args, &args[2], &args[1], true)),
    takes("xtrim", 3, MANY, xtrim),
    puts("zadd", 3, MANY, zadd),
    reads("zcard", 1, 1, zcard),
    reads("zrange", 3, MANY, zrange),
    reads("zrangebyscore", 3, MANY, zrangebyscore),
    takes("zrem", 2, MANY, zrem),
    takes("zremrangebyscore", 3, 3, zremrangebyscore),
    reads("zscore", 2, 2, zscore),
];

/// The command of this name.
#[must_use]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name.eq_ignore_ascii_case(command.name.as_bytes()))
}

fn time(store: &mut Store, _: &[Vec<u8>]) -> Answer {
    let (seconds, rest) = (store.now_us / 1_000_000, store.now_us % 1_000_000);
    Ok(Reply::Array([seconds, rest].map(|part| Reply::bulk(part.to_string())).to_vec()))
}

fn info(store: &mut Store, _: &[Vec<u8>]) -> Answer {
    Ok(Reply::bulk(store.about.told()))
}

fn wait(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    whole(&args[0])?;
    whole(&args[1])?;
    Ok(Reply::count(store.about.replicas))
}

fn exists(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    Ok(Reply::count(args.iter().filter(|name| store.keys.at(name, now_ms).is_some()).count()))
}

fn kind(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    Ok(Reply::Status(store.keys.at(&args[0], now_ms).map_or("none", |key| key.content.kind()).to_owned()))
}

fn del(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    Ok(Reply::count(args.iter().filter(|name| store.keys.remove(name, now_ms)).count()))
}

fn flushall(store: &mut Store, _: &[Vec<u8>]) -> Answer {
    store.keys.clear();
    Ok(Reply::ok())
}

fn pttl(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    let key = store.keys.at(&args[0], now_ms);
    Ok(Reply::Int(key.map_or(-2, |key| key.until_ms.map_or(-1, |until| until - now_ms))))
}

fn pexpire(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let (now_ms, after_ms) = (store.now_ms(), whole(&args[1])?);
    let until = now_ms.checked_add(after_ms).ok_or("ERR invalid expire time in 'pexpire' command")?;
    let Some(key) = store.keys.at(&args[0], now_ms) else { return Ok(Reply::Int(0)) };
    key.until_ms = Some(until);
    if until <= now_ms {
        store.keys.remove(&args[0], until);
    }
    Ok(Reply::Int(1))
}

fn set(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    store.keys.put(&args[0], Content::Text(args[1].clone()));
    Ok(Reply::ok())
}

impl Kind for Vec<Vec<u8>> {
    fn of(content: &mut Content) -> Option<&mut Self> {
        if let Content::List(items) = content { Some(items) } else { None }
    }

    fn content(self) -> Content {
        Content::List(self)
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }
}

impl Kind for BTreeSet<Vec<u8>> {
    fn of(content: &mut Content) -> Option<&mut Self> {
        if let Content::Set(items) = content { Some(items) } else { None }
    }

    fn content(self) -> Content {
        Content::Set(self)
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }
}

fn rpush(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |items: &mut Vec<Vec<u8>>| {
        items.extend_from_slice(&args[1..]);
        Ok(Reply::count(items.len()))
    })
}

fn sadd(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |items: &mut BTreeSet<Vec<u8>>| {
        Ok(Reply::count(args[1..].iter().filter(|item| items.insert((*item).clone())).count()))
    })
}

fn no_name<T>() -> Result<T, String> {
    Err("ERR Invalid stream ID specified as stream command argument".to_owned())
}

fn log<'s>(store: &'s mut Store, key: &[u8]) -> Result<Option<&'s mut Log>, String> {
    let now_ms = store.now_ms();
    store.keys.read::<Log>(key, now_ms)
}

/// The trimming that a command asks for.
#[derive(Clone, Copy)]
struct Trimming {
    kept: Kept,
    is_about: bool,
    work_max: Option<usize>,
    /// The number of words of the command that ask for it.
    words: usize,
}

fn trimming(words: &[Vec<u8>], block_max: usize) -> Result<Option<Trimming>, String> {
    let Some(strategy) = words.first() else { return Ok(None) };
    let is_of_count = is_option(strategy, "MAXLEN");
    if !is_of_count && !is_option(strategy, "MINID") {
        return Ok(None);
    }
    let sign = words.get(1).filter(|word| matches!(word.as_slice(), b"~" | b"="));
    let is_about = sign.is_some_and(|sign| sign == b"~");
    let used = if sign.is_some() { 3 } else { 2 };
    let Some(threshold) = words.get(used - 1) else { return no_syntax() };
    let kept = if is_of_count {
        let most = usize::try_from(whole(threshold)?).map_err(|_| "ERR The MAXLEN argument must be >= 0.")?;
        Kept::Entries(most)
    } else {
        let Some(oldest) = EntryName::read(threshold, 0) else { return no_name() };
        Kept::From(oldest)
    };
    // A store removes a hundred blocks at a time.
    Ok(Some(Trimming { kept, is_about, work_max: is_about.then_some(100 * block_max), words: used }))
}

fn xadd(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let (now_ms, block_max) = (store.now_ms(), store.block_max);
    let trimming = trimming(&args[1..], block_max)?;
    let words = &args[1 + trimming.map_or(0, |trimming| trimming.words)..];
    let Some((id, fields)) = words.split_first() else { return no_syntax() };
    if fields.is_empty() || !fields.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'xadd' command".to_owned());
    }
    let wanted = if id == b"*" {
        Wanted::Clock(u64::try_from(now_ms).unwrap_or(0))
    } else if let Some(ms) = id.strip_suffix(b"-*") {
        let Some(name) = EntryName::read(ms, 0).filter(|_| !ms.contains(&b'-')) else { return no_name() };
        Wanted::In(name.ms)
    } else {
        match EntryName::read(id, 0) {
            None => return no_name(),
            Some(name) if name == EntryName::default() => {
                return Err("ERR The ID specified in XADD must be greater than 0-0".to_owned());
            }
            Some(name) => Wanted::Name(name),
        }
    };
    store.keys.change(&args[0], now_ms, |log: &mut Log| {
        let name = log.append(wanted, fields, block_max)?;
        if let Some(Trimming { kept, is_about, work_max, .. }) = trimming {
            log.trim(kept, is_about, work_max);
        }
        Ok(Reply::bulk(format!("{}-{}", name.ms, name.nth)))
    })
}

fn xtrim(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let trimming = trimming(&args[1..], store.block_max)?;
    let Some(Trimming { kept, is_about, work_max, words }) = trimming else { return no_syntax() };
    if args.len() != 1 + words {
        return no_syntax();
    }
    Ok(Reply::count(log(store, &args[0])?.map_or(0, |log| log.trim(kept, is_about, work_max))))
}

fn xdel(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let Some(log) = log(store, &args[0])? else { return Ok(Reply::Int(0)) };
    let Some(names) = args[1..].iter().map(|name| EntryName::read(name, 0)).collect::<Option<Vec<_>>>() else {
        return no_name();
    };
    Ok(Reply::count(names.iter().filter(|name| log.take_out(**name)).count()))
}

fn xlen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(log(store, &args[0])?.map_or(0, |log| log.count())))
}

/// One end of a range: `-`, `+`, a name, or `(` and a name that is left out itself.
fn end(said: &[u8], is_low: bool) -> Result<EntryName, String> {
    let nth = if is_low { 0 } else { u64::MAX };
    let read = |said: &[u8]| match said {
        b"-" => Some(EntryName::default()),
        b"+" => Some(EntryName::LAST),
        _ => EntryName::read(said, nth),
    };
    match said.strip_prefix(b"(") {
        None => read(said).map_or_else(no_name, Ok),
        Some(open) => {
            let Some(name) = EntryName::read(open, nth) else { return no_name() };
            let inside = if is_low { name.next() } else { name.before() };
            let which = if is_low { "start" } else { "end" };
            inside.ok_or_else(|| format!("ERR invalid {which} ID for the interval"))
        }
    }
}

fn range(store: &mut Store, args: &[Vec<u8>], low: &[u8], high: &[u8], is_back: bool) -> Answer {
    let (low, high) = (end(low, true)?, end(high, false)?);
    let count = match &args[3..] {
        [] => None,
        [option, count] if is_option(option, "COUNT") => Some(usize::try_from(whole(count)?).unwrap_or(0)),
        _ => return no_syntax(),
    };
    let Some(log) = log(store, &args[0])? else { return Ok(Reply::Array(vec![])) };
    if count == Some(0) {
        return Ok(Reply::Nil);
    }
    let (entries, most) = (log.between(low, high), count.unwrap_or(MANY));
    Ok(Reply::Array(if is_back { entries.rev().take(most).collect() } else { entries.take(most).collect() }))
}

/// The entries that are there now. A caller that blocks waits in the world around the model.
fn xread(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let (mut at, mut most) = (0, MANY);
    while let [option, value, ..] = &args[at..] {
        if is_option(option, "STREAMS") {
            break;
        } else if is_option(option, "COUNT") {
            most = usize::try_from(whole(value)?).ok().filter(|count| *count > 0).unwrap_or(MANY);
        } else if is_option(option, "BLOCK") {
            whole(value)?;
        } else {
            return no_syntax();
        }
        at += 2;
    }
    let words = args.get(at + 1..).unwrap_or_default();
    if words.is_empty() || !words.len().is_multiple_of(2) {
        return Err(format!("ERR Unbalanced 'xread' list of streams: {}", said(&words.concat())));
    }
    let (names, behind) = words.split_at(words.len() / 2);
    let mut found = Vec::new();
    for (key, behind) in names.iter().zip(behind) {
        let held = log(store, key)?;
        let Some(behind) = EntryName::read(behind, 0) else { return no_name() };
        let from = behind.next();
        let entries: Vec<Reply> = match held.zip(from) {
            Some((log, from)) => log.between(from, EntryName::LAST).take(most).collect(),
            None => Vec::new(),
        };
        if !entries.is_empty() {
            found.push(Reply::Array(vec![Reply::bulk(key), Reply::Array(entries)]));
        }
    }
    Ok(if found.is_empty() { Reply::Nil } else { Reply::Array(found) })
}
