//! Tests of what a node knows: each test gives the facts, and the votes that are shown.

use super::{Join, Knowledge, Overlay};
use crate::cluster::wire::answer::Gone;
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::store::{Event, StoredVote};
use crate::vote::address::VoterAddress;
use crate::vote::id::{ServerId, Token};
use crate::vote::ipv4::Ipv4;
use crate::vote::table::{CooldownTable, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};

const SERVER: ServerId = ServerId(28);
const OTHER: ServerId = ServerId(29);
const VOTER: VoterAddress = VoterAddress::V4(Ipv4(7));
const PAIR: Pair = Pair { server: SERVER, address: VOTER };
const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

fn listing(stamp: u64) -> Listing {
    Listing::read(&format!("{stamp:016}-{stamp:016x}")).expect("it is a listing")
}

fn record(stamp: u64, since: u64, token: &str) -> Record {
    Record { listing: listing(stamp), stamp: since, token: Token::new(token).expect("it is a token") }
}

const fn said(server: ServerId, fact: Fact) -> Said {
    Said { server, fact }
}

fn listed(server: ServerId, record: Record) -> Said {
    said(server, Fact::Listed(record))
}

/// Joins facts to this knowledge and to a vote that is shown. Gives the answer, the events and the new facts.
fn join<T>(
    known: &mut Knowledge,
    voted_at: Option<UnixSeconds>,
    take: impl FnOnce(&mut Join<'_>) -> T,
) -> (T, Vec<Event>, Vec<Said>) {
    let mut table = CooldownTable::default();
    if let Some(voted_at) = voted_at {
        table.insert(PAIR, Cooldown::USUAL.expires_at(voted_at));
    }
    let (shown, mut overlay) = (table.view(), Overlay::default());
    let mut join = Join::new(known, &shown, &mut overlay, Cooldown::USUAL, NOW);
    let taken = take(&mut join);
    let (events, fresh) = join.end();
    (taken, events, fresh)
}

/// A node that knows one server, under the listing of stamp 20.
fn knowledge() -> Knowledge {
    let mut known = Knowledge::default();
    join(&mut known, None, |join| join.take(listed(SERVER, record(20, 20, "demo"))));
    known
}

/// The tokens of both servers, as they are shown.
fn tokens(known: &Knowledge) -> [Option<String>; 2] {
    let snapshot = known.snapshot();
    [SERVER, OTHER].map(|server| snapshot.token(server).map(|token| token.as_str().to_owned()))
}

#[test]
fn a_node_knows_nothing_without_a_server_and_without_an_ended_listing() {
    let of = |gone| {
        let mut known = Knowledge::default();
        known.note_gone(gone);
        known
    };
    assert!(Knowledge::default().is_empty());
    assert!(of(Gone::Vote(SERVER, NOW, VOTER)).is_empty(), "a removed vote is of no listing");
    assert!(!of(Gone::Listing(SERVER, listing(20))).is_empty());
    assert!(!knowledge().is_empty());
}

#[test]
fn a_removal_is_forgotten_at_the_instant_at_which_its_vote_would_be_over() {
    let left = |at| {
        let mut known = Knowledge::default();
        known.note_gone(Gone::Vote(SERVER, at, VOTER));
        known.forget_over(NOW, Cooldown::USUAL);
        known.gone()
    };
    let live = NOW.minus(5_399);
    assert_eq!(left(live), [said(SERVER, Fact::VoteGone(live, VOTER))]);
    assert_eq!(left(NOW.minus(5_400)), []);
}

#[test]
fn a_removal_is_shown_where_no_vote_up_to_its_instant_stands() {
    let at = NOW.minus(60);
    let has = |voted_at| join(&mut knowledge(), voted_at, |join| join.has(&said(SERVER, Fact::VoteGone(at, VOTER)))).0;
    assert!(has(None));
    assert!(has(Some(at.plus(1))), "a later vote is another one");
    assert!(!has(Some(at)));
    assert!(!has(Some(at.minus(1))));
}

#[test]
fn a_vote_is_shown_where_it_or_a_later_one_stands_under_its_listing() {
    let at = NOW.minus(60);
    let has = |stamp, voted_at| {
        let vote = said(SERVER, Fact::Vote(listing(stamp), at, VOTER));
        join(&mut knowledge(), voted_at, |join| join.has(&vote)).0
    };
    assert!(has(20, Some(at)));
    assert!(has(20, Some(at.plus(1))));
    assert!(!has(20, Some(at.minus(1))));
    assert!(!has(20, None), "the listing alone shows no vote");
    assert!(!has(10, Some(at)), "the vote that stands is of another listing");
}

#[test]
fn a_listing_changes_by_its_end_and_by_another_one_and_by_nothing_else() {
    let changes = |said: Said| join(&mut knowledge(), None, |join| join.changes_listing(&said)).0;
    assert!(changes(said(SERVER, Fact::ListingGone(listing(20)))));
    assert!(changes(listed(SERVER, record(30, 30, "demo"))));
    assert!(changes(listed(OTHER, record(20, 20, "demo"))), "that server is not listed");
    assert!(!changes(listed(SERVER, record(20, 25, "new"))), "a changed token begins no listing");
    assert!(!changes(said(SERVER, Fact::Vote(listing(30), NOW, VOTER))));
    assert!(!changes(said(SERVER, Fact::VoteGone(NOW, VOTER))));
}

#[test]
fn a_vote_is_joined_until_its_cooldown_is_over() {
    let vote = |at| said(SERVER, Fact::Vote(listing(20), at, VOTER));
    let joined = |at| {
        let ((), events, fresh) = join(&mut knowledge(), None, |join| join.take(vote(at)));
        (events, fresh)
    };
    let live = NOW.minus(5_399);
    assert_eq!(joined(live), (vec![Event::Vote(StoredVote { pair: PAIR, voted_at: live })], vec![vote(live)]));
    assert_eq!(joined(NOW.minus(5_400)), (vec![], vec![]));
}

#[test]
fn of_two_servers_with_one_token_the_later_one_keeps_it() {
    let owned = |text: &str| Some(text.to_owned());
    let spare = |stamp| owned(record(stamp, stamp, "demo").spare().token.as_str());
    for (stamp, expected) in [(10, [owned("demo"), spare(10)]), (30, [spare(20), owned("demo")])] {
        let mut known = knowledge();
        join(&mut known, None, |join| join.take(listed(OTHER, record(stamp, stamp, "demo"))));
        assert_eq!(tokens(&known), expected, "the other server has its token since {stamp}");
    }
}

#[test]
fn a_server_that_has_its_token_anew_is_shown_once() {
    let anew = record(20, 25, "demo");
    let mut known = knowledge();
    let ((), events, fresh) = join(&mut known, None, |join| join.take(listed(SERVER, anew.clone())));
    assert_eq!(events, [Event::Server(SERVER, anew.token.clone())]);
    assert_eq!(fresh, [listed(SERVER, anew.clone())]);
    assert_eq!((known.record(SERVER), tokens(&known)), (Some(&anew), [Some("demo".to_owned()), None]));
}
