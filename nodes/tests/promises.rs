//! What docs/CLUSTER.md promises of each change, within one history. Where the clock was ahead for a moment, what this ended
//! may have stayed ended: then both is right.

use crate::draws::COOLDOWN_S;
use crate::follower::Node;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use vote_status_nodes::reply::Reply;

/// A vote may be stamped so far ahead.
const AHEAD_MAX_S: u64 = 5;

/// A change, and until when its caller waits.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) server: u64,
    pub(crate) what: What,
    pub(crate) until_ms: Option<u64>,
    /// Meant for another store.
    pub(crate) is_foreign: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    Cast(Vec<String>),
    Record(u64, Vec<String>),
    Cancel(String),
    Restore(String, u64, String),
    /// The token that is said, a spare one, the listing.
    List(Option<String>, String, String),
    Rotate(String),
    Relist(String, String),
    Remove,
}

impl Call {
    pub(crate) fn words(&self) -> Vec<String> {
        let claims = format!("vs:{{0}}:s:{}", self.server);
        let (function, rest) = match &self.what {
            What::Cast(addresses) => ("vote", [&["cast", ""].map(str::to_owned)[..], addresses].concat()),
            What::Record(at, addresses) => ("vote", [&["record".to_owned(), at.to_string()][..], addresses].concat()),
            What::Cancel(address) => ("cancel", vec![address.clone()]),
            What::Restore(address, at, listing) => ("restore", vec![address.clone(), at.to_string(), listing.clone()]),
            What::List(said, spare, listing) => {
                let said = said.clone().unwrap_or_default();
                ("server", vec!["list".to_owned(), said, spare.clone(), listing.clone()])
            }
            What::Rotate(token) => ("server", ["rotate", token, token, ""].map(str::to_owned).to_vec()),
            What::Relist(token, listing) => ("relist", vec![token.clone(), listing.clone()]),
            What::Remove => ("remove", vec![]),
        };
        let function = format!("vote_status_{function}");
        let keys = ["vs:{0}:log", &claims, "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone"];
        let store = if self.is_foreign { "another" } else { "store" };
        let until = self.until_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let server = self.server.to_string();
        let call = [&["FCALL", &function, "6"][..], &keys, &[store, &until, &server]].concat();
        call.into_iter().map(str::to_owned).chain(rest).collect()
    }
}

#[derive(Clone, Debug)]
struct Vote {
    at: u64,
    /// The latest second that the store's clock has shown since.
    seen_s: u64,
}

/// What has to be so by all that was answered.
#[derive(Debug)]
pub(crate) struct Promises {
    now_ms: u64,
    now_s: u64,
    servers: BTreeMap<u64, (String, String)>,
    votes: BTreeMap<(u64, String), Vote>,
    /// What was taken away in this history: the vote; or the listing, with the latest instant of its votes. Each with the
    /// latest second seen since.
    cancelled: BTreeMap<(u64, String, u64), u64>,
    removed: BTreeMap<String, (u64, u64)>,
    /// Every vote that was cast, and the one before it was another one.
    cast: BTreeSet<(u64, String, u64)>,
    has_gone_back: bool,
}

fn is(holds: bool, why: &str) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why.to_owned()) }
}

fn field(reply: &Reply, at: usize) -> Option<&Reply> {
    if let Reply::Array(fields) = reply { fields.get(at) } else { None }
}

fn number(reply: &Reply, at: usize) -> Option<u64> {
    if let Some(Reply::Int(number)) = field(reply, at) { u64::try_from(*number).ok() } else { None }
}

impl Promises {
    pub(crate) fn new(now_ms: u64) -> Self {
        let (servers, votes, cancelled, removed, cast) = Default::default();
        Self { now_ms, now_s: now_ms / 1_000, servers, votes, cancelled, removed, cast, has_gone_back: false }
    }

    /// The store's clock shows this.
    pub(crate) fn at(&mut self, now_ms: u64) {
        let now_s = now_ms / 1_000;
        self.has_gone_back |= now_s < self.now_s;
        (self.now_ms, self.now_s) = (now_ms, now_s);
        let seen = self.votes.values_mut().map(|vote| &mut vote.seen_s);
        let removed = self.removed.values_mut().map(|(_, seen_s)| seen_s);
        for seen_s in seen.chain(self.cancelled.values_mut()).chain(removed) {
            *seen_s = now_s.max(*seen_s);
        }
    }

