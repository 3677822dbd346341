//! A proxy's own answers, before it asks the service, where they differ from the service's. All other
//! answers through a proxy are the contract's.

use crate::proxies::front::Kind;
use crate::util::answers::{BAD_REQUEST, CAN_VOTE, METHOD_NOT_ALLOWED, NOT_READY, Outcome};

/// One answer through a proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer {
    /// The contract's, body and headers.
    Safe(&'static Outcome),
    /// The proxy's own: this status, and content of this type.
    Own(u16, &'static str),
    /// Nothing, before the body has come or the connection is closed.
    Waits,
}

use Answer::{Own, Safe, Waits};

/// A line of text from Caddy's server library, which no configuration can change.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";
/// HAProxy's page of HTML, which no line of its file changes before HAProxy 3.3.
pub(crate) const PAGE: &str = "text/html";
/// No content, from Go's server library.
const NOTHING: &str = "";

/// The answer to `method path`, where the service says `outcome`.
pub(crate) fn to_path(kind: Kind, method: &str, path: &str, outcome: &'static Outcome) -> Answer {
    let path = path.split('?').next().unwrap_or_default();
    let is_malformed = *outcome == BAD_REQUEST;
    match kind {
        // For nginx, methods have capital letters, and no path has a zero byte.
        Kind::Nginx if method == "get" || is_malformed || path.contains("%00") => Safe(&BAD_REQUEST),
        Kind::Nginx if method == "TRACE" => Safe(&METHOD_NOT_ALLOWED),
        Kind::Haproxy if is_malformed && !path.bytes().all(|byte| byte.is_ascii_graphic()) => Own(400, PAGE),
        Kind::Caddy if is_malformed => Own(400, TEXT),
        _ => Safe(outcome),
    }
}

/// Requests of the contract that a proxy answers in another way, or turns into another request.
const REQUESTS: &[(&str, Kind, Answer)] = &[
    ("GET  PATH HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Nginx, Safe(&CAN_VOTE)),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Nginx, Safe(&BAD_REQUEST)),
    // nginx does not pass `Expect` on.
    ("GET PATH HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", Kind::Nginx, Safe(&CAN_VOTE)),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Kind::Haproxy, Safe(&CAN_VOTE)),
    ("GET  PATH HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Haproxy, Safe(&CAN_VOTE)),
    ("GET PATH HTTP/1.1\r\nHost : a\r\n\r\n", Kind::Haproxy, Own(400, PAGE)),
    ("GET PATH HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: x\r\n\r\n", Kind::Haproxy, Own(400, PAGE)),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Kind::Haproxy, Own(422, PAGE)),
    ("GET PATH HTTP/2.0\r\nHost: a\r\n\r\n", Kind::Haproxy, Safe(&CAN_VOTE)),
    ("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Caddy, Own(200, NOTHING)),
    ("GET  PATH HTTP/1.1\r\nHost: a\r\n\r\n", Kind::Caddy, Own(400, TEXT)),
    ("GET PATH HTTP/1.1\r\n\r\n", Kind::Caddy, Own(400, TEXT)),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", Kind::Caddy, Own(400, TEXT)),
    ("GET PATH HTTP/1.1\r\nHost : a\r\n\r\n", Kind::Caddy, Own(400, TEXT)),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nContent-Length: 65537\r\n\r\n", Kind::Caddy, Waits),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", Kind::Caddy, Own(417, NOTHING)),
    ("GET PATH HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", Kind::Caddy, Own(501, TEXT)),
    ("GET PATH HTTP/2.0\r\nHost: a\r\n\r\n", Kind::Caddy, Own(505, TEXT)),
];

/// The answer to a request of the contract's, where the service says `outcome`.
pub(crate) fn to_request(kind: Kind, request: &str, outcome: &'static Outcome) -> Answer {
    let found = REQUESTS.iter().find(|(other, of, _)| *other == request && *of == kind);
    found.map_or(Safe(outcome), |(_, _, answer)| *answer)
}

const fn unavailable(status: &'static str, body: &'static str) -> Outcome {
    Outcome { status, body, extra: "Retry-After: 1\r\n", closes: true }
}

pub(crate) static BAD_GATEWAY: Outcome = unavailable(
    "502 Bad Gateway",
    r#"{"success":true,"can_vote":true,"message":"Service momentanément indisponible","next_vote_at":null,"cooldown_minutes":90,"error":"bad_gateway"}"#,
);
pub(crate) static GATEWAY_TIMEOUT: Outcome = unavailable(
    "504 Gateway Timeout",
    r#"{"success":true,"can_vote":true,"message":"Service momentanément indisponible","next_vote_at":null,"cooldown_minutes":90,"error":"gateway_timeout"}"#,
);

pub(crate) static TOO_MANY: Outcome = unavailable(
    "429 Too Many Requests",
    r#"{"success":true,"can_vote":true,"message":"Trop de requêtes","next_vote_at":null,"cooldown_minutes":90,"error":"too_many_requests"}"#,
);
pub(crate) static INTERNAL_ERROR: Outcome = Outcome {
    status: "500 Internal Server Error",
    body: r#"{"success":true,"can_vote":true,"message":"Erreur interne","next_vote_at":null,"cooldown_minutes":90,"error":"internal_error"}"#,
    extra: "",
    closes: true,
};

/// The answers that each proxy may give while no node answers.
pub(crate) static AWAY: [&Outcome; 3] = [&BAD_GATEWAY, &NOT_READY, &GATEWAY_TIMEOUT];
