//! What a node tells its caller: when to come back, which changes wait, and why it makes none.

use super::bounds::Bounds;
use super::changes::{ChangeOutcome, WantedChange, WantedServer};
use super::output::{NodeLine, NodeStanding};
use super::tests::{Played, SERVER, STORE_MS, VOTER, at, entry, record};
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Done, StoreReply};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::StoreQuestion;

pub(super) fn cast() -> WantedChange {
    WantedChange::Cast(WantedServer::Id(SERVER), None, vec![VOTER])
}

/// The reasons of the refused changes, where the node has answered no other one.
fn refused(played: &Played) -> Vec<String> {
    let text = |outcome: &ChangeOutcome| match outcome {
        ChangeOutcome::Unavailable(why) => why.clone(),
        other => panic!("{other:?}"),
    };
    played.answers.iter().map(|(_, outcome)| text(outcome)).collect()
}

#[test]
fn a_node_is_due_as_soon_as_one_of_its_instants_comes() {
    let mut played = Played::new();
    assert_eq!(played.node.due_ms(), 0, "a connection is to be made");
    played.tick(0);
    // The deadline of the connection lies further ahead than the sign that the process is not paused.
    assert_eq!(played.node.due_ms(), played.now_ms + 500);

    let mut played = Played::following(Vec::new());
    // An answer of the log is due within the wait for an entry and the patience for a reply, and the heartbeat before.
    let due_ms = played.node.due_ms();
    assert!((played.now_ms..=played.now_ms + 500).contains(&due_ms), "{due_ms} at {}", played.now_ms);
    played.tick(due_ms - played.now_ms);
    assert!(played.node.due_ms() > due_ms, "it is due again at the same instant");
}

#[test]
fn a_change_is_its_caller_s_until_it_has_an_outcome() {
    let mut played = Played::following(Vec::new());
    assert_eq!((played.node.changes_len(), played.node.caller(0)), (0, None));
    played.change(7, cast());
    played.change(9, WantedChange::Cancel(SERVER, VOTER));
    let StoreQuestion::Change(_, _, terms) = played.next(NodeLine::Votes) else { panic!("no call") };
    assert_eq!((played.node.changes_len(), played.node.caller(terms.bits)), (2, Some(7)));
    assert_eq!(played.node.caller(terms.bits.wrapping_add(1)), None);
    let made = Last { bits: terms.bits, ..entry(2) };
    played.reply(NodeLine::Votes, Some(STORE_MS), StoreReply::Done(Done::Recorded(at(), record()), Some(made)));
    assert_eq!((played.node.changes_len(), played.node.caller(terms.bits)), (1, None));
    // The store told of the entry: the log does not have to bring it first.
    assert_eq!(played.node.shown_to(), Some(made));
}

#[test]
fn a_barrier_stands_until_it_is_taken_away() {
    let mut played = Played::following(Vec::new());
    played.node.bar(Some("FULL disk".to_owned()));
    played.change(1, cast());
    assert_eq!(refused(&played), ["FULL disk"]);
    played.node.bar(None);
    assert_eq!(played.node.refusal(true, played.now_ms), None);
}

/// Regression: at the bound, each change was refused at its call: the last one within it, and all that had asked a question first.
#[test]
fn so_many_changes_wait_and_no_more() {
    let mut played = Played::following(Vec::new());
    let most = Bounds::USUAL.changes_max as u64;
    (1..=most).for_each(|caller| played.change(caller, cast()));
    assert_eq!((played.node.changes_len() as u64, refused(&played)), (most, vec![]));
    played.change(most + 1, cast());
    assert_eq!(refused(&played), ["UNSETTLED store: too many changes wait for it"]);

    // The same while the node waits for others.
    let mut played = Played::loaded(Vec::new());
    (1..=most).for_each(|caller| played.change(caller, cast()));
    assert_eq!((played.node.changes_len() as u64, refused(&played)), (most, vec![]));
    played.change(most + 1, cast());
    assert_eq!(refused(&played), ["UNSETTLED store: other nodes may have something to give back"]);
}

