//! One state that the service may have: its servers with their tokens and votes, and the instants that no later vote may
//! have. From it follow exactly the answer to each request, and the next state.

use super::voter::Voter;
use super::{AHEAD_MAX_S, Answer, Asked, Listed, Named, Request, Settings};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

mod instants;

/// A recorded vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    pub(crate) at_s: i64,
    /// The vote may be gone.
    is_doubted: bool,
}

/// A server's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Known(Arc<str>),
    /// The service generated the token, and no caller was told.
    Generated,
}

/// A server that is listed, or was.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Server {
    /// None where the server is not listed.
    pub(crate) token: Option<Token>,
    pub(crate) votes: BTreeMap<Voter, Vote>,
    /// Votes of the server when it was removed: they expire unseen.
    left: BTreeMap<Voter, i64>,
    /// The same, of an earlier listing. The service gives back their memory some time after they end.
    earlier: BTreeMap<Voter, i64>,
}

/// The instant of a vote that was cancelled, replaced, or removed with its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Spent {
    /// No later vote of the pair gets it.
    Never,
    /// A later vote may have it, or not.
    Perhaps,
}

/// The status of a pair of server and voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    CanVote,
    InCooldown { next_vote_at: i64 },
    UnknownServer,
}

/// The state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(crate) servers: BTreeMap<u32, Server>,
    spent: BTreeMap<(u32, Voter), BTreeMap<i64, Spent>>,
}

/// The moment at which a request is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) now_s: i64,
    /// The certain line lies between these, in milliseconds.
    pub(crate) certain_ms: (i64, i64),
    /// Votes that have ended by this are forgotten, sooner or later.
    pub(crate) ended_by_ms: i64,
    /// Any instant up to this may be spent, as far as the service knows behind a start.
    pub(crate) spent_up_to_s: Option<i64>,
    /// The service answers 429 to votes up to that instant: whether it may, and whether it has to.
    pub(crate) is_after_start: (bool, bool),
}

/// One possible answer to a request, or to a part of it, and the state behind it.
pub(crate) type Way = (Answer, World);

impl World {
    pub(crate) fn new(settings: Settings) -> World {
        World { settings, servers: BTreeMap::new(), spent: BTreeMap::new() }
    }

    pub(crate) fn voter(&self, address: IpAddr) -> Voter {
        Voter::of(address, self.settings.prefix)
    }

    fn ends_s(&self, vote: Vote) -> i64 {
        vote.at_s + self.settings.cooldown_s
    }

    fn vote(&self, server: u32, voter: Voter) -> Option<Vote> {
        self.servers.get(&server).and_then(|server| server.votes.get(&voter).copied())
    }

    fn is_listed(&self, server: u32) -> bool {
        self.servers.get(&server).is_some_and(|server| server.token.is_some())
    }

    pub(crate) fn by_token(&self, token: &str) -> Option<u32> {
        let has = |server: &Server| matches!(&server.token, Some(Token::Known(known)) if **known == *token);
        self.servers.iter().find(|(_, server)| has(server)).map(|(id, _)| *id)
    }

    /// The cooldown of a voter: whether it is certain, and its end.
    fn cooldown(&self, server: u32, voter: Voter, now_s: i64) -> Option<(bool, i64)> {
        let vote = self.vote(server, voter)?;
        (now_s < self.ends_s(vote)).then(|| (!vote.is_doubted, self.ends_s(vote)))
    }

    /// The listed server that a question means.
    fn meant(&self, server: u32, by: Option<&str>) -> Option<u32> {
        by.map_or_else(|| Some(server).filter(|server| self.is_listed(*server)), |by| self.by_token(by))
    }

    /// Whether this may be the answer to a question by the server's id, or by a token.
    pub(crate) fn may_see(&self, server: u32, by: Option<&str>, voter: Voter, now_s: i64, seen: Seen) -> bool {
        let Some(server) = self.meant(server, by) else {
            return seen == Seen::UnknownServer;
        };
        match (seen, self.cooldown(server, voter, now_s)) {
            (Seen::UnknownServer, _) => false,
            (Seen::CanVote, cooldown) => cooldown.is_none_or(|(is_certain, _)| !is_certain),
            (Seen::InCooldown { next_vote_at }, cooldown) => cooldown.is_some_and(|(_, ends)| ends == next_vote_at),
        }
    }

