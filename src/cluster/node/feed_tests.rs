//! A node's feed: which store it follows, how it reads the log, and what the records of other nodes tell it.

use crate::cluster::entry::EntryId;
use crate::cluster::node::bounds::Bounds;
use crate::cluster::node::output::{NodeLine, NodeStanding, Note, Unfit};
use crate::cluster::node::tests::{Played, STORE_MS, VOTER, at, entry, meta};
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Done, Given, LogItem, NodeRecord, RefusalKind, StoreRefusal, StoreReply};
use crate::cluster::wire::question::{OwnRecord, StoreCall, StoreQuestion};
use crate::vote::address::VoterAddress;
use crate::vote::ipv4::Ipv4;
use crate::vote::time::UnixSeconds;

/// A node that lost its connection so often, and follows the log again.
fn that_lost_its_connection(times: usize) -> Played {
    let mut played = Played::following(Vec::new());
    for _ in 0..times {
        played.forget();
    }
    played.beat(&[(20, 0)]);
    played
}

/// The number of entries in the next question for the log.
fn asked(played: &mut Played) -> usize {
    let StoreQuestion::Log(_, entries_max, _) = played.next(NodeLine::Feed) else { panic!("the log is not read") };
    entries_max
}

#[test]
fn each_loss_halves_the_entries_to_ask_for() {
    for (times, expected) in [(0, 10_000), (1, 5_000), (2, 2_500), (7, 78), (8, 64), (9, 64)] {
        assert_eq!(asked(&mut that_lost_its_connection(times)), expected, "{times} losses");
    }
}

/// The store holds the answer of the log back until there is an entry, for a bounded time.
#[test]
fn an_answer_of_the_log_is_late_behind_the_wait_for_an_entry() {
    let mut played = that_lost_its_connection(0);
    let StoreQuestion::Log(_, _, Some(200)) = played.next(NodeLine::Feed) else { panic!("it does not wait") };
    for _ in 0..5 {
        played.tick(639);
        assert!(played.node.is_following());
    }
    played.tick(5);
    assert!(!played.node.is_following());
}

#[test]
fn as_many_entries_as_asked_for_are_not_the_end_of_the_log() {
    const FEW: usize = Bounds::USUAL.entries_min;
    for (count, then) in [(FEW, FEW), (FEW - 1, Bounds::USUAL.entries_max)] {
        let mut played = that_lost_its_connection(8);
        assert_eq!(asked(&mut played), FEW);
        let strange = |n| LogItem::Strange(EntryId { ms: STORE_MS + n, sequence: 0 });
        let lines: Vec<LogItem> = (10..).map(strange).take(count).collect();
        let cursor = EntryId { ms: STORE_MS + 9 + count as u64, sequence: 0 };
        played.reply(NodeLine::Feed, None, StoreReply::Log(lines));
        assert_eq!(played.node.is_at_end(), count < FEW);
        assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Log(cursor, then, Some(Bounds::USUAL.block_ms)));
    }
}

/// Regression: the last entries were cut off the log, and a node showed a removed server until the next change.
#[test]
fn a_log_that_ends_before_the_last_entry_was_cut() {
    let mut played = Played::following(Vec::new());
    played.own_record();
    let (version, records) = ("version".to_owned(), Vec::new());
    let record = StoreReply::Nodes { is_held: true, last: entry(2), version, records };
    played.reply(NodeLine::Feed, Some(STORE_MS), record);
    assert_eq!(played.node.standing(), NodeStanding::Following);
    assert!(matches!(played.next(NodeLine::Feed), StoreQuestion::Log(..)));
    played.reply(NodeLine::Feed, None, StoreReply::Log(Vec::new()));
    assert_eq!(played.node.standing(), NodeStanding::Judging);
}

/// A report of the store's: its id, its schema, and the version of its functions.
fn report(is_held: bool, names: [&str; 3]) -> StoreReply {
    let [store, schema, version] = names.map(str::to_owned);
    StoreReply::Head { is_held, last: entry(1), store, schema, version }
}

