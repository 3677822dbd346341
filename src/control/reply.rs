//! The control interface's answers: JSON, English, one object each.

use std::ops::Not;
use std::sync::mpsc::{Receiver, TryRecvError};

use serde::Serialize;
use serde_json::json;

use super::body::Invalid;
use crate::http::fault::Fault;
use crate::http::response::{self, Framing};
use crate::recorder::command::{Recorded, Reply, ServerOutcome, VoteOutcome};
use crate::vote::id::{ServerId, Token};
use crate::vote::table::Pair;
use crate::vote::time::UnixSeconds;

/// An answer that is ready to be sent.
#[derive(Debug)]
pub struct ControlAnswer {
    /// The status.
    pub status: u16,
    /// A field besides the common ones.
    pub field: Option<(&'static str, &'static str)>,
    /// The type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

const JSON: &str = "application/json; charset=utf-8";

impl ControlAnswer {
    /// An object under this status.
    #[must_use]
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        // Our values can always be written as JSON; an empty body would be the sign of a bug.
        let body = serde_json::to_vec(body).unwrap_or_default();
        Self { status, field: None, content_type: JSON, body }
    }

    /// The answer with a field besides the common ones, in place of any other.
    #[must_use]
    pub fn with(self, field: (&'static str, &'static str)) -> Self {
        Self { field: Some(field), ..self }
    }

    /// An error: a stable word, and a sentence for people.
    #[must_use]
    pub fn error(status: u16, word: &str, message: &str) -> Self {
        Self::json(status, &json!({ "error": word, "message": message }))
    }

    /// The answer to a fault of the protocol.
    #[must_use]
    pub fn fault(fault: Fault) -> Self {
        let answer = Self::error(fault.status(), fault.word(), message(fault));
        if fault == Fault::NotReady { answer.with(RETRY_SOON) } else { answer }
    }

    /// 405 for a resource that takes these methods.
    #[must_use]
    pub fn method_not_allowed(allow: &'static str) -> Self {
        Self::fault(Fault::MethodNotAllowed).with(("Allow", allow))
    }

    /// 401.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::error(401, "unauthorized", "send the control key as a bearer token").with(("WWW-Authenticate", "Bearer"))
    }

    /// 503: nothing was kept.
    #[must_use]
    pub fn store_unavailable() -> Self {
        Self::store_unavailable_saying("nothing was recorded: the store takes no changes now")
    }

    /// 503, with a message that tells which changes were kept.
    #[must_use]
    pub fn store_unavailable_saying(message: &str) -> Self {
        Self::error(503, "store_unavailable", message).with(RETRY_SOON)
    }

    /// 404 for a server.
    #[must_use]
    pub fn unknown_server() -> Self {
        Self::error(404, "unknown_server", "no such server")
    }

    /// 404 for a pair that is in no cooldown.
    #[must_use]
    pub fn no_cooldown() -> Self {
        Self::error(404, "no_cooldown", "this address is in no cooldown for this server")
    }

    /// The live vote of a pair.
    #[must_use]
    pub fn vote(pair: Pair, voted_at: UnixSeconds, expires_at: UnixSeconds) -> Self {
        Self::json(200, &VoteBody::held(pair, voted_at, expires_at))
    }

    /// Appends the whole response.
    pub fn append(&self, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
        let mut fields = vec![("Content-Type", self.content_type), ("Cache-Control", "no-store"), NOSNIFF];
        fields.extend(self.field);
        response::append(out, self.status, &now.imf_fixdate(), &fields, &self.body, framing);
    }
}

/// The client should ask again in a second.
pub const RETRY_SOON: (&str, &str) = ("Retry-After", "1");

/// Browsers must not guess at types.
pub const NOSNIFF: (&str, &str) = ("X-Content-Type-Options", "nosniff");

impl From<Invalid> for ControlAnswer {
    fn from(invalid: Invalid) -> Self {
        Self::error(invalid.status, invalid.word, &invalid.message)
    }
}

