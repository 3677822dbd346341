//! Compares a step with the model: its answers, the readers' looks meanwhile, bells, notes and memory.

use super::{FILE_BYTES_MAX, GONE_MS, MEMORY_LOOKS, Machine, NOTED_MS, Outcome, STEP_MS, STORE, SWEPT_STEPS, Step};
use crate::simulation::model::time::{FUZZ_MS, once};
use crate::simulation::model::world::{Seen, Token};
use crate::simulation::model::{Answer, Asking, Live, Named, Request, Sight};
use crate::simulation::operations::SERVERS;
use crate::simulation::process::Process;
use std::net::IpAddr;
use std::sync::Arc;
use vote_status::readiness::Trouble;

impl Machine {
    /// Compares the outcome of a step with the model.
    pub(super) fn judge(&mut self, process: &mut Process, step: Step<'_>) -> Outcome {
        let works = self.works();
        let mut moments = vec![self.model.live.clone()];
        self.model.shows(step.shown_ms, step.took, !self.has_worked)?;
        moments.push(self.model.live.clone());
        let trouble = process.trouble();
        let stays_unsaid = self.model.live.iter().all(|live| live.lines.goes_back().1) && trouble.is_none();
        let was_unsaid = std::mem::replace(&mut self.stays_unsaid, stays_unsaid);
        // A store may work again in the very step in which the time could not go back.
        if stays_unsaid && was_unsaid {
            return Err(format!("the time has to go back, does not, and nothing says so: {:?}", self.model.live));
        }
        let has_failed = self.counts().failed_syncs > step.before.failed_syncs && self.disk.locked().has_sync_failed;
        if has_failed && trouble.is_none() {
            return Err("a sync failed, and nothing says so".into());
        }
        self.compare(&step, &mut moments, trouble.as_ref().map(|(trouble, _)| *trouble))?;
        self.judge_looks(&step, &moments)?;
        self.judge_bells(process, &step)?;
        let took_ms = step.took.1.boot_ms - step.took.0.boot_ms;
        let before_ms = if works { 0 } else { self.longest_step_ms };
        self.longest_step_ms = before_ms.max(took_ms);
        self.has_worked = works && (self.has_worked || step.is_tick);
        self.judge_notes(&step)?;
        self.last = Some((step.took.1, step.shown_ms));
        if step.shown_ms < step.before_ms {
            self.certain_ms.clear();
        }
        if step.is_tick { self.judge_memory(process) } else { Ok(()) }
    }

    /// Compares the answers.
    pub(super) fn compare(
        &mut self,
        step: &Step<'_>,
        moments: &mut Vec<Vec<Live>>,
        trouble: Option<Trouble>,
    ) -> Outcome {
        let seconds = step.seconds();
        let (mut is_refused, mut is_taken) = (false, false);
        for (request, answers) in &step.answers {
            if answers.len() != request.parts() {
                return Err(format!("{request:?}: answered by {answers:?}"));
            }
            for (part, answer) in answers.iter().enumerate() {
                let context = |what| format!("{what}; {answer:?} to {request:?}; trouble {trouble:?}");
                let is_unavailable = matches!(answer, Answer::Refused | Answer::InDoubt);
                if is_unavailable && self.works() {
                    return Err(context("refused, though the disk is well"));
                }
                if *answer == Answer::InDoubt && self.counts().syncs == step.before.syncs {
                    return Err(context("in doubt, though nothing was synced"));
                }
                if *answer == Answer::InDoubt && !step.was_there && !self.is_in_memory {
                    return Err(context("in doubt, though the store was not at its path before"));
                }
                is_refused |= is_unavailable;
                is_taken |= answer.is_commit();
                self.model.answered(request, part, &seconds, answer)?;
                if let (Answer::Listed { token: Some(Token::Known(token)), .. }, Some(server), Some(backup)) =
                    (answer, request.server(part), self.backup.as_mut())
                {
                    backup.model.may_have_token(server, token);
                }
            }
            moments.push(self.model.live.clone());
        }
        if step.shown_ms < step.before_ms {
            // A store that works again answers before the time goes back: what was taken away then is not spent.
            self.model.forget_spent();
        }
        // A store that works again in this very step was reported as failing within it.
        if is_refused && !is_taken && trouble.is_none() && !step.looks.is_trouble_told {
            return Err(format!("{:?}: refused, and nothing says why", step.answers));
        }
        if is_taken && !step.was_there && !self.is_in_memory {
            return Err(format!("{:?}: acknowledged, though the store's file is not at its path", step.answers));
        }
        if is_taken && !is_refused && trouble.is_none() && step.looks.is_told_away && !self.is_in_memory {
            return Err(format!("{:?}: acknowledged, though the store had left its path at the sync", step.answers));
        }
        if is_taken && !is_refused && trouble.is_some() && self.works() {
            return Err(format!("{:?}: acknowledged, and the trouble is {trouble:?}", step.answers));
        }
        self.is_unproven &= !is_taken;
        if let Some(backup) = self.backup.as_mut().filter(|_| is_taken) {
            backup.is_older = true;
        }
        let listed = step.answers.iter().flat_map(|(_, answers)| answers).filter_map(|answer| match answer {
            Answer::Listed { token: Some(Token::Known(token)), .. } => Some(token),
            _ => None,
        });
        for token in listed {
            let has = |known: &Vec<Arc<str>>| known.contains(token);
            if !self.tokens.iter().any(has) {
                // It was generated.
                let server = self.model.any().and_then(|live| live.world.by_token(token)).unwrap_or(1);
                self.tokens[server as usize].push(Arc::clone(token));
            }
        }
        Ok(())
    }

