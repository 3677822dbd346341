//! The promises for each pair of server and address, whatever fails. The model is told each request and
//! answer, and rejects answers that break a promise. Nothing here touches a process or a socket.
//!
//! The last acknowledged change of a pair is a vote or its end. The node that acknowledged the change **holds** it, and after
//! a settlement all nodes do. Where the store forgets the change, one holder that reaches the store is enough to
//! bring it back. With none left the pair is **in doubt**: the vote may be there or not, until everything is
//! settled again and the store is asked.

use crate::util::ledger::Pair;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

/// The model claims nothing this close to the end of a cooldown, in seconds, as the answer was on its way. Steps of the
/// store's clock add to it.
const SLACK_S: i64 = 2;

/// The most that a vote is stamped ahead, in seconds.
const AHEAD_MAX_S: i64 = 5;

/// The store makes a change without an answer within this time and [`SLACK_S`], in seconds, or never: each call of a node
/// names its deadline.
const DONE_WITHIN_S: i64 = 3;

/// An answer or a state that breaks a promise.
pub(crate) type Violation = String;

/// All pairs.
#[derive(Debug)]
pub(crate) struct Model {
    cooldown_s: i64,
    slack_s: i64,
    pairs: BTreeMap<Pair, State>,
    /// Servers whose removal had no answer, and until when the store may do it.
    removed_until: BTreeMap<u32, i64>,
    /// Servers that were or may have been removed.
    was_removed: BTreeSet<u32>,
    /// Counts acknowledgements, to tell those that the store forgets.
    acknowledged: u64,
}

#[derive(Clone, Debug, Default)]
struct State {
    /// The instant of the vote that counts.
    live: Option<i64>,
    /// Nodes that hold the last acknowledged change.
    holders: BTreeSet<usize>,
    /// The store has forgotten that change, and a holder has to give it back.
    is_forgotten: bool,
    /// Instants of cancelled votes that the store or a node surely knows.
    cancelled: BTreeSet<i64>,
    /// Whether an answer was ever missing, so that votes of any instant may have come and gone.
    was_unsure: bool,
    /// The pair is in doubt: an answer is missing, or the store may have forgotten a change.
    is_doubtful: bool,
    /// A vote without an answer may be delayed in the network, and be recorded once the pair is free.
    may_come: bool,
    /// Until when a cancellation without an answer may arrive and cancel a later vote.
    goes_until: i64,
    /// Whether a vote was ever sent.
    was_tried: bool,
    /// The instants of all acknowledged votes.
    told: BTreeSet<i64>,
    /// The number of the last acknowledgement.
    changed: u64,
}

/// The status that a node must show for a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// In cooldown since this instant.
    Cooling(i64),
    /// No vote was ever sent.
    NeverVoted,
    /// In cooldown or not.
    Nothing,
}

impl Model {
    /// A model without votes. `clock_max_s` bounds the distance of the store's clock from the machine's.
    pub(crate) fn new(cooldown_s: i64, clock_max_s: i64) -> Model {
        Model {
            cooldown_s,
            slack_s: SLACK_S + 2 * clock_max_s,
            pairs: BTreeMap::new(),
            removed_until: BTreeMap::new(),
            was_removed: BTreeSet::new(),
            acknowledged: 0,
        }
    }

    /// The number of acknowledgements so far. A store that goes back to this moment forgets the later ones.
    pub(crate) fn moment(&self) -> u64 {
        self.acknowledged
    }

    /// A vote is about to be sent.
    pub(crate) fn sent(&mut self, pair: Pair) {
        self.pairs.entry(pair).or_default().was_tried = true;
    }

    /// A vote had no answer, or one that leaves it in doubt.
    pub(crate) fn unanswered(&mut self, pair: Pair) {
        self.overtaken(pair);
        self.pairs.entry(pair).or_default().is_doubtful = true;
    }

