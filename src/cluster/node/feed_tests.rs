//! A node that reads the log: how many entries it asks for.

use crate::cluster::entry::EntryId;
use crate::cluster::node::bounds::Bounds;
use crate::cluster::node::output::NodeLine;
use crate::cluster::node::tests::{Played, STORE_MS};
use crate::cluster::wire::answer::{LogItem, StoreReply};
use crate::cluster::wire::question::StoreQuestion;

/// A node that lost its connection so often that it asks for the fewest entries.
fn that_asks_for_few() -> Played {
    let mut played = Played::following(Vec::new());
    for _ in 0..8 {
        played.forget();
    }
    played.beat(&[(20, 0)]);
    played
}

#[test]
fn as_many_entries_as_asked_for_are_not_the_end_of_the_log() {
    const FEW: usize = Bounds::USUAL.entries_min;
    for (count, asked) in [(FEW, FEW), (FEW - 1, Bounds::USUAL.entries_max)] {
        let mut played = that_asks_for_few();
        let StoreQuestion::Log(_, entries_max, _) = played.next(NodeLine::Feed) else { panic!("the log is not read") };
        assert_eq!(entries_max, FEW);
        let strange = |n| LogItem::Strange(EntryId { ms: STORE_MS + n, sequence: 0 });
        let lines: Vec<LogItem> = (10..).map(strange).take(count).collect();
        let cursor = EntryId { ms: STORE_MS + 9 + count as u64, sequence: 0 };
        played.reply(NodeLine::Feed, None, StoreReply::Log(lines));
        assert_eq!(played.next(NodeLine::Feed), StoreQuestion::Log(cursor, asked, Some(Bounds::USUAL.block_ms)));
    }
}