fn refused(kind: RefusalKind) -> StoreReply {
    StoreReply::Refused(StoreRefusal { kind, text: "WHY not".to_owned() })
}

/// The records of the nodes: another one, which owes nothing.
fn nodes(is_held: bool, version: &str) -> StoreReply {
    let records = vec![NodeRecord { name: "other".to_owned(), count: 40, owed: 0 }];
    StoreReply::Nodes { is_held, last: entry(1), version: version.to_owned(), records }
}

#[test]
fn a_node_follows_its_own_store_alone() {
    let judged = |names: [&str; 3]| {
        let mut played = Played::following(Vec::new());
        played.lose(NodeLine::Feed);
        played.notes.clear();
        // An unfit store is tried again.
        for _ in 0..2 {
            if played.node.is_following() {
                break;
            }
            played.tick(500);
            played.connect(NodeLine::Feed);
            let question = played.next(NodeLine::Feed);
            assert!(matches!(question, StoreQuestion::Head(_)), "{question:?}");
            played.reply(NodeLine::Feed, Some(STORE_MS), report(true, names));
            assert_eq!(played.notes.len(), usize::from(!played.node.is_following()), "an operator is told once");
        }
        (played.node.standing(), played.notes)
    };
    for (names, why) in [
        (["", "3", "version"], Unfit::Empty),
        (["reseed-1", "3", "version"], Unfit::Filling),
        (["another", "3", "version"], Unfit::Other("another".to_owned())),
        (["store", "9", "version"], Unfit::Schema("9".to_owned())),
    ] {
        let (standing, notes) = judged(names);
        assert_eq!(standing, NodeStanding::Away(Some(why.clone())));
        assert_eq!(notes, [Note::Unfit(why)]);
    }
    let (standing, notes) = judged(["store", "3", "version"]);
    assert_eq!((standing, notes), (NodeStanding::Following, Vec::new()));
}

#[test]
fn a_store_that_was_another_one_meanwhile_is_read_whole() {
    let mut played = Played::following(Vec::new());
    played.lose(NodeLine::Feed);
    for (store, expected) in
        [("another", NodeStanding::Away(Some(Unfit::Other("another".to_owned())))), ("store", NodeStanding::Loading)]
    {
        played.tick(500);
        played.connect(NodeLine::Feed);
        played.next(NodeLine::Feed);
        played.reply(NodeLine::Feed, Some(STORE_MS), report(true, [store, "3", "version"]));
        assert_eq!(played.node.standing(), expected);
    }
}

#[test]
fn what_the_store_says_instead_of_the_records_is_no_record() {
    // A node that has just renewed its record, and the store's answer.
    let told = |reply: StoreReply| {
        let mut played = Played::following(vec![(VOTER, at())]);
        played.own_record();
        played.reply(NodeLine::Feed, Some(STORE_MS), reply);
        played
    };
    let refusal = |played: &Played| played.node.refusal(true, played.now_ms);

    let played = told(nodes(true, "version"));
    assert_eq!((played.node.standing(), refusal(&played)), (NodeStanding::Following, None));
    let played = told(nodes(true, "newer"));
    assert_eq!(refusal(&played).as_deref(), Some("FUNCTIONS of another version are in the store"));
    let played = told(nodes(false, "version"));
    assert_eq!(played.node.standing(), NodeStanding::Judging, "the store has lost the last entry");

    let played = told(refused(RefusalKind::OtherStore));
    assert_eq!(played.node.standing(), NodeStanding::Judging, "it asks which store this is");
    let played = told(refused(RefusalKind::Elsewhere));
    assert_eq!(played.node.standing(), NodeStanding::Away(Some(Unfit::Refused("WHY not".to_owned()))));

    // A store that takes no writes can still tell whether it has lost something.
    for is_held in [true, false] {
        let mut played = told(refused(RefusalKind::Other));
        assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Head(entry(1)));
        played.reply(NodeLine::Feed, Some(STORE_MS), report(is_held, ["store", "3", "version"]));
        let expected = if is_held { NodeStanding::Following } else { NodeStanding::Judging };
        assert_eq!(played.node.standing(), expected);
    }
}