    /// Readers beside the recorder see the state before a request, or behind one. No change is visible before it is synced.
    /// A change is visible once its caller is told.
    pub(super) fn judge_looks(&mut self, step: &Step<'_>, moments: &[Vec<Live>]) -> Outcome {
        let may_see = |moments: &[Vec<Live>], asking: &Asking, sight: Sight| {
            moments.iter().flatten().any(|live| live.may_see(asking, sight)) || step.may_be_midway(asking, sight)
        };
        let looks = &step.looks;
        for (request, index, sight) in &looks.seen_when_told {
            let asking = &looks.asking[*index];
            if !may_see(&moments[2 + request..], asking, *sight) {
                return Err(format!("{sight:?} to {asking:?} when a caller had been told of {:?}", step.requests));
            }
        }
        for (index, sight, is_synced) in &looks.seen {
            let asking = &looks.asking[*index];
            if !may_see(moments, asking, *sight) {
                return Err(format!("a reader beside the recorder saw {sight:?} to {asking:?}, which was never so"));
            }
            if !is_synced && !may_see(&moments[..1], asking, *sight) {
                return Err(format!("{sight:?} to {asking:?} is visible before it is durable"));
            }
        }
        for (ms, trouble) in &looks.stalls {
            if !self.is_in_memory && *ms > 2_000 && !step.requests.is_empty() && trouble.is_none() {
                return Err(format!("a commit has taken {ms} ms, and nothing says so"));
            }
        }
        Ok(())
    }

    /// A client that waits for a vote is woken once the vote is visible, or once its server is removed.
    pub(super) fn judge_bells(&mut self, process: &mut Process, step: &Step<'_>) -> Outcome {
        for (index, (asking, sight)) in step.looks.asking.iter().zip(&step.sights).enumerate() {
            let now = process.reader.ask(asking);
            let is_new = sight.seen == Seen::CanVote && matches!(now.seen, Seen::InCooldown { .. });
            let is_rung =
                |(rung, then): &(usize, Sight)| *rung == index && matches!(then.seen, Seen::InCooldown { .. });
            let is_gone = sight.seen != Seen::UnknownServer && now.seen == Seen::UnknownServer;
            let is_woken = (!is_new || step.looks.rung.iter().any(is_rung))
                && (!is_gone || step.looks.rung.iter().any(|(rung, _)| *rung == index));
            if asking.token.is_none() && !is_woken {
                return Err(format!(
                    "{now:?} to {asking:?}, and the client that waits was not woken ({:?})",
                    step.looks.rung
                ));
            }
        }
        Ok(())
    }

    /// Judges the store's notes of the time.
    pub(super) fn judge_notes(&mut self, step: &Step<'_>) -> Outcome {
        if self.is_in_memory {
            return Ok(());
        }
        let (begin, end) = step.took;
        let has_written = self.counts().writes > step.before.writes;
        if has_written || step.answers.iter().flat_map(|(_, answers)| answers).any(Answer::is_commit) {
            if !self.works() {
                self.model.tried_to_go_back(end.boot_ms);
            }
            self.model.wrote(step.took);
        }
        if !self.works() {
            return Ok(());
        }
        let last = self.last.map_or(begin, |(last, _)| last);
        let step_ms = (begin.wall_ms - last.wall_ms) - (begin.boot_ms - last.boot_ms);
        if step_ms.abs() > STEP_MS + FUZZ_MS {
            if !has_written {
                return Err(format!("a step of {step_ms} ms is not noted at once"));
            }
            self.model.supersede(end.boot_ms);
        }
        let works_from_ms = self.works_from_ms.unwrap_or(end.boot_ms);
        if end.boot_ms - self.ready_from_ms.max(works_from_ms) > NOTED_MS {
            let newest_ms = self.model.newest_ms();
            if newest_ms < end.boot_ms - NOTED_MS {
                return Err(format!("the time was noted {} ms ago", end.boot_ms - newest_ms));
            }
            self.model.supersede(end.boot_ms - NOTED_MS);
        }
        Ok(())
    }

