//! Votes with a cooldown that a step back has cut to its length, where the rows do not say so yet: for 10 minutes the
//! clock may come back. Knows neither table nor store.

use std::collections::HashMap;

use crate::limits::CUTS_MAX;
use crate::store::Cut;
use crate::vote::id::ServerId;
use crate::vote::table::{Cooling, Pair};
use crate::vote::time::{UnixSeconds, VOTE_AHEAD_MAX_S};

/// The votes, by the pair under which the table looks them up.
#[derive(Debug, Default)]
pub(super) struct CutVotes {
    /// The steps back, in their order: they cut the rows alike after a restart.
    steps: Vec<Cut>,
    /// The votes as their rows have them.
    rows: HashMap<Pair, Cooling>,
}

impl CutVotes {
    /// What these steps before this start have cut is so for good, and some rows do not say so yet.
    pub(super) fn before(steps: &[Cut]) -> Self {
        Self { steps: steps.to_vec(), rows: HashMap::new() }
    }

    /// A step has cut these. One that was cut before keeps its row.
    pub(super) fn add(&mut self, step: Cut, rows: impl Iterator<Item = (Pair, Cooling)>) {
        // A step further back cuts all that the earlier ones have cut.
        self.steps.retain(|earlier| earlier.to <= step.to.plus(VOTE_AHEAD_MAX_S));
        self.steps.truncate(CUTS_MAX - 1);
        self.steps.push(step);
        for (pair, row) in rows {
            self.rows.entry(pair).or_insert(row);
        }
    }

    /// Votes are recorded until now that no step has cut.
    pub(super) fn pass(&mut self, now: UnixSeconds) {
        self.steps.iter_mut().for_each(|step| step.beyond = now.max(step.beyond));
    }

    /// See [`crate::store::Kept::cuts`].
    pub(super) fn steps(&self) -> &[Cut] {
        &self.steps
    }

    /// The vote of a pair as its row has it, if it was cut.
    pub(super) fn row(&self, pair: Pair) -> Option<Cooling> {
        self.rows.get(&pair).copied()
    }

    /// The votes as their rows have them.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Pair, Cooling)> {
        self.rows.iter().map(|(pair, row)| (*pair, *row))
    }

    /// The votes of a server as their rows have them.
    pub(super) fn of_server(&self, server: ServerId) -> impl Iterator<Item = Cooling> {
        self.rows.values().copied().filter(move |row| row.pair.server == server)
    }

    /// The vote of this pair was removed, and its row with it.
    pub(super) fn forget(&mut self, pair: Pair) {
        self.rows.remove(&pair);
        self.end_steps();
    }

    /// Takes out those that `goes` says, as their rows have them.
    pub(super) fn take(&mut self, goes: impl Fn(&Cooling) -> bool) -> Vec<Cooling> {
        self.rows.extract_if(|_, row| goes(row)).map(|(_, row)| row).collect()
    }

    /// The store has the rows of all votes that were taken out.
    pub(super) fn end_steps(&mut self) {
        if self.rows.is_empty() {
            self.steps.clear();
        }
    }
}
