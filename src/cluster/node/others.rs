//! The other nodes of a store, by their records in it. A record counts the heartbeats of its node, and says how much that node
//! owes. Time counts here only while the store takes writes: a node that cannot write does not count as silent.

use std::collections::BTreeMap;

use crate::cluster::wire::answer::NodeRecord;

/// This node's knowledge of another one.
#[derive(Clone, Copy, Debug)]
struct Other {
    /// The greatest count of its records.
    count: u64,
    /// Whether the node owed facts at that count.
    owes: bool,
    /// The time at which the count last rose, in milliseconds in which the store took writes.
    heard_ms: u64,
    /// Whether its last record says that it owes nothing, and was written since this node began to wait.
    is_clear: bool,
}

/// The other nodes.
#[derive(Debug, Default)]
pub(super) struct Others {
    known: BTreeMap<String, Other>,
    /// The time in which this node saw the store take writes, in milliseconds.
    writable_ms: u64,
    /// The instant of this node's last write, by the monotonic clock.
    written_at_ms: Option<u64>,
    /// The time at which this node began to wait for the others, by `writable_ms`.
    begun_ms: u64,
    /// Whether the store had no entry when this node began to wait.
    is_unused: bool,
}

impl Others {
    /// Takes the records of the other nodes, after the store took this node's. The time between two writes in a row counts, up to
    /// `gap_max_ms`, as time in which the store took writes.
    pub(super) fn hear(&mut self, records: &[NodeRecord], own: &str, now_ms: u64, gap_max_ms: u64) {
        let gap_ms = self.written_at_ms.replace(now_ms).map_or(0, |before_ms| now_ms.saturating_sub(before_ms));
        self.writable_ms += gap_ms.min(gap_max_ms);
        let heard_ms = self.writable_ms;
        self.known.retain(|name, _| records.iter().any(|record| record.name == *name));
        for NodeRecord { name, count, owed, .. } in records.iter().filter(|record| record.name != own) {
            let owes = *owed > 0;
            match self.known.get_mut(name) {
                // A store that went back has an older record: it is no news of the node.
                Some(other) if *count > other.count => {
                    *other = Other { count: *count, owes, heard_ms, is_clear: !owes };
                }
                Some(_) => {}
                None => {
                    self.known.insert(name.clone(), Other { count: *count, owes, heard_ms, is_clear: false });
                }
            }
        }
    }

    /// Notes that the store did not take this node's record.
    pub(super) fn miss(&mut self) {
        self.written_at_ms = None;
    }

    /// Begins the wait for the others: their earlier records do not count for it.
    pub(super) fn begin_again(&mut self, is_unused: bool) {
        let now_ms = self.writable_ms;
        (self.begun_ms, self.is_unused) = (now_ms, is_unused);
        self.known.values_mut().for_each(|other| (other.is_clear, other.heard_ms) = (false, now_ms));
    }

    /// Whether a waiting node may go on: every other node has said since that it owes nothing, or is silent. The store may have
    /// lost the others' records: they have `least_ms` to write them again. If no other node shows up in `silence_ms`, there is
    /// none. A node does not wait in a store that was never used: it has no entry, and no other node has a record in it.
    pub(super) fn are_clear(&self, least_ms: u64, silence_ms: u64) -> bool {
        let least_ms = match self.known.is_empty() {
            true if self.is_unused => 0,
            true => silence_ms,
            false => least_ms,
        };
        self.written_at_ms.is_some()
            && self.writable_ms - self.begun_ms >= least_ms
            && self.known.values().all(|other| other.is_clear || self.is_silent(other, silence_ms))
    }

    /// The names of live nodes that owe something.
    pub(super) fn owing(&self, silence_ms: u64) -> impl Iterator<Item = &str> {
        let owing = self.known.iter().filter(move |(_, other)| other.owes && !self.is_silent(other, silence_ms));
        owing.map(|(name, _)| name.as_str())
    }

    /// The place of this name among the live nodes, and their number with it.
    pub(super) fn rank(&self, own: &str, silence_ms: u64) -> (usize, usize) {
        let live =
            self.known.iter().filter(|(_, other)| !self.is_silent(other, silence_ms)).map(|(name, _)| name.as_str());
        live.fold((0, 1), |(rank, nodes), name| (rank + usize::from(name < own), nodes + 1))
    }

    /// The names of nodes that were silent for `forget_ms`.
    pub(super) fn forgotten(&self, forget_ms: u64) -> Vec<String> {
        let silent = self.known.iter().filter(|(_, other)| self.is_silent(other, forget_ms));
        silent.map(|(name, _)| name.clone()).collect()
    }

