//! Random calls: the functions, the nodes' other commands, and damage by others to the keys.

use crate::facts::{items, text};
use crate::random::Random;
use vote_status_nodes::store::Store;

pub(crate) const KEYS: [&str; 9] = [
    "vs:{0}:log",
    "vs:{0}:dir",
    "vs:{0}:tok",
    "vs:{0}:meta",
    "vs:{0}:gone",
    "vs:{0}:nodes",
    "vs:{0}:s:1",
    "vs:{0}:s:2",
    "vs:{0}:s:3",
];
pub(crate) const STORE: &str = "store";
pub(crate) const COOLDOWN_S: u64 = 120;
/// The commands that a test may deny to the nodes' user.
pub(crate) const COMMANDS: [&str; 16] = [
    "xadd",
    "xrevrange",
    "hget",
    "hmget",
    "hset",
    "hdel",
    "hgetall",
    "zadd",
    "zrem",
    "zscore",
    "zrange",
    "zrangebyscore",
    "zremrangebyscore",
    "pexpire",
    "unlink",
    "time",
];
const SERVERS: [&str; 4] = ["1", "2", "3", "4"];
const ADDRESSES: [&str; 4] = ["16909060", "84281096", "20010db800000000", "3405803783"];
const TOKENS: [&str; 5] = ["demo", "another", "third", "with;semicolon", "a+b="];
const LISTINGS: [&str; 3] = ["00000000000000aa", "00000000000000bb", "00000000000000cc"];

/// Draws calls at an instant.
pub(crate) struct Draws<'r> {
    pub(crate) random: &'r mut Random,
    pub(crate) now_us: u64,
    /// The store as it is now.
    pub(crate) store: Store,
}

fn words(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|word| word.as_bytes().to_vec()).collect()
}

