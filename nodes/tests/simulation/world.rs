//! The world of a run: processes, the network between them and the store, and time.

use crate::events::{Event, Planned, Scheduled};
use crate::host::{Input, Process};
use crate::plants::Plant;
use crate::promises::Promises;
use crate::random::Random;
use crate::wire::value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use vote_status::cluster::node::bounds::Bounds;
use vote_status::cluster::node::changes::WantedChange;
use vote_status::cluster::node::output::{NodeLine, Note, Output};
use vote_status::cluster::wire::answer::StoreAnswer;
use vote_status::cluster::wire::fact::Fact;
use vote_status::cluster::wire::last::Last;
use vote_status::cluster::wire::question::{StoreCall, StoreQuestion};
use vote_status::vote::id::ServerId;
use vote_status::vote::ipv6::Ipv6Prefix;
use vote_status::vote::settings::Settings;
use vote_status::vote::time::{Cooldown, UnixSeconds};
use vote_status_nodes::functions::Functions;
use vote_status_nodes::reply::Reply;
use vote_status_nodes::store::Store;

/// The store's clock at the beginning of the world.
pub(crate) const BEGIN_US: u64 = 1_800_000_000_000_000;
const KEPT_COPIES: usize = 8;
/// The time after which the system repeats a SYN without an answer (RFC 6298, section 2).
const CONNECT_AGAIN_US: u64 = 1_000_000;

/// A connection of a host: `2 * host` is its feed, the next one its votes.
#[derive(Default)]
struct Link {
    /// The number of openings and closings: the connection is open if it is odd.
    epoch: u64,
    /// The latest arrival, the instant at which its message was sent, and the latest reply. Messages keep their order,
    /// and those sent in one go arrive together.
    sent_us: u64,
    sent_at_us: u64,
    answered_us: u64,
    /// The reader of the log that waits, and the questions that came behind it.
    blocked: Option<(StoreQuestion, u64, u64)>,
    queue: VecDeque<(StoreQuestion, u64)>,
    /// Whether a message was lost on it: no later one on the same connection arrives either.
    is_dead: bool,
    /// The number of the store's process that it leads to.
    of_store: u64,
}

/// The network of a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Network {
    /// The delays of questions and of replies are below these.
    pub(crate) there_us: u64,
    pub(crate) back_us: u64,
    /// The number of connections in a hundred that fail, and of messages in a thousand that end their connection.
    pub(crate) refused: u64,
    pub(crate) cut: u64,
    /// Whether nothing passes.
    pub(crate) is_hole: bool,
}

impl Network {
    pub(crate) const USUAL: Self = Self { there_us: 2_000, back_us: 2_000, refused: 0, cut: 0, is_hole: false };
}

/// The change that the network holds up.
pub(crate) enum HeldUp {
    /// A change that names the present state of this server.
    Meant(ServerId),
    /// A vote for this server that is given back.
    Gift(ServerId),
}

impl HeldUp {
    fn is(&self, question: &StoreQuestion) -> bool {
        let StoreQuestion::Change(of, call, _) = question else { return false };
        match (self, call) {
            (
                Self::Meant(server),
                StoreCall::Cancel(..) | StoreCall::Remove(_) | StoreCall::List { before: Some(_), .. },
            ) => of == server,
            (Self::Gift(server), StoreCall::Give(facts)) => {
                of == server && facts.iter().any(|fact| matches!(fact, Fact::Vote(..)))
            }
            _ => false,
        }
    }
}

/// The network holds up the next such change of a host, and callers want other changes meanwhile.
pub(crate) struct Race {
    pub(crate) host: usize,
    pub(crate) what: HeldUp,
    pub(crate) held_us: u64,
    /// The events meanwhile, each with its time after the change was sent.
    pub(crate) meanwhile: Vec<(u64, Planned)>,
}

/// A machine on which a node runs.
pub(crate) struct Host {
    pub(crate) process: Option<Process>,
    /// The id of the store, which a restarted process finds.
    pub(crate) disk: Option<String>,
    pub(crate) network: Network,
    /// The end of its process' pause.
    pub(crate) paused_until_us: u64,
}

