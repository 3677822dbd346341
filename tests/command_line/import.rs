//! `import`: NDJSON and CSV, refused lines and their reports, and the same file twice.

use crate::command_line::{
    COOLDOWN, expect_failure, expect_quiet, folder, parse, run, run_from, say, status, text, write,
};
use crate::util::client::get;
use crate::util::server::{Ended, Server};
use crate::util::stub::Stub;
use crate::util::time::{now_unix, rfc3339};
use serde_json::json;
use std::fs;
use std::os::unix::fs::symlink;

const HEADER: &str = concat!(
    r#"{"export":"vote-status","version":1,"cooldown_minutes":90,"ipv6_prefix":64,"#,
    r#""exported_at":"2026-11-20T12:34:56Z","store":"memory"}"#,
    "\n"
);

#[test]
fn twice_the_same_files_change_nothing_the_second_time() {
    let (server, folder, now) = (Server::in_memory(&[]), folder(), now_unix());
    let servers = "{\"server_id\":28,\"token\":\"demo\"}\n\n{\"server_id\":29}\n";
    let votes = format!(
        "{{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":{}}}\r\n\
         {{\"token\":\"demo\",\"ip\":\"203.0.113.2\",\"voted_at\":\"{}\"}}\r\n\
         {{\"server_id\":29,\"ip\":\"203.0.113.3\",\"voted_at\":{now}}}",
        now - 600,
        rfc3339(now - 1_200),
    );
    let (servers, votes) = (write(&folder, "servers", servers), write(&folder, "votes", &votes));
    let args = ["import", "--servers", text(&servers), "--votes", text(&votes)];
    let first = run(&server, &args);
    let made = server.control_client().get("/v1/servers/29").json()["token"].as_str().expect("a token").to_owned();
    let expected = format!(
        "server 29 came without a token, and was given {made}\n\
         servers: 2 recorded, 0 unchanged, 0 refused\nvotes: 3 recorded, 0 unchanged, 0 refused\n"
    );
    assert_eq!(expect_quiet(&first, 0), expected);
    let answers = || {
        [(28, "203.0.113.1"), (28, "203.0.113.2"), (29, "203.0.113.3")]
            .map(|(id, ip)| status(&server, id, ip)["next_vote_at"].clone())
    };
    let before = answers();
    assert_eq!(before[0], rfc3339(now - 600 + COOLDOWN));
    assert_eq!(before[1], rfc3339(now - 1_200 + COOLDOWN));
    let list = run(&server, &["server", "list"]);
    let second = run(&server, &args);
    let expected = "servers: 0 recorded, 2 unchanged, 0 refused\nvotes: 0 recorded, 3 unchanged, 0 refused\n";
    assert_eq!(expect_quiet(&second, 0), expected);
    assert_eq!(answers(), before);
    assert_eq!(run(&server, &["server", "list"]).stdout, list.stdout);
}

