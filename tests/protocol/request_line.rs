//! Request lines: method, target, version, and the blanks between them (RFC 9112 3, RFC 3986).
//! Rows only; must not know how they are sent.

use super::case::{BAD, Case, End, Fate, OK, Row, from_line, table};
use crate::util::answers::{CAN_VOTE, METHOD_NOT_ALLOWED, NOT_FOUND, URI_TOO_LONG, VERSION_NOT_SUPPORTED};
use std::collections::BTreeSet;

#[rustfmt::skip]
const LINES: &[Row] = &[
    ("plain", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("blank before the method", b" GET /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("two blanks after the method", b"GET  /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("two blanks before the version", b"GET /api/vote/1/status/1.2.3.4  HTTP/1.1", BAD),
    ("tab after the version", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\t", BAD),
    ("tab after the method", b"GET\t/api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("tab before the version", b"GET /api/vote/1/status/1.2.3.4\tHTTP/1.1", BAD),
    ("bare CR before the version", b"GET /api/vote/1/status/1.2.3.4\rHTTP/1.1", BAD),
    ("bare LF in the line", b"GET /api/vote/1/status/1.2.3.4\n HTTP/1.1", BAD),
    ("a blank in the target", b"GET /api/vote/1/status/1.2.3.4 x HTTP/1.1", BAD),
    ("a word after the version", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1 x", BAD),
    ("no version", b"GET /api/vote/1/status/1.2.3.4", BAD),
    ("no target", b"GET HTTP/1.1", BAD),
    ("empty target", b"GET  HTTP/1.1", BAD),
    ("method alone", b"GET", BAD),
    ("version alone", b"HTTP/1.1", BAD),
    ("a field line first", b"Host: example.com", BAD),
];

#[rustfmt::skip]
const VERSIONS: &[Row] = &[
    ("1.2 is served as 1.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.2", OK),
    ("1.0 is closed", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0", (&CAN_VOTE, End::Close)),
    ("0.9", b"GET /api/vote/1/status/1.2.3.4 HTTP/0.9", (&VERSION_NOT_SUPPORTED, End::Close)),
    ("2.0", b"GET /api/vote/1/status/1.2.3.4 HTTP/2.0", (&VERSION_NOT_SUPPORTED, End::Close)),
    ("lower case", b"GET /api/vote/1/status/1.2.3.4 http/1.1", BAD),
];

#[rustfmt::skip]
const TARGETS: &[Row] = &[
    ("query", b"GET /api/vote/1/status/1.2.3.4?a=b&c=d HTTP/1.1", OK),
    ("empty query", b"GET /api/vote/1/status/1.2.3.4? HTTP/1.1", OK),
    ("bad escape in the query", b"GET /api/vote/1/status/1.2.3.4?a=%zz HTTP/1.1", OK),
    ("unknown path", b"GET /nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("every mark a path may have", b"GET /-._~!$&'()*+,;=:@%41 HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("two slashes first", b"GET //nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("dots in the path", b"GET /a/../nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("fragment", b"GET /api/vote/1/status/1.2.3.4#a HTTP/1.1", BAD),
    ("fragment in the query", b"GET /api/vote/1/status/1.2.3.4?a#b HTTP/1.1", BAD),
    ("percent alone", b"GET /nope% HTTP/1.1", BAD),
    ("escape of one digit", b"GET /nope%4 HTTP/1.1", BAD),
    ("escape with a sign", b"GET /nope%+1 HTTP/1.1", BAD),
    ("escape with a bad second digit", b"GET /nope%4g HTTP/1.1", BAD),
    ("UTF-8 in the path", b"GET /\xc3\xa9 HTTP/1.1", BAD),
    ("UTF-8 in the query", b"GET /api/vote/1/status/1.2.3.4?\xc3\xa9 HTTP/1.1", BAD),
    ("no slash first", b"GET api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("query first", b"GET ?a=b HTTP/1.1", BAD),
    ("asterisk with GET", b"GET * HTTP/1.1", BAD),
    ("asterisk and more", b"OPTIONS *x HTTP/1.1", BAD),
    ("asterisk and query", b"OPTIONS *?a HTTP/1.1", BAD),
    ("authority", b"GET example.com:80 HTTP/1.1", BAD),
    ("CONNECT to an authority", b"CONNECT example.com:80 HTTP/1.1", BAD),
    ("CONNECT to a path", b"CONNECT /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("absolute", b"GET http://example.com/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, port", b"GET http://example.com:8080/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, upper case", b"GET HTTP://EXAMPLE.COM/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, https", b"GET https://example.com/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, IPv6", b"GET http://[::1]:80/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, two slashes", b"GET http://example.com//nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("absolute, no authority", b"GET http:///nope HTTP/1.1", BAD),
    ("absolute, one slash", b"GET http:/nope HTTP/1.1", BAD),
    ("absolute, user", b"GET http://user@example.com/nope HTTP/1.1", BAD),
    ("absolute, bad IPv6", b"GET http://[::g]/nope HTTP/1.1", BAD),
    ("absolute, fragment", b"GET http://example.com/nope#a HTTP/1.1", BAD),
    ("absolute, backslash in the host", b"GET http://example.com\\nope HTTP/1.1", BAD),
];

#[rustfmt::skip]
const METHODS: &[Row] = &[
    ("POST", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("lower-case head", b"head /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("one letter", b"G /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("every mark of a token", b"!#$%&'*+-.^_`|~ /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("another method, unknown path", b"POST /nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
    ("OPTIONS on an unknown path", b"OPTIONS /nope HTTP/1.1", (&NOT_FOUND, End::Keep)),
];

const NOT_ALLOWED: Fate = (&METHOD_NOT_ALLOWED, End::Keep);

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(LINES, from_line);
    cases.extend(table(VERSIONS, from_line));
    cases.extend(versions());
    cases.extend(table(TARGETS, from_line));
    cases.extend(table(METHODS, from_line));
    cases.extend(lengths());
    cases
}

/// All beginnings of the version, and the version with a byte left out, doubled, or changed.
fn versions() -> impl Iterator<Item = Case> {
    let mut wrong = BTreeSet::new();
    let whole = b"HTTP/1.1";
    for at in 0..whole.len() {
        let ((before, rest), behind) = (whole.split_at(at), &whole[at + 1..]);
        wrong.extend([before.to_vec(), [before, behind].concat(), [before, &rest[..1], rest].concat()]);
        wrong.extend([b'x', b' ', 0].map(|byte| [before, &[byte], behind].concat()));
    }
    wrong.into_iter().map(|version| {
        let line = [b"GET /api/vote/1/status/1.2.3.4 ", &version[..]].concat();
        Case::new(format!("version {}", version.escape_ascii()), from_line(&line), BAD)
    })
}

fn lengths() -> Vec<Case> {
    const TOO_LONG: Fate = (&URI_TOO_LONG, End::Close);
    let line = |method: &str, query: usize| {
        let query = "q".repeat(query);
        from_line(format!("{method} /api/vote/1/status/1.2.3.4?{query} HTTP/1.1").as_bytes())
    };
    vec![
        Case::new("method of 100 bytes", line(&"M".repeat(100), 0), NOT_ALLOWED),
        Case::new("method of 20,000 bytes", line(&"M".repeat(20_000), 0), TOO_LONG),
        Case::new("target of 15,000 bytes", line("GET", 15_000), OK),
        Case::new("target of 20,000 bytes", line("GET", 20_000), TOO_LONG),
        Case::new("target of 100,000 bytes", line("GET", 100_000), TOO_LONG),
    ]
}
