//! Commands on their way to the store: the single changes that each needs, and the answer that their outcomes make. This module
//! knows no machine and no store.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::cluster::node::changes::{ChangeOutcome, WantedChange, WantedServer};
use crate::cluster::wire::answer::Done;
use crate::random;
use crate::recorder::Respond;
use crate::recorder::command::{
    Command, Mode, NewServer, Recorded, Reply, ServerName, ServerOutcome, Tokens, Vote, VoteOutcome, generate_token,
};
use crate::recorder::queue::Request;
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::{ServerId, Token};
use crate::vote::table::CooldownView;
use crate::vote::time::{Cooldown, UnixSeconds};

/// Commands with changes that the store has not decided.
#[derive(Default)]
pub(super) struct Commands {
    /// The numbers of the last change and of the last command.
    changes: u64,
    numbered: u64,
    parts: HashMap<u64, Part>,
    under_way: HashMap<u64, UnderWay>,
}

/// A command with undecided parts.
struct UnderWay {
    /// The answer to each part alone.
    parts: Vec<Reply>,
    undecided: usize,
    /// The changes that wait for earlier ones, in a command that is made line by line.
    later: VecDeque<(u64, WantedChange)>,
    /// Changes that the store has made.
    made: u64,
    votes: u64,
    taken_us: u64,
    respond: Respond,
}

/// A part of a command, and the place of its outcome.
struct Part {
    command: u64,
    index: usize,
    wanted: WantedAnswer,
    is_confirmed: bool,
}

/// The data that the answer to a part needs besides its outcome.
enum WantedAnswer {
    /// The voter as the caller knows it, and its addresses as the store knows them.
    Vote(Voter, Vec<VoterAddress>),
    Cancel,
    /// The token that the server has to keep: it is no success if the server has another one.
    List(Option<Token>),
    Remove,
}

/// A decided command.
pub(super) struct DecidedCommand {
    pub(super) reply: Reply,
    /// Changes that the store has made.
    pub(super) made: u64,
    /// Votes in the command, for counting.
    pub(super) votes: u64,
    /// The time at which the recorder took the command, in microseconds of the monotonic clock.
    pub(super) taken_us: u64,
    pub(super) respond: Respond,
}

/// The next step after a decided change of a command.
pub(super) enum Following {
    /// The next change of a command that is made line by line.
    Change(u64, WantedChange),
    /// The end of the command: this change was its last one.
    End(DecidedCommand),
}

impl Commands {
    /// The number of undecided changes.
    pub(super) fn changes_len(&self) -> usize {
        self.parts.len()
    }

    /// Takes a command. Gives its first changes, each with a number greater than any before, or the decided command without any.
    pub(super) fn take(
        &mut self,
        request: Request,
        cooldowns: &CooldownView,
        now: UnixSeconds,
        now_us: u64,
    ) -> Result<Vec<(u64, WantedChange)>, DecidedCommand> {
        let Request { command, respond } = request;
        let votes = if let Command::Votes(votes, _) = &command { votes.len() as u64 } else { 0 };
        let is_in_order = depends_on_order(&command);
        let planned = plan(command, cooldowns, now);
        self.numbered += 1;
        let mut parts = Vec::new();
        let mut changes = Vec::new();
        for (index, part) in planned.into_iter().enumerate() {
            match part {
                Planned::Known(reply) => parts.push(reply),
                Planned::Change(change, wanted) => {
                    parts.push(Reply::StoreUnavailable);
                    self.changes += 1;
                    self.parts.insert(self.changes, Part { command: self.numbered, index, wanted, is_confirmed: true });
                    changes.push((self.changes, change));
                }
            }
        }
        let undecided = changes.len();
        let later = if is_in_order { changes.split_off(undecided.min(1)) } else { Vec::new() }.into();
        let under_way = UnderWay { parts, undecided, later, made: 0, votes, taken_us: now_us, respond };
        if undecided == 0 {
            return Err(under_way.decided());
        }
        self.under_way.insert(self.numbered, under_way);
        Ok(changes)
    }

    /// Notes that too few replicas hold this change.
    pub(super) fn note_unconfirmed(&mut self, change: u64) {
        if let Some(part) = self.parts.get_mut(&change) {
            part.is_confirmed = false;
        }
    }

    /// Notes the outcome of a change. Gives the next step of its command.
    pub(super) fn decide(&mut self, change: u64, outcome: ChangeOutcome, cooldown: Cooldown) -> Option<Following> {
        let Part { command, index, wanted, is_confirmed } = self.parts.remove(&change)?;
        let under_way = self.under_way.get_mut(&command)?;
        if !matches!(outcome, ChangeOutcome::Decided(..)) {
            // This outcome answers the whole command: the next line would only wait as long.
            for (number, _) in under_way.later.drain(..) {
                self.parts.remove(&number);
                under_way.undecided -= 1;
            }
        }
        let reply = wanted.reply(outcome, is_confirmed, cooldown);
        under_way.made += u64::from(is_change(&reply));
        under_way.parts[index] = reply;
        under_way.undecided -= 1;
        if under_way.undecided > 0 {
            return under_way.later.pop_front().map(|(number, change)| Following::Change(number, change));
        }
        self.under_way.remove(&command).map(|under_way| Following::End(under_way.decided()))
    }
}