#[test]
fn refused_lines_are_told_with_number_and_reason() {
    let (server, folder, now) = (Server::in_memory(&[]), folder(), now_unix());
    let servers =
        write(&folder, "servers.csv", "server_id,token\n28,demo\n29,demo\nx,y\n30,\"\"\n31,a+b==\n32\n33,a/b\n");
    let long = "x".repeat(5_000);
    let votes = format!(
        "\n{{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":{now}}}\n\
         {{\"server_id\":77,\"ip\":\"203.0.113.1\",\"voted_at\":{now}}}\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.300\",\"voted_at\":{now}}}\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.2\",\"voted_at\":{}}}\n\
         garbage\n{long}\n\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.3\",\"voted_at\":{}}}\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.4\",\"voted_at\":{now}}}\n",
        now - COOLDOWN - 1,
        now + 3_600,
    );
    let votes = write(&folder, "votes.ndjson", &votes);
    let args = ["import", "--servers", text(&servers), "--votes", text(&votes)];
    let ended = run(&server, &args);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(
        ended.stdout,
        "servers: 2 recorded, 0 unchanged, 5 refused (0 of an unknown server, 5 invalid)\n\
         votes: 2 recorded, 0 unchanged, 5 refused (1 of an unknown server, 4 invalid), 1 expired\n"
    );
    let expected = [
        (&servers, 3, "token_in_use"),
        (&servers, 4, "invalid_server"),
        (&servers, 5, "token is \"\""),
        (&servers, 7, "1 fields, but the header has 2"),
        (&servers, 8, "a token cannot hold /"),
        (&votes, 3, "unknown_server"),
        (&votes, 4, "IPv4"),
        (&votes, 6, "invalid_vote"),
        (&votes, 7, "4096"),
        (&votes, 9, "future"),
    ];
    let told = |told: &str| {
        for (file, line, reason) in &expected {
            let start = format!("{}: line {line}: ", text(file));
            let found = told.lines().find(|told| told.starts_with(&start));
            assert!(found.is_some_and(|found| found.contains(reason)), "{start}{reason}: {told}");
        }
        assert_eq!(told.lines().count(), expected.len(), "{told}");
    };
    told(&ended.stderr);
    let refused = folder.path().join("refused");
    let ended = run(&server, &[&args[..], &["--refused", text(&refused)]].concat());
    expect_quiet(&ended, 1);
    told(&fs::read_to_string(&refused).expect("it was written"));
}

/// Regression: the file was emptied before it was read.
#[test]
fn what_is_imported_is_not_written_over() {
    let server = Server::listed(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [file, link] = ["votes.ndjson", "link"].map(|name| folder.path().join(name));
    let vote = format!("{{\"server_id\":28,\"ip\":\"203.0.113.7\",\"voted_at\":{}}}\n", now_unix() - 60);
    fs::write(&file, &vote).expect("it can be written");
    symlink(&file, &link).expect("a link");
    for refused in [&file, &link] {
        let ended = run(&server, &["import", text(&file), "--refused", text(refused)]);
        expect_failure(&ended, &[text(refused), "another file"]);
        assert_eq!(fs::read_to_string(&file).expect("it is there"), vote);
    }
}

/// Regression: the refused lines took the place of a running service's store.
#[test]
fn refused_lines_do_not_go_into_a_store() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::spawn(Server::on(folder.path()));
    let [store, file] = ["votes.redb", "empty.ndjson"].map(|name| folder.path().join(name));
    fs::write(&file, "").expect("it can be written");
    let before = fs::read(&store).expect("it is there");
    let ended = run(&server, &["import", text(&file), "--refused", text(&store)]);
    expect_failure(&ended, &[text(&store), "it is a store", "another file"]);
    assert_eq!(fs::read(&store).expect("it is there"), before);
}

/// Regression: at each import, a vote without its time was a vote of now. `import` refuses a date in a table's form, in
/// local time, with a remedy.
#[test]
fn a_record_without_its_time_is_refused() {
    let (server, folder) = (Server::listed(&[]), folder());
    let local = rfc3339(now_unix() - 600).replace('T', " ").replace('Z', "");
    let dates = &["2026-11-20T12:34:56+01:00", "UNIX_TIMESTAMP()"][..];
    for (name, lines, words) in [
        ("votes.csv", "server_id,ip\n28,203.0.113.1\n".to_owned(), &["line 2: invalid_vote: voted_at "][..]),
        ("votes.csv", "server_id,ip,voted_at\n28,203.0.113.1,\n".to_owned(), &["line 2: invalid_vote: voted_at "]),
        ("votes.csv", "server_id,ip,voted_at\n28,203.0.113.1,NULL\n".to_owned(), &["line 2: invalid_vote: voted_at "]),
        ("votes.csv", "server_id,ip,voted_at\n28,203.0.113.1,\\N\n".to_owned(), &["line 2: invalid_vote: voted_at "]),
        ("votes.csv", format!("server_id,ip,voted_at\n28,203.0.113.1,{local}\n"), dates),
        ("votes", format!("{{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":\"{local}\"}}\n"), dates),
    ] {
        let ended = run(&server, &["import", "--votes", text(&write(&folder, name, &lines))]);
        assert_eq!(ended.status.code(), Some(1), "{lines}: {ended:?}");
        for word in words {
            assert!(ended.stderr.contains(word), "{lines}: without {word}: {ended:?}");
        }
    }
    assert_eq!(status(&server, 28, "203.0.113.1")["can_vote"], true);
}

