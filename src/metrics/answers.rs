//! What a worker of the public service counts: its answers.

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
    /// An error status.
    Refused,
}

impl Variant {
    /// Both, with their labels.
    pub const ALL: [(Self, &'static str); 2] = [(Self::Id, "id"), (Self::Token, "token")];
}

impl Outcome {
    /// All, with their labels.
    pub const ALL: [(Self, &'static str); 3] =
        [(Self::CanVote, "can_vote"), (Self::InCooldown, "in_cooldown"), (Self::Refused, "refused")];
}

/// The statuses that are counted each for itself; any other counts as the last. 200 is that of a
/// page: status requests are counted by their outcome.
const STATUSES: [u16; 15] = [200, 204, 304, 400, 404, 405, 408, 413, 414, 417, 431, 501, 503, 505, 500];

/// Counters of one worker; only that worker writes them, into cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct AnswerCounters {
    requests: [[Counter; Outcome::ALL.len()]; Variant::ALL.len()],
    /// Responses besides those to status requests that were answered 200.
    statuses: [Counter; STATUSES.len()],
}

impl AnswerCounters {
    /// Counts a status request.
    #[inline]
    pub fn request(&self, variant: Variant, outcome: Outcome) {
        self.requests[variant as usize][outcome as usize].add(1);
    }

    /// Counts a response, but for a status request that was answered 200.
    pub fn response(&self, status: u16) {
        let index = STATUSES.iter().position(|counted| *counted == status).unwrap_or(STATUSES.len() - 1);
        self.statuses[index].add(1);
    }

    /// Status requests of a variant with an outcome.
    #[must_use]
    pub fn requests(&self, variant: Variant, outcome: Outcome) -> u64 {
        self.requests[variant as usize][outcome as usize].get()
    }

    /// Responses by status.
    pub fn responses(&self) -> impl Iterator<Item = (u16, u64)> {
        let is_200 = |outcome| outcome != Outcome::Refused;
        let outcomes = Outcome::ALL.into_iter().map(|(outcome, _)| outcome).filter(move |outcome| is_200(*outcome));
        let answered =
            outcomes.map(|outcome| self.requests(Variant::Id, outcome) + self.requests(Variant::Token, outcome));
        let others = STATUSES.into_iter().zip(self.statuses.iter().map(Counter::get));
        std::iter::once((200, answered.sum())).chain(others)
    }
}
