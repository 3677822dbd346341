//! Header fields and line ends: names, blanks, values, folding, limits (RFC 9112 2.2 and 5,
//! RFC 9110 5). Rows only; must not know how they are sent.

use super::case::{BAD, BAD_VERSION, Case, OK, Outcome, Row, from_field, is_token_byte, table};

const TOO_LARGE: Outcome = Outcome::Closed(&[431]);

#[rustfmt::skip]
const FIELDS: &[Row] = &[
    ("ordinary field", b"Accept: application/json", OK),
    ("no blank after the colon", b"Accept:application/json", OK),
    ("many blanks after the colon", b"Accept:     application/json", OK),
    ("tab after the colon", b"Accept:\tapplication/json", OK),
    ("blanks at the end", b"Accept: application/json  ", OK),
    ("tab at the end", b"Accept: application/json\t", OK),
    ("tab inside the value", b"X: a\tb", OK),
    ("empty value", b"X:", OK),
    ("value of blanks", b"X:   ", OK),
    ("value of a tab", b"X:\t", OK),
    ("colons in the value", b"X: a:b:c", OK),
    ("quotes in the value", b"X: \"a\\\"b\"", OK),
    ("an open quote in the value", b"X: \"a", OK),
    ("Latin-1 in the value", b"X: caf\xe9", OK),
    ("UTF-8 in the value", b"X: caf\xc3\xa9", OK),
    ("0x80 in the value", b"X: \x80", OK),
    ("0xff in the value", b"X: \xff", OK),
    ("every mark of a token as name", b"!#$%&'*+-.^_`|~: 1", OK),
    ("digits as name", b"123: 1", OK),
    ("one letter as name", b"a: 1", OK),
    ("underscore in the name", b"X_Y: 1", OK),
    ("the same field twice", b"X: 1\r\nX: 2", OK),
    ("several fields of one list", b"Accept: a/b\r\nAccept: c/d", OK),
    ("a method's look", b"GET: /api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("a range", b"Range: bytes=0-1", OK),
    ("overlapping ranges", b"Range: bytes=0-,0-,0-,0-", OK),
    ("conditions", b"If-None-Match: *\r\nIf-Modified-Since: Thu, 01 Jan 2037 00:00:00 GMT", OK),
    ("an odd Accept", b"Accept: text/html;q=0, */*;q=0", OK),
    ("an encoding refused", b"Accept-Encoding: identity;q=0", OK),
    ("a cookie", b"Cookie: a=b; c=\"d\"", OK),
    ("a JSON type on a GET", b"Content-Type: application/json", OK),
    ("an origin", b"Origin: https://example.com", OK),
    ("a field that looks like the length", b"Content_Length: 5", OK),
    ("a field that ends like the length", b"X-Content-Length: 5", OK),
    ("a field that looks like the coding", b"Transfer_Encoding: chunked", OK),
    ("an answer's Keep-Alive", b"Keep-Alive: timeout=5, max=100", OK),

    ("empty name", b": 1", BAD),
    ("blank as name", b" : 1", BAD),
    ("blank before the colon", b"X : 1", BAD),
    ("tab before the colon", b"X\t: 1", BAD),
    ("blank before the colon of a length", b"Content-Length : 0", BAD),
    ("blank before the colon of a coding", b"Transfer-Encoding : chunked", BAD),
    ("blank before the colon of Host", b"Host : h", BAD),
    ("blank before the name", b" X: 1", BAD),
    ("tab before the name", b"\tX: 1", BAD),
    ("no colon", b"X", BAD),
    ("folded with a blank", b"X: a\r\n b", BAD),
    ("folded with a tab", b"X: a\r\n\tb", BAD),
    ("folded, empty first line", b"X:\r\n b", BAD),
    ("folded length", b"Content-Length:\r\n 0", BAD),
    ("folded coding", b"Transfer-Encoding:\r\n chunked", BAD),
    ("a line of one blank", b"X: a\r\n ", BAD),
    ("a line of one tab", b"X: a\r\n\t", BAD),
    ("bare CR and a field in the value", b"X: a\rTransfer-Encoding: chunked", BAD),
    ("bare CR at the value's end", b"X: a\r", BAD),
    ("bare CR before the value", b"X: \ra", BAD),
    ("bare CR as a line", b"\r", BAD),
    ("bare LF as line end", b"X: a\nY: b", BAD),
    ("bare LF and a length", b"X: a\nContent-Length: 5", BAD),
    ("LF CR as line end", b"X: a\n\rY: b", BAD),
    ("bare LF as a line", b"\nX: a", BAD),
    ("an escaped line end is just text", b"X: a%0d%0aY: b", OK),
];

/// Whole requests whose line ends are the matter.
#[rustfmt::skip]
const LINE_ENDS: &[Row] = &[
    ("one CRLF first", b"\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", OK),
    ("two CRLF first", b"\r\n\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("many CRLF first", b"\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("bare LF first", b"\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("bare CR first", b"\rGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("CR CR LF first", b"\r\r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("blank and CRLF first", b" \r\nGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD_VERSION),
    ("byte order mark first", b"\xef\xbb\xbfGET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n", BAD),
    ("bare LF after the request line", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\nHost: h\r\n\r\n", BAD),
    ("bare CR after the request line", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\rHost: h\r\n\r\n", BAD_VERSION),
    ("bare LF after a field", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\n\r\n", BAD),
    ("bare LF at the head's end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\n", BAD),
    ("two bare LF at the head's end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\n\n", BAD),
    ("bare LF everywhere", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\nHost: h\n\n", BAD),
    ("bare CR everywhere", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\rHost: h\r\r", BAD_VERSION),
    ("CR CR LF after a field", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\r\n\r\n", BAD),
    ("CR CR LF at the head's end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\r\n", BAD),
    ("CRLF CR and text", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\rX: 1\r\n\r\n", BAD),
    ("NUL in a line end", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\0\n\r\n", BAD),
    ("blank line before the fields", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\n Host: h\r\n\r\n", BAD),
    ("blanks, then the fields", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\n \r\nHost: h\r\n\r\n", BAD),
    ("one CRLF behind the request", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n\r\n", OK),
];

/// What knocks at an open port without meaning HTTP/1.
#[rustfmt::skip]
const STRANGERS: &[Row] = &[
    ("HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0", BAD_VERSION),
    ("TLS hello", b"\x16\x03\x01\x00\x2d\x01\x00\x00\x29\x03\x03\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0b\x0c\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x00\x00\x02\x13\x01\x01\x00", BAD_VERSION),
    ("TLS 1.0 hello's first bytes", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", BAD_VERSION),
    ("SSLv2 hello", b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10", BAD_VERSION),
    ("SSH banner", b"SSH-2.0-OpenSSH_9.6\r\n", BAD_VERSION),
    ("SMTP greeting", b"EHLO example.com\r\n", BAD_VERSION),
    ("FTP user", b"USER anonymous\r\n", BAD_VERSION),
    ("Redis command", b"*1\r\n$4\r\nPING\r\n", BAD_VERSION),
    ("memcached command", b"stats\r\n", BAD_VERSION),
    ("SIP request", b"OPTIONS sip:nm SIP/2.0\r\n", BAD_VERSION),
    ("RTSP request", b"OPTIONS / RTSP/1.0\r\n", BAD_VERSION),
    ("PROXY protocol 1", b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n", BAD_VERSION),
    ("PROXY protocol 2", b"\r\n\r\n\0\r\nQUIT\n\x21\x11\x00\x0c", BAD_VERSION),
    ("remote desktop hello", b"\x03\x00\x00\x13\x0e\xe0\x00\x00\x00\x00\x00\x01\x00\x08\x00\x03\x00\x00\x00", BAD_VERSION),
    ("SOCKS 5 hello", b"\x05\x01\x00", BAD_VERSION),
    ("game server query", b"\xff\xff\xff\xffTSource Engine Query\0", BAD_VERSION),
    ("game client hello", b"\x10\x00\xfb\x05\x09localhost\x63\xdd\x01", BAD_VERSION),
    ("a JSON line", b"{\"method\":\"x\"}\r\n", BAD_VERSION),
    ("HTTP/0.9 request", b"GET /\r\n", BAD_VERSION),
    ("NUL bytes", b"\0\0\0\0\0\0\0\0", BAD_VERSION),
    ("high bytes", b"\xff\xfe\xfd\xfc\xfb\xfa", BAD_VERSION),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(FIELDS, from_field);
    cases.extend(table(LINE_ENDS, <[u8]>::to_vec));
    cases.extend(table(STRANGERS, <[u8]>::to_vec));
    cases.extend(name_bytes());
    cases.extend(value_bytes());
    cases.extend(counts());
    cases.extend(sizes());
    cases
}

/// What is no HTTP/1 at all: refused from what is there, without waiting for the end of a head.
pub(super) fn strangers() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    STRANGERS.iter().map(|&(name, bytes, _)| (name, bytes))
}

/// Every byte that a field's name must not have.
fn name_bytes() -> impl Iterator<Item = Case> {
    (0..=255_u8).filter(|byte| !is_token_byte(*byte) && *byte != b':').map(|byte| {
        let field = [b"X".as_slice(), &[byte], b"Y: 1"].concat();
        Case::new(format!("byte {byte:#04x} in a name"), from_field(&field), BAD)
    })
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
    vec![
        Case::new("17 header lines", lines(17), OK),
        Case::new("64 header lines", lines(64), OK),
        Case::new("99 header lines", lines(99), OK),
        Case::new("100 header lines", lines(100), OK),
        Case::new("101 header lines", lines(101), TOO_LARGE),
        Case::new("1,000 header lines", lines(1_000), TOO_LARGE),
    ]
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
        Case::new("head of 8,192 bytes", value(8_192), OK),
        Case::new("head of 16,383 bytes", value(16_383), OK),
        Case::new("head of 16,384 bytes", value(16_384), OK),
        Case::new("head of 16,385 bytes", value(16_385), TOO_LARGE),
        Case::new("head of 32,768 bytes", value(32_768), TOO_LARGE),
        Case::new("head of 100,000 bytes", value(100_000), TOO_LARGE),
        Case::new("name that makes a head of 16,384 bytes", name(16_384), OK),
        Case::new("name that makes a head of 16,385 bytes", name(16_385), TOO_LARGE),
        Case::new("name that makes a head of 100,000 bytes", name(100_000), TOO_LARGE),
    ]
}