impl UnderWay {
    /// A part that was refused, or whose outcome is unknown, decides the answer to the whole command: a second try finds the
    /// other parts unchanged.
    fn decided(self) -> DecidedCommand {
        let Self { parts, made, votes, taken_us, respond, .. } = self;
        let reply = match parts.into_iter().reduce(joined) {
            Some(Reply::StoreUnavailable) if made > 0 => Reply::StoreSilent,
            reply => reply.unwrap_or(Reply::StoreUnavailable),
        };
        DecidedCommand { reply, made, votes, taken_us, respond }
    }
}

/// Joins the answers to two parts of a command. They are of one kind unless the store failed at one of them.
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

/// Whether the answer to a part says that the store has made a change.
fn is_change(reply: &Reply) -> bool {
    match reply {
        Reply::Votes(votes) => matches!(votes[..], [VoteOutcome::Recorded(_)]),
        Reply::Servers(servers) => matches!(servers[..], [ServerOutcome::Created(..) | ServerOutcome::Changed(..)]),
        Reply::Cancelled(ended) => *ended == Some(true),
        Reply::Removed(server) => server.is_some(),
        _ => false,
    }
}

/// Whether the lines of a command are made one by one. The lines of all other commands are made together, as each takes
/// more than one round trip to the store. Then a line that begins again may come behind later lines.
fn depends_on_order(command: &Command) -> bool {
    match command {
        Command::Servers(servers, _) => {
            let (mut ids, mut tokens) = (HashSet::new(), HashSet::new());
            servers.iter().any(|NewServer { server, token }| {
                !ids.insert(server) || token.as_ref().is_some_and(|token| !tokens.insert(token.as_str()))
            })
        }
        // An id and a token may name one server.
        Command::Votes(votes, Mode::Cast) => {
            let by_token = votes.iter().filter(|vote| matches!(vote.server, ServerName::Token(_))).count();
            by_token > 0 && by_token < votes.len()
        }
        _ => false,
    }
}

/// A planned part of a command.
enum Planned {
    /// No change: this is its answer.
    Known(Reply),
    Change(WantedChange, WantedAnswer),
}

fn plan(command: Command, cooldowns: &CooldownView, now: UnixSeconds) -> Vec<Planned> {
    match command {
        Command::Votes(votes, mode) => votes.into_iter().map(|vote| plan_vote(vote, mode, cooldowns, now)).collect(),
        Command::Cancel(server, address) => {
            vec![Planned::Change(WantedChange::Cancel(server, cooldowns.voter(address)), WantedAnswer::Cancel)]
        }
        Command::CancelAll(address) => {
            let address = cooldowns.voter(address);
            // The outcomes of the parts are added to this count.
            let mut parts = vec![Planned::Known(Reply::CancelledAll(0))];
            let held = cooldowns.find(|pair| pair.address == address);
            parts
                .extend(held.into_iter().map(|held| {
                    Planned::Change(WantedChange::Cancel(held.pair.server, address), WantedAnswer::Cancel)
                }));
            parts
        }
        Command::Servers(servers, tokens) => servers.into_iter().map(|server| plan_server(server, tokens)).collect(),
        Command::Rotate(server) => {
            let planned = |token| Planned::Change(WantedChange::Rotate(server, token), WantedAnswer::List(None));
            vec![generate_token().map_or_else(not_generated, planned)]
        }
        Command::Remove(server) => vec![Planned::Change(WantedChange::Remove(server), WantedAnswer::Remove)],
        // The recorder answers this command itself, and never passes it on.
        Command::Digest => Vec::new(),
    }
}

fn not_generated() -> Planned {
    Planned::Known(Reply::Servers(vec![ServerOutcome::NotGenerated]))
}

fn plan_vote(vote: Vote, mode: Mode, cooldowns: &CooldownView, now: UnixSeconds) -> Planned {
    let Vote { server, voter, voted_at } = vote;
    let addresses: Vec<VoterAddress> = voter.addresses().map(|address| cooldowns.voter(address)).collect();
    let server = match server {
        ServerName::Id(server) => WantedServer::Id(server),
        ServerName::Token(token) => WantedServer::Token(token),
    };
    let change = match mode {
        Mode::Cast => WantedChange::Cast(server, voted_at, addresses.clone()),
        Mode::Record => WantedChange::Record(server, voted_at.unwrap_or(now), addresses.clone()),
    };
    Planned::Change(change, WantedAnswer::Vote(voter, addresses))
}

