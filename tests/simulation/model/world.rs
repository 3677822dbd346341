//! One way in which a server's votes may stand: its token, and the votes of each of its voters. While a change is in
//! doubt a server has more than one of them.

use super::AHEAD_MAX_S;
use super::time::{Span, Turn};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A voter: an IPv4 address or an IPv6 network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Voter {
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl Voter {
    /// The voter that an address stands for.
    pub(crate) fn of(address: IpAddr, prefix: u8) -> Voter {
        let address = match address {
            IpAddr::V4(address) => return Voter::V4(address),
            IpAddr::V6(address) => address,
        };
        let bits = u128::from(address);
        let last = u32::try_from(bits & 0xffff_ffff).expect("32 bits");
        let (mapped, nat64, siit) = (0xffff_u128 << 32, 0x0064_ff9b_u128 << 96, 0xffff_u128 << 48);
        if [mapped, nat64, siit].contains(&(bits - u128::from(last))) {
            return Voter::V4(Ipv4Addr::from(last));
        }
        Voter::V6(Ipv6Addr::from(bits & (u128::MAX << (128 - u32::from(prefix)))))
    }

    /// The voter that this one is under a shorter prefix.
    pub(crate) fn under(self, prefix: u8) -> Voter {
        match self {
            Voter::V4(_) => self,
            Voter::V6(network) => Voter::of(IpAddr::V6(network), prefix),
        }
    }
}

/// A recorded vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Vote {
    /// The second at which its cooldown ends. More than one is allowed after a large step back only.
    pub(crate) ends: Span,
    /// How it is again if the clock comes back.
    before: Option<Span>,
    /// It may be gone, or have ended.
    is_doubted: bool,
}

impl Vote {
    fn new(ends: Span) -> Vote {
        Vote { ends, before: None, is_doubted: false }
    }

    fn is_certainly_live(&self, now: Span) -> bool {
        !self.is_doubted && now.hi < self.ends.lo
    }

    fn is_perhaps_live(&self, now: Span) -> bool {
        now.lo < self.ends.hi
    }

    fn is_over(&self, certain: Span) -> bool {
        self.ends.or(self.before.unwrap_or(self.ends)).hi <= certain.lo
    }

    fn turn(&mut self, turn: Turn, cooldown_s: i64) {
        match turn {
            Turn::Back { ended, now } => {
                self.is_doubted |= self.ends.lo <= ended.hi;
                let limit = now.plus(cooldown_s);
                if self.ends.hi > limit.lo {
                    self.before.get_or_insert(self.ends);
                    // A vote may be stamped some seconds ahead of the clock.
                    self.ends = self.ends.at_most(Span { hi: limit.hi + AHEAD_MAX_S, ..limit });
                }
            }
            Turn::Returned => self.ends = self.before.take().unwrap_or(self.ends),
            Turn::PerhapsReturned => self.ends = self.ends.or(self.before.unwrap_or(self.ends)),
            Turn::Settled => self.before = None,
        }
    }
}

/// What a pair of server and voter is seen to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    CanVote,
    InCooldown { next_vote_at: i64 },
    UnknownServer,
}

/// One way in which a server may stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct World {
    /// None where the server is not listed.
    pub(crate) token: Option<String>,
    votes: BTreeMap<Voter, Vec<Vote>>,
}

impl World {
    /// The voter's cooldown: whether it certainly is in one, and the ends that it may have.
    pub(crate) fn cooldown(&self, voter: Voter, now: Span) -> (bool, Vec<Span>) {
        let votes = self.votes.get(&voter).map_or(&[][..], Vec::as_slice);
        let ends = votes.iter().filter(|vote| vote.is_perhaps_live(now)).map(|vote| vote.ends).collect();
        (votes.iter().any(|vote| vote.is_certainly_live(now)), ends)
    }

    /// Whether a question by the server's id, or by a token, may be answered so.
    pub(crate) fn may_see(&self, by: Option<&str>, voter: Voter, now: Span, seen: Seen) -> bool {
        if self.token.is_none() || by.is_some_and(|by| self.token.as_deref() != Some(by)) {
            return seen == Seen::UnknownServer;
        }
        let (is_certain, ends) = self.cooldown(voter, now);
        match seen {
            Seen::UnknownServer => false,
            Seen::CanVote => !is_certain,
            Seen::InCooldown { next_vote_at } => {
                next_vote_at > now.lo && ends.iter().any(|ends| ends.contains(next_vote_at))
            }
        }
    }

    /// The same. A cooldown whose end was not certain has the end that was seen from now on.
    pub(crate) fn see(&mut self, by: Option<&str>, voter: Voter, now: Span, seen: Seen) -> bool {
        let may_see = self.may_see(by, voter, now, seen);
        if may_see
            && let Seen::InCooldown { next_vote_at } = seen
            && let Some([only]) = self.votes.get_mut(&voter).map(Vec::as_mut_slice)
        {
            only.ends = Span::exactly(next_vote_at);
        }
        may_see
    }

