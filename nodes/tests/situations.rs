//! Situations that break a promise of docs/CLUSTER.md in the functions of 1.0.0. Each test says what they do today: the mend
//! turns its last lines round.

use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const ONE: &str = "16909060";
const LISTINGS: [&str; 2] = ["00000000000000aa", "00000000000000bb"];

struct Scene {
    functions: Functions,
    store: Store,
}

impl Scene {
    /// A store that lists server 1 with the token `demo`.
    fn new() -> Self {
        let functions = Functions::load(CODE).expect("the library loads");
        let mut scene = Self { functions, store: Store::new(1_800_000_000_000_000) };
        let init = ["FCALL", "vote_status_init", "1", "vs:{0}:meta", "store", "5400", "64"];
        scene.functions.ask(&mut scene.store, &init);
        assert_eq!(scene.at(1, "server", "", &["list", "demo", "demo", LISTINGS[0]]), 0);
        scene
    }

    fn now_s(&self) -> i64 {
        self.store.now_ms() / 1_000
    }

    fn step(&mut self, seconds: i64) {
        self.store.now_us = self.store.now_us.checked_add_signed(seconds * 1_000_000).expect("after 1970");
    }

    fn call(&mut self, server: u32, function: &str, until: &str, more: &[&str]) -> Reply {
        let (function, claims) = (format!("vote_status_{function}"), format!("vs:{{0}}:s:{server}"));
        let keys = ["vs:{0}:log", &claims, "vs:{0}:dir", "vs:{0}:tok", "vs:{0}:meta", "vs:{0}:gone"];
        let server = server.to_string();
        let words = [&["FCALL", &function, "6"][..], &keys, &["store", until, &server], more].concat();
        self.functions.ask(&mut self.store, &words)
    }

    /// The first field of the answer.
    fn at(&mut self, server: u32, function: &str, until: &str, more: &[&str]) -> i64 {
        match self.call(server, function, until, more) {
            Reply::Array(fields) if matches!(fields[0], Reply::Int(_)) => {
                if let Reply::Int(what) = fields[0] {
                    what
                } else {
                    unreachable!("a number")
                }
            }
            other => panic!("{other:?}"),
        }
    }

    fn held(&mut self, server: u32, address: &str) -> Reply {
        self.store.ask(&["ZSCORE", &format!("vs:{{0}}:s:{server}"), address])
    }
}

/// A cancellation says until when its caller waits, and not which vote it means: where the clock has gone back, it is in
/// time for ever so long, and ends a vote that was acknowledged since.
#[test]
fn a_late_cancellation_after_the_clock_went_back_ends_a_later_vote() {
    let mut scene = Scene::new();
    assert_eq!(scene.at(1, "vote", "", &["cast", "", ONE]), 0);
    // The network holds this cancellation up. Its caller asks again, and is heard.
    let until = (scene.store.now_ms() + 2_000).to_string();
    scene.step(1);
    assert_eq!(scene.at(1, "cancel", "", &[ONE]), 0);
    scene.step(-50);
    scene.step(10);
    let later = scene.now_s();
    assert_eq!(scene.at(1, "vote", "", &["cast", "", ONE]), 0);
    scene.step(10);
    let came = scene.call(1, "cancel", &until, &[ONE]);
    // Rule 1: it names the instant that it means, and nothing is done.
    assert!(matches!(&came, Reply::Array(fields) if fields[..2] == [Reply::Int(0), Reply::Int(later)]), "{came:?}");
    assert_eq!(scene.held(1, ONE), Reply::Nil);
}

/// A node gives a server back with its token. An older copy has that token at the server which had it before: the new
/// server is refused, and so is each of its votes.
#[test]
fn a_token_that_moved_keeps_its_new_server_out_of_an_older_copy() {
    let mut scene = Scene::new();
    let copy = scene.store.clone();
    scene.step(1);
    assert_eq!(scene.at(1, "server", "", &["rotate", "other", "other", ""]), 1);
    assert_eq!(scene.at(2, "server", "", &["list", "demo", "demo", LISTINGS[1]]), 0);
    let at = scene.now_s().to_string();
    assert_eq!(scene.at(2, "vote", "", &["cast", "", ONE]), 0);
    scene.store.keys = copy.keys;
    scene.step(1);
    // Rule 3: the record carries its stamp, so the later one has the token, and the vote is there again.
    assert_eq!(scene.at(1, "relist", "", &["other", LISTINGS[0]]), 1);
    assert_eq!(scene.at(2, "relist", "", &["demo", LISTINGS[1]]), 1);
    assert_eq!(scene.at(2, "restore", "", &[ONE, &at, LISTINGS[1]]), 1);
    assert_eq!(scene.held(2, ONE), Reply::Nil);
}

/// A cancellation is remembered by the vote that it ended. An older one, of which a node knows, comes back.
#[test]
fn a_vote_that_a_cancelled_one_replaced_comes_back() {
    let mut scene = Scene::new();
    let earlier = scene.now_s().to_string();
    assert_eq!(scene.at(1, "vote", "", &["record", &earlier, ONE]), 0);
    scene.step(60);
    let later = scene.now_s().to_string();
    assert_eq!(scene.at(1, "vote", "", &["record", &later, ONE]), 0);
    assert_eq!(scene.at(1, "cancel", "", &[ONE]), 0);
    // Rule 3: a vote that takes a live one's place takes that one away.
    assert_eq!(scene.at(1, "restore", "", &[ONE, &earlier, LISTINGS[0]]), 0);
    assert_eq!(scene.held(1, ONE), Reply::bulk(&earlier));
}

/// The log keeps its last name when it is emptied, and the functions look for it among the entries.
#[test]
fn an_emptied_log_whose_names_are_ahead_refuses_every_change() {
    let mut scene = Scene::new();
    scene.step(3_600);
    assert_eq!(scene.at(1, "vote", "", &["cast", "", ONE]), 0);
    scene.step(-3_600);
    assert_eq!(scene.store.ask(&["XTRIM", "vs:{0}:log", "MAXLEN", "0"]), Reply::Int(2));
    let refused = scene.call(1, "vote", "", &["cast", "", "84281096"]);
    // Rule 6: `XADD *` takes the next name.
    assert!(matches!(&refused, Reply::Refused(why) if why.contains("equal or smaller")), "{refused:?}");
    scene.step(3_601);
    assert_eq!(scene.at(1, "vote", "", &["cast", "", "84281096"]), 0);
}
