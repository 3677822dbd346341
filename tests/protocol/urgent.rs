//! Bytes that a client marks as urgent (`MSG_OOB`). The kernel ends a read before such a byte,
//! whatever follows it. By RFC 6093 a reader takes the byte in its place.

use super::OPTIONS;
use crate::util::answers::{CAN_VOTE, METHOD_NOT_ALLOWED, Outcome, prepare};
use crate::util::client::Client;
use crate::util::server::Server;

const GET: &str = "GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n";
const POST: &str = "POST /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\n";

/// Sends `bytes`, the last one of them urgent.
fn send_urgent(client: &Client, bytes: &[u8]) {
    let sent = client.socket().send_out_of_band(bytes).expect("urgent data can be sent");
    assert_eq!(sent, bytes.len());
}

/// Name, the bytes sent as usual, those up to an urgent byte, those right behind it, and the answer to each request.
type Case = (&'static str, String, String, String, Vec<&'static Outcome>);

fn cases() -> Vec<Case> {
    let (head, end) = GET.split_at(20);
    let none = String::new;
    let all = |text: &str| text.to_owned();
    vec![
        ("in the head", none(), all(head), all(end), vec![&CAN_VOTE]),
        ("at the head's end", none(), all(GET), none(), vec![&CAN_VOTE]),
        ("behind half of a head", all(&head[..9]), all(&head[9..]), all(end), vec![&CAN_VOTE]),
        ("at the end of one of two", none(), all(GET), all(GET), vec![&CAN_VOTE, &CAN_VOTE]),
        ("twice", all(head), all(end), GET.repeat(2), vec![&CAN_VOTE, &CAN_VOTE, &CAN_VOTE]),
        ("between two", GET.to_owned() + "\r", all("\n"), all(GET), vec![&CAN_VOTE, &CAN_VOTE]),
        ("before a whole one", none(), all("!"), all(GET), vec![&METHOD_NOT_ALLOWED]),
        (
            "in content",
            POST.to_owned() + "abc",
            all("d"),
            "efgh".to_owned() + GET,
            vec![&METHOD_NOT_ALLOWED, &CAN_VOTE],
        ),
        ("at content's end", POST.to_owned(), all("abcdefgh"), all(GET), vec![&METHOD_NOT_ALLOWED, &CAN_VOTE]),
    ]
}

/// Regression: a whole request behind such a byte waited for the deadline of its head. The server took the
/// read that ended before the byte for the last one, and left out the byte itself.
#[test]
fn what_lies_behind_an_urgent_byte_does_not_wait() {
    let server = Server::in_memory(&OPTIONS);
    prepare(&server);
    for (what, before, urgent, behind, expected) in cases() {
        for is_newcomer in [true, false] {
            let mut client = Client::connect(server.public());
            if !is_newcomer {
                client.send(GET);
                assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
            }
            client.send(&before);
            send_urgent(&client, urgent.as_bytes());
            client.send(&behind);
            for outcome in &expected {
                let response = client.read_response(false);
                assert_eq!(response.text(), outcome.body, "{what}, newcomer: {is_newcomer}");
            }
        }
    }
}
