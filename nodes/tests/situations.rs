//! Situations that broke a promise of docs/CLUSTER.md in the functions of 1.0.0, and how the facts keep it.

use crate::facts::{Record, items, text};
use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const ONE: &str = "16909060";

/// A situation, for the functions of this code. It panics if they do not keep a promise.
type Play = fn(&str);

/// All situations, each by its name.
pub(crate) const ALL: [(&str, Play); 7] = [
    ("a late cancellation names the vote that it ends", a_late_cancellation_names_the_vote_that_it_ends),
    (
        "a store that went back refuses the changes of a node that knows more",
        a_store_that_went_back_refuses_the_changes_of_a_node_that_knows_more,
    ),
    (
        "a token that moved goes to its new server in an older copy",
        a_token_that_moved_goes_to_its_new_server_in_an_older_copy,
    ),
    ("a vote that a cancelled one replaced stays away", a_vote_that_a_cancelled_one_replaced_stays_away),
    ("an emptied log whose names are ahead takes changes", an_emptied_log_whose_names_are_ahead_takes_changes),
    ("no vote is cast with an instant that was taken away", no_vote_is_cast_with_an_instant_that_was_taken_away),
    ("a listing that was taken away stays away", a_listing_that_was_taken_away_stays_away),
];

#[test]
fn every_situation_ends_well() {
    for (_, play) in ALL {
        play(CODE);
    }
}

struct Scene {
    functions: Functions,
    store: Store,
    /// The bits of the last change.
    bits: u64,
}

impl Scene {
    /// A store that lists server 1 with the token `demo`.
    fn new(code: &str) -> Self {
        let functions = Functions::load(code).expect("the library loads");
        let mut scene = Self { functions, store: Store::new(1_800_000_000_000_000), bits: 0 };
        let init = ["FCALL", "vs3_init", "1", "vs:{0}:meta", "store", "5400", "64"];
        scene.functions.ask(&mut scene.store, &init);
        assert_eq!(scene.list(1, "demo"), "listed");
        scene
    }

    fn now_s(&self) -> i64 {
        self.store.now_ms() / 1_000
    }

    fn step(&mut self, seconds: i64) {
        self.store.now_us = self.store.now_us.checked_add_signed(seconds * 1_000_000).expect("after 1970");
    }

    /// The last entry.
    fn last(&mut self) -> String {
        text(&self.store.ask(&["HGET", "vs:{0}:meta", "last"]))
    }

    fn call(&mut self, server: u32, function: &str, [until, last]: [&str; 2], more: &[&str]) -> Vec<String> {
        let (function, claims) = (format!("vs3_{function}"), format!("vs:{{0}}:s:{server}"));
        let keys = ["vs:{0}:log", &claims, "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone"];
        self.bits += 1;
        let (server, bits) = (server.to_string(), self.bits.to_string());
        let words = [&["FCALL", &function, "6"][..], &keys, &["store", until, last, &bits, &server], more].concat();
        let reply = self.functions.ask(&mut self.store, &words);
        let fields: Vec<_> = items(&reply).iter().map(text).collect();
        assert_eq!(fields.first(), Some(&self.store.now_ms().to_string()), "{reply:?}");
        fields
    }

    /// Calls a function, and gives the word of its answer.
    fn ask(&mut self, server: u32, function: &str, more: &[&str]) -> String {
        self.call(server, function, ["", ""], more)[1].clone()
    }

    fn record(&mut self, server: u32) -> String {
        text(&self.store.ask(&["HGET", "vs:{0}:dir", &server.to_string()]))
    }

    fn list(&mut self, server: u32, token: &str) -> String {
        let (before, bits) = (self.record(server), format!("{:016x}", self.bits));
        self.ask(server, "list", &[&before, token, &bits, "0"])
    }

    fn listing(&mut self, server: u32) -> String {
        Record::read(&self.record(server)).expect("a record").listing
    }

    /// Gives facts back, and gives the word for each.
    fn give(&mut self, server: u32, facts: &[&str]) -> Vec<String> {
        let fields = self.call(server, "give", ["", ""], facts);
        assert_eq!(fields[1], "given", "{fields:?}");
        fields[3..].iter().step_by(2).cloned().collect()
    }

    fn held(&mut self, server: u32, address: &str) -> Reply {
        self.store.ask(&["ZSCORE", &format!("vs:{{0}}:s:{server}"), address])
    }
}