    /// A new history begins with what is there. What was taken away in the one before may be remembered, or not.
    pub(crate) fn begin_history(&mut self, node: &Node) {
        let now_s = self.now_s;
        let (cancelled, removed) = (mem::take(&mut self.cancelled), mem::take(&mut self.removed));
        *self = Self { has_gone_back: true, ..Self::new(self.now_ms) };
        self.cancelled = cancelled.into_keys().map(|vote| (vote, u64::MAX)).collect();
        self.removed = removed.into_iter().map(|(listing, (latest, _))| (listing, (latest, u64::MAX))).collect();
        self.servers.clone_from(&node.servers);
        self.votes = node.votes.iter().map(|(pair, at)| (pair.clone(), Vote { at: *at, seen_s: now_s })).collect();
    }

    /// The listings of a server, those that were removed too.
    pub(crate) fn listings(&self, server: u64) -> Vec<String> {
        let now = self.servers.get(&server).map(|(_, listing)| listing);
        let of_server = |listing: &&String| listing.starts_with(&format!("{server:08x}"));
        self.removed.keys().filter(of_server).chain(now).cloned().collect()
    }

    /// A vote that is there or was taken away, or would have been of a listing that was.
    pub(crate) fn any_vote(&self, random: &mut Random) -> Option<(u64, String, u64)> {
        let there = self.votes.iter().map(|((server, address), vote)| (*server, address.clone(), vote.at));
        let of_removed = self.removed.iter().filter_map(|(listing, (latest, _))| {
            let server = u64::from_str_radix(listing.get(..8)?, 16).ok()?;
            Some((server, "16909060".to_owned(), *latest))
        });
        let all: Vec<_> = there.chain(self.cancelled.keys().cloned()).chain(of_removed).collect();
        let at = random.below(u64::try_from(all.len().max(1)).ok()?);
        all.get(usize::try_from(at).ok()?).cloned()
    }

    /// The vote of a pair that counts now: for sure, and by the clock alone.
    fn held(&self, server: u64, address: &str) -> (Option<u64>, Option<u64>) {
        let vote = self.votes.get(&(server, address.to_owned())).filter(|vote| self.now_s < vote.at + COOLDOWN_S);
        (vote.filter(|vote| vote.seen_s < vote.at + COOLDOWN_S).map(|vote| vote.at), vote.map(|vote| vote.at))
    }

    /// Whether this answer keeps every promise. Whether it says that something has changed.
    /// Where both is right, the node, which has followed the log, says what it was.
    pub(crate) fn judge(&mut self, call: &Call, reply: &Reply, node: &Node) -> Result<bool, String> {
        if let Reply::Refused(why) = reply {
            let is_said =
                |code: &str, holds: bool| if why.starts_with(code) { is(holds, "no reason to refuse") } else { Ok(()) };
            is(["VSLATE", "VSSTORE"].iter().any(|code| why.starts_with(code)), "an error")?;
            is_said("VSSTORE", call.is_foreign)?;
            is_said("VSLATE", self.is_late(call))?;
            return Ok(false);
        }
        is(!call.is_foreign, "it was meant for another store")?;
        is(!self.is_late(call), "nobody waits for it")?;
        let Some(what) = number(reply, 0) else { return Err("no answer".to_owned()) };
        if !self.servers.contains_key(&call.server) {
            match call.what {
                What::List(..) | What::Relist(..) => {}
                What::Restore(..) => return is(what == 1, "the server is not listed").map(|()| false),
                _ => return is(what == 5, "the server is not listed").map(|()| false),
            }
        }
        match &call.what {
            What::Cast(addresses) => self.judge_cast(call.server, addresses, reply, what),
            What::Record(at, addresses) => self.judge_record((call.server, *at), addresses, (reply, what), node),
            What::Cancel(address) => self.judge_cancel(call.server, address, reply, what),
            What::Restore(address, at, listing) => self.judge_restore((call.server, address, *at), listing, what),
            What::List(said, spare, listing) => {
                let held = self.servers.get(&call.server).map(|(token, _)| token.clone());
                let token = said.clone().or_else(|| held.clone()).unwrap_or_else(|| spare.clone());
                self.judge_token(call.server, &token, held.as_deref() == Some(&token), listing, what)
            }
            What::Rotate(token) => self.judge_token(call.server, token, false, "", what),
            What::Relist(token, listing) => {
                let was_removed = self.removed.contains_key(listing);
                if self.servers.contains_key(&call.server) || self.is_of_another(call.server, token) {
                    return is(what == 1, "it is listed, or another one has the token").map(|()| false);
                }
                is(what == 0 || was_removed, "that listing was not removed")?;
                self.take_listing(call.server, token, listing, what)
            }
            What::Remove => {
                is(what == 0, "it is listed")?;
                let (_, listing) = self.servers.remove(&call.server).unwrap_or_default();
                let its = |((server, _), vote): (&(u64, String), &Vote)| (*server == call.server).then_some(vote.at);
                let latest = self.votes.iter().filter_map(its).max().unwrap_or(0).max(self.now_s);
                self.removed.insert(listing, (latest, self.now_s));
                self.votes.retain(|(server, _), _| *server != call.server);
                Ok(true)
            }
        }
    }

