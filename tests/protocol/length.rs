//! Bodies by length and the choice of framing: Content-Length, Transfer-Encoding, and the two
//! together (RFC 9112 6). Rows only; must not know how they are sent.

use super::case::{Answer, BAD, Case, End, OK, Outcome, Row, around, from_field, full, table};

/// Nobody says here which of the two the listener finds first.
const BAD_OR_UNKNOWN: Outcome = Outcome::Closed(&[400, 501]);
const UNKNOWN: Outcome = Outcome::Closed(&[501]);
const TOO_LARGE: Outcome = Outcome::Closed(&[413]);

/// Field lines whose request has no body behind it.
#[rustfmt::skip]
const LENGTHS: &[Row] = &[
    ("zero", b"Content-Length: 0", OK),
    ("many zeros", b"Content-Length: 0000000000", OK),
    ("no blank", b"Content-Length:0", OK),
    ("blanks around", b"Content-Length:   0  ", OK),
    ("tabs around", b"Content-Length:\t0\t", OK),
    ("upper case", b"CONTENT-LENGTH: 0", OK),
    ("empty", b"Content-Length:", BAD),
    ("blanks only", b"Content-Length:   ", BAD),
    ("hexadecimal digit", b"Content-Length: a", BAD),
    ("blank inside", b"Content-Length: 0 0", BAD),
    ("tab inside", b"Content-Length: 0\t0", BAD),
    ("list of different", b"Content-Length: 0, 5", BAD),
    ("2 to the 64", b"Content-Length: 18446744073709551616", BAD),
    ("twice, the same", b"Content-Length: 0\r\nContent-Length: 0", BAD),
    ("twice, different", b"Content-Length: 0\r\nContent-Length: 5", BAD),
    ("twice, not side by side", b"Content-Length: 0\r\nX: 1\r\ncontent-length: 0", BAD),
    ("twice, the second empty", b"Content-Length: 0\r\nContent-Length:", BAD),
    ("three times", b"Content-Length: 0\r\nContent-Length: 0\r\nContent-Length: 0", BAD),
    ("ten million and more", b"Content-Length: 10485760000", TOO_LARGE),
];

