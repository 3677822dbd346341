//! The promises of docs/CLUSTER.md, as checks of callers' outcomes and of nodes' shown states. This module does not know how
//! nodes keep them.

use crate::host::Process;
use std::collections::{BTreeMap, BTreeSet};
use vote_status::cluster::node::changes::{ChangeOutcome, WantedChange, WantedServer};
use vote_status::cluster::wire::answer::Done;
use vote_status::cluster::wire::fact::Listing;
use vote_status::cluster::wire::question::StoreCall;
use vote_status::vote::address::VoterAddress;
use vote_status::vote::id::{ServerId, Token};
use vote_status::vote::table::Pair;
use vote_status::vote::time::{Cooldown, UnixSeconds};

/// The longest step of the store's clock.
pub(crate) const CLOCK_STEP_US_MAX: u64 = 250_000;
/// The longest wait of a node for the store.
pub(crate) const PATIENCE_US: u64 = 3_000_000;
/// The slack of all checks: the store's clock goes in steps, and a node's milliseconds are whole.
const SLACK_US: u64 = CLOCK_STEP_US_MAX + 10_000;
/// The time in which a clock that went back may let a late call through: the longest step back and the longest delay.
const STEP_SEEN_US: u64 = 45_000_000;

/// A change that a caller wanted.
#[derive(Debug)]
struct Wanted {
    change: WantedChange,
    process: u64,
    begun_us: u64,
    /// The end of the time in which the store may make the change: the instant of the caller's answer, or never without one.
    ended_us: u64,
    outcome: Option<ChangeOutcome>,
}

/// A vote that was acknowledged.
#[derive(Clone, Debug)]
pub(crate) struct Vote {
    pub(crate) pair: Pair,
    pub(crate) at: UnixSeconds,
    listing: Listing,
    begun_us: u64,
    told_us: u64,
    /// The processes that have shown the vote, each with its first instant.
    shown_by: BTreeMap<u64, u64>,
}

/// The outcomes and the events so far.
pub(crate) struct Promises {
    cooldown: Cooldown,
    /// By the callers' numbers, which begin with 1.
    wanted: Vec<Wanted>,
    pub(crate) votes: Vec<Vote>,
    ended: BTreeSet<u64>,
    /// The instant at which each process began, and the one until which its machine or its network was in trouble.
    begun: BTreeMap<u64, u64>,
    troubled: BTreeMap<u64, u64>,
    /// The instant of the last step of the store's clock.
    pub(crate) stepped_us: Option<u64>,
    /// The latest time of the store's clock so far: a vote that was over then stays over.
    pub(crate) latest: UnixSeconds,
    /// The instant of the store's last loss.
    pub(crate) lost_us: Option<u64>,
    /// The instant at which the store last removed each listing.
    removed_us: BTreeMap<Listing, u64>,
    broken: Option<String>,
    pub(crate) notes: BTreeMap<&'static str, u64>,
    pub(crate) outcomes: BTreeMap<String, u64>,
}

/// The server that a change is about.
fn server_of(change: &WantedChange) -> Option<ServerId> {
    match change {
        WantedChange::Cast(WantedServer::Id(server), ..)
        | WantedChange::Record(WantedServer::Id(server), ..)
        | WantedChange::Cancel(server, _)
        | WantedChange::List { server, .. }
        | WantedChange::Rotate(server, _)
        | WantedChange::Remove(server) => Some(*server),
        WantedChange::Cast(..) | WantedChange::Record(..) => None,
    }
}

/// The token that a change gives to a server.
fn token_of(change: &WantedChange) -> Option<&Token> {
    match change {
        WantedChange::List { said: Some(token), .. } | WantedChange::Rotate(_, token) => Some(token),
        WantedChange::List { spare, .. } => Some(spare),
        _ => None,
    }
}

impl Promises {
    pub(crate) fn new(cooldown: Cooldown) -> Self {
        let (wanted, votes, ended, begun, troubled, removed_us, notes, outcomes) = Default::default();
        let stepped_us = None;
        Self {
            cooldown,
            wanted,
            votes,
            ended,
            begun,
            troubled,
            stepped_us,
            latest: UnixSeconds(0),
            lost_us: None,
            removed_us,
            broken: None,
            notes,
            outcomes,
        }
    }

