//! Facts and their join, written for these tests alone: the state of a store or a node follows from its facts, in any order.

use std::collections::{BTreeMap, BTreeSet};
use vote_status::cluster::wire::sha1;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

pub(crate) const LOG: &str = "vs:{0}:log";
pub(crate) const SERVERS: u64 = 4;
/// The time by which a claims key outlives the last vote in it, in seconds.
const SPARE_S: u64 = 60;

/// A listing of a server has this token since the stamp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) listing: String,
    pub(crate) stamp: u64,
    pub(crate) token: String,
}

impl Record {
    pub(crate) fn read(said: &str) -> Result<Self, String> {
        let mut parts = said.splitn(4, ';');
        let (version, listing, stamp, token) = (parts.next(), parts.next(), parts.next(), parts.next());
        let read = || {
            let stamp = stamp?.parse().ok()?;
            Some(Self { listing: listing?.to_owned(), stamp, token: token?.to_owned() })
        };
        read().filter(|_| version == Some("v2")).ok_or_else(|| format!("no record: {said}"))
    }

    pub(crate) fn told(&self) -> String {
        format!("v2;{};{};{}", self.listing, self.stamp, self.token)
    }

    fn spare(&self) -> Self {
        let token = sha1::hex(format!("{};{}", self.listing, self.token).as_bytes());
        Self { listing: self.listing.clone(), stamp: self.stamp + 1, token }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fact {
    ListingGone(u64, String),
    VoteGone(u64, String, u64),
    Listed(u64, Record),
    Voted(u64, String, String, u64),
}

impl Fact {
    pub(crate) const fn server(&self) -> u64 {
        match self {
            Self::ListingGone(server, _)
            | Self::VoteGone(server, ..)
            | Self::Listed(server, _)
            | Self::Voted(server, ..) => *server,
        }
    }
}

/// A state: the standing facts, and the removals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) records: BTreeMap<u64, Record>,
    /// The instant of each vote by server and address, of the server's present listing.
    pub(crate) votes: BTreeMap<(u64, String), u64>,
    /// The instant up to which the votes of an address were taken away.
    pub(crate) gone_votes: BTreeMap<(u64, String), u64>,
    pub(crate) gone_listings: BTreeSet<(u64, String)>,
}

impl State {
    /// Joins a fact.
    pub(crate) fn apply(&mut self, fact: &Fact) {
        match fact {
            Fact::ListingGone(server, listing) => {
                self.gone_listings.insert((*server, listing.clone()));
                if self.records.get(server).is_some_and(|record| record.listing == *listing) {
                    self.records.remove(server);
                    self.votes.retain(|(of, _), _| of != server);
                }
            }
            Fact::VoteGone(server, address, at) => {
                let name = (*server, address.clone());
                let until = self.gone_votes.entry(name.clone()).or_insert(*at);
                *until = (*until).max(*at);
                if self.votes.get(&name).is_some_and(|held| held <= at) {
                    self.votes.remove(&name);
                }
            }
            Fact::Listed(server, record) => self.list(*server, record),
            Fact::Voted(server, listing, address, at) => self.vote(*server, listing, address, *at),
        }
    }

    fn list(&mut self, server: u64, record: &Record) {
        if self.gone_listings.contains(&(server, record.listing.clone())) {
            return;
        }
        if let Some(held) = self.records.get(&server).cloned() {
            if held.listing > record.listing {
                self.gone_listings.insert((server, record.listing.clone()));
                return;
            }
            if held.listing < record.listing {
                self.apply(&Fact::ListingGone(server, held.listing));
            } else if (held.stamp, held.token.as_bytes()) >= (record.stamp, record.token.as_bytes()) {
                return;
            }
        }
        let holder = self.records.iter().find(|(of, held)| **of != server && held.token == record.token);
        match holder.map(|(of, held)| (*of, held.clone())) {
            Some((_, held)) if (held.stamp, &held.listing) > (record.stamp, &record.listing) => {
                self.list(server, &record.spare());
            }
            Some((of, held)) => {
                self.records.insert(server, record.clone());
                self.list(of, &held.spare());
            }
            None => drop(self.records.insert(server, record.clone())),
        }
    }