/// The answer to a reply about one vote or one server. A reply without an outcome leaves the change in doubt.
#[must_use]
pub fn answer(reply: &Reply) -> ControlAnswer {
    let in_doubt = || ControlAnswer::store_unavailable_saying(SILENT);
    match reply {
        Reply::Votes(outcomes) => outcomes.first().map_or_else(in_doubt, vote),
        Reply::Servers(outcomes) => outcomes.first().map_or_else(in_doubt, server),
        Reply::Cancelled(Some(true)) => ControlAnswer::json(200, &json!({ "cancelled": true })),
        Reply::Cancelled(Some(false)) => ControlAnswer::no_cooldown(),
        Reply::CancelledAll(0) => ControlAnswer::error(404, "no_cooldown", "this address is in no cooldown"),
        Reply::CancelledAll(count) => ControlAnswer::json(200, &json!({ "cancelled": count })),
        Reply::Removed(Some(server)) => ControlAnswer::json(200, &json!({ "removed": true, "server_id": server.0 })),
        Reply::Cancelled(None) | Reply::Removed(None) => ControlAnswer::unknown_server(),
        Reply::Digest(told) => ControlAnswer::json(200, told),
        Reply::StoreSilent => in_doubt(),
        Reply::StoreUnavailable => ControlAnswer::store_unavailable(),
    }
}

/// The reply, once it is there. A recorder that has ended never replies, and the outcome is in doubt: a shared store
/// may have recorded the vote before.
pub(super) fn arrived(reply: &Receiver<Reply>) -> Option<Reply> {
    match reply.try_recv() {
        Ok(reply) => Some(reply),
        Err(TryRecvError::Empty) => None,
        Err(TryRecvError::Disconnected) => Some(Reply::StoreSilent),
    }
}

fn vote(outcome: &VoteOutcome) -> ControlAnswer {
    match outcome {
        VoteOutcome::Recorded(recorded) => ControlAnswer::json(201, &VoteBody::recorded(recorded, false)),
        VoteOutcome::Unchanged(recorded) => ControlAnswer::json(200, &VoteBody::recorded(recorded, true)),
        VoteOutcome::InCooldown(address, expires_at) => {
            let message = "this address has voted for this server within the cooldown";
            let (ip, next_vote_at) = (address.to_string(), expires_at.to_string());
            ControlAnswer::json(
                409,
                &json!({ "error": "in_cooldown", "message": message, "ip": ip, "next_vote_at": next_vote_at }),
            )
        }
        VoteOutcome::UnknownServer => ControlAnswer::unknown_server(),
        VoteOutcome::Expired => ControlAnswer::error(422, "invalid_vote", EXPIRED),
        VoteOutcome::InFuture => ControlAnswer::error(422, "invalid_vote", IN_FUTURE),
        VoteOutcome::Cancelled => ControlAnswer::error(422, "cancelled", CANCELLED),
        VoteOutcome::TooManyChanges => ControlAnswer::error(429, "too_many_changes", TOO_MANY_CHANGES).with(RETRY_SOON),
    }
}

/// The reason to refuse a vote.
pub const EXPIRED: &str = "voted_at is older than the cooldown";
/// See [`EXPIRED`].
pub const CANCELLED: &str = "this vote, or a later one of its address, was cancelled";
/// See [`EXPIRED`].
pub const IN_FUTURE: &str = "voted_at is more than 5 seconds in the future";

/// See [`EXPIRED`].
pub const TOO_MANY_CHANGES: &str =
    "votes of this address were cancelled in each of the next seconds: ask again in a second";

/// The reason to leave a server of a batch unchanged.
pub const TOKEN_DIFFERS: &str = "the server has another token and keeps it; replace_tokens=1 takes this one";

/// The message for an outcome in doubt: the store was asked and did not confirm.
const SILENT: &str = "the store did not confirm it: it may have been recorded or not; ask again";

/// A vote as the contract spells it, fields in its order.
#[derive(Serialize)]
struct VoteBody {
    #[serde(skip_serializing_if = "Not::not")]
    recorded: bool,
    server_id: u32,
    ip: String,
    /// The addresses, if they are more than one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    ips: Vec<String>,
    voted_at: String,
    next_vote_at: String,
    #[serde(skip_serializing_if = "Not::not")]
    unchanged: bool,
    /// False if fewer replicas than `--store-wait-replicas` held the vote in time.
    #[serde(skip_serializing_if = "bool::clone")]
    confirmed: bool,
}