#[test]
fn a_node_that_owes_nothing_takes_its_record_away_as_it_leaves() {
    let mut played = Played::following(Vec::new());
    assert!(!played.node.has_left());
    played.node.leave(played.now_ms);
    played.carry_out();
    let mut record = played.own_record();
    // The record that was renewed before is on its way.
    if record.forgotten.is_empty() {
        played.reply(NodeLine::Feed, Some(STORE_MS), nodes(true, "version"));
        record = played.own_record();
    }
    let OwnRecord { name, count, owed, forgotten } = record;
    assert_eq!((name.as_str(), count, owed, forgotten), ("me", 10, 0, vec!["me".to_owned()]));
    assert!(!played.node.has_left(), "the store has not answered yet");
    played.reply(NodeLine::Feed, None, refused(RefusalKind::Other));
    assert!(played.node.has_left());

    // A lost connection ends the wait, and a node that owes facts does not say otherwise.
    let mut played = Played::following(Vec::new());
    played.node.leave(played.now_ms);
    played.node.lost(NodeLine::Feed, played.now_ms);
    assert!(played.node.has_left());
    let mut played = Played::loaded(Vec::new());
    played.asked[NodeLine::Feed as usize].clear();
    played.node.leave(played.now_ms);
    played.carry_out();
    assert!(played.node.has_left() && played.asked[NodeLine::Feed as usize].is_empty(), "it waits for others");
}

/// A node that has lost its connection, and has a new one. Its record is due.
fn that_judges() -> Played {
    let mut played = Played::following(Vec::new());
    played.lose(NodeLine::Feed);
    played.tick(1_000);
    played.connect(NodeLine::Feed);
    assert_eq!(played.node.standing(), NodeStanding::Judging);
    played
}

/// The same node, once it reads the whole state. It renews its record before its first question.
fn that_reads_again() -> Played {
    let mut played = that_judges();
    played.head(NodeLine::Feed, false);
    assert_eq!(played.node.standing(), NodeStanding::Loading);
    played
}

#[test]
fn a_node_says_that_it_owes_a_fact_as_long_as_it_does_not_know() {
    assert_eq!(that_reads_again().own_record().owed, 1, "the state is not compared yet");

    // The first record is of the time before the doubt.
    let mut played = Played::following(Vec::new());
    played.node.doubt(RebuildCause::Gap, played.now_ms);
    played.tick(1_000);
    assert_eq!([played.own_record().owed, played.own_record().owed], [0, 1]);

    // The votes' connection has seen a loss.
    let mut played = Played::following(Vec::new());
    played.tick(1_000);
    played.head(NodeLine::Votes, false);
    played.tick(1_000);
    assert_eq!([(); 3].map(|()| played.own_record().owed), [0, 0, 1]);
}

#[test]
fn a_loss_that_is_seen_while_the_state_is_read_is_no_second_one() {
    let mut played = that_reads_again();
    played.own_record();
    played.reply(NodeLine::Feed, Some(STORE_MS), refused(RefusalKind::Other));
    assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Meta);
    played.reply(NodeLine::Feed, None, meta(entry(1)));
    assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Head(entry(1)), "it asks in place of the record");
    played.reply(NodeLine::Feed, Some(STORE_MS), report(false, ["store", "3", "version"]));
    played.read(Vec::new());
    assert_eq!(played.node.standing(), NodeStanding::Following);
}

#[test]
fn a_store_that_refuses_is_given_up_in_its_own_words() {
    let mut judging = that_judges();
    assert_eq!(judging.next(NodeLine::Feed), StoreQuestion::Head(entry(1)));
    judging.reply(NodeLine::Feed, None, refused(RefusalKind::Other));

    let mut following = Played::following(Vec::new());
    following.beat(&[(20, 0)]);
    assert!(matches!(following.next(NodeLine::Feed), StoreQuestion::Log(..)));
    following.reply(NodeLine::Feed, None, refused(RefusalKind::Other));

    // A store that has become another one is not read on.
    let mut reading = that_reads_again();
    reading.own_record();
    reading.reply(NodeLine::Feed, None, refused(RefusalKind::OtherStore));

    for played in [judging, following, reading] {
        assert_eq!(played.node.standing(), NodeStanding::Away(Some(Unfit::Refused("WHY not".to_owned()))));
    }
}

