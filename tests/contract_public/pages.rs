//! The documentation page and its description for tools: their heads byte for byte, both codings,
//! what is asked on condition, and that no path of the interface is ever answered with a page.

use crate::util::answers::{METHOD_NOT_ALLOWED, OPTIONS, answer_to, prepare, rows};
use crate::util::client::{Client, exchange, get};
use crate::util::response::Response;
use crate::util::server::Server;
use crate::util::time::is_imf_fixdate_of_now;
use std::net::SocketAddr;
use std::sync::Arc;
use vote_status::http::head::HeadLimits;
use vote_status::http::session::{Context, Session, SessionCall, SessionLimits, Ticket, Waiting};
use vote_status::public::{PublicService, StatusReader};
use vote_status::readiness::Readiness;
use vote_status::vote::directory::Directory;
use vote_status::vote::table::CooldownTable;
use vote_status::vote::time::{Cooldown, UnixSeconds};
use vote_status::waiting::WaitingList;
use vote_status::watch::WatchBoard;

/// The bound on the page as it is written.
const PAGE_BYTES_MAX: usize = 60_000;

/// A page: its path, its bytes, and what its head says of it.
struct Page {
    path: &'static str,
    bytes: &'static [u8],
    content_type: &'static str,
    policy: &'static str,
}

const PAGES: [Page; 2] = [
    Page {
        path: "/",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/public.html")),
        content_type: "text/html; charset=utf-8",
        policy: concat!(
            "Content-Security-Policy: ",
            include_str!("../../src/pages/public.csp"),
            "\r\nReferrer-Policy: no-referrer\r\n"
        ),
    },
    Page {
        path: "/openapi.json",
        bytes: include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json")),
        content_type: "application/json",
        policy: "",
    },
];

