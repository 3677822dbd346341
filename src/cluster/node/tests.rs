//! Tests of the machine alone: each test plays the store.

use super::bounds::Bounds;
use super::changes::{ChangeOutcome, WantedChange, WantedServer};
use super::output::{NodeLine, NodeStanding, Note, Output};
use super::{NodeMachine, Start};
use crate::cluster::entry::EntryId;
use crate::cluster::state::FullState;
use crate::cluster::wire::answer::{
    Done, Entry, EntryFact, Given, LogItem, NodeRecord, RefusalKind, StoreAnswer, StoreRefusal, StoreReply,
};
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::{OwnRecord, StoreCall, StoreQuestion};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::table::{CooldownTable, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

pub(super) const STORE_MS: u64 = 1_800_000_000_000;
pub(super) const SERVER: ServerId = ServerId(28);
pub(super) const VOTER: VoterAddress = VoterAddress::V4(Ipv4(7));

/// A node, and the state that it shows.
pub(super) struct Played {
    pub(super) node: NodeMachine,
    shown: FullState,
    pub(super) now_ms: u64,
    pub(super) asked: [Vec<StoreQuestion>; 2],
    pub(super) answers: Vec<(u64, ChangeOutcome)>,
    pub(super) notes: Vec<Note>,
}

pub(super) fn entry(n: u64) -> Last {
    Last { n, id: EntryId { ms: STORE_MS + n, sequence: 0 }, bits: 1_000_000 + n.cast_signed() }
}

pub(super) fn record() -> Record {
    let listing = Listing::read("1800000000000000-00000000000000ab").expect("a listing");
    Record { listing, stamp: 1_800_000_000_000_000, token: Token::new("demo").expect("a token") }
}

pub(super) fn at() -> UnixSeconds {
    UnixSeconds(1_799_999_990)
}

/// A server, as a part of the directory has it.
pub(super) type Listed = (ServerId, Option<Record>);

/// The identity and the settings of a store with this last entry.
pub(super) fn meta(last: Last) -> StoreReply {
    let (store, schema) = ("store".to_owned(), "3".to_owned());
    StoreReply::Meta { store, schema, cooldown_s: 5_400, prefix: 64, last, stamp: 0 }
}

fn head(is_held: bool, last: Last) -> StoreReply {
    let [store, schema, version] = ["store", "3", "version"].map(str::to_owned);
    StoreReply::Head { is_held, last, store, schema, version }
}

impl Played {
    pub(super) fn new() -> Self {
        let settings = Settings { cooldown: Cooldown::USUAL, ipv6_prefix: Ipv6Prefix::USUAL };
        let shown = FullState { table: CooldownTable::default(), servers: Snapshot::default() };
        let (bounds, name, view) = (Bounds::USUAL, "me".to_owned(), shown.table.view());
        let version = "version".to_owned();
        let node = NodeMachine::new(Start { bounds, settings, name, store: None, version, seed: [1, 2], shown: view });
        Self { node, shown, now_ms: 1_000, asked: [Vec::new(), Vec::new()], answers: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn carry_out(&mut self) {
        for output in self.node.outputs() {
            match output {
                Output::Ask(line, question) => self.asked[line as usize].push(question),
                Output::Show(events) => self.shown.apply(&events, Cooldown::USUAL),
                Output::Replace(mut state) => {
                    self.shown.servers = std::mem::take(&mut state.servers);
                    self.shown.table.exchange(&mut state.table);
                }
                Output::Answer(caller, outcome) => self.answers.push((caller, outcome)),
                Output::Close(line) => self.asked[line as usize].clear(),
                Output::Note(note) => self.notes.push(note),
                Output::Connect(_) | Output::Keep(_) => {}
            }
        }
    }

    pub(super) fn tick(&mut self, after_ms: u64) {
        self.now_ms += after_ms;
        self.node.tick(self.now_ms);
        self.carry_out();
    }

    pub(super) fn connect(&mut self, line: NodeLine) {
        self.node.connected(line, "process", self.now_ms);
        self.carry_out();
    }

    /// Plays a connection that is lost, with all that was asked on it.
    pub(super) fn lose(&mut self, line: NodeLine) {
        self.node.lost(line, self.now_ms);
        self.carry_out();
        self.asked[line as usize].clear();
    }

    /// The next question on a connection.
    pub(super) fn next(&mut self, line: NodeLine) -> StoreQuestion {
        assert!(!self.asked[line as usize].is_empty(), "nothing is asked on {line:?}: {:?}", self.node.standing());
        self.asked[line as usize].remove(0)
    }

    pub(super) fn reply(&mut self, line: NodeLine, now_ms: Option<u64>, reply: StoreReply) {
        self.node.answered(line, StoreAnswer { now_ms, reply }, self.now_ms);
        self.carry_out();
    }

    pub(super) fn head(&mut self, line: NodeLine, is_held: bool) {
        let question = self.next(line);
        assert!(matches!(question, StoreQuestion::Head(_)), "{question:?}");
        self.reply(line, Some(STORE_MS), head(is_held, entry(1)));
    }

    /// Answers a whole reading: one server, these votes, and nothing taken away.
    pub(super) fn read(&mut self, votes: Vec<(VoterAddress, UnixSeconds)>) {
        self.read_up_to(entry(1), &[(SERVER, Some(record()))], &votes);
    }

    /// Answers a whole reading of a store with this last entry. The log behind that entry is empty.
    pub(super) fn read_up_to(&mut self, last: Last, servers: &[Listed], votes: &[(VoterAddress, UnixSeconds)]) {
        loop {
            let reply = match self.next(NodeLine::Feed) {
                StoreQuestion::Meta => meta(last),
                StoreQuestion::Servers(..) => StoreReply::Servers("0".to_owned(), servers.to_vec()),
                StoreQuestion::Votes(..) => StoreReply::Votes(votes.to_vec()),
                StoreQuestion::Gone(..) => StoreReply::Gone(Vec::new(), 0),
                StoreQuestion::Log(..) => StoreReply::Log(Vec::new()),
                StoreQuestion::Head(of) => {
                    assert_eq!(of, last);
                    return self.reply(NodeLine::Feed, Some(STORE_MS), head(true, last));
                }
                other => panic!("{other:?}"),
            };
            self.reply(NodeLine::Feed, None, reply);
        }
    }

    /// Plays a store that has forgotten all votes, and all that came behind the listing: the node reads it whole.
    pub(super) fn forget(&mut self) {
        self.lose(NodeLine::Feed);
        self.tick(200);
        self.connect(NodeLine::Feed);
        self.head(NodeLine::Feed, false);
        self.read(Vec::new());
    }

    /// The record of this node, the next time that it is renewed. Until then the log brings nothing.
    pub(super) fn own_record(&mut self) -> OwnRecord {
        loop {
            match self.next(NodeLine::Feed) {
                StoreQuestion::Node(store, _, record) => {
                    assert_eq!(store, "store");
                    return record;
                }
                StoreQuestion::Log(..) => self.reply(NodeLine::Feed, None, StoreReply::Log(Vec::new())),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Answers the record of this node with these records of others.
    pub(super) fn beat(&mut self, others: &[(u64, u64)]) -> OwnRecord {
        let record = self.own_record();
        let other = |(at, (count, owed)): (usize, &(u64, u64))| NodeRecord {
            name: format!("other {at}"),
            count: *count,
            owed: *owed,
        };
        let records = others.iter().enumerate().map(other).collect();
        let (version, last) = ("version".to_owned(), Last::default());
        self.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::Nodes { is_held: true, last, version, records });
        record
    }

    /// A node that has read a store with these votes.
    pub(super) fn loaded(votes: Vec<(VoterAddress, UnixSeconds)>) -> Self {
        let mut played = Self::new();
        played.tick(0);
        played.connect(NodeLine::Feed);
        played.head(NodeLine::Feed, false);
        played.read(votes);
        played
    }

    /// The same, and it waits for no other node.
    pub(super) fn following(votes: Vec<(VoterAddress, UnixSeconds)>) -> Self {
        let mut played = Self::loaded(votes);
        for count in 1..9 {
            played.beat(&[(count, 0)]);
            played.tick(1_000);
        }
        assert_eq!(played.node.standing(), NodeStanding::Following);
        played.connect(NodeLine::Votes);
        played.head(NodeLine::Votes, true);
        played
    }

    pub(super) fn change(&mut self, caller: u64, change: WantedChange) {
        self.node.change(caller, change, self.now_ms);
        self.carry_out();
    }

    pub(super) fn voted_at(&self) -> Option<UnixSeconds> {
        let held = self.shown.table.expires_at(Pair { server: SERVER, address: VOTER });
        held.map(|expires_at| Cooldown::USUAL.voted_at(expires_at))
    }
}

#[test]
fn a_node_that_starts_waits_until_the_others_have_said_that_they_owe_nothing() {
    let mut played = Played::loaded(vec![(VOTER, at())]);
    assert_eq!(played.voted_at(), Some(at()), "it is shown at once");
    for count in 1..6 {
        played.beat(&[(count, 2)]);
        played.tick(1_000);
        assert_eq!(played.node.standing(), NodeStanding::Waiting);
    }
    played.beat(&[(9, 0)]);
    assert_eq!(played.node.standing(), NodeStanding::Following);
}

/// Regression: the node looked for the earliest deadline at the smallest number only.
#[test]
fn each_change_ends_by_its_own_deadline() {
    let mut played = Played::loaded(Vec::new());
    for (count, caller) in (1..).zip([3, 2, 1]) {
        played.beat(&[(count, 2)]);
        played.change(caller, WantedChange::Cancel(SERVER, VOTER));
        played.tick(1_000);
    }
    assert!(matches!(played.answers[..], [(3, ChangeOutcome::Unavailable(_))]), "{:?}", played.answers);
}

#[test]
fn a_cancellation_names_the_vote_that_stands() {
    let mut played = Played::following(vec![(VOTER, at())]);
    played.change(1, WantedChange::Cancel(SERVER, VOTER));
    assert_eq!(played.next(NodeLine::Votes), StoreQuestion::VoteOf(SERVER, VOTER));
    played.reply(NodeLine::Votes, None, StoreReply::VoteOf(Some(at())));
    let StoreQuestion::Change(_, call, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
    assert_eq!(call, StoreCall::Cancel(VOTER, at()));
    let made = Some(Last { bits: terms.bits, ..entry(2) });
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::Cancelled(at()), made));
    assert_eq!((played.voted_at(), played.answers.len()), (None, 1));
}

#[test]
fn while_a_live_node_owes_votes_are_taken_and_nothing_else() {
    let mut played = Played::following(Vec::new());
    played.beat(&[(20, 5)]);
    assert_eq!(played.node.refusal(true, played.now_ms), None);
    assert!(played.node.refusal(false, played.now_ms).is_some());
    played.tick(1_000);
    played.beat(&[(21, 0)]);
    assert_eq!(played.node.refusal(false, played.now_ms), None);
}

#[test]
fn what_the_store_has_lost_is_shown_and_given_back() {
    let mut played = Played::following(vec![(VOTER, at())]);
    played.forget();
    assert_eq!((played.voted_at(), played.node.standing()), (Some(at()), NodeStanding::GivingBack(1)));
    assert!(played.node.refusal(true, played.now_ms).is_some());
    assert_eq!((played.node.owed_len(), played.beat(&[(10, 0)]).owed), (1, 1));
    let StoreQuestion::Change(server, StoreCall::Give(facts), terms) = played.next(NodeLine::Feed) else {
        panic!("nothing is given")
    };
    assert_eq!((server, terms.until_ms), (SERVER, None));
    assert_eq!(facts, [Fact::Vote(record().listing, at(), VOTER)]);
    let given = vec![Given::Stands];
    played.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::Done(Done::Given(given), Some(entry(2))));
    assert_eq!(played.node.standing(), NodeStanding::Following);
    // Regression: if a store lost the fact again, before the log brought it, the node did not notice.
    let StoreQuestion::Node(_, last, record) = played.next(NodeLine::Feed) else { panic!("the others are not told") };
    assert_eq!((last, record.owed), (entry(2), 0));
}

#[test]
fn what_the_log_brings_is_owed_no_more_and_a_fork_is_seen() {
    let mut played = Played::following(vec![(VOTER, at())]);
    let fact = EntryFact::Other(Said { server: SERVER, fact: Fact::VoteGone(at(), VOTER) });
    let next = Entry { last: entry(2), before: entry(1).mark(), facts: vec![fact] };
    played.beat(&[(10, 0)]);
    played.next(NodeLine::Feed);
    played.reply(
        NodeLine::Feed,
        None,
        StoreReply::Log(vec![LogItem::Strange(EntryId { ms: STORE_MS + 2, sequence: 0 }), LogItem::Entry(next)]),
    );
    assert_eq!((played.voted_at(), played.node.position()), (None, entry(2)));
    let forked = Entry { last: entry(3), before: "7".to_owned(), facts: Vec::new() };
    played.next(NodeLine::Feed);
    played.reply(NodeLine::Feed, None, StoreReply::Log(vec![LogItem::Entry(forked)]));
    assert_eq!(played.node.standing(), NodeStanding::Judging);
}

/// Regression: a vote given back under a former listing was shown under the present listing, which the store had lost.
#[test]
fn a_vote_of_the_log_is_of_the_listing_that_the_store_has_there() {
    let mut played = Played::following(Vec::new());
    let said = |fact| EntryFact::Other(Said { server: SERVER, fact });
    let listing = Listing::read("1900000000000000-00000000000000cd").expect("a listing");
    let anew = || {
        let record = Record { listing, stamp: 1_900_000_000_000_000, ..record() };
        vec![said(Fact::ListingGone(super::tests::record().listing)), said(Fact::Listed(record))]
    };
    let brings = |played: &mut Played, n: u64, facts| {
        loop {
            let reply = match played.next(NodeLine::Feed) {
                StoreQuestion::Log(..) => break,
                StoreQuestion::Change(_, StoreCall::Give(_), _) => {
                    StoreReply::Refused(StoreRefusal { kind: RefusalKind::Other, text: "OOM".to_owned() })
                }
                StoreQuestion::Node(_, last, _) => {
                    StoreReply::Nodes { is_held: true, last, version: "version".to_owned(), records: Vec::new() }
                }
                other => panic!("{other:?}"),
            };
            played.reply(NodeLine::Feed, Some(STORE_MS), reply);
        }
        let next = Entry { last: entry(n), before: entry(n - 1).mark(), facts };
        played.reply(NodeLine::Feed, None, StoreReply::Log(vec![LogItem::Entry(next)]));
    };
    played.beat(&[(10, 0)]);
    brings(&mut played, 2, anew());
    played.forget();
    assert!(matches!(played.node.standing(), NodeStanding::GivingBack(_)));
    played.beat(&[(11, 0)]);
    let vote = || vec![EntryFact::Vote(SERVER, at(), VOTER)];
    brings(&mut played, 2, vote());
    assert_eq!(played.voted_at(), None);
    brings(&mut played, 3, [anew(), vote()].concat());
    assert_eq!(played.voted_at(), Some(at()));
}

#[test]
fn a_store_that_lost_what_the_caller_knows_does_nothing() {
    let mut played = Played::following(Vec::new());
    played.change(1, WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER]));
    played.next(NodeLine::Votes);
    let refusal = StoreRefusal { kind: RefusalKind::Lost, text: "VSLOST".to_owned() };
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Refused(refusal));
    assert!(matches!(played.answers[..], [(1, ChangeOutcome::Unavailable(_))]), "{:?}", played.answers);
    assert_eq!(played.node.standing(), NodeStanding::Judging);
}