/// The network holds a cancellation up, and the clock goes back: the cancellation comes in time, and ends no later
/// vote.
fn a_late_cancellation_names_the_vote_that_it_ends(code: &str) {
    let mut scene = Scene::new(code);
    let first = scene.now_s().to_string();
    assert_eq!(scene.ask(1, "vote", &["cast", "", ONE]), "recorded");
    let until = (scene.store.now_ms() + 2_000).to_string();
    scene.step(1);
    assert_eq!(scene.ask(1, "cancel", &[ONE, &first]), "cancelled");
    scene.step(-3);
    let cast = scene.call(1, "vote", ["", ""], &["cast", "", ONE]);
    let later = cast[3].clone();
    assert_eq!((cast[1].as_str(), later > first), ("recorded", true));
    scene.step(3);
    let came = scene.call(1, "cancel", [&until, ""], &[ONE, &first]);
    assert_eq!(came[1..], ["other", "", &later]);
    assert_eq!(scene.held(1, ONE), Reply::bulk(&later));
    // A late rotation and a late removal end nothing later, either.
    let record = scene.record(1);
    assert_eq!(scene.list(1, "second"), "listed");
    assert_eq!(scene.ask(1, "list", &[&record, "third", "00000000000000ff", "0"]), "other");
    let listing = scene.listing(1);
    assert_eq!(scene.ask(1, "remove", &[&listing]), "removed");
    assert_eq!(scene.list(1, "third"), "listed");
    assert_eq!(scene.ask(1, "remove", &[&listing]), "other");
    assert!(scene.record(1).ends_with(";third"));
}

/// A machine goes back to a snapshot, memory and names included. A node that had seen more takes no vote there.
fn a_store_that_went_back_refuses_the_changes_of_a_node_that_knows_more(code: &str) {
    let mut scene = Scene::new(code);
    let snapshot = scene.store.keys.clone();
    assert_eq!(scene.ask(1, "vote", &["cast", "", ONE]), "recorded");
    let last = scene.last();
    let cast = |scene: &mut Scene| scene.call(1, "vote", ["", &last], &["cast", "", "7"])[1].clone();
    scene.store.keys = snapshot;
    assert_eq!(cast(&mut scene), "VSLOST");
    // Other nodes go on there, and make as many entries or more.
    for address in ["8", "9"] {
        assert_eq!(scene.ask(1, "vote", &["cast", "", address]), "recorded");
        assert_eq!(cast(&mut scene), "VSLOST");
    }
    let head = ["FCALL_RO", "vs3_head", "2", "vs:{0}:log", "vs:{0}:meta"];
    let held = |scene: &mut Scene, last: &str| {
        text(&items(&scene.functions.ask(&mut scene.store, &[&head[..], &[last]].concat()))[1])
    };
    assert_eq!(held(&mut scene, &last), "lost");
    let last = scene.last();
    assert_eq!(scene.ask(1, "vote", &["cast", "", "10"]), "recorded");
    assert_eq!(held(&mut scene, &last), "held");
    // A trimmed log cannot say so.
    scene.store.ask(&["XTRIM", "vs:{0}:log", "MAXLEN", "1"]);
    assert_eq!(held(&mut scene, &last), "lost");
    let last = scene.last();
    scene.store.ask(&["DEL", "vs:{0}:log"]);
    assert_eq!(held(&mut scene, &last), "held");
}

/// An older copy has a token at the server that had it before. The later stamp has it, and the votes come back.
fn a_token_that_moved_goes_to_its_new_server_in_an_older_copy(code: &str) {
    let mut scene = Scene::new(code);
    let copy = scene.store.keys.clone();
    // The clock goes back meanwhile.
    scene.step(-100);
    assert_eq!(scene.list(1, "other"), "listed");
    assert_eq!(scene.list(2, "demo"), "listed");
    let (at, first, second) = (scene.now_s().to_string(), scene.record(1), scene.record(2));
    let listing = scene.listing(2);
    assert_eq!(scene.ask(2, "vote", &["cast", "", ONE]), "recorded");
    scene.store.keys = copy;
    let vote = format!("{ONE}:{at}");
    // The new server's node gives its facts first: the old server gets a spare token.
    assert_eq!(scene.give(2, &["r", &second, "l", &listing, "v", &vote]), ["made", "ok", "made"]);
    assert_eq!(scene.record(2), second);
    let spare = scene.record(1);
    assert!(!spare.ends_with(";demo") && !spare.is_empty(), "{spare}");
    assert_eq!(scene.give(1, &["r", &first]), ["made"]);
    assert_eq!((scene.record(1), scene.record(2)), (first, second));
    assert_eq!(scene.held(2, ONE), Reply::bulk(&at));
    assert_eq!(scene.give(1, &["r", &spare]), ["has"]);
}

