//! Random changes from several callers, late and repeated ones among them, through the functions over the model. What
//! each may answer follows from docs/CLUSTER.md, and a node that follows the log has what the store has.

use crate::draws::COOLDOWN_S;
use crate::follower::Node;
use crate::promises::{Call, Promises, What};
use crate::random::{Random, seeds};
use std::mem;
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::store::Store;

const SEEDS: u64 = 1_000;
const CALLS: u64 = 120;
const ADDRESSES: [&str; 5] = ["16909060", "84281096", "20010db800000000", "3405803783", "3232235777"];
const TOKENS: [&str; 4] = ["demo", "another", "third", "fourth"];

/// What a seed draws: not every store is damaged, and not every clock steps.
struct Scene {
    random: Random,
    store: Store,
    promises: Promises,
    node: Node,
    copy: Option<Store>,
    listings: u64,
    steps: bool,
    others: bool,
    goes_back: bool,
    before: Option<Call>,
    /// Others have taken entries out of the log since it had its last hole.
    is_cut: bool,
}

impl Scene {
    fn new(functions: &Functions, seed: u64) -> Result<Self, String> {
        let mut random = Random::seeded(seed);
        let mut store = Store::new(1_800_000_000_000_000 + random.below(1_000_000_000));
        store.block_max = 10;
        let init = ["FCALL", "vote_status_init", "1", "vs:{0}:meta", "store", &COOLDOWN_S.to_string(), "64"];
        functions.ask(&mut store, &init);
        let node = Node::read(&mut store)?;
        let (steps, others, goes_back) = (random.is(40), random.is(30), random.is(40));
        let promises = Promises::new(store.now_us / 1_000);
        let (copy, listings, before, is_cut) = (None, 0, None, false);
        Ok(Self { random, store, promises, node, copy, listings, steps, others, goes_back, before, is_cut })
    }

    fn address(&mut self) -> String {
        self.random.pick(&ADDRESSES).to_owned()
    }

    /// An instant near one that decides.
    fn instant(&mut self) -> u64 {
        let now = self.store.now_us / 1_000_000;
        match self.random.below(8) {
            0 => now + self.random.below(8),
            1 => now - COOLDOWN_S + self.random.below(4) - 1,
            2 => self.promises.any_vote(&mut self.random).map_or(now, |(_, _, at)| at),
            _ => now - self.random.below(COOLDOWN_S),
        }
    }

    /// No two listings have one id.
    fn new_listing(&mut self, server: u64) -> String {
        self.listings += 1;
        format!("{server:08x}{:08x}", self.listings)
    }

    fn listing(&mut self, server: u64) -> String {
        let of_server = self.promises.listings(server);
        let at = self.random.below(1 + u64::try_from(of_server.len()).expect("few"));
        let known = of_server.get(usize::try_from(at).expect("few")).cloned();
        known.unwrap_or_else(|| self.new_listing(server))
    }

    fn call(&mut self) -> Call {
        if let Some(mut before) = self.before.clone().filter(|_| self.random.is(12)) {
            // A retry of a change whose answer was lost.
            if let What::List(_, _, listing) = &mut before.what {
                *listing = self.new_listing(before.server);
            }
            return before;
        }
        if let Some(Call { server, what: What::Cancel(address), until_ms, .. }) = self.before.clone()
            && self.random.is(40)
        {
            // Whoever gets another try takes it.
            return Call { server, what: What::Cast(vec![address]), until_ms, is_foreign: false };
        }
        let now_ms = self.store.now_us / 1_000;
        let until_ms = match self.random.below(12) {
            0 => Some(now_ms - 1 - self.random.below(60_000)),
            1 => Some(now_ms),
            2 => None,
            _ => Some(now_ms + self.random.below(2_000)),
        };
        let mut server = 1 + self.random.below(3);
        let (one, token) = (self.address(), self.random.pick(&TOKENS).to_owned());
        let what = match self.random.below(100) {
            0..42 => What::Cast(if self.random.is(20) { vec![one, self.address()] } else { vec![one] }),
            42..54 => {
                What::Record(self.instant(), if self.random.is(20) { vec![one, self.address()] } else { vec![one] })
            }
            54..67 => What::Cancel(one),
            67..70 => What::Restore(one, self.instant(), self.listing(server)),
            70..76 => {
                let some = self.promises.any_vote(&mut self.random);
                let (of, address, at) = some.unwrap_or_else(|| (server, one, self.instant()));
                server = of;
                What::Restore(address, at, self.listing(of))
            }
            76..86 => {
                What::List(if self.random.is(50) { Some(token.clone()) } else { None }, token, self.new_listing(server))
            }
            86..90 => What::Rotate(token),
            90..95 => What::Relist(token, self.listing(server)),
            _ => What::Remove,
        };
        let is_foreign = self.random.is(2);
        Call { server, what, until_ms, is_foreign }
    }

