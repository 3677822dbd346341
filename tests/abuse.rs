//! Clients that mean harm, or behave as if they did: slow, silent, deaf, endless, too many.
//! Each test is bounded in time and prints its figures to standard error. Black box; knows the
//! process's figures from `/proc`.

mod buffers;
mod control;
mod crowds;
mod memory;
mod overload;
mod places;
mod slow;

use crate::util::answers::{CAN_VOTE, Outcome};
use crate::util::checks::{Closed, expect_response};
use crate::util::client::Client;
use crate::util::response::Response;

/// A request for a pair that may vote, on every server that these tests start.
const GET: &[u8] = b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n\r\n";

/// One request on a connection that must still be good.
fn ask(client: &mut Client) {
    client.send(GET);
    let response = client.read_response(false);
    assert_eq!(response.status, 200, "{response:?}");
    assert_eq!(response.text(), CAN_VOTE.body);
}

/// Requires an answer that refuses, and announces the close.
fn assert_refusal(response: &Response, outcome: &Outcome) {
    expect_response("refused", response, outcome, Closed);
}
