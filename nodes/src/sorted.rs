//! Sorted sets, and their commands.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::keyspace::{Content, Kind};
use crate::reply::{Answer, Reply, is_option, no_syntax, whole};
use crate::store::Store;

/// A score, which is a number.
#[derive(Clone, Copy, Debug)]
struct Score(f64);

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl Score {
    /// The score as text. Whole numbers have no fraction. Of others Redis 7.0 writes 17 digits, and a later one the fewest that
    /// are exact: as here.
    fn told(self) -> Reply {
        Reply::bulk(self.0.to_string())
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let number = std::str::from_utf8(bytes).ok()?.parse::<f64>().ok()?;
        // A zero has no sign.
        (!number.is_nan()).then_some(Self(number + 0.0))
    }
}

/// A sorted set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SortedSet {
    scores: BTreeMap<Vec<u8>, Score>,
    order: BTreeSet<(Score, Vec<u8>)>,
}

impl SortedSet {
    fn set(&mut self, member: &[u8], score: Score) -> bool {
        let before = self.scores.insert(member.to_vec(), score);
        if let Some(before) = before {
            self.order.remove(&(before, member.to_vec()));
        }
        self.order.insert((score, member.to_vec()));
        before.is_none()
    }

    fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else { return false };
        self.order.remove(&(score, member.to_vec()))
    }

    fn between(&self, (low, high): (Bound<Score>, Bound<Score>)) -> Vec<(Score, Vec<u8>)> {
        let is_low = |score: &Score| match low {
            Bound::Included(low) => *score >= low,
            Bound::Excluded(low) => *score > low,
            Bound::Unbounded => true,
        };
        let is_high = |score: &Score| match high {
            Bound::Included(high) => *score <= high,
            Bound::Excluded(high) => *score < high,
            Bound::Unbounded => true,
        };
        self.order.iter().filter(|(score, _)| is_low(score) && is_high(score)).cloned().collect()
    }

    /// All members, each with its score, in order.
    pub(crate) fn told(&self) -> Reply {
        Reply::Array(self.order.iter().flat_map(|(score, member)| [Reply::bulk(member), score.told()]).collect())
    }
}

impl Kind for SortedSet {
    fn of(content: &mut Content) -> Option<&mut Self> {
        if let Content::Sorted(set) = content { Some(set) } else { None }
    }

    fn content(self) -> Content {
        Content::Sorted(self)
    }

    fn is_over(&self) -> bool {
        self.scores.is_empty()
    }
}

fn held<'s>(store: &'s mut Store, key: &[u8]) -> Result<Option<&'s SortedSet>, String> {
    let now_ms = store.now_ms();
    Ok(store.keys.read::<SortedSet>(key, now_ms)?.map(|set| &*set))
}

fn bounds(low: &[u8], high: &[u8]) -> Result<(Bound<Score>, Bound<Score>), String> {
    let bound = |said: &[u8]| match said.strip_prefix(b"(") {
        Some(open) => Score::read(open).map(Bound::Excluded),
        None => Score::read(said).map(Bound::Included),
    };
    bound(low).zip(bound(high)).ok_or_else(|| "ERR min or max is not a float".to_owned())
}

fn told(pairs: &[(Score, Vec<u8>)], has_scores: bool) -> Reply {
    let told = pairs.iter().flat_map(|(score, member)| {
        let score = has_scores.then(|| score.told());
        [Some(Reply::bulk(member)), score].into_iter().flatten()
    });
    Reply::Array(told.collect())
}

/// Whether the words that follow ask for the scores, too.
fn has_scores(words: &[Vec<u8>]) -> Result<bool, String> {
    match words {
        [] => Ok(false),
        [option] if is_option(option, "WITHSCORES") => Ok(true),
        _ => no_syntax(),
    }
}

pub(crate) fn zadd(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    if args.len().is_multiple_of(2) {
        return no_syntax();
    }
    let mut pairs = Vec::new();
    for pair in args[1..].chunks(2) {
        let score = Score::read(&pair[0]).ok_or_else(|| "ERR value is not a valid float".to_owned())?;
        pairs.push((score, &pair[1]));
    }
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |set: &mut SortedSet| {
        Ok(Reply::count(pairs.iter().filter(|(score, member)| set.set(member, *score)).count()))
    })
}

pub(crate) fn zrem(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |set: &mut SortedSet| {
        Ok(Reply::count(args[1..].iter().filter(|member| set.remove(member)).count()))
    })
}

pub(crate) fn zremrangebyscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let bounds = bounds(&args[1], &args[2])?;
    let now_ms = store.now_ms();
    store.keys.change(&args[0], now_ms, |set: &mut SortedSet| {
        let over = set.between(bounds);
        Ok(Reply::count(over.iter().filter(|(_, member)| set.remove(member)).count()))
    })
}

pub(crate) fn zscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let score = held(store, &args[0])?.and_then(|set| set.scores.get(&args[1]));
    Ok(score.map_or(Reply::Nil, |score| score.told()))
}

pub(crate) fn zcard(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    Ok(Reply::count(held(store, &args[0])?.map_or(0, |set| set.scores.len())))
}

pub(crate) fn zrangebyscore(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let (bounds, has_scores) = (bounds(&args[1], &args[2])?, has_scores(&args[3..])?);
    let pairs = held(store, &args[0])?.map(|set| set.between(bounds)).unwrap_or_default();
    Ok(told(&pairs, has_scores))
}

/// Members by rank alone: nodes ask for no other range.
pub(crate) fn zrange(store: &mut Store, args: &[Vec<u8>]) -> Answer {
    let has_scores = has_scores(&args[3..])?;
    let (first, last) = (whole(&args[1])?, whole(&args[2])?);
    let Some(set) = held(store, &args[0])? else { return Ok(Reply::Array(vec![])) };
    let count = i64::try_from(set.order.len()).unwrap_or(i64::MAX);
    let from_start = |at: i64| if at < 0 { at.saturating_add(count) } else { at };
    let first = usize::try_from(from_start(first)).unwrap_or(0);
    let behind = usize::try_from(from_start(last).saturating_add(1)).unwrap_or(0);
    let pairs: Vec<_> = set.order.iter().take(behind).skip(first).cloned().collect();
    Ok(told(&pairs, has_scores))
}