    /// The same for a vote beside another one that was answered 201.
    pub(crate) fn overtaken(&mut self, pair: Pair) {
        let state = self.pairs.entry(pair).or_default();
        (state.may_come, state.was_unsure) = (true, true);
    }

    /// A cancellation had no answer, or one that leaves it in doubt.
    pub(crate) fn cancellation_unanswered(&mut self, pair: Pair, now: i64) {
        let goes_until = now + DONE_WITHIN_S + self.slack_s;
        let state = self.pairs.entry(pair).or_default();
        (state.is_doubtful, state.was_unsure, state.goes_until) = (true, true, goes_until);
    }

    /// A vote of these pairs was answered 201. `meanwhile` has the seconds of the request and of the answer.
    pub(crate) fn recorded(
        &mut self,
        pairs: &[Pair],
        node: usize,
        voted_at: i64,
        meanwhile: RangeInclusive<i64>,
    ) -> Result<(), Violation> {
        let (sent, now) = meanwhile.into_inner();
        // After a cancellation a vote gets a later second than the one before, also where that is ahead.
        let told = pairs.iter().filter_map(|pair| self.pairs.get(pair)?.told.last());
        let latest = told.fold(now, |latest, told| latest.max(told + 1));
        if voted_at > latest + self.slack_s || voted_at < sent - self.slack_s {
            return Err(format!(
                "the vote of {pairs:?} was given at {voted_at}, and the request was answered from {sent} to {now}"
            ));
        }
        for pair in pairs {
            let state = self.pairs.entry(*pair).or_default();
            let is_live = |live: &i64| !state.is_doubtful && now < live + self.cooldown_s - self.slack_s;
            if let Some(live) = state.live.filter(is_live) {
                return Err(format!("{pair:?} was recorded twice: at {live} and at {voted_at}"));
            }
            if !state.told.insert(voted_at) {
                return Err(format!("two votes of {pair:?} were told with one instant, {voted_at}"));
            }
            self.acknowledge(*pair, node, voted_at, now);
        }
        Ok(())
    }

    /// A vote from the site's records was answered 200 or 201: the later one stays.
    pub(crate) fn kept(
        &mut self,
        pair: Pair,
        node: usize,
        (sent, voted_at): (i64, i64),
        now: i64,
    ) -> Result<(), Violation> {
        let state = self.pairs.entry(pair).or_default();
        let before = state.live.filter(|_| !state.is_doubtful);
        if let Some(expected) = before.map(|before| before.max(sent)).filter(|expected| *expected != voted_at) {
            return Err(format!("{pair:?} voted at {before:?} and {sent}: {voted_at} was kept, not {expected}"));
        }
        if before != Some(voted_at) && state.cancelled.contains(&voted_at) {
            return Err(format!("{pair:?} was recorded at {voted_at}, and that vote was cancelled"));
        }
        let was_doubtful = state.is_doubtful;
        state.told.insert(voted_at);
        self.acknowledge(pair, node, voted_at, now);
        // A later vote may still come back.
        self.pairs.entry(pair).and_modify(|state| state.is_doubtful |= was_doubtful);
        Ok(())
    }

    /// A vote from the site's records was answered 422 `cancelled`: that vote or a later one was cancelled or removed before.
    pub(crate) fn refused_as_cancelled(&self, pair: Pair, sent: i64) -> Result<(), Violation> {
        let is_possible = |state: &State| state.told.iter().any(|told| *told >= sent) || state.was_unsure;
        if self.pairs.get(&pair).is_some_and(is_possible) {
            return Ok(());
        }
        Err(format!("{pair:?} was refused as cancelled, and had no vote at {sent} or later"))
    }

    fn acknowledge(&mut self, pair: Pair, node: usize, voted_at: i64, now: i64) {
        self.acknowledged += 1;
        let state = self.pairs.entry(pair).or_default();
        let removed_until = self.removed_until.get(&pair.0).copied().unwrap_or_default();
        (state.is_doubtful, state.changed) = (now <= state.goes_until.max(removed_until), self.acknowledged);
        (state.live, state.is_forgotten) = (Some(voted_at), false);
        state.holders = BTreeSet::from([node]);
    }

