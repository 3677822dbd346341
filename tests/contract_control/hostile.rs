//! JSON as nobody should write it: each line or body is taken for what it says or refused with a reason,
//! and what comes before and behind it counts.

use crate::util::client::Client;
use crate::util::figures::peak_kib;
use crate::util::server::Server;
use crate::util::time::now_unix;
use serde_json::json;

/// Fields of a vote, and the status that a single one is answered.
const VOTES: &[(&str, u16)] = &[
    (r#""server_id":28,"ip":"203.0.113.1""#, 201),
    (r#""server_id":28.0,"ip":"203.0.113.2""#, 422),
    (r#""server_id":2.8e1,"ip":"203.0.113.2""#, 422),
    (r#""server_id":-0,"ip":"203.0.113.2""#, 422),
    (r#""server_id":028,"ip":"203.0.113.2""#, 400),
    (r#""server_id":4294967324,"ip":"203.0.113.2""#, 422),
    (r#""server_id":18446744073709551644,"ip":"203.0.113.2""#, 422),
    (r#""server_id":1e999,"ip":"203.0.113.2""#, 400),
    (r#""server_id":28,"server_id":28,"ip":"203.0.113.2""#, 422),
    (r#""server_id":28,"\u0069p":"203.0.113.3""#, 201),
    (r#""server_id":28,"\u0069p":"203.0.113.2","ip":"203.0.113.2""#, 422),
    (r#""server_id":28,"ip":"203.0.113.2\u0000""#, 422),
    (r#""server_id":28,"ip":"203.0.113\u002e4""#, 201),
    (r#""server_id":28,"ip":"\ud800""#, 400),
    ("\"server_id\":28,\"ip\":\"203.0.113.2\0\"", 400),
    ("\"server_id\":28,\"ip\":\"203.0.113.2\"\0", 400),
    (r#""server_id":28,"ip":"203.0.113.2","voted_at":1e300"#, 422),
    (r#""server_id":28,"ip":"203.0.113.2","voted_at":-1e300"#, 422),
    (r#""server_id":28,"ip":"203.0.113.2","voted_at":99999999999999999999999999999999"#, 422),
    (r#""":1"#, 422),
];

#[test]
fn strange_votes_are_refused_one_by_one_and_in_a_batch() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    for (fields, status) in VOTES {
        let response = control.post("/v1/votes", &format!("{{{fields}}}"));
        assert_eq!(response.status, *status, "{fields}: {}", response.text());
    }
    let nested = format!("{{\"voted_at\":{}", "[".repeat(500_000));
    assert_eq!(control.post("/v1/votes", &nested).status, 422);
    let nested = format!("{{\"x\":{}", "{\"x\":".repeat(100_000));
    assert_eq!(control.post("/v1/votes", &nested).status, 422);
    for body in ["\u{feff}{}", "null", "28", "\"\"", "[{}]", "{}{}", " ", "\0", "{\"server_id\""] {
        let status = control.post("/v1/votes", body).status;
        assert!(status == 400 || status == 422, "{body:?}: {status}");
    }
    // Each on a line of a batch, with good lines between them, and every line end there is.
    let (mut lines, mut good) = ("\u{feff}".to_owned(), 0);
    for (index, (fields, status)) in VOTES.iter().enumerate() {
        let end = ["\n", "\r\n", "\n\n", " \t\r\n"][index % 4];
        lines += &format!("{{\"server_id\":28,\"ip\":\"198.51.100.{index}\"}}{end}{{{fields}}}{end}");
        good += 1 + u64::from(*status == 201);
    }
    lines += r#"{"server_id":28,"ip":"192.0.2.1"}"#;
    control.delete("/v1/servers/28");
    control.add_server(28, "demo");
    let summary = control.post("/v1/votes/batch?mode=cast", &lines).json();
    assert_eq!(summary["recorded"], good + 1, "{summary}");
    assert_eq!(summary["invalid"], 2 * VOTES.len() as u64 - good, "{summary}");
}

/// Blank lines count as lines, a line that is too long is one bad line of however many bytes, and
/// nothing of it is held.
#[test]
fn a_line_without_end_takes_no_memory_and_its_neighbours_count() {
    const LONG_BYTES: usize = 100 * 1024 * 1024;
    let server = Server::listed(&[]);
    let control = server.control_client();
    let now = now_unix();
    let vote = |last: u32| format!("{{\"server_id\":28,\"ip\":\"203.0.113.{last}\",\"voted_at\":{now}}}");
    let (before, behind) = (format!("{}\n\n", vote(1)), format!("\n{}\n{}\n{}", " ".repeat(5_000), vote(2), vote(3)));
    let request = control.request_bytes("POST", "/v1/votes/batch", Some(""));
    let length = format!("Content-Length: {}\r\n", before.len() + LONG_BYTES + behind.len());
    let request = request.replace("Content-Length: 0\r\n", &length);
    assert!(request.contains(&length), "{request}");
    let held = || peak_kib(server.pid());
    let mut client = Client::connect(server.control());
    client.send(request);
    client.send(before);
    let begin = held();
    let piece = vec![b'['; 1024 * 1024];
    for _ in 0..LONG_BYTES / piece.len() {
        client.send(&piece);
    }
    client.send(behind);
    let summary = client.read_response(false).json();
    let message = "the line is longer than 4096 bytes";
    let errors = [3, 4].map(|line| json!({"line": line, "error": "invalid_vote", "message": message}));
    assert_eq!((&summary["recorded"], &summary["errors"]), (&json!(3), &json!(errors)), "{summary}");
    let grown = held().saturating_sub(begin);
    println!("{grown} KiB more for a line of {LONG_BYTES}");
    assert!(grown < 8 * 1024, "{grown} KiB more for a line of {LONG_BYTES}");
}
