//! What a control request asks for, by its path and method.

use super::reply::ControlAnswer;
use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::route;
use crate::recorder::command::{Mode, Tokens};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::watch::WatchFilter;

/// One thing that can be asked of the control interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlRequest {
    /// `GET /`
    Page,
    /// `GET /healthz`
    Health,
    /// `GET /readyz`
    Ready,
    /// `GET /metrics`
    Metrics,
    /// `POST /v1/votes`
    Vote(Mode),
    /// `POST /v1/votes/batch`; how many refused lines are told one by one.
    VoteBatch(Mode, usize),
    /// `GET /v1/votes/{server_id}/{ip}`
    ShowVote(ServerId, VoterAddress),
    /// `DELETE /v1/votes/{server_id}/{ip}`
    Cancel(ServerId, VoterAddress),
    /// `GET /v1/servers?after=ID&limit=N`
    ListServers(Option<ServerId>, Option<usize>),
    /// `POST /v1/servers/batch`; as with votes.
    ServerBatch(Tokens, usize),
    /// `GET /v1/servers/{id}`
    ShowServer(ServerId),
    /// `PUT /v1/servers/{id}`
    PutServer(ServerId),
    /// `DELETE /v1/servers/{id}`
    RemoveServer(ServerId),
    /// `POST /v1/servers/{id}/token`
    RotateToken(ServerId),
    /// `GET /v1/export`
    Export,
    /// `GET /v1/watch`
    Watch,
    /// `GET /v1/cluster`
    Cluster,
    /// `GET /v1/cluster/digest`
    ClusterDigest,
}

/// Refused lines that a batch tells one by one unless asked otherwise.
const ERRORS_MAX_DEFAULT: usize = 100;
/// And at most. The answer has a bound in bytes besides.
const ERRORS_MAX: usize = 10_000;

/// Whether the path is behind the key.
#[must_use]
pub fn wants_key(head: &Head<'_>) -> bool {
    let path = route::decode(head.path);
    path.starts_with(b"/v1/") || *path == *b"/v1"
}

/// Reads what is asked.
///
/// # Errors
/// The answer to what cannot be asked.
pub fn read(head: &Head<'_>) -> Result<ControlRequest, ControlAnswer> {
    let path = route::decode(head.path);
    let query = Query(head.query.unwrap_or_default());
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    let not_found = || ControlAnswer::fault(Fault::NotFound);
    match *segments.as_slice() {
        [b""] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Page)]),
        [b"healthz"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Health)]),
        [b"readyz"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Ready)]),
        [b"metrics"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Metrics)]),
        [b"v1", b"export"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Export)]),
        [b"v1", b"watch"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Watch)]),
        [b"v1", b"cluster"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::Cluster)]),
        [b"v1", b"cluster", b"digest"] => by_method(head, "GET, HEAD", &[(Method::Get, ControlRequest::ClusterDigest)]),
        [b"v1", b"votes"] => by_method(head, "POST", &[(Method::Post, ControlRequest::Vote(query.mode(Mode::Cast)?))]),
        [b"v1", b"votes", b"batch"] => {
            let ask = ControlRequest::VoteBatch(query.mode(Mode::Record)?, query.errors_max()?);
            by_method(head, "POST", &[(Method::Post, ask)])
        }
        [b"v1", b"votes", id, ip] => {
            // The method first: what has no such method is told so, whatever its path names.
            let is_cancel = by_method(head, "GET, HEAD, DELETE", &[(Method::Get, false), (Method::Delete, true)])?;
            let address = VoterAddress::parse_user(ip);
            let address = address
                .ok_or_else(|| ControlAnswer::error(422, "invalid_vote", "ip must be an IPv4 or IPv6 address"))?;
            let pair = (server_id(id)?, address);
            Ok(if is_cancel {
                ControlRequest::Cancel(pair.0, pair.1)
            } else {
                ControlRequest::ShowVote(pair.0, pair.1)
            })
        }
        [b"v1", b"servers"] => {
            let ask = ControlRequest::ListServers(query.number("after")?.map(ServerId), query.size("limit")?);
            by_method(head, "GET, HEAD", &[(Method::Get, ask)])
        }
        [b"v1", b"servers", b"batch"] => {
            let ask = ControlRequest::ServerBatch(query.tokens()?, query.errors_max()?);
            by_method(head, "POST", &[(Method::Post, ask)])
        }
        [b"v1", b"servers", id] => {
            let id = server_id(id)?;
            let methods = [
                (Method::Get, ControlRequest::ShowServer(id)),
                (Method::Put, ControlRequest::PutServer(id)),
                (Method::Delete, ControlRequest::RemoveServer(id)),
            ];
            by_method(head, "GET, HEAD, PUT, DELETE", &methods)
        }
        [b"v1", b"servers", id, b"token"] => {
            let id = server_id(id)?;
            by_method(head, "POST", &[(Method::Post, ControlRequest::RotateToken(id))])
        }
        _ => Err(not_found()),
    }
}