/// Field lines about the coding; what follows the head is the end of a chunked body or not read.
#[rustfmt::skip]
const CODINGS: &[Row] = &[
    ("chunked", b"Transfer-Encoding: chunked\r\n\r\n0", OK),
    ("upper case", b"Transfer-Encoding: CHUNKED\r\n\r\n0", OK),
    ("mixed case", b"transfer-encoding: Chunked\r\n\r\n0", OK),
    ("no blank", b"Transfer-Encoding:chunked\r\n\r\n0", OK),
    ("blanks around", b"Transfer-Encoding:   chunked  \r\n\r\n0", OK),
    ("tabs around", b"Transfer-Encoding:\tchunked\t\r\n\r\n0", OK),
    ("empty", b"Transfer-Encoding:\r\n\r\n0", BAD),
    ("blanks only", b"Transfer-Encoding:  \r\n\r\n0", BAD),
    ("twice in a list", b"Transfer-Encoding: chunked, chunked\r\n\r\n0", BAD),
    ("twice in two fields", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("comma before", b"Transfer-Encoding: ,chunked\r\n\r\n0", BAD),
    ("comma behind", b"Transfer-Encoding: chunked,\r\n\r\n0", BAD),
    ("chunked, then identity", b"Transfer-Encoding: chunked, identity\r\n\r\n0", BAD_OR_UNKNOWN),
    ("chunked, then gzip", b"Transfer-Encoding: chunked, gzip\r\n\r\n0", BAD_OR_UNKNOWN),
    ("chunked field, gzip field", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: gzip\r\n\r\n0", BAD_OR_UNKNOWN),
    ("chunked field, identity field", b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0", BAD_OR_UNKNOWN),
    ("chunked, empty field", b"Transfer-Encoding: chunked\r\nTransfer-Encoding:\r\n\r\n0", BAD),
    ("gzip, then chunked", b"Transfer-Encoding: gzip, chunked\r\n\r\n0", UNKNOWN),
    ("gzip field, chunked field", b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n0", UNKNOWN),
    ("deflate, then chunked", b"Transfer-Encoding: deflate, chunked\r\n\r\n0", UNKNOWN),
    ("compress, then chunked", b"Transfer-Encoding: compress,chunked\r\n\r\n0", UNKNOWN),
    ("unknown, then chunked", b"Transfer-Encoding: cow, chunked\r\n\r\n0", UNKNOWN),
    ("gzip alone", b"Transfer-Encoding: gzip\r\n\r\n0", BAD_OR_UNKNOWN),
    ("identity alone", b"Transfer-Encoding: identity\r\n\r\n0", BAD_OR_UNKNOWN),
    ("identity, then chunked", b"Transfer-Encoding: identity, chunked\r\n\r\n0", BAD_OR_UNKNOWN),
    ("unknown alone", b"Transfer-Encoding: cow\r\n\r\n0", BAD_OR_UNKNOWN),
    ("letter missing", b"Transfer-Encoding: chunke\r\n\r\n0", BAD_OR_UNKNOWN),
    ("two words", b"Transfer-Encoding: chunked gzip\r\n\r\n0", BAD_OR_UNKNOWN),
    ("parameter", b"Transfer-Encoding: chunked;q=1\r\n\r\n0", BAD_OR_UNKNOWN),
    ("length first", b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("length behind", b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0", BAD),
    ("length zero first", b"Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0", BAD),
    ("length and gzip", b"Content-Length: 5\r\nTransfer-Encoding: gzip\r\n\r\n0", BAD_OR_UNKNOWN),
    ("length and identity", b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n\r\n0", BAD_OR_UNKNOWN),
    ("length and empty coding", b"Content-Length: 0\r\nTransfer-Encoding:\r\n\r\n0", BAD),
];

/// Whole requests.
#[rustfmt::skip]
const WHOLE: &[Row] = &[
    ("GET with 5 bytes", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", OK),
    ("GET with 5 bytes, zeros first", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 0005\r\n\r\nhello", OK),
    ("GET with a request as body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 31\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", OK),
    ("GET with line ends as body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n\r\n\r\n", OK),
    ("GET with NUL as body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\n\0\xff\0", OK),
    ("CRLF behind a body", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello\r\n", OK),
    ("body on an unknown path", b"GET /nope HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", Outcome::Kept(404)),
    ("POST with 5 bytes", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", Outcome::Kept(405)),
    ("POST without a length", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", Outcome::Kept(405)),
    ("POST chunked", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", Outcome::Kept(405)),
    ("PUT with a request as body", b"PUT /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 31\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", Outcome::Kept(405)),
    ("DELETE with 5 bytes", b"DELETE /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhello", Outcome::Kept(405)),
    ("1.0 with 5 bytes", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", Outcome::Closed(&[200])),
    ("1.0 with a bad length", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nContent-Length: 5x\r\n\r\nhello", BAD),
    ("1.0 chunked", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("1.0 gzip", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n", BAD_OR_UNKNOWN),
    ("1.0 chunked, keep-alive", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", BAD),
    ("1.2 chunked", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.2\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", OK),
    ("smuggled behind both", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nG", BAD),
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
    let mut codings = table(CODINGS, from_field);
    codings.extend(around("chunked", b"x-;:'\"\xa0\xff").into_iter().map(|(name, value)| {
        let field = [b"Transfer-Encoding: ", &value[..], b"\r\n\r\n0"].concat();
        Case::new(name, from_field(&field), BAD_OR_UNKNOWN)
    }));
    for case in &mut codings {
        case.name.insert_str(0, "Transfer-Encoding: ");
    }
    lengths.extend(codings);
    lengths.extend(table(WHOLE, <[u8]>::to_vec));
    lengths.extend(sizes().into_iter().map(Case::public_only));
    lengths.push(two_bodies());
    lengths
}

/// Bodies up to what a status request may carry, and one byte more. The bound is the public
/// listener's; the control listener takes 1 MiB.
fn sizes() -> Vec<Case> {
    let request = |method: &str, size: usize| {
        let head = format!("{method} /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\n\r\n");
        [head.into_bytes(), vec![b'b'; size]].concat()
    };
    vec![
        Case::new("GET with 1,000 bytes", request("GET", 1_000), OK),
        Case::new("GET with 20,000 bytes", request("GET", 20_000), OK),
        Case::new("GET with 65,535 bytes", request("GET", 65_535), OK),
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
    let answers: [Answer; 3] = [full(200), full(405), full(404)];
    Case::exchange("three requests with bodies", bytes.to_vec(), &answers, End::Keep)
}