#[test]
fn after_a_pause_changes_are_refused() {
    let mut played = Played::following(Vec::new());
    played.now_ms += 5_000;
    played.change(1, WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER]));
    assert!(matches!(played.answers[..], [(1, ChangeOutcome::Unavailable(_))]), "{:?}", played.answers);
}

/// Regression: a reply told of a vote, and the log then brought a later vote and the end of the later one. The node showed none.
#[test]
fn a_vote_behind_one_that_was_taken_away_stands_in_any_order() {
    let later = |seconds| UnixSeconds(at().0 + seconds);
    let taken = |seconds| EntryFact::Other(Said { server: SERVER, fact: Fact::VoteGone(later(seconds), VOTER) });
    let made = |seconds| EntryFact::Vote(SERVER, later(seconds), VOTER);
    for facts in [[made(5), taken(5), made(6)], [made(6), taken(5), made(5)], [made(6), made(5), taken(5)]] {
        let mut played = Played::following(vec![(VOTER, at())]);
        played.beat(&[(10, 0)]);
        played.next(NodeLine::Feed);
        let entries = (2..)
            .zip(facts)
            .map(|(n, fact)| LogItem::Entry(Entry { last: entry(n), before: entry(n - 1).mark(), facts: vec![fact] }));
        played.reply(NodeLine::Feed, None, StoreReply::Log(entries.collect()));
        assert_eq!(played.voted_at(), Some(later(6)));
    }
}