impl VoteBody {
    fn held(pair: Pair, voted_at: UnixSeconds, expires_at: UnixSeconds) -> Self {
        Self {
            recorded: false,
            server_id: pair.server.0,
            ip: pair.address.to_string(),
            ips: Vec::new(),
            voted_at: voted_at.to_string(),
            next_vote_at: expires_at.to_string(),
            unchanged: false,
            confirmed: true,
        }
    }

    fn recorded(vote: &Recorded, unchanged: bool) -> Self {
        let voter = &vote.voter;
        let pair = Pair { server: vote.server, address: voter.first() };
        let ips = voter.addresses().map(|address| address.to_string());
        Self {
            recorded: true,
            ips: if voter.addresses_len() > 1 { ips.collect() } else { Vec::new() },
            unchanged,
            confirmed: vote.is_confirmed,
            ..Self::held(pair, vote.voted_at, vote.expires_at)
        }
    }
}

fn server(outcome: &ServerOutcome) -> ControlAnswer {
    match outcome {
        ServerOutcome::Created(server, token) => ControlAnswer::json(201, &ServerBody::new(*server, token)),
        ServerOutcome::Changed(server, token) | ServerOutcome::Unchanged(server, token) => {
            ControlAnswer::json(200, &ServerBody::new(*server, token))
        }
        ServerOutcome::TokenInUse => ControlAnswer::error(409, "token_in_use", "this token is another server's"),
        // Only a batch keeps tokens: a call that names one server replaces its token.
        ServerOutcome::TokenDiffers => ControlAnswer::error(409, "token_differs", TOKEN_DIFFERS),
        ServerOutcome::Unknown => ControlAnswer::unknown_server(),
        ServerOutcome::NotGenerated => ControlAnswer::fault(Fault::Internal),
    }
}

/// A server's record.
#[derive(Serialize)]
pub struct ServerBody<'a> {
    server_id: u32,
    token: &'a str,
    /// The number of its live cooldowns, if the client asked for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    cooldowns: Option<usize>,
}

impl<'a> ServerBody<'a> {
    /// The record of a listed server.
    #[must_use]
    pub fn new(server: ServerId, token: &'a Token) -> Self {
        Self { server_id: server.0, token: token.as_str(), cooldowns: None }
    }

    /// The record with the number of its live cooldowns.
    #[must_use]
    pub fn with_cooldowns(self, cooldowns: Option<usize>) -> Self {
        Self { cooldowns, ..self }
    }
}

/// One page of servers.
#[derive(Serialize)]
pub struct ServersBody<'a> {
    /// In order of id.
    pub servers: Vec<ServerBody<'a>>,
    /// The last id of this page, which is `after` for the next page, if there is one.
    pub next: Option<u32>,
}

const fn message(fault: Fault) -> &'static str {
    match fault {
        Fault::BadRequest => "malformed request",
        Fault::NotFound => "no such resource",
        Fault::MethodNotAllowed => "this resource does not take this method",
        Fault::RequestTimeout => "the request was not finished in time",
        Fault::ContentTooLarge => "the body is too large",
        Fault::UriTooLong => "the request line is too long",
        Fault::ExpectationFailed => "this expectation is not met",
        Fault::HeadersTooLarge => "the head is too large",
        Fault::Internal => "a fault of the service",
        Fault::NotImplemented => "this transfer coding is not known",
        Fault::NotReady => "the service is not ready",
        Fault::VersionNotSupported => "this HTTP version is not spoken",
    }
}

#[cfg(test)]
mod tests {
    use super::{answer, arrived};
    use crate::recorder::command::Reply;
    use std::sync::mpsc::channel;

    /// Regression: the answer was "nothing was recorded" if the recorder ended after a shared store had recorded the
    /// vote, and before its reply.
    #[test]
    fn a_reply_that_never_comes_leaves_the_outcome_in_doubt() {
        let (sender, receiver) = channel();
        assert_eq!(arrived(&receiver), None);
        sender.send(Reply::Cancelled(Some(true))).expect("it is received");
        assert_eq!(arrived(&receiver), Some(Reply::Cancelled(Some(true))));
        drop(sender);
        let reply = arrived(&receiver).expect("none can come");
        let answer = answer(&reply);
        let body = String::from_utf8(answer.body).expect("text");
        assert_eq!(answer.status, 503);
        assert!(body.contains("it may have been recorded or not"), "{body}");
    }
}