    fn vote(&mut self, server: u64, listing: &str, address: &str, at: u64) {
        let is_of_present = self.records.get(&server).is_some_and(|record| record.listing == listing);
        let name = (server, address.to_owned());
        if !is_of_present || self.gone_votes.get(&name) >= Some(&at) {
            return;
        }
        let held = self.votes.entry(name).or_insert(at);
        *held = (*held).max(at);
    }

    /// All facts that make this state.
    pub(crate) fn facts(&self) -> Vec<Fact> {
        let gone = self.gone_listings.iter().map(|(server, listing)| Fact::ListingGone(*server, listing.clone()));
        let cancelled =
            self.gone_votes.iter().map(|((server, address), at)| Fact::VoteGone(*server, address.clone(), *at));
        let listed = self.records.iter().map(|(server, record)| Fact::Listed(*server, record.clone()));
        let voted = self.votes.iter().filter_map(|((server, address), at)| {
            Some(Fact::Voted(*server, self.records.get(server)?.listing.clone(), address.clone(), *at))
        });
        gone.chain(cancelled).chain(listed).chain(voted).collect()
    }

    /// The part of the state that counts now: votes and their tombstones end.
    pub(crate) fn live(&self, now_s: u64, cooldown_s: u64) -> Self {
        let mut live = self.clone();
        live.votes.retain(|_, at| now_s < *at + cooldown_s);
        live.gone_votes.retain(|_, at| now_s < *at + cooldown_s);
        live
    }

    /// Reads a store whole. Checks that directory and tokens agree, and that each claims key lasts as long as its votes.
    pub(crate) fn read(store: &mut Store, cooldown_s: u64) -> Result<Self, String> {
        let mut state = Self::default();
        for (server, said) in pairs(&store.ask(&["HGETALL", "vs:{0}:dir"])) {
            state.records.insert(number(server)?, Record::read(&text(said))?);
        }
        let mut held = BTreeMap::new();
        for (token, server) in pairs(&store.ask(&["HGETALL", "vs:{0}:tok"])) {
            held.insert(text(token), number(server)?);
        }
        let tokens: BTreeMap<_, _> =
            state.records.iter().map(|(server, record)| (record.token.clone(), *server)).collect();
        if held != tokens {
            return Err(format!("the tokens are {held:?}, and the directory says {tokens:?}"));
        }
        for server in 1..=SERVERS {
            let key = format!("vs:{{0}}:s:{server}");
            let mut latest = 0;
            for (address, at) in pairs(&store.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"])) {
                latest = latest.max(number(at)?);
                state.votes.insert((server, text(address)), number(at)?);
            }
            let wanted_ms = i64::try_from((latest + cooldown_s) * 1_000).map_err(|error| error.to_string())?;
            let spare_ms = match store.ask(&["PTTL", &key]) {
                _ if latest == 0 => 0,
                Reply::Int(-1) => i64::MAX,
                Reply::Int(left_ms) => store.now_ms() + left_ms - wanted_ms,
                other => return Err(format!("{other:?}")),
            };
            if spare_ms < 0 || i64::try_from(10 * SPARE_S * 1_000).is_ok_and(|most| spare_ms > most) && latest > 0 {
                return Err(format!("{key} lasts {spare_ms} ms longer than its votes"));
            }
        }
        for (name, score) in pairs(&store.ask(&["ZRANGE", "vs:{0}:gone", "0", "-1", "WITHSCORES"])) {
            let name = text(name);
            let read = |part: &str| part.parse().map_err(|_| format!("no number: {name}"));
            match name.split(':').collect::<Vec<_>>()[..] {
                [server, listing] if text(score) == "inf" => {
                    state.gone_listings.insert((read(server)?, listing.to_owned()));
                }
                [server, address] => {
                    state.gone_votes.insert((read(server)?, address.to_owned()), read(&text(score))?);
                }
                [_server] => {}
                _ => return Err(format!("{name} ends at {}", text(score))),
            }
        }
        Ok(state)
    }
}

pub(crate) fn items(reply: &Reply) -> &[Reply] {
    if let Reply::Array(items) = reply { items } else { &[] }
}

pub(crate) fn text(reply: &Reply) -> String {
    match reply {
        Reply::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Reply::Int(number) => number.to_string(),
        _ => String::new(),
    }
}

fn number(reply: &Reply) -> Result<u64, String> {
    text(reply).parse().map_err(|_| format!("no number: {reply:?}"))
}

pub(crate) fn pairs(reply: &Reply) -> impl Iterator<Item = (&Reply, &Reply)> {
    items(reply).chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}

/// The knowledge of a node that follows a store.
#[derive(Clone, Debug, Default)]
pub(crate) struct Follower {
    pub(crate) state: State,
    /// Number, name and bits of the last entry.
    pub(crate) last: String,
}

/// Number, name and bits of an entry; digits of the bits before it; its facts.
type Entry = (String, String, Vec<(u64, String, String)>);

/// Reads an entry; `None` for an entry of another program.
fn read_entry(entry: &[Reply]) -> Result<Option<Entry>, String> {
    let fields: Vec<String> = items(&entry[1]).iter().map(text).collect();
    let [number, n, bits, b, before, p, rest @ ..] = &fields[..] else { return Ok(None) };
    if [number, bits, before] != ["n", "b", "p"] {
        return Ok(None);
    }
    let (mut server, mut facts) = (None, Vec::new());
    for pair in rest.chunks_exact(2) {
        if pair[0] == "s" {
            server = Some(pair[1].parse().map_err(|_| format!("no server: {rest:?}"))?);
        } else {
            let server = server.ok_or_else(|| format!("a fact of no server: {rest:?}"))?;
            facts.push((server, pair[0].clone(), pair[1].clone()));
        }
    }
    Ok(Some((format!("{n} {} {b}", text(&entry[0])), p.clone(), facts)))
}

/// Reads a vote or its end: address and instant.
fn vote(said: &str) -> Result<(String, u64), String> {
    let (address, at) = said.split_once(':').ok_or_else(|| format!("no vote: {said}"))?;
    Ok((address.to_owned(), at.parse().map_err(|_| format!("no instant: {said}"))?))
}

/// The last entry, as `meta` keeps it.
pub(crate) fn last(store: &mut Store) -> String {
    let last = text(&store.ask(&["HGET", "vs:{0}:meta", "last"]));
    if last.is_empty() { "0 0-0 0".to_owned() } else { last }
}

impl Follower {
    /// Reads the whole store.
    pub(crate) fn read(store: &mut Store, cooldown_s: u64) -> Result<Self, String> {
        let last = last(store);
        Ok(Self { state: State::read(store, cooldown_s)?, last })
    }

