//! The commands of hashes.

use std::collections::BTreeMap;

use crate::keyspace::{Content, Kind};
use crate::reply::{Answer, Reply, is_option, no_syntax, said, whole};
use crate::store::Store;

type Hash = BTreeMap<Vec<u8>, Vec<u8>>;

/// The most fields of a hash that is scanned in one step, whatever `COUNT` says.
const SCANNED_WHOLE_MAX: usize = 128;

impl Kind for Hash {
    fn of(content: &mut Content) -> Option<&mut Self> {
        if let Content::Hash(hash) = content { Some(hash) } else { None }
    }

    fn content(self) -> Content {
        Content::Hash(self)
    }

    fn is_over(&self) -> bool {
        self.is_empty()
    }
}

fn held<'s>(store: &'s mut Store, key: &[u8]) -> Result<Option<&'s Hash>, String> {
    let now_ms = store.now_ms();
    Ok(store.keys.read::<Hash>(key, now_ms)?.map(|hash| &*hash))
}

fn value(hash: Option<&Hash>, field: &[u8]) -> Reply {
    hash.and_then(|hash| hash.get(field)).map_or(Reply::Nil, Reply::bulk)
}

pub(crate) fn hget(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(value(held(store, &args[0])?, &args[1]))
}

pub(crate) fn hmget(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let hash = held(store, &args[0])?;
    Ok(Reply::Array(args[1..].iter().map(|field| value(hash, field)).collect()))
}

pub(crate) fn hgetall(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let fields = held(store, &args[0])?.into_iter().flatten();
    Ok(Reply::Array(fields.flat_map(|(field, value)| [Reply::bulk(field), Reply::bulk(value)]).collect()))
}

pub(crate) fn hlen(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(held(store, &args[0])?.map_or(0, BTreeMap::len)))
}

pub(crate) fn hset(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    if args.len().is_multiple_of(2) {
        return Err("ERR wrong number of arguments for 'hset' command".to_owned());
    }
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |hash: &mut Hash| {
        let new = args[1..].chunks(2).filter(|pair| hash.insert(pair[0].clone(), pair[1].clone()).is_none()).count();
        Ok(Reply::count(new))
    })
}

pub(crate) fn hdel(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |hash: &mut Hash| {
        Ok(Reply::count(args[1..].iter().filter(|field| hash.remove(*field).is_some()).count()))
    })
}

/// A scan gives each field that was there during all of it, as the cursor is a place among the fields' digests. A store with many
/// fields may give a field twice, and the model does not.
pub(crate) fn hscan(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let from = said(&args[1]).parse::<u64>().map_err(|_| "ERR invalid cursor".to_owned())?;
    let at_once = match &args[2..] {
        [] => 10,
        [option, count] if is_option(option, "COUNT") => whole(count)?,
        _ => return no_syntax(),
    };
    if at_once < 1 {
        return no_syntax();
    }
    let Some(hash) = held(store, &args[0])? else {
        return Ok(Reply::Array(vec![Reply::bulk("0"), Reply::Array(vec![])]));
    };
    let mut fields: Vec<_> = hash.iter().map(|(field, value)| (digest(field), field, value)).collect();
    fields.sort_unstable();
    let count =
        if hash.len() <= SCANNED_WHOLE_MAX { hash.len() } else { usize::try_from(at_once).unwrap_or(usize::MAX) };
    let start = if hash.len() <= SCANNED_WHOLE_MAX { 0 } else { fields.partition_point(|(at, ..)| *at < from) };
    let page = fields[start..].iter().take(count);
    let next = fields.get(start.saturating_add(count)).map_or(0, |(at, ..)| *at);
    let told = page.flat_map(|(_, field, value)| [Reply::bulk(field), Reply::bulk(value)]).collect();
    Ok(Reply::Array(vec![Reply::bulk(next.to_string()), Reply::Array(told)]))
}

/// The digest of a field: never 0, at which a scan begins and ends.
fn digest(field: &[u8]) -> u64 {
    let mixed = field
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |held: u64, byte| (held ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mixed.max(1)
}