    const fn is_silent(&self, other: &Other, silence_ms: u64) -> bool {
        self.writable_ms - other.heard_ms >= silence_ms
    }
}

#[cfg(test)]
mod tests {
    use super::Others;
    use crate::cluster::wire::answer::NodeRecord;

    fn record(name: &str, count: u64, owed: u64) -> NodeRecord {
        NodeRecord { name: name.to_owned(), count, owed }
    }

    #[test]
    fn a_node_is_clear_once_it_has_said_so_since_or_was_silent_while_the_store_took_writes() {
        let mut others = Others::default();
        let mut now_ms = 0;
        let mut hear = |others: &mut Others, records: &[NodeRecord]| {
            now_ms += 1_000;
            others.hear(records, "me", now_ms, 2_000);
        };
        hear(&mut others, &[record("a", 7, 0), record("b", 9, 3), record("me", 1, 0)]);
        others.begin_again(false);
        assert!(!others.are_clear(0, 5_000), "what was said before does not count");
        hear(&mut others, &[record("a", 8, 0), record("b", 10, 3)]);
        assert_eq!(others.owing(5_000).collect::<Vec<_>>(), ["b"]);
        assert!(!others.are_clear(0, 5_000));
        // The store went back: the record is an older one.
        hear(&mut others, &[record("a", 8, 0), record("b", 8, 0)]);
        assert!(!others.are_clear(0, 5_000));
        for _ in 0..4 {
            hear(&mut others, &[record("a", 8, 0), record("b", 10, 3)]);
        }
        assert!(others.are_clear(0, 5_000), "silent");
        assert_eq!(others.owing(5_000).count(), 0);
        hear(&mut others, &[record("a", 9, 0), record("b", 11, 0)]);
        assert!(others.are_clear(0, 5_000));
        assert_eq!((others.rank("aa", 5_000), others.rank("c", 5_000)), ((1, 3), (2, 3)));
    }

    #[test]
    fn nobody_waits_in_a_store_that_was_never_used() {
        let wait = |is_unused, records: &[NodeRecord]| {
            let mut others = Others::default();
            others.begin_again(is_unused);
            assert!(!others.are_clear(2_000, 5_000), "the records are not known yet");
            others.hear(records, "me", 0, 2_000);
            others.are_clear(2_000, 5_000)
        };
        assert!(wait(true, &[record("me", 1, 0)]));
        assert!(!wait(false, &[record("me", 1, 0)]), "the others may have lost their records");
        assert!(!wait(true, &[record("me", 1, 0), record("a", 1, 0)]), "the store may have lost its entries");
    }

    #[test]
    fn time_counts_while_the_store_takes_writes() {
        let mut others = Others::default();
        others.hear(&[record("a", 7, 1)], "me", 0, 2_000);
        others.miss();
        others.hear(&[record("a", 7, 1)], "me", 60_000, 2_000);
        assert!(!others.are_clear(0, 5_000), "the store was away");
        others.hear(&[record("a", 7, 1)], "me", 360_000, 2_000);
        assert!(!others.are_clear(0, 5_000), "this process was paused");
        others.hear(&[record("a", 7, 1)], "me", 361_500, 2_000);
        others.hear(&[record("a", 7, 1)], "me", 363_000, 2_000);
        assert!(others.are_clear(0, 5_000));
        assert_eq!(others.forgotten(5_000), ["a"]);
        others.hear(&[], "me", 364_000, 2_000);
        assert!(others.forgotten(0).is_empty());
    }

    #[test]
    fn the_time_up_to_a_write_that_was_missed_does_not_count() {
        let mut others = Others::default();
        let silent = [record("a", 7, 1)];
        others.hear(&silent, "me", 0, 2_000);
        for now_ms in [2_000, 4_000, 6_000] {
            others.miss();
            assert!(!others.are_clear(0, 0), "the store did not take the last record");
            others.hear(&silent, "me", now_ms, 2_000);
        }
        assert_eq!(others.forgotten(1), [""; 0]);
        others.hear(&silent, "me", 8_000, 2_000);
        assert_eq!(others.forgotten(2_000), ["a"]);
    }

    #[test]
    fn a_node_that_begins_again_waits_as_long_as_at_its_start() {
        let mut others = Others::default();
        for now_ms in [0, 2_000, 4_000] {
            others.hear(&[record("a", now_ms, 0)], "me", now_ms, 2_000);
        }
        others.begin_again(false);
        others.hear(&[record("a", 5_000, 0)], "me", 5_000, 2_000);
        assert!(!others.are_clear(2_000, 5_000), "other records may be lost");
        others.hear(&[record("a", 6_000, 0)], "me", 6_000, 2_000);
        assert!(others.are_clear(2_000, 5_000));
    }
}
