//! The counters of a worker of the public service: the status requests that it answered.

use super::Counter;

/// The resource of a status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// By numeric id.
    Id,
    /// By token.
    Token,
}

/// The answer to a status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// May vote.
    CanVote,
    /// In cooldown.
    InCooldown,
    /// The address is malformed.
    InvalidIp,
    /// The server id is malformed.
    InvalidServerId,
    /// No such server.
    UnknownServer,
    /// No such token.
    UnknownToken,
}

impl Variant {
    /// Both in their order, with the label.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Id, "id"), (Self::Token, "token")];

    /// The label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

impl Outcome {
    /// Every outcome in its order, with the status and the word of the response. A refusal has the word of its error.
    pub const ALL: [(Self, u16, &'static str); 6] = [
        (Self::CanVote, 200, "can_vote"),
        (Self::InCooldown, 200, "in_cooldown"),
        (Self::InvalidIp, 400, "invalid_ip"),
        (Self::InvalidServerId, 400, "invalid_server_id"),
        (Self::UnknownServer, 404, "unknown_server"),
        (Self::UnknownToken, 404, "unknown_token"),
    ];

    /// The status of the response.
    #[must_use]
    pub const fn status(self) -> u16 {
        Self::ALL[self as usize].1
    }

    /// The word of the response.
    #[must_use]
    pub const fn word(self) -> &'static str {
        Self::ALL[self as usize].2
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

    /// All status requests.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.requests.iter().flatten().map(Counter::get).sum()
    }
}
