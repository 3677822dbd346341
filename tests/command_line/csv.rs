//! `import` of CSV: RFC 4180, and files whose records cannot be told apart for certain.

use crate::command_line::{COOLDOWN, expect_failure, expect_quiet, folder, parse, run, status, text, write};
use crate::util::server::Server;
use crate::util::time::{now_unix, rfc3339};
use serde_json::json;

#[test]
fn csv_with_quotes_and_windows_line_ends() {
    let (server, folder, now) = (Server::in_memory(&[]), folder(), now_unix());
    let servers = write(&folder, "servers.csv", "\u{feff}\"server_id\",\"token\"\r\n\"28\",\"demo\"\r\n29,\"a.b\"\r\n");
    let at = rfc3339(now - 60);
    let votes = format!(
        "IP;Token;server_id;voted_at\r\n\"203.0.113.1\";demo;;\"{at}\"\r\n\r\n203.0.113.2;;29;{}\r\n",
        now - 120
    );
    let votes = write(&folder, "votes", &votes);
    let ended = run(&server, &["import", "--servers", text(&servers), "--votes", text(&votes), "--json"]);
    let none = json!({
        "recorded": 2, "unchanged": 0, "expired": 0, "unknown_server": 0, "token_differs": 0, "invalid": 0, "skipped": 0,
    });
    assert_eq!(parse(expect_quiet(&ended, 0)), json!({"servers": none, "votes": none, "generated": []}));
    assert_eq!(status(&server, 28, "203.0.113.1")["next_vote_at"], rfc3339(now - 60 + COOLDOWN));
    assert_eq!(status(&server, 29, "203.0.113.2")["next_vote_at"], rfc3339(now - 120 + COOLDOWN));
    assert_eq!(run(&server, &["server", "list"]).stdout, "28\tdemo\n29\ta.b\n");
}

/// Regression: a line inside a quoted text of an ignored column was taken as a vote, and as a server with its token.
/// Players write such texts.
#[test]
fn a_line_inside_a_quoted_text_is_no_record() {
    let (server, folder, now) = (Server::in_memory(&[]), folder(), now_unix());
    let servers = "server_id,token,about\n28,demo,\"Welcome\n66,forged,x\n\"\n29,other,none\n";
    let servers = write(&folder, "servers.csv", servers);
    let ended = run(&server, &["import", "--servers", text(&servers), "--ignore-columns", "about"]);
    assert_eq!(run(&server, &["server", "list"]).stdout, "28\tdemo\n29\tother\n", "a forged server: {ended:?}");
    assert_eq!(expect_quiet(&ended, 0), "servers: 2 recorded, 0 unchanged, 0 refused\n");
    for (name, end) in [("unix.csv", "\n"), ("windows.csv", "\r\n")] {
        let votes = format!(
            "comment,server_id,ip,voted_at\n\"thanks \"\"a\"\"\nb,28,203.0.113.66,{now}\n\",28,203.0.113.1,{now}\n\
             none,77,203.0.113.2,{now}\n\n\"\n\n\",28,203.0.113.3,{now}\n\"last\n\",78,203.0.113.4,{now}\n"
        );
        let votes = write(&folder, name, &votes.replace('\n', end));
        let ended = run(&server, &["import", "--votes", text(&votes), "--ignore-columns", "comment"]);
        assert_eq!(status(&server, 28, "203.0.113.66")["can_vote"], true, "{name}: a forged vote: {ended:?}");
        let told = |line: u64| format!("{}: line {line}: unknown_server: no such server\n", text(&votes));
        assert_eq!(ended.stderr, told(5) + &told(10), "{name}: the numbers are those of the first lines");
        assert_eq!(ended.status.code(), Some(1), "{ended:?}");
        for ip in ["203.0.113.1", "203.0.113.3"] {
            assert_eq!(status(&server, 28, ip)["next_vote_at"], rfc3339(now + COOLDOWN), "{name}");
        }
    }
}

/// `import` does not guess which lines are records. It takes the records before the uncertain part, not the rest, and
/// reports that.
#[test]
fn a_file_whose_records_cannot_be_told_apart_is_read_no_further() {
    let (server, folder, now) = (Server::listed(&[]), folder(), now_unix());
    for (name, about, reason) in [
        ("open.csv", format!("\"never closed\n28,203.0.113.66,{now},"), "a quote is never closed"),
        ("long.csv", "long ".repeat(300_000), "the record is longer than a MiB"),
    ] {
        let vote = |last: u8| format!("28,203.0.113.{last},{now}");
        let whole = format!("server_id,ip,voted_at,about\n{},none\n\n{},{about}\n{},none\n", vote(1), vote(2), vote(3));
        let votes = write(&folder, name, &whole);
        let ended = run(&server, &["import", "--votes", text(&votes), "--ignore-columns", "about"]);
        expect_failure(&ended, &[&format!("{name} line 4: {reason}"), "the lines before it were taken"]);
        for (last, can_vote) in [(1, false), (2, true), (3, true), (66, true)] {
            assert_eq!(status(&server, 28, &format!("203.0.113.{last}"))["can_vote"], can_vote, "{name} {last}");
        }
    }
}

/// The text of an ignored column may be long; a field that `import` takes may not.
#[test]
fn long_fields_are_left_out_or_refused() {
    let (server, folder) = (Server::in_memory(&[]), folder());
    let (text_of_lines, token) = ("line\r\n".repeat(100_000), "t".repeat(5_000));
    let servers = format!("about,server_id,token\r\n\"{text_of_lines}\",28,demo\r\nnone,29,{token}\r\nx,30,ok");
    let servers = write(&folder, "servers.csv", &servers);
    let ended = run(&server, &["import", "--servers", text(&servers), "--ignore-columns", "about"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let reason = "invalid_server: the line is longer than 4096 bytes";
    assert_eq!(ended.stderr, format!("{}: line 100003: {reason}\n", text(&servers)));
    assert_eq!(run(&server, &["server", "list"]).stdout, "28\tdemo\n30\tok\n");
}
