//! `export`: whole or not at all, and what it gives another service takes.

use crate::command_line::stub::Stub;
use crate::command_line::{expect_failure, expect_quiet, parse, run, status, text};
use crate::util::random::Random;
use crate::util::server::{Server, run_to_end};
use crate::util::time::{now_unix, rfc3339};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n";

#[test]
fn the_file_is_its_owners_only_and_has_every_line() {
    let server = Server::in_memory(&[]);
    let control = server.control_client();
    control.add_server(28, "demo");
    let voted_at = now_unix() - 60;
    assert_eq!(control.cast_at(28, "203.0.113.7", voted_at).status, 201);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("export.ndjson");
    fs::write(&file, "what was there before").expect("it can be written");
    let expected = format!(
        "{{\"server_id\":28,\"token\":\"demo\"}}\n\
         {{\"server_id\":28,\"ip\":\"203.0.113.7\",\"voted_at\":\"{}\"}}\n",
        rfc3339(voted_at)
    );
    let ended = run(&server, &["export", text(&file)]);
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(0), ""), "{ended:?}");
    assert!(ended.stderr.contains("2 lines"), "{ended:?}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), expected);
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    let ended = run(&server, &["export", "-"]);
    assert_eq!(expect_quiet(&ended, 0), expected);
    let missing = folder.path().join("missing").join("export");
    expect_failure(&run(&server, &["export", text(&missing)]), &[text(&missing)]);
}

#[test]
fn a_stream_that_is_cut_leaves_no_file() {
    let line = "{\"server_id\":28,\"token\":\"demo\"}\n";
    let whole = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n20\r\n{line}\r\n");
    let cases = [
        whole.clone(),
        format!("{whole}20\r\n{{\"server"),
        format!("{whole}nonsense"),
        format!("{HEAD}Content-Length: 64\r\n\r\n{line}"),
        format!("{HEAD}\r\n{line}"),
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 37\r\n\r\n\
         {\"error\":\"not_ready\",\"message\":\"wait\"}"
            .to_owned(),
    ];
    for (case, before) in cases.into_iter().flat_map(|case| [(case.clone(), None), (case, Some("before"))]) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("export.ndjson");
        if let Some(before) = before {
            fs::write(&file, before).expect("it can be written");
        }
        let stub = Stub::answering(Vec::leak(case.clone().into_bytes()));
        let mut command = Server::command();
        command.args(["export", text(&file), "--control-url", &stub.url()]);
        expect_failure(&run_to_end(command), &[&stub.url()]);
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), before, "{case}");
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, usize::from(before.is_some()), "{case}");
    }
    // The same with its last chunk is taken: it is the end that the others lack.
    let stub = Stub::answering(Vec::leak(format!("{whole}0\r\n\r\n").into_bytes()));
    let mut command = Server::command();
    command.args(["export", "-", "--control-url", &stub.url()]);
    assert_eq!(expect_quiet(&run_to_end(command), 0), line);
}

#[test]
fn what_is_exported_into_an_empty_directory_gives_the_same_answers() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let (from, to) = (Server::in_memory(&[]), Server::start(&["--data-dir", text(&data)]));
    let control = from.control_client();
    let mut random = Random::from_environment();
    let now = now_unix();
    let mut lines = String::new();
    let mut pairs = Vec::new();
    for id in 1..=5_u32 {
        control.add_server(id, &format!("token-{id}"));
        for _ in 0..200 {
            let ip = format!("198.51.{}.{}", random.below(4), random.below(100));
            let voted_at = now - i64::try_from(random.below(5_000)).expect("it is small");
            lines += &format!("{{\"server_id\":{id},\"ip\":\"{ip}\",\"voted_at\":{voted_at}}}\n");
            pairs.push((id, ip));
        }
    }
    assert_eq!(control.post("/v1/votes/batch", &lines).json()["invalid"], 0);
    let pipe = format!(
        "\"$0\" export - --control-url http://{} | \"$0\" import - --json --control-url http://{}",
        from.control(),
        to.control()
    );
    let binary = Server::command();
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(pipe).arg(binary.get_program()).env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    let ended = run_to_end(shell);
    let summary = parse(expect_quiet(&ended, 0));
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(summary["servers"]["recorded"], 5);
    assert_eq!(summary["votes"]["recorded"], pairs.len());
    for (id, ip) in &pairs {
        let (before, after) = (status(&from, *id, ip), status(&to, *id, ip));
        assert_eq!(before["can_vote"], false, "{id} {ip}");
        assert_eq!(before["next_vote_at"], after["next_vote_at"], "{id} {ip}");
    }
    let sorted = |server: &Server| -> Vec<String> {
        let ended = run(server, &["export", "-"]);
        let mut lines: Vec<String> = expect_quiet(&ended, 0).lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let (before, after): (Vec<String>, Vec<String>) = (sorted(&from), sorted(&to));
    assert_eq!(before, after);
    assert!(before.iter().all(|line| parse(line)["server_id"].is_u64() && parse(line) != Value::Null));
}