    /// Reads on in the log, and joins the new facts. Gives them in order; `None` if the log does not go on from here.
    pub(crate) fn follow(&mut self, store: &mut Store) -> Result<Option<Vec<Fact>>, String> {
        let now = last(store);
        if now == self.last {
            return Ok(Some(Vec::new()));
        }
        let mut parts = self.last.split(' ');
        let (n, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let mut n: u64 = n.parse().map_err(|_| format!("no number: {}", self.last))?;
        let found = store.ask(&["XREAD", "STREAMS", LOG, name]);
        let mut facts = Vec::new();
        for entry in items(&found).first().map_or(&[][..], |log| items(&items(log)[1])) {
            let Some((last, before, said)) = read_entry(items(entry))? else { continue };
            n += 1;
            if !last.starts_with(&format!("{n} ")) || !self.last.ends_with(&before) {
                return Ok(None);
            }
            self.last = last;
            for (server, kind, value) in said {
                let fact = match kind.as_str() {
                    "x" => Fact::ListingGone(server, value),
                    "r" => Fact::Listed(server, Record::read(&value)?),
                    "c" => vote(&value).map(|(address, at)| Fact::VoteGone(server, address, at))?,
                    "v" => {
                        let (address, at) = vote(&value)?;
                        let record = self.state.records.get(&server);
                        let listing =
                            record.ok_or_else(|| format!("a vote of {server}, which is not listed"))?.listing.clone();
                        Fact::Voted(server, listing, address, at)
                    }
                    _ => return Err(format!("an entry says {kind} {value}")),
                };
                self.state.apply(&fact);
                facts.push(fact);
            }
        }
        Ok((self.last == now).then_some(facts))
    }
}
