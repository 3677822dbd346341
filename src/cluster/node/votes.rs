//! The votes' connection: the node has callers' changes made on it, and asks the store for the time each second.

use super::changes::{ChangeOutcome, NextStep, Pending};
use super::connection::Asked;
use super::output::{NodeLine, NodeStanding, Output};
use super::{NodeMachine, UnseenEntry};
use crate::cluster::reason::RebuildCause;
use crate::cluster::wire::answer::{Done, RefusalKind, StoreAnswer, StoreRefusal, StoreReply};
use crate::cluster::wire::last::Last;
use crate::cluster::wire::question::{StoreQuestion, Terms};
use crate::vote::id::ServerId;

/// The purpose of a question.
#[derive(Debug)]
pub(super) enum VotesPurpose {
    /// To learn the time, and whether this store holds the last entry that the node knows.
    Beat,
    /// To make the change of this caller.
    Change(u64),
}

impl NodeMachine {
    pub(super) fn terms(&mut self, until_ms: Option<u64>, last: Last) -> Terms {
        Terms { store: self.store.clone().unwrap_or_default(), until_ms, last, bits: self.draws.next() }
    }

    fn ask_votes(&mut self, question: StoreQuestion, purpose: VotesPurpose, deadline_ms: u64) {
        self.votes.asked.push_back(Asked { purpose, deadline_ms });
        self.outputs.push(Output::Ask(NodeLine::Votes, question));
    }

    /// Gives up the connection. Changes with a call on its way are in doubt; the store has done nothing for the others.
    pub(super) fn drop_votes(&mut self, now_ms: u64) {
        self.is_elsewhere = false;
        for asked in self.votes.drop(now_ms, &self.bounds) {
            if let VotesPurpose::Change(caller) = asked.purpose {
                let is_called = self.pending.get(&caller).is_some_and(Pending::is_called);
                self.end(caller, if is_called { ChangeOutcome::Silent } else { unavailable(NO_ANSWER) });
            }
        }
        for caller in std::mem::take(&mut self.queued) {
            self.end(caller, unavailable(NO_ANSWER));
        }
    }

    fn end(&mut self, caller: u64, outcome: ChangeOutcome) {
        if let Some(pending) = self.pending.remove(&caller) {
            self.callers.remove(&pending.bits);
            self.deadlines.remove(&(pending.deadline_ms, caller));
            self.outputs.push(Output::Answer(caller, outcome));
        }
    }

    pub(super) fn proceed_votes(&mut self, now_ms: u64) {
        self.end_late(now_ms);
        // The first vote may come as soon as a state is shown.
        if !self.is_loaded && !self.feed.is_up() {
            return;
        }
        if self.votes.opens(now_ms, self.bounds.connect_ms) {
            self.outputs.push(Output::Connect(NodeLine::Votes));
        }
        if self.is_elsewhere && self.votes.asked.is_empty() {
            self.close(NodeLine::Votes, now_ms);
        }
        if !self.votes.is_up() || !self.is_loaded {
            return;
        }
        let is_fresh = self.votes.heard_ms().is_some_and(|heard_ms| now_ms < heard_ms + self.bounds.heartbeat_ms);
        if is_fresh && !self.is_elsewhere {
            self.begin_changes(now_ms);
        } else if !self.is_elsewhere
            && !self.votes.asked.iter().any(|asked| matches!(asked.purpose, VotesPurpose::Beat))
        {
            self.ask_votes(StoreQuestion::Head(self.newest()), VotesPurpose::Beat, now_ms + self.bounds.patience_ms);
        }
    }

    /// Ends changes that are too late: nothing was asked for them yet, or the log does not bring them.
    fn end_late(&mut self, now_ms: u64) {
        let before = self.pending.len();
        while let Some((_, caller)) = self.deadlines.first().copied().filter(|(deadline_ms, _)| now_ms >= *deadline_ms)
        {
            let (is_called, is_vote) =
                self.pending.get(&caller).map_or((false, false), |late| (late.is_called(), late.is_vote()));
            let outcome = if is_called { ChangeOutcome::Silent } else { self.not_called(is_vote, now_ms, NO_ANSWER) };
            self.end(caller, outcome);
        }
        // Thousands of changes may be queued, and each input comes here.
        if self.pending.len() < before {
            self.queued.retain(|caller| self.pending.contains_key(caller));
        }
    }

    /// The outcome of a change that the store was not asked to make, with what bars it, or else with this reason.
    fn not_called(&self, is_vote: bool, now_ms: u64, otherwise: &str) -> ChangeOutcome {
        self.barred(is_vote, now_ms).map_or_else(|| unavailable(otherwise), ChangeOutcome::Unavailable)
    }

    fn begin_changes(&mut self, now_ms: u64) {
        if self.standing() == NodeStanding::Waiting {
            return;
        }
        for caller in std::mem::take(&mut self.queued) {
            if let Some(pending) = self.pending.get_mut(&caller) {
                let next = pending.begin();
                self.go_on(caller, next, now_ms);
            }
        }
    }