    /// A vote is recorded whose cooldown ends then. The later of two votes stays; what had ended may still come back.
    pub(crate) fn record(&mut self, voter: Voter, ends: Span, now: Span) {
        let votes = self.votes.entry(voter).or_default();
        if votes.iter().any(|vote| vote.is_certainly_live(now) && vote.ends.lo >= ends.hi) {
            return;
        }
        votes.retain(|vote| !vote.is_perhaps_live(now) || vote.ends.hi >= ends.lo);
        votes.push(Vote::new(ends));
    }

    /// What stands there now goes. What a step forward had ended may come back, or may have gone with it.
    pub(crate) fn cancel(&mut self, voter: Voter, now: Span) {
        if let Some(votes) = self.votes.get_mut(&voter) {
            votes.retain(|vote| !vote.is_perhaps_live(now));
            votes.iter_mut().for_each(|vote| vote.is_doubted = true);
        }
    }

    /// The server is struck off the list, and its cooldowns go with it.
    pub(crate) fn remove(&mut self) {
        *self = World::default();
    }

    /// Votes that have ended for good go; the large steps of the clock do what the contract says.
    pub(crate) fn turn(&mut self, turns: &[Turn], certain: Span, cooldown_s: i64) {
        for votes in self.votes.values_mut() {
            for turn in turns {
                if let Turn::Back { ended, .. } = turn {
                    votes.retain(|vote| !vote.is_over(*ended));
                }
                votes.iter_mut().for_each(|vote| vote.turn(*turn, cooldown_s));
            }
            votes.retain(|vote| !vote.is_over(certain));
        }
        self.votes.retain(|_, votes| !votes.is_empty());
    }

    /// At a start, what was cut may last as long as it may from that start on, and stays so; unless the store did not
    /// keep the step back, and it is made with this start.
    pub(crate) fn start(&mut self, now: Span, cooldown_s: i64, is_back: bool) {
        for vote in self.votes.values_mut().flatten() {
            if let Some(before) = vote.before {
                vote.ends = vote.ends.or(before.at_most(now.plus(cooldown_s + AHEAD_MAX_S)));
                vote.before = vote.before.filter(|_| is_back);
            }
        }
    }

    /// From a start on, the rows of what was cut before it may say so.
    pub(crate) fn rows_may_be_cut(&mut self) {
        for vote in self.votes.values_mut().flatten() {
            vote.before = vote.before.map(|before| before.or(vote.ends));
        }
    }

    /// Each vote that has ended may be gone from the file.
    pub(crate) fn ended_rows_may_be_gone(&mut self, now: Span) {
        let ended = self.votes.values_mut().flatten().filter(|vote| !vote.is_certainly_live(now));
        ended.for_each(|vote| vote.is_doubted = true);
    }

    /// Votes get another length; what had ended stays ended. Of those that fall together the latest stays.
    pub(crate) fn settle(&mut self, now: Span, longer_s: i64, prefix: u8) {
        let mut settled: BTreeMap<Voter, Vec<Vote>> = BTreeMap::new();
        for (voter, votes) in std::mem::take(&mut self.votes) {
            for mut vote in votes.into_iter().filter(|vote| vote.is_perhaps_live(now)) {
                vote.is_doubted |= !vote.is_certainly_live(now);
                vote.ends = vote.ends.plus(longer_s);
                vote.before = vote.before.map(|before| before.plus(longer_s));
                settled.entry(voter.under(prefix)).or_default().push(vote);
            }
        }
        for votes in settled.values_mut() {
            let latest = votes.iter().filter(|vote| !vote.is_doubted).map(|vote| vote.ends.lo).max();
            let perhaps = votes.iter().map(|vote| vote.ends.hi).max();
            votes.retain(|vote| Some(vote.ends.hi) >= latest);
            if votes.len() > 1 {
                votes.iter_mut().for_each(|vote| vote.is_doubted |= Some(vote.ends.lo) < perhaps);
            }
            votes.iter_mut().for_each(|vote| vote.before = None);
        }
        self.votes = settled;
    }

    /// What may be answered of the voter, in words.
    pub(crate) fn allowed(&self, voter: Voter, now: Span) -> String {
        match &self.token {
            None => "UnknownServer".into(),
            Some(_) => format!("{:?} at {now:?}", self.cooldown(voter, now)),
        }
    }

    /// Whether any vote is certainly live, or perhaps: a row that a step back has cut need not say so yet.
    pub(crate) fn live(&self, now: Span) -> (bool, bool) {
        let mut votes = self.votes.values().flatten();
        let is_certain = votes.clone().any(|vote| vote.is_certainly_live(now));
        let by_row = |vote: &Vote| vote.before.is_some_and(|before| now.lo < before.hi);
        (is_certain, votes.any(|vote| vote.is_perhaps_live(now) || by_row(vote)))
    }
}