fn plan_server(server: NewServer, tokens: Tokens) -> Planned {
    let NewServer { server, token } = server;
    let Some(spare) = token.clone().or_else(generate_token) else { return not_generated() };
    // If a listed server keeps its token, the caller's token is for a new server only.
    let (said, kept) = if tokens == Tokens::Keep { (None, token) } else { (token, None) };
    let change = WantedChange::List { server, said, spare, bits: random::number() };
    Planned::Change(change, WantedAnswer::List(kept))
}

impl WantedAnswer {
    fn reply(self, outcome: ChangeOutcome, is_confirmed: bool, cooldown: Cooldown) -> Reply {
        match outcome {
            ChangeOutcome::Unavailable(_) => Reply::StoreUnavailable,
            ChangeOutcome::Silent => Reply::StoreSilent,
            ChangeOutcome::Decided(server, done) => {
                self.answer(server, done, is_confirmed, cooldown).unwrap_or(Reply::StoreUnavailable)
            }
        }
    }

    /// `None` if each try found another state than the one it named: nothing was done.
    fn answer(self, server: Option<ServerId>, done: Done, is_confirmed: bool, cooldown: Cooldown) -> Option<Reply> {
        let listed = |outcome: fn(ServerId, Token) -> ServerOutcome, token| Some(outcome(server?, token));
        let outcome = match (self, done) {
            (Self::Vote(voter, addresses), done) => {
                let outcome = vote_outcome(server, voter, &addresses, done, is_confirmed, cooldown)?;
                return Some(Reply::Votes(vec![outcome]));
            }
            (Self::Cancel, Done::Cancelled(_)) => return Some(Reply::Cancelled(Some(true))),
            (Self::Cancel, Done::OtherVote(None)) => return Some(Reply::Cancelled(Some(false))),
            (Self::Cancel, Done::Unlisted) => return Some(Reply::Cancelled(None)),
            (Self::Remove, Done::Removed(_)) => return Some(Reply::Removed(server)),
            (Self::Remove, Done::Unlisted) => return Some(Reply::Removed(None)),
            (Self::List(_), Done::Listed(record)) => listed(ServerOutcome::Created, record.token)?,
            (Self::List(_), Done::TokenChanged(record)) => listed(ServerOutcome::Changed, record.token)?,
            (Self::List(Some(kept)), Done::SameToken(record)) if kept != record.token => ServerOutcome::TokenDiffers,
            (Self::List(_), Done::SameToken(record)) => listed(ServerOutcome::Unchanged, record.token)?,
            (Self::List(_), Done::TokenInUse) => ServerOutcome::TokenInUse,
            (Self::List(_), Done::Unlisted) => ServerOutcome::Unknown,
            _ => return None,
        };
        Some(Reply::Servers(vec![outcome]))
    }
}