    pub(crate) fn wants(&mut self, caller: u64, change: WantedChange, process: u64, now_us: u64) {
        let wanted = Wanted { change, process, begun_us: now_us, ended_us: u64::MAX, outcome: None };
        self.wanted.push(wanted);
        assert_eq!(self.wanted.len() as u64, caller, "callers are numbered");
    }

    pub(crate) fn process_begins(&mut self, process: u64, now_us: u64) {
        self.begun.insert(process, now_us);
    }

    /// Notes that a process may not reach the store until this instant.
    pub(crate) fn is_troubled(&mut self, process: u64, until_us: u64) {
        let troubled = self.troubled.entry(process).or_default();
        *troubled = until_us.max(*troubled);
    }

    pub(crate) fn process_ends(&mut self, process: u64) {
        self.ended.insert(process);
    }

    pub(crate) fn clock(&mut self, store_s: UnixSeconds) {
        self.latest = self.latest.max(store_s);
    }

    /// The first promise that was broken.
    pub(crate) fn broken(&mut self) -> Option<String> {
        self.broken.take()
    }

    fn breaks(&mut self, what: String) {
        self.broken.get_or_insert(what);
    }

    fn is_over(&self, at: UnixSeconds) -> bool {
        self.cooldown.expires_at(at) <= self.latest.plus(1)
    }

    /// Takes a caller's outcome, and checks it.
    pub(crate) fn answered(
        &mut self,
        caller: u64,
        outcome: ChangeOutcome,
        process: &Process,
        now_us: u64,
        store_s: UnixSeconds,
    ) {
        self.clock(store_s);
        let Some(wanted) = self.wanted.get_mut(index_of(caller)) else {
            return self.breaks(format!("{caller} is told and was never there"));
        };
        if wanted.outcome.is_some() {
            return self.breaks(format!("{caller} is told twice"));
        }
        let word = match &outcome {
            ChangeOutcome::Decided(_, done) => {
                format!("{done:?}").split(['(', ' ']).next().unwrap_or_default().to_owned()
            }
            ChangeOutcome::Unavailable(why) if why.is_empty() => {
                return self.breaks(format!("{caller} is refused without a reason"));
            }
            ChangeOutcome::Unavailable(why) => format!(
                "unavailable: {}",
                why.chars().filter(|char| !char.is_ascii_digit()).take(34).collect::<String>()
            ),
            ChangeOutcome::Silent => "silent".to_owned(),
        };
        *self.outcomes.entry(word).or_default() += 1;
        wanted.ended_us = now_us;
        wanted.outcome = Some(outcome.clone());
        let (change, begun_us) = (wanted.change.clone(), wanted.begun_us);
        match (&change, &outcome) {
            (
                WantedChange::Cast(_, _, addresses) | WantedChange::Record(_, _, addresses),
                ChangeOutcome::Decided(Some(server), Done::Recorded(at, record)),
            ) => {
                for address in addresses {
                    self.recorded(
                        &change,
                        Pair { server: *server, address: *address },
                        *at,
                        record.listing,
                        process,
                        [begun_us, now_us],
                    );
                }
            }
            (WantedChange::Cancel(server, address), ChangeOutcome::Decided(_, Done::Cancelled(at))) => {
                let pair = Pair { server: *server, address: *address };
                let shown = process.voted_at(pair);
                if shown == Some(*at) {
                    self.breaks(format!("{pair:?} {at} was cancelled, and is shown by the node that said so"));
                }
                // The vote that the caller knows of is over. A later vote may count.
                let known = self.votes.iter().any(|vote| {
                    vote.pair == pair && Some(vote.at) == shown && vote.told_us < begun_us && !self.is_over(vote.at)
                });
                if known {
                    self.breaks(format!("{pair:?} {at} was cancelled, and {shown:?} counts at the node that said so"));
                }
            }
            // A listing is one that a caller wanted.
            (
                _,
                ChangeOutcome::Decided(_, Done::Listed(record) | Done::TokenChanged(record) | Done::SameToken(record)),
            ) if !self.wanted.iter().any(|wanted| made_listing(wanted, record.listing)) => {
                self.breaks(format!("{change:?} made a listing of its own: {record}"));
            }
            // The node asks for the instant itself: a vote that stood all the time, and that no other caller wanted to change,
            // has to end.
            (WantedChange::Cancel(server, address), ChangeOutcome::Decided(_, Done::OtherVote(Some(at)))) => {
                let pair = Pair { server: *server, address: *address };
                let is_meanwhile = |other: &Wanted| other.ended_us >= begun_us && other.begun_us <= now_us;
                let is_of_it = |other: &Wanted| server_of(&other.change).is_none_or(|of| of == *server);
                let is_alone = self
                    .wanted
                    .iter()
                    .enumerate()
                    .all(|(at, other)| at == index_of(caller) || !is_of_it(other) || !is_meanwhile(other));
                let is_quiet =
                    self.lost_us.max(self.stepped_us).is_none_or(|since_us| since_us + PATIENCE_US < begun_us);
                if is_alone && is_quiet {
                    self.breaks(format!("{pair:?} {at} stood all the time, and was not cancelled"));
                }
            }
            _ => {}
        }
    }

