//! Changes on their way: each test gives the store's answers.

use super::{NextStep, Pending, WantedChange, WantedServer};
use crate::cluster::node::tests::{SERVER, VOTER, at, record};
use crate::cluster::wire::answer::{Done, StoreReply};
use crate::cluster::wire::fact::{Fact, Listing, Record, Said};
use crate::cluster::wire::question::{StoreCall, StoreQuestion};
use crate::vote::id::{ServerId, Token};

fn token(text: &str) -> Token {
    Token::new(text).expect("a token")
}

fn pending(change: WantedChange) -> Pending {
    Pending::new(change, 1, 3_000)
}

/// The call of a change, or its outcome without one, where its server has this record.
fn decided(change: WantedChange, before: Option<Record>) -> Result<StoreCall, Done> {
    let mut pending = pending(change);
    assert!(matches!(pending.begin(), NextStep::Ask(StoreQuestion::RecordOf(SERVER))));
    match pending.answered(StoreReply::RecordOf(before), 77) {
        Some(NextStep::Call(SERVER, call)) => Ok(call),
        Some(NextStep::End(_, done)) => Err(done),
        step => panic!("{step:?}"),
    }
}

#[test]
fn a_vote_by_a_token_is_of_the_server_that_still_has_it() {
    for is_recorded in [false, true] {
        let server = WantedServer::Token(token("demo"));
        let (change, call) = if is_recorded {
            (WantedChange::Record(server, at(), vec![VOTER]), StoreCall::Record(at(), vec![VOTER]))
        } else {
            (WantedChange::Cast(server, Some(at()), vec![VOTER]), StoreCall::Cast(Some(at()), vec![VOTER]))
        };
        let asked = || {
            let mut pending = pending(change.clone());
            let step = pending.begin();
            assert!(
                matches!(&step, NextStep::Ask(StoreQuestion::ServerOf(asked)) if *asked == token("demo")),
                "{step:?}"
            );
            pending
        };
        let step = asked().answered(StoreReply::ServerOf(None), 0);
        assert!(matches!(step, Some(NextStep::End(None, Done::Unlisted))), "{step:?}");
        // Between the two questions the token may go to another server.
        let other = Record { token: token("other"), ..record() };
        for (before, is_its) in [(None, false), (Some(other), false), (Some(record()), true)] {
            let mut pending = asked();
            let step = pending.answered(StoreReply::ServerOf(Some(SERVER)), 0);
            assert!(matches!(step, Some(NextStep::Ask(StoreQuestion::RecordOf(SERVER)))), "{step:?}");
            let step = pending.answered(StoreReply::RecordOf(before), 0);
            let is_right = match &step {
                Some(NextStep::Call(SERVER, made)) => is_its && *made == call,
                Some(NextStep::End(None, Done::Unlisted)) => !is_its,
                _ => false,
            };
            assert!(is_right, "{step:?}");
        }
    }
}

#[test]
fn a_vote_by_an_id_is_made_at_once() {
    let by_id = || WantedServer::Id(SERVER);
    for (change, call) in [
        (WantedChange::Cast(by_id(), None, vec![VOTER]), StoreCall::Cast(None, vec![VOTER])),
        (WantedChange::Record(by_id(), at(), vec![VOTER]), StoreCall::Record(at(), vec![VOTER])),
    ] {
        let step = pending(change).begin();
        assert!(matches!(&step, NextStep::Call(SERVER, made) if *made == call), "{step:?}");
    }
}

#[test]
fn how_a_server_changes_follows_from_its_record() {
    let list = |said: Option<&str>| WantedChange::List {
        server: SERVER,
        said: said.map(token),
        spare: token("spare"),
        bits: 5,
    };
    let call = |before, name, listing_bits| StoreCall::List { before, token: token(name), listing_bits, stamp: 77 };
    assert_eq!(decided(list(None), None), Ok(call(None, "spare", 5)));
    assert_eq!(decided(list(Some("new")), Some(record())), Ok(call(Some(record()), "new", 5)));
    assert_eq!(decided(list(None), Some(record())), Err(Done::SameToken(record())));
    let rotate = || WantedChange::Rotate(SERVER, token("new"));
    assert_eq!(decided(rotate(), Some(record())), Ok(call(Some(record()), "new", 0)));
    assert_eq!(decided(rotate(), None), Err(Done::Unlisted));
    assert_eq!(decided(WantedChange::Remove(SERVER), Some(record())), Ok(StoreCall::Remove(record().listing)));
    assert_eq!(decided(WantedChange::Remove(SERVER), None), Err(Done::Unlisted));
}

