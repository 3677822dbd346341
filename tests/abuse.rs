//! Clients that mean harm, or behave as if they did: slow, silent, deaf, endless, too many.
//! Each test is bounded in time; what it measured goes to standard error. Black box; knows the
//! process's figures from `/proc`.

mod buffers;
mod control;
mod crowds;
mod memory;
mod overload;
mod slow;

use crate::util::client::Client;
use crate::util::response::Response;

/// A request for a pair that may vote, on every server that these tests start.
const GET: &[u8] = b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n";
/// The body of its answer.
const CAN_VOTE: &str = r#"{"success":true,"can_vote":true,"message":"Vous pouvez voter maintenant","next_vote_at":null,"cooldown_minutes":90}"#;

#[rustfmt::skip]
const TIMEOUT_BODY: &str = r#"{"success":true,"can_vote":true,"message":"Délai de requête dépassé","next_vote_at":null,"cooldown_minutes":90,"error":"request_timeout"}"#;
#[rustfmt::skip]
const NOT_READY_BODY: &str = r#"{"success":true,"can_vote":true,"message":"Service momentanément indisponible","next_vote_at":null,"cooldown_minutes":90,"error":"not_ready"}"#;
#[rustfmt::skip]
const CONTENT_BODY: &str = r#"{"success":true,"can_vote":true,"message":"Corps trop volumineux","next_vote_at":null,"cooldown_minutes":90,"error":"content_too_large"}"#;

/// One request on a connection that must still be good.
fn ask(client: &mut Client) {
    client.send(GET);
    let response = client.read_response(false);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.text(), CAN_VOTE);
}

/// Requires an answer that refuses and says that it closes.
fn assert_refusal(response: &Response, status: u16, body: &str) {
    assert_eq!(response.status, status, "{response:?}");
    assert_eq!(response.text(), body, "{response:?}");
    assert!(response.says_close(), "{response:?}");
}
