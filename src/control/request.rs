//! The meaning of a control request, by its path and method.

use super::batch::{BatchOptions, Gathered};
use super::reply::ControlAnswer;
use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::route;
use crate::recorder::command::{Command, Mode, Tokens};
use crate::vote::address::VoterAddress;
use crate::vote::directory::Snapshot;
use crate::vote::id::ServerId;
use crate::vote::table::Pair;
use crate::watch::WatchFilter;

/// A request for the recorder, before its content is read.
pub enum CommandRequest {
    /// `POST /v1/votes`
    Vote(Mode),
    /// `PUT /v1/servers/{id}`
    PutServer(ServerId),
    /// A command to which the content adds nothing.
    Whole(Command),
}

/// A request behind the key.
pub enum KeyedRequest<'a> {
    /// Content, once it is whole, becomes a command for the recorder.
    Command(CommandRequest),
    /// `POST /v1/votes/batch` or `POST /v1/servers/batch`.
    Batch(Gathered, BatchOptions),
    /// `GET /v1/votes/{server_id}/{ip}`
    ShowVote(Pair),
    /// `GET /v1/servers?after=ID&limit=N`
    ListServers(Option<ServerId>, Option<usize>),
    /// `GET /v1/servers/{id}`; whether its cooldowns are to be counted.
    ShowServer(ServerId, bool),
    /// `GET /v1/export`
    Export,
    /// `GET /v1/watch`; the query is the filter.
    Watch(Query<'a>),
    /// `GET /v1/cluster`
    Cluster,
}

/// Refused lines that the answer to a batch lists by default.
const ERRORS_MAX_DEFAULT: usize = 100;
/// The most that a client can ask for. The answer has a bound in bytes besides.
const ERRORS_MAX: usize = 10_000;

/// The part behind the version in a decoded path that needs the key.
#[must_use]
pub fn behind_key(path: &[u8]) -> Option<&[u8]> {
    path.strip_prefix(b"/v1").filter(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// Reads a request from the part of a decoded path that [`behind_key`] gives.
///
/// # Errors
/// The answer to an unknown or invalid request.
pub fn keyed<'a>(path: &[u8], head: &Head<'a>) -> Result<KeyedRequest<'a>, ControlAnswer> {
    let query = Query(head.query.unwrap_or_default());
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').skip(1).collect();
    // The method first: a wrong method gets 405, whatever path and query name.
    let get = || by_method(head, "GET, HEAD", [Method::Get]);
    let post = || by_method(head, "POST", [Method::Post]);
    let command = KeyedRequest::Command;
    let whole = |ask| command(CommandRequest::Whole(ask));
    Ok(match *segments.as_slice() {
        [b"export"] => get().map(|_get| KeyedRequest::Export)?,
        [b"watch"] => get().map(|_get| KeyedRequest::Watch(query))?,
        [b"cluster"] => get().map(|_get| KeyedRequest::Cluster)?,
        [b"cluster", b"digest"] => get().map(|_get| whole(Command::Digest))?,
        [b"votes"] => {
            post()?;
            command(CommandRequest::Vote(query.mode(Mode::Cast)?))
        }
        [b"votes", b"batch"] => {
            post()?;
            KeyedRequest::Batch(Gathered::Votes(Vec::new(), query.mode(Mode::Record)?), query.batch_options()?)
        }
        [b"votes", id, ip] => {
            let method = by_method(head, "GET, HEAD, DELETE", [Method::Get, Method::Delete])?;
            let (address, server) = (voter_address(ip)?, server_id(id)?);
            match method {
                Method::Delete => whole(Command::Cancel(server, address)),
                _ => KeyedRequest::ShowVote(Pair { server, address }),
            }
        }
        [b"voters", ip] => {
            by_method(head, "DELETE", [Method::Delete])?;
            whole(Command::CancelAll(voter_address(ip)?))
        }
        [b"servers"] => {
            get()?;
            KeyedRequest::ListServers(query.number("after")?.map(ServerId), query.size("limit")?)
        }
        [b"servers", b"batch"] => {
            post()?;
            KeyedRequest::Batch(Gathered::Servers(Vec::new(), query.tokens()?), query.batch_options()?)
        }
        [b"servers", id] => {
            let method = by_method(head, "GET, HEAD, PUT, DELETE", [Method::Get, Method::Put, Method::Delete])?;
            let id = server_id(id)?;
            match method {
                Method::Put => command(CommandRequest::PutServer(id)),
                Method::Delete => whole(Command::Remove(id)),
                _ => KeyedRequest::ShowServer(id, query.flag("cooldowns")?),
            }
        }
        [b"servers", id, b"token"] => {
            post()?;
            whole(Command::Rotate(server_id(id)?))
        }
        _ => return Err(ControlAnswer::fault(Fault::NotFound)),
    })
}

/// The method, if the path takes it. HEAD is GET without the body.
pub(super) fn by_method<const METHODS: usize>(
    head: &Head<'_>,
    allow: &'static str,
    taken: [Method; METHODS],
) -> Result<Method, ControlAnswer> {
    let method = if head.method == Method::Head { Method::Get } else { head.method };
    if taken.contains(&method) { Ok(method) } else { Err(ControlAnswer::method_not_allowed(allow)) }
}

fn voter_address(segment: &[u8]) -> Result<VoterAddress, ControlAnswer> {
    VoterAddress::parse_user(segment)
        .ok_or_else(|| ControlAnswer::error(422, "invalid_vote", "ip must be an IPv4 or IPv6 address"))
}

fn server_id(segment: &[u8]) -> Result<ServerId, ControlAnswer> {
    ServerId::parse(segment).map_err(|_| ControlAnswer::unknown_server())
}

/// The query behind the path.
#[derive(Clone, Copy)]
pub struct Query<'a>(&'a [u8]);

impl Query<'_> {
    /// The filter of a watch: a server, by its number or its token, and an address. A flag asks for only the lines that
    /// name no listed server.
    ///
    /// # Errors
    /// The answer to an invalid filter.
    pub fn watch_filter(&self, servers: &Snapshot) -> Result<WatchFilter, ControlAnswer> {
        let refused = |message| ControlAnswer::error(400, "bad_request", message);
        let server = match (self.number("server_id")?, self.value("token")) {
            (Some(_), Some(_)) => return Err(refused("name the server by server_id or by token, not by both")),
            (Some(server), None) => Some(ServerId(server)),
            (None, Some(token)) => Some(servers.find(&route::decode(token)).ok_or_else(ControlAnswer::unknown_server)?),
            (None, None) => None,
        };
        let address = match self.value("ip") {
            Some(ip) => Some(
                VoterAddress::parse_user(&route::decode(ip))
                    .ok_or_else(|| refused("ip must be an IPv4 or IPv6 address"))?,
            ),
            None => None,
        };
        Ok(WatchFilter { server, address, is_unknown_only: self.flag("unknown")? })
    }

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

    fn batch_options(&self) -> Result<BatchOptions, ControlAnswer> {
        let errors_max = self.size("errors_max")?.unwrap_or(ERRORS_MAX_DEFAULT).min(ERRORS_MAX);
        Ok(BatchOptions { errors_max, accepts_settings: self.flag("accept_settings")? })
    }
}