    /// Checks that a vote counts at most once in a cooldown, and that the node that took it shows it.
    fn recorded(
        &mut self,
        change: &WantedChange,
        pair: Pair,
        at: UnixSeconds,
        listing: Listing,
        process: &Process,
        [begun_us, now_us]: [u64; 2],
    ) {
        let shown = process.voted_at(pair);
        let vote =
            Vote { pair, at, listing, begun_us, told_us: now_us, shown_by: BTreeMap::from([(process.number, now_us)]) };
        if shown < Some(at) && !self.may_be_gone(&vote) && !self.is_over(at) {
            self.breaks(format!("{vote:?} was acknowledged, and its node shows {shown:?}"));
        }
        if matches!(change, WantedChange::Cast(..)) {
            let earlier = self.votes.iter().filter(|vote| vote.pair == pair && vote.told_us < begun_us);
            // A store that has lost nothing knows all votes.
            let is_whole = self.lost_us.is_none() && self.stepped_us.is_none();
            let is_known = |earlier: &Vote| {
                earlier.shown_by.contains_key(&process.number) || self.is_waited_for(earlier, process.number)
            };
            let counts = |earlier: &Vote| is_whole || (earlier.at != at && is_known(earlier));
            let live = earlier.filter(|earlier| !self.is_over(earlier.at) && counts(earlier));
            let twice = live.filter(|earlier| !self.may_be_gone(earlier)).max_by_key(|earlier| earlier.at).cloned();
            if let Some(earlier) = twice {
                let number = process.number;
                self.breaks(format!("{vote:?} was taken by process {number}, and counts already: {earlier:?}"));
            }
        }
        if !self.votes.iter().any(|other| (other.pair, other.at, other.listing) == (pair, at, listing)) {
            self.votes.push(vote);
        }
    }

    /// Whether a process that starts has to wait until another one gives back this vote. That process has shown the
    /// vote since before this process began, and could give it back ever since the store lost it.
    fn is_waited_for(&self, vote: &Vote, process: u64) -> bool {
        let (Some(begun_us), Some(lost_us)) = (self.begun.get(&process), self.lost_us) else { return false };
        vote.shown_by.iter().any(|(other, since_us)| {
            let is_well = self.troubled.get(other).is_none_or(|until_us| *until_us <= lost_us);
            let is_alive = !self.ended.contains(other);
            is_alive && is_well && since_us < begun_us && *since_us < lost_us && lost_us < *begun_us
        })
    }

