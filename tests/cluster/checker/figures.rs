//! What runs of the checker consisted of.

use crate::cluster::checker::schedule::Step;
use std::collections::BTreeMap;
use std::fmt;

/// What a run consisted of.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Requests that were sent.
    pub(crate) operations: u64,
    /// Votes that were answered 201.
    pub(crate) votes: u64,
    /// Faults that were staged, by the first word of their step.
    pub(crate) faults: BTreeMap<String, u64>,
}

impl Figures {
    /// Counts one more fault.
    pub(super) fn count_fault(&mut self, fault: &Step) {
        let step = format!("{fault:?}");
        let word = step.split(['(', ' ']).next().unwrap_or_default();
        *self.faults.entry(word.to_owned()).or_default() += 1;
    }

    /// Adds those of another run.
    pub(crate) fn add(&mut self, other: Figures) {
        self.operations += other.operations;
        self.votes += other.votes;
        for (word, count) in other.faults {
            *self.faults.entry(word).or_default() += count;
        }
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figures { operations, votes, faults } = self;
        let count: u64 = faults.values().sum();
        write!(
            formatter,
            "{operations} operations, {votes} votes answered 201, {count} faults {faults:?}, violations: 0"
        )
    }
}