/// The world.
pub(crate) struct World<'f> {
    pub(crate) now_us: u64,
    pub(crate) random: Random,
    pub(crate) functions: &'f Functions,
    pub(crate) store: Store,
    /// The number of the store's process, and the former primary, as long as it answers on the connections that lead to it.
    of_store: u64,
    former: Option<Store>,
    /// The store's clock minus the world's.
    pub(crate) clock_us: i64,
    /// The step of the store's clock: by steps two histories get entries with one name.
    pub(crate) clock_step_us: u64,
    pub(crate) is_store_up: bool,
    pub(crate) copies: VecDeque<(u64, Store)>,
    pub(crate) hosts: Vec<Host>,
    pub(crate) promises: Promises,
    pub(crate) settings: Settings,
    pub(crate) race: Option<Race>,
    links: Vec<Link>,
    /// The instant at which each change was sent, by the bits that its node drew.
    sent_us: BTreeMap<i64, u64>,
    heap: BinaryHeap<Reverse<Scheduled>>,
    order: u64,
    processes: u64,
    pub(crate) calls: u64,
    /// The planted fault.
    plant: Option<Plant>,
    /// Whether the world prints its events.
    pub(crate) is_told: bool,
}

impl<'f> World<'f> {
    pub(crate) fn new(functions: &'f Functions, seed: u64, hosts: usize, minutes: u32, plant: Option<Plant>) -> Self {
        let random = Random::seeded(seed);
        let cooldown = Cooldown::from_minutes(minutes).expect("a cooldown");
        let settings = Settings { cooldown, ipv6_prefix: Ipv6Prefix::USUAL };
        let mut store = Store::new(BEGIN_US);
        let words = ["FCALL", "vs3_init", "1", "vs:{0}:meta", "the-store", &cooldown.seconds().to_string(), "64"];
        let made = functions.ask(&mut store, &words);
        assert!(matches!(&made, Reply::Array(items) if items[1] == Reply::bulk("made")), "{made:?}");
        let host = || Host { process: None, disk: None, network: Network::USUAL, paused_until_us: 0 };
        let is_told = std::env::var("TEST_TOLD").is_ok();
        Self {
            now_us: 0,
            random,
            functions,
            store,
            of_store: 1,
            former: None,
            clock_us: 0,
            clock_step_us: 1,
            is_store_up: true,
            copies: VecDeque::new(),
            hosts: (0..hosts).map(|_| host()).collect(),
            promises: Promises::new(cooldown),
            settings,
            race: None,
            links: (0..2 * hosts).map(|_| Link::default()).collect(),
            sent_us: BTreeMap::new(),
            heap: BinaryHeap::new(),
            order: 0,
            processes: 0,
            calls: 0,
            plant,
            is_told,
        }
    }

