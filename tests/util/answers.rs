//! The public contract as tables of requests and their answers. Data and its expansion only; the
//! tests that send it are in the parent and in `safety`.
//!
//! `prepare` makes the state that the tables assume: server 28 with token `demo`, server 4294967295
//! with token `~._-aZ09+=`, server 7 with a token of 128 characters, and one vote, for server 28 by
//! 203.0.113.8 and 2001:db8:0:8::1, 48 minutes ago.

use crate::util::control::Control;
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use std::cell::Cell;

/// One kind of answer. The body has `NEXT` where the instant of the one vote belongs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// Status code and reason phrase, as in the status line.
    pub(crate) status: &'static str,
    pub(crate) body: &'static str,
    /// Header lines of this answer alone, whole.
    pub(crate) extra: &'static str,
    /// Whether the server closes the connection after this answer, whatever the request says.
    pub(crate) closes: bool,
}

const fn kept(status: &'static str, body: &'static str) -> Outcome {
    Outcome { status, body, extra: "", closes: false }
}

const fn closed(status: &'static str, body: &'static str) -> Outcome {
    Outcome { status, body, extra: "", closes: true }
}

pub(crate) static CAN_VOTE: Outcome = kept(
    "200 OK",
    r#"{"success":true,"can_vote":true,"message":"Vous pouvez voter maintenant","next_vote_at":null,"cooldown_minutes":90}"#,
);
pub(crate) static IN_COOLDOWN: Outcome = kept(
    "200 OK",
    r#"{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans 42 minutes","next_vote_at":"NEXT","cooldown_minutes":90}"#,
);
pub(crate) static INVALID_IP: Outcome = kept(
    "400 Bad Request",
    r#"{"success":true,"can_vote":true,"message":"Adresse IP invalide","next_vote_at":null,"cooldown_minutes":90,"error":"invalid_ip"}"#,
);
pub(crate) static INVALID_SERVER_ID: Outcome = kept(
    "400 Bad Request",
    r#"{"success":true,"can_vote":true,"message":"Identifiant de serveur invalide","next_vote_at":null,"cooldown_minutes":90,"error":"invalid_server_id"}"#,
);
pub(crate) static UNKNOWN_SERVER: Outcome = kept(
    "404 Not Found",
    r#"{"success":true,"can_vote":true,"message":"Serveur inconnu","next_vote_at":null,"cooldown_minutes":90,"error":"unknown_server"}"#,
);
pub(crate) static UNKNOWN_TOKEN: Outcome = kept(
    "404 Not Found",
    r#"{"success":true,"can_vote":true,"message":"Token inconnu","next_vote_at":null,"cooldown_minutes":90,"error":"unknown_token"}"#,
);
pub(crate) static NOT_FOUND: Outcome = kept(
    "404 Not Found",
    r#"{"success":true,"can_vote":true,"message":"Ressource introuvable","next_vote_at":null,"cooldown_minutes":90,"error":"not_found"}"#,
);
pub(crate) static METHOD_NOT_ALLOWED: Outcome = Outcome {
    status: "405 Method Not Allowed",
    body: r#"{"success":true,"can_vote":true,"message":"Méthode non autorisée","next_vote_at":null,"cooldown_minutes":90,"error":"method_not_allowed"}"#,
    extra: "Allow: GET, HEAD, OPTIONS\r\n",
    closes: false,
};
pub(crate) static BAD_REQUEST: Outcome = closed(
    "400 Bad Request",
    r#"{"success":true,"can_vote":true,"message":"Requête invalide","next_vote_at":null,"cooldown_minutes":90,"error":"bad_request"}"#,
);
pub(crate) static REQUEST_TIMEOUT: Outcome = closed(
    "408 Request Timeout",
    r#"{"success":true,"can_vote":true,"message":"Délai de requête dépassé","next_vote_at":null,"cooldown_minutes":90,"error":"request_timeout"}"#,
);
pub(crate) static CONTENT_TOO_LARGE: Outcome = closed(
    "413 Content Too Large",
    r#"{"success":true,"can_vote":true,"message":"Corps trop volumineux","next_vote_at":null,"cooldown_minutes":90,"error":"content_too_large"}"#,
);
pub(crate) static URI_TOO_LONG: Outcome = closed(
    "414 URI Too Long",
    r#"{"success":true,"can_vote":true,"message":"URI trop longue","next_vote_at":null,"cooldown_minutes":90,"error":"uri_too_long"}"#,
);
pub(crate) static EXPECTATION_FAILED: Outcome = closed(
    "417 Expectation Failed",
    r#"{"success":true,"can_vote":true,"message":"Attente non satisfaite","next_vote_at":null,"cooldown_minutes":90,"error":"expectation_failed"}"#,
);
pub(crate) static HEADERS_TOO_LARGE: Outcome = closed(
    "431 Request Header Fields Too Large",
    r#"{"success":true,"can_vote":true,"message":"En-têtes trop volumineux","next_vote_at":null,"cooldown_minutes":90,"error":"headers_too_large"}"#,
);
pub(crate) static NOT_IMPLEMENTED: Outcome = closed(
    "501 Not Implemented",
    r#"{"success":true,"can_vote":true,"message":"Codage de transfert non pris en charge","next_vote_at":null,"cooldown_minutes":90,"error":"not_implemented"}"#,
);
pub(crate) static NOT_READY: Outcome = Outcome {
    status: "503 Service Unavailable",
    body: r#"{"success":true,"can_vote":true,"message":"Service momentanément indisponible","next_vote_at":null,"cooldown_minutes":90,"error":"not_ready"}"#,
    extra: "Retry-After: 1\r\n",
    closes: true,
};
pub(crate) static VERSION_NOT_SUPPORTED: Outcome = closed(
    "505 HTTP Version Not Supported",
    r#"{"success":true,"can_vote":true,"message":"Version HTTP non prise en charge","next_vote_at":null,"cooldown_minutes":90,"error":"http_version_not_supported"}"#,
);
pub(crate) static OPTIONS: Outcome = Outcome {
    status: "204 No Content",
    body: "",
    extra: "Allow: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 86400\r\n",
    closes: false,
};