    /// Whether a change that ended before a vote began may have taken that vote away all the same. The store may have
    /// forgotten the change, and have taken votes until a node gave it back.
    fn may_have_come_back(&self, wanted: &Wanted, vote: &Vote) -> bool {
        let is_since = |us: Option<u64>| us.is_some_and(|us| wanted.begun_us <= us);
        // The network may have held the call up: its term is not over, perhaps by a clock that was set back.
        let is_in_term =
            vote.begun_us <= wanted.begun_us + PATIENCE_US + SLACK_US || is_since(self.lost_us.max(self.stepped_us));
        match (&wanted.change, &wanted.outcome) {
            (WantedChange::Remove(_), Some(ChangeOutcome::Silent)) => is_in_term,
            (WantedChange::Remove(_), _) => self.is_forgotten_removal(wanted, vote.listing),
            (WantedChange::Cancel(_, address), Some(ChangeOutcome::Decided(_, Done::Cancelled(at)))) => {
                *address == vote.pair.address && *at >= vote.at && is_since(self.lost_us)
            }
            (WantedChange::Cancel(_, address), Some(ChangeOutcome::Silent)) => {
                let may_mean_a_later_one = || self.is_below_another(vote, wanted.ended_us);
                *address == vote.pair.address && (is_since(self.lost_us) || is_in_term && may_mean_a_later_one())
            }
            (WantedChange::List { .. }, Some(ChangeOutcome::Decided(_, Done::Listed(record)))) => {
                record.listing > vote.listing && is_since(self.lost_us)
            }
            (WantedChange::List { .. }, Some(ChangeOutcome::Silent)) => is_since(self.lost_us),
            _ => false,
        }
    }

    /// Whether the store may have forgotten this removal of a listing, which ends the listing once a node gives it back. The
    /// store may have made a removal without an answer to its caller.
    fn is_forgotten_removal(&self, wanted: &Wanted, listing: Listing) -> bool {
        let is_it = match &wanted.outcome {
            Some(ChangeOutcome::Decided(_, Done::Removed(removed))) => *removed == listing,
            None | Some(ChangeOutcome::Silent) => matches!(wanted.change, WantedChange::Remove(_)),
            _ => false,
        };
        is_it && self.lost_us.is_some_and(|lost_us| wanted.begun_us <= lost_us)
    }

    /// Whether a later vote of its address may have stood before this instant. The end of that vote is also the end of a vote of
    /// the caller's own records that comes in the meantime.
    fn is_below_another(&self, vote: &Vote, before_us: u64) -> bool {
        let is_later = |other: &Vote| other.pair == vote.pair && other.at > vote.at && other.begun_us <= before_us;
        self.votes.iter().any(is_later) || self.is_in_doubt(vote.pair.address)
    }

    /// Whether any caller's change may have taken a vote away. A refused change took nothing away. A change that ended before a
    /// vote began did not mean that vote.
    fn may_be_gone(&self, vote: &Vote) -> bool {
        self.wanted.iter().any(|wanted| {
            let is_refused = matches!(wanted.outcome, Some(ChangeOutcome::Unavailable(_)));
            if is_refused || server_of(&wanted.change) != Some(vote.pair.server) {
                return false;
            }
            if wanted.ended_us < vote.begun_us {
                return self.may_have_come_back(wanted, vote);
            }
            match (&wanted.change, &wanted.outcome) {
                (WantedChange::Cancel(_, address), Some(ChangeOutcome::Decided(_, Done::Cancelled(at)))) => {
                    // The cancelled vote may be a later one that had taken this one's place.
                    *address == vote.pair.address && *at >= vote.at
                }
                (WantedChange::Cancel(_, address), None | Some(ChangeOutcome::Silent)) => *address == vote.pair.address,
                (WantedChange::Remove(_), Some(ChangeOutcome::Decided(_, Done::Removed(listing)))) => {
                    *listing >= vote.listing
                }
                (WantedChange::Remove(_), None | Some(ChangeOutcome::Silent)) => true,
                // Two nodes may list a server that the store forgot: the later listing stands.
                (
                    WantedChange::List { .. },
                    Some(ChangeOutcome::Decided(_, Done::Listed(record) | Done::TokenChanged(record))),
                ) => record.listing > vote.listing,
                (WantedChange::List { .. }, None | Some(ChangeOutcome::Silent)) => true,
                _ => false,
            }
        })
    }

