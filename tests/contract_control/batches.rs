//! Batches and the export: counts, refused lines, and votes that are durable when the answer comes.

use crate::util::client::Client;
use crate::util::figures::peak_kib;
use crate::util::server::Server;
use crate::util::time::now_unix;
use serde_json::json;

#[test]
fn every_line_is_counted_once() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let now = now_unix();
    let (live, over, ahead) = (now - 60, now - 5_400, now + 60);
    let lines = [
        format!(r#"{{"server_id":28,"ip":"203.0.113.1","voted_at":{live}}}"#),
        format!(r#"{{"token":"demo","ip":"203.0.113.2","voted_at":{live}}}"#),
        format!(r#"{{"server_id":28,"ip":"203.0.113.1","voted_at":{live}}}"#),
        String::new(),
        format!(r#"{{"server_id":28,"ip":"203.0.113.3","voted_at":{over}}}"#),
        format!(r#"{{"server_id":29,"ip":"203.0.113.3","voted_at":{live}}}"#),
        format!(r#"{{"server_id":28,"ip":"203.0.113.3","voted_at":{ahead}}}"#),
        format!(r#"{{"server_id":28,"ip":"203.0.113.03","voted_at":{live}}}"#),
        "no JSON".to_owned(),
        r#"{"server_id":28,"token":"demo"}"#.to_owned(),
        format!(r#"{{"server_id":28,"ip":"203.0.113.4","voted_at":{live}}}"#),
    ];
    let expected = json!({
        "recorded": 3, "unchanged": 1, "in_cooldown": 0, "expired": 1, "unknown_server": 1, "invalid": 3, "skipped": 1,
        "errors": [
            {"line": 5, "error": "expired", "message": "voted_at is older than the cooldown"},
            {"line": 6, "error": "unknown_server", "message": "no such server"},
            {"line": 7, "error": "invalid_vote", "message": "voted_at is more than 5 seconds in the future"},
            {"line": 8, "error": "invalid_vote", "message": "ip must be an IPv4 or IPv6 address"},
            {"line": 9, "error": "invalid_vote", "message": "the body is no JSON object: expected ident"},
        ],
    });
    // With either line end, with blanks before it, and with or without a line end behind the last line.
    let response = control.post("/v1/votes/batch", &(lines.join("\r\n") + "\r\n"));
    assert_eq!((response.status, response.json()), (200, expected));
    let again = control.post("/v1/votes/batch", &format!("\u{feff}{}", lines.join(" \t\n"))).json();
    assert_eq!((again["recorded"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(4)));
    let cast = control.post("/v1/votes/batch?mode=cast", &lines[..2].join("\n")).json();
    assert_eq!((cast["recorded"].as_u64(), cast["in_cooldown"].as_u64()), (Some(0), Some(2)));
}

#[test]
fn the_exact_body_of_a_batch_without_faults() {
    let vote = format!(r#"{{"server_id":28,"ip":"203.0.113.1","voted_at":{}}}"#, now_unix());
    let response = Server::listed(&[]).control_client().post("/v1/votes/batch", &vote);
    assert_eq!(
        response.text(),
        r#"{"recorded":1,"unchanged":0,"in_cooldown":0,"expired":0,"unknown_server":0,"invalid":0,"errors":[]}"#
    );
}

/// Blank lines count as lines. A line that is too long is one bad line, whatever its length, and
/// takes no memory.
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
    assert!(grown < 8 * 1024, "{grown} KiB more for a line of {LONG_BYTES}");
}

/// Regression: `"voted_at":null`, which a database gives for an unknown time, and a vote without a time in
/// an imported file were votes of now. So a replay of the file moved them.
#[test]
fn a_vote_without_its_time_is_no_vote_of_now() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let lines = r#"{"server_id":28,"ip":"203.0.113.1"}
{"server_id":28,"ip":"203.0.113.2","voted_at":null}
{"server_id":28,"ip":null,"voted_at":1}
{"token":"demo","server_id":null,"ip":"203.0.113.3"}"#;
    let none = json!({
        "recorded": 0, "unchanged": 0, "in_cooldown": 0, "expired": 0, "unknown_server": 0, "invalid": 4,
        "errors": [
            {"line": 1, "error": "invalid_vote", "message": "voted_at is missing: a vote that is taken over says when it was cast"},
            {"line": 2, "error": "invalid_vote", "message": "voted_at must not be null"},
            {"line": 3, "error": "invalid_vote", "message": "ip must not be null"},
            {"line": 4, "error": "invalid_vote", "message": "voted_at is missing: a vote that is taken over says when it was cast"},
        ],
    });
    for path in ["/v1/votes/batch", "/v1/votes/batch?mode=record"] {
        assert_eq!(control.post(path, lines).json(), none, "{path}");
    }
    let cast = control.post("/v1/votes/batch?mode=cast", lines).json();
    assert_eq!(
        (&cast["recorded"], &cast["invalid"]),
        (&json!(2), &json!(2)),
        "absent means now where votes are cast: {cast}"
    );
    for path in ["/v1/votes", "/v1/votes?mode=record"] {
        let null = control.post(path, r#"{"server_id":28,"ip":"203.0.113.9","voted_at":null}"#);
        assert_eq!((null.status, &null.json()["error"]), (422, &json!("invalid_vote")), "{path}");
        assert_eq!(null.json()["message"], "voted_at must not be null", "{path}");
    }
    assert_eq!(control.post("/v1/votes", r#"{"server_id":28,"ip":"203.0.113.9"}"#).status, 201);
    // A vote with only its server known lists no server.
    let summary = control.post("/v1/servers/batch", r#"{"server_id":77,"ip":null,"voted_at":null}"#).json();
    assert_eq!((&summary["recorded"], &summary["invalid"]), (&json!(0), &json!(1)), "{summary}");
}

/// Regression: an older export brought back a token that had been replaced since.
#[test]
fn a_server_keeps_its_token_unless_that_is_asked_for() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    control.add_server(29, "other");
    let lines = r#"{"server_id":28,"token":"of-yesterday"}
{"server_id":28,"token":"demo"}
{"server_id":28}
{"server_id":29,"token":"demo"}
{"server_id":30,"token":"new"}
{"server_id":30,"token":"newer"}"#;
    let differs = "the server has another token and keeps it; replace_tokens=1 takes this one";
    for path in ["/v1/servers/batch", "/v1/servers/batch?replace_tokens=0"] {
        let summary = control.post(path, lines).json();
        let recorded = u64::from(!path.contains('?'));
        assert_eq!(
            summary,
            json!({
                "recorded": recorded, "unchanged": 3 - recorded, "in_cooldown": 0, "expired": 0, "unknown_server": 0,
                "invalid": 3, "token_differs": 3,
                "errors": [
                    {"line": 1, "error": "token_differs", "message": differs},
                    {"line": 4, "error": "token_differs", "message": differs},
                    {"line": 6, "error": "token_differs", "message": differs},
                ],
            })
        );
        for (id, token) in [(28, "demo"), (29, "other"), (30, "new")] {
            assert_eq!(control.get(&format!("/v1/servers/{id}")).json()["token"], token);
        }
    }
    let summary = control.post("/v1/servers/batch?replace_tokens=1", lines).json();
    assert_eq!((&summary["recorded"], &summary["unchanged"], &summary["invalid"]), (&json!(3), &json!(2), &json!(1)));
    assert_eq!(
        summary["errors"],
        json!([{"line": 4, "error": "token_in_use", "message": "this token is another server's"}])
    );
    for (id, token) in [(28, "demo"), (29, "other"), (30, "newer")] {
        assert_eq!(control.get(&format!("/v1/servers/{id}")).json()["token"], token);
    }
    assert_eq!(control.post("/v1/servers/batch?replace_tokens=yes", lines).status, 400);
    // A request that names one server means to change it.
    assert_eq!(control.put("/v1/servers/28", r#"{"token":"put"}"#).json()["token"], "put");
    assert_eq!(control.put("/v1/servers/28", r#"{"token":null}"#).json()["token"], "put");
}

/// Regression: the site learned the generated tokens of a batch only by a question about each server.
#[test]
fn a_batch_tells_the_tokens_that_were_generated() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let lines = r#"{"server_id":28}
{"server_id":30}
{"server_id":31,"token":"said"}
{"server_id":32,"token":"not one"}
{"server_id":33,"token":null}
{"server_id":30}"#;
    let token = |id: u32| control.get(&format!("/v1/servers/{id}")).json()["token"].clone();
    let summary = control.post("/v1/servers/batch", lines).json();
    assert_eq!((&summary["recorded"], &summary["unchanged"], &summary["invalid"]), (&json!(3), &json!(2), &json!(1)));
    assert_eq!(summary["generated"], 2, "{summary}");
    let expected = [30, 33].map(|id| json!({"server_id": id, "token": token(id)}));
    assert_eq!(summary["tokens"], json!(expected), "{summary}");
    // The answer is as before where no token is generated.
    let again = control.post("/v1/servers/batch?replace_tokens=1", lines).json();
    assert_eq!((&again["recorded"], &again["unchanged"]), (&json!(0), &json!(5)), "{again}");
    assert_eq!((again.get("generated"), again.get("tokens")), (None, None), "{again}");

    // More tokens than the answer has room for, over several commands. The list of all servers has the others.
    let lines: String = (1_000..11_000).map(|id| format!("{{\"server_id\":{id}}}\n")).collect();
    let summary = control.post("/v1/servers/batch", &lines).json();
    assert_eq!((&summary["recorded"], &summary["generated"]), (&json!(10_000), &json!(10_000)));
    let told = summary["tokens"].as_array().expect("a list");
    assert_eq!(told.len(), 4_096);
    assert!(told.iter().zip(1_000..).all(|(told, id)| told["server_id"] == id), "not in the order of their lines");
    let page = control.get("/v1/servers?after=999&limit=1000").json();
    assert!(
        told.iter().take(1_000).eq(page["servers"].as_array().expect("a list")),
        "other tokens than the servers have"
    );
}

/// Regression: `errors_max=100000` and long names of fields made an answer of 420 MB, all of it in memory.
#[test]
fn what_is_told_of_a_batch_has_a_bound() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let line = format!("{{\"\\u001b{}\":1}}\n", "n".repeat(3_900));
    let begin = peak_kib(server.pid());
    let response = control.post("/v1/votes/batch?errors_max=100000", &line.repeat(12_000));
    assert!(response.body.len() <= 1024 * 1024, "{} bytes", response.body.len());
    let summary = response.json();
    assert_eq!(summary["invalid"], 12_000);
    let errors = summary["errors"].as_array().expect("a list");
    assert!(errors.len() > 3_000, "{} lines are told", errors.len());
    for (index, error) in errors.iter().enumerate() {
        let message = error["message"].as_str().expect("a text");
        assert!(message.len() <= 200 && !message.contains('\u{1b}'), "{message:?}");
        assert!(message.ends_with("expected one of `server_id`, `token`, `ip`, `ips`, `voted_at`"), "{message:?}");
        assert_eq!(error["line"], index + 1, "the first lines, and no gap");
    }
    let grown = peak_kib(server.pid()).saturating_sub(begin);
    assert!(grown < 32 * 1024, "{grown} KiB more for one batch");
    let usual = control.post("/v1/votes/batch", &line.repeat(200)).json();
    assert_eq!(usual["errors"].as_array().map(Vec::len), Some(100), "where no number is asked for");
    let single = control.post("/v1/votes", line.trim_end());
    assert_eq!((single.status, &single.json()["error"]), (422, &json!("invalid_vote")));
    assert!(single.body.len() < 400, "{} bytes", single.body.len());
    let value = format!("\"{}\"", "é".repeat(5_000));
    let single = control.post("/v1/votes", &value).json();
    let message = single["message"].as_str().expect("a text");
    assert!(
        message.len() <= 200 && message.starts_with("invalid type: string \"éé") && message.ends_with('…'),
        "{message:?}"
    );
}
