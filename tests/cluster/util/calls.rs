//! Makes a store by hand, and calls its functions by hand. Knows the functions' names and words.

use crate::cluster::util::resp::{Redis, Value};
use vote_status::cluster::functions::CODE;

/// The keys that all servers share, the nodes' key aside: log, directory, tokens, store, and removed votes.
pub(crate) const KEYS: [&str; 5] = ["vs:{0}:log", "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone"];
/// The id of a store that is made by hand.
pub(crate) const STORE: &str = "by-hand";

/// The key of a server's votes.
pub(crate) fn claims(server: u32) -> String {
    format!("vs:{{0}}:s:{server}")
}

/// Calls a function for a server, and gives its answer without the store's time. A call by hand has no term and names no
/// last entry.
pub(crate) fn call(redis: &mut Redis, store: &str, function: &str, server: u32, more: &[&str]) -> Vec<Value> {
    let [log, dir, tok, meta, gone] = KEYS;
    let (claims, number) = (claims(server), server.to_string());
    let words = ["FCALL", function, "6", log, &claims, dir, tok, meta, gone, store, "", "", "7", &number];
    let reply = redis.ask(&[&words[..], more].concat());
    reply.list()[1..].to_vec()
}

/// Makes an empty Redis a store, and lists servers 1 to `servers`, each with the token `token-N`.
pub(crate) fn make_store(redis: &mut Redis, cooldown_s: u32, servers: u32) {
    redis.ask(&["FUNCTION", "LOAD", CODE]);
    redis.ask(&["FCALL", "vs3_init", "1", KEYS[3], STORE, &cooldown_s.to_string(), "64"]);
    for server in 1..=servers {
        let (token, bits) = (format!("token-{server}"), format!("{server:016x}"));
        let answer = call(redis, STORE, "vs3_list", server, &["", &token, &bits, "0"]);
        assert_eq!(answer[0].text(), "listed", "{answer:?}");
    }
}
