//! What an answer must look like, byte for byte on the public listener. Knows the contract's
//! words; must not know which request led to the answer or how it was sent.

use super::case::{Answer, End};
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
    let body = public_body(response.status, end);
    let body_sent = if head_only { "" } else { body };
    let date = response.header("Date").ok_or("no Date")?;
    let (reason, extra) = public_head(response.status);
    let connection = match (end, response.header("Connection")) {
        (End::Close, _) => "Connection: close\r\n",
        // Told to HTTP/1.0 clients that asked for it.
        (End::Keep, Some("keep-alive")) => "Connection: keep-alive\r\n",
        (End::Keep, _) => "",
    };
    let (type_line, length_line) = if response.status == 204 {
        (String::new(), String::new())
    } else {
        ("Content-Type: application/json; charset=utf-8\r\n".to_owned(), format!("Content-Length: {}\r\n", body.len()))
    };
    let head = format!(
        "HTTP/1.1 {reason}\r\nDate: {date}\r\n{type_line}Cache-Control: no-store\r\n\
         Access-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n\
         {extra}{length_line}{connection}\r\n"
    );
    equal(&response.raw_head, &head)?;
    equal(response.text(), body_sent)
}

fn check_control(response: &Response, end: End) -> Result<(), String> {
    for (name, value) in [("Cache-Control", "no-store"), ("X-Content-Type-Options", "nosniff")] {
        equal(response.header(name).unwrap_or_default(), value)?;
    }
    if response.says_close() != (end == End::Close) {
        return Err(format!("Connection: {:?}, then {end:?}", response.header("Connection")));
    }
    let word = match (response.status, end) {
        (200 | 204, _) => return Ok(()),
        (400, _) => "bad_request",
        (404, _) => "not_found",
        (405, _) => "method_not_allowed",
        (413, _) => "content_too_large",
        (414, _) => "uri_too_long",
        (417, _) => "expectation_failed",
        (431, _) => "headers_too_large",
        (501, _) => "not_implemented",
        (505, _) => "http_version_not_supported",
        (status, _) => return Err(format!("no body is known for {status}")),
    };
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

/// The status line from the number on, and the lines that only this status has.
fn public_head(status: u16) -> (&'static str, &'static str) {
    match status {
        200 => ("200 OK", ""),
        204 => (
            "204 No Content",
            "Allow: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
             Access-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 86400\r\n",
        ),
        400 => ("400 Bad Request", ""),
        404 => ("404 Not Found", ""),
        405 => ("405 Method Not Allowed", "Allow: GET, HEAD, OPTIONS\r\n"),
        413 => ("413 Content Too Large", ""),
        414 => ("414 URI Too Long", ""),
        417 => ("417 Expectation Failed", ""),
        431 => ("431 Request Header Fields Too Large", ""),
        501 => ("501 Not Implemented", ""),
        505 => ("505 HTTP Version Not Supported", ""),
        _ => ("a status that no row expects", ""),
    }
}

/// A 400 that keeps the connection is about the address, any other about HTTP itself.
#[rustfmt::skip]
fn public_body(status: u16, end: End) -> &'static str {
    match (status, end) {
        (200, _) => r#"{"success":true,"can_vote":true,"message":"Vous pouvez voter maintenant","next_vote_at":null,"cooldown_minutes":90}"#,
        (400, End::Keep) => r#"{"success":true,"can_vote":true,"message":"Adresse IP invalide","next_vote_at":null,"cooldown_minutes":90,"error":"invalid_ip"}"#,
        (400, End::Close) => r#"{"success":true,"can_vote":true,"message":"Requête invalide","next_vote_at":null,"cooldown_minutes":90,"error":"bad_request"}"#,
        (404, _) => r#"{"success":true,"can_vote":true,"message":"Ressource introuvable","next_vote_at":null,"cooldown_minutes":90,"error":"not_found"}"#,
        (405, _) => r#"{"success":true,"can_vote":true,"message":"Méthode non autorisée","next_vote_at":null,"cooldown_minutes":90,"error":"method_not_allowed"}"#,
        (413, _) => r#"{"success":true,"can_vote":true,"message":"Corps trop volumineux","next_vote_at":null,"cooldown_minutes":90,"error":"content_too_large"}"#,
        (414, _) => r#"{"success":true,"can_vote":true,"message":"URI trop longue","next_vote_at":null,"cooldown_minutes":90,"error":"uri_too_long"}"#,
        (417, _) => r#"{"success":true,"can_vote":true,"message":"Attente non satisfaite","next_vote_at":null,"cooldown_minutes":90,"error":"expectation_failed"}"#,
        (431, _) => r#"{"success":true,"can_vote":true,"message":"En-têtes trop volumineux","next_vote_at":null,"cooldown_minutes":90,"error":"headers_too_large"}"#,
        (501, _) => r#"{"success":true,"can_vote":true,"message":"Codage de transfert non pris en charge","next_vote_at":null,"cooldown_minutes":90,"error":"not_implemented"}"#,
        (505, _) => r#"{"success":true,"can_vote":true,"message":"Version HTTP non prise en charge","next_vote_at":null,"cooldown_minutes":90,"error":"http_version_not_supported"}"#,
        _ => "",
    }
}

fn equal(got: &str, expected: &str) -> Result<(), String> {
    if got == expected { Ok(()) } else { Err(format!("got {got:?} instead of {expected:?}")) }
}
