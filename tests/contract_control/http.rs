//! The common parts of every request to the control listener: the key, bodies and their bounds,
//! unknown paths and methods, health.

use crate::contract_control::{expect_error, expect_headers};
use crate::util::client::{Client, exchange};
use crate::util::server::Server;

/// A vote as a body, of 42 bytes.
const VOTE: &str = r#"{ "server_id": 28, "ip": "203.0.113.100" }"#;
const BODY_MAX: usize = 1024 * 1024;

#[test]
fn every_path_under_v1_wants_the_key() {
    let server = Server::in_memory(&[]);
    let key = Server::KEY;
    let prefix = &key[..key.len() - 1];
    let wrong = [
        String::new(),
        "Authorization: Bearer wrong\r\n".to_owned(),
        "Authorization: Bearer \r\n".to_owned(),
        "Authorization: Bearer\r\n".to_owned(),
        format!("Authorization: Bearer {prefix}\r\n"),
        format!("Authorization: Bearer {key}x\r\n"),
        format!("Authorization: Bearer {}\r\n", key.to_uppercase()),
        format!("Authorization: Bearer {key} {key}\r\n"),
        format!("Authorization: Basic {key}\r\n"),
        format!("Authorization: Digest {key}\r\n"),
        format!("Authorization: Bearer wrong\r\nAuthorization: Bearer {key}\r\n"),
        format!("Authorization: {key}\r\n"),
        format!("X-Authorization: Bearer {key}\r\n"),
        format!("Cookie: Bearer {key}\r\n"),
    ];
    for line in &wrong {
        for request in [
            "GET /v1/servers",
            "PUT /v1/servers/28",
            "POST /v1/votes",
            "DELETE /v1/votes/28/203.0.113.7",
            "GET /v1/nothing",
            "PATCH /v1/votes",
        ] {
            let label = format!("{request}, {line:?}");
            let bytes = format!("{request} HTTP/1.1\r\nHost: a\r\n{line}Content-Length: {}\r\n\r\n{VOTE}", VOTE.len());
            let response = exchange(server.control(), bytes);
            expect_error(&label, &response, 401, "unauthorized");
            let challenge = response.header("WWW-Authenticate");
            assert_eq!(challenge, Some("Bearer"), "{label}");
        }
    }
    // No such request was carried out. The scheme's name may be in any case (RFC 9110, 11.1).
    for scheme in ["Bearer", "bearer", "BEARER"] {
        let response = exchange(
            server.control(),
            format!("GET /v1/servers HTTP/1.1\r\nHost: a\r\nAuthorization: {scheme} {key}\r\n\r\n"),
        );
        assert_eq!(response.text(), r#"{"servers":[],"next":null}"#, "{scheme}");
    }
}

#[test]
fn what_is_not_there_is_said() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    for path in [
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/vote",
        "/v1/votes/28",
        "/v1/votes/28/203.0.113.7/x",
        "/v1/servers/28/tokens",
        "/v2/servers",
        "/nothing",
        "//",
        "/api/vote/28/status/203.0.113.7",
    ] {
        expect_error(path, &control.get(path), 404, "not_found");
    }
    for (request, allow) in [
        ("POST /", "HEAD"),
        ("GET /v1/votes", "POST"),
        ("PATCH /v1/votes", "POST"),
        ("POST /v1/votes/28/203.0.113.7", "GET"),
        ("PUT /v1/votes/28/203.0.113", "DELETE"),
        ("DELETE /v1/servers", "GET"),
        ("POST /v1/servers/28", "PUT"),
        ("GET /v1/servers/28/token", "POST"),
        ("POST /healthz", "GET"),
        ("DELETE /readyz", "GET"),
        // The method counts before the arguments.
        ("GET /v1/votes?mode=x", "POST"),
        ("GET /v1/votes/batch?mode=x", "POST"),
        ("DELETE /v1/servers?limit=x", "GET"),
        ("PATCH /v1/servers/x?cooldowns=2", "PUT"),
        ("GET /v1/servers/x/token", "POST"),
    ] {
        let (method, path) = request.split_once(' ').expect("a method and a path");
        let bytes = control.request_bytes(method, path, None);
        let response = exchange(server.control(), bytes);
        expect_error(request, &response, 405, "method_not_allowed");
        let allowed = response.header("Allow").unwrap_or_default();
        assert!(allowed.split(", ").any(|one| one == allow), "{request}: Allow is {allowed:?}, without {allow}");
    }
    for id in ["x", "028", "-1", "4294967296"] {
        let response = control.get(&format!("/v1/servers/{id}"));
        assert!([400, 404, 422].contains(&response.status), "{id:?}: {response:?}");
        expect_headers(id, &response, response.status);
        assert!(response.json()["error"].is_string(), "{response:?}");
    }
}

