//! Has the store decide commands. The calls of many commands go out together, and their replies make an answer
//! for each. Knows the commands, not their callers.

use std::collections::HashMap;
use std::time::Duration;

use redis::{Cmd, Value, cmd};

use super::address::StoreAddress;
use super::calls::{self, Change, Term};
use super::entry::{EntryId, ListingId};
use super::follower::FeedDoor;
use super::follower::submitter::Decided;
use super::link::{LinkError, TIMEOUT};
use super::primary::Primary;
use super::reason::Reason;
use crate::recorder::command::{
    Command, NewServer, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome, generate_token,
};
use crate::vote::id::{ServerId, Token};
use crate::vote::table::CooldownView;

/// Calls that go out in one go.
const CALLS_AT_ONCE: usize = 1_024;
/// Tokens that are looked up in one go.
const TOKENS_AT_ONCE: usize = 1_024;
/// After a failure the store is left alone for as long as it took to fail, and at least for this, in
/// milliseconds. Commands that come meanwhile are refused at once.
const PAUSE_MS: u64 = 200;
/// A store that syncs its disk may take so many times the usual time-out.
const PATIENCE: u32 = 3;
/// What this node takes for the time of the store's clock may be wrong by so much, in milliseconds.
const CLOCKS_APART_MS: u64 = 100;

/// A call on its way.
struct Call {
    /// The command that it is part of.
    command: usize,
    /// Which part of it.
    part: usize,
    change: Change,
}

/// What becomes of one command.
struct Under {
    /// The answer that each of its parts alone would get.
    parts: Vec<Reply>,
    entry: Option<EntryId>,
    entries: u64,
}

/// Decides commands by the store's functions.
pub struct StoreDecider {
    address: StoreAddress,
    door: FeedDoor,
    /// How long a replica is waited for, which is to hold the votes too, in milliseconds.
    confirm_ms: Option<u64>,
    primary: Option<Primary>,
    /// How many connections the feed had made when `primary` was connected.
    epoch: u64,
    retry_at_ms: u64,
}

impl StoreDecider {
    /// One that has not connected yet.
    #[must_use]
    pub fn new(address: StoreAddress, door: FeedDoor, confirm_ms: Option<u64>) -> Self {
        Self { address, door, confirm_ms, primary: None, epoch: 0, retry_at_ms: 0 }
    }

    /// What became of each command, in their order: see [`Submitter::run`](super::follower::submitter::Submitter::run).
    pub fn decide(&mut self, commands: Vec<Command>) -> Vec<Decided> {
        let start_ms = self.door.clock.now().monotonic_ms;
        let mut under: Vec<Under> = commands.iter().map(Under::new).collect();
        if start_ms >= self.retry_at_ms {
            let outcome = self.try_decide(commands, &mut under);
            if let Err(error) = &outcome {
                self.note_failure(error, start_ms);
            }
            let now_ms = self.door.clock.now().monotonic_ms;
            let error = outcome.err();
            self.door.status.votes_reason.note(error.as_ref(), now_ms, "votes and changes are answered 503");
        }
        under.into_iter().map(Under::decided).collect()
    }

    fn try_decide(&mut self, commands: Vec<Command>, under: &mut [Under]) -> Result<(), LinkError> {
        let store = self.door.status.store.get().cloned().unwrap_or_default();
        self.connect()?;
        let servers = self.resolve(&commands, &store)?;
        let now_us = self.door.clock.now().monotonic_us;
        let calls = plan(commands, under, &servers, &self.door.cooldowns, now_us);
        let mut refused = None;
        for chunk in calls.chunks(CALLS_AT_ONCE) {
            refused = self.ask(chunk, under, &store)?.or(refused);
        }
        refused.map_or(Ok(()), Err)
    }

    fn patience(&self) -> Duration {
        TIMEOUT * PATIENCE + Duration::from_millis(self.confirm_ms.unwrap_or_default())
    }

    /// Sees to a connection that can be trusted: where the feed has had to connect anew, this does so too.
    fn connect(&mut self) -> Result<(), LinkError> {
        let epoch = self.door.status.connections.get();
        if self.epoch != epoch {
            self.primary = None;
        }
        if let Some(mut primary) = self.primary.take() {
            // The feed may know the same history by another name.
            if !self.door.status.is_settled(&primary.role.replid) {
                primary.check_unchanged()?;
            }
            let settled = self.check_settled(&primary);
            self.primary = Some(primary);
            return settled;
        }
        let mut primary = Primary::open(&self.address)?;
        self.check_settled(&primary)?;
        primary.link.set_timeout(self.patience())?;
        self.primary = Some(primary);
        self.epoch = epoch;
        Ok(())
    }

