//! What the recorder counts.

use super::command::{Reply, VoteOutcome};
use crate::metrics::{Counter, Histogram};

/// What became of a vote, for labels.
const OUTCOMES: [&str; 8] = [
    "recorded",
    "unchanged",
    "in_cooldown",
    "expired",
    "in_future",
    "unknown_server",
    "store_unavailable",
    "too_many_changes",
];
const STORE_UNAVAILABLE: usize = 6;

/// Counters of the recorder; only its thread writes them.
#[derive(Debug)]
pub struct RecorderCounters {
    votes: [Counter; OUTCOMES.len()],
    /// Time of a commit that succeeded, in microseconds.
    pub commit_us: Histogram<10>,
    /// Changes in a commit that succeeded.
    pub commit_events: Histogram<8>,
    /// Cooldowns that were ended early.
    pub cancelled: Counter,
    /// Commits that failed.
    pub commit_failures: Counter,
    /// 1 while the store fails.
    pub store_failing: Counter,
    /// Cooldowns that the sweep took out of the table.
    pub swept: Counter,
    /// Time that it took, the store's share included, in microseconds.
    pub sweep_us: Counter,
    /// Rows that were dropped from the store.
    pub dropped: Counter,
    /// Listed servers.
    pub servers: Counter,
    /// Bytes that the store takes on disk.
    pub store_bytes: Counter,
    /// Time that the load took, in milliseconds.
    pub load_ms: Counter,
    /// Steps of the wall clock that were followed.
    pub clock_steps: Counter,
}

impl Default for RecorderCounters {
    fn default() -> Self {
        Self {
            votes: std::array::from_fn(|_| Counter::default()),
            commit_us: Histogram::new([250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 100_000, 500_000, 2_500_000]),
            commit_events: Histogram::new([1, 4, 16, 64, 256, 1_024, 8_192, 65_536]),
            cancelled: Counter::default(),
            commit_failures: Counter::default(),
            store_failing: Counter::default(),
            swept: Counter::default(),
            sweep_us: Counter::default(),
            dropped: Counter::default(),
            servers: Counter::default(),
            store_bytes: Counter::default(),
            load_ms: Counter::default(),
            clock_steps: Counter::default(),
        }
    }
}

impl RecorderCounters {
    /// Votes by outcome.
    pub fn votes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        OUTCOMES.into_iter().zip(self.votes.iter().map(Counter::get))
    }

    /// Counts votes of which the store kept nothing, as far as is known.
    pub fn count_unavailable(&self, votes: u64) {
        self.votes[STORE_UNAVAILABLE].add(votes);
    }

    /// Counts what an answer says of votes.
    pub fn count(&self, reply: &Reply, is_kept: bool) {
        let outcomes = match reply {
            Reply::Votes(outcomes) => outcomes,
            Reply::Cancelled(Some(true)) if is_kept => return self.cancelled.add(1),
            _ => return,
        };
        for outcome in outcomes {
            let index = match outcome {
                _ if !is_kept => STORE_UNAVAILABLE,
                VoteOutcome::Recorded(_) => 0,
                VoteOutcome::Unchanged(_) => 1,
                VoteOutcome::InCooldown(..) => 2,
                VoteOutcome::Expired => 3,
                VoteOutcome::InFuture => 4,
                VoteOutcome::UnknownServer => 5,
                VoteOutcome::TooManyChanges => 7,
            };
            self.votes[index].add(1);
        }
    }
}
