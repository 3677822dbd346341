//! The seconds in which each voter's votes were cast: a vote that follows a cancelled one gets another second.

use super::world::Voter;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The seconds of votes of a pair that no later one may have, and those that a later one need not have.
#[derive(Clone, Debug, Default)]
pub(crate) struct Instants(BTreeMap<(u32, Voter), (BTreeSet<i64>, BTreeSet<i64>)>);

impl Instants {
    /// A vote was cast in this second, or perhaps.
    pub(crate) fn note(&mut self, server: u32, voter: Voter, at: i64, is_certain: bool) {
        let (certain, perhaps) = self.0.entry((server, voter)).or_default();
        if is_certain { certain } else { perhaps }.insert(at);
    }

    /// What is remembered of votes until now is not said. Their voters are told apart by so many bits from now on.
    pub(crate) fn doubt(&mut self, prefix: u8) {
        for ((server, voter), (certain, mut perhaps)) in std::mem::take(&mut self.0) {
            perhaps.extend(certain);
            self.0.entry((server, voter.under(prefix))).or_default().1.append(&mut perhaps);
        }
    }

    /// The same for the votes of one server.
    pub(crate) fn doubt_server(&mut self, server: u32) {
        let of_server = self.0.iter_mut().filter(|((of, _), _)| *of == server);
        of_server.for_each(|(_, (certain, perhaps))| perhaps.append(certain));
    }

    /// The latest second in which a vote certainly was cast.
    pub(crate) fn latest(&self, server: u32, voter: Voter) -> Option<i64> {
        self.0.get(&(server, voter)).and_then(|(certain, _)| certain.last().copied())
    }

    /// Whether a vote of one of these certainly was cast in this second.
    pub(crate) fn is_used(&self, server: u32, voters: &BTreeSet<Voter>, at: i64) -> bool {
        voters.iter().filter_map(|voter| self.0.get(&(server, *voter))).any(|(certain, _)| certain.contains(&at))
    }

    /// The first of these seconds in which certainly none of their votes was cast.
    pub(crate) fn free(&self, server: u32, voters: &BTreeSet<Voter>, among: RangeInclusive<i64>) -> Option<i64> {
        let of_voters: Vec<_> = voters.iter().filter_map(|voter| self.0.get(&(server, *voter))).collect();
        let is_taken =
            |at: &i64| of_voters.iter().any(|(certain, perhaps)| certain.contains(at) || perhaps.contains(at));
        among.into_iter().find(|at| !is_taken(at))
    }
}