/// The rules of HTTP are the public listener's, and `protocol` tests them by the hundred. This tests the report of a fault.
#[test]
fn faults_of_http_are_told_and_close() {
    let server = Server::in_memory(&[]);
    let long = "x".repeat(20_000);
    for (target, lines, status, word) in [
        ("/healthz", "Host: a\r\nHost: a", 400, "bad_request"),
        (&long, "Host: a", 414, "uri_too_long"),
        ("/healthz", "Host: a\r\nExpect: wonders", 417, "expectation_failed"),
        ("/healthz", &format!("Host: a\r\nX: {long}"), 431, "headers_too_large"),
        ("/healthz", "Host: a\r\nTransfer-Encoding: gzip, chunked", 501, "not_implemented"),
        ("/healthz HTTP/2.0\r\nX:", "Host: a", 505, "http_version_not_supported"),
    ] {
        // The request before has its answer, and the request behind has none.
        let good = "GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut client = Client::connect(server.control());
        client.send(format!("{good}GET {target} HTTP/1.1\r\n{lines}\r\n\r\n{good}"));
        assert_eq!(client.read_response(false).status, 200, "{word}");
        let response = client.read_response(false);
        expect_error(word, &response, status, word);
        assert!(response.says_close(), "{word}: {response:?}");
        client.expect_closed();
    }
}

#[test]
fn a_body_may_be_a_mebibyte_and_no_more() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let full = format!("{}{VOTE}", " ".repeat(BODY_MAX - VOTE.len()));
    assert_eq!(control.post("/v1/votes", &full).status, 201);
    assert_eq!(control.delete("/v1/votes/28/203.0.113.100").status, 200);
    let head = format!("POST /v1/votes HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n", Server::KEY);
    let mut client = Client::connect(server.control());
    let (first, rest) = full.split_at(BODY_MAX - 16);
    client.send(format!(
        "{head}Transfer-Encoding: chunked\r\n\r\nFFff0;x=\"y\"\r\n{first}\r\n10\r\n{rest}\r\n0\r\nX: 1\r\n\r\n"
    ));
    assert_eq!(client.read_response(false).status, 201);
    client.expect_open();
    for (label, framed) in [
        ("by length", "Content-Length: 1048577\r\n\r\n".to_owned()),
        ("in one chunk", format!("Transfer-Encoding: chunked\r\n\r\n100001\r\n {full}\r\n0\r\n\r\n")),
        ("in two chunks", format!("Transfer-Encoding: chunked\r\n\r\n100000\r\n{full}\r\n1\r\n \r\n0\r\n\r\n")),
    ] {
        let mut client = Client::connect(server.control());
        client.send(format!("{head}{framed}"));
        let response = client.read_response(false);
        expect_error(label, &response, 413, "content_too_large");
        assert!(response.says_close(), "{label}: {response:?}");
        client.expect_closed();
    }
}

#[test]
fn pipelined_commands_are_answered_in_order() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let vote = control.request_bytes("POST", "/v1/votes", Some(VOTE));
    // Content of no bytes closes nothing, nor does content that such a request does not need.
    let cancel = control.request_bytes("DELETE", "/v1/votes/28/203.0.113.100", Some("{}"));
    let health = control.request_bytes("GET", "/healthz", Some(""));
    let mut client = Client::connect(server.control());
    client.send(format!("{vote}{health}{vote}{cancel}{vote}{cancel}{cancel}{health}"));
    for (index, status) in [201, 200, 409, 200, 201, 200, 404, 200].iter().enumerate() {
        let response = client.read_response(false);
        assert_eq!(response.status, *status, "answer {index}: {response:?}");
    }
    client.expect_open();
}
