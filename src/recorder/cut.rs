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
    rows: HashMap<Pair, CutVote>,
}

/// A vote with a cooldown that was cut.
#[derive(Debug)]
pub(super) struct CutVote {
    /// As its row has it.
    pub(super) row: Cooling,
    /// It stays cut, whatever the clock does: the row is to say so as soon as the store takes that.
    pub(super) is_settled: bool,
}

impl CutVotes {
    /// The votes that steps before this start have cut for good.
    pub(super) fn before(steps: &[Cut], rows: impl Iterator<Item = (Pair, Cooling)>) -> Self {
        let rows = rows.map(|(pair, row)| (pair, CutVote { row, is_settled: true })).collect();
        let mut cut = Self { steps: steps.to_vec(), rows };
        cut.end_steps();
        cut
    }

    /// A step has cut these. One that was cut before keeps its row.
    pub(super) fn add(&mut self, step: Cut, rows: impl Iterator<Item = (Pair, Cooling)>) {
        // A step further back cuts all that the earlier ones have cut.
        self.steps.retain(|earlier| earlier.to <= step.to.plus(VOTE_AHEAD_MAX_S));
        self.steps.truncate(CUTS_MAX - 1);
        self.steps.push(step);
        for (pair, row) in rows {
            self.rows.entry(pair).or_insert(CutVote { row, is_settled: false });
        }
    }

    /// The steps until now are for good.
    pub(super) fn settle(&mut self) {
        self.rows.values_mut().for_each(|vote| vote.is_settled = true);
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
        self.rows.get(&pair).map(|vote| vote.row)
    }

    /// The votes as their rows have them.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Pair, Cooling)> {
        self.rows.iter().map(|(pair, vote)| (*pair, vote.row))
    }

    /// The votes of a server as their rows have them.
    pub(super) fn of_server(&self, server: ServerId) -> impl Iterator<Item = Cooling> {
        self.rows.values().map(|vote| vote.row).filter(move |row| row.pair.server == server)
    }

    /// The vote of this pair was removed, and its row with it.
    pub(super) fn forget(&mut self, pair: Pair) {
        self.rows.remove(&pair);
        self.end_steps();
    }

    /// Takes out those that `goes` says, as their rows have them.
    pub(super) fn take(&mut self, goes: impl Fn(&CutVote) -> bool) -> Vec<Cooling> {
        let taken = self.rows.extract_if(|_, vote| goes(vote)).map(|(_, vote)| vote.row).collect();
        self.end_steps();
        taken
    }

    fn end_steps(&mut self) {
        if self.rows.is_empty() {
            self.steps.clear();
        }
    }
}