    /// A reader saw this: a doubted vote is certain now, or gone.
    pub(crate) fn see(self: &mut Rc<World>, server: u32, by: Option<&str>, voter: Voter, now_s: i64, seen: Seen) {
        let Some(server) = self.meant(server, by) else { return };
        let Some(vote) = self.vote(server, voter).filter(|vote| vote.is_doubted && now_s < self.ends_s(*vote)) else {
            return;
        };
        if seen == Seen::UnknownServer {
            return;
        }
        let votes = &mut Rc::make_mut(self).servers.get_mut(&server).expect("it has the vote").votes;
        if seen == Seen::CanVote {
            votes.remove(&voter);
        } else {
            votes.insert(voter, Vote { is_doubted: false, ..vote });
        }
    }

    // Requests.

    /// The ways in which a request may be answered.
    pub(crate) fn asked(&self, request: &Request, part: usize, moment: Moment) -> Vec<Way> {
        match request {
            Request::Votes { asked, is_record } => self.asked_vote(&asked[part], *is_record, moment),
            Request::Cancel(server, address) => self.asked_cancel(*server, *address, moment),
            Request::CancelAll(address) => self.asked_cancel_all(*address, moment),
            Request::List { servers, keeps } => self.asked_list(&servers[part], *keeps),
            Request::Rotate(server) => self.asked_rotate(*server),
            Request::Remove(server) => self.asked_remove(*server),
        }
    }

    fn asked_vote(&self, asked: &Asked, is_record: bool, moment: Moment) -> Vec<Way> {
        let mut ways = Vec::new();
        let mut refuse = |answer| ways.push((answer, self.clone()));
        let (now_s, cooldown_s) = (moment.now_s, self.settings.cooldown_s);
        let from_s = asked.voted_at.unwrap_or(now_s);
        let ends_ms = (from_s + cooldown_s) * 1_000;
        let server = match &asked.server {
            Named::Id(id) => Some(*id).filter(|id| self.is_listed(*id)),
            Named::Token(token) => self.by_token(token),
        };
        let (may_be_over, is_over) = if is_record {
            (ends_ms <= moment.certain_ms.1, ends_ms <= moment.certain_ms.0)
        } else {
            (from_s + cooldown_s <= now_s, from_s + cooldown_s <= now_s)
        };
        let is_ahead = from_s > now_s + AHEAD_MAX_S;
        if may_be_over {
            refuse(Answer::Expired);
        }
        if is_ahead {
            refuse(Answer::InFuture);
        }
        let Some(server) = server else {
            refuse(Answer::UnknownServer);
            return ways;
        };
        let voters: BTreeSet<Voter> = asked.addresses.iter().map(|address| self.voter(*address)).collect();
        let is_doubted = |voter: &Voter| self.vote(server, *voter).is_some_and(|vote| vote.is_doubted);
        if let Some(doubted) = voters.iter().copied().find(is_doubted) {
            // The vote is there, or gone: follow both.
            for is_there in [true, false] {
                let mut world = self.clone();
                let votes = &mut world.servers.get_mut(&server).expect("it has the vote").votes;
                if is_there {
                    votes.entry(doubted).and_modify(|vote| vote.is_doubted = false);
                } else {
                    votes.remove(&doubted);
                }
                ways.extend(world.asked_vote(asked, is_record, moment));
            }
            return ways;
        }
        let live: Vec<i64> =
            voters.iter().filter_map(|voter| self.cooldown(server, *voter, now_s)).map(|(_, ends)| ends).collect();
        // The voter may vote when the last of them has ended.
        if let Some(ends) = live.iter().max().filter(|_| !is_record) {
            refuse(Answer::InCooldown { next_vote_at: *ends });
        }
        if is_ahead || is_over || (!is_record && !live.is_empty()) {
            return ways;
        }
        if is_record {
            ways.push(self.with_record(server, &voters, from_s));
            let mut forgotten = self.clone();
            let votes = &mut forgotten.servers.get_mut(&server).expect("it is listed").votes;
            let ends_ms = |vote: &Vote| self.ends_s(*vote) * 1_000;
            votes.retain(|voter, vote| !voters.contains(voter) || ends_ms(vote) > moment.ended_by_ms);
            if forgotten != *self {
                ways.push(forgotten.with_record(server, &voters, from_s));
            }
            return ways;
        }
        for instant in self.instants(server, &voters, from_s, moment) {
            let Some(at_s) = instant else {
                ways.push((Answer::TooManyChanges, self.clone()));
                continue;
            };
            let mut world = self.clone();
            let votes = &mut world.servers.get_mut(&server).expect("it is listed").votes;
            votes.extend(voters.iter().map(|voter| (*voter, Vote { at_s, is_doubted: false })));
            ways.push((Answer::Recorded { voted_at: at_s, next_vote_at: at_s + cooldown_s }, world));
        }
        ways
    }

