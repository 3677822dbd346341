//! What the contract promises, as small and as literal as it can be said: which votes are acknowledged, cancelled or in
//! doubt, which servers are listed, and what the service may answer. Written from the contract's words, and knows
//! nothing of the code that it judges.

mod instants;
pub(crate) mod time;
pub(crate) mod world;

use instants::Instants;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use time::{Reading, Span, Time, Turn};
use world::{Seen, Voter, World};

/// A new vote's instant is never more than this ahead of the clock, in seconds.
const AHEAD_MAX_S: i64 = 5;
/// More changes of a server in doubt than this would be too many worlds.
const WORLDS_MAX: usize = 256;

/// What a store is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) cooldown_s: i64,
    pub(crate) prefix: u8,
}

/// A vote as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) server: u32,
    /// One to eight.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) voted_at: Option<i64>,
    /// `mode=record`: the later of two votes stays.
    pub(crate) is_record: bool,
}

/// What is answered to a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Recorded {
        voted_at: i64,
        next_vote_at: i64,
    },
    Unchanged,
    InCooldown {
        next_vote_at: i64,
    },
    UnknownServer,
    Invalid,
    TooManyChanges,
    Cancelled,
    NoCooldown,
    Listed {
        token: String,
    },
    Removed,
    /// 503: it has not happened.
    Refused,
    /// 503, or none: it may have happened or not.
    InDoubt,
}

/// How a start may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Started {
    Ready,
    ClockBehind,
    WrongOption,
}

type Worlds = BTreeMap<u32, Vec<World>>;

/// The promises.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) settings: Settings,
    pub(crate) time: Time,
    /// What may be seen now.
    shown: Worlds,
    /// What may be seen after a start.
    stored: Worlds,
    instants: Instants,
    /// For how long the requests at hand, or the start, have been under way.
    pub(crate) took_ms: i64,
}

impl Model {
    /// An empty store.
    pub(crate) fn new(settings: Settings, reading: Reading) -> Model {
        Model {
            settings,
            time: Time::new(reading),
            shown: Worlds::new(),
            stored: Worlds::new(),
            instants: Instants::default(),
            took_ms: 0,
        }
    }

    /// The service's time in seconds, while a request was answered.
    pub(crate) fn now(&self) -> Span {
        let now_ms = self.time.shown_ms();
        Span { hi: now_ms.hi + self.took_ms, ..now_ms }.seconds()
    }

    pub(crate) fn voter(&self, address: IpAddr) -> Voter {
        Voter::of(address, self.settings.prefix)
    }

    /// The clocks read this, and the service runs.
    pub(crate) fn look(&mut self, reading: Reading) {
        let turns = self.time.look(reading);
        if turns.iter().any(|turn| matches!(turn, Turn::Back { .. })) {
            self.instants.doubt(self.settings.prefix);
        }
        self.turn(&turns);
    }

    fn turn(&mut self, turns: &[Turn]) {
        let cooldown_s = self.settings.cooldown_s;
        let (certain, kept) = (self.time.certain(), self.time.kept());
        self.shown.values_mut().flatten().for_each(|world| world.turn(turns, certain, cooldown_s));
        let turns: Vec<Turn> = turns.iter().map(|turn| self.time.in_store(*turn)).collect();
        self.stored.values_mut().flatten().for_each(|world| world.turn(&turns, kept, cooldown_s));
    }

    /// The process died in the midst of what came after `before`: the store may be as it was then.
    pub(crate) fn died(&mut self, before: &Model) {
        self.time.died(&before.time);
        for (server, worlds) in &before.stored {
            let stored = self.stored.entry(*server).or_default();
            let lost: Vec<World> = worlds.iter().filter(|world| !stored.contains(world)).cloned().collect();
            stored.extend(lost);
        }
    }

    /// A commit was acknowledged: what is shown is what is stored.
    fn committed(&mut self) {
        self.time.committed();
        self.stored.clone_from(&self.shown);
    }

