//! The join. Three nodes make random changes at two stores that know nothing of each other. Copies are put back, calls
//! come late, and replies are lost. Then every node gives its facts to both stores, in random order, some twice. Stores
//! and nodes end in one state, which keeps all answered facts.

use crate::calls::{Before, Call, What};
use crate::draws::COOLDOWN_S;
use crate::facts::{Fact, Follower, LOG, Record, SERVERS, State, text};
use crate::random::{Random, seeds};
use std::collections::BTreeSet;
use std::mem;
use std::time::Instant;
use vote_status_nodes::functions::{CODE, Functions};
use vote_status_nodes::keyspace::Keyspace;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

const SEEDS: u64 = 1_000;
const CALLS: u64 = 90;
const STORES: usize = 2;
const NODES: usize = 3;
/// The most rounds in which every node gives its facts to every store.
const ROUNDS_MAX: usize = 6;
const ADDRESSES: [&str; 4] = ["16909060", "84281096", "20010db800000000", "3405803783"];
const TOKENS: [&str; 4] = ["demo", "an;other", "third", "Fourth"];

/// A node: the store that it follows, and all facts that it ever learnt.
#[derive(Clone, Debug, Default)]
struct Node {
    at: usize,
    follower: Follower,
    facts: State,
    stamp: u64,
}

impl Node {
    fn learn(&mut self, facts: &[Fact]) {
        for fact in facts {
            if let Fact::Listed(_, record) = fact {
                self.stamp = self.stamp.max(record.stamp);
            }
            self.facts.apply(fact);
        }
    }
}

/// A store, and the test's own notes about it.
struct Place {
    store: Store,
    copy: Option<Keyspace>,
    /// Follows the log entry by entry.
    tail: Follower,
    /// Whether others have taken entries out of the log.
    is_cut: bool,
}

/// The facts in answers.
#[derive(Debug, Default)]
struct Answered {
    made: Vec<Fact>,
    taken_away: Vec<Fact>,
    /// Facts of changes that a store made and no caller heard of.
    unheard: Vec<Fact>,
}

struct World<'f> {
    functions: &'f Functions,
    random: Random,
    places: Vec<Place>,
    nodes: Vec<Node>,
    /// Calls that the network holds up.
    late: Vec<(usize, Call)>,
    answered: Answered,
    /// The latest second of any clock: a fact that was over by then may have stayed over.
    latest_s: u64,
    steps: bool,
    goes_back: bool,
    others: bool,
    is_told: bool,
}

impl<'f> World<'f> {
    fn new(functions: &'f Functions, seed: u64, is_told: bool) -> Self {
        let mut random = Random::seeded(seed);
        let mut store = Store::new(1_800_000_000_000_000 + random.below(1_000_000_000));
        store.block_max = 10;
        let init = ["FCALL", "vs3_init", "1", "vs:{0}:meta", "store", &COOLDOWN_S.to_string(), "64"];
        functions.ask(&mut store, &init);
        let tail = Follower { last: "0 0-0 0".to_owned(), ..Follower::default() };
        let node = Node { follower: tail.clone(), ..Node::default() };
        let latest_s = store.now_us / 1_000_000;
        let places = (0..STORES)
            .map(|_| Place { store: store.clone(), copy: None, tail: tail.clone(), is_cut: false })
            .collect();
        let nodes = (0..NODES).map(|nth| Node { at: nth % STORES, ..node.clone() }).collect();
        let (steps, goes_back, others) = (random.is(30), random.is(50), random.is(30));
        let (late, answered) = Default::default();
        Self { functions, random, places, nodes, late, answered, latest_s, steps, goes_back, others, is_told }
    }

    fn now_us(&self) -> u64 {
        self.places[0].store.now_us
    }

    fn now_s(&self) -> u64 {
        self.now_us() / 1_000_000
    }

    fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.random.below(u64::try_from(count).expect("few"))).expect("few")
    }

    fn pick<T: Clone>(&mut self, items: &[T]) -> Option<T> {
        let at = self.below(items.len().max(1));
        items.get(at).cloned()
    }

    fn shuffled<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        items.sort_by_cached_key(|_| self.random.next());
        items
    }

    fn addresses(&mut self) -> Vec<String> {
        let count = if self.random.is(20) { 2 } else { 1 };
        (0..count).map(|_| self.random.pick(&ADDRESSES).to_owned()).collect()
    }

    /// An instant near one that decides.
    fn instant(&mut self) -> u64 {
        let now = self.now_s();
        let known: Vec<_> = self.answered.made.iter().chain(&self.answered.taken_away).cloned().collect();
        match (self.random.below(8), self.pick(&known)) {
            (0, _) => now + self.random.below(8),
            (1, _) => now - COOLDOWN_S + self.random.below(4) - 1,
            (2..5, Some(Fact::Voted(_, _, _, at) | Fact::VoteGone(_, _, at))) => at,
            _ => now - self.random.below(COOLDOWN_S),
        }
    }

    /// A change that this node asks for, mostly after a look at the store.
    fn call(&mut self, of: usize) -> Call {
        let server = 1 + self.random.below(SERVERS - 1);
        let store = &mut self.places[self.nodes[of].at].store;
        let state = State::read(store, COOLDOWN_S).unwrap_or_default();
        let told = |record: &Record| record.told();
        let before = state.records.get(&server).map(told).unwrap_or_default();
        let listing = state.records.get(&server).map(|record| record.listing.clone()).unwrap_or_default();
        let votes: Vec<_> = state.votes.iter().filter(|((of, _), _)| *of == server).collect();
        let votes: Vec<_> = votes.into_iter().map(|((_, address), at)| (address.clone(), *at)).collect();
        let stamp = self.nodes[of].stamp;
        let what = match self.random.below(100) {
            0..40 => What::Cast(self.random.is(20).then(|| self.instant()), self.addresses()),
            40..54 => What::Record(self.instant(), self.addresses()),
            54..72 => match self.pick(&votes).filter(|_| self.random.is(90)) {
                Some((address, at)) => What::Cancel(address, at),
                None => What::Cancel(self.random.pick(&ADDRESSES).to_owned(), self.instant()),
            },
            72..92 => {
                let before = if self.random.is(95) { before } else { String::new() };
                let bits = format!("{:016x}", self.random.next());
                What::List(before, self.random.pick(&TOKENS).to_owned(), bits, stamp)
            }
            _ => What::Remove(listing),
        };
        let now_ms = self.now_us() / 1_000;
        let until_ms = (!self.random.is(5)).then(|| now_ms + self.random.below(4_000));
        let last = self.nodes[of].follower.last.clone();
        let bits = self.random.next().cast_signed();
        Call { server, what, until_ms, last, bits, is_foreign: self.random.is(1) }
    }

    /// Has a store carry out a call, and judges it. Gives the reply, and the facts that it makes known.
    fn ask(&mut self, at: usize, call: &Call) -> Result<(Reply, Vec<Fact>), String> {
        let Place { store, tail, is_cut, .. } = &mut self.places[at];
        let keys = store.keys.clone();
        let before = Before::read(store, call)?;
        let reply = self.functions.ask(store, &call.words());
        let is_news =
            !matches!(call.what, What::Give(_)) || crate::facts::items(&reply).get(2) != Some(&Reply::bulk(""));
        if self.is_told && is_news {
            println!("at {} store {at}: {call:?}: {reply:?}", store.now_us);
        }
        let of_call = |why: String| format!("{call:?}: {reply:?}: {why}");
        let facts = before.judge(call, &reply, store).map_err(of_call)?;
        if facts.is_empty() && !keys.is_as(&store.keys, store.now_ms()) {
            return Err(of_call("keys have changed".to_owned()));
        }
        // A node that follows the log has the store's facts.
        if tail.follow(store).map_err(of_call)?.is_none() {
            if !mem::take(is_cut) {
                return Err(of_call("the log has a hole".to_owned()));
            }
            *tail = Follower::read(store, COOLDOWN_S)?;
        }
        let latest_s = self.latest_s;
        let whole = State::read(store, COOLDOWN_S)?.live(latest_s, COOLDOWN_S);
        let followed = tail.state.live(latest_s, COOLDOWN_S);
        if followed != whole {
            return Err(of_call(format!("the log says {followed:?}, and the store has {whole:?}")));
        }
        Ok((reply, facts))
    }

    fn change(&mut self) -> Result<(), String> {
        let of = self.below(NODES);
        let (at, call) = match self.pick(&self.late.clone()).filter(|_| self.random.is(15)) {
            Some(late) => late,
            None => (self.nodes[of].at, self.call(of)),
        };
        if self.random.is(10) {
            self.late.push((at, call.clone()));
            if self.random.is(50) {
                return Ok(());
            }
        }
        let (reply, facts) = self.ask(at, &call)?;
        let is_heard = self.random.is(90);
        for fact in &facts {
            let Answered { made, taken_away, unheard } = &mut self.answered;
            match fact {
                _ if !is_heard => unheard,
                Fact::VoteGone(..) | Fact::ListingGone(..) => taken_away,
                _ => made,
            }
            .push(fact.clone());
        }
        if is_heard {
            self.nodes[of].learn(&facts);
        }
        let is_lost = crate::facts::items(&reply).get(1) == Some(&Reply::bulk("VSLOST"));
        if is_lost || self.random.is(60) {
            self.follow(of)?;
        }
        Ok(())
    }

    /// A node reads on in the log, or reads everything, and learns the facts.
    fn follow(&mut self, of: usize) -> Result<(), String> {
        let store = &mut self.places[self.nodes[of].at].store;
        let node = &mut self.nodes[of];
        let facts = match node.follower.follow(store)? {
            Some(facts) if !facts.is_empty() => facts,
            _ => {
                node.follower = Follower::read(store, COOLDOWN_S)?;
                node.follower.state.facts()
            }
        };
        node.learn(&facts);
        Ok(())
    }

    /// A node gives a store its facts, removals and others, in any order.
    fn give(&mut self, of: usize, facts: Vec<Fact>) -> Result<(), String> {
        let mut facts = self.shuffled(facts);
        while let Some(first) = facts.first().cloned() {
            let server = first.server();
            let most = 1 + self.below(5);
            let (mut these, mut others) = (Vec::new(), Vec::new());
            for fact in facts {
                let list = if fact.server() == server && these.len() < most { &mut these } else { &mut others };
                list.push(fact);
            }
            facts = others;
            let last = if self.random.is(50) { String::new() } else { self.nodes[of].follower.last.clone() };
            let bits = self.random.next().cast_signed();
            let what = What::Give(these);
            let call = Call { server, what, until_ms: None, last, bits, is_foreign: false };
            self.ask(self.nodes[of].at, &call)?;
            if self.random.is(20) {
                self.ask(self.nodes[of].at, &call)?;
            }
        }
        Ok(())
    }

    /// Clocks, copies, other programs.
    fn disturb(&mut self) -> Result<(), String> {
        let far_us = 1_000_000 * self.random.below(COOLDOWN_S);
        let now_us = self.now_us();
        let now_us = match self.random.below(40) {
            0 if self.steps => now_us - far_us,
            0 | 1 if self.steps => now_us + far_us,
            2..20 => now_us,
            _ => now_us + self.random.below(2_000_000),
        };
        self.places.iter_mut().for_each(|place| place.store.now_us = now_us);
        self.latest_s = self.latest_s.max(now_us / 1_000_000);
        let at = self.below(STORES);
        let place = &mut self.places[at];
        if self.goes_back && self.random.is(6) {
            match place.copy.take() {
                Some(copy) => {
                    place.store.keys = copy;
                    place.tail = Follower::read(&mut place.store, COOLDOWN_S)?;
                    // The copy may have no log, and the clock may have gone back since.
                    place.is_cut = true;
                    if self.is_told {
                        println!("store {at} goes back");
                    }
                }
                None => place.copy = Some(place.store.keys.clone()),
            }
        }
        if self.others && self.random.is(4) {
            let (what, Place { store, is_cut, .. }) = (self.random.below(4), &mut self.places[at]);
            *is_cut |= what < 2;
            match what {
                0 => store.ask(&["DEL", LOG]),
                1 => store.ask(&["XTRIM", LOG, "MAXLEN", "1"]),
                _ => store.ask(&["XADD", LOG, "*", "other", "entry"]),
            };
        }
        if self.random.is(8) {
            // A node gives a store facts of any age, without a look at it.
            let Answered { made, taken_away, unheard } = &self.answered;
            let all: Vec<_> = made.iter().chain(taken_away).chain(unheard).cloned().collect();
            let some = (0..6).filter_map(|_| self.pick(&all)).collect();
            let of = self.below(NODES);
            self.give(of, some)?;
        }
        if self.random.is(5) {
            let (of, at) = (self.below(NODES), self.below(STORES));
            self.nodes[of].at = at;
            self.nodes[of].follower = Follower::read(&mut self.places[at].store, COOLDOWN_S)?;
            let facts = self.nodes[of].follower.state.facts();
            self.nodes[of].learn(&facts);
            if self.random.is(60) {
                // The node gives back a part of its facts now.
                let all = self.nodes[of].facts.facts();
                let some = all.into_iter().filter(|_| self.random.is(70)).collect();
                self.give(of, some)?;
            }
        }
        Ok(())
    }

    fn lasts(&mut self) -> Vec<String> {
        self.places.iter_mut().map(|place| text(&place.store.ask(&["HGET", "vs:{0}:meta", "last"]))).collect()
    }

    /// Every node gives every store its facts, until nothing changes any more. Gives the number of rounds.
    fn heal(&mut self) -> Result<usize, String> {
        for round in 0..ROUNDS_MAX {
            let before = self.lasts();
            for of in self.shuffled((0..NODES).collect()) {
                for at in self.shuffled((0..STORES).collect()) {
                    self.nodes[of].at = at;
                    for _ in 0..2 {
                        self.nodes[of].follower = Follower::read(&mut self.places[at].store, COOLDOWN_S)?;
                        let facts = self.nodes[of].follower.state.facts();
                        self.nodes[of].learn(&facts);
                        let facts = self.nodes[of].facts.facts();
                        self.give(of, facts)?;
                    }
                    self.follow(of)?;
                }
            }
            if self.lasts() == before {
                return Ok(round);
            }
        }
        Err(format!("it does not end in {ROUNDS_MAX} rounds"))
    }

    /// Checks that all have one state, which keeps all answered facts.
    fn check(&mut self) -> Result<(), String> {
        let latest_s = self.latest_s;
        let mut states = Vec::new();
        for place in &mut self.places {
            states.push(State::read(&mut place.store, COOLDOWN_S)?.live(latest_s, COOLDOWN_S));
        }
        states.extend(self.nodes.iter().map(|node| node.facts.live(latest_s, COOLDOWN_S)));
        let one = states[0].clone();
        if let Some(other) = states.iter().find(|state| **state != one) {
            return Err(format!("there are two states at the end: {one:?}\nand {other:?}"));
        }
        let Answered { made, taken_away, unheard } = &self.answered;
        let all = || made.iter().chain(taken_away).chain(unheard);
        for fact in taken_away {
            let stands = match fact {
                Fact::ListingGone(server, listing) => {
                    one.records.get(server).is_some_and(|record| record.listing == *listing)
                }
                Fact::VoteGone(server, address, at) => one.votes.get(&(*server, address.clone())) == Some(at),
                _ => false,
            };
            if stands {
                return Err(format!("{fact:?} was answered, and it stands"));
            }
        }
        for fact in made {
            match fact {
                Fact::Voted(server, listing, address, at) if latest_s < at + COOLDOWN_S => {
                    let stands = one.votes.get(&(*server, address.clone())) >= Some(at);
                    let is_ended = all().any(|other| match other {
                        Fact::VoteGone(of, from, then) => (of, from) == (server, address) && then >= at,
                        other => ends(other, *server, listing),
                    });
                    if !stands && !is_ended {
                        return Err(format!("{fact:?} was answered, and is missing in {one:?}"));
                    }
                }
                Fact::Listed(server, record) => {
                    let held = one.records.get(server).filter(|held| held.listing == record.listing);
                    let is_ended = all().any(|other| ends(other, *server, &record.listing));
                    if held.is_none_or(|held| held.stamp < record.stamp) && !is_ended {
                        return Err(format!("{fact:?} was answered, and is missing in {one:?}"));
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Whether this fact ends a listing: its removal, or a greater one of the same server.
fn ends(fact: &Fact, server: u64, listing: &str) -> bool {
    match fact {
        Fact::ListingGone(of, other) => *of == server && other == listing,
        Fact::Listed(of, record) => *of == server && record.listing.as_str() > listing,
        _ => false,
    }
}

/// The commands that the functions called in one seed.
pub(crate) fn called(functions: &Functions, seed: u64) -> BTreeSet<&'static str> {
    let mut world = World::new(functions, seed, false);
    for _ in 0..CALLS {
        world.change().and_then(|()| world.disturb()).expect("nothing is wrong");
    }
    world.places.into_iter().flat_map(|place| place.store.called).collect()
}

/// Runs one seed. Gives the error, or the number of rounds to heal.
pub(crate) fn run(functions: &Functions, seed: u64, is_told: bool) -> Result<usize, String> {
    let mut world = World::new(functions, seed, is_told);
    for nth in 0..CALLS {
        let told = |why: String| format!("TEST_SEED={seed}, call {nth}: {why}");
        world.change().map_err(told)?;
        world.disturb().map_err(told)?;
    }
    let told = |why: String| format!("TEST_SEED={seed}, at the end: {why}");
    let rounds = world.heal().map_err(told)?;
    world.check().map_err(told)?;
    Ok(rounds)
}

#[test]
fn stores_and_nodes_end_in_one_state() {
    let functions = Functions::load(CODE).expect("the library loads");
    let (seeds, began) = (seeds(SEEDS), Instant::now());
    let mut most = 0;
    for seed in seeds.clone() {
        match run(&functions, seed, false) {
            Ok(rounds) => most = most.max(rounds),
            Err(broken) => panic!("{broken}, again: {:?}", run(&functions, seed, true)),
        }
    }
    println!("seeds {seeds:?}, one state each, at most {most} rounds, {:.1} s", began.elapsed().as_secs_f64());
}
