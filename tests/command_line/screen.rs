//! Text from a service, a path or a file's name is only text on a screen. It moves no cursor, paints nothing, turns no
//! line round and begins none.

use crate::command_line::{expect_quiet, folder, parse, say, stub, text, write};
use crate::util::server::Server;
use serde_json::{Value, json};

/// A colour and a title by ESC and by C1, a line turned round, and the start of another line.
const TRICK: &str = "ok\u{1b}[31m\u{1b}]0;title\u{7}\u{9b}2J\u{202e}\u{61c}\nforged 2026-11-20T12:34:56.007Z ERROR";

/// Requires that the output has nothing that a terminal obeys, and no line that begins with the quoted text.
fn expect_plain(what: &str, said: &str) {
    let is_obeyed = |character: char| !matches!(character, '\n' | '\t') && character.is_control();
    let obeyed = said.chars().find(|character| is_obeyed(*character) || "\u{202e}\u{61c}".contains(*character));
    assert_eq!(obeyed, None, "{what}: {said:?}");
    assert!(!said.lines().any(|line| line.starts_with("forged")), "{what}: {said:?}");
}

#[test]
fn what_a_service_says_is_text_to_a_screen() {
    let folder = folder();
    let votes = write(&folder, "votes", "{\"server_id\":28,\"ip\":\"203.0.113.7\",\"voted_at\":1}\n");
    let error = json!({ "error": TRICK, "message": TRICK });
    let vote = json!({ "recorded": true, "ip": TRICK, "voted_at": TRICK, "next_vote_at": TRICK });
    let listed = json!({ "servers": [{ "server_id": 1, "token": TRICK }], "next": null });
    let status =
        json!({ "success": true, "can_vote": true, "message": TRICK, "next_vote_at": null, "cooldown_minutes": 90 });
    let refused = json!({
        "recorded": 0, "unchanged": 0, "in_cooldown": 0, "expired": 0, "unknown_server": 0, "invalid": 1,
        "errors": [{ "line": 1, "error": TRICK, "message": TRICK }],
    });
    let ready = json!({ "ready": true, "votes": false, "message": TRICK });
    let loading = json!({ "ready": false, "reason": TRICK, "message": TRICK });
    let import = ["import", "--votes", text(&votes)];
    let cases: [(&[&str], &str, &Value); 14] = [
        (&["vote", "28", "203.0.113.7"], "422 Unprocessable Content", &error),
        (&["vote", "28", "203.0.113.7"], "201 Created", &vote),
        (&["vote", "28", "203.0.113.7", "2001:db8::7"], "409 Conflict", &vote),
        (&["votes", "get", "28", "203.0.113.7"], "200 OK", &vote),
        (&["cancel", "28", "203.0.113.7"], "404 Not Found", &error),
        (&["server", "list"], "200 OK", &listed),
        (&["server", "show", "1"], "200 OK", &listed["servers"][0]),
        (&["server", "add", "1"], "409 Conflict", &error),
        (&["check", "--server", "28", "203.0.113.7"], "200 OK", &status),
        (&["check", "--server", "28", "203.0.113.7"], "404 Not Found", &error),
        (&["health"], "200 OK", &ready),
        (&["health"], "503 Service Unavailable", &loading),
        (&import, "200 OK", &refused),
        (&import, "422 Unprocessable Content", &error),
    ];
    for (args, status, body) in cases {
        for (is_json, more) in [(false, &[][..]), (true, &["--json"][..])] {
            let service = stub(status, &serde_json::to_string_pretty(body).expect("JSON"));
            let (args, url) = ([args, more].concat(), service.url());
            let ended = say(&args, &[("VOTE_STATUS_CONTROL_URL", &url), ("VOTE_STATUS_URL", &url)]);
            let what = format!("{args:?}, {status}");
            expect_plain(&what, &ended.stdout);
            expect_plain(&what, &ended.stderr);
            assert!(
                ended.stdout.contains("\\u009b2J") || ended.stderr.contains("009b2J") || args[0] == "import",
                "{ended:?}"
            );
            if is_json && ended.status.code() == Some(0) {
                assert_eq!(
                    &parse(&ended.stdout),
                    if args[..2] == ["server", "list"] { &listed } else { body },
                    "{what}"
                );
            }
        }
    }
}

#[test]
fn a_path_is_text_to_a_screen_and_to_the_log() {
    let folder = folder();
    let data = folder.path().join(TRICK);
    for args in [&["init", "--data-dir"][..], &["serve", "--check-config", "--listen", "127.0.0.1:0", "--data-dir"]] {
        let ended = say(&[args, &[text(&data)]].concat(), &[]);
        expect_plain(&format!("{args:?}"), expect_quiet(&ended, 0));
    }
    for format in ["text", "json"] {
        let mut command = Server::on(&data);
        command.args(["--log-format", format]).env_remove("VOTE_STATUS_CONTROL_KEY");
        let stderr = Server::spawn(command).stop().stderr();
        assert!(stderr.contains("009b2J"), "the path is not told: {stderr}");
        expect_plain(format, &stderr);
    }
    // Programs read the start lines, and the service manager reads the trouble.
    let socket = folder.path().join("a\nlistening on 192.0.2.1:80 (public)");
    let mut command = Server::serve_in_memory(&["--control", "127.0.0.1:0", "--check-config", "--listen"]);
    command.arg(format!("unix:{}", text(&socket)));
    let ended = crate::util::server::run_to_end(command);
    assert_eq!(expect_quiet(&ended, 0).lines().count(), 1, "{ended:?}");
}
