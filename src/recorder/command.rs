//! What the recorder can be asked, and what it answers.

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
    /// For which server.
    pub server: ServerName,
    /// From where.
    pub voter: Voter,
    /// When it was cast. `None` stands for the moment of recording.
    pub voted_at: Option<UnixSeconds>,
}

/// What is done about a vote for a pair that is in cooldown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A player votes now: refused.
    Cast,
    /// The caller's own records are the truth (import, replay): the later of the two votes stays.
    Record,
}

/// What is done about a server that is listed with another token than the one said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tokens {
    /// It keeps the one it has (import): an older file must not bring back a token that was replaced.
    Keep,
    /// It gets the one said.
    Replace,
}

/// A server to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewServer {
    /// Its id.
    pub server: ServerId,
    /// Its token. Where none is said a listed server keeps the one it has, and a new one gets one that
    /// is generated.
    pub token: Option<Token>,
}

/// One thing to do; the whole of it in one commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Record votes, each for itself: one that is refused does not stop the others.
    Votes(Vec<Vote>, Mode),
    /// End a cooldown early.
    Cancel(ServerId, VoterAddress),
    /// End every cooldown of an address early, for all servers.
    CancelAll(VoterAddress),
    /// List servers, each for itself.
    Servers(Vec<NewServer>, Tokens),
    /// Give a listed server a new token, which is generated.
    Rotate(ServerId),
    /// Remove a server, with its cooldowns.
    Remove(ServerId),
    /// Tell the digest of all that a node of a shared store holds; changes nothing.
    Digest,
}

impl Command {
    /// Addresses of votes, or servers in it; 1 for every other command.
    #[must_use]
    pub fn lines(&self) -> usize {
        match self {
            Self::Votes(votes, _) => votes.iter().map(|vote| vote.voter.addresses_len()).sum(),
            Self::Servers(servers, _) => servers.len(),
            _ => 1,
        }
    }
}

/// What became of one vote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VoteOutcome {
    /// Durable, and visible to every question that follows.
    Recorded(Recorded),
    /// Nothing changed: what is recorded is as late or later.
    Unchanged(Recorded),
    /// Refused: this address is in cooldown until then. Of several the one that is so for longest.
    InCooldown(VoterAddress, UnixSeconds),
    /// Refused: its cooldown is over already.
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
    /// What becomes of a vote, in a word: for metrics and watchers.
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
    /// Where the word stands for a vote of which the store kept nothing, as far as is known.
    pub const STORE_UNAVAILABLE: usize = 6;

    /// Where the word of this outcome stands.
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
    /// The server that the name meant.
    pub server: ServerId,
    /// From where.
    pub voter: Voter,
    /// When.
    pub voted_at: UnixSeconds,
    /// End of its cooldown.
    pub expires_at: UnixSeconds,
    /// Whether as many machines hold it as were asked for: always, where the store is this node's own.
    pub is_confirmed: bool,
}

/// What became of a server to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerOutcome {
    /// It is listed for the first time.
    Created(ServerId, Token),
    /// It was listed, and has another token now.
    Changed(ServerId, Token),
    /// It was listed with this token.
    Unchanged(ServerId, Token),
    /// It is listed with another token, which it keeps.
    TokenDiffers,
    /// The token is another server's.
    TokenInUse,
    /// There is no such server.
    Unknown,
    /// It needs a token, and none could be generated: see [`generate_token`].
    NotGenerated,
}

/// Makes a token; `None` where none can be made.
pub type GenerateToken = fn() -> Option<Token>;

/// A token of 128 bits that nobody can foresee; `None` where the system has no randomness to give, and
/// then the log says so.
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
    /// Nobody knows what was kept: a sync failed, or a shared store did not answer, or took one part and not
    /// another. A second try finds unchanged what was kept.
    StoreSilent,
}