    /// The later of the two votes stays.
    fn with_record(&self, server: u32, voters: &BTreeSet<Voter>, at_s: i64) -> Way {
        let mut world = self.clone();
        for voter in voters {
            let before = world.vote(server, *voter);
            if before.is_some_and(|before| before.at_s >= at_s) {
                continue;
            }
            before.iter().for_each(|before| world.spend(server, *voter, before.at_s));
            let votes = &mut world.servers.get_mut(&server).expect("it is listed").votes;
            votes.insert(*voter, Vote { at_s, is_doubted: false });
        }
        let next_vote_at = at_s + self.settings.cooldown_s;
        let answer = if world == *self { Answer::Unchanged } else { Answer::Recorded { voted_at: at_s, next_vote_at } };
        (answer, world)
    }

    fn without(&self, server: u32, voter: Voter) -> World {
        let mut world = self.clone();
        let gone = world.servers.get_mut(&server).and_then(|server| server.votes.remove(&voter));
        gone.iter().for_each(|vote| world.spend(server, voter, vote.at_s));
        world
    }

    fn asked_cancel(&self, server: u32, address: IpAddr, moment: Moment) -> Vec<Way> {
        let voter = self.voter(address);
        let as_it_was = |answer| (answer, self.clone());
        if !self.is_listed(server) {
            return vec![as_it_was(Answer::UnknownServer)];
        }
        match self.cooldown(server, voter, moment.now_s) {
            None => vec![as_it_was(Answer::NoCooldown)],
            Some((true, _)) => vec![(Answer::Cancelled, self.without(server, voter))],
            Some((false, _)) => {
                let mut none = self.clone();
                none.servers.get_mut(&server).expect("it has the vote").votes.remove(&voter);
                vec![(Answer::Cancelled, self.without(server, voter)), (Answer::NoCooldown, none)]
            }
        }
    }

    /// Every cooldown of the address goes. A doubted one may count or not; votes of removed servers do not.
    fn asked_cancel_all(&self, address: IpAddr, moment: Moment) -> Vec<Way> {
        let voter = self.voter(address);
        let mut world = self.clone();
        let (mut certain, mut perhaps) = (0, 0);
        for (id, server) in &self.servers {
            if let Some(vote) = server.votes.get(&voter) {
                let is_live = moment.now_s < self.ends_s(*vote);
                let may_be_held = self.ends_s(*vote) * 1_000 > moment.certain_ms.0;
                certain += u32::from(is_live && !vote.is_doubted);
                perhaps += u32::from(is_live);
                if is_live {
                    world = world.without(*id, voter);
                } else if may_be_held {
                    let votes = &mut world.servers.get_mut(id).expect("it is there").votes;
                    votes.insert(voter, Vote { is_doubted: true, ..*vote });
                }
            }
            world.servers.get_mut(id).expect("it is there").left.remove(&voter);
        }
        (certain..=perhaps).map(|count| (Answer::CancelledAll(count), world.clone())).collect()
    }