    /// Whether votes may be sent. Not before the store has back what it lost and this node still knows; and not
    /// while the state is read anew, as a vote has to be shown here at once.
    fn check_settled(&self, primary: &Primary) -> Result<(), LinkError> {
        let status = &self.door.status;
        if let Some((reason, why)) = status.barrier.get() {
            return Err(LinkError::Refused(reason, why));
        }
        let stands = (status.is_settled(&primary.role.replid), status.is_following());
        if stands != (true, true)
            && let Some((reason, why)) = status.feed_reason.get()
        {
            // Votes wait for the feed, so the feed's trouble is the reason.
            return Err(LinkError::Refused(reason, why));
        }
        let why = match stands {
            (true, true) => return Ok(()),
            (false, _) => "what it may have lost is not given back yet",
            (true, false) => "this node does not follow it yet",
        };
        Err(LinkError::Refused(Reason::Unsettled, format!("UNSETTLED store at {}: {why}", primary.link.host())))
    }

    /// The servers that votes name by their tokens.
    fn resolve(&mut self, commands: &[Command], store: &str) -> Result<HashMap<Token, ServerId>, LinkError> {
        let votes = commands.iter().filter_map(|command| match command {
            Command::Votes(votes, _) => Some(votes),
            _ => None,
        });
        let tokens = votes.flatten().filter_map(|vote| match &vote.server {
            ServerName::Token(token) => Some(token),
            ServerName::Id(_) => None,
        });
        let tokens: Vec<&Token> = tokens.collect();
        let mut servers = HashMap::new();
        for tokens in tokens.chunks(TOKENS_AT_ONCE) {
            let Some(primary) = &mut self.primary else { break };
            let (replies, lost) = primary.link.ask_all(calls::resolve(tokens));
            if let Some(lost) = lost {
                // Nothing was asked yet that changes anything: the votes are refused, not in doubt.
                self.primary = None;
                return Err(lost);
            }
            let mut replies = replies.into_iter();
            let found = replies.next().and_then(Result::ok);
            let holder = replies.next().and_then(Result::ok);
            if holder.as_ref().and_then(super::entry::text) != Some(store) {
                return Err(LinkError::Refused(
                    Reason::WrongStore,
                    format!("the store at {} is empty, or another one", primary.link.host()),
                ));
            }
            let found = found.as_ref().and_then(calls::read_resolved);
            let found = found.ok_or_else(|| primary.link.strange("servers of tokens"))?;
            let known = tokens.iter().zip(found).filter_map(|(token, server)| Some(((*token).clone(), server?)));
            servers.extend(known);
        }
        Ok(servers)
    }

    /// Asks some calls in one go, and notes what became of each. Gives one of the refusals, if
    /// there were any.
    fn ask(&mut self, calls: &[Call], under: &mut [Under], store: &str) -> Result<Option<LinkError>, LinkError> {
        // The store is to do it as long as a reply is waited for.
        let patience_ms = u64::try_from(self.patience().as_millis()).unwrap_or(u64::MAX);
        let until_ms = self.door.clock.shown_ms().saturating_add(patience_ms).saturating_sub(CLOCKS_APART_MS);
        let term = Term { store, until_ms: Some(until_ms) };
        let Some(primary) = &mut self.primary else {
            return Err(LinkError::Lost(Reason::Unreachable, "the store does not answer".into()));
        };
        let wait = self.confirm_ms.map(wait);
        let (replies, lost) = primary.link.ask_all(calls.iter().map(|call| call.change.question(term)).chain(wait));
        let mut refused = None;
        for (index, call) in calls.iter().enumerate() {
            let part = match replies.get(index) {
                Some(Ok(reply)) => self.read(call, reply, under),
                Some(Err(why)) => {
                    refused = Some(why.clone());
                    // A function that was stopped by an error may have written before it came to that.
                    if why.is_mid_function() { Reply::StoreSilent } else { Reply::StoreUnavailable }
                }
                // It went out, and no reply came.
                None => Reply::StoreSilent,
            };
            under[call.command].parts[call.part] = part;
        }
        if self.confirm_ms.is_some() {
            let confirmed = replies.get(calls.len()).and_then(|reply| reply.as_ref().ok());
            if lost.is_some() || !is_held(confirmed) || !self.confirms_unchanged(calls, under) {
                self.mark_unconfirmed(calls, under);
            }
        }
        lost.map_or(Ok(refused), Err)
    }

