//! The Host field: its number, its allowed content, and the effect of an absolute target
//! (RFC 9112 3.2, RFC 9110 7.2, RFC 3986 3.2). Rows only; must not know how they are sent.

use super::case::{BAD, Case, OK, Row, from_host, table};

#[rustfmt::skip]
const HOSTS: &[Row] = &[
    ("name with a port", b"Host: example.com:8080", OK),
    ("name with an empty port", b"Host: example.com:", OK),
    ("lower-case field", b"host: example.com", OK),
    ("port 65535", b"Host: h:65535", OK),
    ("port with zeros before it", b"Host: h:0000000080", OK),
    ("escape", b"Host: ex%41mple.com", OK),
    ("IPv6", b"Host: [::1]", OK),
    ("IPv6 with a port", b"Host: [::1]:8080", OK),
    ("not the first field", b"Accept: */*\r\nHost: example.com", OK),

    ("missing", b"Accept: */*", BAD),
    ("empty", b"Host:", BAD),
    ("port alone", b"Host: :80", BAD),
    ("twice, the same", b"Host: example.com\r\nHost: example.com", BAD),
    ("twice, not side by side", b"Host: a.example\r\nAccept: */*\r\nhost: a.example", BAD),
    ("bad escape", b"Host: ex%zzmple.com", BAD),
    ("port past any number", b"Host: h:99999999999999999999999999", BAD),
    ("port 65536", b"Host: h:65536", BAD),
    ("port with a sign", b"Host: example.com:+80", BAD),
    ("open bracket", b"Host: [::1", BAD),
    ("bad digit in brackets", b"Host: [::g]", BAD),
    ("letters behind the bracket", b"Host: [::1]a", BAD),
    ("bracket inside the name", b"Host: a[b]", BAD),
];

/// Whole requests in which target, version and Host meet.
#[rustfmt::skip]
const MEETINGS: &[Row] = &[
    ("1.0 with two Hosts", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", BAD),
    ("1.0 with a bad Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: a b\r\n\r\n", BAD),
    ("absolute, other Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: b.example\r\n\r\n", OK),
    ("absolute, no Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\n\r\n", BAD),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(HOSTS, from_host);
    cases.extend(b"\t /@?#,\\\"<{^`|\0\x01\xc3\xe9".iter().map(|byte| {
        let host = [b"Host: exa", &[*byte][..], b"mple.com"].concat();
        Case::new(format!("{} inside", byte.escape_ascii()), from_host(&host), BAD)
    }));
    cases.extend(table(MEETINGS, <[u8]>::to_vec));
    for case in &mut cases {
        case.name.insert_str(0, "Host: ");
    }
    cases
}