/// A node was away while a later vote took an earlier one's place and was cancelled.
fn a_vote_that_a_cancelled_one_replaced_stays_away(code: &str) {
    let mut scene = Scene::new(code);
    let (earlier, later) = (scene.now_s().to_string(), (scene.now_s() + 60).to_string());
    assert_eq!(scene.ask(1, "vote", &["record", &earlier, ONE]), "recorded");
    scene.step(60);
    assert_eq!(scene.ask(1, "vote", &["record", &later, ONE]), "recorded");
    assert_eq!(scene.ask(1, "cancel", &[ONE, &later]), "cancelled");
    let listing = scene.listing(1);
    let vote = format!("{ONE}:{earlier}");
    assert_eq!(scene.give(1, &["l", &listing, "v", &vote]), ["ok", "gone"]);
    assert_eq!(scene.held(1, ONE), Reply::Nil);
    // The caller's own records say so too, in vain.
    assert_eq!(scene.call(1, "vote", ["", ""], &["record", &later, ONE])[1..], ["cancelled", "", ONE]);
}

/// A log that is emptied after a moment in which the clock was ahead stops nothing.
fn an_emptied_log_whose_names_are_ahead_takes_changes(code: &str) {
    let mut scene = Scene::new(code);
    scene.step(3_600);
    assert_eq!(scene.ask(1, "vote", &["cast", "", "7"]), "recorded");
    scene.step(-3_600);
    assert_eq!(scene.store.ask(&["XTRIM", "vs:{0}:log", "MAXLEN", "0"]), Reply::Int(2));
    let (at, cast) = (scene.now_s().to_string(), scene.call(1, "vote", ["", ""], &["cast", "", ONE]));
    assert_eq!([&cast[1], &cast[3]], ["recorded", &at]);
}

/// A vote after a cancelled one of the same second gets the next second, and the sixth of them none. A server that is
/// listed again begins behind the votes of its earlier listing.
fn no_vote_is_cast_with_an_instant_that_was_taken_away(code: &str) {
    let mut scene = Scene::new(code);
    for ahead in 0..6 {
        let at = (scene.now_s() + ahead).to_string();
        assert_eq!(scene.call(1, "vote", ["", ""], &["cast", "", ONE])[3], at);
        assert_eq!(scene.ask(1, "cancel", &[ONE, &at]), "cancelled");
    }
    assert_eq!(scene.ask(1, "vote", &["cast", "", ONE]), "many");
    let at = scene.now_s();
    assert_eq!(scene.call(1, "vote", ["", ""], &["cast", "", "7"])[3], at.to_string());
    let listing = scene.listing(1);
    assert_eq!(scene.ask(1, "remove", &[&listing]), "removed");
    assert_eq!(scene.list(1, "demo"), "listed");
    assert_eq!(scene.call(1, "vote", ["", ""], &["cast", "", "7"])[3], (at + 1).to_string());
}

/// The tombstone of a listing has no end.
fn a_listing_that_was_taken_away_stays_away(code: &str) {
    let mut scene = Scene::new(code);
    let (record, listing) = (scene.record(1), scene.listing(1));
    assert_eq!(scene.ask(1, "remove", &[&listing]), "removed");
    scene.step(1_000_000);
    assert_eq!(scene.list(2, "another"), "listed");
    let other = scene.listing(2);
    assert_eq!(scene.ask(2, "remove", &[&other]), "removed");
    assert_eq!(scene.give(1, &["r", &record]), ["ended"]);
    assert_eq!(scene.record(1), "");
    // Its votes went with it. A vote of a later listing may have the same instant: none of that address was taken away.
    let vote = format!("{ONE}:{}", scene.now_s());
    assert_eq!(scene.give(1, &["l", &listing, "v", &vote]), ["ok", "ended"]);
}