/// Regression: a reply told of the next listing, and the node took earlier votes of the log for votes under that listing.
#[test]
fn how_servers_are_listed_follows_the_log_alone() {
    let mut played = Played::following(Vec::new());
    played.beat(&[(10, 0)]);
    played.change(1, WantedChange::Remove(SERVER));
    played.next(NodeLine::Votes);
    played.reply(NodeLine::Votes, None, StoreReply::RecordOf(Some(record())));
    let StoreQuestion::Change(_, StoreCall::Remove(listing), terms) = played.next(NodeLine::Votes) else {
        panic!("no call")
    };
    let removed = Last { bits: terms.bits, ..entry(3) };
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::Removed(listing), Some(removed)));
    assert!(played.answers.is_empty(), "it is not shown yet");
    let vote = Entry { last: entry(2), before: entry(1).mark(), facts: vec![EntryFact::Vote(SERVER, at(), VOTER)] };
    let gone = EntryFact::Other(Said { server: SERVER, fact: Fact::ListingGone(listing) });
    let end = Entry { last: removed, before: entry(2).mark(), facts: vec![gone] };
    played.next(NodeLine::Feed);
    played.reply(NodeLine::Feed, None, StoreReply::Log(vec![LogItem::Entry(vote), LogItem::Entry(end)]));
    assert_eq!(played.voted_at(), None);
    assert_eq!(played.answers, [(1, ChangeOutcome::Decided(Some(SERVER), Done::Removed(listing)))]);
}