    /// Checks the state that a process shows.
    pub(crate) fn look(&mut self, process: &Process, store_s: UnixSeconds, now_us: u64) {
        self.clock(store_s);
        if !process.node.is_loaded() {
            return;
        }
        let number = process.number;
        let mut broken = None;
        for at in 0..self.votes.len() {
            let vote = &self.votes[at];
            let shown = process.voted_at(vote.pair);
            if shown == Some(vote.at) {
                // A vote of an earlier listing may have the same instant.
                if lists(process, vote.pair.server, vote.listing) {
                    self.votes[at].shown_by.entry(number).or_insert(now_us);
                }
            } else if shown < Some(vote.at)
                && vote.shown_by.contains_key(&number)
                && !self.is_over(vote.at)
                && !self.may_be_gone(vote)
            {
                broken = Some(format!(
                    "{vote:?} was shown by process {number}, which shows {:?}",
                    process.voted_at(vote.pair)
                ));
            }
        }
        for wanted in self.wanted.iter().filter(|wanted| wanted.process == number) {
            if let (WantedChange::Cancel(server, address), Some(ChangeOutcome::Decided(_, Done::Cancelled(at)))) =
                (&wanted.change, &wanted.outcome)
                && process.voted_at(Pair { server: *server, address: *address }) == Some(*at)
                && !self.is_over(*at)
            {
                broken = Some(format!(
                    "server {server} {address:?} {at} was cancelled through process {number}, which shows it"
                ));
            }
        }
        if let Some(broken) = broken {
            self.breaks(broken);
        }
    }

    /// Checks a change that the store has made: its caller still waits for it, and it ends nothing newer than its target.
    pub(crate) fn made(&mut self, server: ServerId, call: &StoreCall, is_held: bool, [sent_us, now_us]: [u64; 2]) {
        if !is_held {
            self.breaks(format!("server {server}: {call:?} was done though the store has lost what its caller knew"));
        }
        if let StoreCall::Remove(listing) = call {
            self.removed_us.insert(*listing, now_us);
            let mut began = self.wanted.iter().filter(|wanted| made_listing(wanted, *listing));
            if began.any(|wanted| wanted.begun_us > sent_us) {
                self.breaks(format!("server {server}: {call:?} was sent before that was listed"));
            }
        }
        if let StoreCall::Cancel(address, at) = call {
            let pair = Pair { server, address: *address };
            let mut all = self.votes.iter().filter(|vote| (vote.pair, vote.at) == (pair, *at)).peekable();
            let is_known = all.peek().is_some() && !self.is_in_doubt(*address);
            if is_known && all.all(|vote| vote.begun_us > sent_us) {
                self.breaks(format!("server {server}: {call:?} was sent before that vote was made"));
            }
        }
        let is_it = |wanted: &&Wanted| {
            let is_of_it = server_of(&wanted.change).is_none_or(|of| of == server);
            is_of_it
                && match (call, &wanted.change) {
                    (StoreCall::Cast(at, voters), WantedChange::Cast(_, instant, addresses)) => {
                        (at, voters) == (instant, addresses)
                    }
                    (StoreCall::Record(at, voters), WantedChange::Record(_, instant, addresses)) => {
                        (at, voters) == (instant, addresses)
                    }
                    (StoreCall::Cancel(voter, _), WantedChange::Cancel(_, address)) => voter == address,
                    (StoreCall::List { .. }, WantedChange::List { .. } | WantedChange::Rotate(..)) => true,
                    (StoreCall::Remove(_), WantedChange::Remove(_)) => true,
                    _ => false,
                }
        };
        // A caller that is told early of an unknown outcome may still get the store's answer, until the node gives up.
        let is_awaited = |wanted: &Wanted| {
            let until_us = wanted.ended_us.max(wanted.begun_us + PATIENCE_US);
            (wanted.begun_us..=until_us.saturating_add(SLACK_US)).contains(&now_us)
        };
        let mut all = self.wanted.iter().filter(is_it);
        let has_stepped = self.stepped_us.is_some_and(|stepped_us| stepped_us + STEP_SEEN_US > now_us);
        if !has_stepped && !all.any(is_awaited) {
            self.breaks(format!("server {server}: {call:?} was done when nobody waited for it any more"));
        }
    }

