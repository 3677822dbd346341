//! Request lines: method, target, version, and the blanks between them (RFC 9112 3, RFC 3986).
//! Rows only; must not know how they are sent.

use super::case::{BAD, BAD_VERSION, Case, OK, Outcome, Row, from_line, is_token_byte, table};
use std::collections::BTreeSet;

#[rustfmt::skip]
const LINES: &[Row] = &[
    ("plain", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("blank before the method", b" GET /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("tab before the method", b"\tGET /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("two blanks after the method", b"GET  /api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("two blanks before the version", b"GET /api/vote/1/status/1.2.3.4  HTTP/1.1", BAD),
    ("blank after the version", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1 ", BAD),
    ("tab after the version", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\t", BAD),
    ("tab after the method", b"GET\t/api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("tab before the version", b"GET /api/vote/1/status/1.2.3.4\tHTTP/1.1", BAD),
    ("blank and tab after the method", b"GET \t/api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("vertical tab after the method", b"GET\x0b/api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("form feed before the version", b"GET /api/vote/1/status/1.2.3.4\x0cHTTP/1.1", BAD),
    ("bare CR as separator", b"GET\r/api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("bare CR before the version", b"GET /api/vote/1/status/1.2.3.4\rHTTP/1.1", BAD),
    ("CR CR LF after the line", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r", BAD),
    ("bare LF in the line", b"GET /api/vote/1/status/1.2.3.4\n HTTP/1.1", BAD_VERSION),
    ("a blank in the target", b"GET /api/vote/1/status/1.2.3.4 x HTTP/1.1", BAD),
    ("a word after the version", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1 x", BAD),
    ("no version", b"GET /api/vote/1/status/1.2.3.4", BAD_VERSION),
    ("no version, blank at the end", b"GET /api/vote/1/status/1.2.3.4 ", BAD_VERSION),
    ("no target", b"GET HTTP/1.1", BAD_VERSION),
    ("empty target", b"GET  HTTP/1.1", BAD),
    ("method alone", b"GET", BAD_VERSION),
    ("version alone", b"HTTP/1.1", BAD_VERSION),
    ("a status line", b"HTTP/1.1 200 OK", BAD_VERSION),
    ("a field line first", b"Host: example.com", BAD_VERSION),
    ("a colon line", b":", BAD_VERSION),
    ("one blank", b" ", BAD_VERSION),
    ("NUL alone", b"\0", BAD_VERSION),
];

#[rustfmt::skip]
const VERSIONS: &[Row] = &[
    ("1.2 is served as 1.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.2", OK),
    ("1.9 is served as 1.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.9", OK),
    ("1.0 is closed", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0", Outcome::Closed(&[200])),
    ("0.9", b"GET /api/vote/1/status/1.2.3.4 HTTP/0.9", BAD_VERSION),
    ("2.0", b"GET /api/vote/1/status/1.2.3.4 HTTP/2.0", Outcome::Closed(&[505])),
    ("9.9", b"GET /api/vote/1/status/1.2.3.4 HTTP/9.9", Outcome::Closed(&[505])),
    ("1.10", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.10", BAD_VERSION),
    ("1.1.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1.1", BAD_VERSION),
    ("01.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/01.1", BAD_VERSION),
    ("1.01", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.01", BAD_VERSION),
    ("11.1", b"GET /api/vote/1/status/1.2.3.4 HTTP/11.1", BAD_VERSION),
    ("lower case", b"GET /api/vote/1/status/1.2.3.4 http/1.1", BAD_VERSION),
];

#[rustfmt::skip]
const TARGETS: &[Row] = &[
    ("query", b"GET /api/vote/1/status/1.2.3.4?a=b&c=d HTTP/1.1", OK),
    ("empty query", b"GET /api/vote/1/status/1.2.3.4? HTTP/1.1", OK),
    ("question marks in the query", b"GET /api/vote/1/status/1.2.3.4?a?b/c?? HTTP/1.1", OK),
    ("escapes in the query", b"GET /api/vote/1/status/1.2.3.4?a=%C3%A9 HTTP/1.1", OK),
    ("bad escape in the query", b"GET /api/vote/1/status/1.2.3.4?a=%zz HTTP/1.1", OK),
    ("percent at the query's end", b"GET /api/vote/1/status/1.2.3.4?a=% HTTP/1.1", OK),
    ("unknown path", b"GET /nope HTTP/1.1", Outcome::Kept(404)),
    ("every mark a path may have", b"GET /-._~!$&'()*+,;=:@%41 HTTP/1.1", Outcome::Kept(404)),
    ("two slashes first", b"GET //nope HTTP/1.1", Outcome::Kept(404)),
    ("dots in the path", b"GET /a/../nope HTTP/1.1", Outcome::Kept(404)),
    ("encoded dots in the path", b"GET /%2e%2e/nope HTTP/1.1", Outcome::Kept(404)),
    ("fragment", b"GET /api/vote/1/status/1.2.3.4#a HTTP/1.1", BAD),
    ("fragment in the query", b"GET /api/vote/1/status/1.2.3.4?a#b HTTP/1.1", BAD),
    ("empty fragment", b"GET /api/vote/1/status/1.2.3.4# HTTP/1.1", BAD),
    ("fragment alone", b"GET # HTTP/1.1", BAD),
    ("fragment on an unknown path", b"GET /nope#a HTTP/1.1", BAD),
    ("percent alone", b"GET /nope% HTTP/1.1", BAD),
    ("escape of one digit", b"GET /nope%4 HTTP/1.1", BAD),
    ("escape of one digit before a slash", b"GET /nope%4/x HTTP/1.1", BAD),
    ("escape of no digits", b"GET /nope%zz HTTP/1.1", BAD),
    ("escape with a bad second digit", b"GET /nope%4g HTTP/1.1", BAD),
    ("escape with a sign", b"GET /nope%+1 HTTP/1.1", BAD),
    ("two percents", b"GET /nope%%41 HTTP/1.1", BAD),
    ("u escape", b"GET /nope%u0041 HTTP/1.1", BAD),
    ("UTF-8 in the path", b"GET /\xc3\xa9 HTTP/1.1", BAD),
    ("Latin-1 in the path", b"GET /\xe9 HTTP/1.1", BAD),
    ("0xff in the path", b"GET /\xff HTTP/1.1", BAD),
    ("overlong slash in the path", b"GET /..\xc0\xaf HTTP/1.1", BAD),
    ("UTF-8 in the query", b"GET /api/vote/1/status/1.2.3.4?\xc3\xa9 HTTP/1.1", BAD),
    ("no slash first", b"GET api/vote/1/status/1.2.3.4 HTTP/1.1", BAD),
    ("a word", b"GET nope HTTP/1.1", BAD),
    ("dot first", b"GET ./nope HTTP/1.1", BAD),
    ("query first", b"GET ?a=b HTTP/1.1", BAD),
    ("backslash first", b"GET \\nope HTTP/1.1", BAD),
    ("asterisk with GET", b"GET * HTTP/1.1", BAD),
    ("asterisk with HEAD's sibling POST", b"POST * HTTP/1.1", BAD),
    ("asterisk and more", b"OPTIONS *x HTTP/1.1", BAD),
    ("two asterisks", b"OPTIONS ** HTTP/1.1", BAD),
    ("asterisk and query", b"OPTIONS *?a HTTP/1.1", BAD),
    ("authority", b"GET example.com:80 HTTP/1.1", BAD),
    ("authority without a port", b"GET example.com HTTP/1.1", BAD),
    ("CONNECT to an authority", b"CONNECT example.com:80 HTTP/1.1", REFUSED),
    ("CONNECT to a path", b"CONNECT /api/vote/1/status/1.2.3.4 HTTP/1.1", REFUSED),
    ("CONNECT to an asterisk", b"CONNECT * HTTP/1.1", REFUSED),
    ("absolute", b"GET http://example.com/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, port", b"GET http://example.com:8080/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, empty port", b"GET http://example.com:/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, upper case", b"GET HTTP://EXAMPLE.COM/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, https", b"GET https://example.com/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, IPv4", b"GET http://127.0.0.1/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, IPv6", b"GET http://[::1]:80/api/vote/1/status/1.2.3.4 HTTP/1.1", OK),
    ("absolute, query", b"GET http://example.com/api/vote/1/status/1.2.3.4?a HTTP/1.1", OK),
    ("absolute, other path", b"GET http://example.com/nope HTTP/1.1", Outcome::Kept(404)),
    ("absolute, two slashes", b"GET http://example.com//nope HTTP/1.1", Outcome::Kept(404)),
    ("absolute, no authority", b"GET http:///nope HTTP/1.1", BAD),
    ("absolute, no slashes", b"GET http:nope HTTP/1.1", BAD),
    ("absolute, one slash", b"GET http:/nope HTTP/1.1", BAD),
    ("absolute, user", b"GET http://user@example.com/nope HTTP/1.1", BAD),
    ("absolute, bad IPv6", b"GET http://[::g]/nope HTTP/1.1", BAD),
    ("absolute, fragment", b"GET http://example.com/nope#a HTTP/1.1", BAD),
    ("absolute, bad escape", b"GET http://example.com/nope%zz HTTP/1.1", BAD),
    ("absolute, backslash in the host", b"GET http://example.com\\nope HTTP/1.1", BAD),
];

/// CONNECT is refused; the RFC leaves open with which of these.
const REFUSED: Outcome = Outcome::Closed(&[400, 405, 501]);

/// The control listener knows other shapes, so these are about the public one.
#[rustfmt::skip]
const PUBLIC_TARGETS: &[Row] = &[
    ("trailing slash", b"GET /api/vote/1/status/1.2.3.4/ HTTP/1.1", OK),
    ("escaped digit", b"GET /api/vote/1/status/%31.2.3.4 HTTP/1.1", OK),
    ("escaped twice", b"GET /api/vote/1/status/%2531.2.3.4 HTTP/1.1", Outcome::Kept(400)),
    ("escaped NUL", b"GET /api/vote/1/status/1.2.3.4%00 HTTP/1.1", Outcome::Kept(400)),
    ("escaped CR LF", b"GET /api/vote/1/status/1.2.3.4%0d%0a HTTP/1.1", Outcome::Kept(400)),
    ("escaped slash", b"GET /api/vote/1/status/1.2.3.4%2f HTTP/1.1", Outcome::Kept(400)),
    ("bad escape in the IP", b"GET /api/vote/1/status/1.2.3.%3 HTTP/1.1", BAD),
    ("bad escape in the id", b"GET /api/vote/%/status/1.2.3.4 HTTP/1.1", BAD),
    ("bad escape in the token", b"GET /api/servers/%4/vote-status/1.2.3.4 HTTP/1.1", BAD),
    ("upper-case path", b"GET /API/VOTE/1/STATUS/1.2.3.4 HTTP/1.1", Outcome::Kept(404)),
    ("two slashes inside", b"GET /api//vote/1/status/1.2.3.4 HTTP/1.1", Outcome::Kept(404)),
    ("two trailing slashes", b"GET /api/vote/1/status/1.2.3.4// HTTP/1.1", Outcome::Kept(404)),
];

#[rustfmt::skip]
const METHODS: &[Row] = &[
    ("POST", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("QUERY", b"QUERY /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("lower-case head", b"head /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("mixed-case Get", b"Get /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("one letter", b"G /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("GETS", b"GETS /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("digits", b"123 /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("every mark of a token", b"!#$%&'*+-.^_`|~ /api/vote/1/status/1.2.3.4 HTTP/1.1", NOT_ALLOWED),
    ("another method, unknown path", b"POST /nope HTTP/1.1", Outcome::Kept(404)),
    ("OPTIONS on an unknown path", b"OPTIONS /nope HTTP/1.1", Outcome::Kept(404)),
];

const NOT_ALLOWED: Outcome = Outcome::Kept(405);

pub(super) fn cases() -> Vec<Case> {
    let public = table(PUBLIC_TARGETS, from_line);
    let mut cases = table(LINES, from_line);
    cases.extend(table(VERSIONS, from_line));
    cases.extend(versions());
    cases.extend(table(TARGETS, from_line));
    cases.extend(table(METHODS, from_line));
    cases.extend(public.into_iter().map(Case::public_only));
    cases.extend(method_bytes());
    cases.extend(target_bytes());
    cases.extend(lengths());
    cases
}

/// All that begins the version, and the version with a byte left out, doubled, or made another.
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
        Case::new(format!("version {}", version.escape_ascii()), from_line(&line), BAD_VERSION)
    })
}

/// Every byte that a method must not have.
fn method_bytes() -> impl Iterator<Item = Case> {
    let separators_with_rows_of_their_own = b" \t\r\n";
    (0..=255_u8).filter(move |byte| !is_token_byte(*byte) && !separators_with_rows_of_their_own.contains(byte)).map(
        |byte| {
            let line = [b"G".as_slice(), &[byte], b"T /api/vote/1/status/1.2.3.4 HTTP/1.1"];
            Case::new(format!("byte {byte:#04x} in the method"), from_line(&line.concat()), BAD)
        },
    )
}

/// Every control character in the target.
fn target_bytes() -> impl Iterator<Item = Case> {
    (0..=31_u8).chain([127]).map(|byte| {
        let line = [b"GET /api/vote/1/status/1.2.3.4?".as_slice(), &[byte], b"x HTTP/1.1"];
        Case::new(
            format!("byte {byte:#04x} in the target"),
            from_line(&line.concat()),
            // A line feed ends the line early, which makes it one without a version.
            if byte == b'\n' { BAD_VERSION } else { BAD },
        )
    })
}

fn lengths() -> Vec<Case> {
    const TOO_LONG: Outcome = Outcome::Closed(&[414]);
    let line = |method: usize, query: usize| {
        let method = "M".repeat(method);
        let query = "q".repeat(query);
        from_line(format!("{method} /api/vote/1/status/1.2.3.4?{query} HTTP/1.1").as_bytes())
    };
    let get = |query: usize| {
        let query = "q".repeat(query);
        from_line(format!("GET /api/vote/1/status/1.2.3.4?{query} HTTP/1.1").as_bytes())
    };
    vec![
        Case::new("method of 100 bytes", line(100, 0), NOT_ALLOWED),
        Case::new("method of 4,000 bytes", line(4_000, 0), NOT_ALLOWED),
        Case::new("method of 20,000 bytes", line(20_000, 0), TOO_LONG),
        Case::new("method of 60,000 bytes", line(60_000, 0), TOO_LONG),
        Case::new("target of 2,000 bytes", get(2_000), OK),
        Case::new("target of 8,000 bytes", get(8_000), OK),
        Case::new("target of 15,000 bytes", get(15_000), OK),
        Case::new("target of 20,000 bytes", get(20_000), TOO_LONG),
        Case::new("target of 100,000 bytes", get(100_000), TOO_LONG),
    ]
}
