//! What happens around a request: Expect, Connection, HEAD and OPTIONS, pipelines (RFC 9110 7.6,
//! 9.3 and 10.1, RFC 9112 9). Rows only; must not know how they are sent.

use super::case::{Answer, Case, End, OK, Outcome, Row, from_field, full, head, table};

const CLOSED: Outcome = Outcome::Closed(&[200]);

#[rustfmt::skip]
const CONNECTION: &[Row] = &[
    ("close", b"Connection: close", CLOSED),
    ("upper-case close", b"CONNECTION: CLOSE", CLOSED),
    ("mixed-case close", b"connection: cLoSe", CLOSED),
    ("blanks around close", b"Connection:  close  ", CLOSED),
    ("tabs around close", b"Connection:\tclose\t", CLOSED),
    ("close in a list", b"Connection: keep-alive, close", CLOSED),
    ("close first in a list", b"Connection: close, keep-alive", CLOSED),
    ("close in a list without blanks", b"Connection: te,close,upgrade", CLOSED),
    ("close among empty elements", b"Connection: ,, close ,", CLOSED),
    ("close in the second field", b"Connection: keep-alive\r\nConnection: close", CLOSED),
    ("close in the first field", b"Connection: close\r\nConnection: keep-alive", CLOSED),
    ("keep-alive", b"Connection: keep-alive", OK),
    ("upper-case Keep-Alive", b"Connection: Keep-Alive", OK),
    ("empty", b"Connection:", OK),
    ("empty elements", b"Connection: ,,", OK),
    ("a word that begins like close", b"Connection: closed", OK),
    ("a word that ends like close", b"Connection: disclose", OK),
    ("close in a pair", b"Connection: x-close", OK),
    ("an unknown word", b"Connection: foo", OK),
    ("the names of other fields", b"Connection: Host, Content-Length", OK),
    ("Proxy-Connection", b"Proxy-Connection: close", OK),
    ("upgrade to websocket", b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", OK),
    ("upgrade to h2c", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", OK),
    ("upgrade and close", b"Connection: Upgrade, close\r\nUpgrade: websocket", CLOSED),
    ("Upgrade alone", b"Upgrade: websocket", OK),
];

#[rustfmt::skip]
const EXPECT: &[Row] = &[
    ("without a body", b"Expect: 100-continue", OK),
    ("with a body of nothing", b"Expect: 100-continue\r\nContent-Length: 0", OK),
    ("unknown", b"Expect: 200-ok", Outcome::Closed(&[417])),
    ("unknown word", b"Expect: foo", Outcome::Closed(&[417])),
    ("word and value", b"Expect: foo=bar", Outcome::Closed(&[417])),
    ("known and unknown", b"Expect: 100-continue, foo", Outcome::Closed(&[417])),
    ("known, then unknown field", b"Expect: 100-continue\r\nExpect: foo", Outcome::Closed(&[417])),
    ("unknown, then known field", b"Expect: foo\r\nExpect: 100-continue", Outcome::Closed(&[417])),
    ("word that begins alike", b"Expect: 100-continued", Outcome::Closed(&[417])),
    ("word that ends early", b"Expect: 100", Outcome::Closed(&[417])),
];

/// Whole requests of HTTP/1.0, where keeping is what has to be asked for.
#[rustfmt::skip]
const OLD: &[Row] = &[
    ("1.0", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", CLOSED),
    ("1.0 keep-alive", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", OK),
    ("1.0 Keep-Alive", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: Keep-Alive\r\nHost: h\r\n\r\n", OK),
    ("1.0 keep-alive in a list", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: te, keep-alive\r\n\r\n", OK),
    ("1.0 close", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: close\r\n\r\n", CLOSED),
    ("1.0 keep-alive and close", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", CLOSED),
    ("1.0 with the field Keep-Alive only", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nKeep-Alive: timeout=5\r\n\r\n", CLOSED),
    ("1.0 ignores an expectation", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", CLOSED),
    ("1.0 unknown path", b"GET /nope HTTP/1.0\r\n\r\n", Outcome::Closed(&[404])),
    ("1.0 unknown path, keep-alive", b"GET /nope HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", Outcome::Kept(404)),
    ("1.0 POST", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", Outcome::Closed(&[405])),
    ("1.1 close, unknown path", b"GET /nope HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", Outcome::Closed(&[404])),
    ("1.1 close, POST", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello", Outcome::Closed(&[405])),
];

/// Name, whole bytes, every answer in order, what becomes of the connection.
type Exchange = (&'static str, &'static [u8], &'static [Answer], End);

#[rustfmt::skip]
const EXCHANGES: &[Exchange] = &[
    ("two GET", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[full(200), full(404)], End::Keep),
    ("GET, then close", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &[full(404), full(200)], End::Close),
    ("GET, then a bad request", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\n\r\n", &[full(404), full(400)], End::Close),
    ("GET, then an unknown version", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/2.0\r\nHost: h\r\n\r\n", &[full(404), full(505)], End::Close),
    ("GET, then an unknown coding", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", &[full(404), full(501)], End::Close),
    ("close, then a bad request", b"GET /nope HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n\0\0\0\0\r\n\r\n", &[full(404)], End::Close),
    ("1.1, then 1.0", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[full(404), full(200)], End::Close),
    ("1.0 kept, then 1.1", b"GET /nope HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[full(404), full(200)], End::Keep),
    ("CRLF between two", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[full(404), full(200)], End::Keep),
    ("blank between two", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n GET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[full(404), full(400)], End::Close),
    ("bare LF between two", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[full(404), full(400)], End::Close),
    ("HEAD", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(200)], End::Keep),
    ("HEAD, GET", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(200), full(404)], End::Keep),
    ("GET, GET, HEAD", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\nHEAD /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[full(200), full(404), head(404)], End::Keep),
    ("HEAD, HEAD, GET", b"HEAD /nope HTTP/1.1\r\nHost: h\r\n\r\nHEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(404), head(200), full(404)], End::Keep),
    ("HEAD, unknown path", b"HEAD /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(404)], End::Keep),
    ("HEAD, close", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &[head(200)], End::Close),
    ("HEAD with a body", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &[head(200)], End::Keep),
    ("HEAD chunked", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[head(200)], End::Keep),
    ("HEAD, 1.0", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[head(200)], End::Close),
    ("HEAD in absolute form", b"HEAD http://a.example/nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(404)], End::Keep),
    ("body awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", &[head(100), full(200)], End::Keep),
    ("body awaited, upper case", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nEXPECT: 100-CONTINUE\r\nContent-Length: 5\r\n\r\nhello", &[head(100), full(200)], End::Keep),
    ("chunked body awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[head(100), full(200)], End::Keep),
    ("two bodies awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhelloGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", &[head(100), full(200), head(100), full(200)], End::Keep),
    ("too long a body awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10485760\r\n\r\n", &[full(413)], End::Close),
    ("body awaited, no Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", &[full(400)], End::Close),
    ("body awaited, bad length", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5x\r\n\r\n", &[full(400)], End::Close),
    ("unknown expectation with a body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: foo\r\nContent-Length: 5\r\n\r\nhello", &[full(417)], End::Close),
];

/// Answered by shape on the public listener; the control listener's shapes are its own.
#[rustfmt::skip]
const PUBLIC_EXCHANGES: &[Exchange] = &[
    ("OPTIONS *", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204)], End::Keep),
    ("OPTIONS *, close", b"OPTIONS * HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &[head(204)], End::Close),
    ("OPTIONS *, GET", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204), full(404)], End::Keep),
    ("OPTIONS * with a body", b"OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &[head(204)], End::Keep),
    ("OPTIONS * chunked", b"OPTIONS * HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[head(204)], End::Keep),
    ("OPTIONS", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204)], End::Keep),
    ("OPTIONS, token variant", b"OPTIONS /api/servers/t/vote-status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204)], End::Keep),
    ("OPTIONS in absolute form", b"OPTIONS http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204)], End::Keep),
    ("OPTIONS, GET", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(204), full(404)], End::Keep),
    ("OPTIONS with a body", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &[head(204)], End::Keep),
    ("OPTIONS, 1.0", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[head(204)], End::Close),
    ("HEAD, malformed IP", b"HEAD /api/vote/1/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(400)], End::Keep),
    ("HEAD, GET, both malformed IP", b"HEAD /api/vote/1/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(400), full(400)], End::Keep),
    ("token variant", b"GET /api/servers/t/vote-status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[full(200)], End::Keep),
    ("token variant, HEAD", b"HEAD /api/servers/t/vote-status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(200)], End::Keep),
    ("token variant, POST with a body", b"POST /api/servers/t/vote-status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &[full(405)], End::Keep),
    ("token variant, 1.0 kept", b"GET /api/servers/t/vote-status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", &[full(200)], End::Keep),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = named("Connection", table(CONNECTION, from_field));
    cases.extend(named("Expect", table(EXPECT, from_field)));
    cases.extend(table(OLD, <[u8]>::to_vec));
    cases.extend(exchanges(EXCHANGES));
    cases.extend(exchanges(PUBLIC_EXCHANGES).map(Case::public_only));
    cases.extend([2, 3, 16, 100, 1_000].map(pipeline));
    cases.push(mixed_pipeline().public_only());
    cases
}

fn named(field: &str, mut cases: Vec<Case>) -> Vec<Case> {
    for case in &mut cases {
        case.name = format!("{field}: {}", case.name);
    }
    cases
}

fn exchanges(rows: &'static [Exchange]) -> impl Iterator<Item = Case> {
    rows.iter().map(|&(name, bytes, answers, end)| Case::exchange(name, bytes.to_vec(), answers, end))
}

/// This many requests in one piece, hits and misses by turns, so that an answer out of order or
/// too few shows.
fn pipeline(count: usize) -> Case {
    let mut bytes = Vec::new();
    let mut answers = Vec::new();
    for number in 0..count {
        let (request, answer): (&[u8], Answer) = if number % 3 == 0 {
            (b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n", full(404))
        } else {
            (b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", full(200))
        };
        bytes.extend_from_slice(request);
        answers.push(answer);
    }
    Case::exchange(&format!("pipeline of {count}"), bytes, &answers, End::Keep)
}

/// One of each kind, five times over.
fn mixed_pipeline() -> Case {
    let round: &[(&[u8], Answer)] = &[
        (b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", head(200)),
        (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", head(204)),
        (b"GET /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", full(404)),
        (b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", full(405)),
        (b"\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", full(200)),
    ];
    let bytes: Vec<u8> = round.iter().flat_map(|(bytes, _)| bytes.to_vec()).collect();
    let answers: Vec<Answer> = round.iter().map(|&(_, answer)| answer).collect();
    Case::exchange("one of each kind, five times", bytes.repeat(5), &answers.repeat(5), End::Keep)
}