    /// Checks the states that all processes show, after all faults have ended and nothing is under way.
    pub(crate) fn look_at_end(&mut self, processes: &[&Process], store_s: UnixSeconds) {
        self.clock(store_s);
        let is_alive = |process: &u64| !self.ended.contains(process);
        let mut broken = None;
        for vote in self.votes.iter().filter(|vote| !self.is_over(vote.at)) {
            let is_known =
                vote.shown_by.keys().any(is_alive) || self.lost_us.is_none_or(|lost_us| lost_us < vote.begun_us);
            if is_known && !self.may_be_gone(vote) {
                for process in processes.iter().filter(|process| process.voted_at(vote.pair) < Some(vote.at)) {
                    let shown = process.voted_at(vote.pair);
                    broken = Some(format!("process {} shows {shown:?} in place of {vote:?}", process.number));
                }
            }
        }
        for (at, wanted) in self.wanted.iter().enumerate() {
            let caller = at + 1;
            let is_known = is_alive(&wanted.process) || self.lost_us.is_none_or(|lost_us| lost_us < wanted.begun_us);
            match (&wanted.change, &wanted.outcome) {
                (WantedChange::Cancel(server, address), Some(ChangeOutcome::Decided(_, Done::Cancelled(at))))
                    if is_known =>
                {
                    let pair = Pair { server: *server, address: *address };
                    for process in
                        processes.iter().filter(|process| process.voted_at(pair) == Some(*at) && !self.is_over(*at))
                    {
                        broken = Some(format!(
                            "{pair:?} {at} was cancelled ({caller}), and process {} shows it",
                            process.number
                        ));
                    }
                }
                (WantedChange::Remove(server), Some(ChangeOutcome::Decided(_, Done::Removed(listing)))) if is_known => {
                    for process in processes {
                        if lists(process, *server, *listing) {
                            broken = Some(format!(
                                "{server} {listing} was removed ({caller}), and process {} has it",
                                process.number
                            ));
                        }
                    }
                    let ended =
                        self.votes.iter().filter(|vote| vote.pair.server == *server && vote.listing == *listing);
                    for vote in ended.filter(|vote| !self.is_over(vote.at) && !self.may_be_of_another_listing(vote)) {
                        for process in processes.iter().filter(|process| process.voted_at(vote.pair) == Some(vote.at)) {
                            broken = Some(format!(
                                "{server} {listing} was removed ({caller}), and process {} shows {vote:?}",
                                process.number
                            ));
                        }
                    }
                }
                // A refused change was not made: no other caller wanted this very vote.
                (
                    WantedChange::Record(WantedServer::Id(server), at, addresses),
                    Some(ChangeOutcome::Unavailable(why)),
                ) => {
                    let pair = Pair { server: *server, address: addresses[0] };
                    let others = self.wanted.iter().filter(|other| !std::ptr::eq(*other, wanted));
                    let mut others = others.filter(|other| match &other.change {
                        WantedChange::Record(_, instant, voters) => instant == at && voters.contains(&addresses[0]),
                        WantedChange::Cast(_, _, voters) => voters.contains(&addresses[0]),
                        _ => false,
                    });
                    let is_alone = others.next().is_none();
                    for process in processes.iter().filter(|process| is_alone && process.voted_at(pair) == Some(*at)) {
                        broken = Some(format!(
                            "{pair:?} {at} was refused ({caller}: {why}), and process {} shows it",
                            process.number
                        ));
                    }
                }
                _ => {}
            }
        }
        if let Some(broken) = broken.or_else(|| self.last_tokens(processes)) {
            self.breaks(broken);
        }
    }

    /// Whether a vote of this pair and instant may have been made under another listing too.
    fn may_be_of_another_listing(&self, vote: &Vote) -> bool {
        let is_same = |other: &Vote| (other.pair, other.at) == (vote.pair, vote.at) && other.listing != vote.listing;
        self.votes.iter().any(is_same) || self.is_in_doubt(vote.pair.address)
    }

    /// Whether a vote of this address may have been made without any caller's knowledge.
    fn is_in_doubt(&self, address: VoterAddress) -> bool {
        self.wanted.iter().any(|wanted| {
            let names_it = match &wanted.change {
                WantedChange::Cast(_, _, voters) | WantedChange::Record(_, _, voters) => voters.contains(&address),
                _ => false,
            };
            names_it && matches!(wanted.outcome, None | Some(ChangeOutcome::Silent))
        })
    }

