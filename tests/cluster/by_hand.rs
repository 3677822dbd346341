//! Redis by hand, without a node: loads functions, takes keys of 1.0.0 over, fills an emptied store, and reads its state as
//! a node does.

use crate::cluster::util::engine::Engine;
use crate::cluster::util::resp::{Redis, Value};
use crate::util::time::now_unix;
use crate::util::wait_until;
use vote_status::cluster::address::StoreAddress;
use vote_status::cluster::admin::{self, Filled, Filling};
use vote_status::cluster::entry::member;
use vote_status::cluster::functions::{self, CODE, LIBRARY};
use vote_status::cluster::mirror::Mirror;
use vote_status::cluster::primary::Primary;
use vote_status::cluster::reason::Reason;
use vote_status::store::StoredVote;
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::ipv6::{Ipv6Network, Ipv6Prefix};
use vote_status::vote::table::Pair;
use vote_status::vote::time::UnixSeconds;

const COOLDOWN_S: u64 = 5_400;
const KEYS: [&str; 6] = ["vs:{0}:log", "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone", "vs:{0}:nodes"];
const CODE_OF_1_0_0: &str = include_str!("../../nodes/tests/kept/functions-1.0.0.lua");

fn address_of(engine: &Engine) -> StoreAddress {
    StoreAddress::parse(&engine.url()).expect("an address")
}

fn begin(engine: &Engine) -> Filling {
    Filling::begin(&address_of(engine), "abc", COOLDOWN_S, Ipv6Prefix::USUAL).expect("it can be filled")
}

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

/// The address of the `nth` voter: one of seven has an IPv6 network.
fn voter(nth: u32) -> VoterAddress {
    if nth.is_multiple_of(7) { VoterAddress::V6(Ipv6Network(nth.into())) } else { VoterAddress::V4(Ipv4(nth)) }
}

/// The vote of that voter.
fn vote(server: u32, nth: u32, voted_at: i64) -> StoredVote {
    let pair = Pair { server: ServerId(server), address: voter(nth) };
    StoredVote { pair, voted_at: UnixSeconds(u32::try_from(voted_at).expect("a second")) }
}

/// Has Redis make a change of a server.
fn change(redis: &mut Redis, server: u32, function: &str, store: &str, more: &[&str]) -> Value {
    let (claims, server) = (format!("vs:{{0}}:s:{server}"), server.to_string());
    let head = ["FCALL", function, "6", KEYS[0], &claims, KEYS[1], KEYS[2], KEYS[3], KEYS[4]];
    let said = if function.starts_with("vs3_") { &["", "", "7"][..] } else { &[""] };
    redis.ask(&[&head, &[store][..], said, &[&server], more].concat())
}

fn code_in(redis: &mut Redis) -> String {
    let libraries = redis.ask(&["FUNCTION", "LIST", "LIBRARYNAME", LIBRARY, "WITHCODE"]);
    libraries.list()[0].list().last().expect("the code").text().to_owned()
}

