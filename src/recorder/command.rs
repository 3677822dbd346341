//! The commands that the recorder takes, and its replies.

use serde_json::Value;

use crate::random;
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// How a command names its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerName {
    /// By its id.
    Id(ServerId),
    /// By its token.
    Token(Token),
}

/// A vote to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vote {
    /// The server.
    pub server: ServerName,
    /// The voter's addresses.
    pub voter: Voter,
    /// When the vote was cast; `None` for the moment of recording.
    pub voted_at: Option<UnixSeconds>,
}

/// How the recorder treats a vote for a pair in cooldown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A player votes now: the vote is refused.
    Cast,
    /// The caller's own records are the truth (import, replay): the later of the two votes stays.
    Record,
}

/// How the recorder treats a listed server whose token differs from the given one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// The server keeps its token (import): an older file must not bring back a token that was replaced.
    Keep,
    /// The server gets the given token.
    Replace,
}

/// A server to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewServer {
    /// Its id.
    pub server: ServerId,
    /// The server's token. With `None`, a listed server keeps its token, and a new one gets a generated token.
    pub token: Option<Token>,
}

/// A command. One commit carries all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Record votes, each on its own: a refused vote does not stop the others.
    Votes(Vec<Vote>, Mode),
    /// End a cooldown early.
    Cancel(ServerId, VoterAddress),
    /// End every cooldown of an address early, for all servers.
    CancelAll(VoterAddress),
    /// List servers, each on its own.
    Servers(Vec<NewServer>, Tokens),
    /// Give a listed server a new, generated token.
    Rotate(ServerId),
    /// Remove a server, with its cooldowns.
    Remove(ServerId),
    /// Return the digest of everything that a node of a shared store holds; changes nothing.
    Digest,
}

impl Command {
    /// The addresses of its votes, or its servers; 1 for every other command.
    #[must_use]
    pub fn lines(&self) -> usize {
        match self {
            Self::Votes(votes, _) => votes.iter().map(|vote| vote.voter.addresses_len()).sum(),
            Self::Servers(servers, _) => servers.len(),
            _ => 1,
        }
    }
}

/// The outcome of one vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteOutcome {
    /// The vote is durable, and visible to every later question.
    Recorded(Recorded),
    /// Nothing changed: the recorded vote is as late or later.
    Unchanged(Recorded),
    /// Refused: this address is in cooldown until then. Of several addresses, the one whose cooldown ends last.
    InCooldown(VoterAddress, UnixSeconds),
    /// Refused: the vote's cooldown is over already.
    Expired,
    /// Refused: too far ahead of the service's clock.
    InFuture,
    /// Refused: no such server.
    UnknownServer,
    /// Refused for now: so many votes of this voter were cancelled that the next free second is too far ahead.
    TooManyChanges,
    /// Refused: this very vote was taken away before. A store that nodes share remembers that.
    Cancelled,
}

impl VoteOutcome {
    /// The outcomes as words, for metrics and watchers.
    pub const WORDS: [&'static str; 9] = [
        "recorded",
        "unchanged",
        "in_cooldown",
        "expired",
        "in_future",
        "unknown_server",
        "store_unavailable",
        "too_many_changes",
        "cancelled",
    ];
    /// The index of the word for a vote that the store did not keep, as far as is known.
    pub const STORE_UNAVAILABLE: usize = 6;

    /// The index of this outcome's word in [`Self::WORDS`].
    #[must_use]
    pub const fn index(&self) -> usize {
        match self {
            Self::Recorded(_) => 0,
            Self::Unchanged(_) => 1,
            Self::InCooldown(..) => 2,
            Self::Expired => 3,
            Self::InFuture => 4,
            Self::UnknownServer => 5,
            Self::TooManyChanges => 7,
            Self::Cancelled => 8,
        }
    }

    /// The word of this outcome.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        Self::WORDS[self.index()]
    }
}

/// A vote as it stands in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The server that the vote named.
    pub server: ServerId,
    /// The voter's addresses.
    pub voter: Voter,
    /// When the vote was cast.
    pub voted_at: UnixSeconds,
    /// When the vote's cooldown ends.
    pub expires_at: UnixSeconds,
    /// Whether as many machines as asked for hold the vote; always true where the store is this node's own.
    pub is_confirmed: bool,
}

/// The outcome of listing a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerOutcome {
    /// The server is newly listed.
    Created(ServerId, Token),
    /// The server was listed, and has another token now.
    Changed(ServerId, Token),
    /// The server was listed with this token already.
    Unchanged(ServerId, Token),
    /// The server is listed with another token, which it keeps.
    TokenDiffers,
    /// The token belongs to another server.
    TokenInUse,
    /// There is no such server.
    Unknown,
    /// The server needs a token, and none could be generated: see [`generate_token`].
    NotGenerated,
}

/// Generates a token, or gives `None` where it cannot.
pub type GenerateToken = fn() -> Option<Token>;

/// Generates an unpredictable token of 128 bits. Where the system gives no random numbers, the function logs that and
/// returns `None`.
#[must_use]
pub fn generate_token() -> Option<Token> {
    let bits = random::bits().inspect_err(|error| {
        log::error!("the system gives no random numbers, so no token can be generated: {error}");
    });
    bits.ok().map(Token::from_random)
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To [`Command::Votes`], in order.
    Votes(Vec<VoteOutcome>),
    /// To [`Command::Cancel`]: whether there was a cooldown to end; `None` for no such server.
    Cancelled(Option<bool>),
    /// To [`Command::CancelAll`]: how many cooldowns ended with it.
    CancelledAll(usize),
    /// To [`Command::Servers`] in order, and to [`Command::Rotate`].
    Servers(Vec<ServerOutcome>),
    /// To [`Command::Remove`]: the server that was removed; `None` where it was not listed.
    Removed(Option<ServerId>),
    /// To [`Command::Digest`], as it is told.
    Digest(Value),
    /// Nothing of the command was kept.
    StoreUnavailable,
    /// The recorder does not know what was kept: a sync failed, or a shared store did not answer or took only a part. A
    /// retry reports what was kept as unchanged.
    StoreSilent,
}