    /// Checks that each server has the last token that it was given.
    fn last_tokens(&self, processes: &[&Process]) -> Option<String> {
        let servers: BTreeSet<ServerId> = self.wanted.iter().filter_map(|wanted| server_of(&wanted.change)).collect();
        for server in servers {
            let of_it = self.wanted.iter().filter(|wanted| {
                let gives = matches!(
                    wanted.change,
                    WantedChange::List { .. } | WantedChange::Rotate(..) | WantedChange::Remove(_)
                );
                let is_done = !matches!(wanted.outcome, Some(ChangeOutcome::Unavailable(_)));
                server_of(&wanted.change) == Some(server) && gives && is_done
            });
            let of_it: Vec<&Wanted> = of_it.collect();
            let Some(last) = of_it.iter().max_by_key(|wanted| wanted.begun_us) else { continue };
            let is_last = of_it.iter().all(|wanted| std::ptr::eq(*wanted, *last) || wanted.ended_us < last.begun_us);
            let is_known = !self.ended.contains(&last.process);
            if let (Some(ChangeOutcome::Decided(_, Done::Listed(record) | Done::TokenChanged(record))), true, true) =
                (&last.outcome, is_last, is_known)
            {
                // The store forgot a listing or a token with a later stamp, and no node that knew it was within reach.
                let forgotten =
                    of_it.iter().filter(|wanted| self.lost_us.is_some_and(|lost_us| wanted.begun_us <= lost_us));
                let is_outweighed = forgotten.clone().any(|wanted| match &wanted.outcome {
                    Some(ChangeOutcome::Decided(_, Done::Listed(other))) => other.listing > record.listing,
                    _ => false,
                });
                // A removal without an outcome for its caller may still come, if the store's clock went back.
                let is_removed = self.removed_us.get(&record.listing).is_some_and(|us| *us > last.begun_us)
                    || of_it.iter().any(|wanted| self.is_forgotten_removal(wanted, record.listing));
                if is_outweighed || is_removed {
                    continue;
                }
                let outweighing: Vec<&Token> = forgotten
                    .filter_map(|wanted| match &wanted.outcome {
                        Some(ChangeOutcome::Decided(_, Done::Listed(other) | Done::TokenChanged(other))) => {
                            (other.stamp >= record.stamp).then_some(&other.token)
                        }
                        Some(ChangeOutcome::Silent) => token_of(&wanted.change),
                        _ => None,
                    })
                    .collect();
                // Another server may claim the token, with a later stamp.
                let is_claimed = self.wanted.iter().any(|wanted| {
                    server_of(&wanted.change) != Some(server) && token_of(&wanted.change) == Some(&record.token)
                });
                for process in processes {
                    let held =
                        process.servers().into_iter().find(|(other, _)| *other == server.0).map(|(_, token)| token);
                    let is_held = |token: &Token| held.as_deref() == Some(token.as_str());
                    let is_right =
                        is_held(&record.token) || is_claimed || outweighing.iter().any(|token| is_held(token));
                    if held.is_none() || !is_right {
                        return Some(format!(
                            "server {server} was given {record} last, and process {} shows {held:?}",
                            process.number
                        ));
                    }
                }
            }
        }
        None
    }
}

/// Whether a caller wanted this very listing.
fn made_listing(wanted: &Wanted, listing: Listing) -> bool {
    match wanted.change {
        WantedChange::List { bits, .. } => listing.to_string().ends_with(&format!("-{bits:016x}")),
        _ => false,
    }
}

/// Whether a process has a server under this listing.
fn lists(process: &Process, server: ServerId, listing: Listing) -> bool {
    let prefix = format!("v2;{listing};");
    process.node.servers().any(|(other, record)| other == server && record.starts_with(&prefix))
}

const fn index_of(caller: u64) -> usize {
    caller as usize - 1
}

/// A voter's address.
pub(crate) fn voter(number: u32) -> VoterAddress {
    if number.is_multiple_of(4) {
        VoterAddress::V6(vote_status::vote::ipv6::Ipv6Network(0x2001_0db8_0000_0000 | u64::from(number) << 8))
    } else {
        VoterAddress::V4(vote_status::vote::ipv4::Ipv4(number))
    }
}
