//! The proxies' logs of requests with a token, in its place or elsewhere: only the recognised parts of a request are
//! logged.

use crate::proxies::each_proxy;
use crate::proxies::front::{Front, Kind};
use crate::proxies::site::site;
use crate::util::answers::prepare;
use crate::util::client::exchange;
use crate::util::server::Server;
use crate::util::stub::Stub;
use std::net::SocketAddr;

/// Requests with a secret, which is `s3cret`, of all characters that a token may have, or of hexadecimal digits.
const ASKED: &[&str] = &[
    "GET /api/servers/s3cret/vote-status/203.0.113.8",
    "GET /api/servers/s3cret+A=b~c.d_e-f/vote-status/203.0.113.8",
    "GET /api/servers/5ec3e7/vote-status/2001:db8::8/",
    "GET /api/servers/s3cret/vote%2Dstatus/203.0.113.8",
    // Swapped arguments, and other wrong places.
    "GET /api/servers/203.0.113.8/vote-status/s3cret",
    "GET /api/servers/203.0.113.8/vote-status/5ec3e75ec3e75ec3e7",
    "GET /api/servers/203.0.113.8/vote-status/5ec3e7:",
    "GET /api/servers/203.0.113.8/vote-status/::5ec3e75ec3e7",
    "GET /api/servers/203.0.113.8/vote-status/%35ec3e7",
    "GET /api/servers/203.0.113.8/vote-status/203.0.113.8.5ec3e7",
    "GET /api/servers/203.0.113.8/vote-status/+s3cret=",
    "GET /api/vote/s3cret/status/203.0.113.8",
    "GET /api/vote/5ec3e7/status/203.0.113.8",
    "GET /api/servers/vote-status/s3cret/203.0.113.8",
    "GET /api/servers/s3cret/203.0.113.8",
    "GET /api/s3cret/28/status/203.0.113.8",
    "GET /s3cret",
    // Other forms of the same requests.
    "GET //api/servers/s3cret/vote-status/203.0.113.8",
    "GET /api//servers/s3cret/vote-status/203.0.113.8",
    "GET /API/servers/s3cret/vote-status/203.0.113.8",
    "GET /api/servers/s3cret/Vote-Status/203.0.113.8",
    "GET /api/servers//s3cret/vote-status/203.0.113.8",
    "GET http://a/api/servers/s3cret/vote-status/203.0.113.8",
    "GET http://s3cret/api/vote/28/status/203.0.113.8",
    "GET /api/vote/28/status/203.0.113.8?token=s3cret",
    "GET /api/servers/s3cret/vote-status/203.0.113.8?/api/servers/s3cret/vote-status/203.0.113.8",
    "GET /api/servers/s3cret/vote-status/203.0.113.8/../s3cret",
    "GET /?s3cret=/api/vote/28/status/203.0.113.8",
    "S3CRET /api/vote/28/status/203.0.113.8",
];

fn ask(front: &Front, lines: &[&str]) {
    for line in lines {
        let host = if line.contains("//s3cret") { "s3cret" } else { "a" };
        exchange(front.plain, format!("{line} HTTP/1.1\r\nHost: {host}\r\nReferer: http://s3cret/\r\n\r\n"));
    }
}

fn expect_no_secret(kind: Kind, text: &str) {
    let found: Vec<&str> =
        text.lines().filter(|line| ["s3cret", "S3CRET", "5ec3e7"].iter().any(|secret| line.contains(secret))).collect();
    assert!(found.is_empty(), "{kind:?}: {found:#?}");
}

#[test]
fn a_log_has_what_is_recognised_and_nothing_else() {
    each_proxy(|kind| {
        let server = Server::in_memory(&[]);
        prepare(&server);
        let Some(front) = Front::start(kind, &[server.public()]) else { return };
        ask(&front, ASKED);
        drop(server);
        ask(&front, &ASKED[..6]);
        exchange(front.plain, "GET /api/servers/s3cret/vote-status/203.0.113.99 HTTP/1.1\r\nHost: a\r\n\r\n");
        let log = front.logged(|log| log.contains("203.0.113.99"));
        for said in ["/api/servers/-/vote-status/203.0.113.8", "/api/vote/-/status/203.0.113.8", "2001:db8::8"] {
            assert!(log.contains(said), "{kind:?}: {said}: {log}");
        }
        expect_no_secret(kind, &log);
        expect_no_secret(kind, &front.troubles());
    });
}

/// nginx writes whole request lines at `crit` too, for example where it cannot connect to an address at all.
#[test]
fn the_error_log_of_nginx_has_no_request_at_any_level() {
    let (nobody, pages) = (SocketAddr::from(([0xfe80, 0, 0, 0, 0, 0, 0, 1], 80)), Stub::nobody());
    let alone = Front::start(Kind::Nginx, &[nobody]);
    let inside = site(Kind::Nginx, nobody, pages.addr());
    for front in [alone, inside].into_iter().flatten() {
        for line in
            ["GET /api/servers/s3cret/vote-status/203.0.113.8", "GET /api/vote/s3cret/status/203.0.113.8?wait=5"]
        {
            let response = exchange(front.plain, format!("{line} HTTP/1.1\r\nHost: localhost\r\n\r\n"));
            assert!(response.status >= 500, "{response:?}");
        }
        expect_no_secret(Kind::Nginx, &front.troubles());
    }
}