    fn read(&self, call: &Call, reply: &Value, under: &mut [Under]) -> Reply {
        let Some((answer, made)) = call.change.read(reply, self.door.cooldown) else {
            return Reply::StoreSilent;
        };
        let under = &mut under[call.command];
        under.entry = under.entry.max(made);
        under.entries += u64::from(made.is_some());
        answer
    }

    /// Has replicas confirm votes that were there already. Newer stores confirm only what was written on this
    /// connection, so something is written that changes nothing.
    fn confirms_unchanged(&mut self, calls: &[Call], under: &[Under]) -> bool {
        let is_there = |call: &Call| {
            let part = &under[call.command].parts[call.part];
            matches!(part, Reply::Votes(votes) if matches!(votes[..], [VoteOutcome::Unchanged(_)]))
        };
        let (Some(primary), Some(wait_ms)) = (&mut self.primary, self.confirm_ms) else { return true };
        if !calls.iter().any(is_there) {
            return true;
        }
        let (replies, lost) = primary.link.ask_all([calls::touch(&self.door.clock.now()), wait(wait_ms)]);
        if lost.is_some() {
            self.primary = None;
        }
        matches!(replies.as_slice(), [Ok(_), Ok(replicas)] if is_held(Some(replicas)))
    }

    fn mark_unconfirmed(&self, calls: &[Call], under: &mut [Under]) {
        let mut count = 0;
        for call in calls {
            // A vote that was there already is acknowledged too, and may be on the primary alone too.
            if let Reply::Votes(votes) = &mut under[call.command].parts[call.part]
                && let [VoteOutcome::Recorded(recorded) | VoteOutcome::Unchanged(recorded)] = &mut votes[..]
            {
                recorded.is_confirmed = false;
                count += 1;
            }
        }
        self.door.status.unconfirmed.add(count);
    }

    /// Drops a connection that is of no use any more, and leaves a store alone that was lost. A store that
    /// refuses may do so for a single vote, or have room again in a moment.
    fn note_failure(&mut self, error: &LinkError, start_ms: u64) {
        match error {
            LinkError::Lost(..) => {
                self.primary = None;
                let end_ms = self.door.clock.now().monotonic_ms;
                self.retry_at_ms = end_ms + (end_ms - start_ms).max(PAUSE_MS);
                self.door.status.submitter_failures.add(1);
            }
            // Another connection may lead to a machine that does not refuse.
            LinkError::Refused(reason, _) => {
                let is_elsewhere = matches!(reason, Reason::ReadOnly | Reason::Functions) || reason.is_of_connection();
                if is_elsewhere && *reason != Reason::Unsettled {
                    self.primary = None;
                }
            }
        }
    }
}

/// Waits for a replica to hold what was written before on the connection.
fn wait(wait_ms: u64) -> Cmd {
    let mut command = cmd("WAIT");
    command.arg(1).arg(wait_ms);
    command
}

/// Whether the reply to [`wait`] says that a replica holds it.
fn is_held(replicas: Option<&Value>) -> bool {
    replicas.and_then(super::entry::number).is_some_and(|replicas| replicas > 0)
}

