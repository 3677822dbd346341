//! The Host field: how many, what may stand in it, and what an absolute target makes of it
//! (RFC 9112 3.2, RFC 9110 7.2, RFC 3986 3.2). Rows only; must not know how they are sent.

use super::case::{BAD, Case, OK, Outcome, Row, from_host, table};

#[rustfmt::skip]
const HOSTS: &[Row] = &[
    ("name", b"Host: example.com", OK),
    ("name with a port", b"Host: example.com:8080", OK),
    ("name with an empty port", b"Host: example.com:", OK),
    ("upper case", b"HOST: EXAMPLE.COM", OK),
    ("lower-case field", b"host: example.com", OK),
    ("dot at the end", b"Host: example.com.", OK),
    ("underscore", b"Host: my_server.local", OK),
    ("hyphen first", b"Host: -a", OK),
    ("one letter", b"Host: h", OK),
    ("port 0", b"Host: h:0", OK),
    ("port 65535", b"Host: h:65535", OK),
    ("port with zeros before it", b"Host: h:0000000080", OK),
    ("escape", b"Host: ex%41mple.com", OK),
    ("IPv4", b"Host: 127.0.0.1", OK),
    ("IPv4 with a port", b"Host: 127.0.0.1:8080", OK),
    ("numbers that are no IPv4", b"Host: 999.1.1.1", OK),
    ("IPv6", b"Host: [::1]", OK),
    ("IPv6 with a port", b"Host: [::1]:8080", OK),
    ("IPv6, long", b"Host: [2001:DB8:0:0:8:800:200C:417A]", OK),
    ("IPv6 with an IPv4 tail", b"Host: [::ffff:192.0.2.1]", OK),
    ("blanks around it", b"Host:   example.com  ", OK),
    ("tab before it", b"Host:\texample.com", OK),
    ("not the first field", b"Accept: */*\r\nHost: example.com", OK),
    ("punycode", b"Host: xn--caf-dma.example", OK),

    ("missing", b"Accept: */*", BAD),
    ("empty", b"Host:", BAD),
    ("blanks", b"Host:   ", BAD),
    ("port alone", b"Host: :80", BAD),
    ("X-Forwarded-Host instead", b"X-Forwarded-Host: example.com", BAD),
    ("twice, the same", b"Host: example.com\r\nHost: example.com", BAD),
    ("twice, different", b"Host: a.example\r\nHost: b.example", BAD),
    ("twice, not side by side", b"Host: a.example\r\nAccept: */*\r\nhost: a.example", BAD),
    ("twice, the first empty", b"Host:\r\nHost: a.example", BAD),
    ("twice, the second empty", b"Host: a.example\r\nHost:", BAD),
    ("blank inside", b"Host: exa mple.com", BAD),
    ("user and password", b"Host: user:pw@example.com", BAD),
    ("path", b"Host: example.com/", BAD),
    ("whole URI", b"Host: http://example.com", BAD),
    ("bad escape", b"Host: ex%zzmple.com", BAD),
    ("percent at the end", b"Host: example.com%", BAD),
    ("escape of one digit", b"Host: example%4", BAD),
    ("port 65536", b"Host: h:65536", BAD),
    ("port past any number", b"Host: h:99999999999999999999999999", BAD),
    ("port of letters", b"Host: example.com:http", BAD),
    ("port with a sign", b"Host: example.com:+80", BAD),
    ("blank before the port", b"Host: example.com: 80", BAD),
    ("two ports", b"Host: example.com:80:80", BAD),
    ("two colons", b"Host: example.com::80", BAD),
    ("IPv6 without brackets", b"Host: ::1", BAD),
    ("IPv6 without brackets, long", b"Host: 2001:db8::1", BAD),
    ("open bracket", b"Host: [::1", BAD),
    ("closing bracket alone", b"Host: ::1]", BAD),
    ("empty brackets", b"Host: []", BAD),
    ("bad digit in brackets", b"Host: [::g]", BAD),
    ("too few groups", b"Host: [1:2:3]", BAD),
    ("name in brackets", b"Host: [example.com]", BAD),
    ("IPv4 in brackets", b"Host: [127.0.0.1]", BAD),
    ("letters behind the bracket", b"Host: [::1]a", BAD),
    ("digits behind the bracket", b"Host: [::1]80", BAD),
    ("bracket inside the name", b"Host: a[b]", BAD),
];

/// Whole requests in which target, version and Host meet.
#[rustfmt::skip]
const MEETINGS: &[Row] = &[
    ("no field at all", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\n\r\n", BAD),
    ("1.2 without Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.2\r\n\r\n", BAD),
    ("1.0 without Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", Outcome::Closed(&[200])),
    ("1.0 with Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\n\r\n", Outcome::Closed(&[200])),
    ("1.0 with two Hosts", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: h\r\nHost: h\r\n\r\n", BAD),
    ("1.0 with a bad Host", b"GET /api/vote/1/status/1.2.3.4 HTTP/1.0\r\nHost: a b\r\n\r\n", BAD),
    ("absolute, other Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: b.example\r\n\r\n", OK),
    ("absolute, no Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\n\r\n", BAD),
    ("absolute, two Hosts", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: a.example\r\nHost: a.example\r\n\r\n", BAD),
    ("absolute, bad Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: a b\r\n\r\n", BAD),
    ("absolute, 1.0 without Host", b"GET http://a.example/api/vote/1/status/1.2.3.4 HTTP/1.0\r\n\r\n", Outcome::Closed(&[200])),
    ("POST without Host", b"POST /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nContent-Length: 0\r\n\r\n", BAD),
    ("OPTIONS without Host", b"OPTIONS * HTTP/1.1\r\n\r\n", BAD),
    ("unknown path without Host", b"GET /nope HTTP/1.1\r\n\r\n", BAD),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(HOSTS, from_host);
    cases.extend(b"\t@?#,\\\"<{^`|\0\x01\xc3\xe9".iter().map(|byte| {
        let host = [b"Host: exa", &[*byte][..], b"mple.com"].concat();
        Case::new(format!("{} inside", byte.escape_ascii()), from_host(&host), BAD)
    }));
    cases.extend(table(MEETINGS, <[u8]>::to_vec));
    for case in &mut cases {
        case.name.insert_str(0, "Host: ");
    }
    cases
}
