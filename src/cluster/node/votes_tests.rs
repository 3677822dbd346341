//! The votes' connection: when it opens, what an answer on it shows, and which changes it takes.

use super::caller_tests::cast;
use super::changes::ChangeOutcome;
use super::output::{NodeLine, Output};
use super::tests::{Played, SERVER, STORE_MS, VOTER, at, entry, record};
use crate::cluster::wire::answer::{Done, RefusalKind, StoreRefusal, StoreReply};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::{StoreCall, StoreQuestion, Terms};

/// The connections that a tick asks for.
fn connects(played: &mut Played, after_ms: u64) -> Vec<NodeLine> {
    played.now_ms += after_ms;
    played.node.tick(played.now_ms);
    let line = |output| if let Output::Connect(line) = output { Some(line) } else { None };
    played.node.outputs().into_iter().filter_map(line).collect()
}

/// A node with a change, and the terms of the call that was asked for it.
fn asked() -> (Played, Terms) {
    let mut played = Played::following(Vec::new());
    played.change(7, cast());
    let StoreQuestion::Change(_, _, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
    (played, terms)
}

fn refuse(played: &mut Played, kind: RefusalKind) {
    let refusal = StoreRefusal { kind, text: "no".to_owned() };
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Refused(refusal));
}

#[test]
fn the_votes_connection_opens_behind_the_feed_s_first_one_and_needs_none_later() {
    let mut played = Played::new();
    assert_eq!(connects(&mut played, 0), [NodeLine::Feed]);
    played.node.connected(NodeLine::Feed, "process", played.now_ms);
    assert_eq!(connects(&mut played, 1), [NodeLine::Votes], "no state is read yet");
    let mut played = Played::following(Vec::new());
    played.lose(NodeLine::Feed);
    played.lose(NodeLine::Votes);
    let mut lines = connects(&mut played, 500);
    lines.sort_unstable_by_key(|line| *line as usize);
    assert_eq!(lines, [NodeLine::Feed, NodeLine::Votes]);
}

#[test]
fn a_change_has_a_term_by_the_last_answer_on_its_connection() {
    let mut played = Played::following(Vec::new());
    played.tick(400);
    played.change(1, cast());
    let StoreQuestion::Change(server, call, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
    assert_eq!((server, call, terms.until_ms), (SERVER, StoreCall::Cast(None, vec![VOTER]), Some(STORE_MS + 3_400)));
    assert_eq!(terms.last, entry(1));
    let made = Some(Last { bits: terms.bits, ..entry(2) });
    played.reply(NodeLine::Votes, Some(STORE_MS + 400), StoreReply::Done(Done::Recorded(at(), record()), made));
    assert_eq!(played.voted_at(), Some(at()), "it is shown before anybody is told");
    assert_eq!(played.answers, [(1, ChangeOutcome::Decided(Some(SERVER), Done::Recorded(at(), record())))]);
    // An older answer gives no term.
    played.tick(1_000);
    played.asked[1].clear();
    played.change(2, cast());
    assert!(played.asked[1].is_empty(), "{:?}", played.asked[1]);
}

#[test]
fn behind_a_second_without_an_answer_the_store_is_asked_before_a_change() {
    let mut played = Played::following(Vec::new());
    played.tick(999);
    assert!(played.asked[NodeLine::Votes as usize].is_empty());
    played.tick(1);
    played.change(7, cast());
    played.head(NodeLine::Votes, true);
    assert!(matches!(played.next(NodeLine::Votes), StoreQuestion::Change(..)));
}

#[test]
fn a_store_that_does_not_answer_for_three_seconds_loses_the_votes_connection() {
    let mut played = Played::following(Vec::new());
    for count in 10..13 {
        played.tick(1_000);
        played.beat(&[(count, 0)]);
    }
    assert!(matches!(played.asked[NodeLine::Votes as usize][..], [StoreQuestion::Head(_)]));
    assert!(played.node.votes.is_up());
    played.tick(1_000);
    assert!(!played.node.votes.is_up());
}

#[test]
fn a_change_that_waits_for_its_connection_is_forgotten_with_its_deadline() {
    let mut played = Played::following(Vec::new());
    played.lose(NodeLine::Votes);
    played.tick(500);
    played.change(7, cast());
    assert_eq!(played.node.queued.len(), 1);
    for count in 10..13 {
        played.beat(&[(count, 0)]);
        played.tick(1_000);
    }
    assert!(matches!(played.answers[..], [(7, ChangeOutcome::Unavailable(_))]), "{:?}", played.answers);
    assert!(played.node.queued.is_empty());
}

/// Regression: a change that had waited was called with 2 ms left. Its late answer ended the connection, and all changes that
/// were on it were in doubt.
#[test]
fn a_change_without_time_for_an_answer_is_not_called() {
    let asked_behind = |last_ms, barrier: Option<&str>| {
        let mut played = Played::following(Vec::new());
        played.tick(1_000);
        played.change(7, cast());
        for (count, after_ms) in (10..).zip([900, 900, last_ms]) {
            played.beat(&[(count, 0)]);
            played.tick(after_ms);
        }
        played.change(8, cast());
        played.node.bar(barrier.map(str::to_owned));
        played.head(NodeLine::Votes, true);
        (played.asked[NodeLine::Votes as usize].len(), played.answers)
    };
    let unavailable = |caller, why: &str| (caller, ChangeOutcome::Unavailable(why.to_owned()));
    assert_eq!(asked_behind(900, None), (2, vec![]), "300 ms are left");
    let why = "UNSETTLED store: the change has waited too long";
    assert_eq!(asked_behind(901, None), (1, vec![unavailable(7, why)]), "the other one is called");
    let full = "FULL disk";
    assert_eq!(asked_behind(901, Some(full)), (0, vec![unavailable(7, full), unavailable(8, full)]));
}

#[test]
fn an_entry_that_the_votes_connection_misses_is_a_suspicion_and_the_connection_stays() {
    let mut played = Played::following(Vec::new());
    played.tick(1_000);
    played.head(NodeLine::Votes, false);
    assert!(played.node.is_suspect && played.node.votes.is_up());
}

#[test]
fn a_store_that_is_elsewhere_by_now_loses_the_votes_connection() {
    let (mut played, _) = asked();
    refuse(&mut played, RefusalKind::Elsewhere);
    assert!(matches!(played.answers[..], [(7, ChangeOutcome::Unavailable(_))]), "{:?}", played.answers);
    assert!(!played.node.votes.is_up() && !played.node.is_suspect);
}

#[test]
fn an_outcome_without_an_entry_is_told_at_once() {
    let (mut played, _) = asked();
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::InCooldown(VOTER, at()), None));
    let told = ChangeOutcome::Decided(Some(SERVER), Done::InCooldown(VOTER, at()));
    assert_eq!(played.answers, [(7, told)]);
}

#[test]
fn a_node_shows_no_entry_as_its_last_one_while_it_lacks_one_before() {
    let (mut played, terms) = asked();
    assert_eq!(played.node.shown_to(), Some(entry(1)));
    let beyond = Last { bits: terms.bits, ..entry(3) };
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::Recorded(at(), record()), Some(beyond)));
    assert_eq!(played.node.shown_to(), None);
}

#[test]
fn a_node_tells_the_records_of_its_servers() {
    let played = Played::following(Vec::new());
    let servers: Vec<_> = played.node.servers().collect();
    assert_eq!(servers, [(SERVER, record().to_string())]);
}