/// Regression: `import` did not print the tokens that were generated.
#[test]
fn a_table_without_tokens_has_them_made() {
    let (server, folder) = (Server::listed(&[]), folder());
    let without = write(&folder, "without.csv", "server_id\n43\n28\n43\n");
    let first = run(&server, &["import", "--servers", text(&without), "--json"]);
    let summary = parse(expect_quiet(&first, 0));
    let made = server.control_client().get("/v1/servers/43").json();
    assert_eq!(summary["generated"], json!([{"server_id": 43, "token": made["token"]}]));
    let second = run(&server, &["import", "--servers", text(&without)]);
    assert_eq!(expect_quiet(&second, 0), "servers: 0 recorded, 3 unchanged, 0 refused\n");
}

/// Regression: an import of yesterday's export brought back a token that had been rotated since.
#[test]
fn a_token_that_was_rotated_stays_rotated() {
    let (server, folder) = (Server::listed(&[]), folder());
    let control = server.control_client();
    control.add_server(29, "same");
    let file = folder.path().join("export.ndjson");
    assert_eq!(run(&server, &["export", text(&file)]).status.code(), Some(0));
    let rotated = control.post("/v1/servers/28/token", "").json()["token"].as_str().expect("a token").to_owned();
    let known =
        |token: &str| get(server.public(), &format!("/api/servers/{token}/vote-status/203.0.113.7")).status == 200;
    let ended = run(&server, &["import", text(&file)]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let reason = "the server has another token and keeps it; --replace-tokens takes the file's";
    assert_eq!(ended.stderr, format!("{}: line 2: token_differs: {reason}\n", text(&file)));
    let refused = "1 refused (0 of an unknown server, 0 invalid, 1 with another token than the server has)";
    assert!(ended.stdout.starts_with(&format!("servers: 0 recorded, 1 unchanged, {refused}\n")), "{ended:?}");
    assert!(known(&rotated) && !known("demo"));
    let ended = run(&server, &["import", text(&file), "--replace-tokens"]);
    assert!(expect_quiet(&ended, 0).starts_with("servers: 1 recorded, 1 unchanged, 0 refused\n"));
    assert!(!known(&rotated) && known("demo"));
}

/// An answer is bounded and an import is not: over many batches, `import` reports every refused line by its number.
#[test]
fn every_refused_line_is_told_however_many_there_are() {
    let (server, folder, now) = (Server::listed(&[]), folder(), now_unix());
    let is_refused = |number: &u64| !number.is_multiple_of(3);
    let line = |number: u64| {
        let id = if is_refused(&number) { 29 } else { 28 };
        let ip = format!("10.{}.{}.{}", number >> 16, number >> 8 & 255, number & 255);
        format!("{{\"server_id\":{id},\"ip\":\"{ip}\",\"voted_at\":{now}}}\n")
    };
    let votes = write(&folder, "votes", &(1..=120_000).map(line).collect::<String>());
    let ended = run(&server, &["import", "--votes", text(&votes), "--json"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let summary = parse(&ended.stdout);
    assert_eq!((&summary["votes"]["recorded"], &summary["votes"]["unknown_server"]), (&json!(40_000), &json!(80_000)));
    let told = |number| format!("{}: line {number}: unknown_server: no such server\n", text(&votes));
    let expected: String = (1..=120_000).filter(is_refused).map(told).collect();
    assert!(ended.stderr == expected, "{:.500}", ended.stderr);
}

/// Regression: the content of a file was written to the terminal as it is.
#[test]
fn what_is_told_of_a_line_is_short_and_obeyed_by_no_terminal() {
    let (server, folder) = (Server::in_memory(&[]), folder());
    let name = "\u{1b}]0;owned\u{7}".to_owned() + &"n".repeat(3_000);
    let escaped = "\\u001b[2J\\u202e".to_owned() + &"n".repeat(3_000);
    let votes = write(&folder, "votes.ndjson", &format!("{{\"{escaped}\":1}}\n{{\"server_id\":\"{escaped}\"}}\n"));
    let header = write(&folder, "votes.csv", &format!("server_id,{name}\n"));
    for (file, code) in [(votes, 1), (header, 1)] {
        let ended = run(&server, &["import", "--votes", text(&file)]);
        assert_eq!(ended.status.code(), Some(code), "{ended:?}");
        for line in ended.stderr.lines() {
            assert!(line.len() < 500, "{} bytes: {line}", line.len());
            assert!(!line.contains(|character: char| character.is_control() || character == '\u{202e}'), "{line:?}");
        }
    }
}

#[test]
fn one_file_may_hold_both() {
    let now = now_unix();
    let both = format!(
        "{HEADER}{{\"server_id\":28,\"token\":\"demo\"}}\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":{now}}}\n\
         {HEADER}{{\"server_id\":29,\"token\":\"other\"}}\n\
         {{\"server_id\":29,\"ip\":\"203.0.113.1\",\"voted_at\":{now}}}\n"
    );
    let folder = folder();
    let file = write(&folder, "export", &both);
    let name = text(&file);
    let whole = "servers: 2 recorded, 0 unchanged, 0 refused\nvotes: 2 recorded, 0 unchanged, 0 refused\n";
    let parts = "servers: 2 recorded, 0 unchanged, 0 refused, 2 of the other kind skipped\n\
                 votes: 2 recorded, 0 unchanged, 0 refused, 2 of the other kind skipped\n";
    for (args, expected) in [(&["import", name][..], whole), (&["import", "--votes", name, "--servers", name], parts)] {
        let server = Server::in_memory(&[]);
        assert_eq!(expect_quiet(&run(&server, args), 0), expected, "{args:?}");
        assert_eq!(status(&server, 29, "203.0.113.1")["can_vote"], false);
    }
    let server = Server::in_memory(&[]);
    assert_eq!(expect_quiet(&run_from(&server, &file, "-"), 0), whole);
    assert_eq!(status(&server, 28, "203.0.113.1")["can_vote"], false);
}

/// Regression: an export of a service with other settings changed every `next_vote_at` without a word.
#[test]
fn an_export_with_other_settings_is_refused_until_they_are_accepted() {
    let (folder, voted_at) = (folder(), now_unix() - 60);
    let source = Server::in_memory(&["--cooldown-minutes", "120", "--ipv6-prefix", "56"]);
    let control = source.control_client();
    control.add_server(28, "demo");
    for ip in ["203.0.113.7", "2001:db8:0:7::7"] {
        assert_eq!(control.cast_at(28, ip, voted_at).status, 201);
    }
    let file = folder.path().join("export");
    assert_eq!(run(&source, &["export", text(&file)]).status.code(), Some(0));
    // The header that refuses the three others is the second line of this file, so the line before it was taken.
    let joined = format!("{HEADER}{{\"server_id\":30,\"token\":\"first\"}}\n");
    let exported = fs::read_to_string(&file).expect("it was written");
    let joined = write(&folder, "joined", &(joined + &exported));
    let others = "was made with --cooldown-minutes 120 --ipv6-prefix 56, and this service has --cooldown-minutes 90 \
                  --ipv6-prefix 64; --accept-settings";
    let server = Server::in_memory(&[]);
    for (args, listed) in [
        (&["import", text(&file)][..], ""),
        (&["import", "--votes", text(&file)], ""),
        (&["import", "--servers", text(&file)], ""),
        (&["import", text(&joined)], "30\tfirst\n"),
    ] {
        let ended = run(&server, args);
        assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(2), ""), "{args:?}: {ended:?}");
        assert!(ended.stderr.contains(others), "{args:?}: {ended:?}");
        assert_eq!(run(&server, &["server", "list"]).stdout, listed, "{args:?}");
    }
    // Only the instant of a vote counts. A shorter network in the export does not tell the voter.
    let ended = run(&server, &["import", text(&file), "--accept-settings"]);
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    let expected = "servers: 1 recorded, 0 unchanged, 0 refused\n\
                    votes: 1 recorded, 0 unchanged, 1 refused (0 of an unknown server, 1 invalid)\n";
    assert_eq!(ended.stdout, expected);
    let lost = "the export has IPv6 networks of 56 bits, and this store tells those of 64 apart";
    assert!(ended.stderr.contains("invalid_vote") && ended.stderr.contains(lost), "{ended:?}");
    assert_eq!(status(&server, 28, "203.0.113.7")["next_vote_at"], rfc3339(voted_at + COOLDOWN));
    // With shorter networks the service takes everything.
    let server = Server::in_memory(&["--ipv6-prefix", "48"]);
    expect_quiet(&run(&server, &["import", text(&file), "--accept-settings"]), 0);
    assert_eq!(status(&server, 28, "2001:db8:0:f::1")["next_vote_at"], rfc3339(voted_at + COOLDOWN));
}

/// An export of 1.0.0 has no header, and by the time of its import some of its votes have ended.
#[test]
fn an_export_of_the_first_release_is_taken() {
    let (server, folder, now) = (Server::in_memory(&[]), folder(), now_unix());
    let vote = |ip: &str, voted_at: i64| {
        format!("{{\"server_id\":28,\"ip\":\"{ip}\",\"voted_at\":\"{}\"}}\n", rfc3339(voted_at))
    };
    let lines =
        [vote("203.0.113.1", now), vote("203.0.113.2", now - COOLDOWN), vote("203.0.113.3", now - 2 * COOLDOWN)];
    let file = write(&folder, "export", &format!("{{\"server_id\":28,\"token\":\"demo\"}}\n{}", lines.concat()));
    let ended = run(&server, &["import", text(&file)]);
    let summary = "servers: 1 recorded, 0 unchanged, 0 refused\nvotes: 1 recorded, 0 unchanged, 0 refused, 2 expired\n";
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), summary), "{ended:?}");
    let warning = "has no header, as exports of 1.0.0: its votes count by the service's settings";
    assert_eq!(ended.stderr, format!("vote-status: {} {warning}\n", text(&file)));
}

