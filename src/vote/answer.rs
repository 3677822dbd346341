//! The decision, and the status body: the contract's five fields, byte for byte.

use super::address::VoterAddress;
use super::directory::Snapshot;
use super::id::{ServerId, ServerIdError};
use super::table::{CooldownView, Pair};
use super::time::{Cooldown, UnixSeconds};

/// How a request names its server, as it stands in the path after percent-decoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKey<'a> {
    /// `/api/servers/{token}/…`
    Token(&'a [u8]),
    /// `/api/vote/{serverId}/…`
    Id(Result<ServerId, ServerIdError>),
}

/// The question of a status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question<'a> {
    /// The server asked about.
    pub server: ServerKey<'a>,
    /// The voter's address; `None` where the text is no address.
    pub address: Option<VoterAddress>,
}

/// The answer to a status request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The address may vote now.
    CanVote,
    /// A live recorded cooldown was found: the only answer that says `false`.
    InCooldown {
        /// When the address may vote again.
        expires_at: UnixSeconds,
    },
    /// The server id is no number in the contract's form.
    InvalidServerId,
    /// No such server.
    UnknownServer,
    /// No such token.
    UnknownToken,
    /// The address has none of the contract's forms.
    InvalidIp,
}

/// The pair that the question is about. Server and token are checked before the address, so that a wrong key is
/// reported as such.
///
/// # Errors
/// The answer to a question that names no pair.
#[inline(always)]
pub fn asked_pair(question: Question<'_>, servers: &Snapshot) -> Result<Pair, Answer> {
    let server = match question.server {
        ServerKey::Id(Ok(server)) if servers.contains(server) => server,
        ServerKey::Id(Ok(_) | Err(ServerIdError::TooLarge)) => return Err(Answer::UnknownServer),
        ServerKey::Id(Err(ServerIdError::Invalid)) => return Err(Answer::InvalidServerId),
        ServerKey::Token(token) => servers.find(token).ok_or(Answer::UnknownToken)?,
    };
    let address = question.address.ok_or(Answer::InvalidIp)?;
    Ok(Pair { server, address })
}

/// Decides the answer.
#[inline]
#[must_use]
pub fn decide(question: Question<'_>, servers: &Snapshot, cooldowns: &CooldownView, now: UnixSeconds) -> Answer {
    let pair = match asked_pair(question, servers) {
        Ok(pair) => pair,
        Err(answer) => return answer,
    };
    match cooldowns.live(pair, now) {
        Some(expires_at) => Answer::InCooldown { expires_at },
        None => Answer::CanVote,
    }
}

/// The body of "can vote".
#[must_use]
pub fn can_vote_body(cooldown: Cooldown) -> String {
    let minutes = cooldown.minutes();
    format!(
        r#"{{"success":true,"can_vote":true,"message":"Vous pouvez voter maintenant","next_vote_at":null,"cooldown_minutes":{minutes}}}"#
    )
}

/// The body of "in cooldown".
#[must_use]
pub fn in_cooldown_body(cooldown: Cooldown, minutes_remaining: u32, expires_at: UnixSeconds) -> String {
    let minutes = cooldown.minutes();
    format!(
        r#"{{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans {minutes_remaining} minutes","next_vote_at":"{expires_at}","cooldown_minutes":{minutes}}}"#
    )
}

/// The safe body of every error: both flags true, so that no caller takes a fault for a vote.
/// `message` is French, for people; `error` is the stable word for machines.
#[must_use]
pub fn safe_body(cooldown: Cooldown, message: &str, error: &str) -> String {
    let minutes = cooldown.minutes();
    format!(
        r#"{{"success":true,"can_vote":true,"message":"{message}","next_vote_at":null,"cooldown_minutes":{minutes},"error":"{error}"}}"#
    )
}
