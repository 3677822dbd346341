//! Batches and the export: counts, refused lines, what is durable when the answer comes.

use crate::util::server::Server;
use crate::util::time::now_unix;
use serde_json::json;

fn server() -> Server {
    let server = Server::in_memory(&[]);
    server.control_client().add_server(28, "demo");
    server
}

#[test]
fn every_line_is_counted_once() {
    let server = server();
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
        r#"{"server_id":28,"ip":"203.0.113.03"}"#.to_owned(),
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
            {"line": 8, "error": "invalid_vote", "message": "ip must be an IPv4 address"},
            {"line": 9, "error": "invalid_vote", "message": "the body is no JSON object: expected ident"},
        ],
    });
    // With either line end, and with or without one behind the last line.
    let response = control.post("/v1/votes/batch", &(lines.join("\r\n") + "\r\n"));
    assert_eq!((response.status, response.json()), (200, expected));
    let again = control.post("/v1/votes/batch", &lines.join("\n")).json();
    assert_eq!((again["recorded"].as_u64(), again["unchanged"].as_u64()), (Some(0), Some(4)));
    let cast = control.post("/v1/votes/batch?mode=cast", &lines[..2].join("\n")).json();
    assert_eq!((cast["recorded"].as_u64(), cast["in_cooldown"].as_u64()), (Some(0), Some(2)));
}

#[test]
fn the_exact_body_of_a_batch_without_faults() {
    let response = server().control_client().post("/v1/votes/batch", r#"{"server_id":28,"ip":"203.0.113.1"}"#);
    assert_eq!(
        response.text(),
        r#"{"recorded":1,"unchanged":0,"in_cooldown":0,"expired":0,"unknown_server":0,"invalid":0,"errors":[]}"#
    );
}

#[test]
fn a_batch_of_servers() {
    let server = server();
    let control = server.control_client();
    let lines = r#"{"server_id":1,"token":"one"}
{"server_id":2,"token":"one"}
{"server_id":28,"token":"demo"}
{"server_id":3}
{"server_id":4,"token":"not a token"}
{"server_id":28,"ip":"203.0.113.1"}"#;
    let summary = control.post("/v1/servers/batch", lines).json();
    assert_eq!(summary["recorded"], 2, "{summary}");
    assert_eq!(summary["unchanged"], 1, "{summary}");
    assert_eq!(summary["invalid"], 2, "{summary}");
    assert_eq!(summary["skipped"], 1, "{summary}");
    assert_eq!(summary["errors"][0]["line"], 2, "{summary}");
    assert_eq!(summary["errors"][0]["error"], "token_in_use", "{summary}");
    assert_eq!(summary["errors"][1]["error"], "invalid_token", "{summary}");
    assert_eq!(control.get("/v1/servers/3").json()["token"].as_str().map(str::len), Some(32));
}

/// Regression: a line was bounded only where it came in two reads.
#[test]
fn a_line_is_bounded_however_it_comes() {
    let line = format!(r#"{{"server_id":28,"ip":"203.0.113.1"{}}}"#, " ".repeat(5_000));
    let summary = server().control_client().post("/v1/votes/batch", &(line + "\n")).json();
    assert_eq!((summary["recorded"].as_u64(), summary["invalid"].as_u64()), (Some(0), Some(1)), "{summary}");
}

/// Regression: lines that cannot be read crowded out earlier ones that the recorder refused.
#[test]
fn the_first_refused_lines_are_told() {
    let lines = r#"{"server_id":29,"ip":"203.0.113.1"}"#.to_owned() + &"\nnonsense".repeat(300);
    let control = server();
    let summary = control.control_client().post("/v1/votes/batch", &lines).json();
    let told: Vec<u64> =
        summary["errors"].as_array().expect("a list").iter().filter_map(|error| error["line"].as_u64()).collect();
    assert_eq!(told, (1..=100).collect::<Vec<_>>());
    assert_eq!(summary["errors"][0]["error"], "unknown_server");
    let more = control.control_client().post("/v1/votes/batch?errors_max=250", &lines).json();
    assert_eq!(more["errors"].as_array().map(Vec::len), Some(250));
}

#[test]
fn what_the_export_gives_both_batches_take() {
    let first = server();
    let control = first.control_client();
    for number in 1..=50 {
        assert_eq!(control.cast_at(28, &format!("203.0.113.{number}"), now_unix() - 60 * number).status, 201);
    }
    let export = control.get("/v1/export");
    assert_eq!(export.header("Content-Type"), Some("application/x-ndjson"));
    let second = Server::in_memory(&[]);
    let taken = second.control_client();
    assert_eq!(taken.post("/v1/servers/batch", export.text()).json()["recorded"], 1);
    assert_eq!(taken.post("/v1/votes/batch", export.text()).json()["recorded"], 50);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(taken.get("/v1/export").text()), sorted(export.text()));
    assert_eq!(sorted(export.text()).len(), 51);
}