/// Another node made a change between a question and the call: the node asks again, three times at most.
#[test]
fn a_call_that_found_another_state_is_made_anew_three_times() {
    let mut cancelling = pending(WantedChange::Cancel(SERVER, VOTER));
    let mut removing = pending(WantedChange::Remove(SERVER));
    for tries in 0..=3 {
        let begun = if tries == 0 { Some(cancelling.begin()) } else { None };
        assert!(begun.is_none_or(|step| matches!(step, NextStep::Ask(StoreQuestion::VoteOf(SERVER, VOTER)))));
        let step = cancelling.answered(StoreReply::VoteOf(Some(at())), 0);
        assert!(matches!(step, Some(NextStep::Call(SERVER, StoreCall::Cancel(VOTER, of))) if of == at()), "{step:?}");
        let step = cancelling.answered(StoreReply::Done(Done::OtherVote(Some(at())), None), 0);
        match step {
            Some(NextStep::Ask(StoreQuestion::VoteOf(SERVER, VOTER))) => assert!(tries < 3, "try {tries}"),
            Some(NextStep::End(Some(SERVER), Done::OtherVote(_))) => assert_eq!(tries, 3),
            step => panic!("{step:?}"),
        }

        if tries == 0 {
            removing.begin();
        }
        removing.answered(StoreReply::RecordOf(Some(record())), 0);
        let step = removing.answered(StoreReply::Done(Done::OtherRecord(None), None), 0);
        match step {
            Some(NextStep::Ask(StoreQuestion::RecordOf(SERVER))) => assert!(tries < 3, "try {tries}"),
            Some(NextStep::End(Some(SERVER), Done::OtherRecord(None))) => assert_eq!(tries, 3),
            step => panic!("{step:?}"),
        }
    }
    // No vote stands, so there is nothing to ask for again.
    let mut cancelling = pending(WantedChange::Cancel(SERVER, VOTER));
    cancelling.begin();
    cancelling.answered(StoreReply::VoteOf(None), 0);
    let step = cancelling.answered(StoreReply::Done(Done::OtherVote(None), None), 0);
    assert!(matches!(step, Some(NextStep::End(Some(SERVER), Done::OtherVote(None)))), "{step:?}");
}

#[test]
fn an_answer_to_another_question_makes_no_sense() {
    for reply in [StoreReply::RecordOf(None), StoreReply::VoteOf(None), StoreReply::Done(Done::Unlisted, None)] {
        let mut pending = pending(WantedChange::Cast(WantedServer::Token(token("demo")), None, vec![VOTER]));
        pending.begin();
        assert!(pending.answered(reply, 0).is_none());
    }
}

#[test]
fn a_made_change_has_its_outcome_once_the_log_has_brought_it() {
    let mut pending = pending(WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER]));
    assert!(!pending.is_called() && pending.is_vote() && pending.leaves_no_other_vote());
    pending.begin();
    assert!(pending.is_called());
    pending.wait_for_log(Some(SERVER), Done::Recorded(at(), record()));
    assert_eq!((pending.made(), pending.is_called()), (None, true));
    pending.is_seen = true;
    assert_eq!(pending.made(), Some((Some(SERVER), Done::Recorded(at(), record()))));
}

#[test]
fn votes_are_told_from_other_changes() {
    let told = |change: WantedChange| (pending(change.clone()).is_vote(), pending(change).leaves_no_other_vote());
    let by_id = || WantedServer::Id(SERVER);
    assert_eq!(told(WantedChange::Cast(by_id(), None, vec![VOTER])), (true, true));
    assert_eq!(told(WantedChange::Record(by_id(), at(), vec![VOTER])), (true, false));
    assert_eq!(told(WantedChange::Cancel(SERVER, VOTER)), (false, true));
    assert_eq!(told(WantedChange::Remove(SERVER)), (false, false));
}

#[test]
fn the_facts_of_an_outcome_are_those_that_the_log_will_bring() {
    let said = |fact| Said { server: SERVER, fact };
    let listing = Listing::read("1900000000000000-00000000000000cd").expect("a listing");
    let voting = pending(WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER]));
    assert_eq!(
        voting.facts(Some(SERVER), &Done::Recorded(at(), record())),
        [said(Fact::Listed(record())), said(Fact::Vote(record().listing, at(), VOTER))]
    );
    assert_eq!(voting.facts(None, &Done::Recorded(at(), record())), []);
    assert_eq!(voting.facts(Some(SERVER), &Done::Unchanged(at())), []);
    let cancelling = pending(WantedChange::Cancel(SERVER, VOTER));
    assert_eq!(cancelling.facts(Some(SERVER), &Done::Cancelled(at())), [said(Fact::VoteGone(at(), VOTER))]);
    let removing = pending(WantedChange::Remove(ServerId(28)));
    assert_eq!(removing.facts(Some(SERVER), &Done::Removed(listing)), [said(Fact::ListingGone(listing))]);
    let rotating = pending(WantedChange::Rotate(SERVER, token("new")));
    for done in [Done::Listed(record()), Done::TokenChanged(record())] {
        assert_eq!(rotating.facts(Some(SERVER), &done), [said(Fact::Listed(record()))]);
    }
}