    fn asked_list(&self, Listed { server, token }: &Listed, keeps: bool) -> Vec<Way> {
        let as_it_was = |answer| vec![(answer, self.clone())];
        let old = self.servers.get(server).and_then(|server| server.token.clone());
        let Some(token) = token else {
            return match old {
                Some(token) => as_it_was(Answer::Listed { token: Some(token), is_new: false }),
                None => vec![self.with_token(*server, Token::Generated)],
            };
        };
        let wanted = Token::Known(token.clone());
        match old {
            Some(old) if old == wanted => as_it_was(Answer::Listed { token: Some(old), is_new: false }),
            Some(_) if keeps => as_it_was(Answer::TokenDiffers),
            _ if self.by_token(token).is_some() => as_it_was(Answer::TokenInUse),
            _ => vec![self.with_token(*server, wanted)],
        }
    }

    fn with_token(&self, server: u32, token: Token) -> Way {
        let mut world = self.clone();
        let listed = world.servers.entry(server).or_default();
        listed.token = Some(token.clone());
        let left = std::mem::take(&mut listed.left);
        listed.earlier.extend(left);
        (Answer::Listed { token: Some(token), is_new: true }, world)
    }

    fn asked_rotate(&self, server: u32) -> Vec<Way> {
        if self.is_listed(server) {
            vec![self.with_token(server, Token::Generated)]
        } else {
            vec![(Answer::UnknownServer, self.clone())]
        }
    }

    /// Whether a server has a token that no caller was told.
    pub(crate) fn is_untold(&self, server: u32) -> bool {
        self.servers.get(&server).is_some_and(|server| server.token == Some(Token::Generated))
    }

    /// A caller learns the token that was generated for a server.
    pub(crate) fn learn_token(&mut self, server: u32, token: &Arc<str>) {
        let listed = self.servers.get_mut(&server).filter(|server| server.token == Some(Token::Generated));
        if let Some(listed) = listed {
            listed.token = Some(Token::Known(Arc::clone(token)));
        }
    }

    fn asked_remove(&self, server: u32) -> Vec<Way> {
        if !self.is_listed(server) {
            return vec![(Answer::UnknownServer, self.clone())];
        }
        let mut world = self.clone();
        let removed = world.servers.get_mut(&server).expect("it is listed");
        removed.token = None;
        let votes = std::mem::take(&mut removed.votes);
        removed.left.extend(votes.iter().map(|(voter, vote)| (*voter, vote.at_s)));
        votes.iter().for_each(|(voter, vote)| world.spend(server, *voter, vote.at_s));
        vec![(Answer::Removed, world)]
    }

    // Time.

    /// The time shown goes back: ended votes are left out, and votes that lie ahead get the new time. `lengths_s` are the
    /// cooldowns before and behind a start with other settings.
    pub(crate) fn goes_back(&mut self, ended_by_ms: i64, to_s: i64, lengths_s: (i64, i64)) {
        self.leaves_out(ended_by_ms, lengths_s);
        for (id, server) in &mut self.servers {
            for vote in server.votes.values_mut() {
                if vote.at_s > to_s + AHEAD_MAX_S {
                    vote.at_s = to_s;
                }
            }
            // Unseen votes get it too, and that instant is spent where their server is listed again.
            let unseen = server.left.iter_mut().chain(&mut server.earlier);
            for (voter, at_s) in unseen.filter(|(_, at_s)| **at_s > to_s + AHEAD_MAX_S) {
                *at_s = to_s;
                self.spent.entry((*id, *voter)).or_default().insert(to_s, Spent::Perhaps);
            }
        }
        self.forget_spent();
    }

    /// Ended votes are left out, and stay ended with another length. A vote that has ended by the other length only may be
    /// left out.
    pub(crate) fn leaves_out(&mut self, ended_by_ms: i64, (was_s, other_s): (i64, i64)) {
        let shorter_s = was_s.min(other_s);
        for server in self.servers.values_mut() {
            server.votes.retain(|_, vote| (vote.at_s + was_s) * 1_000 > ended_by_ms - super::time::FUZZ_MS);
            for vote in server.votes.values_mut() {
                vote.is_doubted |= (vote.at_s + shorter_s) * 1_000 <= ended_by_ms + super::time::FUZZ_MS;
            }
        }
    }

