//! What an answer must look like, byte for byte on the public listener. Knows the contract's
//! words; must not know which request led to the answer or how it was sent.

use super::case::{Answer, End};
use crate::util::answers::{
    BAD_REQUEST, CAN_VOTE, CONTENT_TOO_LARGE, EXPECTATION_FAILED, HEADERS_TOO_LARGE, INVALID_IP, METHOD_NOT_ALLOWED,
    NOT_FOUND, NOT_IMPLEMENTED, OPTIONS, Outcome, URI_TOO_LONG, VERSION_NOT_SUPPORTED,
};
use crate::util::checks::{Closed, KeptAlive, Open, head};
use crate::util::response::Response;

/// Which listener gave the answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Listener {
    Public,
    Control,
}

/// Requires the answer's status to be one of the expected, and all the rest to be what that
/// status means. `end` is what the connection is about to do after this answer.
pub(super) fn check(response: &Response, expected: Answer, end: End, listener: Listener) -> Result<(), String> {
    if !expected.statuses.contains(&response.status) {
        return Err(format!("status {} instead of {:?}", response.status, expected.statuses));
    }
    if response.status == 100 {
        return equal(&response.raw_head, "HTTP/1.1 100 Continue\r\n\r\n");
    }
    match listener {
        Listener::Public => check_public(response, expected.head_only, end),
        Listener::Control => check_control(response, end),
    }
}

fn check_public(response: &Response, head_only: bool, end: End) -> Result<(), String> {
    let outcome = outcome(response.status, end);
    let date = response.header("Date").ok_or("no Date")?;
    let after = match (end, response.header("Connection")) {
        (End::Close, _) => Closed,
        // Told to HTTP/1.0 clients that asked for it.
        (End::Keep, Some("keep-alive")) => KeptAlive,
        (End::Keep, _) => Open,
    };
    equal(&response.raw_head, &head(outcome, date, after))?;
    equal(response.text(), if head_only { "" } else { outcome.body })
}

/// A 400 that keeps the connection is about the address, any other about HTTP itself.
fn outcome(status: u16, end: End) -> &'static Outcome {
    match (status, end) {
        (200, _) => &CAN_VOTE,
        (204, _) => &OPTIONS,
        (400, End::Keep) => &INVALID_IP,
        (400, End::Close) => &BAD_REQUEST,
        (404, _) => &NOT_FOUND,
        (405, _) => &METHOD_NOT_ALLOWED,
        (413, _) => &CONTENT_TOO_LARGE,
        (414, _) => &URI_TOO_LONG,
        (417, _) => &EXPECTATION_FAILED,
        (431, _) => &HEADERS_TOO_LARGE,
        (501, _) => &NOT_IMPLEMENTED,
        (505, _) => &VERSION_NOT_SUPPORTED,
        _ => panic!("no row expects {status}"),
    }
}

fn check_control(response: &Response, end: End) -> Result<(), String> {
    for (name, value) in [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")] {
        equal(response.header(name).unwrap_or_default(), value)?;
    }
    if response.says_close() != (end == End::Close) {
        return Err(format!("Connection: {:?}, then {end:?}", response.header("Connection")));
    }
    if [200, 204].contains(&response.status) {
        return Ok(());
    }
    // No row is about an address there.
    let body = outcome(response.status, End::Close).body;
    let word = body.rsplit('"').nth(1).expect("the last text of the body is the word");
    if response.body.is_empty() {
        return Ok(()); // the answer to a HEAD
    }
    let start = format!("{{\"error\":\"{word}\",\"message\":\"");
    if response.text().starts_with(&start) && response.text().ends_with("\"}") {
        Ok(())
    } else {
        Err(format!("body {:?}", response.text()))
    }
}

fn equal(got: &str, expected: &str) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("got {got:?} instead of {expected:?}")) }
}