    /// The table and the file give back the memory of ended votes.
    pub(super) fn judge_memory(&mut self, process: &Process) -> Outcome {
        let certain_ms = self.model.certain_ms();
        if self.certain_ms.back().is_some_and(|last_ms| certain_ms < *last_ms) {
            // The service has taken an earlier line.
            self.certain_ms.clear();
        }
        self.certain_ms.push_back(certain_ms);
        if self.certain_ms.len() <= SWEPT_STEPS {
            return Ok(());
        }
        let certain_ms = self.certain_ms.pop_front().unwrap_or(0);
        self.judge_file(process)?;
        self.looked += 1;
        if !self.looked.is_multiple_of(MEMORY_LOOKS) {
            return Ok(());
        }
        let (held, most) = (process.reader.held(), self.model.held_max(certain_ms));
        if held > most && self.works() {
            return Err(format!("the table holds {held} votes, and {most} have not ended"));
        }
        let bytes = self.disk.locked().length_of(STORE);
        if bytes > FILE_BYTES_MAX {
            return Err(format!("the file has {bytes} bytes"));
        }
        Ok(())
    }

    /// The service reports a file that is not at its path, whether a vote comes or not, and writes an emptied file anew.
    fn judge_file(&mut self, process: &Process) -> Outcome {
        let (boot_ms, disk) = (self.clocks.reading().boot_ms, self.disk.locked());
        let is_gone = !self.is_in_memory && (self.is_displaced || !disk.has(STORE));
        if !is_gone {
            self.gone_from_ms = None;
        } else if boot_ms - *self.gone_from_ms.get_or_insert(boot_ms) > GONE_MS && process.trouble().is_none() {
            return Err("the store is not at its path, and nothing says so".into());
        }
        let is_empty = !self.is_in_memory && disk.length_of(STORE) == 0;
        drop(disk);
        if is_empty && self.works() { Err("the store's file is empty".into()) } else { Ok(()) }
    }

    /// The readers' questions while the recorder works: about all pairs of the requests, and another one.
    pub(super) fn sample(&mut self, requests: &[Request]) -> Vec<Asking> {
        let mut asking: Vec<Asking> = Vec::new();
        let by_id = |server: u32, address: IpAddr| Asking { server, token: None, address };
        let servers = 1..=u32::try_from(SERVERS).expect("few");
        for request in requests {
            match request {
                Request::Votes { asked, .. } => {
                    for asked in asked {
                        let server = self.server_of(&asked.server).unwrap_or(1);
                        asking.extend(asked.addresses.iter().map(|address| by_id(server, *address)));
                    }
                }
                Request::Cancel(server, address) => asking.push(by_id(*server, *address)),
                Request::CancelAll(address) => asking.extend(servers.clone().map(|server| by_id(server, *address))),
                Request::List { servers, .. } => {
                    for listed in servers {
                        let by_token =
                            |address: &IpAddr| Asking { token: listed.token.clone(), ..by_id(listed.server, *address) };
                        asking.extend(self.addresses.iter().take(4).map(by_token));
                    }
                }
                Request::Rotate(server) | Request::Remove(server) => {
                    asking.extend(self.addresses.iter().take(6).map(|address| by_id(*server, *address)));
                }
            }
        }
        self.looked += 1;
        let server = u32::try_from(1 + self.looked % SERVERS).expect("few");
        asking.push(by_id(server, self.addresses[self.looked % self.addresses.len()]));
        once(asking)
    }

    /// The server that a token was given to.
    pub(super) fn server_of(&self, named: &Named) -> Option<u32> {
        match named {
            Named::Id(id) => Some(*id),
            Named::Token(token) => {
                let at = self.tokens.iter().position(|tokens| tokens.contains(token));
                at.and_then(|at| u32::try_from(at).ok())
            }
        }
    }
}

impl Step<'_> {
    /// The seconds, by the time shown, in which the requests may have been decided: one, where the disk takes no time.
    pub(super) fn seconds(&self) -> Vec<i64> {
        let mut seconds = vec![self.shown_ms.div_euclid(1_000)];
        if self.took.0 != self.took.1 || self.is_dead {
            seconds.extend(self.looks.times.iter().map(|(_, shown_ms)| shown_ms.div_euclid(1_000)));
        }
        once(seconds)
    }

    /// The cooldowns of a server may go before its removal is visible.
    pub(super) fn may_be_midway(&self, asking: &Asking, sight: Sight) -> bool {
        let is_removed = |request: &Request| *request == Request::Remove(asking.server);
        sight.seen == Seen::CanVote && self.requests.iter().any(is_removed)
    }
}
