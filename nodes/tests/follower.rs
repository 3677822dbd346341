//! What a node knows of the store: read whole, or from the log, entry by entry; and given back to a store that forgot.

use crate::draws::COOLDOWN_S;
use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use vote_status_nodes::functions::Functions;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const LOG: &str = "vs:{0}:log";

/// A node's state, of this test's own writing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    /// Token and listing of each server.
    pub(crate) servers: BTreeMap<u64, (String, String)>,
    /// The instant of each vote by server and address.
    pub(crate) votes: BTreeMap<(u64, String), u64>,
    /// What the log's newest entry of ours says.
    n: u64,
    /// The log's newest entry.
    last: String,
    /// Entries that still belong to one vote.
    more: u64,
}

fn items(reply: &Reply) -> &[Reply] {
    if let Reply::Array(items) = reply { items } else { &[] }
}

fn text(reply: &Reply) -> String {
    if let Reply::Bulk(bytes) = reply { String::from_utf8_lossy(bytes).into_owned() } else { String::new() }
}

fn number(reply: &Reply) -> Result<u64, String> {
    text(reply).parse().map_err(|_| format!("no number: {reply:?}"))
}

fn record(said: &str) -> Result<(String, String), String> {
    let parts = said.strip_prefix("v1;").and_then(|rest| rest.split_once(';'));
    parts.map(|(token, listing)| (token.to_owned(), listing.to_owned())).ok_or_else(|| format!("no record: {said}"))
}

fn pairs(reply: &Reply) -> impl Iterator<Item = (&Reply, &Reply)> {
    items(reply).chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
}