    /// A full disk, or a file written anew: what has ended may be gone from the file.
    pub(crate) fn ended_rows_may_be_gone(&mut self) {
        self.time.held_rows_may_be_gone();
        let now = self.now();
        let worlds = self.shown.values_mut().chain(self.stored.values_mut()).flatten();
        worlds.for_each(|world| world.ended_rows_may_be_gone(now));
    }

    /// Whether a server has room for another change in doubt.
    pub(crate) fn may_be_asked(&self, server: u32) -> bool {
        let worlds = |worlds: &Worlds| worlds.get(&server).map_or(0, Vec::len);
        2 * worlds(&self.shown).max(worlds(&self.stored)) <= WORLDS_MAX
    }

    /// A status request, by the server's id or by a token, was answered so.
    pub(crate) fn see(&mut self, server: u32, by: Option<&str>, voter: Voter, seen: Seen) -> Result<(), String> {
        let now = self.now();
        self.keep(server, |world| world.see(by, voter, now, seen)).map_err(|worlds| {
            let allowed: Vec<String> = worlds.iter().map(|world| world.allowed(voter, now)).collect();
            format!("server {server}, by {by:?}, {voter:?}: {seen:?}, but allowed is {}", allowed.join(", or "))
        })?;
        match seen {
            Seen::InCooldown { next_vote_at } if next_vote_at > now.hi + self.settings.cooldown_s + AHEAD_MAX_S + 1 => {
                Err(format!("server {server}, {voter:?}: {seen:?} is later than a cooldown from now, {now:?}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether it may be answered so.
    pub(crate) fn may_see(&self, server: u32, by: Option<&str>, voter: Voter, seen: Seen) -> bool {
        let (now, none) = (self.now(), [World::default()]);
        let worlds = self.shown.get(&server).map_or(&none[..], Vec::as_slice);
        worlds.iter().any(|world| world.may_see(by, voter, now, seen))
    }

    /// It was answered so while a change was under way: what was told is recorded, whatever follows.
    pub(crate) fn see_for_good(&mut self, server: u32, by: Option<&str>, voter: Voter, seen: Seen) {
        let now = self.now();
        for worlds in [self.shown.get_mut(&server), self.stored.get_mut(&server)].into_iter().flatten() {
            if worlds.iter().any(|world| world.may_see(by, voter, now, seen)) {
                worlds.retain_mut(|world| world.see(by, voter, now, seen));
            }
        }
    }

    /// Keeps the worlds that pass. None passes: gives them all.
    fn keep(&mut self, server: u32, mut passes: impl FnMut(&mut World) -> bool) -> Result<(), Vec<World>> {
        let worlds = self.shown.entry(server).or_insert_with(|| vec![World::default()]);
        let failing: Vec<World> = worlds.extract_if(.., |world| !passes(world)).collect();
        for index in (1..worlds.len()).rev() {
            if worlds[..index].contains(&worlds[index]) {
                worlds.remove(index);
            }
        }
        if worlds.is_empty() { Err(failing) } else { Ok(()) }
    }

    /// The worlds after a change: changed if it was acknowledged, either if it is in doubt.
    fn change(&mut self, server: u32, is_acknowledged: bool, change: impl Fn(&mut World)) {
        let double = |worlds: &mut Vec<World>, keeps: bool| {
            let mut changed = worlds.clone();
            changed.iter_mut().for_each(&change);
            if !keeps {
                worlds.clear();
            }
            for world in changed {
                if !worlds.contains(&world) {
                    worlds.push(world);
                }
            }
        };
        double(self.shown.entry(server).or_insert_with(|| vec![World::default()]), !is_acknowledged);
        if is_acknowledged {
            self.committed();
        } else {
            double(self.stored.entry(server).or_insert_with(|| vec![World::default()]), true);
        }
    }

    /// A vote was asked for and answered so.
    pub(crate) fn vote(&mut self, asked: &Asked, answer: &Answer) -> Result<(), String> {
        let now = self.now();
        let voters: BTreeSet<Voter> = asked.addresses.iter().map(|address| self.voter(*address)).collect();
        self.may_answer(asked, &voters, answer)
            .map_err(|why| format!("a vote {why}, {answer:?} to {asked:?}, now {now:?}"))?;
        let cooldown_s = self.settings.cooldown_s;
        let instants = match (answer, asked.voted_at) {
            (Answer::Recorded { voted_at, .. }, _) => Span::exactly(*voted_at),
            (Answer::InDoubt, Some(voted_at)) if asked.is_record => Span::exactly(voted_at),
            // In doubt, it has any of those that are allowed.
            (Answer::InDoubt, _) => {
                let from = asked.voted_at.map_or(now, Span::exactly);
                let free = self.instants.free(asked.server, &voters, from.hi..=now.hi + AHEAD_MAX_S);
                Span { hi: free.unwrap_or(from.hi.max(now.hi + AHEAD_MAX_S)), ..from }
            }
            _ => return Ok(()),
        };
        let is_acknowledged = answer != &Answer::InDoubt;
        let ends = instants.plus(cooldown_s);
        if ends.hi <= now.lo || asked.voted_at.is_some_and(|at| at > now.hi + AHEAD_MAX_S) {
            return Ok(());
        }
        let worlds = self.shown.get(&asked.server).map_or(&[][..], Vec::as_slice);
        for voter in &voters {
            // Of two votes that are recorded the later stays, and the earlier was none then.
            let is_later = |world: &World| world.cooldown(*voter, now).1.iter().any(|other| other.hi > ends.lo);
            let is_certain = is_acknowledged && !(asked.is_record && worlds.iter().any(is_later));
            (instants.lo..=instants.hi).for_each(|at| self.instants.note(asked.server, *voter, at, is_certain));
        }
        self.change(asked.server, is_acknowledged, |world| {
            let is_taken = !asked.is_record && voters.iter().any(|voter| world.cooldown(*voter, now).0);
            if world.token.is_some() && !is_taken {
                voters.iter().for_each(|voter| world.record(*voter, ends, now));
            }
        });
        Ok(())
    }

    /// Whether a vote may be answered so; the worlds in which it may not go.
    fn may_answer(&mut self, asked: &Asked, voters: &BTreeSet<Voter>, answer: &Answer) -> Result<(), String> {
        let now = self.now();
        let cooldown_s = self.settings.cooldown_s;
        let may_be_invalid = asked.voted_at.is_some_and(|at| at > now.lo + AHEAD_MAX_S || at + cooldown_s <= now.hi);
        let is_invalid = asked.voted_at.is_some_and(|at| at > now.hi + AHEAD_MAX_S || at + cooldown_s <= now.lo);
        match *answer {
            Answer::Recorded { voted_at, next_vote_at } => {
                self.may_have_instant(asked, voters, voted_at)?;
                if next_vote_at != voted_at + cooldown_s {
                    return Err("next_vote_at is not the vote's instant and its cooldown".into());
                }
                if is_invalid {
                    return Err("is invalid".into());
                }
            }
            Answer::Invalid if !may_be_invalid => return Err("is valid".into()),
            Answer::TooManyChanges => self.may_be_too_many(asked, voters)?,
            Answer::Invalid
            | Answer::Unchanged
            | Answer::InCooldown { .. }
            | Answer::UnknownServer
            | Answer::Refused
            | Answer::InDoubt => {}
            _ => return Err("is no answer to a vote".into()),
        }
        let fits = |world: &mut World| {
            let cooldowns: Vec<_> = voters.iter().map(|voter| world.cooldown(*voter, now)).collect();
            let is_listed = world.token.is_some();
            match *answer {
                Answer::Refused | Answer::InDoubt => true,
                Answer::UnknownServer => !is_listed,
                Answer::Invalid => true,
                Answer::TooManyChanges => is_listed,
                Answer::Recorded { next_vote_at, .. } if asked.is_record => {
                    let is_later = |ends: &Span| ends.lo >= next_vote_at;
                    is_listed && cooldowns.iter().any(|(is_certain, ends)| !is_certain || !ends.iter().any(is_later))
                }
                Answer::Recorded { .. } => is_listed && cooldowns.iter().all(|(is_certain, _)| !is_certain),
                Answer::Unchanged => {
                    let at = asked.voted_at.unwrap_or(i64::MAX);
                    let later = |ends: &Span| ends.hi >= at + cooldown_s;
                    is_listed && asked.is_record && cooldowns.iter().all(|(_, ends)| ends.iter().any(later))
                }
                Answer::InCooldown { next_vote_at } => {
                    let mut ends = cooldowns.iter().flat_map(|(_, ends)| ends);
                    is_listed && !asked.is_record && ends.any(|ends| ends.contains(next_vote_at))
                }
                _ => false,
            }
        };
        self.keep(asked.server, fits).map_err(|worlds| {
            let allowed = |world: &World| voters.iter().map(|voter| world.allowed(*voter, now)).collect::<Vec<_>>();
            format!("but allowed is {:?}", worlds.iter().map(allowed).collect::<Vec<_>>())
        })
    }

    /// A new vote's instant: the first second from now that no vote of the pair has had, at most 5 s ahead.
    fn may_have_instant(&self, asked: &Asked, voters: &BTreeSet<Voter>, voted_at: i64) -> Result<(), String> {
        let now = self.now();
        if asked.is_record {
            return if asked.voted_at == Some(voted_at) {
                Ok(())
            } else {
                Err("has another instant than it was given".into())
            };
        }
        let from = asked.voted_at.map_or(now, Span::exactly);
        if voted_at < from.lo || voted_at > (now.hi + AHEAD_MAX_S).max(from.lo) {
            return Err("has an instant that is not within 5 s of the clock".into());
        }
        if self.instants.is_used(asked.server, voters, voted_at) {
            return Err("has the instant of a vote that was cancelled".into());
        }
        // One that brings its instant may be moved behind the last that was cancelled.
        let first = if asked.voted_at.is_some() { from.hi.max(voted_at - 1) } else { from.hi };
        match self.instants.free(asked.server, voters, first..=voted_at - 1) {
            Some(free) => Err(format!("but {free} is free")),
            None => Ok(()),
        }
    }

    fn may_be_too_many(&self, asked: &Asked, voters: &BTreeSet<Voter>) -> Result<(), String> {
        let now = self.now();
        let from = asked.voted_at.unwrap_or(now.hi);
        match self.instants.free(asked.server, voters, from..=now.lo + AHEAD_MAX_S) {
            Some(free) => Err(format!("but {free} is free")),
            None => Ok(()),
        }
    }

    /// The latest instant that a vote certainly had.
    pub(crate) fn latest(&self, server: u32, address: IpAddr) -> Option<i64> {
        self.instants.latest(server, self.voter(address))
    }

    /// A vote was to be cancelled.
    pub(crate) fn cancel(&mut self, server: u32, address: IpAddr, answer: &Answer) -> Result<(), String> {
        let (now, voter) = (self.now(), self.voter(address));
        let fits = |world: &mut World| {
            let (is_certain, ends) = world.cooldown(voter, now);
            match answer {
                Answer::Cancelled => world.token.is_some() && !ends.is_empty(),
                Answer::NoCooldown => !is_certain,
                Answer::UnknownServer => world.token.is_none(),
                Answer::Refused | Answer::InDoubt => true,
                _ => false,
            }
        };
        self.keep(server, fits).map_err(|worlds| {
            let allowed: Vec<_> = worlds.iter().map(|world| world.allowed(voter, now)).collect();
            format!("cancel of {voter:?} of {server}: {answer:?}, but allowed is {allowed:?}, now {now:?}")
        })?;
        if matches!(answer, Answer::Cancelled | Answer::InDoubt) {
            // A vote that was cut is known by the instant that was shown of it.
            let worlds = self.shown.get(&server).map_or(&[][..], Vec::as_slice);
            let ends: Vec<Span> = worlds.iter().flat_map(|world| world.cooldown(voter, now).1).collect();
            let is_shown = |at: &i64| ends.iter().any(|ends| ends.contains(at + self.settings.cooldown_s));
            let shown: Vec<i64> = (now.lo..=now.hi + AHEAD_MAX_S).filter(is_shown).collect();
            shown.iter().for_each(|at| self.instants.note(server, voter, *at, false));
            self.change(server, *answer == Answer::Cancelled, |world| world.cancel(voter, now));
        }
        Ok(())
    }

    /// A server was to be listed with a token that no other has.
    pub(crate) fn list(&mut self, server: u32, token: &str, answer: &Answer) -> Result<(), String> {
        let is_acknowledged = match answer {
            Answer::Listed { token: listed } if listed == token => true,
            Answer::InDoubt => false,
            Answer::Refused => return Ok(()),
            _ => return Err(format!("listing {server} with {token}: {answer:?}")),
        };
        self.change(server, is_acknowledged, |world| world.token = Some(token.to_owned()));
        Ok(())
    }

    /// A server was to be struck off the list.
    pub(crate) fn remove(&mut self, server: u32, answer: &Answer) -> Result<(), String> {
        let fits = |world: &mut World| match answer {
            Answer::Removed => world.token.is_some(),
            Answer::UnknownServer => world.token.is_none(),
            Answer::Refused | Answer::InDoubt => true,
            _ => false,
        };
        self.keep(server, fits).map_err(|worlds| format!("removal of {server}: {answer:?} with {worlds:?}"))?;
        if matches!(answer, Answer::Removed | Answer::InDoubt) {
            self.change(server, *answer == Answer::Removed, World::remove);
            // Of the instants of votes that were not cancelled the contract says nothing.
            self.instants.doubt_server(server);
        }
        Ok(())
    }

    /// A start with these options and this wall clock: whether it may end so.
    pub(crate) fn may_start(
        &self,
        options: Settings,
        wall_ms: i64,
        accepts: Accepts,
        seen: Started,
    ) -> Result<(), String> {
        let wall_ms = Span { lo: wall_ms, hi: wall_ms + self.took_ms };
        let wall = Span { lo: wall_ms.lo.div_euclid(1_000) - 1, hi: wall_ms.hi.div_euclid(1_000) + 1 };
        let lives = |worlds: &[World]| {
            let is_certain = worlds.iter().all(|world| world.live(wall).0);
            (is_certain, worlds.iter().any(|world| world.live(wall).1))
        };
        let of_all = self.stored.values().map(|worlds| lives(worlds));
        let (is_any, is_perhaps) = of_all.fold((false, false), |all, one| (all.0 || one.0, all.1 || one.1));
        let differs = options != self.settings && !accepts.settings;
        let (may_be_ready, must_be_ready) = self.time.may_and_must_start(wall_ms);
        let (may_be_ready, must_be_ready) = (may_be_ready || accepts.clock, must_be_ready || accepts.clock);
        let allowed = match seen {
            Started::Ready => may_be_ready && !(differs && is_any),
            Started::ClockBehind => !must_be_ready,
            Started::WrongOption => differs && is_perhaps,
        };
        let kept = self.time.kept();
        let why = || {
            format!("a start at {wall:?} with {options:?}, {accepts:?} on {:?}, kept {kept:?}: {seen:?}", self.settings)
        };
        if allowed { Ok(()) } else { Err(why()) }
    }

    /// The service has become ready.
    pub(crate) fn start(&mut self, options: Settings, reading: Reading) {
        self.shown.clone_from(&self.stored);
        let turns = self.time.start(reading, self.took_ms);
        let now = self.now();
        let was = self.settings;
        let (longer_s, is_other) = (options.cooldown_s - was.cooldown_s, options != was);
        self.settings = options;
        let is_back = self.time.is_back();
        self.stored.values_mut().flatten().for_each(World::rows_may_be_cut);
        self.shown.values_mut().flatten().for_each(|world| world.start(now, was.cooldown_s, is_back));
        for world in self.shown.values_mut().chain(self.stored.values_mut()).flatten() {
            world.turn(&turns, self.time.kept(), was.cooldown_s);
        }
        if is_back || is_other {
            self.instants.doubt(options.prefix);
        }
        if is_other {
            self.shown.values_mut().flatten().for_each(|world| world.settle(now, longer_s, options.prefix));
            // Other settings are kept before anything is answered.
            self.stored.clone_from(&self.shown);
        }
    }
}

/// What a start is told to accept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepts {
    pub(crate) clock: bool,
    pub(crate) settings: bool,
}