    fn is_late(&self, call: &Call) -> bool {
        call.until_ms.is_some_and(|until_ms| until_ms < self.now_ms)
    }

    fn take_listing(&mut self, server: u64, token: &str, listing: &str, what: u64) -> Result<bool, String> {
        if what == 0 {
            self.servers.insert(server, (token.to_owned(), listing.to_owned()));
        }
        Ok(what == 0)
    }

    fn is_of_another(&self, server: u64, token: &str) -> bool {
        self.servers.iter().any(|(other, (held, _))| *other != server && held == token)
    }

    fn judge_token(
        &mut self,
        server: u64,
        token: &str,
        is_held: bool,
        listing: &str,
        what: u64,
    ) -> Result<bool, String> {
        let listed = self.servers.get(&server).map(|(_, listing)| listing.clone());
        let expected = match &listed {
            Some(_) if is_held => 2,
            _ if self.is_of_another(server, token) => 3,
            Some(_) => 1,
            None => 0,
        };
        is(what == expected, &format!("{expected} is right"))?;
        if what < 2 {
            let listing = listed.unwrap_or_else(|| listing.to_owned());
            self.servers.insert(server, (token.to_owned(), listing));
        }
        Ok(what < 2)
    }

    fn take_vote(&mut self, server: u64, address: &str, at: u64) {
        self.votes.insert((server, address.to_owned()), Vote { at, seen_s: self.now_s });
    }

    fn judge_cast(&mut self, server: u64, addresses: &[String], reply: &Reply, what: u64) -> Result<bool, String> {
        let held: Vec<_> = addresses.iter().map(|address| self.held(server, address)).collect();
        let at = number(reply, 1);
        match what {
            0 => {
                let at = at.ok_or("no instant")?;
                is((self.now_s..=self.now_s + AHEAD_MAX_S).contains(&at), "a vote is of the moment")?;
                is(held.iter().all(|(sure, _)| sure.is_none()), "a second vote within the cooldown")?;
                for address in addresses {
                    let vote = (server, address.clone(), at);
                    let is_spent = self.cancelled.get(&vote).is_some_and(|seen_s| *seen_s < at + COOLDOWN_S);
                    is(!is_spent, "the instant was cancelled")?;
                    is(
                        self.cast.insert(vote) || self.has_gone_back || addresses.len() > 1,
                        "that vote was cast before",
                    )?;
                    self.take_vote(server, address, at);
                }
                Ok(true)
            }
            2 => {
                let latest = held.iter().filter_map(|(_, maybe)| *maybe).max();
                let sure = held.iter().filter_map(|(sure, _)| *sure).max();
                is(at.is_some() && at <= latest && at >= sure, "no vote has that instant")?;
                Ok(false)
            }
            // Within seconds, each of five instants was taken away.
            6 => is(!self.cancelled.is_empty() || !self.removed.is_empty(), "nothing was changed").map(|()| false),
            _ => Err("a vote is taken, or in cooldown".to_owned()),
        }
    }