/// An empty store has an export too.
#[test]
fn an_export_of_nothing_is_taken() {
    let (server, folder) = (Server::in_memory(&[]), folder());
    let file = write(&folder, "export", HEADER);
    let nothing = "servers: 0 recorded, 0 unchanged, 0 refused\nvotes: 0 recorded, 0 unchanged, 0 refused\n";
    assert_eq!(expect_quiet(&run(&server, &["import", text(&file)]), 0), nothing);
    let later = HEADER.replace("\"version\":1", "\"version\":2") + "{\"server_id\":28,\"token\":\"demo\"}\n";
    let later = write(&folder, "later", &later);
    expect_failure(
        &run(&server, &["import", text(&later), "--accept-settings"]),
        &["form 2", "the version that made it"],
    );
}

#[test]
fn what_cannot_be_read_is_a_failure() {
    let (server, folder) = (Server::in_memory(&[]), folder());
    for (name, content, words) in [
        ("a.csv", "id,token\n28,demo\n", ["a.csv line 1", "\"id\""]),
        ("b", "\n\nserver_id,created_at\n28,1\n", ["b line 3", "created_at"]),
        ("c.csv", "{\"server_id\":28}\n", ["c.csv line 1", "server_id, token, ip, voted_at"]),
        ("d", "\0\x01", ["d line 1", "neither a JSON object nor a CSV header"]),
    ] {
        let file = write(&folder, name, content);
        expect_nothing_taken(&run(&server, &["import", "--servers", text(&file)]), &words);
    }
    let empty = write(&folder, "empty", "");
    expect_failure(&run(&server, &["import", text(folder.path())]), &["cannot read"]);
    let refused = folder.path().join("missing").join("refused");
    expect_failure(&run(&server, &["import", text(&empty), "--refused", text(&refused)]), &["cannot write"]);
    assert_eq!(run(&server, &["server", "list"]).stdout, "");
}

