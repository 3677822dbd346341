//! A node that reads the log: how many entries it asks for.

use crate::cluster::entry::EntryId;
use crate::cluster::node::bounds::Bounds;
use crate::cluster::node::output::NodeLine;
use crate::cluster::node::tests::{Played, STORE_MS};
use crate::cluster::wire::answer::{LogItem, StoreReply};
use crate::cluster::wire::question::StoreQuestion;

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
        assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Log(cursor, then, Some(Bounds::USUAL.block_ms)));
    }
}
