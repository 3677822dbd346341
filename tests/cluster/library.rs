//! The functions that nodes put into Redis, called by hand: what one atomic step promises holds for
//! whoever calls it. Knows the calls and keys of the design.

use crate::cluster::engine::Engine;
use crate::cluster::node::Node;
use crate::cluster::resp::{Redis, Value};

/// The cooldown of a site, in milliseconds, as the library has it.
const USUAL_COOLDOWN: &str = "5400000";

/// The text of the library that a node has put into a Redis.
pub(crate) fn text() -> String {
    let engine = Engine::start(&[]);
    let _node = Node::start(&engine.url(), &[]);
    text_in(&mut engine.connect())
}

/// The text of the library in this Redis.
pub(crate) fn text_in(redis: &mut Redis) -> String {
    let found = redis.ask(&["FUNCTION", "LIST", "LIBRARYNAME", "vs1", "WITHCODE"]);
    let [library] = found.list() else { panic!("the library vs1 is not there alone: {found:?}") };
    let at = library.list().iter().position(|field| *field == Value::Text("library_code".to_owned()));
    library.list()[at.expect("its code") + 1].text().to_owned()
}

/// Puts the library, with another cooldown where one is given, and servers into an empty Redis.
pub(crate) fn load(redis: &mut Redis, text: &str, cooldown_ms: Option<u32>, servers: u32) {
    let mut text = text.to_owned();
    if let Some(cooldown_ms) = cooldown_ms {
        assert_eq!(text.matches(USUAL_COOLDOWN).count(), 1, "the cooldown stands in the library once:\n{text}");
        text = text.replace(USUAL_COOLDOWN, &cooldown_ms.to_string());
    }
    redis.ask(&["FUNCTION", "LOAD", &text]);
    for server in 1..=servers {
        redis.ask(&["HSET", "vs:{0}:dir", &server.to_string(), "v1;0;;;0"]);
    }
}

/// The words that cast a vote.
pub(crate) fn cast_words(server: u32, ip: u32) -> [String; 8] {
    let claims = format!("vs:{{0}}:s:{server}");
    ["FCALL", "vs1_cast", "3", "vs:{0}:log", &claims, "vs:{0}:dir", &server.to_string(), &ip.to_string()]
        .map(str::to_owned)
}

/// What a cast was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether this vote counts; else an earlier one does.
    pub(crate) is_accepted: bool,
    /// When the vote that counts was given, in milliseconds by the clock of Redis.
    pub(crate) voted_at_ms: i64,
}

/// Reads the reply to a cast.
pub(crate) fn answer(reply: &Value) -> Answer {
    let fields = reply.list();
    Answer { is_accepted: fields[0].number() == 1, voted_at_ms: fields[1].number() }
}

/// Casts votes in one write.
pub(crate) fn cast_all(redis: &mut Redis, votes: &[(u32, u32)]) -> Vec<Answer> {
    let commands: Vec<[String; 8]> = votes.iter().map(|(server, ip)| cast_words(*server, *ip)).collect();
    let words: Vec<Vec<&str>> = commands.iter().map(|words| words.iter().map(String::as_str).collect()).collect();
    let slices: Vec<&[&str]> = words.iter().map(Vec::as_slice).collect();
    redis.pipeline(&slices).expect("Redis answers").iter().map(answer).collect()
}
