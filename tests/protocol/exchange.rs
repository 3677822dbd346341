//! Everything around a request: Expect, Connection, HEAD and OPTIONS, pipelines (RFC 9110 7.6,
//! 9.3 and 10.1, RFC 9112 9). Rows only; must not know how they are sent.

use super::case::{Answer, CONTINUE, Case, End, Fate, OK, Row, from_field, full, head, table};
use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, EXPECTATION_FAILED, INVALID_IP, METHOD_NOT_ALLOWED, NOT_FOUND, OPTIONS,
};

const CLOSED: Fate = (&CAN_VOTE, End::Close);

#[rustfmt::skip]
const CONNECTION: &[Row] = &[
    ("close", b"Connection: close", CLOSED),
    ("mixed-case close", b"connection: cLoSe", CLOSED),
    ("close in a list", b"Connection: keep-alive, close", CLOSED),
    ("close in a list without blanks", b"Connection: te,close,upgrade", CLOSED),
    ("close among empty elements", b"Connection: ,, close ,", CLOSED),
    ("close in the second field", b"Connection: keep-alive\r\nConnection: close", CLOSED),
    ("close in the first field", b"Connection: close\r\nConnection: keep-alive", CLOSED),
    ("upper-case Keep-Alive", b"Connection: Keep-Alive", OK),
    ("empty elements", b"Connection: ,,", OK),
    ("a word that begins like close", b"Connection: closed", OK),
    ("a word that ends like close", b"Connection: disclose", OK),
    ("Proxy-Connection", b"Proxy-Connection: close", OK),
    ("upgrade to h2c", b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__", OK),
];

#[rustfmt::skip]
const EXPECT: &[Row] = &[
    ("without a body", b"Expect: 100-continue", OK),
    ("with a body of nothing", b"Expect: 100-continue\r\nContent-Length: 0", OK),
    ("unknown", b"Expect: 200-ok", (&EXPECTATION_FAILED, End::Close)),
    ("known and unknown", b"Expect: 100-continue, foo", (&EXPECTATION_FAILED, End::Close)),
    ("known, then unknown field", b"Expect: 100-continue\r\nExpect: foo", (&EXPECTATION_FAILED, End::Close)),
    ("unknown, then known field", b"Expect: foo\r\nExpect: 100-continue", (&EXPECTATION_FAILED, End::Close)),
    ("word that begins alike", b"Expect: 100-continued", (&EXPECTATION_FAILED, End::Close)),
];

/// Whole requests of HTTP/1.0, where a client has to ask for a kept connection.
#[rustfmt::skip]
const OLD: &[Row] = &[
    ("1.0", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", CLOSED),
    ("1.0 keep-alive", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", OK),
    ("1.0 keep-alive in a list", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: te, keep-alive\r\n\r\n", OK),
    ("1.0 keep-alive and close", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", CLOSED),
    ("1.0 with the field Keep-Alive only", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nKeep-Alive: timeout=5\r\n\r\n", CLOSED),
    ("1.0 unknown path, keep-alive", b"GET /nope HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", (&NOT_FOUND, End::Keep)),
];

/// Name, whole bytes, every answer in order, and the end or not of the connection.
type Exchange = (&'static str, &'static [u8], &'static [Answer], End);

#[rustfmt::skip]
const EXCHANGES: &[Exchange] = &[
    ("GET, then close", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", &[full(&NOT_FOUND), full(&CAN_VOTE)], End::Close),
    ("GET, then a bad request", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\n\r\n", &[full(&NOT_FOUND), full(&BAD_REQUEST)], End::Close),
    ("close, then a bad request", b"GET /nope HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n\0\0\0\0\r\n\r\n", &[full(&NOT_FOUND)], End::Close),
    ("1.1, then 1.0", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[full(&NOT_FOUND), full(&CAN_VOTE)], End::Close),
    ("1.0 kept, then 1.1", b"GET /nope HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[full(&NOT_FOUND), full(&CAN_VOTE)], End::Keep),
    ("CRLF between two", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", &[full(&NOT_FOUND), full(&CAN_VOTE)], End::Keep),
    ("bare LF between two", b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[full(&NOT_FOUND), full(&BAD_REQUEST)], End::Close),
    ("HEAD, GET", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(&CAN_VOTE), full(&NOT_FOUND)], End::Keep),
    ("HEAD, HEAD, GET", b"HEAD /nope HTTP/1.1\r\nHost: h\r\n\r\nHEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(&NOT_FOUND), head(&CAN_VOTE), full(&NOT_FOUND)], End::Keep),
    ("HEAD, 1.0", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[head(&CAN_VOTE)], End::Close),
    ("body awaited, no Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", &[full(&BAD_REQUEST)], End::Close),
    ("body awaited, bad length", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5x\r\n\r\n", &[full(&BAD_REQUEST)], End::Close),
    ("unknown expectation with a body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: foo\r\nContent-Length: 5\r\n\r\nhello", &[full(&EXPECTATION_FAILED)], End::Close),
    ("OPTIONS * with a body", b"OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", &[head(&OPTIONS)], End::Keep),
    ("OPTIONS, GET", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", &[head(&OPTIONS), full(&NOT_FOUND)], End::Keep),
    ("OPTIONS, 1.0", b"OPTIONS /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", &[head(&OPTIONS)], End::Close),
    ("HEAD, GET, both malformed IP", b"HEAD /api/vote/1/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/1/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\n", &[head(&INVALID_IP), full(&INVALID_IP)], End::Keep),
    ("HEAD chunked", b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[head(&CAN_VOTE)], End::Keep),
    ("body awaited, upper case", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nEXPECT: 100-CONTINUE\r\nContent-Length: 5\r\n\r\nhello", &[head(&CONTINUE), full(&CAN_VOTE)], End::Keep),
    ("chunked body awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", &[head(&CONTINUE), full(&CAN_VOTE)], End::Keep),
    ("two bodies awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhelloGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\nhi", &[head(&CONTINUE), full(&CAN_VOTE), head(&CONTINUE), full(&CAN_VOTE)], End::Keep),
    ("too long a body awaited", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 10485760\r\n\r\n", &[full(&CONTENT_TOO_LARGE)], End::Close),
    ("1.0 ignores an expectation", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello", &[full(&CAN_VOTE)], End::Close),
    ("1.0 ignores an unknown expectation", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nExpect: foo\r\nContent-Length: 5\r\n\r\nhello", &[full(&CAN_VOTE)], End::Close),
    ("1.0 POST", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", &[full(&METHOD_NOT_ALLOWED)], End::Close),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = named("Connection", table(CONNECTION, from_field));
    cases.extend(named("Expect", table(EXPECT, from_field)));
    cases.extend(table(OLD, <[u8]>::to_vec));
    cases.extend(
        EXCHANGES.iter().map(|&(name, bytes, answers, end)| Case::exchange(name, bytes.to_vec(), answers, end)),
    );
    cases.extend([2, 3, 16, 100, 1_000].map(pipeline));
    cases.push(mixed_pipeline());
    cases
}

fn named(field: &str, mut cases: Vec<Case>) -> Vec<Case> {
    for case in &mut cases {
        case.name = format!("{field}: {}", case.name);
    }
    cases
}

/// This many requests in one piece, hits and misses by turns, so that a missing answer or one out of
/// order shows.
fn pipeline(count: usize) -> Case {
    let mut bytes = Vec::new();
    let mut answers = Vec::new();
    for number in 0..count {
        let (request, answer): (&[u8], Answer) = if number % 3 == 0 {
            (b"GET /nope HTTP/1.1\r\nHost: h\r\n\r\n", full(&NOT_FOUND))
        } else {
            (b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", full(&CAN_VOTE))
        };
        bytes.extend_from_slice(request);
        answers.push(answer);
    }
    Case::exchange(&format!("pipeline of {count}"), bytes, &answers, End::Keep)
}

/// One of each kind, five times over.
fn mixed_pipeline() -> Case {
    let round: &[(&[u8], Answer)] = &[
        (b"HEAD /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", head(&CAN_VOTE)),
        (b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", head(&OPTIONS)),
        (b"GET /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", full(&NOT_FOUND)),
        (b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n", full(&METHOD_NOT_ALLOWED)),
        (b"\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", full(&CAN_VOTE)),
    ];
    let bytes: Vec<u8> = round.iter().flat_map(|(bytes, _)| bytes.to_vec()).collect();
    let answers: Vec<Answer> = round.iter().map(|&(_, answer)| answer).collect();
    Case::exchange("one of each kind, five times", bytes.repeat(5), &answers.repeat(5), End::Keep)
}