    /// A start: votes that the certain line has ended are gone. Votes that only the line before the start had ended may be
    /// gone. An instant that lies ahead all the same, as the time shown stands still, need not be given again.
    pub(crate) fn starts(&mut self, certain_ms: i64, had_ended_by_ms: i64, shown_ms: i64) {
        let cooldown_s = self.settings.cooldown_s;
        for (id, server) in &mut self.servers {
            let ends_ms = |at_s: i64| (at_s + cooldown_s) * 1_000;
            let limit_ms = had_ended_by_ms.max(certain_ms) + super::time::FUZZ_MS;
            let is_spent = |vote: &Vote| ends_ms(vote.at_s) <= limit_ms && vote.at_s >= shown_ms.div_euclid(1_000);
            for (voter, vote) in server.votes.iter().filter(|(_, vote)| is_spent(vote)) {
                self.spent.entry((*id, *voter)).or_default().insert(vote.at_s, Spent::Perhaps);
            }
            server.votes.retain(|_, vote| ends_ms(vote.at_s) > certain_ms - super::time::FUZZ_MS);
            for vote in server.votes.values_mut() {
                vote.is_doubted |= ends_ms(vote.at_s) <= limit_ms;
            }
        }
    }

    /// Whether a vote of a listed server is live by this line: perhaps, certainly.
    pub(crate) fn has_live(&self, certain_ms: i64) -> (bool, bool) {
        let fuzz_ms = super::time::FUZZ_MS;
        let votes =
            || self.servers.values().filter(|server| server.token.is_some()).flat_map(|server| server.votes.values());
        let ends_ms = |vote: &Vote| self.ends_s(*vote) * 1_000;
        let perhaps = votes().any(|vote| ends_ms(vote) > certain_ms - fuzz_ms);
        (perhaps, votes().any(|vote| !vote.is_doubted && ends_ms(vote) > certain_ms + fuzz_ms))
    }

    /// The number of votes that may still be held, those of removed servers included.
    pub(crate) fn held(&self, certain_ms: i64) -> usize {
        let is_held = |at_s: i64| (at_s + self.settings.cooldown_s) * 1_000 > certain_ms - super::time::FUZZ_MS;
        let of = |server: &Server| {
            let votes = server.votes.values().filter(|vote| is_held(vote.at_s)).count();
            votes + server.left.values().chain(server.earlier.values()).filter(|at_s| is_held(**at_s)).count()
        };
        self.servers.values().map(of).sum()
    }

    /// The service takes other settings: ended votes stay ended, and of votes that become one pair's the latest stays. The
    /// contract does not say whether votes get another length before the certain line goes back from `ended_by_ms` or after.
    pub(crate) fn settle(&mut self, settings: Settings, certain_ms: i64, shown_ms: i64, ended_by_ms: i64) {
        let was = std::mem::replace(&mut self.settings, settings);
        for server in self.servers.values_mut() {
            // No reader sees which of these are taken over.
            for (voter, at_s) in std::mem::take(&mut server.left) {
                let latest_s = server.left.entry(voter.under(settings.prefix)).or_insert(at_s);
                *latest_s = at_s.max(*latest_s);
            }
            let votes = std::mem::take(&mut server.votes);
            for (voter, vote) in votes {
                let ends_ms = (vote.at_s + was.cooldown_s) * 1_000;
                let is_forgotten = settings.prefix > was.prefix && matches!(voter, Voter::V6(_));
                if ends_ms <= certain_ms - super::time::FUZZ_MS || is_forgotten {
                    continue;
                }
                // A vote that only the time shown has ended need not stay ended.
                let is_ended = ends_ms <= certain_ms.max(shown_ms) + super::time::FUZZ_MS;
                let is_ended_anew = (vote.at_s + settings.cooldown_s) * 1_000 <= ended_by_ms + super::time::FUZZ_MS;
                let is_doubted = vote.is_doubted || is_ended || is_ended_anew;
                let voter = voter.under(settings.prefix);
                let later = server.votes.get(&voter).is_none_or(|other| other.at_s < vote.at_s);
                if later {
                    server.votes.insert(voter, Vote { is_doubted, ..vote });
                }
            }
        }
        if settings.prefix != was.prefix {
            let spent = std::mem::take(&mut self.spent);
            for ((server, voter), instants) in spent {
                self.spent.entry((server, voter.under(settings.prefix))).or_default().extend(instants);
            }
            self.forget_spent();
        }
    }
}