    fn judge_record(
        &mut self,
        (server, at): (u64, u64),
        addresses: &[String],
        (reply, what): (&Reply, u64),
        node: &Node,
    ) -> Result<bool, String> {
        let expected = |code, why: &str| is(what == code, why).map(|()| false);
        if at > self.now_s + AHEAD_MAX_S {
            return expected(4, "it is in the future");
        } else if at + COOLDOWN_S <= self.now_s {
            return expected(3, "it is over");
        }
        let held: Vec<_> = addresses.iter().map(|address| self.held(server, address)).collect();
        match what {
            0 => {
                is(number(reply, 1) == Some(at), "another instant")?;
                is(held.iter().any(|(sure, _)| sure.is_none_or(|held| held < at)), "every address has a later vote")?;
                for (address, (sure, maybe)) in addresses.iter().zip(held) {
                    let is_open = sure.is_none() && node.votes.get(&(server, address.clone())) == Some(&at);
                    if is_open || maybe.is_none_or(|held| held < at) {
                        self.cancelled.remove(&(server, address.clone(), at));
                        self.take_vote(server, address, at);
                    }
                }
                Ok(true)
            }
            1 => {
                is(held.iter().all(|(_, maybe)| maybe.is_some_and(|held| held >= at)), "an address has no such vote")?;
                is(number(reply, 1) == held.iter().filter_map(|(_, maybe)| *maybe).max(), "not the latest")?;
                Ok(false)
            }
            _ => Err("it is recorded, or there already".to_owned()),
        }
    }

    fn judge_cancel(&mut self, server: u64, address: &str, reply: &Reply, what: u64) -> Result<bool, String> {
        let (sure, maybe) = self.held(server, address);
        match what {
            0 => {
                is(maybe.is_some() && number(reply, 1) == maybe, "another vote, or none, was there")?;
                self.votes.remove(&(server, address.to_owned()));
                self.cancelled.insert((server, address.to_owned(), maybe.unwrap_or_default()), self.now_s);
                Ok(true)
            }
            1 => is(sure.is_none(), "the vote is there").map(|()| false),
            _ => Err("it is cancelled, or not there".to_owned()),
        }
    }

    fn judge_restore(
        &mut self,
        (server, address, at): (u64, &str, u64),
        listing: &str,
        what: u64,
    ) -> Result<bool, String> {
        let (sure, maybe) = self.held(server, address);
        let cancelled = self.cancelled.get(&(server, address.to_owned(), at));
        let removed = self.removed.get(listing);
        match what {
            0 => {
                is(at + COOLDOWN_S > self.now_s, "it is over")?;
                is(sure.is_none_or(|held| held < at), "a later vote is there")?;
                is(cancelled.is_none_or(|seen_s| *seen_s >= at + COOLDOWN_S), "it was cancelled")?;
                is(
                    removed.is_none_or(|(latest, seen_s)| at > *latest || *seen_s >= at + COOLDOWN_S),
                    "its listing was removed",
                )?;
                self.take_vote(server, address, at);
                Ok(true)
            }
            1 => {
                let is_past = at + COOLDOWN_S <= self.now_s || maybe.is_some_and(|held| held >= at);
                is(is_past || cancelled.is_some() || removed.is_some(), "it was lost, and not taken away")
                    .map(|()| false)
            }
            _ => Err("it is restored, or refused".to_owned()),
        }
    }

    /// The node that followed the log and one that read everything have the same, and that is what was answered.
    pub(crate) fn compare(&self, node: &Node, whole: &Node) -> Result<(), String> {
        is(node.servers == whole.servers && node.servers == self.servers, "servers differ")?;
        let (followed, read) = (node.live(self.now_s), whole.live(self.now_s));
        let sure = |(server, address, at): &(u64, &str, u64)| self.held(*server, address).0 == Some(*at);
        let maybe = |(server, address, at): &(u64, &str, u64)| self.held(*server, address).1 == Some(*at);
        for vote in followed.symmetric_difference(&read) {
            is(!sure(vote), &format!("{vote:?} is shown by one of two nodes"))?;
        }
        for vote in followed.union(&read) {
            is(maybe(vote), &format!("{vote:?} is shown, and was not taken, or was taken away"))?;
        }
        for (server, address) in self.votes.keys() {
            if let (Some(at), _) = self.held(*server, address) {
                is(
                    read.contains(&(*server, address, at)),
                    &format!("{server} {address} {at} was answered, and is lost"),
                )?;
            }
        }
        Ok(())
    }
}