#[test]
fn a_filled_store_is_read_as_it_was_filled_and_followed() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let now = now_unix();
    let mut filling = begin(&engine);
    // Some servers have more votes than one call takes, most have few.
    let mut votes = Vec::new();
    for server in 1..=40 {
        filling.server(ServerId(server), &token(&format!("token-{server}"))).expect("it is taken");
        let count = if server <= 2 { 350 } else { 3 };
        votes.extend((0..count).map(|nth| vote(server, nth, now - 60 - i64::from(nth))));
    }
    votes.iter().for_each(|vote| filling.vote(vote).expect("it is taken"));
    filling.vote(&vote(3, 99, now - 5_400)).expect("it is looked at");
    let filled = filling.finish().expect("it is full");
    assert_eq!(filled, Filled { taken: 40 + 814, refused: 1, differing: Vec::new() });

    let mut mirror = Mirror::read(&address_of(&engine)).expect("a state");
    assert_eq!((mirror.store.as_str(), mirror.servers().len()), ("abc", 40));
    assert_eq!(mirror.servers().token(ServerId(40)), Some(&token("token-40")));
    for vote in &votes {
        assert_eq!(mirror.votes().expires_at(vote.pair), Some(mirror.cooldown.expires_at(vote.voted_at)), "{vote:?}");
    }
    let at = UnixSeconds(u32::try_from(now).expect("a second"));
    let (before, n) = (mirror.digest(at), mirror.position().n);
    assert_eq!((before.servers, before.votes), (40, 814));

    // The mirror follows the log to the named entry, past entries of another program, and then to the end.
    let mut redis = engine.connect();
    for nth in 1_001..=1_003 {
        redis.ask(&["XADD", KEYS[0], "*", "message", "hello"]);
        let said = change(&mut redis, 5, "vs3_vote", "abc", &["cast", "", &member(voter(nth))]);
        assert_eq!(said.list()[1].text(), "recorded", "{said:?}");
    }
    mirror.advance(Some(n + 1)).expect("the log goes on");
    assert_eq!((mirror.position().n, mirror.digest(at).votes), (n + 1, 815));
    mirror.advance(None).expect("the log goes on");
    assert_eq!((mirror.position().n, mirror.digest(at).votes), (n + 3, 817));
    let again = Mirror::read(&address_of(&engine)).expect("a state");
    assert_eq!((again.digest(at), again.position()), (mirror.digest(at), mirror.position()));

    let full = Filling::begin(&address_of(&engine), "abc", COOLDOWN_S, Ipv6Prefix::USUAL).err().expect("it is full");
    assert_eq!(full.reason(), Reason::WrongStore, "{full}");
    redis.ask(&["DEL", KEYS[0]]);
    redis.ask(&["XADD", KEYS[0], "*", "n", "9999", "b", "1", "p", "7"]);
    assert!(mirror.advance(None).is_err(), "the log does not go on");
}

#[test]
fn what_an_earlier_run_has_filled_in_stays() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let now = now_unix();
    let fill = |servers: &[(u32, &str)], nth: u32| {
        let mut filling = begin(&engine);
        for (server, name) in servers {
            filling.server(ServerId(*server), &token(name)).expect("it is taken");
            filling.vote(&vote(*server, nth, now - 60)).expect("it is taken");
        }
        filling
    };
    let mut cut_off = fill(&[(1, "given-before"), (2, "same")], 1);
    // The run ended behind its servers, and before it sent its last votes.
    for server in 100..2_200 {
        cut_off.server(ServerId(server), &token(&format!("token-{server}"))).expect("it is taken");
    }
    // The end of a connection may take along what the store has not read yet.
    let held = || engine.connect().ask(&["HLEN", KEYS[1]]).number();
    wait_until("the store has the first servers", || held() >= 2);
    drop(cut_off);
    let held = held();
    assert!((2..2_200).contains(&held), "{held}");
    let filled = fill(&[(1, "zzz"), (2, "same"), (3, "new")], 2).finish().expect("it is full");
    assert_eq!(filled, Filled { taken: 4, refused: 2, differing: vec![ServerId(1)] });
    let mirror = Mirror::read(&address_of(&engine)).expect("a state");
    let kept = [1, 2, 3].map(|server| mirror.servers().token(ServerId(server)).map(|token| token.as_str().to_owned()));
    assert_eq!(kept.map(Option::unwrap_or_default), ["given-before", "same", "new"]);
}