#[test]
fn the_cause_of_a_reading_is_a_loss_or_else_the_doubt() {
    for (doubt, is_held, cause) in [
        (None, false, RebuildCause::History),
        (Some(RebuildCause::Gap), false, RebuildCause::History),
        (Some(RebuildCause::Gap), true, RebuildCause::Gap),
        (Some(RebuildCause::Clock), true, RebuildCause::Clock),
    ] {
        let mut played = Played::following(Vec::new());
        if let Some(doubt) = doubt {
            played.node.doubt(doubt, played.now_ms);
        }
        played.lose(NodeLine::Feed);
        played.tick(200);
        played.connect(NodeLine::Feed);
        played.notes.clear();
        played.head(NodeLine::Feed, is_held);
        played.read(Vec::new());
        assert_eq!(played.notes, [Note::Read(cause, 0)]);
    }
}

/// Each piece of a reading gives the next one as long as a reply.
#[test]
fn a_reading_ends_if_no_piece_comes_for_as_long_as_a_reply() {
    let mut played = Played::new();
    played.tick(0);
    played.connect(NodeLine::Feed);
    played.head(NodeLine::Feed, false);
    assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Meta);
    played.reply(NodeLine::Feed, None, meta(entry(1)));
    (0..3).for_each(|_| played.tick(900));
    // The question for the store's last entry is as old as the one for the servers.
    assert!(matches!(played.next(NodeLine::Feed), StoreQuestion::Servers(..)));
    played.reply(NodeLine::Feed, None, StoreReply::Servers("0".to_owned(), Vec::new()));
    for after_ms in [900, 900, 900, 299] {
        played.tick(after_ms);
        assert!(played.node.is_reading());
    }
    played.tick(1);
    assert!(!played.node.is_reading());
}

/// A wait of 0 ms would be one without an end.
#[test]
fn a_node_that_has_more_to_give_does_not_wait_for_an_entry() {
    const BATCH: usize = Bounds::USUAL.facts_max;
    let vote = |back| (VoterAddress::V4(Ipv4(back)), UnixSeconds(at().0 - back));
    let mut played = Played::following((1..=200).map(vote).collect());
    played.forget();
    played.beat(&[(10, 0)]);
    assert_eq!(played.node.standing(), NodeStanding::GivingBack(200));
    let StoreQuestion::Change(_, StoreCall::Give(facts), _) = played.next(NodeLine::Feed) else {
        panic!("nothing is given")
    };
    let given = vec![Given::Stands; facts.len()];
    played.reply(NodeLine::Feed, Some(STORE_MS), StoreReply::Done(Done::Given(given), Some(entry(2))));
    assert_eq!(played.node.standing(), NodeStanding::GivingBack(200 - BATCH));
    let question = played.next(NodeLine::Feed);
    assert!(matches!(question, StoreQuestion::Log(_, _, None)), "{question:?}");
}

/// The time between two records counts as time in which the store took writes, up to two heartbeats.
#[test]
fn a_node_waits_for_others_over_late_records_too() {
    // Where no other node shows up, the node waits for 5 s.
    for (between_ms, expected) in [(1_000, 5), (1_500, 4), (2_000, 3), (2_500, 3)] {
        let mut played = Played::loaded(Vec::new());
        played.beat(&[]);
        let mut records = 0;
        while played.node.standing() == NodeStanding::Waiting {
            played.tick(between_ms);
            played.beat(&[]);
            records += 1;
        }
        assert_eq!((records, played.node.standing()), (expected, NodeStanding::Following), "{between_ms} ms");
    }
}