    /// A vote of these pairs was answered 409: one of them is in cooldown.
    pub(crate) fn refused(&self, pairs: &[Pair], now: i64) -> Result<(), Violation> {
        let ends_s = self.cooldown_s + self.slack_s;
        let is_cooling = |state: &State| state.live.is_some_and(|live| now < live + ends_s);
        let is_possible = |state: &State| state.is_doubtful || state.may_come || is_cooling(state);
        if pairs.iter().any(|pair| self.pairs.get(pair).is_some_and(is_possible)) {
            return Ok(());
        }
        Err(format!("{pairs:?} was refused, without a live vote"))
    }

    /// A vote was answered 429: the next unused second is too far ahead, of these pairs or, after a removal, of any pair of the
    /// server.
    pub(crate) fn refused_for_now(&self, pairs: &[Pair], now: i64) -> Result<(), Violation> {
        let server = pairs[0].0;
        let was_removed = self.was_removed.contains(&server);
        let mut latest = self.pairs.iter().filter(|(pair, _)| pairs.contains(pair) || was_removed && pair.0 == server);
        let is_ahead = |state: &State| state.told.last().is_some_and(|told| *told >= now + AHEAD_MAX_S - self.slack_s);
        if latest.any(|(_, state)| is_ahead(state) || state.may_come || state.is_doubtful) {
            return Ok(());
        }
        Err(format!("{pairs:?} was refused for now, and no earlier vote was ahead of {now}"))
    }

    /// A cancellation was answered 200, or 404 without a cooldown.
    pub(crate) fn cancelled(&mut self, pair: Pair, node: usize, was_there: bool, now: i64) -> Result<(), Violation> {
        let cooldown_s = self.cooldown_s;
        let state = self.pairs.entry(pair).or_default();
        let left_s = state.live.map_or(i64::MIN, |live| live + cooldown_s - now);
        let is_possible = state.is_doubtful
            || if was_there { left_s > -self.slack_s || state.may_come } else { left_s < self.slack_s };
        if !is_possible {
            return Err(format!("the vote of {pair:?} was there: {was_there}, and it has {left_s} s left"));
        }
        let (was_doubtful, is_certain) = (state.is_doubtful, was_there && !state.is_doubtful && !state.may_come);
        state.cancelled.extend(state.live.filter(|_| is_certain));
        self.acknowledged += 1;
        state.end(node, self.acknowledged);
        // Another vote than the cancelled one may still come back.
        state.is_doubtful = was_doubtful;
        Ok(())
    }

    /// A server was removed with its votes. `by` is the node that acknowledged this; None without an answer.
    pub(crate) fn removed(&mut self, server: u32, by: Option<usize>, now: i64) {
        self.acknowledged += 1;
        self.was_removed.insert(server);
        if by.is_none() {
            self.removed_until.insert(server, now + DONE_WITHIN_S + self.slack_s);
        }
        for (_, state) in self.pairs.iter_mut().filter(|((of, _), _)| *of == server) {
            match by {
                Some(node) => state.end(node, self.acknowledged),
                None => (state.is_doubtful, state.was_unsure) = (true, true),
            }
        }
    }

    /// A node is gone, or no longer reaches the store: it gives back no more changes that the store has
    /// forgotten. Where the node `forgets`, it shows nothing that it held.
    pub(crate) fn lost_node(&mut self, node: usize, forgets: bool) {
        for state in self.pairs.values_mut() {
            if forgets || state.is_forgotten {
                state.holders.remove(&node);
            }
            state.is_doubtful |= state.is_forgotten && state.holders.is_empty();
        }
    }

    /// The store forgets the changes that were acknowledged after `moment`; `reaching` are the nodes that reach it.
    pub(crate) fn forgotten_since(&mut self, moment: u64, reaching: &BTreeSet<usize>) {
        for state in self.pairs.values_mut().filter(|state| state.changed > moment) {
            // Earlier cancellations may have had other holders.
            state.cancelled.clear();
            state.forget(reaching);
        }
    }