pub(crate) static READY: Outcome = kept("200 OK", r#"{"status":"ready"}"#);
pub(crate) static ALIVE: Outcome = kept("200 OK", r#"{"status":"alive"}"#);

/// The token of server 7, at the bound of 128 characters.
const LONG_TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The segment `ipUser`, asked for in both variants.
const IPS: &[(&str, &Outcome)] = &[
    // Dotted quads, special ranges included.
    ("203.0.113.7", &CAN_VOTE),
    ("203.0.113.8", &IN_COOLDOWN),
    // Not a dotted quad of four decimal parts from 0 to 255.
    ("", &INVALID_IP),
    ("1.2.3", &INVALID_IP),
    ("203.0.113.8%2F24", &INVALID_IP),
    ("203.0.113.8%00", &INVALID_IP),
    // The IPv4-mapped forms of IPv6 mean the IPv4.
    ("::ffff:203.0.113.8", &IN_COOLDOWN),
    ("%3A%3Affff%3A203.0.113.8", &IN_COOLDOWN),
    ("%20::ffff:203.0.113.8%20", &IN_COOLDOWN),
    // Every other IPv6 address stands for its network: 2001:db8:0:8::/64 is in cooldown.
    ("2001:db8:0:8:ffff:ffff:ffff:ffff", &IN_COOLDOWN),
    ("2001%3Adb8%3a0%3A8%3A%3A1", &IN_COOLDOWN),
    ("%32001:db8:0:8::1/", &IN_COOLDOWN),
    ("2001:db8:0:8::1?wait=x", &IN_COOLDOWN),
    ("2001:db8:0:9::8", &CAN_VOTE),
    // Translated forms mean the IPv4 as well.
    ("::ffff:0:203.0.113.8", &IN_COOLDOWN),
    ("2001:db8:0:8::1%25eth0", &INVALID_IP),
    // Escapes are decoded once.
    ("%32%30%33.0.113.8", &IN_COOLDOWN),
    ("%25320.0.113.8", &INVALID_IP),
    // Spaces and tabs around the address are dropped, and nothing else.
    ("%20%09%20203.0.113.8%09%20", &IN_COOLDOWN),
    ("%20", &INVALID_IP),
    ("203.0.113.8%0A", &INVALID_IP),
    // Bytes that are no UTF-8 are no address.
    ("%FF", &INVALID_IP),
    // One trailing slash and any query string change nothing.
    ("203.0.113.8/", &IN_COOLDOWN),
    ("203.0.113.8?t=1763636696", &IN_COOLDOWN),
    ("203.0.113.8/?t=1", &IN_COOLDOWN),
    ("203.0.113.8?/../a?b=%zz%", &IN_COOLDOWN),
    ("203.0.113.7?203.0.113.8", &CAN_VOTE),
    ("?203.0.113.8", &INVALID_IP),
    ("/", &INVALID_IP),
    ("203.0.113.8//", &NOT_FOUND),
    ("/203.0.113.8", &NOT_FOUND),
    // A bad escape spoils the request, not just the segment.
    ("203.0.113.8%", &BAD_REQUEST),
    ("203.0.113.8%2g", &BAD_REQUEST),
    ("203.0.113.8%?a", &BAD_REQUEST),
    ("203.0.113.8/%", &BAD_REQUEST),
];

/// The segment `serverId`, in `/api/vote/{serverId}/status/…`, for 203.0.113.8.
const SERVER_IDS: &[(&str, &Outcome)] = &[
    ("28", &IN_COOLDOWN),
    ("%32%38", &IN_COOLDOWN),
    ("4294967295", &CAN_VOTE),
    ("0", &UNKNOWN_SERVER),
    // Past u32: by one, and by a number that wraps to 28 in 32 bits.
    ("4294967296", &UNKNOWN_SERVER),
    ("4294967324", &UNKNOWN_SERVER),
    ("", &INVALID_SERVER_ID),
    ("028", &INVALID_SERVER_ID),
    ("28%2F", &INVALID_SERVER_ID),
    ("%2", &BAD_REQUEST),
];

/// The segment `token`, in `/api/servers/{token}/vote-status/…`, for 203.0.113.8.
const TOKENS: &[(&str, &Outcome)] = &[
    ("demo", &IN_COOLDOWN),
    ("d%65mo", &IN_COOLDOWN),
    ("~._-aZ09+=", &CAN_VOTE),
    ("%7E%2E%5F%2DaZ09%2B%3D", &CAN_VOTE),
    // A plus sign is no blank, and not every character of a path may be in a token.
    ("~._-aZ09%20=", &UNKNOWN_TOKEN),
    ("~._-aZ09+=;", &UNKNOWN_TOKEN),
    // The names of folders, `.` and `..`, are segments like any other, and no tokens.
    (".", &UNKNOWN_TOKEN),
    ("..", &UNKNOWN_TOKEN),
    ("%2e%2E", &UNKNOWN_TOKEN),
    (LONG_TOKEN, &CAN_VOTE),
    ("", &UNKNOWN_TOKEN),
    ("demO", &UNKNOWN_TOKEN),
    ("demo%2F", &UNKNOWN_TOKEN),
    ("d%2565mo", &UNKNOWN_TOKEN),
    ("demo%", &BAD_REQUEST),
];

/// Whole paths: the order of the checks, and paths without a resource.
const PATHS: &[(&str, &Outcome)] = &[
    // Server and token come before the IP.
    ("/api/vote/x/status/x", &INVALID_SERVER_ID),
    ("/api/vote/29/status/x", &UNKNOWN_SERVER),
    ("/api/vote/4294967296/status/", &UNKNOWN_SERVER),
    ("/api/servers/nobody/vote-status/x", &UNKNOWN_TOKEN),
    // A bad escape comes before everything else in the path.
    ("/api/vote/x/status/%", &BAD_REQUEST),
    ("/%zz", &BAD_REQUEST),
    // The fixed segments: all of them, in their place, in their case.
    ("/api/vote/28/status", &NOT_FOUND),
    ("/api/servers/demo/vote-status", &NOT_FOUND),
    ("/api/vote/28/vote-status/203.0.113.8", &NOT_FOUND),
    ("/api/servers/demo/status/203.0.113.8", &NOT_FOUND),
    ("/api/vote/28/status/203.0.113.8/x", &NOT_FOUND),
    ("/v1/api/vote/28/status/203.0.113.8", &NOT_FOUND),
    ("/API/vote/28/status/203.0.113.8", &NOT_FOUND),
    ("/api/servers/demo/Vote-Status/203.0.113.8", &NOT_FOUND),
    ("/api//vote/28/status/203.0.113.8", &NOT_FOUND),
    ("/x/../api/vote/28/status/203.0.113.8", &NOT_FOUND),
    ("/api%2Fvote/28/status/203.0.113.8", &NOT_FOUND),
    // The fixed segments are decoded like the others, but a slash in an escape separates nothing.
    ("/%61pi/vote/28/st%61tus/203.0.113.8", &IN_COOLDOWN),
    ("/api/servers/demo/vote%2Dstatus/203.0.113.8", &IN_COOLDOWN),
    ("/%2561pi/vote/28/status/203.0.113.8", &NOT_FOUND),
    ("/api/vote/28/status/203.0.113.8%2F", &INVALID_IP),
    // The pages are at their own paths and no other.
    ("//", &NOT_FOUND),
    ("/%2F", &NOT_FOUND),
    ("/index.html", &NOT_FOUND),
    ("/openapi.json/", &NOT_FOUND),
    // The balancers' checks are at these paths and no other.
    ("/healthz", &ALIVE),
    ("/readyz", &READY),
    ("/readyz?from=haproxy", &READY),
    ("/%72eadyz", &READY),
    ("/readyz/", &NOT_FOUND),
    ("/healthz/", &NOT_FOUND),
    // The control listener's other paths are not here.
    ("/metrics", &NOT_FOUND),
    ("/v1/votes", &NOT_FOUND),
];

/// Every path of the tables with the answer to a `GET` of it.
pub(crate) fn rows() -> Vec<(String, &'static Outcome)> {
    let mut rows = Vec::new();
    for (ip, outcome) in IPS {
        rows.push((format!("/api/vote/28/status/{ip}"), *outcome));
        rows.push((format!("/api/servers/demo/vote-status/{ip}"), *outcome));
    }
    // Odd addresses and plain ones are read in different ways; the segments before them must not be.
    for ip in ["203.0.113.8", "203.0.113.8/", "%20203.0.113.8", "2001:db8:0:8::7", "2001:db8:0:8%3A%3A7"] {
        for (id, outcome) in SERVER_IDS {
            rows.push((format!("/api/vote/{id}/status/{ip}"), *outcome));
        }
        for (token, outcome) in TOKENS {
            rows.push((format!("/api/servers/{token}/vote-status/{ip}"), *outcome));
        }
    }
    let too_long = format!("/api/servers/{LONG_TOKEN}0/vote-status/203.0.113.8");
    rows.push((too_long, &UNKNOWN_TOKEN));
    for (path, outcome) in PATHS {
        rows.push(((*path).to_owned(), *outcome));
    }
    rows
}

/// Methods other than `GET`, `HEAD` and `OPTIONS`. Methods are case-sensitive, so `get` is one of them.
pub(crate) const OTHER_METHODS: &[&str] = &["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get"];

/// The answer to `method` where a `GET` has the answer `to_get`.
pub(crate) fn answer_to(method: &str, to_get: &'static Outcome) -> &'static Outcome {
    if *to_get == NOT_FOUND || *to_get == BAD_REQUEST {
        return to_get;
    }
    match method {
        "GET" | "HEAD" => to_get,
        "OPTIONS" => &OPTIONS,
        _ => &METHOD_NOT_ALLOWED,
    }
}

/// The age of the one vote: for a minute from then on, 42 minutes are left.
const VOTED_AGO_S: i64 = 48 * 60;

/// The one vote of the tables.
pub(crate) struct OneVote {
    control: Control,
    voted_at: Cell<i64>,
}

impl OneVote {
    /// The vote's `next_vote_at`. Records the vote anew first where it is half a minute older than the tables want it, as they
    /// may take long.
    pub(crate) fn next(&self) -> String {
        if now_unix() > self.voted_at.get() + VOTED_AGO_S + 30 {
            self.record();
        }
        rfc3339(self.voted_at.get() + 90 * 60)
    }

    /// The body of this answer now.
    pub(crate) fn body(&self, outcome: &Outcome) -> String {
        outcome.body.replace("NEXT", &self.next())
    }

    fn record(&self) {
        let voted_at = now_unix() - VOTED_AGO_S;
        let vote = format!(r#"{{"server_id":28,"ips":["203.0.113.8","2001:db8:0:8::1"],"voted_at":{voted_at}}}"#);
        let response = self.control.post("/v1/votes?mode=record", &vote);
        assert_eq!(response.status, 201, "{response:?}");
        self.voted_at.set(voted_at);
    }
}

/// Makes the servers and the vote that the tables assume.
pub(crate) fn prepare(server: &Server) -> OneVote {
    let control = server.control_client();
    control.add_server(28, "demo");
    control.add_server(4_294_967_295, "~._-aZ09+=");
    control.add_server(7, LONG_TOKEN);
    let vote = OneVote { control, voted_at: Cell::new(0) };
    vote.record();
    vote
}