/// Regression: the log brought a vote, and the store forgot it. A second vote on its way there was acknowledged, in the cooldown.
#[test]
fn a_vote_over_one_that_counts_is_told_once_the_log_has_brought_it() {
    let later = UnixSeconds(at().0 + 9);
    let vote = |n, bits, facts| {
        let last = Last { bits, ..entry(n) };
        (last, LogItem::Entry(Entry { last, before: entry(n - 1).mark(), facts }))
    };
    let cast = || {
        let mut played = Played::following(Vec::new());
        played.beat(&[(10, 0)]);
        played.change(1, WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER]));
        let StoreQuestion::Change(_, _, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
        let (_, known) = vote(2, entry(2).bits, vec![EntryFact::Vote(SERVER, at(), VOTER)]);
        played.next(NodeLine::Feed);
        played.reply(NodeLine::Feed, None, StoreReply::Log(vec![known]));
        assert_eq!(played.voted_at(), Some(at()));
        (played, terms.bits)
    };
    let done = || Done::Recorded(later, record());

    // The store has another entry in the place of the one read.
    let (mut played, bits) = cast();
    let (made, _) = vote(2, bits, Vec::new());
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(done(), Some(made)));
    assert_eq!(played.answers, [(1, ChangeOutcome::Silent)]);
    assert_eq!(played.node.standing(), NodeStanding::Judging);

    // The store may have another one: the log decides.
    for is_brought in [true, false] {
        let (mut played, bits) = cast();
        let gone = EntryFact::Other(Said { server: SERVER, fact: Fact::VoteGone(at(), VOTER) });
        let (made, brought) = vote(3, bits, vec![gone, EntryFact::Vote(SERVER, later, VOTER)]);
        played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(done(), Some(made)));
        assert!(played.answers.is_empty(), "{:?}", played.answers);
        let (_, other) = vote(3, 7, Vec::new());
        played.next(NodeLine::Feed);
        played.reply(NodeLine::Feed, None, StoreReply::Log(vec![if is_brought { brought } else { other }]));
        played.tick(3_000);
        let outcome = if is_brought { ChangeOutcome::Decided(Some(SERVER), done()) } else { ChangeOutcome::Silent };
        assert_eq!(played.answers, [(1, outcome)]);
    }
}

