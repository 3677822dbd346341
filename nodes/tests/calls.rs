//! Calls of the functions, and the checks of their answers, by the store's state before and after.

use crate::draws::COOLDOWN_S;
use crate::facts::{Fact, LOG, Record, State, items, text};
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

/// The furthest stamp of a vote ahead of the clock, in seconds.
const AHEAD_MAX_S: u64 = 5;

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// A vote at this instant, or now.
    Cast(Option<u64>, Vec<String>),
    Record(u64, Vec<String>),
    Cancel(String, u64),
    /// The record that the caller names, the token, bits of a new listing, the greatest known stamp.
    List(String, String, String, u64),
    Remove(String),
    Give(Vec<Fact>),
}

/// A change, the end of its caller's wait, and the last entry that the caller knows.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) server: u64,
    pub(crate) what: What,
    pub(crate) until_ms: Option<u64>,
    pub(crate) last: String,
    pub(crate) bits: i64,
    /// Whether the call is meant for another store.
    pub(crate) is_foreign: bool,
}

impl Call {
    pub(crate) fn words(&self) -> Vec<String> {
        let claims = format!("vs:{{0}}:s:{}", self.server);
        let (function, rest) = match &self.what {
            What::Cast(at, addresses) => {
                let at = at.map(|at| at.to_string()).unwrap_or_default();
                ("vote", [&["cast".to_owned(), at][..], addresses].concat())
            }
            What::Record(at, addresses) => ("vote", [&["record".to_owned(), at.to_string()][..], addresses].concat()),
            What::Cancel(address, at) => ("cancel", vec![address.clone(), at.to_string()]),
            What::List(before, token, bits, stamp) => {
                ("list", vec![before.clone(), token.clone(), bits.clone(), stamp.to_string()])
            }
            What::Remove(listing) => ("remove", vec![listing.clone()]),
            What::Give(facts) => ("give", facts.iter().flat_map(given).collect()),
        };
        let function = format!("vs3_{function}");
        let keys = [LOG, &claims, "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone"];
        let store = if self.is_foreign { "another" } else { "store" };
        let until = self.until_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let (server, bits) = (self.server.to_string(), self.bits.to_string());
        let call = [&["FCALL", &function, "6"][..], &keys, &[store, &until, &self.last, &bits, &server]].concat();
        call.into_iter().map(str::to_owned).chain(rest).collect()
    }
}

fn given(fact: &Fact) -> Vec<String> {
    let (kind, value) = match fact {
        Fact::ListingGone(_, listing) => ("x", listing.clone()),
        Fact::VoteGone(_, address, at) => ("c", format!("{address}:{at}")),
        Fact::Listed(_, record) => ("r", record.told()),
        Fact::Voted(_, listing, address, at) => {
            let vote = format!("{address}:{at}");
            return ["l", listing, "v", &vote].map(str::to_owned).to_vec();
        }
    };
    vec![kind.to_owned(), value]
}