    /// The store forgets every vote, and no cancellation or removal.
    pub(crate) fn dropped(&mut self, reaching: &BTreeSet<usize>) {
        self.pairs.values_mut().filter(|state| state.live.is_some()).for_each(|state| state.forget(reaching));
    }

    /// The status that a node must show.
    pub(crate) fn claim(&self, pair: Pair, node: usize, now: i64) -> Claim {
        let Some(state) = self.pairs.get(&pair).filter(|state| state.was_tried) else { return Claim::NeverVoted };
        match state.live {
            _ if state.is_doubtful => Claim::Nothing,
            Some(live) if state.holders.contains(&node) && now < live + self.cooldown_s - self.slack_s => {
                Claim::Cooling(live)
            }
            _ => Claim::Nothing,
        }
    }

    /// Everything is settled, and the store has these live votes: checks that this may be. From here on
    /// all of `nodes` hold them.
    pub(crate) fn settled(&mut self, found: &BTreeMap<Pair, i64>, nodes: usize, now: i64) -> Result<(), Violation> {
        let mut wrong = Vec::new();
        for (pair, state) in &mut self.pairs {
            let found = found.get(pair).copied();
            let left_s = state.live.map_or(i64::MIN, |live| live + self.cooldown_s - now);
            let expected = state.live.filter(|_| left_s > 0);
            let has_come = state.may_come && expected.is_none();
            if !state.is_doubtful && !has_come && left_s.saturating_abs() > self.slack_s && found != expected {
                wrong.push(format!("{pair:?}: the store has {found:?}, and it must be {expected:?}"));
            }
            (state.is_doubtful, state.may_come, state.is_forgotten) = (false, false, false);
            (state.live, state.holders) = (found, (0..nodes).collect());
            state.told.extend(found);
        }
        let unknown = found.keys().filter(|pair| self.pairs.get(pair).is_none_or(|state| !state.was_tried));
        wrong.extend(unknown.map(|pair| format!("{pair:?} is in cooldown, and nobody voted")));
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

impl State {
    /// The pair's vote has ended, as this node has acknowledged.
    fn end(&mut self, node: usize, acknowledged: u64) {
        (self.live, self.is_doubtful, self.is_forgotten) = (None, false, false);
        (self.changed, self.holders) = (acknowledged, BTreeSet::from([node]));
    }

    /// The store forgets the last acknowledged change.
    fn forget(&mut self, reaching: &BTreeSet<usize>) {
        self.is_forgotten = true;
        self.holders = self.holders.intersection(reaching).copied().collect();
        self.is_doubtful |= self.holders.is_empty();
    }
}

#[cfg(test)]
mod tests {
    use super::{Claim, Model};
    use crate::util::ledger::{Pair, address};
    use std::collections::{BTreeMap, BTreeSet};

    const NOW: i64 = 1_000_000;

    fn model() -> (Model, Pair) {
        let (mut model, pair) = (Model::new(60, 0), (1, address(1)));
        model.sent(pair);
        (model, pair)
    }

    #[test]
    fn a_second_vote_is_a_violation_until_the_cooldown_is_over() {
        let (mut model, pair) = model();
        assert_eq!(model.recorded(&[pair], 0, NOW, NOW..=NOW), Ok(()));
        assert!(model.recorded(&[pair], 1, NOW + 30, NOW + 30..=NOW + 30).is_err());
        assert!(model.refused(&[pair], NOW + 30).is_ok());
        assert_eq!(model.recorded(&[pair], 1, NOW + 61, NOW + 61..=NOW + 61), Ok(()));
        assert!(model.refused(&[(1, address(2))], NOW).is_err(), "nobody voted from there");
    }

    #[test]
    fn one_instant_is_told_once() {
        let (mut model, pair) = model();
        model.recorded(&[pair], 0, NOW, NOW..=NOW).expect("the first");
        model.cancelled(pair, 0, true, NOW).expect("it is there");
        assert!(model.recorded(&[pair], 0, NOW, NOW..=NOW).is_err());
        assert!(model.kept(pair, 0, (NOW, NOW), NOW).is_err(), "it was cancelled");
        assert!([NOW, NOW - 1].iter().all(|at| model.refused_as_cancelled(pair, *at).is_ok()));
        assert!(model.refused_as_cancelled(pair, NOW + 1).is_err());
    }

    #[test]
    fn a_cancellation_that_is_forgotten_comes_back_as_a_vote_does() {
        let (mut model, pair) = model();
        model.recorded(&[pair], 0, NOW, NOW..=NOW).expect("the first");
        let before = model.moment();
        model.cancelled(pair, 1, true, NOW).expect("it is there");
        model.forgotten_since(before, &BTreeSet::from([0, 1]));
        assert!(model.settled(&BTreeMap::from([(pair, NOW)]), 3, NOW).is_err(), "a node knows of the cancellation");
        let (mut model, pair) = self::model();
        model.recorded(&[pair], 0, NOW, NOW..=NOW).expect("the first");
        let before = model.moment();
        model.cancelled(pair, 1, true, NOW).expect("it is there");
        model.forgotten_since(before, &BTreeSet::from([0]));
        assert_eq!(model.settled(&BTreeMap::from([(pair, NOW)]), 3, NOW), Ok(()), "no node knows of it");
    }

    #[test]
    fn what_is_forgotten_comes_back_as_long_as_one_holder_reaches_the_store() {
        let (mut model, pair) = model();
        let before = model.moment();
        model.recorded(&[pair], 2, NOW, NOW..=NOW).expect("the first");
        model.forgotten_since(before, &BTreeSet::from([0, 2]));
        assert_eq!(model.claim(pair, 2, NOW + 1), Claim::Cooling(NOW));
        assert!(model.recorded(&[pair], 0, NOW + 1, NOW + 1..=NOW + 1).is_err(), "a node has it still");
        model.lost_node(2, true);
        assert_eq!(model.claim(pair, 2, NOW + 1), Claim::Nothing);
        assert_eq!(model.recorded(&[pair], 0, NOW + 1, NOW + 1..=NOW + 1), Ok(()), "nobody has it any more");
        assert!(model.settled(&BTreeMap::new(), 3, NOW + 2).is_err(), "that one was not forgotten");
    }

    #[test]
    fn a_cancellation_that_is_held_up_meets_no_vote_that_is_much_later() {
        let (mut model, pair) = model();
        model.cancellation_unanswered(pair, NOW);
        model.recorded(&[pair], 0, NOW, NOW..=NOW).expect("the first");
        assert_eq!(model.claim(pair, 0, NOW), Claim::Nothing);
        assert_eq!(model.settled(&BTreeMap::new(), 3, NOW), Ok(()));
        model.recorded(&[pair], 0, NOW + 6, NOW + 6..=NOW + 6).expect("nothing is on its way any more");
        assert!(model.settled(&BTreeMap::new(), 3, NOW + 6).is_err());
    }

    #[test]
    fn what_is_there_in_the_end_was_sent() {
        let (mut model, pair) = model();
        let found = BTreeMap::from([(pair, NOW)]);
        assert!(model.settled(&found, 3, NOW).is_err(), "its vote was answered as not recorded");
        model.unanswered(pair);
        assert_eq!(model.settled(&found, 3, NOW), Ok(()));
        assert_eq!(model.claim(pair, 1, NOW), Claim::Cooling(NOW));
        let stranger = BTreeMap::from([(pair, NOW), ((1, address(9)), NOW)]);
        assert!(model.settled(&stranger, 3, NOW).is_err());
        assert_eq!(model.claim((1, address(9)), 1, NOW), Claim::NeverVoted);
    }
}