/// Regression: a Redis that stood still for more than a second ended the filling.
#[test]
fn a_redis_that_stands_still_for_a_moment_ends_no_filling() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut filling = begin(&engine);
    filling.server(ServerId(1), &token("first")).expect("it is taken");
    engine.connect().ask(&["CLIENT", "PAUSE", "2000"]);
    assert_eq!(filling.finish().expect("it is full"), Filled { taken: 1, refused: 0, differing: Vec::new() });
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_read() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let mut filling = begin(&engine);
    for server in 1..=3 {
        filling.server(ServerId(server), &token(&format!("token-{server}"))).expect("it is taken");
        filling.vote(&vote(server, server, now_unix() - 60)).expect("it is taken");
    }
    filling.finish().expect("it is full");
    let mut redis = engine.connect();
    redis.ask(&["SET", "vs:{0}:s:2", "not ours"]);
    redis.ask(&["HSET", KEYS[1], "3", "v9;strange"]);
    let mirror = Mirror::read(&address_of(&engine)).expect("a state");
    let told = mirror.unreadable().join("\n");
    assert!(told.contains("vs:{0}:s:2") && told.contains("vs:{0}:dir 3"), "{told}");
    assert_eq!((mirror.servers().len(), mirror.votes().view().len()), (2, 1));
    // Regression: Redis reports that a key has a wrong type, and not which key.
    redis.ask(&["DEL", KEYS[1]]);
    redis.ask(&["SET", KEYS[1], "not ours"]);
    let refused = Mirror::read(&address_of(&engine)).err().expect("no directory").to_string();
    assert!(refused.contains("WRONGTYPE") && refused.ends_with(": vs:{0}:dir"), "{refused}");
}

/// Nodes of 1.0.0 go on until a node of this version takes their store over: no tool does that.
#[test]
fn the_functions_and_keys_of_1_0_0_are_taken_over_once() {
    let Some(engine) = Engine::try_start(&[]) else { return };
    let (mut redis, address) = (engine.connect(), address_of(&engine));
    redis.ask(&["FUNCTION", "LOAD", CODE_OF_1_0_0]);
    redis.ask(&["FCALL", "vote_status_init", "1", KEYS[3], "abc", "5400", "56"]);
    change(&mut redis, 1, "vote_status_server", "abc", &["list", "demo", "demo", "00000000000000aa"]);
    for name in ["first", "second"] {
        redis.ask(&["FCALL", "vote_status_node", "2", KEYS[3], KEYS[5], "abc", name, "history", "", ""]);
    }
    let told = admin::init(&address, "other", 60, Ipv6Prefix::USUAL).expect("it is there");
    assert_eq!((told.is_new, told.store.as_str(), told.cooldown_s, told.prefix.bits()), (false, "abc", 5_400, 56));
    let refused = Mirror::read(&address).err().expect("another schema");
    assert!(refused.to_string().contains("has schema 2, and this version knows 3"), "{refused}");
    assert_eq!(code_in(&mut redis), CODE_OF_1_0_0);

    let mut link = Primary::open(&address).expect("a primary").link;
    assert_eq!(functions::ensure(&mut link), Ok(true));
    assert_eq!(code_in(&mut redis), functions::loaded());
    assert_eq!(functions::missing_rights(&mut link), Ok(Vec::new()));
    let nodes = functions::take_over(&mut link, -5).expect("it is taken over");
    let mut nodes = nodes.expect("it was of 1.0.0");
    nodes.sort();
    assert_eq!(nodes, ["first", "second"]);
    assert_eq!(functions::take_over(&mut link, 7), Ok(None));
    let mirror = Mirror::read(&address).expect("a state");
    assert_eq!((mirror.position().n, mirror.position().bits), (1, -5));
    assert_eq!(mirror.servers().token(ServerId(1)), Some(&token("demo")));

    // Functions of any other version stay, as its nodes may be using them.
    redis.ask(&["FUNCTION", "LOAD", "REPLACE", CODE]);
    assert_eq!(functions::ensure(&mut link), Ok(false));
    assert_eq!(code_in(&mut redis), CODE);
    let refused = admin::init(&address, "abc", COOLDOWN_S, Ipv6Prefix::USUAL).expect_err("other functions");
    assert_eq!(refused.reason(), Reason::Functions, "{refused}");
    redis.ask(&["FUNCTION", "DELETE", LIBRARY]);
    assert_eq!(functions::ensure(&mut link), Ok(true));

    // Another library has one of the names, so Redis refuses ours, and the error names that.
    redis.ask(&["FUNCTION", "FLUSH"]);
    redis.ask(&["FUNCTION", "LOAD", &CODE.replace(LIBRARY, "another")]);
    let refused = functions::ensure(&mut link).expect_err("the name is taken");
    assert!(refused.reason() == Reason::Functions && refused.to_string().contains("already exists"), "{refused}");
}