/// Regression: a server was removed and listed again, and another node recorded an earlier vote there. A node that had
/// read none of this cancelled that vote. It told the caller that the cooldown was over, and went on to show the vote
/// of the former listing.
#[test]
fn a_cancellation_is_told_once_no_later_vote_counts() {
    let earlier = UnixSeconds(at().0 - 9);
    for is_brought in [true, false] {
        let mut played = Played::following(vec![(VOTER, at())]);
        played.beat(&[(10, 0)]);
        played.change(1, WantedChange::Cancel(SERVER, VOTER));
        assert!(matches!(played.next(NodeLine::Votes), StoreQuestion::VoteOf(..)));
        played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::VoteOf(Some(earlier)));
        let StoreQuestion::Change(_, StoreCall::Cancel(VOTER, of), terms) = played.next(NodeLine::Votes) else {
            panic!("no call")
        };
        assert_eq!(of, earlier);
        let (removed, made) = (entry(2), Last { bits: terms.bits, ..entry(3) });
        played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::Cancelled(earlier), Some(made)));
        assert!(played.answers.is_empty(), "{:?}", played.answers);
        assert_eq!(played.voted_at(), Some(at()));

        let gone = |fact| EntryFact::Other(Said { server: SERVER, fact });
        let facts = if is_brought { vec![gone(Fact::ListingGone(record().listing))] } else { Vec::new() };
        let removal = Entry { last: removed, before: entry(1).mark(), facts };
        let facts = vec![gone(Fact::VoteGone(earlier, VOTER))];
        let cancellation = Entry { last: made, before: removed.mark(), facts };
        played.next(NodeLine::Feed);
        let log = [removal, cancellation].map(LogItem::Entry).to_vec();
        played.reply(NodeLine::Feed, None, StoreReply::Log(log));
        // A vote that the store has forgotten counts here, and will be given back: the cooldown is not over.
        let told = ChangeOutcome::Decided(Some(SERVER), Done::Cancelled(earlier));
        let (outcome, shown) = if is_brought { (told, None) } else { (ChangeOutcome::Silent, Some(at())) };
        assert_eq!((played.answers.as_slice(), played.voted_at()), (&[(1, outcome)][..], shown));
    }
}