    fn go_on(&mut self, caller: u64, next: NextStep, now_ms: u64) {
        let Some(pending) = self.pending.get(&caller) else { return };
        let (deadline_ms, bits, is_vote) = (pending.deadline_ms, pending.bits, pending.is_vote());
        let is_too_late = now_ms + self.bounds.answer_min_ms > deadline_ms;
        match next {
            NextStep::Ask(_) | NextStep::Call(..) if is_too_late => {
                self.end(caller, self.not_called(is_vote, now_ms, WAITED_TOO_LONG));
            }
            NextStep::Ask(question) => self.ask_votes(question, VotesPurpose::Change(caller), deadline_ms),
            NextStep::Call(server, call) => {
                // Later news may forbid the call.
                let (why, until_ms) = (self.barred(is_vote, now_ms), self.votes.store_ms(deadline_ms));
                let Some(until_ms) = until_ms.filter(|_| why.is_none()) else {
                    return self.end(caller, ChangeOutcome::Unavailable(why.unwrap_or_default()));
                };
                let terms = Terms { bits, ..self.terms(Some(until_ms), self.newest()) };
                self.ask_votes(StoreQuestion::Change(server, call, terms), VotesPurpose::Change(caller), deadline_ms);
            }
            NextStep::End(server, done) => self.end(caller, ChangeOutcome::Decided(server, done)),
        }
    }

    pub(super) fn take_votes(&mut self, answer: StoreAnswer, now_ms: u64) {
        let Some(purpose) = self.votes.hear(answer.now_ms, now_ms, &self.bounds) else { return };
        match purpose {
            VotesPurpose::Beat => match answer.reply {
                StoreReply::Head { is_held: true, .. } => {}
                StoreReply::Head { .. } => self.suspect(),
                _ => {
                    self.close(NodeLine::Votes, now_ms);
                }
            },
            VotesPurpose::Change(caller) => self.take_change(caller, answer.reply, now_ms),
        }
    }

    fn take_change(&mut self, caller: u64, reply: StoreReply, now_ms: u64) {
        let stamp = self.known.stamp;
        // A change that is over has a late question, which ends the connection before its answer is read.
        let Some(pending) = self.pending.get_mut(&caller) else { return };
        if let StoreReply::Refused(StoreRefusal { kind, text }) = reply {
            let outcome = if kind == RefusalKind::InDoubt && pending.is_called() {
                ChangeOutcome::Silent
            } else {
                ChangeOutcome::Unavailable(text)
            };
            match kind {
                RefusalKind::Lost => self.suspect(),
                RefusalKind::Elsewhere => self.is_elsewhere = true,
                _ => {}
            }
            return self.end(caller, outcome);
        }
        let made = if let StoreReply::Done(_, made) = &reply { *made } else { None };
        match pending.answered(reply, stamp) {
            Some(NextStep::End(server, done)) if made.is_some() => self.made(caller, server, done, made, now_ms),
            Some(next) => self.go_on(caller, next, now_ms),
            None => {
                let is_called = pending.is_called();
                self.end(caller, if is_called { ChangeOutcome::Silent } else { unavailable("GARBLED reply") });
            }
        }
    }

    /// Shows a change that the store has made, and then tells the caller.
    fn made(&mut self, caller: u64, server: Option<ServerId>, done: Done, made: Option<Last>, now_ms: u64) {
        let Some((pending, last)) = self.pending.get(&caller).zip(made) else { return };
        if pending.is_seen {
            return self.tell(caller, server, done, now_ms);
        }
        let (facts, is_only) = (pending.facts(server, &done), pending.leaves_no_other_vote());
        let now = self.now_s(now_ms);
        let is_ahead = last.n > self.position.n;
        let ((counts_already, are_shown), fresh) = self.join(now, |join| {
            let counts_already = is_only && facts.iter().any(|said| join.has_another_vote(said));
            for said in &facts {
                // Listings follow the log alone, as its votes are of the listing that it has come to.
                if !(is_ahead && join.changes_listing(said)) {
                    join.take(said.clone());
                }
            }
            (counts_already, facts.iter().all(|said| join.has(said)))
        });
        if is_ahead {
            self.unseen.push(UnseenEntry { last, facts, is_shown: are_shown });
            // The log says whether another vote that counts here was taken away before this change, or forgotten.
            if are_shown && !counts_already {
                self.end(caller, ChangeOutcome::Decided(server, done));
            } else if let Some(pending) = self.pending.get_mut(&caller) {
                pending.wait_for_log(server, done);
            }
        } else if fresh.is_empty() {
            // A fact that is not shown, although the log was read past it, was taken away since.
            self.tell(caller, server, done, now_ms);
        } else {
            // The log was read past that number, and this entry was not there: the store forgot entries that this node had read.
            self.note_doubt(RebuildCause::Gap);
            self.end(caller, ChangeOutcome::Silent);
        }
    }

    /// Tells a caller the outcome that the log has brought. If another vote counts by now, the store had forgotten that
    /// one when it made the change: then the outcome is in doubt. So no voter is paid for both votes, and no caller is
    /// told that a shown cooldown is over.
    fn tell(&mut self, caller: u64, server: Option<ServerId>, done: Done, now_ms: u64) {
        let only = self.pending.get(&caller).filter(|pending| pending.leaves_no_other_vote());
        let facts = only.map(|pending| pending.facts(server, &done)).unwrap_or_default();
        let now = self.now_s(now_ms);
        let (is_over_another, _nothing) = self.join(now, |join| facts.iter().any(|said| join.has_another_vote(said)));
        let outcome = if is_over_another { ChangeOutcome::Silent } else { ChangeOutcome::Decided(server, done) };
        self.end(caller, outcome);
    }

    /// Tells the callers of the changes that the log has brought.
    pub(super) fn acknowledge(&mut self, now_ms: u64) {
        let come = self.pending.iter().filter_map(|(caller, pending)| Some((*caller, pending.made()?)));
        for (caller, (server, done)) in come.collect::<Vec<_>>() {
            self.tell(caller, server, done, now_ms);
        }
    }
}

const NO_ANSWER: &str = "UNREACHABLE store: it does not answer";
const WAITED_TOO_LONG: &str = "UNSETTLED store: the change has waited too long";

fn unavailable(why: &str) -> ChangeOutcome {
    ChangeOutcome::Unavailable(why.to_owned())
}