/// The calls that these commands need. The outcome of a part that needs none is noted at once.
fn plan(
    commands: Vec<Command>,
    under: &mut [Under],
    servers: &HashMap<Token, ServerId>,
    cooldowns: &CooldownView,
    now_us: u64,
) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for (command, asked) in commands.into_iter().enumerate() {
        let mut add = |part, change: Change| calls.push(Call { command, part, change });
        match asked {
            Command::Votes(votes, mode) => {
                for (part, Vote { server, voter, voted_at }) in votes.into_iter().enumerate() {
                    let server = match server {
                        ServerName::Id(server) => Some(server),
                        ServerName::Token(token) => servers.get(&token).copied(),
                    };
                    let Some(server) = server else {
                        under[command].parts[part] = Reply::Votes(vec![VoteOutcome::UnknownServer]);
                        continue;
                    };
                    let addresses = voter.addresses().map(|address| cooldowns.voter(address)).collect();
                    add(part, Change::Vote { server, voter, addresses, mode, voted_at });
                }
            }
            Command::Cancel(server, address) => add(0, Change::Cancel(server, cooldowns.voter(address))),
            Command::CancelAll(address) => {
                let address = cooldowns.voter(address);
                let parts = &mut under[command].parts;
                // What the parts are counted onto.
                *parts = vec![Reply::CancelledAll(0)];
                for held in cooldowns.find(|pair| pair.address == address) {
                    parts.push(Reply::StoreUnavailable);
                    add(parts.len() - 1, Change::Cancel(held.pair.server, address));
                }
            }
            Command::Servers(news, tokens) => {
                for (part, NewServer { server, token }) in news.into_iter().enumerate() {
                    let Some(spare) = token.clone().or_else(generate_token) else {
                        under[command].parts[part] = Reply::Servers(vec![ServerOutcome::NotGenerated]);
                        continue;
                    };
                    // Where a listed server keeps its token, the one that is said is for a new one only.
                    let (said, kept) = if tokens == Tokens::Keep { (None, token) } else { (token, None) };
                    let listing = ListingId::draw(now_us);
                    add(part, Change::List { server, said, spare, kept, listing });
                }
            }
            Command::Rotate(server) => match generate_token() {
                Some(token) => add(0, Change::Rotate(server, token)),
                None => under[command].parts[0] = Reply::Servers(vec![ServerOutcome::NotGenerated]),
            },
            Command::Remove(server) => add(0, Change::Remove(server)),
            // The recorder answers it itself: it never comes here.
            Command::Digest => {}
        }
    }
    calls
}

impl Under {
    fn new(command: &Command) -> Self {
        let count = match command {
            Command::Votes(votes, _) => votes.len(),
            Command::Servers(servers, _) => servers.len(),
            _ => 1,
        };
        Self { parts: vec![Reply::StoreUnavailable; count], entry: None, entries: 0 }
    }

    /// Where one part was refused, or its outcome is unknown, the whole command is answered so: a
    /// second try finds the other parts unchanged.
    fn decided(self) -> Decided {
        let Self { parts, entry, entries } = self;
        let reply = match parts.into_iter().reduce(joined) {
            Some(Reply::StoreUnavailable) if entries > 0 => Reply::StoreSilent,
            reply => reply.unwrap_or(Reply::StoreUnavailable),
        };
        Decided { reply, entry, entries }
    }
}

/// The answer to two parts of a command, which are of one kind unless the store failed at one of them.
fn joined(one: Reply, other: Reply) -> Reply {
    match (one, other) {
        (Reply::Votes(mut all), Reply::Votes(more)) => {
            all.extend(more);
            Reply::Votes(all)
        }
        (Reply::Servers(mut all), Reply::Servers(more)) => {
            all.extend(more);
            Reply::Servers(all)
        }
        (Reply::CancelledAll(count), Reply::Cancelled(ended)) => {
            Reply::CancelledAll(count + usize::from(ended == Some(true)))
        }
        (Reply::StoreSilent, _) | (_, Reply::StoreSilent) => Reply::StoreSilent,
        _ => Reply::StoreUnavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::Under;
    use crate::recorder::command::{Reply, VoteOutcome};

    #[test]
    fn a_command_of_which_some_was_kept_is_not_said_to_be_refused() {
        let reply = |parts: &[Reply], entries| Under { parts: parts.to_vec(), entry: None, entries }.decided().reply;
        let known = Reply::Votes(vec![VoteOutcome::UnknownServer]);
        assert_eq!(reply(&[known.clone(), known.clone()], 0), Reply::Votes(vec![VoteOutcome::UnknownServer; 2]));
        assert_eq!(reply(&[known.clone(), Reply::StoreUnavailable], 0), Reply::StoreUnavailable);
        assert_eq!(reply(&[known.clone(), Reply::StoreUnavailable], 1), Reply::StoreSilent);
        let cancelled = |ended| Reply::Cancelled(Some(ended));
        assert_eq!(
            reply(&[Reply::CancelledAll(0), cancelled(true), cancelled(false), cancelled(true)], 2),
            Reply::CancelledAll(2)
        );
        assert_eq!(reply(&[Reply::CancelledAll(0)], 0), Reply::CancelledAll(0));
        assert_eq!(reply(&[Reply::CancelledAll(0), cancelled(true), Reply::StoreUnavailable], 1), Reply::StoreSilent);
        assert_eq!(reply(&[Reply::StoreUnavailable, known, Reply::StoreSilent], 0), Reply::StoreSilent);
    }
}