/// What is to be watched: a server, by its number or its token, an address, and whether only what names no
/// listed server.
///
/// # Errors
/// The answer to what cannot be watched.
pub fn watch_filter(head: &Head<'_>, servers: &Snapshot) -> Result<WatchFilter, ControlAnswer> {
    let query = Query(head.query.unwrap_or_default());
    let refused = |message| ControlAnswer::error(400, "bad_request", message);
    let server = match (query.number("server_id")?, query.value("token")) {
        (Some(_), Some(_)) => return Err(refused("name the server by server_id or by token, not by both")),
        (Some(server), None) => Some(ServerId(server)),
        (None, Some(token)) => Some(servers.find(&route::decode(token)).ok_or_else(ControlAnswer::unknown_server)?),
        (None, None) => None,
    };
    let address = match query.value("ip") {
        Some(ip) => Some(
            VoterAddress::parse_user(&route::decode(ip))
                .ok_or_else(|| refused("ip must be an IPv4 or IPv6 address"))?,
        ),
        None => None,
    };
    Ok(WatchFilter { server, address, is_unknown_only: query.flag("unknown")? })
}

fn by_method<T: Copy>(head: &Head<'_>, allow: &'static str, asks: &[(Method, T)]) -> Result<T, ControlAnswer> {
    // HEAD is GET without the body.
    let method = if head.method == Method::Head { Method::Get } else { head.method };
    let found = asks.iter().find(|(taken, _)| *taken == method);
    found.map(|(_, ask)| *ask).ok_or_else(|| ControlAnswer::method_not_allowed(allow))
}

fn server_id(segment: &[u8]) -> Result<ServerId, ControlAnswer> {
    ServerId::parse(segment).map_err(|_| ControlAnswer::unknown_server())
}

struct Query<'a>(&'a [u8]);

impl Query<'_> {
    /// The last value under this name.
    fn value(&self, name: &str) -> Option<&[u8]> {
        let pairs = self.0.split(|byte| *byte == b'&');
        pairs.filter_map(|pair| pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")).next_back()
    }

    fn mode(&self, default: Mode) -> Result<Mode, ControlAnswer> {
        match self.value("mode") {
            None => Ok(default),
            Some(b"cast") => Ok(Mode::Cast),
            Some(b"record") => Ok(Mode::Record),
            Some(_) => Err(ControlAnswer::error(400, "bad_request", "mode is cast or record")),
        }
    }

    fn tokens(&self) -> Result<Tokens, ControlAnswer> {
        Ok(if self.flag("replace_tokens")? { Tokens::Replace } else { Tokens::Keep })
    }

    fn flag(&self, name: &'static str) -> Result<bool, ControlAnswer> {
        match self.value(name) {
            None | Some(b"0") => Ok(false),
            Some(b"1") => Ok(true),
            Some(_) => Err(ControlAnswer::error(400, "bad_request", &format!("{name} is 0 or 1"))),
        }
    }

    fn number(&self, name: &'static str) -> Result<Option<u32>, ControlAnswer> {
        let Some(value) = self.value(name) else { return Ok(None) };
        match ServerId::parse(value) {
            Ok(ServerId(number)) => Ok(Some(number)),
            Err(_) => Err(ControlAnswer::error(400, "bad_request", &format!("{name} is a whole number"))),
        }
    }

    fn size(&self, name: &'static str) -> Result<Option<usize>, ControlAnswer> {
        Ok(self.number(name)?.map(|number| number as usize))
    }

    fn errors_max(&self) -> Result<usize, ControlAnswer> {
        Ok(self.size("errors_max")?.unwrap_or(ERRORS_MAX_DEFAULT).min(ERRORS_MAX))
    }
}
