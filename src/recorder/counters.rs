//! The recorder's counters.

use super::command::{Reply, VoteOutcome};
use super::ended::EndedEarly;
use crate::metrics::{Counter, Histogram};

/// Counters of the recorder; only its thread writes them.
#[derive(Debug)]
pub struct RecorderCounters {
    votes: [Counter; VoteOutcome::WORDS.len()],
    /// Duration of each successful commit, in microseconds.
    pub commit_us: Histogram<10>,
    /// Changes in each successful commit.
    pub commit_events: Histogram<8>,
    /// Cooldowns that commands cancelled.
    pub cancelled: Counter,
    /// Cooldowns that ended before their time, in the order of [`EndedEarly::by_cause`].
    ended: [Counter; 4],
    /// Votes of the address with the most recorded votes, approximately.
    pub one_address_votes: Counter,
    /// Commits that failed.
    pub commit_failures: Counter,
    /// Cooldowns that the sweep took out of the table.
    pub swept: Counter,
    /// Time that sweeps took, the store's share included, in microseconds.
    pub sweep_us: Counter,
    /// Rows that were dropped from the store.
    pub dropped: Counter,
    /// Listed servers.
    pub servers: Counter,
    /// Bytes that the store takes on disk.
    pub store_bytes: Counter,
    /// Number of the store's last commit.
    pub store_commit: Counter,
    /// Time that the load took, in milliseconds.
    pub load_ms: Counter,
    /// Steps of the wall clock by more than 1 s.
    pub clock_steps: Counter,
    /// How far the wall clock and the certain time are apart, in seconds; 0 while they are one.
    pub clock_apart_s: Counter,
}

impl Default for RecorderCounters {
    fn default() -> Self {
        Self {
            votes: std::array::from_fn(|_| Counter::default()),
            commit_us: Histogram::new([250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000]),
            commit_events: Histogram::new([1, 4, 16, 64, 256, 1_024, 8_192, 65_536]),
            cancelled: Counter::default(),
            ended: Default::default(),
            one_address_votes: Counter::default(),
            commit_failures: Counter::default(),
            swept: Counter::default(),
            sweep_us: Counter::default(),
            dropped: Counter::default(),
            servers: Counter::default(),
            store_bytes: Counter::default(),
            store_commit: Counter::default(),
            load_ms: Counter::default(),
            clock_steps: Counter::default(),
            clock_apart_s: Counter::default(),
        }
    }
}

impl RecorderCounters {
    /// Votes by outcome.
    pub fn votes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        VoteOutcome::WORDS.into_iter().zip(self.votes.iter().map(Counter::get))
    }

    /// Counts votes that the store did not keep, as far as is known.
    pub fn count_unavailable(&self, votes: u64) {
        self.votes[VoteOutcome::STORE_UNAVAILABLE].add(votes);
    }

    /// Counts cooldowns that have ended before their time.
    pub fn end(&self, more: EndedEarly) {
        self.ended.iter().zip(more.by_cause()).for_each(|(counter, (_, count))| counter.add(count));
    }

    /// Cooldowns that have ended before their time.
    pub fn ended(&self) -> EndedEarly {
        let [cancelled, replaced, removed, settings] = self.ended.each_ref().map(Counter::get);
        EndedEarly { cancelled, replaced, removed, settings }
    }

    /// Counts the votes of a reply.
    pub fn count(&self, reply: &Reply, is_kept: bool) {
        let outcomes = match reply {
            Reply::Votes(outcomes) => outcomes,
            Reply::Cancelled(Some(true)) if is_kept => return self.cancelled.add(1),
            Reply::CancelledAll(count) if is_kept => return self.cancelled.add(*count as u64),
            _ => return,
        };
        for outcome in outcomes {
            let index = if is_kept { outcome.index() } else { VoteOutcome::STORE_UNAVAILABLE };
            self.votes[index].add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EndedEarly, RecorderCounters, Reply, VoteOutcome};

    /// The counts by outcome that are not 0.
    fn counted(counters: &RecorderCounters) -> Vec<(&'static str, u64)> {
        counters.votes().filter(|(_, count)| *count > 0).collect()
    }

    #[test]
    fn what_the_store_has_not_kept_counts_as_unavailable() {
        let votes = || Reply::Votes(vec![VoteOutcome::Expired, VoteOutcome::UnknownServer, VoteOutcome::Expired]);
        let counters = RecorderCounters::default();
        counters.count(&votes(), true);
        assert_eq!(counted(&counters), [("expired", 2), ("unknown_server", 1)]);
        counters.count(&votes(), false);
        counters.count_unavailable(4);
        assert_eq!(counted(&counters), [("expired", 2), ("unknown_server", 1), ("store_unavailable", 7)]);
    }

    #[test]
    fn a_cancellation_counts_once_the_store_has_kept_it() {
        let counters = RecorderCounters::default();
        for is_kept in [false, true] {
            counters.count(&Reply::Cancelled(Some(true)), is_kept);
            counters.count(&Reply::Cancelled(Some(false)), is_kept);
            counters.count(&Reply::Cancelled(None), is_kept);
            counters.count(&Reply::CancelledAll(5), is_kept);
            assert_eq!(counters.cancelled.get(), if is_kept { 6 } else { 0 });
        }
        assert_eq!(counted(&counters), []);
    }

    #[test]
    fn cooldowns_that_end_early_add_up_by_cause() {
        let counters = RecorderCounters::default();
        counters.end(EndedEarly { cancelled: 1, replaced: 2, removed: 3, settings: 4 });
        counters.end(EndedEarly { cancelled: 10, replaced: 20, removed: 30, settings: 40 });
        assert_eq!(counters.ended(), EndedEarly { cancelled: 11, replaced: 22, removed: 33, settings: 44 });
    }
}