impl Draws<'_> {
    fn now_s(&self) -> u64 {
        self.now_us / 1_000_000
    }

    fn small(&mut self) -> String {
        self.random.below(6).to_string()
    }

    /// An instant near one that decides.
    fn instant(&mut self) -> String {
        let now = self.now_s();
        let around = [0, 1, 4, 5, 6, COOLDOWN_S, COOLDOWN_S + 5, COOLDOWN_S + 60];
        let far = *self.random.pick(&around.each_ref());
        (if self.random.is(40) { now + far } else { now.saturating_sub(far) }).to_string()
    }

    fn score(&mut self) -> String {
        match self.random.below(12) {
            0 => "-inf".to_owned(),
            1 => "+inf".to_owned(),
            2 => "no number".to_owned(),
            3 => format!("{}.5", self.random.below(100)),
            4 => format!("-{}", self.random.below(100)),
            // Few values, so that bounds meet scores.
            5..9 => self.small(),
            _ => self.instant(),
        }
    }

    fn bound(&mut self) -> String {
        let score = if self.random.is(70) { self.small() } else { self.score() };
        if self.random.is(40) { format!("({score}") } else { score }
    }

    fn name(&mut self) -> String {
        let ms = self.now_us / 1_000;
        let ms = if self.random.is(50) {
            ms.saturating_sub(self.random.below(4_000_000))
        } else {
            ms + self.random.below(3)
        };
        match self.random.below(9) {
            0 => "*".to_owned(),
            1 => format!("{ms}-*"),
            2 => ms.to_string(),
            3 => "0-0".to_owned(),
            4 => format!("({ms}-1"),
            5 => "-".to_owned(),
            6 => "+".to_owned(),
            7 => "no name".to_owned(),
            _ => format!("{ms}-{}", self.random.below(3)),
        }
    }

    fn key(&mut self) -> &'static str {
        self.random.pick(&KEYS)
    }

    /// A key of this type, mostly.
    fn key_of(&mut self, kind: &str) -> &'static str {
        if self.random.is(8) {
            return self.key();
        }
        match kind {
            "hash" => self.random.pick(&["vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:nodes"]),
            "zset" => self.random.pick(&["vs:{0}:gone", "vs:{0}:s:1", "vs:{0}:s:3"]),
            _ => KEYS[0],
        }
    }

    fn field(&mut self) -> &'static str {
        self.random.pick(&["store", "cd", "last", "schema", "1", "2", "demo", "third"])
    }

    fn member(&mut self) -> String {
        let (server, address) = (self.random.pick(&SERVERS), self.random.pick(&ADDRESSES));
        match self.random.below(4) {
            0 => format!("{server}:{address}:{}", self.instant()),
            1 => self.random.pick(&LISTINGS).to_owned(),
            2 => server.to_owned(),
            _ => address.to_owned(),
        }
    }

    /// The store's reply as text.
    fn asked(&mut self, words: &[&str]) -> String {
        text(&self.store.ask(words))
    }

    /// A last entry, mostly the true one.
    fn last(&mut self) -> String {
        let name = format!("{}-0", self.now_us / 1_000);
        match self.random.below(12) {
            0 => String::new(),
            1 => format!("{} {name} 7", self.small()),
            2 => "no entry".to_owned(),
            // An earlier one, if it is still there.
            3..6 => {
                let entries = self.store.ask(&["XRANGE", KEYS[0], "-", "+", "COUNT", "9"]);
                let nth = usize::try_from(self.random.below(9)).expect("few");
                let entry = items(&entries).get(nth).map(|entry| {
                    let fields: Vec<_> = items(&items(entry)[1]).iter().map(text).collect();
                    let field = |at: usize| fields.get(at).cloned().unwrap_or_default();
                    format!("{} {} {}", field(1), text(&items(entry)[0]), field(3))
                });
                entry.unwrap_or_default()
            }
            _ => self.asked(&["HGET", "vs:{0}:meta", "last"]),
        }
    }

    fn bits(&mut self) -> String {
        if self.random.is(98) { self.random.next().cast_signed().to_string() } else { "no bits".to_owned() }
    }

    fn listing(&mut self) -> String {
        let stamp = if self.random.is(50) { 0 } else { self.now_us / 1_000_000 * 1_000_000 };
        format!("{stamp:016}-{}", self.random.pick(&LISTINGS))
    }

    fn record(&mut self) -> String {
        let stamp = if self.random.is(50) { self.random.below(3) } else { self.now_us / 1_000_000 * 1_000_000 };
        format!("v2;{};{stamp};{}", self.listing(), self.random.pick(&TOKENS))
    }

    fn fact(&mut self, server: &str) -> Vec<String> {
        let present = self.asked(&["HGET", "vs:{0}:dir", server]);
        let listing = match present.split(';').nth(1) {
            Some(listing) if self.random.is(80) => listing.to_owned(),
            _ => self.listing(),
        };
        let vote = format!("{}:{}", self.random.pick(&ADDRESSES), self.instant());
        match self.random.below(20) {
            0..3 => vec!["x".to_owned(), listing],
            3..7 => vec!["c".to_owned(), vote],
            7..10 => vec!["r".to_owned(), self.record()],
            10 if self.random.is(20) => vec!["r".to_owned(), "v9;record".to_owned()],
            11 if self.random.is(20) => vec!["v".to_owned(), "no vote".to_owned()],
            _ => vec!["l".to_owned(), listing, "v".to_owned(), vote],
        }
    }

    /// A call of a function, as a node makes it, or nearly so.
    pub(crate) fn function(&mut self) -> Vec<Vec<u8>> {
        let kind = self.random.below(100);
        let (meta, nodes, log) = ("vs:{0}:meta", "vs:{0}:nodes", "vs:{0}:log");
        let store = if self.random.is(97) { STORE } else { "another" };
        let last = self.last();
        if kind < 14 {
            let (one, other) = (self.small(), self.small());
            return match kind {
                0 | 1 => words(&["FCALL", "vs3_init", "1", meta, &one, "120", "64"]),
                2 => words(&["FCALL", "vs3_adopt", "1", meta, store, STORE]),
                3 | 4 => words(&["FCALL_RO", "vs3_head", "2", log, meta, &last]),
                5 => words(&["FCALL_RO", "vs3_vote", "2", log, meta]),
                6 => words(&["FCALL", "vs3_nothing", "0"]),
                7 | 8 => {
                    let mut call = words(&["FCALL_RO", "vs3_rights", "7"]);
                    call.extend(words(&[log, "vs:{0}:s:0", "vs:{0}:dir", "vs:{0}:tok", meta, "vs:{0}:gone", nodes]));
                    call
                }
                9 => {
                    let mut call = words(&["FCALL", "vs3_takeover", "6", log, "vs:{0}:dir", "vs:{0}:tok", meta]);
                    call.extend(words(&["vs:{0}:gone", nodes, store, "7"]));
                    call
                }
                _ => {
                    let mut call = words(&["FCALL", "vs3_node", "3", log, meta, nodes, store, &last, &one, "1", "0"]);
                    if self.random.is(30) {
                        call.push(other.into_bytes());
                    }
                    call
                }
            };
        }
        let server = self.random.pick(&SERVERS);
        let claims = format!("vs:{{0}}:s:{server}");
        let claims = if self.random.is(98) { claims.as_str() } else { self.key() };
        let until = match self.random.below(20) {
            0 => (self.now_us / 1_000).saturating_sub(1).to_string(),
            1 => (self.now_us / 1_000).to_string(),
            2 if self.random.is(20) => "no number".to_owned(),
            3..9 => (self.now_us / 1_000 + self.random.below(3_000)).to_string(),
            _ => String::new(),
        };
        let (address, other) = (self.random.pick(&ADDRESSES).to_owned(), self.random.pick(&ADDRESSES).to_owned());
        let (instant, token) = (self.instant(), self.random.pick(&TOKENS).to_owned());
        let own = |word: &str| word.to_owned();
        let (function, mut rest) = match kind {
            14..32 => ("vote", vec![own("cast"), own(""), address]),
            32..36 => ("vote", vec![own("cast"), instant, address]),
            36..40 => ("vote", vec![own("cast"), own(""), address, other.clone(), other]),
            40..48 => ("vote", vec![own("record"), instant, address]),
            48..52 => ("vote", vec![own("record"), instant, address, other]),
            52..62 => {
                let held = self.asked(&["ZSCORE", claims, &address]);
                ("cancel", vec![address, if held.is_empty() { instant } else { held }])
            }
            62..74 => {
                let before =
                    if self.random.is(90) { self.asked(&["HGET", "vs:{0}:dir", server]) } else { String::new() };
                let stamp = self.small();
                ("list", vec![before, token, own(self.random.pick(&LISTINGS)), stamp])
            }
            74..78 => {
                let present = self.asked(&["HGET", "vs:{0}:dir", server]);
                ("remove", vec![present.split(';').nth(1).map_or_else(|| self.listing(), str::to_owned)])
            }
            _ => {
                let count = 1 + self.random.below(4);
                ("give", (0..count).flat_map(|_| self.fact(server)).collect())
            }
        };
        if self.random.is(1) {
            rest.pop();
        }
        let function = format!("vs3_{function}");
        let mut call = words(&["FCALL", &function, "6", log, claims, "vs:{0}:dir", "vs:{0}:tok", meta, "vs:{0}:gone"]);
        call.extend(words(&[store, &until, &last, &self.bits(), server]));
        call.extend(rest.into_iter().map(String::into_bytes));
        call
    }

    /// A command of a node, or of another program.
    pub(crate) fn command(&mut self) -> Vec<Vec<u8>> {
        let (hash, zset, log) = (self.key_of("hash"), self.key_of("zset"), self.key_of("log"));
        let (field, value, member, score) = (self.field(), self.small(), self.member(), self.bound());
        let score = score.trim_start_matches('(').to_owned();
        let (low, high, from, to) = (self.bound(), self.bound(), self.name(), self.name());
        let (count, rank) = (self.random.below(3).to_string(), (self.random.below(7).cast_signed() - 3).to_string());
        let wide = if self.random.is(50) { "-inf" } else { &low };
        let (first, last) = if self.random.is(50) { ("-", "+") } else { (from.as_str(), to.as_str()) };
        let kept = self.random.below(9).to_string();
        // A later store reads more than names here.
        let behind = format!("{}-0", (self.now_us / 1_000).saturating_sub(self.random.below(100_000)));
        let about = self.random.pick(&["~", "="]);
        let strange = self.key();
        words(&match self.random.below(40) {
            0 => vec!["HSET", hash, field, &value],
            1 => vec!["HSET", hash, field, &value, "another"],
            2 => vec!["HDEL", hash, field, "1", "2"],
            3 => vec!["HGET", hash, field],
            4 => vec!["HMGET", hash, field, "1"],
            5 => vec!["HGETALL", hash],
            6 => vec!["HSCAN", hash, "0", "COUNT", "1000"],
            7 | 8 | 34 | 35 => vec!["ZADD", zset, &score, &member],
            9 => vec!["ZADD", zset, &score, &member, "7"],
            10 => vec!["ZREM", zset, &member, "84281096"],
            11 => vec!["ZSCORE", zset, &member],
            12 => vec!["ZRANGE", zset, &rank, "-1", "WITHSCORES"],
            13 => vec!["ZRANGE", zset, "0", &rank],
            14 | 36 | 37 => vec!["ZRANGEBYSCORE", zset, wide, &high, "WITHSCORES"],
            15 | 38 | 39 => vec!["ZREMRANGEBYSCORE", zset, wide, &high],
            16 => vec!["XADD", log, &from, "other", "entry"],
            17 => vec!["XADD", log, "*", "n", &value, "x"],
            18 => vec!["XADD", log, "MINID", about, &from, "*", "n", &value],
            19 => vec!["XADD", log, "MAXLEN", about, &kept, "*", "a", "b"],
            20 => vec!["XTRIM", log, "MAXLEN", about, &kept],
            21 => vec!["XTRIM", log, "MINID", about, &from],
            22 => vec!["XDEL", log, &from, &to],
            23 => vec!["XRANGE", log, first, last, "COUNT", &count],
            24 => vec!["XREVRANGE", log, last, first, "COUNT", &count],
            25 => vec!["XREVRANGE", log, "+", "-", "COUNT", "2"],
            26 => vec!["XREAD", "COUNT", &count, "STREAMS", log, &behind],
            27 => vec!["XLEN", log],
            28 => vec!["PEXPIRE", zset, &value],
            29 => vec!["PEXPIRE", strange, "60000"],
            30 => vec!["PTTL", zset],
            31 => vec!["EXISTS", hash, zset, log],
            32 => vec!["TYPE", strange],
            _ => vec!["ZCARD", zset],
        })
    }

    /// Damage that no node does: keys go, or become something else.
    pub(crate) fn damage(&mut self) -> Vec<Vec<u8>> {
        let key = self.key();
        words(&match self.random.below(8) {
            0 => vec!["SET", key, "text"],
            1 => vec!["RPUSH", key, "one", "two"],
            2 => vec!["SADD", key, "one", "two"],
            3 => vec!["HSET", key, "store", STORE],
            4 => vec!["XTRIM", KEYS[0], "MAXLEN", "0"],
            _ => vec!["DEL", key],
        })
    }
}