#[test]
fn a_change_waits_for_the_opening_of_the_votes_connection_and_for_no_retry() {
    let mut played = Played::following(Vec::new());
    played.lose(NodeLine::Votes);
    played.change(1, cast());
    assert_eq!(refused(&played), ["UNREACHABLE store: there is no connection for votes"]);
    played.answers.clear();
    played.tick(100);
    played.change(2, cast());
    assert_eq!((played.node.changes_len(), refused(&played).len()), (1, 0), "it is being made");
}

#[test]
fn a_doubt_of_the_caller_is_a_whole_reading() {
    for (cause, waits) in [(RebuildCause::History, true), (RebuildCause::Gap, false)] {
        assert_eq!(cause.may_have_lost(), waits, "{cause:?}");
        let mut played = Played::following(Vec::new());
        played.node.doubt(cause, played.now_ms);
        played.carry_out();
        assert_eq!(played.node.standing(), NodeStanding::Judging);
        // What was asked before has its answers first.
        while !matches!(played.asked[NodeLine::Feed as usize][..], [StoreQuestion::Head(_), ..]) {
            let (version, records) = ("version".to_owned(), Vec::new());
            let reply = match played.next(NodeLine::Feed) {
                StoreQuestion::Node(_, last, _) => StoreReply::Nodes { is_held: true, last, version, records },
                _ => StoreReply::Log(Vec::new()),
            };
            played.reply(NodeLine::Feed, None, reply);
        }
        played.head(NodeLine::Feed, true);
        played.read(Vec::new());
        let expected = if waits { NodeStanding::Waiting } else { NodeStanding::Following };
        assert_eq!(played.node.standing(), expected, "{cause:?}: others may know what the store has lost");
    }
}

#[test]
fn a_process_that_stood_still_makes_no_change_until_it_has_read_what_came_meanwhile() {
    let mut played = Played::following(Vec::new());
    played.tick(Bounds::USUAL.pause_max_ms);
    assert!(!played.node.refusal(true, played.now_ms).is_some_and(|why| why.starts_with("PAUSED")));
    let mut played = Played::following(Vec::new());
    played.tick(Bounds::USUAL.pause_max_ms + 1);
    let paused = |at_ms| played.node.refusal(true, at_ms).is_some_and(|why| why.starts_with("PAUSED"));
    assert_eq!((paused(played.now_ms + 249), paused(played.now_ms + 250)), (true, false));
}

/// A long reading has a least rate in place of a deadline: each part that comes gives it as long as a reply.
#[test]
fn a_reading_goes_on_for_as_long_as_parts_of_it_come() {
    let reads = |line: Option<NodeLine>| {
        let mut played = Played::new();
        played.tick(0);
        played.connect(NodeLine::Feed);
        played.head(NodeLine::Feed, false);
        for _ in 0..3 {
            played.tick(900);
        }
        if let Some(line) = line {
            played.node.progressed(line, played.now_ms);
        }
        played.tick(300);
        assert_eq!(played.now_ms, 1_000 + Bounds::USUAL.patience_ms);
        let is_reading = played.node.is_reading();
        for _ in 0..3 {
            played.tick(900);
        }
        (is_reading, played.node.is_reading())
    };
    assert_eq!(reads(None), (false, false));
    assert_eq!(reads(Some(NodeLine::Votes)), (false, false));
    assert_eq!(reads(Some(NodeLine::Feed)), (true, false), "it ends 3 s behind the part");
}

#[test]
fn a_node_is_loaded_once_it_has_read_a_state_and_stays_so() {
    assert!(!Played::new().node.is_loaded());
    let mut played = Played::loaded(Vec::new());
    let states = |played: &Played| (played.node.is_loaded(), played.node.is_at_end(), played.node.owed_len());
    assert_eq!(states(&played), (true, true, 0));
    played.node.lost(NodeLine::Feed, played.now_ms);
    assert_eq!(states(&played), (true, false, 0));
}
