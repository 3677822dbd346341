//! Header fields and line ends: names, blanks, values, folding, limits (RFC 9112 2.2 and 5,
//! RFC 9110 5). Rows only; must not know how they are sent.

use super::case::{BAD, Case, End, Fate, OK, Row, from_field, table};
use crate::util::answers::HEADERS_TOO_LARGE;

const TOO_LARGE: Fate = (&HEADERS_TOO_LARGE, End::Close);

#[rustfmt::skip]
const FIELDS: &[Row] = &[
    ("ordinary field", b"Accept: application/json", OK),
    ("no blank after the colon", b"Accept:application/json", OK),
    ("blanks at the end", b"Accept: application/json  ", OK),
    ("tab inside the value", b"X: a\tb", OK),
    ("empty value", b"X:", OK),
    ("value of blanks", b"X:   ", OK),
    ("colons in the value", b"X: a:b:c", OK),
    ("0xff in the value", b"X: \xff", OK),
    ("every mark of a token as name", b"!#$%&'*+-.^_`|~: 1", OK),
    ("the same field twice", b"X: 1\r\nX: 2", OK),
    ("a field that looks like the length", b"Content_Length: 5", OK),
    ("a field that looks like the coding", b"Transfer_Encoding: chunked", OK),

    ("empty name", b": 1", BAD),
    ("blank before the colon of a coding", b"Transfer-Encoding : chunked", BAD),
    ("blank inside the name", b"X Y: 1", BAD),
    ("blank before the name", b" X: 1", BAD),
    ("no colon", b"X", BAD),
    ("folded with a blank", b"X: a\r\n b", BAD),
    ("folded coding", b"Transfer-Encoding:\r\n chunked", BAD),
    ("a line of one blank", b"X: a\r\n ", BAD),
    ("bare CR and a field in the value", b"X: a\rTransfer-Encoding: chunked", BAD),
    ("bare CR at the value's end", b"X: a\r", BAD),
    ("bare LF as line end", b"X: a\nY: b", BAD),
    ("an escaped line end is just text", b"X: a%0d%0aY: b", OK),
];

/// Whole requests about line ends.
#[rustfmt::skip]
const LINE_ENDS: &[Row] = &[
    ("one CRLF first", b"\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", OK),
    ("two CRLF first", b"\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("bare LF first", b"\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("bare LF after the request line", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\nHost: h\r\n\r\n", BAD),
    ("bare CR after the request line", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\rHost: h\r\n\r\n", BAD),
    ("bare LF after a field", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\n\r\n", BAD),
    ("bare LF where the fields would be", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\n", BAD),
    ("bare LF at the head's end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\n", BAD),
    ("CR CR LF at the head's end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\r\n", BAD),
    ("NUL in a line end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\0\n\r\n", BAD),
];

/// First bytes of clients at an open port that do not speak HTTP/1.
#[rustfmt::skip]
const STRANGERS: &[Row] = &[
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", BAD),
    ("TLS hello", b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x00\x00\x02\x13\x01\x01\x00", BAD),
    ("SMTP greeting", b"EHLO example.com\r\n", BAD),
    ("Redis command", b"*1\r\n$4\r\nPING\r\n", BAD),
    ("SIP request", b"OPTIONS sip:nm SIP/2.0\r\n", BAD),
    ("PROXY protocol 2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c", BAD),
    ("SOCKS 5 hello", b"\x05\x01\x00", BAD),
    ("a JSON line", b"{\"method\":\"x\"}\r\n", BAD),
    ("HTTP/0.9 request", b"GET /\r\n", BAD),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(FIELDS, from_field);
    cases.extend(table(LINE_ENDS, <[u8]>::to_vec));
    cases.extend(strangers());
    cases.extend(value_bytes());
    cases.extend(counts());
    cases.extend(sizes());
    cases
}

/// Bytes that are no HTTP/1 at all: refused from the bytes so far, without waiting for the end of a head.
pub(super) fn strangers() -> Vec<Case> {
    table(STRANGERS, <[u8]>::to_vec)
}

/// Every control character in a field's value, the tab aside.
fn value_bytes() -> impl Iterator<Item = Case> {
    (0..=31_u8).chain([127]).filter(|byte| *byte != b'\t').map(|byte| {
        let field = [b"X: a".as_slice(), &[byte], b"b"].concat();
        Case::new(format!("byte {byte:#04x} in a value"), from_field(&field), BAD)
    })
}

/// Requests with this many header lines, Host being one of them.
fn counts() -> Vec<Case> {
    let lines = |count: usize| {
        let fields: Vec<String> = (1..count).map(|number| format!("X-{number}: {number}")).collect();
        from_field(fields.join("\r\n").as_bytes())
    };
    vec![Case::new("100 header lines", lines(100), OK), Case::new("101 header lines", lines(101), TOO_LARGE)]
}

/// Heads of an exact size, counted from the method to the empty line with its CRLF.
fn sizes() -> Vec<Case> {
    let value = |size: usize| {
        let around = from_field(b"X: ").len();
        from_field([b"X: ".to_vec(), vec![b'v'; size - around]].concat().as_slice())
    };
    let name = |size: usize| {
        let around = from_field(b": v").len();
        from_field([vec![b'N'; size - around], b": v".to_vec()].concat().as_slice())
    };
    vec![
        Case::new("head of 16,384 bytes", value(16_384), OK),
        Case::new("head of 16,385 bytes", value(16_385), TOO_LARGE),
        Case::new("head of 100,000 bytes", value(100_000), TOO_LARGE),
        Case::new("name that makes a head of 16,384 bytes", name(16_384), OK),
        Case::new("name that makes a head of 16,385 bytes", name(16_385), TOO_LARGE),
    ]
}