/// Regression: a file without a line of the wanted kind was a success.
#[test]
fn a_file_of_which_nothing_is_taken_is_no_success() {
    let (server, folder, now) = (Server::listed(&[]), folder(), now_unix());
    let empty = write(&folder, "empty", "");
    let blank = write(&folder, "blank", "\n\r\n");
    let header = write(&folder, "header.csv", "server_id,ip,voted_at\n");
    let votes = write(&folder, "votes", &format!("{{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":{now}}}\n"));
    let servers = write(&folder, "servers", "{\"server_id\":29,\"token\":\"a\"}\n");
    for (args, words) in [
        (&["import", text(&empty)][..], "empty has no line"),
        (&["import", text(&blank)], "blank has no line"),
        (&["import", "--votes", text(&header)], "header.csv has no line"),
        (&["import", "--servers", text(&votes)], "holds votes, and --servers wants servers"),
        (&["import", "--votes", text(&servers)], "holds servers, and --votes wants votes"),
        // A file behind such a file is not read.
        (&["import", "--servers", text(&empty), "--votes", text(&votes)], "empty has no line"),
    ] {
        expect_nothing_taken(&run(&server, args), &[words]);
    }
    assert_eq!(status(&server, 28, "203.0.113.1")["can_vote"], true);
    assert_eq!(run(&server, &["server", "list"]).stdout, "28\tdemo\n");
    expect_quiet(&run(&server, &["import", "--servers", text(&servers), "--votes", text(&votes)]), 0);
}