fn is(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

/// A store before a call.
pub(crate) struct Before {
    pub(crate) state: State,
    now_s: u64,
    now_ms: u64,
    last: String,
    holds: bool,
}

impl Before {
    pub(crate) fn read(store: &mut Store, call: &Call) -> Result<Self, String> {
        let last = text(&store.ask(&["HGET", "vs:{0}:meta", "last"]));
        let (now_ms, now_s) = (store.now_us / 1_000, store.now_us / 1_000_000);
        let n = |said: &str| said.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
        // Other code than the library's: whether `meta` or the log has this entry.
        let is_named = items(&store.ask(&["HGETALL", "vs:{0}:meta"])).iter().any(|value| text(value) == call.last);
        let entries = store.ask(&["XRANGE", LOG, "-", "+"]);
        let is_there = items(&entries).iter().any(|entry| {
            let fields: Vec<_> = items(&items(entry)[1]).iter().map(text).collect();
            fields.len() > 3 && format!("{} {} {}", fields[1], text(&items(entry)[0]), fields[3]) == call.last
        });
        let holds = call.last.is_empty() || n(&call.last) == 0 || is_named || is_there;
        Ok(Self { state: State::read(store, COOLDOWN_S)?.live(now_s, COOLDOWN_S), now_s, now_ms, last, holds })
    }

    fn held(&self, server: u64, address: &str) -> Option<u64> {
        self.state.votes.get(&(server, address.to_owned())).copied()
    }

    fn is_gone(&self, server: u64, address: &str, at: u64) -> bool {
        self.state.gone_votes.get(&(server, address.to_owned())) >= Some(&at)
    }

    /// Checks that this answer is right, and that the store holds what it says. Gives the facts that the caller learns.
    pub(crate) fn judge(&self, call: &Call, reply: &Reply, store: &mut Store) -> Result<Vec<Fact>, String> {
        let fields: Vec<_> = items(reply).iter().map(text).collect();
        let [time, word, rest @ ..] = &fields[..] else { return Err("no answer".to_owned()) };
        is(*time == self.now_ms.to_string(), "another time")?;
        let is_late = call.until_ms.is_some_and(|until_ms| until_ms < self.now_ms);
        let right = match (call.is_foreign, is_late, self.holds) {
            (true, ..) => Some("VSSTORE"),
            (_, true, _) => Some("VSLATE"),
            (.., false) => Some("VSLOST"),
            _ => None,
        };
        let facts = match right {
            Some(code) => is(word == code, code).map(|()| Vec::new())?,
            None => self.facts(call, word, rest)?,
        };
        let mut expected = self.state.clone();
        for fact in &facts {
            match fact {
                // A listing by a caller is not joined: it stands.
                Fact::Listed(server, record) if matches!(call.what, What::List(..)) => {
                    expected.records.insert(*server, record.clone());
                }
                fact => expected.apply(fact),
            }
        }
        let (expected, after) = (expected.live(self.now_s, COOLDOWN_S), State::read(store, COOLDOWN_S)?);
        let after = after.live(self.now_s, COOLDOWN_S);
        is(after == expected, &format!("the store holds {after:?}, and not {expected:?}"))?;
        let last = text(&store.ask(&["HGET", "vs:{0}:meta", "last"]));
        let said = if right.is_some() { "" } else { rest.first().map_or("", String::as_str) };
        is(if said.is_empty() { last == self.last } else { last == said && last != self.last }, "another last entry")?;
        is(said.is_empty() == (self.state == after), "an entry says a change")?;
        Ok(facts)
    }

    fn facts(&self, call: &Call, word: &str, rest: &[String]) -> Result<Vec<Fact>, String> {
        let (server, now_s) = (call.server, self.now_s);
        let record = self.state.records.get(&server);
        let field = |at: usize| rest.get(at).map_or("", String::as_str);
        let instant = |at: usize| field(at).parse::<u64>().map_err(|_| "no instant".to_owned());
        let none = |holds: bool, why: &str| is(holds, why).map(|()| Vec::new());
        let needs_listing = !matches!(call.what, What::List(..) | What::Remove(_) | What::Give(_));
        if needs_listing && record.is_none() {
            return none(word == "unlisted", "the server is not listed");
        }
        let told = record.map(Record::told).unwrap_or_default();
        let voted = |addresses: &[&String], at: u64| {
            let record = record.ok_or("no record")?;
            is(field(2) == told, "another record")?;
            let fact = |address: &&String| Fact::Voted(server, record.listing.clone(), (*address).clone(), at);
            Ok([Fact::Listed(server, record.clone())].into_iter().chain(addresses.iter().map(fact)).collect())
        };
        match (&call.what, word) {
            (What::Cast(Some(at), _), word) if *at > now_s + AHEAD_MAX_S => none(word == "future", "future"),
            (What::Cast(Some(at), _), word) if at + COOLDOWN_S <= now_s => none(word == "over", "over"),
            (What::Cast(from, addresses), "recorded") => {
                let (at, from) = (instant(1)?, from.unwrap_or(now_s));
                is((from..=now_s + AHEAD_MAX_S).contains(&at), "a vote is of the moment that is said")?;
                let is_first = (from..at).all(|at| addresses.iter().any(|address| self.is_gone(server, address, at)));
                let was_removed = self.state.gone_listings.iter().any(|(of, _)| *of == server);
                is(is_first || was_removed, "a vote is of the first free second")?;
                is(addresses.iter().all(|address| self.held(server, address).is_none()), "a second vote")?;
                is(!addresses.iter().any(|address| self.is_gone(server, address, at)), "it was taken away")?;
                voted(&addresses.iter().collect::<Vec<_>>(), at)
            }
            (What::Cast(_, addresses), "cooldown") => {
                let latest = addresses.iter().filter_map(|address| self.held(server, address)).max();
                let is_of = addresses.iter().any(|address| address == field(2) && self.held(server, address) == latest);
                none(latest == Some(instant(1)?) && is_of, "no such cooldown")
            }
            (What::Cast(..), "many") => {
                let has_gone = !self.state.gone_votes.is_empty() || !self.state.gone_listings.is_empty();
                none(has_gone, "nothing was taken away")
            }
            (What::Record(at, addresses), _) => {
                let open: Vec<_> = addresses
                    .iter()
                    .filter(|address| self.held(server, address).is_none_or(|held| held < *at))
                    .collect();
                let gone = open.iter().find(|address| self.is_gone(server, address, *at));
                let right = match gone {
                    _ if *at > now_s + AHEAD_MAX_S => "future",
                    _ if at + COOLDOWN_S <= now_s => "over",
                    _ if open.is_empty() => "unchanged",
                    Some(_) => "cancelled",
                    None => "recorded",
                };
                is(word == right, right)?;
                if word == "unchanged" {
                    let latest = addresses.iter().filter_map(|address| self.held(server, address)).max();
                    is(latest == Some(instant(1)?), "not the latest")?;
                }
                if word == "recorded" {
                    is(instant(1)? == *at, "another instant")?;
                    return voted(&open, *at);
                }
                none(word != "cancelled" || gone.is_some_and(|address| *address == field(1)), "another address")
            }
            (What::Cancel(address, at), "cancelled") => {
                is(self.held(server, address) == Some(*at), "another vote, or none, was there")?;
                Ok(vec![Fact::VoteGone(server, address.clone(), *at)])
            }
            (What::Cancel(address, at), "other") => {
                let held = self.held(server, address);
                let said = held.map(|held| held.to_string()).unwrap_or_default();
                none(held != Some(*at) && field(1) == said, "that vote was there")
            }
            (What::List(before, token, bits, stamp), _) => {
                let is_used = self.state.records.iter().any(|(of, held)| *of != server && held.token == *token);
                let right = match record {
                    _ if told != *before => "other",
                    Some(record) if record.token == *token => "unchanged",
                    _ if is_used => "in_use",
                    _ => "listed",
                };
                is(word == right, right)?;
                if word != "listed" {
                    return none(word == "in_use" || field(1) == told, "another record");
                }
                let made = Record::read(field(1))?;
                let stamps = self.state.records.values().map(|held| held.stamp).chain([*stamp]);
                let is_later = made.stamp > stamps.max().unwrap_or(0) && made.stamp >= self.now_ms * 1_000;
                is(is_later && made.stamp % 10 == 0, "the stamp is the latest")?;
                is(made.token == *token, "another token")?;
                let of_stamp = format!("{:016}-{bits}", made.stamp);
                is(made.listing == record.map_or(&of_stamp, |record| &record.listing).as_str(), "another listing")?;
                Ok(vec![Fact::Listed(server, made)])
            }
            (What::Remove(listing), "removed") => {
                is(record.is_some_and(|record| record.listing == *listing), "it was not listed so")?;
                Ok(vec![Fact::ListingGone(server, listing.clone())])
            }
            (What::Remove(listing), "other") => {
                let is_other = record.is_none_or(|record| record.listing != *listing);
                none(is_other && field(1) == told, "it was listed so")
            }
            (What::Give(facts), "given") => {
                let words: usize = facts.iter().map(|fact| given(fact).len()).sum();
                is(rest.len() == 1 + words, "an answer for each fact")?;
                Ok(facts.clone())
            }
            _ => Err("no answer to this".to_owned()),
        }
    }
}
