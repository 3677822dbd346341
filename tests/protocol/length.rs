//! Bodies by length and the choice of framing: Content-Length, Transfer-Encoding, and the two
//! together (RFC 9112 6). Rows only; must not know how they are sent.

use super::case::{Answer, BAD, Case, End, Fate, OK, Row, around, from_field, full, table};
use crate::util::answers::{CAN_VOTE, CONTENT_TOO_LARGE, METHOD_NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED};

const UNKNOWN: Fate = (&NOT_IMPLEMENTED, End::Close);
const TOO_LARGE: Fate = (&CONTENT_TOO_LARGE, End::Close);

/// Field lines whose request has no body behind it.
#[rustfmt::skip]
const LENGTHS: &[Row] = &[
    ("zero", b"Content-Length: 0", OK),
    ("many zeros", b"Content-Length: 0000000000", OK),
    ("empty", b"Content-Length:", BAD),
    ("blank inside", b"Content-Length: 0 0", BAD),
    ("list of different", b"Content-Length: 0, 5", BAD),
    ("2 to the 64", b"Content-Length: 18446744073709551616", BAD),
    ("twice, the same", b"Content-Length: 0\r\nContent-Length: 0", BAD),
    ("twice, different", b"Content-Length: 0\r\nContent-Length: 5", BAD),
    ("twice, not side by side", b"Content-Length: 0\r\nX: 1\r\ncontent-length: 0", BAD),
];

/// Field lines about the coding. The bytes behind the head are the end of a chunked body, or are not read.
#[rustfmt::skip]
const CODINGS: &[Row] = &[
    ("chunked", b"Transfer-Encoding: chunked\r\n\r\n0", OK),
    ("mixed case", b"transfer-encoding: Chunked\r\n\r\n0", OK),
    ("empty", b"Transfer-Encoding:\r\n\r\n0", BAD),
    ("twice in a list", b"Transfer-Encoding: chunked, chunked\r\n\r\n0", BAD),
    ("twice in two fields", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("comma behind", b"Transfer-Encoding: chunked,\r\n\r\n0", BAD),
    ("chunked, then gzip", b"Transfer-Encoding: chunked, gzip\r\n\r\n0", BAD),
    ("chunked field, gzip field", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0", BAD),
    ("chunked, empty field", b"Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0", BAD),
    ("gzip, then chunked", b"Transfer-Encoding: gzip, chunked\r\n\r\n0", UNKNOWN),
    ("gzip field, chunked field", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0", UNKNOWN),
    ("gzip alone", b"Transfer-Encoding: gzip\r\n\r\n0", UNKNOWN),
    ("identity alone", b"Transfer-Encoding: identity\r\n\r\n0", UNKNOWN),
    ("letter missing", b"Transfer-Encoding: chunke\r\n\r\n0", UNKNOWN),
    ("two words", b"Transfer-Encoding: chunked gzip\r\n\r\n0", BAD),
    ("parameter", b"Transfer-Encoding: chunked;q=1\r\n\r\n0", BAD),
    ("length first", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("length behind", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0", BAD),
    ("length zero first", b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("length and empty coding", b"Content-Length: 0\r\nTransfer-Encoding:\r\n\r\n0", BAD),
];

/// Whole requests.
#[rustfmt::skip]
const WHOLE: &[Row] = &[
    ("GET with 5 bytes", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", OK),
    ("GET with a request as body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 31\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", OK),
    ("CRLF behind a body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\r\n", OK),
    ("body on an unknown path", b"GET /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", (&NOT_FOUND, End::Keep)),
    ("POST with 5 bytes", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", (&METHOD_NOT_ALLOWED, End::Keep)),
    ("POST without a length", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", (&METHOD_NOT_ALLOWED, End::Keep)),
    ("POST chunked", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", (&METHOD_NOT_ALLOWED, End::Keep)),
    ("1.0 with 5 bytes", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", (&CAN_VOTE, End::Close)),
    ("1.0 with a bad length", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5x\r\n\r\nhello", BAD),
    ("1.0 chunked", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("1.0 chunked, keep-alive", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("1.2 chunked", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.2\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK),
    ("smuggled in a chunk", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n1f\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n\r\n", BAD),
];

pub(super) fn cases() -> Vec<Case> {
    let mut lengths = table(LENGTHS, from_field);
    lengths.extend(around("0", b"+-.,;_xoea\"\0\x0b\xa0\xd9\xef").into_iter().map(|(name, value)| {
        let field = [b"Content-Length: ", &value[..]].concat();
        Case::new(name, from_field(&field), BAD)
    }));
    for case in &mut lengths {
        case.name.insert_str(0, "Content-Length: ");
    }
    let mut cases = table(CODINGS, from_field);
    for (bytes, outcome) in [(&b"x-'"[..], UNKNOWN), (b";:\"\xa0\xff", BAD)] {
        cases.extend(around("chunked", bytes).into_iter().map(|(name, value)| {
            let field = [b"Transfer-Encoding: ", &value[..], b"\r\n\r\n0"].concat();
            Case::new(name, from_field(&field), outcome)
        }));
    }
    for case in &mut cases {
        case.name.insert_str(0, "Transfer-Encoding: ");
    }
    cases.extend(lengths);
    cases.extend(table(WHOLE, <[u8]>::to_vec));
    cases.extend(sizes());
    cases.push(two_bodies());
    cases
}

/// Bodies up to the bound of a status request, and one byte more.
fn sizes() -> Vec<Case> {
    let request = |method: &str, size: usize| {
        let head = format!("{method} /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
        [head.into_bytes(), vec![b'b'; size]].concat()
    };
    vec![
        Case::new("GET with 65,536 bytes", request("GET", 65_536), OK),
        Case::new("GET with 65,537 bytes", request("GET", 65_537), TOO_LARGE),
        Case::new("GET with 200,000 bytes", request("GET", 200_000), TOO_LARGE),
        Case::new("POST with 65,537 bytes", request("POST", 65_537), TOO_LARGE),
    ]
}

fn two_bodies() -> Case {
    let bytes = b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\
        POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
        GET /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n\r\n";
    let answers: [Answer; 3] = [full(&CAN_VOTE), full(&METHOD_NOT_ALLOWED), full(&NOT_FOUND)];
    Case::exchange("three requests with bodies", bytes.to_vec(), &answers, End::Keep)
}