impl Node {
    /// Reads everything. Directory and tokens agree.
    pub(crate) fn read(store: &mut Store) -> Result<Self, String> {
        let mut node = Self { last: "0-0".to_owned(), ..Self::default() };
        let mut tokens = BTreeMap::new();
        for (server, said) in pairs(&store.ask(&["HGETALL", "vs:{0}:dir"])) {
            let (server, listed) = (number(server)?, record(&text(said))?);
            tokens.insert(listed.0.clone(), server);
            node.servers.insert(server, listed);
        }
        let mut held = BTreeMap::new();
        for (token, server) in pairs(&store.ask(&["HGETALL", "vs:{0}:tok"])) {
            held.insert(text(token), number(server)?);
        }
        if held != tokens {
            return Err(format!("the tokens are {held:?}, and the directory says {tokens:?}"));
        }
        for server in 1..=4 {
            let key = format!("vs:{{0}}:s:{server}");
            // What is over too: where the clock goes back, it may show again.
            let claims = store.ask(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]);
            for (address, at) in pairs(&claims) {
                node.votes.insert((server, text(address)), number(at)?);
            }
        }
        let entries = store.ask(&["XREVRANGE", LOG, "+", "-"]);
        if let Some(newest) = items(&entries).first() {
            node.last = text(&items(newest)[0]);
        }
        let ours =
            items(&entries).iter().map(|entry| items(&items(entry)[1])).find(|fields| fields[0] == Reply::bulk("n"));
        node.n = ours.map_or(Ok(0), |fields| number(&fields[1]))?;
        Ok(node)
    }

    /// Follows the log. Where it was emptied or has a hole, everything is read. Whether it was whole.
    pub(crate) fn follow(&mut self, store: &mut Store) -> Result<bool, String> {
        let head =
            items(&store.ask(&["XREVRANGE", LOG, "+", "-", "COUNT", "1"])).first().map(|entry| text(&items(entry)[0]));
        let found = store.ask(&["XREAD", "STREAMS", LOG, &self.last]);
        let entries = items(&found).first().map_or(&[][..], |log| items(&items(log)[1]));
        let ours = |entry: &&Reply| items(&items(entry)[1])[0] == Reply::bulk("n");
        let first = entries.iter().find(ours).map(|entry| number(&items(&items(entry)[1])[1])).transpose()?;
        let is_cut = head.is_none() && self.last != "0-0" || first.is_some_and(|n| n != self.n + 1);
        let is_behind = entries.is_empty() && head.is_some_and(|head| head != self.last);
        if is_cut || is_behind {
            *self = Self::read(store)?;
            return Ok(false);
        }
        for entry in entries {
            self.apply(items(entry))?;
        }
        if self.more != 0 {
            return Err(format!("{} entries of a vote are missing", self.more));
        }
        // A log that was deleted may give a name again.
        let newest = store.ask(&["XREVRANGE", LOG, "+", "-", "COUNT", "9"]);
        let newest = items(&newest).iter().find(ours).map(|entry| number(&items(&items(entry)[1])[1])).transpose()?;
        if newest.is_some_and(|n| n != self.n) {
            *self = Self::read(store)?;
            return Ok(false);
        }
        Ok(true)
    }

    fn apply(&mut self, entry: &[Reply]) -> Result<(), String> {
        let fields: BTreeMap<String, &Reply> = pairs(&entry[1]).map(|(name, value)| (text(name), value)).collect();
        self.last = text(&entry[0]);
        let Some(n) = fields.get("n") else { return Ok(()) };
        if number(n)? != self.n + 1 {
            return Err(format!("number {n:?} follows {}", self.n));
        }
        self.n += 1;
        if let (Some(server), Some(said)) = (fields.get("d"), fields.get("r")) {
            let server = number(server)?;
            if text(said).is_empty() {
                self.servers.remove(&server);
                self.votes.retain(|(of, _), _| *of != server);
            } else {
                self.servers.insert(server, record(&text(said))?);
            }
            return Ok(());
        }
        let (Some(server), Some(address)) = (fields.get("s"), fields.get("i")) else {
            return Err(format!("{entry:?}"));
        };
        let pair = (number(server)?, text(address));
        if let Some(cancelled) = fields.get("c") {
            let held = self.votes.remove(&pair);
            let cancelled = number(cancelled)?;
            if held != Some(cancelled) {
                return Err(format!("{pair:?}: {cancelled} is cancelled, and {held:?} was there"));
            }
            return Ok(());
        }
        let of_name = self.last.split_once('-').and_then(|(ms, _)| ms.parse::<u64>().ok()).map(|ms| ms / 1_000);
        let at = fields.get("t").map_or_else(|| of_name.ok_or_else(|| "no name".to_owned()), |at| number(at))?;
        let more = fields.get("m").map_or(Ok(0), |more| number(more))?;
        if self.more != 0 && self.more != more + 1 {
            return Err(format!("{more} more entries of a vote, and {} were said", self.more));
        }
        self.more = more;
        self.votes.insert(pair, at);
        Ok(())
    }

    /// The votes that are not over.
    pub(crate) fn live(&self, now_s: u64) -> BTreeSet<(u64, &str, u64)> {
        let live = self.votes.iter().filter(|(_, at)| now_s < *at + COOLDOWN_S);
        live.map(|((server, address), at)| (*server, address.as_str(), *at)).collect()
    }

    /// Gives back all that it knows to a store that has forgotten some of it, in any order of the servers and of the votes,
    /// some of it twice. The store then has each vote, unless it says that it was taken away.
    pub(crate) fn give_back(
        &self,
        functions: &Functions,
        store: &mut Store,
        random: &mut Random,
    ) -> Result<(), String> {
        let keys = |server: u64| {
            let claims = format!("vs:{{0}}:s:{server}");
            ["FCALL", "", "6", LOG, &claims, "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone", "store", ""]
                .map(str::to_owned)
                .to_vec()
        };
        let mut servers: Vec<_> = self.servers.iter().chain(self.servers.iter().take(1)).collect();
        servers.sort_by_cached_key(|_| random.next());
        for (server, (token, listing)) in servers {
            let mut call = keys(*server);
            call[1] = "vote_status_relist".to_owned();
            call.extend([server.to_string(), token.clone(), listing.clone()]);
            functions.ask(store, &call);
        }
        let now_s = store.now_us / 1_000_000;
        let mut votes: Vec<_> = self.live(now_s).into_iter().collect();
        votes.extend(votes.first().copied());
        votes.sort_by_cached_key(|_| random.next());
        for (server, address, at) in &votes {
            let Some((_, listing)) = self.servers.get(server) else {
                return Err(format!("a vote of server {server}, which is not listed"));
            };
            let mut call = keys(*server);
            call[1] = "vote_status_restore".to_owned();
            call.extend([server.to_string(), (*address).to_owned(), at.to_string(), listing.clone()]);
            functions.ask(store, &call);
        }
        let now = Self::read(store)?;
        for (server, address, at) in votes {
            // A token that has moved, and an instant that was cancelled and recorded again, are not promised.
            let is_listed_so = now.servers.get(&server).map(|(_, listing)| listing)
                == self.servers.get(&server).map(|(_, listing)| listing);
            let gone = store.ask(&["ZSCORE", "vs:{0}:gone", &format!("{server}:{address}:{at}")]);
            let held = now.votes.get(&(server, address.to_owned()));
            if is_listed_so && gone == Reply::Nil && held.is_none_or(|held| *held < at) {
                return Err(format!("the vote {server} {address} {at} was given back, and the store has {held:?}"));
            }
        }
        Ok(())
    }
}
