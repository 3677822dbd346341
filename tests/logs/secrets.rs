//! No line has a token or a key, whatever is asked and however wrong, at the level that logs the
//! most.

use super::told_until_the_end;
use crate::util::client::{Client, exchange};
use crate::util::server::Server;
use crate::util::watch::Watching;
use serde_json::Value;

/// Tokens of servers, and some that no server has. They stay secret in any spelling.
const SECRETS: &[&str] = &[
    "canary-of-server-28",
    "canary-of-server-29",
    "canary-of-a-batch",
    "canary-that-is-new",
    "canary-of-nobody",
    "wrong-key-canary",
    "4294001122",
    Server::KEY,
];

/// Every request that means something to the control interface: method, path, body.
const CONTROL: &[(&str, &str, Option<&str>)] = &[
    ("PUT", "/v1/servers/28", Some(r#"{"token":"canary-of-server-28"}"#)),
    ("PUT", "/v1/servers/29", Some(r#"{"token":"canary-of-server-29"}"#)),
    ("PUT", "/v1/servers/30", Some(r#"{"token":"4294001122"}"#)),
    ("PUT", "/v1/servers/28", Some(r#"{"token":"canary-that-is-new"}"#)),
    ("PUT", "/v1/servers/28", Some(r#"{"token":"canary-of-server-28 "}"#)),
    ("PUT", "/v1/servers/28", Some(r#"{"canary-of-server-28":1}"#)),
    ("PUT", "/v1/servers/canary-of-server-28", None),
    ("GET", "/v1/servers?token=canary-of-server-28", None),
    ("GET", "/v1/servers", None),
    ("POST", "/v1/servers/29/token", None),
    ("POST", "/v1/votes", Some(r#"{"token":"canary-that-is-new","ip":"203.0.113.7"}"#)),
    ("POST", "/v1/votes", Some(r#"{"token":"canary-that-is-new","ip":"203.0.113.7"}"#)),
    ("POST", "/v1/votes?mode=canary-of-server-28", Some("{}")),
    ("POST", "/v1/votes", Some(r#"{"token":"canary-of-nobody","ip":"canary-of-server-28"}"#)),
    ("POST", "/v1/votes/batch", Some("{\"token\":\"canary-that-is-new\",\"ip\":\"203.0.113.9\"}\ncanary-of-nobody\n")),
    (
        "POST",
        "/v1/servers/batch",
        Some("{\"server_id\":31,\"token\":\"canary-of-a-batch\"}\n{\"token\":\"canary-of-nobody\"}"),
    ),
    ("GET", "/v1/export", None),
    ("DELETE", "/v1/votes/28/203.0.113.7", None),
    ("DELETE", "/v1/votes/28/canary-of-server-28", None),
    ("DELETE", "/v1/servers/29", None),
    ("GET", "/metrics?key=the-control-key-of-the-tests", None),
    ("GET", "/canary-of-server-28", None),
];

/// Requests as they come over the wire, to both listeners.
const RAW: &[&str] = &[
    "GET /api/servers/canary-that-is-new/vote-status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-that-is-ne%77/vote-status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-of-nobody/vote-status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-of-nobody/vote-status/canary-of-server-28 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/vote/4294001122/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/vote/canary-that-is-new/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/vote/28/status/canary-that-is-new HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/vote/28/status/203.0.113.7?token=canary-that-is-new HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-that-is-new/vote-status/203.0.113.7 HTTP/9.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-that-is-new/vote-status/203.0.113.7\r\n\r\n",
    "GET /api/servers/canary-that-is-new%zz/vote-status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /api/servers/canary-that-is-new/vote-status/203.0.113.7 HTTP/1.1\r\nHost: canary-of-nobody b\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: canary-of-nobody\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\ncanary-of-nobody\r\n",
    "canary-of-nobody /api HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /v1/servers HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer wrong-key-canary\r\n\r\n",
    "GET /v1/servers HTTP/1.1\r\nHost: a\r\nAuthorization: Basic the-control-key-of-the-tests\r\n\r\n",
    "GET /v1/the-control-key-of-the-tests HTTP/1.1\r\nHost: a\r\n\r\n",
    "GET /v1/servers?key=the-control-key-of-the-tests HTTP/1.1\r\nHost: a\r\n\r\n",
];

#[test]
fn no_secret_is_ever_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().to_str().expect("UTF-8");
    let server = Server::start(&["--data-dir", data, "--log-level", "debug", "--head-timeout", "0.2"]);
    let control = server.control_client();
    let mut secrets: Vec<String> = SECRETS.iter().map(|&secret| secret.to_owned()).collect();
    let watching = Watching::begin(&server, "");
    for (method, path, body) in CONTROL {
        let response = exchange(server.control(), control.request_bytes(method, path, *body));
        // Generated tokens are as secret as given ones.
        let made = serde_json::from_slice::<Value>(&response.body).ok();
        secrets.extend(made.and_then(|made| Some(made["token"].as_str()?.to_owned())));
    }
    for listener in [server.public(), server.control()] {
        for request in RAW {
            exchange(listener, request);
        }
        // A request that is never whole.
        let mut client = Client::connect(listener);
        client.send("GET /api/servers/canary-that-is-new/vote");
        assert_eq!(client.read_response(false).status, 408);
    }
    assert!(secrets.iter().any(|secret| secret.len() == 32), "no token was made: {secrets:?}");
    let told = told_until_the_end(server);
    let seen = watching.rest();
    assert!(seen.lines().count() > 20 && seen.contains(r#""token_begins":"cana""#), "{seen}");
    for told in [&told, &seen] {
        for secret in &secrets {
            assert!(!told.contains(secret.as_str()), "{secret} in\n{told}");
        }
        for part in ["canary", "ne%77", "Bearer", "Basic"] {
            assert!(!told.contains(part), "{part} in\n{told}");
        }
    }
    assert!(!told.contains("panicked"), "{told}");
    for said in ["server 28 is listed", "server 28 has another token", "server 29 has another token"] {
        assert!(told.contains(said), "no {said:?} in\n{told}");
    }
    for said in ["server 29 is removed", "a batch of servers: 1 recorded", "an export was asked for"] {
        assert!(told.contains(said), "no {said:?} in\n{told}");
    }
}
