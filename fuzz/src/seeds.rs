//! The protocol cases that the fuzzer starts from, a few of each kind; `examples/seeds.rs` writes
//! them into `corpus/`. What must come of them is not said here: the checks know.

use crate::head::TIGHT;

/// The name of a file, and its bytes.
pub type Seed = (&'static str, Vec<u8>);

/// The cases of every target.
#[must_use]
pub fn all() -> [(&'static str, Vec<Seed>); 4] {
    let mut heads = copies(HEADS);
    heads.push(("many-lines", ["GET / HTTP/1.1\r\nHost: h\r\n", &"a: 1\r\n".repeat(60), "\r\n"].concat().into_bytes()));
    heads.push(("too-many-lines", ["GET / HTTP/1.1\r\n", &"a: 1\r\n".repeat(101), "\r\n"].concat().into_bytes()));
    heads.push(("long-line", ["GET / HTTP/1.1\r\nHost: h\r\na: ", &"x".repeat(500), "\r\n\r\n"].concat().into_bytes()));
    heads.push(("long-target", ["GET /", &"x".repeat(500), " HTTP/1.1\r\nHost: h\r\n\r\n"].concat().into_bytes()));
    let mut sessions = copies(SESSIONS);
    for cases in [&mut heads, &mut sessions] {
        cases.push(("at-the-bound", head_of(TIGHT.head_bytes_max).into_bytes()));
        cases.push((
            "at-the-bound-behind-an-empty-line",
            ["\r\n", &head_of(TIGHT.head_bytes_max)].concat().into_bytes(),
        ));
        cases.push(("beyond-the-bound", head_of(TIGHT.head_bytes_max + 1).into_bytes()));
    }
    let bodies = BODIES.iter().map(|(name, framing, bound, bytes)| (*name, [&[*framing, *bound], *bytes].concat()));
    [("head", heads), ("body", bodies.collect()), ("target", copies(TARGETS)), ("session", sessions)]
}

/// A head of so many bytes.
fn head_of(bytes: usize) -> String {
    let empty = "GET / HTTP/1.1\r\nHost: h\r\nA: \r\n\r\n";
    format!("GET / HTTP/1.1\r\nHost: h\r\nA: {}\r\n\r\n", "x".repeat(bytes - empty.len()))
}

fn copies(cases: &[(&'static str, &[u8])]) -> Vec<Seed> {
    cases.iter().map(|(name, bytes)| (*name, bytes.to_vec())).collect()
}

#[rustfmt::skip]
const HEADS: &[(&str, &[u8])] = &[
    ("curl", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n"),
    ("guzzle-behind-a-proxy", b"GET /api/servers/demo/vote-status/203.0.113.7 HTTP/1.1\r\nHost: votes.example\r\nX-Forwarded-For: 198.51.100.9\r\nX-Forwarded-Proto: https\r\nAccept-Encoding: gzip, br\r\nUser-Agent: GuzzleHttp/7\r\nContent-Type: application/json\r\nConnection: Keep-Alive\r\n\r\n"),
    ("browser", b"GET /api/vote/28/status/203.0.113.7?t=1 HTTP/1.1\r\nHost: votes.example\r\nsec-ch-ua: \"Chromium\";v=\"130\"\r\nAccept: text/html,*/*;q=0.8\r\nAccept-Language: fr-FR,fr;q=0.9\r\nCookie: a=b; c=d\r\n\r\n"),
    ("old", b"GET / HTTP/1.0\r\n\r\n"),
    ("old-kept", b"GET / HTTP/1.0\r\nConnection: keep-alive\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"),
    ("minor-9", b"HEAD / HTTP/1.9\r\nHost: h\r\n\r\n"),
    ("version-2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("version-0-9", b"GET /\r\n"),
    ("empty-line-first", b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("two-empty-lines-first", b"\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("asterisk", b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("absolute", b"GET http://a.example:80/x?y HTTP/1.1\r\nHost: b.example\r\n\r\n"),
    ("absolute-ipv6", b"GET HTTPS://[2001:db8::1]:443 HTTP/1.1\r\nHost: [::1]:8080\r\n\r\n"),
    ("absolute-user", b"GET http://user@a.example/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("authority", b"CONNECT a.example:443 HTTP/1.1\r\nHost: a.example\r\n\r\n"),
    ("fragment", b"GET /#x HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("escapes", b"GET /%41%2f%00?%zz HTTP/1.1\r\nHost: ex%41mple.com\r\n\r\n"),
    ("bad-escape", b"GET /%4 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("non-ascii-target", b"GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("two-blanks", b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("bare-lf", b"GET / HTTP/1.1\nHost: h\n\n"),
    ("bare-lf-behind-a-field", b"GET / HTTP/1.1\r\nHost: h\nA: 1\r\n\r\n"),
    ("bare-lf-as-the-empty-line", b"GET / HTTP/1.1\r\nHost: h\r\n\nA: 1\r\n\r\n"),
    ("bare-cr", b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\rB: 2\r\n\r\n"),
    ("folded", b"GET / HTTP/1.1\r\nHost: h\r\nA: 1\r\n 2\r\n\r\n"),
    ("blank-before-the-colon", b"GET / HTTP/1.1\r\nHost : h\r\n\r\n"),
    ("blank-before-the-name", b"GET / HTTP/1.1\r\n Host: h\r\n\r\n"),
    ("no-name", b"GET / HTTP/1.1\r\nHost: h\r\n: 1\r\n\r\n"),
    ("control-in-a-value", b"GET / HTTP/1.1\r\nHost: h\r\nA: \x00\x7f\r\n\r\n"),
    ("high-bytes-in-a-value", b"GET / HTTP/1.1\r\nHost: h\r\nA:\t\xff\x80 \t x \t\r\n\r\n"),
    ("no-host", b"GET / HTTP/1.1\r\nA: 1\r\n\r\n"),
    ("two-hosts", b"GET / HTTP/1.1\r\nHost: h\r\nhost: h\r\n\r\n"),
    ("length", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 00012\r\nExpect: 100-Continue\r\n\r\nhello, world"),
    ("length-of-nothing", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n"),
    ("length-signed", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nhello"),
    ("length-list", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 5\r\n\r\nhello"),
    ("length-too-large", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n"),
    ("two-lengths", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"),
    ("chunked", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n"),
    ("chunked-and-length", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n"),
    ("chunked-twice", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("chunked-not-last", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n"),
    ("unknown-coding", b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip;q=1, chunked\r\n\r\n"),
    ("connection-list", b"GET / HTTP/1.1\r\nHost: h\r\nConnection: te, ,\tClose , upgrade\r\n\r\n"),
    ("two-authorizations", b"PUT / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n"),
    ("authorization", b"DELETE / HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer key\r\nAccept-Encoding: br\r\nAccept-Encoding: gzip \r\n\r\n"),
    ("expect-unknown", b"PATCH / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\n\r\n"),
];

/// Name, framing, bound in units of four bytes, and the bytes.
#[rustfmt::skip]
const BODIES: &[(&str, u8, u8, &[u8])] = &[
    ("none", 0, 0, b"GET"),
    ("counted", 5, 2, b"helloGET"),
    ("counted-not-whole", 9, 4, b"hello"),
    ("counted-too-large", 200, 4, b"hello"),
    ("one-chunk", b'C', 16, b"5\r\nhello\r\n0\r\n\r\nGET"),
    ("two-chunks", b'C', 16, b"5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n"),
    ("leading-zeros", b'C', 16, b"0000000000000005\r\nhello\r\n000\r\n\r\n"),
    ("seventeen-digits", b'C', 16, b"00000000000000005\r\nhello\r\n0\r\n\r\n"),
    ("largest", b'C', 255, b"ffffffffffffffff\r\nhello"),
    ("too-large", b'C', 1, b"5\r\nhello\r\n0\r\n\r\n"),
    ("too-large-together", b'C', 1, b"3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
    ("extensions", b'C', 16, b"5;a;b=c;d=\"e\\\"f\"\r\nhello\r\n0;z\r\n\r\n"),
    ("blanks-around-extensions", b'C', 16, b"5 ;\ta = b \r\nhello\r\n0\r\n\r\n"),
    ("extension-without-a-name", b'C', 16, b"5;\r\nhello\r\n0\r\n\r\n"),
    ("open-quote", b'C', 16, b"5;a=\"b\r\nhello\r\n0\r\n\r\n"),
    ("trailer", b'C', 16, b"5\r\nhello\r\n0\r\nExpires: never\r\nA:\r\n\r\nGET"),
    ("folded-trailer", b'C', 16, b"0\r\nA: 1\r\n 2\r\n\r\n"),
    ("bare-lf-behind-the-size", b'C', 16, b"5\nhello\r\n0\r\n\r\n"),
    ("bare-lf-behind-the-data", b'C', 16, b"5\r\nhello\n0\r\n\r\n"),
    ("bare-lf-in-the-trailer", b'C', 16, b"5\r\nhello\r\n0\r\nA: 1\n\r\n"),
    ("no-end-of-data", b'C', 16, b"5\r\nhelloXX0\r\n\r\n"),
    ("no-size", b'C', 16, b"\r\nhello\r\n0\r\n\r\n"),
    ("signed-size", b'C', 16, b"+5\r\nhello\r\n0\r\n\r\n"),
    ("prefixed-size", b'C', 16, b"0x5\r\nhello\r\n0\r\n\r\n"),
    ("not-whole", b'C', 16, b"5\r\nhello\r\n0\r\n\r"),
    ("long-extension", b'C', 16, b"5;aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\nhello\r\n0\r\n\r\n"),
];

#[rustfmt::skip]
const TARGETS: &[(&str, &[u8])] = &[
    ("id", b"/api/vote/28/status/203.0.113.7"),
    ("id-and-slash", b"/api/vote/28/status/203.0.113.7/"),
    ("id-and-slashes", b"/api/vote/28/status/203.0.113.7//"),
    ("token", b"/api/servers/demo/vote-status/203.0.113.7"),
    ("token-escaped", b"/api/servers/%64emo/vote-status/203.0.113.7"),
    ("mapped", b"/api/vote/28/status/::ffff:203.0.113.7"),
    ("mapped-escaped", b"/api/vote/28/status/%3A%3affff%3Acb00%3a7107"),
    ("ipv6", b"/api/vote/28/status/2001:db8::1"),
    ("ipv6-escaped", b"/api/servers/demo/vote-status/2001%3ADB8%3a%3A203.0.113.7"),
    ("blanks", b"/api/vote/28/status/%20%09203.0.113.7%20"),
    ("no-id", b"/api/vote//status/203.0.113.7"),
    ("no-address", b"/api/vote/28/status/"),
    ("too-short", b"/api/vote/28/status"),
    ("large-id", b"/api/vote/4294967296/status/203.0.113.7"),
    ("leading-zero", b"/api/vote/028/status/203.0.113.07"),
    ("upper-case", b"/API/vote/28/status/203.0.113.7"),
    ("mixed-shapes", b"/api/servers/demo/status/203.0.113.7"),
    ("escaped-slash", b"/api/vote/28/status%2f203.0.113.7"),
    ("escaped-twice", b"/api/vote/28/status/%2532.0.0.1"),
    ("broken-escapes", b"/%/%4/%zz/%%41"),
    ("an-address", b"203.0.113.7"),
    ("an-address-of-largest-parts", b"255.255.255.255"),
    ("an-address-out-of-range", b"256.1.1.1"),
    ("a-mapped-address", b"::ffff:1.2.3.4"),
    ("a-gap", b"1:2::7:8"),
    ("a-gap-at-the-end", b"1:2:3:4:5:6:7::"),
    ("groups", b"0001:2:3:4:5:6:7:FfFf"),
    ("groups-and-a-quad", b"64:ff9b:0:0:0:0:203.0.113.7"),
    ("a-zone", b"fe80::1%1"),
    ("a-number", b"4294967295"),
    ("a-token", b"AZaz09-._~"),
    ("nothing", b""),
];

#[rustfmt::skip]
const SESSIONS: &[(&str, &[u8])] = &[
    ("can-vote", b"GET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("in-cooldown", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("in-cooldown-by-token", b"GET /api/servers/demo/vote-status/::ffff:203.0.113.7?t=1 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("in-cooldown-head", b"HEAD /api/vote/28/status/203.0.113.7/ HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("get-get-head", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\nHEAD /x HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("old-and-kept", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n"),
    ("close-then-more", b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("invalid-ip", b"GET /api/vote/28/status/1.2.3 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("invalid-id", b"GET /api/vote/028/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("unknown-server", b"GET /api/vote/29/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("unknown-token", b"HEAD /api/servers/dem/vote-status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("post", b"POST /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("options", b"OPTIONS /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\nOPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("body-by-length", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nGET / HTTP/1GET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("body-by-chunks", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\nA: 1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("body-awaited", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhelloGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("body-too-large", b"GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n\r\n"),
    ("body-not-whole", b"HEAD / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nhel"),
    ("chunks-too-large", b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n10001\r\n"),
    ("bad-chunk", b"HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhelloX\r\n0\r\n\r\n"),
    ("head-not-whole", b"GET / HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\nHo"),
    ("empty-line-between", b"GET / HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n"),
    ("bad-request", b"GET / HTTP/1.1\r\nHost: h\r\n\r\nHEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("unknown-expectation", b"GET / HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n"),
    ("unknown-coding", b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
    ("unknown-version", b"GET / HTTP/3.0\r\nHost: h\r\n\r\n"),
    ("bad-escape", b"GET /api/vote/28/status/%zz HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("long-target", b"GET /aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("balancer", b"GET /readyz HTTP/1.1\r\nHost: h\r\n\r\nHEAD /healthz?a HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("page", b"GET / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: br, gzip;q=0.8\r\n\r\nHEAD /openapi.json?a HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("page-refused-coding", b"HEAD / HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip;q=0\r\nAccept-Encoding: *\r\n\r\nDELETE / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("page-known", b"GET /%6fpenapi.json HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\" , *\r\n\r\nOPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n"),
    ("long-field", b"GET / HTTP/1.1\r\nHost: h\r\nA: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n"),
    ("many-fields", b"GET / HTTP/1.1\r\nHost: h\r\nA:\r\nB:\r\nC:\r\nD:\r\nE:\r\n\r\n"),
    ("pipelined", b"GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/28/status/203.0.113.8 HTTP/1.1\r\nHost: h\r\n\r\nGET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: h\r\n\r\n"),
];