#[test]
fn both_pages_come_as_they_are_written_plain_and_compressed() {
    let server = Server::in_memory(&[]);
    assert!(PAGES[0].bytes.len() < PAGE_BYTES_MAX, "{} bytes", PAGES[0].bytes.len());
    for page in &PAGES {
        let tag = tag_of(server.public(), page);
        for (lines, end, coding) in [("", "", ""), ("Accept-Encoding: gzip\r\n", "-gzip", "Content-Encoding: gzip\r\n")]
        {
            let mut client = Client::connect(server.public());
            client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n{lines}\r\n", page.path));
            let response = client.read_response(false);
            let Page { path, content_type, policy, .. } = page;
            let head = |response: &Response, length: &str| {
                format!(
                    "HTTP/1.1 200 OK\r\nDate: {}\r\nContent-Type: {content_type}\r\nCache-Control: no-cache\r\n\
                     X-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: \"{tag}{end}\"\r\n{coding}{policy}\
                     Access-Control-Allow-Origin: *\r\nContent-Length: {length}\r\n\r\n",
                    date_of(response)
                )
            };
            assert_eq!(response.raw_head, head(&response, &response.body.len().to_string()));
            assert!(response.content() == page.bytes, "{path}: not the file");
            let is_small = lines.is_empty() || response.body.len() < page.bytes.len() / 2;
            assert!(is_small, "{path}: {} of {} bytes", response.body.len(), page.bytes.len());
            // HEAD: the same head, and nothing behind it.
            client.send(format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
            let length = response.body.len().to_string();
            let response = client.read_response(true);
            assert_eq!(response.raw_head, head(&response, &length));
            client.expect_open();
        }
    }
}

#[test]
fn the_coding_is_the_one_that_is_asked_for() {
    let server = Server::in_memory(&[]);
    let mut client = Client::connect(server.public());
    for (lines, is_gzipped) in [
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", true),
        ("Accept-Encoding: br\r\nAccept-Encoding: x-gzip\r\n", true),
        ("Accept-Encoding: gzip;q=0\r\n", false),
        ("X-Accept-Encoding: gzip\r\nA: Accept-Encoding: gzip\r\n", false),
        // What stands behind the head is none of it.
        ("Content-Length: 23\r\n\r\nAccept-Encoding: gzip\r\n", false),
    ] {
        for page in &PAGES {
            client.send(format!("GET {} HTTP/1.1\r\nHost: a\r\n{lines}\r\n", page.path));
            let response = client.read_response(false);
            assert_eq!(response.status, 200, "{lines:?}");
            let coding = is_gzipped.then_some("gzip");
            assert_eq!(response.header("Content-Encoding"), coding, "{lines:?}");
            assert_eq!(response.header("Vary"), Some("Accept-Encoding"), "{lines:?}");
        }
    }
    client.expect_open();
}

#[test]
fn what_the_client_has_is_not_sent_again() {
    let server = Server::in_memory(&[]);
    let mut client = Client::connect(server.public());
    for page in &PAGES {
        let tag = tag_of(server.public(), page);
        let gzip = "Accept-Encoding: gzip\r\n";
        for (lines, status) in [
            (format!("If-None-Match: \"{tag}\"\r\n"), 304),
            (format!("If-None-Match: W/\"{tag}\"\r\n"), 304),
            (format!("If-None-Match: \"a\"\r\nIf-None-Match:\"{tag}\"\r\n"), 304),
            ("If-None-Match: *\r\n".to_owned(), 304),
            (format!("If-None-Match: \"{tag}-gzip\"\r\n{gzip}"), 304),
            // The other coding's tag is another's.
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
                         X-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: \"{tag}\"\r\n\
                         Access-Control-Allow-Origin: *\r\n\r\n",
                        date_of(&response)
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
    // More than may wait to be sent on a connection.
    let paths = ["/", status, "/openapi.json", status, "/nothing", "/"].repeat(20);
    let mut client = Client::connect(server.public());
    client.send(paths.iter().map(|path| format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")).collect::<String>());
    for path in paths {
        let body = client.read_response(false).body;
        match PAGES.iter().find(|page| page.path == path) {
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

/// Asks a service in process, by a method and a path: to find the binary still loading would be luck.
fn asker(readiness: Readiness) -> impl FnMut(&str) -> String {
    let cooldown = Cooldown::from_minutes(90).expect("in range");
    let (directory, table) = (Directory::default(), CooldownTable::default());
    let mut service = PublicService::new(
        StatusReader::new(directory.view(), table.view(), readiness),
        cooldown,
        65_536,
        WaitingList::default(),
        Arc::new(|_| {}),
        WatchBoard::default().post(),
    );
    let head = HeadLimits { head_bytes_max: 16_384, header_lines_max: 100 };
    let limits = SessionLimits { head, unsent_bytes_max: 65_536 };
    let context =
        Context { now: UnixSeconds(1_795_178_096), ticket: Ticket(0), waiting: Waiting::Allowed, client: &None };
    move |request| {
        let request = format!("{request} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut out = Vec::new();
        let mut call = SessionCall { service: &mut service, context, limits: &limits, closing: false, out: &mut out };
        Session::default().advance(request.as_bytes(), &mut call);
        String::from_utf8(out).expect("text")
    }
}

#[test]
fn pages_are_there_before_the_state_is() {
    let mut ask = asker(Readiness::default());
    for (path, status) in [("/", 200), ("/openapi.json", 200), ("/api/vote/28/status/203.0.113.7", 503)] {
        let answer = ask(&format!("GET {path}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{path}: {answer}");
    }
}

/// Nothing of the load is told to the public.
#[test]
fn a_balancer_is_told_whether_the_state_is_loaded_and_nothing_more() {
    let readiness = Readiness::default();
    let mut ask = asker(readiness.clone());
    let answer = |status: &str, retry: &str, length: usize, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nDate: Fri, 20 Nov 2026 12:34:56 GMT\r\n\
             Content-Type: application/json; charset=utf-8\r\nCache-Control: no-store\r\n\
             Access-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n{retry}\
             Content-Length: {length}\r\n\r\n{body}"
        )
    };
    let unavailable = |body: &str| answer("503 Service Unavailable", "Retry-After: 1\r\n", 22, body);
    let not_ready = r#"{"status":"not_ready"}"#;
    readiness.add_loaded_rows(7);
    assert_eq!(ask("GET /readyz"), unavailable(not_ready));
    assert_eq!(ask("HEAD /readyz"), unavailable(""));
    assert_eq!(ask("GET /healthz"), answer("200 OK", "", 18, r#"{"status":"alive"}"#));
    assert!(ask("POST /readyz").starts_with("HTTP/1.1 405 "));
    assert!(ask("OPTIONS /readyz").starts_with("HTTP/1.1 204 "));
    readiness.set_ready();
    assert_eq!(ask("GET /readyz"), answer("200 OK", "", 18, r#"{"status":"ready"}"#));
    assert_eq!(ask("HEAD /readyz"), answer("200 OK", "", 18, ""));
    readiness.set_stopping();
    assert_eq!(ask("GET /readyz"), unavailable(not_ready));
    assert_eq!(ask("GET /healthz"), answer("200 OK", "", 18, r#"{"status":"alive"}"#));
}

/// Safety rule 4: an HTML page pays a reward, so no path of the interface gives one, whatever a
/// browser or a client says that it would like.
#[test]
fn no_path_of_the_interface_is_answered_with_a_page() {
    let server = Server::in_memory(&[]);
    prepare(&server);
    let wishes = "Accept: text/html,application/xhtml+xml;q=0.9\r\nAccept-Encoding: gzip\r\nIf-None-Match: *\r\n\
                  Sec-Fetch-Dest: document\r\nUpgrade-Insecure-Requests: 1\r\n";
    let mut client = Client::connect(server.public());
    for (path, to_get) in rows() {
        for method in ["GET", "OPTIONS", "POST"] {
            client.send(format!("{method} {path} HTTP/1.1\r\nHost: a\r\n{wishes}\r\n"));
            let response = client.read_response(false);
            let outcome = answer_to(method, to_get);
            assert!(outcome.status.starts_with(&response.status.to_string()), "{method} {path}: {response:?}");
            let content_type = (!outcome.body.is_empty()).then_some("application/json; charset=utf-8");
            assert_eq!(response.header("Content-Type"), content_type, "{method} {path}");
            assert_eq!(response.header("Content-Encoding"), None, "{method} {path}");
            assert_eq!(response.body.first(), outcome.body.as_bytes().first(), "{method} {path}");
            if outcome.closes {
                client = Client::connect(server.public());
            }
        }
    }
}

fn tag_of(addr: SocketAddr, page: &Page) -> String {
    let response = get(addr, page.path);
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