    pub(crate) fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_told {
            println!("{:>12.6} {}", self.now_us as f64 / 1e6, what());
        }
    }

    fn at(&mut self, at_us: u64, event: Event) {
        self.order += 1;
        self.heap.push(Reverse(Scheduled { at_us: at_us.max(self.now_us), order: self.order, event }));
    }

    /// Notes that the process of a host may not reach the store for `length_us`.
    pub(crate) fn trouble(&mut self, host: usize, length_us: u64) {
        if let Some(process) = &self.hosts[host].process {
            self.promises.is_troubled(process.number, self.now_us + length_us);
        }
    }

    pub(crate) fn plan(&mut self, after_us: u64, planned: Planned) {
        self.at(self.now_us + after_us, Event::Planned(planned));
    }

    /// The store's clock, in microseconds.
    pub(crate) fn store_us(&self) -> u64 {
        let now_us = self.store_raw_us();
        now_us - now_us % self.clock_step_us
    }

    /// The store's clock without its steps.
    pub(crate) fn store_raw_us(&self) -> u64 {
        (BEGIN_US + self.now_us).saturating_add_signed(self.clock_us)
    }

    pub(crate) fn store_s(&self) -> UnixSeconds {
        UnixSeconds(u32::try_from(self.store_us() / 1_000_000).expect("this century"))
    }

    /// Starts a process on a host.
    pub(crate) fn start(&mut self, host: usize) {
        self.processes += 1;
        let seed = [self.random.next(), self.random.next()];
        let bounds =
            Bounds { entries_max: 40, entries_min: 4, servers_max: 2, records_max: 5, facts_max: 16, ..Bounds::USUAL };
        let bounds = self.plant.map_or(bounds.clone(), |plant| plant.bounds(bounds));
        let disk = self.hosts[host].disk.clone();
        let process = Process::start(self.processes, bounds, self.settings, disk, seed);
        self.tell(|| format!("host {host} starts process {}", process.number));
        self.promises.process_begins(process.number, self.now_us);
        self.hosts[host].process = Some(process);
        self.hosts[host].paused_until_us = 0;
        self.give(host, Input::Tick);
    }

    /// Ends the process of a host.
    pub(crate) fn stop(&mut self, host: usize) {
        self.tell(|| format!("host {host} stops"));
        self.close(2 * host);
        self.close(2 * host + 1);
        if let Some(process) = self.hosts[host].process.take() {
            self.promises.process_ends(process.number);
        }
    }

    pub(crate) fn want(&mut self, host: usize, caller: u64, change: WantedChange) {
        self.give(host, Input::Change(caller, change));
    }

    fn give(&mut self, host: usize, input: Input) {
        if let Some(number) = self.hosts[host].process.as_ref().map(|process| process.number) {
            self.at(self.now_us, Event::Give(host, number, input));
        }
    }

    /// Closes a connection. Messages on their way may arrive all the same.
    fn close(&mut self, link: usize) {
        let link = &mut self.links[link];
        if link.epoch % 2 == 1 {
            link.epoch += 1;
        }
        link.blocked = None;
        link.queue.clear();
    }

    /// Cuts a connection. Its process learns it sooner or later.
    pub(crate) fn cut(&mut self, link: usize) {
        if self.links[link].epoch % 2 == 1 {
            self.close(link);
            let (host, line) = (link / 2, line_of(link));
            let Some(number) = self.hosts[host].process.as_ref().map(|process| process.number) else { return };
            let after_us = self.random.below(5_000);
            self.at(self.now_us + after_us, Event::Give(host, number, Input::Lost(line)));
        }
    }

    /// Cuts both connections of a host. It comes back in a moment.
    pub(crate) fn cut_off(&mut self, host: usize) {
        self.trouble(host, 1_000_000);
        self.cut(2 * host);
        self.cut(2 * host + 1);
    }

    /// The store's name leads to a promoted replica from now on. The former primary still answers.
    pub(crate) fn promote(&mut self) {
        self.tell(|| "FAULT a replica is promoted, and the former primary goes on".to_owned());
        self.former = Some(self.store.clone());
        self.of_store += 1;
    }

    /// Ends the former primary, and with it the connections that lead to it.
    pub(crate) fn end_former(&mut self) {
        self.former = None;
        let led_there = |link: &usize| self.links[*link].of_store != self.of_store;
        (0..self.links.len()).filter(led_there).collect::<Vec<_>>().into_iter().for_each(|link| self.cut(link));
    }

    /// Does something at the store's process that a connection leads to.
    fn at_store_of<T>(&mut self, link: usize, act: impl FnOnce(&mut Self) -> T) -> T {
        let Some(former) = self.former.take_if(|_| self.links[link].of_store != self.of_store) else {
            return act(self);
        };
        let present = std::mem::replace(&mut self.store, former);
        let done = act(self);
        self.former = Some(std::mem::replace(&mut self.store, present));
        done
    }

    /// Cuts all connections to the store.
    pub(crate) fn cut_all(&mut self) {
        (0..self.links.len()).for_each(|link| self.cut(link));
    }

    /// Carries out the next event; `None` if there is none up to this instant.
    pub(crate) fn step(&mut self, until_us: u64) -> Option<Option<Planned>> {
        let Reverse(next) = self.heap.peek()?;
        if next.at_us > until_us {
            self.now_us = until_us;
            return None;
        }
        let Reverse(Scheduled { at_us, event, .. }) = self.heap.pop()?;
        self.now_us = at_us;
        match event {
            Event::Planned(planned) => return Some(Some(planned)),
            Event::Give(host, number, input) => self.put(host, number, input),
            Event::Arrive(link, epoch, question, number) => self.arrive(link, epoch, question, number),
            Event::Reply(link, epoch, answer, number) => {
                let paused_until_us = self.hosts[link / 2].paused_until_us;
                if self.now_us < paused_until_us {
                    self.at(paused_until_us, Event::Reply(link, epoch, answer, number));
                } else if self.links[link].epoch == epoch {
                    self.tell(|| format!("host {} hears: {answer:?}", link / 2));
                    self.put(link / 2, number, Input::Answered(line_of(link), answer));
                }
            }
            Event::Open(link, epoch, number) => self.open(link, epoch, number),
            Event::Unblock(link, epoch) => self.unblock(link, epoch),
        }
        Some(None)
    }

    fn put(&mut self, host: usize, number: u64, input: Input) {
        let (now_us, until_us) = (self.now_us, self.hosts[host].paused_until_us);
        let Some(process) = self.hosts[host].process.as_mut().filter(|process| process.number == number) else {
            return;
        };
        if now_us < until_us {
            return self.at(until_us, Event::Give(host, number, input));
        }
        if matches!(input, Input::Tick) {
            if process.tick_at_us > now_us {
                // Another tick was due before this one, and has come.
                return;
            }
            process.tick_at_us = u64::MAX;
        }
        let outputs = process.put(input, now_us / 1_000);
        let due_us = process.node.due_ms().saturating_mul(1_000).max(now_us + 500);
        if due_us < process.tick_at_us {
            process.tick_at_us = due_us;
            self.at(due_us, Event::Give(host, number, Input::Tick));
        }
        for output in outputs {
            self.carry_out(host, number, output);
        }
    }

    fn carry_out(&mut self, host: usize, number: u64, output: Output) {
        let link_of = |line| 2 * host + usize::from(line == NodeLine::Votes);
        match output {
            Output::Connect(line) => {
                let link = link_of(line);
                self.close(link);
                self.links[link].queue.clear();
                let after_us = 200 + self.random.below(3_000);
                let epoch = self.links[link].epoch;
                self.at(self.now_us + after_us, Event::Open(link, epoch, number));
            }
            Output::Close(line) => {
                self.tell(|| format!("host {host} closes {line:?}"));
                self.close(link_of(line));
            }
            Output::Ask(line, question) => self.send(link_of(line), question, number),
            Output::Answer(caller, outcome) => {
                self.tell(|| format!("host {host} answers {caller}: {outcome:?}"));
                let (now_us, store_s) = (self.now_us, self.store_s());
                let process = self.hosts[host].process.as_ref().expect("it has just answered");
                self.promises.answered(caller, outcome, process, now_us, store_s);
            }
            Output::Keep(store) => self.hosts[host].disk = Some(store),
            Output::Note(note) => self.note(host, &note),
            Output::Show(_) | Output::Replace(_) => {}
        }
    }

    fn note(&mut self, host: usize, note: &Note) {
        self.tell(|| format!("host {host}: {note:?}"));
        *self.promises.notes.entry(kind(note)).or_default() += 1;
    }

    fn open(&mut self, link: usize, epoch: u64, number: u64) {
        let network = self.hosts[link / 2].network;
        if self.links[link].epoch != epoch {
            return;
        }
        if network.is_hole {
            // The system asks again for a connection.
            return self.at(self.now_us + CONNECT_AGAIN_US, Event::Open(link, epoch, number));
        }
        let is_refused = !self.is_store_up || self.random.is(network.refused);
        let state = &mut self.links[link];
        let input = if is_refused {
            Input::Lost(line_of(link))
        } else {
            (state.epoch, state.sent_us, state.answered_us, state.is_dead) = (epoch + 1, 0, 0, false);
            (state.sent_at_us, state.of_store) = (0, self.of_store);
            let of_store = if self.plant == Some(Plant::OneProcess) { 0 } else { self.of_store };
            Input::Connected(line_of(link), of_store.to_string())
        };
        self.put(link / 2, number, input);
    }

    fn send(&mut self, link: usize, question: StoreQuestion, number: u64) {
        let network = self.hosts[link / 2].network;
        let epoch = self.links[link].epoch;
        self.links[link].is_dead |= network.is_hole;
        if epoch.is_multiple_of(2) || self.links[link].is_dead {
            return;
        }
        if let StoreQuestion::Change(_, _, terms) = &question {
            self.sent_us.insert(terms.bits, self.now_us);
        }
        let mut after_us = 50 + self.random.below(network.there_us);
        if let Some(race) = self.race.take_if(|race| race.host == link / 2 && race.what.is(&question)) {
            self.tell(|| format!("host {} is overtaken within {} us", race.host, race.held_us));
            after_us += race.held_us;
            race.meanwhile.into_iter().for_each(|(after_us, planned)| self.plan(after_us, planned));
        }
        let state = &mut self.links[link];
        if std::mem::replace(&mut state.sent_at_us, self.now_us) != self.now_us {
            state.sent_us = state.sent_us.max(self.now_us + after_us);
        }
        let at_us = state.sent_us;
        self.at(at_us, Event::Arrive(link, epoch, question, number));
        if self.random.below(1_000) < network.cut {
            self.cut(link);
        }
    }

    fn arrive(&mut self, link: usize, epoch: u64, question: StoreQuestion, number: u64) {
        if !self.is_store_up {
            return;
        }
        let is_open = self.links[link].epoch == epoch;
        if !is_open && (self.random.is(20) || !matches!(question, StoreQuestion::Change(..) | StoreQuestion::Node(..)))
        {
            return;
        }
        if !is_open && self.random.is(50) {
            // The network has held it up, beyond its term or not.
            let held_us = if self.random.is(50) { 3_000_000 } else { 30_000_000 };
            let after_us = self.random.below(held_us);
            return self.at(self.now_us + after_us, Event::Arrive(link, epoch, question, number));
        }
        if is_open && self.links[link].blocked.is_some() {
            self.links[link].queue.push_back((question, number));
            return;
        }
        self.ask(link, epoch, question, number);
    }

    fn ask(&mut self, link: usize, epoch: u64, question: StoreQuestion, number: u64) {
        let is_change = matches!(question, StoreQuestion::Change(..));
        self.at_store_of(link, |world| world.ask_there(link, epoch, question, number));
        if is_change {
            self.wake_readers();
        }
    }

    fn ask_there(&mut self, link: usize, epoch: u64, question: StoreQuestion, number: u64) {
        let question = match self.plant {
            Some(plant) => plant.asked(self, question),
            None => question,
        };
        let mut words = question.words();
        if self.plant == Some(Plant::NoLast) && matches!(question, StoreQuestion::Change(..)) {
            // The word behind the store and the term is the caller's last entry.
            words[11] = String::new();
        }
        if let Some(answer) = self.plant.and_then(|plant| plant.unasked(&question, self.store_us() / 1_000)) {
            return self.send_back(link, epoch, answer, number);
        }
        let is_held = match &question {
            StoreQuestion::Change(_, _, terms) => self.holds(&terms.last),
            _ => true,
        };
        let reply = self.call(&words);
        if let StoreQuestion::Change(server, call, terms) = &question
            && let Reply::Array(items) = &reply
            && ["recorded", "cancelled", "listed", "removed"].iter().any(|word| items[1] == Reply::bulk(word))
            && items[2] != Reply::bulk("")
        {
            let sent_us = self.sent_us.get(&terms.bits).copied().unwrap_or(self.now_us);
            self.promises.made(*server, call, is_held, [sent_us, self.now_us]);
        }
        if let (StoreQuestion::Log(_, _, Some(wait_ms)), Reply::Nil) = (&question, &reply) {
            let until_us = self.now_us + wait_ms * 1_000;
            self.links[link].blocked = Some((question, number, epoch));
            self.at(until_us, Event::Unblock(link, epoch));
            return;
        }
        self.answer(link, epoch, &question, &reply, number);
    }

    /// The store's present answer.
    pub(crate) fn read(&mut self, question: &StoreQuestion) -> vote_status::cluster::wire::answer::StoreReply {
        let reply = self.call(&question.words());
        StoreAnswer::read(question, &value(&reply)).reply
    }

    /// Asks the store at its present instant.
    pub(crate) fn call(&mut self, words: &[String]) -> Reply {
        self.calls += 1;
        self.store.now_us = self.store_us();
        self.functions.ask(&mut self.store, words)
    }

    /// Whether the store's log, or its own note of the last entries, has this one.
    fn holds(&mut self, last: &Last) -> bool {
        let (name, said) = (last.id.to_string(), last.to_string());
        let noted = self.store.ask(&["HMGET", "vs:{0}:meta", "last", &format!("e{}", last.n % 256)]);
        let entries = self.store.ask(&["XREVRANGE", "vs:{0}:log", &name, &name, "COUNT", "1"]);
        let is_of_it = |entry: &Reply| match entry {
            Reply::Array(parts) => {
                matches!(&parts[1], Reply::Array(fields) if fields[3] == Reply::bulk(last.bits.to_string()))
            }
            _ => false,
        };
        let is_noted = matches!(&noted, Reply::Array(fields) if fields.contains(&Reply::bulk(&said)));
        last.n == 0 || is_noted || matches!(&entries, Reply::Array(all) if all.iter().any(is_of_it))
    }

    fn answer(&mut self, link: usize, epoch: u64, question: &StoreQuestion, reply: &Reply, number: u64) {
        if let StoreQuestion::Change(server, call, terms) = question {
            self.tell(|| {
                format!(
                    "store: host {} {server} {call:?} last {} bits {} -> {reply:?}",
                    link / 2,
                    terms.last,
                    terms.bits
                )
            });
        }
        let mut answer = StoreAnswer::read(question, &value(reply));
        if let Some(plant) = self.plant {
            answer = plant.answered(answer);
        }
        self.send_back(link, epoch, answer, number);
    }

    fn send_back(&mut self, link: usize, epoch: u64, answer: StoreAnswer, number: u64) {
        let network = self.hosts[link / 2].network;
        if self.links[link].epoch != epoch {
            return;
        }
        self.links[link].is_dead |= network.is_hole;
        if self.links[link].is_dead {
            return;
        }
        let after_us = 50 + self.random.below(network.back_us);
        let state = &mut self.links[link];
        state.answered_us = state.answered_us.max(self.now_us + after_us);
        let at_us = state.answered_us;
        self.at(at_us, Event::Reply(link, epoch, answer, number));
        if self.random.below(1_000) < network.cut {
            self.cut(link);
        }
    }

    /// Answers the waiting readers for which there is something to read.
    pub(crate) fn wake_readers(&mut self) {
        for link in 0..self.links.len() {
            let Some((question, number, epoch)) = self.links[link].blocked.clone() else { continue };
            let reply = self.at_store_of(link, |world| world.call(&question.words()));
            if reply != Reply::Nil {
                self.links[link].blocked = None;
                self.answer(link, epoch, &question, &reply, number);
                self.go_on(link, epoch);
            }
        }
    }

    fn unblock(&mut self, link: usize, epoch: u64) {
        if self.links[link].epoch != epoch {
            return;
        }
        if let Some((question, number, _)) = self.links[link].blocked.take() {
            self.answer(link, epoch, &question, &Reply::Nil, number);
            self.go_on(link, epoch);
        }
    }

    /// Asks the questions that came behind a reader that waited.
    fn go_on(&mut self, link: usize, epoch: u64) {
        while self.links[link].blocked.is_none() {
            let Some((question, number)) = self.links[link].queue.pop_front() else { return };
            self.ask(link, epoch, question, number);
        }
    }

    pub(crate) fn copy(&mut self) {
        if self.copies.len() == KEPT_COPIES {
            let _oldest = self.copies.pop_front();
        }
        let clock_us = self.store_us();
        self.copies.push_back((clock_us, self.store.clone()));
    }

    pub(crate) fn pairs_of_notes(&self) -> &BTreeMap<&'static str, u64> {
        &self.promises.notes
    }
}

const fn line_of(link: usize) -> NodeLine {
    if link.is_multiple_of(2) { NodeLine::Feed } else { NodeLine::Votes }
}

const fn kind(note: &Note) -> &'static str {
    match note {
        Note::Read(_, 0) => "read",
        Note::Given(..) => "given",
        Note::Read(..) => "read and owed",
        Note::Unreadable(_) => "unreadable",
        Note::Strange(_) => "strange",
        Note::GivenBack => "given back",
        Note::Refused(_) => "refused",
        Note::SetAside(..) => "set aside",
        Note::Late(_) => "late",
        Note::StoodStill(_) => "stood still",
        Note::Waits => "waits",
        Note::WaitIsOver => "wait is over",
        Note::Unfit(_) => "unfit",
    }
}
