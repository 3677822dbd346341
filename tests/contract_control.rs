//! The control part of the contract: votes, servers and their tokens, the key, bodies, errors.

pub(crate) mod batches;
mod http;
mod metrics;
mod servers;
mod voters;
mod votes;
mod watch;

use crate::util::response::Response;
use crate::util::time::is_imf_fixdate_of_now;
use serde_json::Value;

/// Checks status, headers and the whole JSON body of an answer of the control listener.
fn expect(label: &str, response: &Response, status: u16, body: &Value) {
    expect_headers(label, response, status);
    assert_eq!(response.json(), *body, "{label}");
}

/// Checks an error: its word, an English message, and no other field.
fn expect_error(label: &str, response: &Response, status: u16, word: &str) {
    let json = expect_error_with(label, response, status, word);
    let fields = json.as_object().map(serde_json::Map::len);
    assert_eq!(fields, Some(2), "{label}: {json}");
}

/// Checks an error that may have fields besides its word and message, and gives back the body.
fn expect_error_with(label: &str, response: &Response, status: u16, word: &str) -> Value {
    expect_headers(label, response, status);
    let json = response.json();
    assert_eq!(json["error"], word, "{label}: {json}");
    let message = json["message"].as_str().unwrap_or_default();
    assert!(message.is_ascii(), "{label}: English, not {message:?}");
    assert!(message.contains(' '), "{label}: words, not {message:?}");
    json
}

fn expect_headers(label: &str, response: &Response, status: u16) {
    assert_eq!(response.status, status, "{label}: {response:?}");
    let date = response.header("Date").unwrap_or_default();
    assert!(is_imf_fixdate_of_now(date), "{label}: {date:?}");
    let length = response.body.len().to_string();
    for (name, value) in [
        ("Content-Type", "application/json; charset=utf-8"),
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Content-Length", length.as_str()),
    ] {
        assert_eq!(response.header(name), Some(value), "{label}: {name}");
    }
    // Another site's page in the operator's browser has no business here.
    assert_eq!(response.header("Access-Control-Allow-Origin"), None);
}