/// Requires exit status 1, and one line that reports this with all of `words`.
fn expect_nothing_taken(ended: &Ended, words: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.ends_with("; nothing was taken from this file\n"), "{ended:?}");
    for word in words {
        assert!(ended.stderr.contains(word), "without {word:?}: {ended:?}");
    }
}

/// Regression: 429 ended the import. An error that ends an import tells that it may be repeated.
#[test]
fn an_answer_429_means_later() {
    const SERVERS: &[u8] =
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 26\r\n\r\n{\"servers\":[],\"next\":null}";
    const LATER: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nConnection: close\r\nContent-Length: 46\r\n\r\n\
        {\"error\":\"too_many_changes\",\"message\":\"later\"}";
    const TAKEN: &[u8] = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 83\r\n\r\n\
        {\"recorded\":1,\"unchanged\":0,\"expired\":0,\"unknown_server\":0,\"invalid\":0,\"errors\":[]}";
    let folder = folder();
    let vote = "{\"server_id\":28,\"ip\":\"203.0.113.1\",\"voted_at\":1795000000}\n";
    let votes = write(&folder, "votes", &format!("{HEADER}{vote}"));
    let import = |stub: &Stub| say(&["import", text(&votes), "--control-url", &stub.url()], &[]);
    let ended = import(&Stub::answering_in_turn(&[SERVERS, LATER, LATER], TAKEN));
    assert!(expect_quiet(&ended, 0).contains("votes: 1 recorded"), "{ended:?}");
    expect_failure(&import(&Stub::answering_in_turn(&[SERVERS], LATER)), &["answers 429", "may be imported again"]);
    let broken = import(&Stub::answering(SERVERS));
    expect_failure(&broken, &["not the answer to a batch", "may be imported again"]);
    assert_eq!(broken.stdout, "");
}
