//! The functions that the service puts into Redis, called by hand: what one atomic step promises holds
//! for whoever calls it. Knows the calls and keys of the design.

use crate::cluster::util::resp::{Redis, Value};

/// The text of the library.
pub(crate) const CODE: &str = include_str!("../../../src/cluster/functions.lua");
/// The id of the store of these tests.
const STORE: &str = "by-hand";
/// Until when a call of these tests is to be done, in milliseconds since 1970.
const ALWAYS: &str = "9000000000000";

/// Makes an empty Redis a store with a cooldown in seconds and servers 1 to `servers`, by hand.
pub(crate) fn load(redis: &mut Redis, cooldown_s: u32, servers: u32) {
    redis.ask(&["FUNCTION", "LOAD", CODE]);
    redis.ask(&["HSET", "vs:{0}:meta", "store", STORE, "schema", "2", "cd", &cooldown_s.to_string(), "v6", "64"]);
    for server in 1..=servers {
        redis.ask(&["HSET", "vs:{0}:dir", &server.to_string(), &format!("v1;token-{server}")]);
    }
}

/// Casts votes in one write; the second of each that is accepted, by the clock of Redis. An earlier one counts in place
/// of any other.
pub(crate) fn cast_all(redis: &mut Redis, votes: &[(u32, u32)]) -> Vec<Option<i64>> {
    let commands: Vec<[String; 15]> = votes.iter().map(|(server, ip)| words(*server, *ip)).collect();
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let slices: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    redis.pipeline(&slices).expect("Redis answers").iter().map(accepted_at).collect()
}

fn words(server: u32, ip: u32) -> [String; 15] {
    let (claims, server, ip) = (format!("vs:{{0}}:s:{server}"), server.to_string(), ip.to_string());
    let [log, dir, tok, meta, gone] = ["log", "dir", "tok", "meta", "gone"].map(|name| format!("vs:{{0}}:{name}"));
    ["FCALL", "vote_status_vote", "6", &log, &claims, &dir, &tok, &meta, &gone, STORE, ALWAYS, &server, "cast", "", &ip]
        .map(str::to_owned)
}

/// 0 is recorded, 2 is in cooldown; both say since when.
fn accepted_at(reply: &Value) -> Option<i64> {
    let fields = reply.list();
    assert!(matches!(fields[0].number(), 0 | 2), "{reply:?}");
    (fields[0].number() == 0).then(|| fields[1].number())
}