    fn clock(&mut self) {
        let far_us = 1_000_000 * self.random.below(2 * COOLDOWN_S);
        self.store.now_us = match self.random.below(30) {
            0 if self.steps => self.store.now_us - far_us,
            0 | 1 => self.store.now_us + far_us,
            2 => self.store.now_us + 10 * far_us,
            3..12 => self.store.now_us,
            _ => self.store.now_us + self.random.below(3_000_000),
        };
        self.promises.at(self.store.now_us / 1_000);
    }

    /// What others do to the log, which costs nothing.
    fn meddle(&mut self) {
        let log = "vs:{0}:log";
        let what = self.random.below(6);
        if what < 2 {
            self.is_cut = true;
            // Within one millisecond, a log that was deleted twice may give two entries one name and one number.
            self.store.now_us += 1_000;
        }
        match what {
            0 => self.store.ask(&["DEL", log]),
            1 => self.store.ask(&["XTRIM", log, "MAXLEN", "1"]),
            _ => self.store.ask(&["XADD", log, "*", "other", "entry"]),
        };
    }

    /// The node follows the log, which has no hole that nobody has made.
    fn follow(&mut self) -> Result<(), String> {
        if self.node.follow(&mut self.store)? || mem::take(&mut self.is_cut) {
            return Ok(());
        }
        Err("the log has a hole".to_owned())
    }

    /// An older copy is put back: a new history. The node gives back all that it knows, some of it twice.
    fn go_back(&mut self, functions: &Functions) -> Result<(), String> {
        let Some(copy) = self.copy.take() else {
            self.copy = Some(self.store.clone());
            return Ok(());
        };
        self.store.keys = copy.keys;
        self.node.give_back(functions, &mut self.store, &mut self.random)?;
        self.node = Node::read(&mut self.store)?;
        self.promises.begin_history(&self.node);
        Ok(())
    }
}

/// Runs one seed. The promise that was broken, if one was.
pub(crate) fn run(functions: &Functions, seed: u64, is_told: bool) -> Result<(), String> {
    let mut scene = Scene::new(functions, seed)?;
    for nth in 0..CALLS {
        let told = |why: String| format!("TEST_SEED={seed}, call {nth}: {why}");
        let call = scene.call();
        let keys = scene.store.keys.clone();
        let reply = functions.ask(&mut scene.store, &call.words());
        let now_us = scene.store.now_us;
        if is_told {
            println!("{nth} at {}: {call:?}: {reply:?}", scene.store.now_us);
        }
        let of_call = |why: String| told(format!("{call:?} at {now_us}: {reply:?}: {why}"));
        scene.follow().map_err(of_call)?;
        let is_change = scene.promises.judge(&call, &reply, &scene.node).map_err(of_call)?;
        if !is_change && !keys.is_as(&scene.store.keys, scene.store.now_ms()) {
            return Err(of_call("keys have changed".to_owned()));
        }
        scene.before = Some(call);
        if scene.others && scene.random.is(3) {
            scene.meddle();
        }
        scene.clock();
        if nth % 20 == 19 {
            scene.follow().map_err(told)?;
            let whole = Node::read(&mut scene.store).map_err(told)?;
            scene.promises.compare(&scene.node, &whole).map_err(told)?;
        }
        if scene.goes_back && scene.random.is(4) {
            scene.follow().map_err(told)?;
            scene.go_back(functions).map_err(told)?;
        }
    }
    Ok(())
}

#[test]
fn the_functions_keep_what_is_promised() {
    let functions = Functions::load(CODE).expect("the library loads");
    let (seeds, began) = (seeds(SEEDS), Instant::now());
    for seed in seeds.clone() {
        if let Err(broken) = run(&functions, seed, false) {
            panic!("{broken}, again: {:?}", run(&functions, seed, true));
        }
    }
    let (calls, took) = ((seeds.end - seeds.start) * CALLS, began.elapsed());
    println!(
        "seeds {seeds:?}, {calls} calls, no promise broken, {} calls/s",
        u128::from(calls) * 1_000 / took.as_millis().max(1)
    );
}
