//! Instants of votes that are gone: which of them a new vote may get.

use super::{AHEAD_MAX_S, Moment, Spent, Voter, World};
use crate::simulation::model::time::{FUZZ_MS, Lines};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;

impl World {
    pub(super) fn spend(&mut self, server: u32, voter: Voter, at_s: i64) {
        self.spent.entry((server, voter)).or_default().insert(at_s, Spent::Never);
    }

    pub(super) fn spent(&self, server: u32, voters: &BTreeSet<Voter>, at_s: i64) -> Option<Spent> {
        let of_voters = voters.iter().filter_map(|voter| self.spent.get(&(server, *voter)));
        let mut all = of_voters.filter_map(|spent| spent.get(&at_s).copied());
        all.try_fold(None, |_, spent| if spent == Spent::Never { Err(spent) } else { Ok(Some(spent)) })
            .unwrap_or_else(Some)
    }

    /// The instants that a new vote may get: the first free one from `from_s` on. None where there are too many changes.
    pub(super) fn instants(
        &self,
        server: u32,
        voters: &BTreeSet<Voter>,
        from_s: i64,
        moment: Moment,
    ) -> Vec<Option<i64>> {
        let mut instants = Vec::new();
        let is_noted = |at_s: i64| moment.spent_up_to_s.is_some_and(|up_to_s| at_s <= up_to_s);
        let may_be_spent = |at_s: i64| at_s >= moment.now_s && is_noted(at_s);
        let (may_wait, has_to_wait) = moment.is_after_start;
        if may_wait && may_be_spent(from_s) {
            instants.push(None);
            // Where the time has gone back since, the spent instants lie too far ahead to be given.
            if has_to_wait && is_noted(moment.now_s) && !is_noted(moment.now_s + AHEAD_MAX_S + 1) {
                return instants;
            }
        }
        for at_s in from_s..=moment.now_s + AHEAD_MAX_S {
            match self.spent(server, voters, at_s) {
                None if may_be_spent(at_s) => instants.push(Some(at_s)),
                None => {
                    instants.push(Some(at_s));
                    return instants;
                }
                // The service forgets spent instants before now.
                Some(spent) if spent == Spent::Perhaps || at_s < moment.now_s => instants.push(Some(at_s)),
                Some(_) => {}
            }
        }
        instants.push(None);
        instants
    }

    /// The instants within these that no later vote may have, each with whether the service surely knows it.
    fn known(&self, within_s: RangeInclusive<i64>) -> BTreeMap<i64, bool> {
        // Votes of a removed server count as spent only where the server is listed again.
        let is_left =
            |server: &u32, voter: &Voter| self.servers.get(server).is_some_and(|it| it.left.contains_key(voter));
        let mut known = BTreeMap::new();
        for ((server, voter), spent) in &self.spent {
            for (at_s, spent) in spent.range(within_s.clone()) {
                *known.entry(*at_s).or_default() |= *spent == Spent::Never && !is_left(server, voter);
            }
        }
        known
    }

    /// The latest known instant.
    pub(crate) fn latest_spent_s(&self, from_s: i64) -> Option<(i64, bool)> {
        self.known(from_s..=i64::MAX).pop_last()
    }

    /// A start during a standstill shows a time after the instants that no later vote may have.
    pub(in crate::simulation::model) fn behind_spent(&self, lines: Lines) -> Vec<Lines> {
        let stands_ms = lines.shown_ms - lines.target_ms() - 1_000 * (AHEAD_MAX_S + 1);
        if stands_ms <= -FUZZ_MS {
            return vec![lines];
        }
        let shown_s = lines.shown_ms.div_euclid(1_000);
        let (mut ways, mut known) = (Vec::new(), self.known(shown_s..=shown_s + AHEAD_MAX_S));
        while let Some((at_s, is_sure)) = known.pop_last() {
            let mut behind = lines;
            behind.shown_ms = behind.shown_ms.max((at_s + 1) * 1_000);
            ways.push(behind);
            if is_sure && stands_ms > FUZZ_MS {
                return ways;
            }
        }
        ways.push(lines);
        ways
    }

    /// A change in doubt made this state: the instants that it spent may count as spent.
    pub(in crate::simulation::model) fn may_have_spent(&mut self, doubted: &World) {
        for (pair, instants) in &doubted.spent {
            let spent = self.spent.entry(*pair).or_default();
            for at_s in instants.keys() {
                spent.entry(*at_s).or_insert(Spent::Perhaps);
            }
        }
    }

    /// The service need not remember the spent instants.
    pub(crate) fn forget_spent(&mut self) {
        self.spent.values_mut().flat_map(BTreeMap::values_mut).for_each(|spent| *spent = Spent::Perhaps);
    }

    /// The instant of a pair's vote, live or not, or its latest spent one.
    pub(crate) fn latest(&self, server: u32, address: IpAddr) -> Option<i64> {
        let voter = self.voter(address);
        let spent = self.spent.get(&(server, voter)).and_then(|spent| spent.keys().next_back().copied());
        self.vote(server, voter).map(|vote| vote.at_s).or(spent)
    }
}
