//! What a worker of the public service counts: the status requests that it answered.

use super::Counter;

/// Which resource was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// By numeric id.
    Id,
    /// By token.
    Token,
}

/// What was answered to a status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// May vote.
    CanVote,
    /// In cooldown.
    InCooldown,
    /// The address is malformed.
    InvalidIp,
    /// The server's number is malformed.
    InvalidServerId,
    /// No such server.
    UnknownServer,
    /// No such token.
    UnknownToken,
}

impl Variant {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Id, Self::Token];

    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Token => "token",
        }
    }
}

impl Outcome {
    /// Every outcome.
    pub const ALL: [Self; 6] = [
        Self::CanVote,
        Self::InCooldown,
        Self::InvalidIp,
        Self::InvalidServerId,
        Self::UnknownServer,
        Self::UnknownToken,
    ];

    /// The word for it; of a refusal, that of the error.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::CanVote => "can_vote",
            Self::InCooldown => "in_cooldown",
            Self::InvalidIp => "invalid_ip",
            Self::InvalidServerId => "invalid_server_id",
            Self::UnknownServer => "unknown_server",
            Self::UnknownToken => "unknown_token",
        }
    }

    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        match self {
            Self::CanVote | Self::InCooldown => 200,
            Self::InvalidIp | Self::InvalidServerId => 400,
            Self::UnknownServer | Self::UnknownToken => 404,
        }
    }
}

/// Counters of one worker; only that worker writes them, into cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AnswerCounters {
    requests: [[Counter; Outcome::ALL.len()]; Variant::ALL.len()],
}

impl AnswerCounters {
    /// Counts a status request that was answered.
    #[inline]
    pub fn request(&self, variant: Variant, outcome: Outcome) {
        self.requests[variant as usize][outcome as usize].add(1);
    }

    /// Status requests of a variant with an outcome.
    #[must_use]
    pub fn requests(&self, variant: Variant, outcome: Outcome) -> u64 {
        self.requests[variant as usize][outcome as usize].get()
    }
}
