//! The pages and descriptions of both listeners: their heads byte for byte, both codings, conditional
//! requests, and the answers without the state.

use crate::util::answers::{ALIVE, METHOD_NOT_ALLOWED, NOT_READY, OPTIONS, Outcome, prepare};
use crate::util::checks::{Open, expect_response};
use crate::util::client::{Client, exchange, get};
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::time::is_imf_fixdate_of_now;
use std::fs;
use std::net::SocketAddr;

/// A page: its place, its bytes, and the fields of its head.
struct Page {
    listener: fn(&Server) -> SocketAddr,
    path: &'static str,
    bytes: &'static [u8],
    content_type: &'static str,
    policy: &'static str,
    /// Another site's page in the operator's browser must not read the operator's page.
    origin: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const EVERY_ORIGIN: &str = "Access-Control-Allow-Origin: *\r\n";

const PAGES: [Page; 4] = [
    Page {
        listener: Server::public,
        path: "/",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/public.html")),
        content_type: HTML,
        policy: concat!(
            "Content-Security-Policy: ",
            include_str!(concat!(env!("OUT_DIR"), "/public.html.csp")),
            "\r\nReferrer-Policy: no-referrer\r\n"
        ),
        origin: EVERY_ORIGIN,
    },
    Page {
        listener: Server::public,
        path: "/openapi.json",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json")),
        content_type: "application/json",
        policy: "",
        origin: EVERY_ORIGIN,
    },
    Page {
        listener: Server::control,
        path: "/",
        bytes: include_bytes!("../../src/pages/control.html"),
        content_type: HTML,
        policy: concat!(
            "Content-Security-Policy: ",
            include_str!(concat!(env!("OUT_DIR"), "/control.html.csp")),
            "\r\nReferrer-Policy: no-referrer\r\n"
        ),
        origin: "",
    },
    Page {
        listener: Server::control,
        path: "/openapi.json",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/control.openapi.json")),
        content_type: "application/json",
        policy: "",
        origin: "",
    },
];

#[test]
fn pages_come_as_they_are_written_plain_and_compressed() {
    let server = Server::in_memory(&[]);
    for page in &PAGES {
        let tag = tag_of(&server, page);
        for (lines, end, coding) in [
            ("X-Accept-Encoding: gzip\r\n", "", ""),
            ("Accept-Encoding: br\r\nAccept-Encoding: gzip\r\n", "-gzip", "Content-Encoding: gzip\r\n"),
        ] {
            let mut client = Client::connect((page.listener)(&server));
            client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n{lines}\r\n", page.path));
            let response = client.read_response(false);
            let Page { path, content_type, policy, origin, .. } = page;
            let head = |response: &Response, length: &str| {
                format!(
                    "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: {content_type}\r\nCache-Control: no-cache\r\n\
                     X-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: \"{tag}{end}\"\r\n{coding}{policy}\
                     {origin}Content-Length: {length}\r\n\r\n",
                    date_of(response)
                )
            };
            assert_eq!(response.raw_head, head(&response, &response.body.len().to_string()));
            assert!(response.content() == page.bytes, "{path}: not the file");
            let is_small = coding.is_empty() || response.body.len() < page.bytes.len() / 2;
            assert!(is_small, "{path}: {} of {} bytes", response.body.len(), page.bytes.len());
            // HEAD has the same head, and nothing behind it.
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            let length = response.body.len().to_string();
            let response = client.read_response(true);
            assert_eq!(response.raw_head, head(&response, &length));
            client.expect_open();
        }
    }
}

#[test]
fn what_the_client_has_is_not_sent_again() {
    let server = Server::in_memory(&[]);
    for page in &PAGES {
        let mut client = Client::connect((page.listener)(&server));
        let tag = tag_of(&server, page);
        let gzip = "Accept-Encoding: gzip\r\n";
        for (lines, status) in [
            (format!("If-None-Match: \"{tag}\"\r\n"), 304),
            (format!("If-None-Match: \"x,y\",W/\"{tag}\" ,\"c\"\r\n"), 304),
            (format!("If-None-Match: \"a\"\r\nIf-None-Match:\"{tag}\"\r\n"), 304),
            ("If-None-Match: *\r\n".to_owned(), 304),
            (format!("If-None-Match: \"{tag}-gzip\"\r\n{gzip}"), 304),
            // The tag of the other coding does not match.
            (format!("If-None-Match: \"{tag}-gzip\"\r\n"), 200),
            (format!("If-None-Match: \"{tag}\"\r\n{gzip}"), 200),
            ("If-None-Match: \"a\"\r\n".to_owned(), 200),
            ("If-Modified-Since: Fri, 20 Nov 2026 11:04:56 GMT\r\n".to_owned(), 200),
            ("Range: bytes=0-1\r\n".to_owned(), 200),
        ] {
            for method in ["GET", "HEAD"] {
                client.send(format!("{method} {} HTTP/1.1\r\nHost: a\r\n{lines}\r\n", page.path));
                let response = client.read_response(method == "HEAD");
                assert_eq!(response.status, status, "{method} {}, {lines:?}", page.path);
                if status == 304 && !lines.contains(gzip) {
                    let head = format!(
                        "HTTP/1.1 304 Not Modified\r\nDate: {}\r\nCache-Control: no-cache\r\n\
                         X-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: \"{tag}\"\r\n{}\r\n",
                        date_of(&response),
                        page.origin
                    );
                    assert_eq!(response.raw_head, head);
                }
            }
        }
        client.expect_open();
    }
}

#[test]
fn pages_take_the_methods_that_every_resource_takes() {
    let server = Server::in_memory(&[]);
    for path in ["/", "/openapi.json", "/?a=b", "/openapi.json?", "/%6Fpenapi%2ejson", "http://a", "http://a/?"] {
        let label = |method| format!("{method} {path}");
        for method in ["GET", "HEAD", "OPTIONS", "POST", "PUT", "DELETE", "PATCH", "get"] {
            let mut client = Client::connect(server.public());
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
            let response = client.read_response(method == "HEAD");
            let outcome = match method {
                "GET" | "HEAD" => {
                    assert_eq!(response.status, 200, "{}", label(method));
                    continue;
                }
                "OPTIONS" => &OPTIONS,
                _ => &METHOD_NOT_ALLOWED,
            };
            let status = response.raw_head.lines().next().expect("a status line");
            assert_eq!(status, format!("HTTP/1.1 {}", outcome.status), "{}", label(method));
            assert!(response.raw_head.contains(outcome.extra), "{}: {response:?}", label(method));
            assert_eq!(response.text(), outcome.body, "{}", label(method));
            client.expect_open();
        }
    }
}

#[test]
fn pages_keep_their_place_among_the_answers() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let status = "/api/vote/28/status/203.0.113.7";
    // More bytes than may wait to be sent on a connection.
    let paths = ["/", status, "/openapi.json", status, "/nothing", "/"].repeat(20);
    let mut client = Client::connect(server.public());
    client.send(paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect::<String>());
    for path in paths {
        let body = client.read_response(false).body;
        match PAGES[..2].iter().find(|page| page.path == path) {
            Some(page) => assert!(body == page.bytes, "{path}"),
            None => assert!(body.starts_with(b"{\"success\":true,"), "{path}"),
        }
    }
    client.expect_open();
    client.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    let response = client.read_response(false);
    assert!(response.says_close(), "{response:?}");
    client.expect_closed();
    let response = exchange(server.public(), "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_eq!(response.header("Connection"), Some("keep-alive"));
    assert!(response.body == PAGES[0].bytes);
}

/// The public listener reveals nothing of the loading.
#[test]
fn without_the_state_the_pages_are_there_and_balancers_are_told_to_go_elsewhere() {
    static TOLD: Outcome = Outcome { body: r#"{"status":"not_ready"}"#, ..NOT_READY };
    let folder = tempfile::tempdir().expect("a temporary folder");
    fs::write(folder.path().join("votes.redb"), "no store").expect("a file can be written");
    let server = Server::spawn(Server::on(folder.path()));
    for page in &PAGES {
        assert!(get((page.listener)(&server), page.path).body == page.bytes, "{}", page.path);
    }
    for (path, outcome) in [("/api/vote/28/status/203.0.113.7", &NOT_READY), ("/readyz", &TOLD), ("/healthz", &ALIVE)] {
        expect_response(path, &get(server.public(), path), outcome, Open);
    }
}

fn tag_of(server: &Server, page: &Page) -> String {
    let response = get((page.listener)(server), page.path);
    let tag = response.header("ETag").and_then(|tag| tag.strip_prefix('"')?.strip_suffix('"'));
    let tag = tag.unwrap_or_else(|| panic!("no strong tag: {response:?}")).to_owned();
    assert!(tag.len() == 16 && tag.bytes().all(|byte| byte.is_ascii_hexdigit()), "{tag}");
    tag
}

/// The date of an answer, which is now.
fn date_of(response: &Response) -> &str {
    let date = response.header("Date").unwrap_or_default();
    assert!(is_imf_fixdate_of_now(date), "{date:?}");
    date
}
