//! The functions that the service puts into Redis, called by hand: what one atomic step promises holds
//! for whoever calls it. Knows the calls and keys of the design.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::resp::{Redis, Value};

/// The id of the store of these tests.
const STORE: &str = "by-hand";

/// Until when a call of these tests is to be done, in milliseconds since 1970.
pub(crate) const ALWAYS: &str = "9000000000000";

/// The text of the library, out of a Redis that was made a store.
pub(crate) fn text() -> String {
    let engine = Engine::store(&[]);
    let found = engine.connect().ask(&["FUNCTION", "LIST", "LIBRARYNAME", "vote_status", "WITHCODE"]);
    let [library] = found.list() else { panic!("the library vote_status is not there alone: {found:?}") };
    let at = library.list().iter().position(|field| *field == Value::Text("library_code".to_owned()));
    library.list()[at.expect("its code") + 1].text().to_owned()
}

/// Makes an empty Redis a store with a cooldown in seconds and servers 1 to `servers`, by hand.
pub(crate) fn load(redis: &mut Redis, text: &str, cooldown_s: u32, servers: u32) {
    redis.ask(&["FUNCTION", "LOAD", text]);
    redis.ask(&["HSET", "vs:{0}:meta", "store", STORE, "schema", "2", "cd", &cooldown_s.to_string(), "v6", "64"]);
    for server in 1..=servers {
        redis.ask(&["HSET", "vs:{0}:dir", &server.to_string(), &format!("v1;token-{server}")]);
    }
}

/// What a cast was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether this vote counts; else an earlier one does.
    pub(crate) is_accepted: bool,
    /// The second in which the vote that counts was given, by the clock of Redis.
    pub(crate) voted_at: i64,
}

/// Casts votes in one write.
pub(crate) fn cast_all(redis: &mut Redis, votes: &[(u32, u32)]) -> Vec<Answer> {
    let commands: Vec<[String; 15]> = votes.iter().map(|(server, ip)| words(*server, *ip)).collect();
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let slices: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    redis.pipeline(&slices).expect("Redis answers").iter().map(answer).collect()
}

fn words(server: u32, ip: u32) -> [String; 15] {
    let (claims, server, ip) = (format!("vs:{{0}}:s:{server}"), server.to_string(), ip.to_string());
    let [log, dir, tok, meta, gone] = ["log", "dir", "tok", "meta", "gone"].map(|name| format!("vs:{{0}}:{name}"));
    ["FCALL", "vote_status_vote", "6", &log, &claims, &dir, &tok, &meta, &gone, STORE, ALWAYS, &server, "cast", "", &ip]
        .map(str::to_owned)
}

/// 0 is recorded, 2 is in cooldown; both say since when.
fn answer(reply: &Value) -> Answer {
    let fields = reply.list();
    let what = fields[0].number();
    assert!(matches!(what, 0 | 2), "{reply:?}");
    Answer { is_accepted: what == 0, voted_at: fields[1].number() }
}
