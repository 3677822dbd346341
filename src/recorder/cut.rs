//! Votes whose cooldown was cut to its length by a step back, and whose rows do not say so yet: for 10 minutes the
//! clock may come back. Knows neither table nor store.

use std::collections::HashMap;

use crate::vote::table::{Cooling, Pair};
use crate::vote::time::UnixSeconds;

/// The votes, by the pair under which the table looks them up.
#[derive(Debug, Default)]
pub struct CutVotes {
    /// Where the clock was stepped back to.
    stepped_to: UnixSeconds,
    /// As their rows have them.
    rows: HashMap<Pair, Cooling>,
}

impl CutVotes {
    /// Cut to end a length after `stepped_to`.
    pub(super) fn new(stepped_to: UnixSeconds, rows: impl Iterator<Item = (Pair, Cooling)>) -> Self {
        Self { stepped_to, rows: rows.collect() }
    }

    /// See [`crate::store::Kept::stepped_to`].
    pub(super) fn stepped_to(&self) -> Option<UnixSeconds> {
        (!self.rows.is_empty()).then_some(self.stepped_to)
    }

    /// The vote of a pair as its row has it, if it was cut.
    pub(super) fn row(&self, pair: Pair) -> Option<Cooling> {
        self.rows.get(&pair).copied()
    }

    /// The votes as their rows have them.
    pub(super) fn rows(&self) -> impl Iterator<Item = (Pair, Cooling)> {
        self.rows.iter().map(|(pair, row)| (*pair, *row))
    }

    /// The vote of this pair has gone, and its row with it.
    pub(super) fn forget(&mut self, pair: Pair) {
        self.rows.remove(&pair);
    }

    /// Takes out those that `goes` says, as their rows have them.
    pub(super) fn take(&mut self, goes: impl Fn(Pair) -> bool) -> Vec<(Pair, Cooling)> {
        self.rows.extract_if(|pair, _| goes(*pair)).collect()
    }
}