fn vote_outcome(
    server: Option<ServerId>,
    voter: Voter,
    addresses: &[VoterAddress],
    done: Done,
    is_confirmed: bool,
    cooldown: Cooldown,
) -> Option<VoteOutcome> {
    let recorded = |voted_at| {
        let expires_at = cooldown.expires_at(voted_at);
        Some(Recorded { server: server?, voter: voter.clone(), voted_at, expires_at, is_confirmed })
    };
    Some(match done {
        Done::Recorded(voted_at, _) => VoteOutcome::Recorded(recorded(voted_at)?),
        Done::Unchanged(voted_at) => VoteOutcome::Unchanged(recorded(voted_at)?),
        Done::InCooldown(refused, voted_at) => {
            let at = addresses.iter().position(|address| *address == refused)?;
            VoteOutcome::InCooldown(voter.addresses().nth(at)?, cooldown.expires_at(voted_at))
        }
        Done::WasCancelled => VoteOutcome::Cancelled,
        Done::Over => VoteOutcome::Expired,
        Done::InFuture => VoteOutcome::InFuture,
        Done::Unlisted => VoteOutcome::UnknownServer,
        Done::TooMany => VoteOutcome::TooManyChanges,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::{Commands, Following};
    use crate::cluster::node::changes::{ChangeOutcome, WantedChange, WantedServer};
    use crate::cluster::wire::answer::Done;
    use crate::recorder::RecorderHandle;
    use crate::recorder::command::{Command, Mode, NewServer, Reply, ServerName, Tokens, Vote, VoteOutcome};
    use crate::recorder::queue::Request;
    use crate::vote::address::VoterAddress;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::table::CooldownTable;
    use crate::vote::time::{Cooldown, UnixSeconds};

    const NOW: UnixSeconds = UnixSeconds(1_795_178_096);

    fn request(command: Command) -> Request {
        let (handle, requests) = RecorderHandle::new();
        handle.submit(command, Box::new(drop)).expect("there is room");
        requests.recv().expect("it is there")
    }

    fn votes(servers: u32) -> Command {
        let vote = |server| Vote {
            server: ServerName::Id(ServerId(server)),
            voter: VoterAddress::V4(Ipv4(7)).into(),
            voted_at: None,
        };
        Command::Votes((1..=servers).map(vote).collect(), Mode::Record)
    }

    /// The answer to a command of two votes with these outcomes.
    fn reply(outcomes: [ChangeOutcome; 2]) -> Reply {
        let (mut commands, table) = (Commands::default(), CooldownTable::default());
        let changes = commands.take(request(votes(2)), &table.view(), NOW, 0).map_err(|_| ()).expect("two changes");
        let wanted =
            |server| WantedChange::Record(WantedServer::Id(ServerId(server)), NOW, vec![VoterAddress::V4(Ipv4(7))]);
        assert_eq!(changes, [(1, wanted(1)), (2, wanted(2))]);
        let [first, last] = outcomes;
        assert!(commands.decide(1, first, Cooldown::USUAL).is_none(), "one is left");
        let following = commands.decide(2, last, Cooldown::USUAL);
        assert_eq!(commands.changes_len(), 0);
        let Some(Following::End(decided)) = following else { panic!("all are decided") };
        decided.reply
    }

    /// Regression: line 2 of 4 lost its token to line 4, as a line that was tried again came behind later lines.
    #[test]
    fn lines_about_one_server_or_token_are_made_one_after_the_other() {
        let token = |text: &str| Token::new(text).expect("a token");
        let servers = || {
            let lines = [(28, "other"), (29, "more"), (28, "demo")];
            let server = |(id, text)| NewServer { server: ServerId(id), token: Some(token(text)) };
            request(Command::Servers(lines.map(server).into(), Tokens::Replace))
        };
        let (mut commands, table) = (Commands::default(), CooldownTable::default());
        let begin = |commands: &mut Commands| {
            let changes = commands.take(servers(), &table.view(), NOW, 0).map_err(|_| ()).expect("three changes");
            changes.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(begin(&mut commands), [1]);
        let in_use = || ChangeOutcome::Decided(Some(ServerId(28)), Done::TokenInUse);
        for number in 1..3 {
            let following = commands.decide(number, in_use(), Cooldown::USUAL);
            assert!(matches!(following, Some(Following::Change(next, _)) if next == number + 1), "{number}");
        }
        let Some(Following::End(_)) = commands.decide(3, in_use(), Cooldown::USUAL) else { panic!("it was the last") };
        // The recorder does not ask a silent store again for each line.
        assert_eq!(begin(&mut commands), [4]);
        let following = commands.decide(4, ChangeOutcome::Silent, Cooldown::USUAL);
        assert!(matches!(following, Some(Following::End(decided)) if decided.reply == Reply::StoreSilent));
        assert_eq!(commands.changes_len(), 0);
    }

    #[test]
    fn a_command_of_which_some_was_kept_is_not_said_to_be_refused() {
        let known = || ChangeOutcome::Decided(None, Done::Unlisted);
        let made = || ChangeOutcome::Decided(Some(ServerId(1)), Done::Cancelled(NOW));
        let refused = || ChangeOutcome::Unavailable("OOM".to_owned());
        assert_eq!(reply([known(), known()]), Reply::Votes(vec![VoteOutcome::UnknownServer; 2]));
        assert_eq!(reply([known(), refused()]), Reply::StoreUnavailable);
        assert_eq!(reply([refused(), ChangeOutcome::Silent]), Reply::StoreSilent);
        // No answer to a vote: that counts as nothing done.
        assert_eq!(reply([known(), made()]), Reply::StoreUnavailable);
        let cancelled = ChangeOutcome::Decided(Some(ServerId(1)), Done::WasCancelled);
        assert_eq!(reply([known(), cancelled]), Reply::Votes(vec![VoteOutcome::UnknownServer, VoteOutcome::Cancelled]));
    }

    #[test]
    fn cancellations_of_an_address_are_counted() {
        let (sender, answers) = channel();
        let (handle, requests) = RecorderHandle::new();
        handle
            .submit(Command::CancelAll(VoterAddress::V4(Ipv4(7))), Box::new(move |reply| drop(sender.send(reply))))
            .expect("there is room");
        let mut commands = Commands::default();
        let decided = commands.take(requests.recv().expect("it is there"), &CooldownTable::default().view(), NOW, 0);
        let Err(decided) = decided else { panic!("there is nothing to end") };
        (decided.respond)(decided.reply);
        assert_eq!(answers.recv(), Ok(Reply::CancelledAll(0)));
    }
}
