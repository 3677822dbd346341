//! The keys of 1.0.0, made by its functions and taken over by those of this version, in the model and in a real store.

use crate::draws::COOLDOWN_S;
use crate::engine::Engine;
use crate::facts::{Fact, Follower, State, items, text};
use std::collections::BTreeMap;
use vote_status_nodes::functions::{CODE, CODE_OF_1_0_0, Functions};
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const NOW_S: u64 = 1_800_000_000;
const KEYS: [&str; 6] = ["vs:{0}:log", "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone", "vs:{0}:nodes"];
const TAKEOVER: [&str; 3] = ["FCALL", "vs3_takeover", "6"];

/// Calls that make keys, by the functions of 1.0.0: votes, a cancelled one, a removed server, one without a listing's id.
fn calls_of_1_0_0() -> Vec<Vec<String>> {
    let call = |server: u32, function: &str, more: &[&str]| {
        let (claims, server) = (format!("vs:{{0}}:s:{server}"), server.to_string());
        let function = format!("vote_status_{function}");
        let keys = [KEYS[0], &claims, KEYS[1], KEYS[2], KEYS[3], KEYS[4]];
        let words = [&["FCALL", &function, "6"][..], &keys, &["store", "", &server], more].concat();
        words.into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let cooldown_s = COOLDOWN_S.to_string();
    vec![
        words(&["FCALL", "vote_status_init", "1", KEYS[3], "store", &cooldown_s, "56"]),
        call(1, "server", &["list", "demo", "demo", "00000000000000aa"]),
        call(2, "server", &["list", "a+b=", "a+b=", "00000000000000bb"]),
        call(3, "server", &["list", "third", "third", ""]),
        call(4, "server", &["list", "fourth", "fourth", "00000000000000dd"]),
        call(1, "vote", &["cast", "", "16909060", "20010db800000000"]),
        call(1, "vote", &["cast", "", "84281096"]),
        call(1, "cancel", &["84281096"]),
        call(2, "vote", &["cast", "", "16909060"]),
        call(4, "vote", &["cast", "", "16909060"]),
        call(4, "remove", &[]),
        words(&["FCALL", "vote_status_node", "2", KEYS[3], KEYS[5], "store", "first", "history", "", ""]),
        words(&["FCALL", "vote_status_node", "2", KEYS[3], KEYS[5], "store", "second", "history", "", ""]),
    ]
}

/// Makes the keys and takes them over. Gives the reply, and all keys.
fn taken_over(ask: &mut dyn FnMut(&[String]) -> Reply, load: &mut dyn FnMut()) -> (Reply, Reply) {
    for words in calls_of_1_0_0() {
        let reply = ask(&words);
        assert!(!matches!(reply, Reply::Refused(_)), "{words:?}: {reply:?}");
    }
    load();
    let refused = ask(&calls_of_1_0_0()[5]);
    assert!(matches!(&refused, Reply::Refused(why) if why.contains("Function not found")), "{refused:?}");
    let call = [&TAKEOVER[..], &KEYS, &["store", "77"]].concat();
    let call: Vec<_> = call.into_iter().map(str::to_owned).collect();
    (ask(&call), ask(&call))
}

#[test]
fn the_keys_of_1_0_0_are_taken_over() {
    let (old, new) = [CODE_OF_1_0_0, CODE].map(|code| Functions::load(code).expect("it loads")).into();
    let mut store = Store::new(NOW_S * 1_000_000);
    let is_new = std::cell::Cell::new(false);
    let (made, again) = taken_over(
        &mut |words| if is_new.get() { new.ask(&mut store, words) } else { old.ask(&mut store, words) },
        &mut || is_new.set(true),
    );
    let said: Vec<_> = items(&made).iter().map(text).collect();
    assert_eq!(said[1..], ["made", "1 1800000000000-11 77", "first", "second"]);
    assert_eq!(text(&items(&again)[1]), "has");

    let state = State::read(&mut store, COOLDOWN_S).expect("keys of this version");
    let listing = |id: &str| format!("0000000000000000-{id:0>16}");
    let records: BTreeMap<_, _> = state.records.iter().map(|(server, record)| (*server, record.told())).collect();
    let told = |id: &str, token: &str| format!("v2;{};0;{token}", listing(id));
    assert_eq!(records, BTreeMap::from([(1, told("aa", "demo")), (2, told("bb", "a+b=")), (3, told("3", "third"))]));
    let voted = |server, address: &str| ((server, address.to_owned()), NOW_S);
    assert_eq!(state.votes, BTreeMap::from([voted(1, "16909060"), voted(1, "20010db800000000"), voted(2, "16909060")]));
    assert_eq!(state.gone_votes.into_iter().collect::<Vec<_>>(), [((1, "84281096".to_owned()), NOW_S)]);
    assert_eq!(state.gone_listings.into_iter().collect::<Vec<_>>(), [(0, listing("dd"))]);
    assert_eq!(store.ask(&["HGETALL", KEYS[5]]), Reply::Array(vec![]));
    let meta = store.ask(&["HMGET", KEYS[3], "schema", "ahead", "cd", "v6"]);
    assert_eq!(items(&meta).iter().map(text).collect::<Vec<_>>(), ["3", "", "120", "56"]);

    // A server removed there does not come back, and the others go on.
    let give = |store: &mut Store, server: &str, facts: &[&str]| {
        let claims = format!("vs:{{0}}:s:{server}");
        let keys = [KEYS[0], &claims, KEYS[1], KEYS[2], KEYS[3], KEYS[4]];
        let call = [&["FCALL", "vs3_give", "6"][..], &keys, &["store", "", "", "5", server], facts].concat();
        new.ask(store, &call)
    };
    let mut follower = Follower::read(&mut store, COOLDOWN_S).expect("keys of this version");
    let gone = give(&mut store, "4", &["r", &told("dd", "fourth")]);
    assert_eq!(text(&items(&gone)[3]), "ended");
    let vote = format!("3405803783:{NOW_S}");
    let made = give(&mut store, "2", &["l", &listing("bb"), "v", &vote]);
    assert_eq!(text(&items(&made)[5]), "made");
    let facts = follower.follow(&mut store).expect("a log").expect("that goes on");
    assert_eq!(facts, [Fact::Voted(2, listing("bb"), "3405803783".to_owned(), NOW_S)]);
}

#[test]
fn a_real_store_takes_them_over_as_the_model() {
    let mut engine = Engine::start("redis-server", 100);
    engine.set_clock(NOW_S * 1_000);
    engine.order(&["FUNCTION", "FLUSH"]);
    engine.order(&["FUNCTION", "LOAD", CODE_OF_1_0_0]);
    let engine = std::cell::RefCell::new(engine);
    let words = |words: &[String]| words.iter().map(|word| word.clone().into_bytes()).collect::<Vec<_>>();
    let real = taken_over(&mut |asked| engine.borrow_mut().ask(&words(asked)), &mut || {
        engine.borrow_mut().order(&["FUNCTION", "LOAD", "REPLACE", CODE]);
    });
    let (old, new) = [CODE_OF_1_0_0, CODE].map(|code| Functions::load(code).expect("it loads")).into();
    let mut store = Store::new(NOW_S * 1_000_000);
    let is_new = std::cell::Cell::new(false);
    let ours = taken_over(
        &mut |asked| if is_new.get() { new.ask(&mut store, asked) } else { old.ask(&mut store, asked) },
        &mut || is_new.set(true),
    );
    assert_eq!(real, ours);
    let shown = |told: Reply| crate::compared::keys(told);
    assert_eq!(shown(engine.borrow_mut().told()), shown(store.told()));
}
