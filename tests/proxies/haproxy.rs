//! HAProxy's own answers, and its log.

use crate::proxies::before;
use crate::proxies::expected::{BAD_GATEWAY, GATEWAY_TIMEOUT, INTERNAL_ERROR, TOO_MANY};
use crate::proxies::front::{Front, Kind};
use crate::util::answers::{
    BAD_REQUEST, CONTENT_TOO_LARGE, METHOD_NOT_ALLOWED, NOT_FOUND, NOT_IMPLEMENTED, NOT_READY, Outcome, REQUEST_TIMEOUT,
};
use crate::util::client::get;
use crate::util::server::Server;
use crate::util::stub::Stub;

#[test]
fn each_page_of_haproxy_is_the_safe_body() {
    let pages: [(u16, &'static Outcome); 12] = [
        (400, &BAD_REQUEST),
        (403, &BAD_REQUEST),
        (404, &NOT_FOUND),
        (405, &METHOD_NOT_ALLOWED),
        (408, &REQUEST_TIMEOUT),
        (413, &CONTENT_TOO_LARGE),
        (429, &TOO_MANY),
        (500, &INTERNAL_ERROR),
        (501, &NOT_IMPLEMENTED),
        (502, &BAD_GATEWAY),
        (503, &NOT_READY),
        (504, &GATEWAY_TIMEOUT),
    ];
    let rules =
        pages.map(|(status, _)| format!("http-request deny deny_status {status} if {{ path /{status} }}\n    "));
    let edits = [("    option httpchk\n", format!("    {}option httpchk\n", rules.concat()))];
    let edits = edits.each_ref().map(|(from, to)| (*from, to.as_str()));
    let nobody = Stub::nobody();
    let Some(front) = Front::start_edited(Kind::Haproxy, &[nobody.addr()], &edits) else { return };
    for (status, outcome) in pages {
        let response = get(front.plain, &format!("/{status}"));
        assert_eq!(response.status, status);
        let body = (response.text(), response.header("Content-Length").map(str::to_owned));
        assert_eq!(body, (outcome.body, Some(outcome.body.len().to_string())), "{status}");
        for (name, value) in [
            ("Content-Type", "application/json; charset=utf-8"),
            ("Cache-Control", "no-store"),
            ("Access-Control-Allow-Origin", "*"),
            ("X-Content-Type-Options", "nosniff"),
        ] {
            assert_eq!(response.header(name), Some(value), "{status}");
        }
    }
}

/// A wrong path may have a token in any segment.
#[test]
fn the_log_of_haproxy_has_an_address_and_no_other_segment() {
    let server = Server::in_memory(&[]);
    let Some(front) = before(Kind::Haproxy, &server) else { return };
    for path in [
        "/api/servers/28/vote-status/s3cret",
        "/api/servers//s3cret/vote-status/203.0.113.7",
        "/api/servers/s3cret/203.0.113.7",
        "/api/vote/s3cret/status/203.0.113.7?token=s3cret",
        "/s3cret",
        "/api/vote/28/status/%3A%3Affff%3A203.0.113.77/",
    ] {
        get(front.plain, path);
    }
    let log = front.logged(|log| log.contains("203.0.113.77"));
    assert!(log.contains(" /api/vote/-/status/203.0.113.7 400 "), "{log}");
    assert!(log.contains(" /api/servers/-/vote-status/- 404 "), "{log}");
    assert!(!log.contains("s3cret"), "{log}");
}
