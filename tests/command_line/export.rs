//! `export`: whole or not at all, and another service takes the result.

use crate::command_line::{expect_failure, expect_quiet, parse, run, say, shell, text};
use crate::util::server::Server;
use crate::util::stub::Stub;
use crate::util::time::{now_unix, rfc3339};
use crate::util::wait_until;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n";

#[test]
fn the_file_is_its_owners_only_and_has_every_line() {
    let server = Server::listed(&[]);
    let control = server.control_client();
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
    assert!(ended.stderr.contains("3 lines"), "{ended:?}");
    let whole = fs::read_to_string(&file).expect("it is there");
    let (header, lines) = whole.split_once('\n').expect("a header");
    let header = parse(header);
    assert_eq!(lines, expected);
    let told = ["export", "version", "cooldown_minutes", "ipv6_prefix", "store"].map(|name| header[name].clone());
    assert_eq!(told, [json!("vote-status"), json!(1), json!(90), json!(64), json!("memory, where nothing is kept")]);
    let exported_at = header["exported_at"].as_str().expect("an instant");
    assert!((rfc3339(now_unix() - 60).as_str()..=rfc3339(now_unix()).as_str()).contains(&exported_at), "{header}");
    assert_eq!(fs::metadata(&file).expect("it is there").permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing else is left");
    let ended = run(&server, &["export", "-"]);
    assert_eq!(without_header(expect_quiet(&ended, 0)), expected);
    let missing = folder.path().join("missing").join("export");
    expect_failure(&run(&server, &["export", text(&missing)]), &[text(&missing)]);
}

const LINE: &str = "{\"server_id\":28,\"token\":\"demo\"}\n";

/// An export without its header line.
fn without_header(text: &str) -> String {
    let lines = text.split_inclusive('\n').filter(|line| !line.starts_with(r#"{"export":"vote-status","#));
    lines.collect()
}

/// Regression: the export took the place of the store of a running service.
#[test]
fn a_store_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::spawn(Server::on(folder.path()));
    let store = folder.path().join("votes.redb");
    let before = fs::read(&store).expect("it is there");
    expect_failure(&run(&server, &["export", text(&store)]), &[text(&store), "it is a store"]);
    assert_eq!(fs::read(&store).expect("it is there"), before);
}

/// Regression: as root, the export replaced `/dev/stdout` itself.
#[test]
fn what_is_no_file_is_written_through() {
    let server = Server::listed(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (script, expected) in [
        ("{ echo 1; \"$0\" export -; echo 2; } > $1/out; cat $1/out", format!("1\n{LINE}2\n")),
        ("\"$0\" export /dev/stdout | cat; test -L /dev/stdout", LINE.to_owned()),
        ("\"$0\" export /dev/fd/4 4>&1 | cat", LINE.to_owned()),
        ("ln -s /dev/stdout $1/link; \"$0\" export $1/link | cat; test -L $1/link", LINE.to_owned()),
        ("mkfifo $1/pipe; \"$0\" export $1/pipe & cat $1/pipe; wait; test -p $1/pipe", LINE.to_owned()),
        ("\"$0\" export /dev/null && test -c /dev/null; \"$0\" export - > /dev/null", String::new()),
        ("ls $1", "link\nout\npipe\n".to_owned()),
    ] {
        let ended = shell(&server, script, folder.path());
        assert_eq!(without_header(expect_quiet(&ended, 0)), expected, "{script}");
    }
    for (script, words) in [
        ("exec \"$0\" export /dev/fd/77", "/dev/fd/77"),
        ("exec \"$0\" export \"$1\"", "directory"),
        ("exec \"$0\" export /dev/full", "cannot write /dev/full"),
    ] {
        expect_failure(&shell(&server, script, folder.path()), &[words]);
    }
}

/// Regression: an export into a closed standard output ended without a word, and with success.
#[test]
fn an_output_that_takes_nothing_is_a_failure() {
    let server = Server::listed(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (script, words) in [
        ("exec \"$0\" export - >&-", "standard output is closed"),
        ("exec \"$0\" export - > /dev/full", "cannot write -"),
        // The reader has ended before the first line comes.
        ("mkfifo $1/gone; : < $1/gone & exec 3> $1/gone; wait; exec \"$0\" export - >&3", "cannot write -"),
    ] {
        expect_failure(&shell(&server, script, folder.path()), &[words]);
    }
    // A file needs no standard output.
    let ended = shell(&server, "exec \"$0\" export $1/file >&-", folder.path());
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    let file = fs::read_to_string(folder.path().join("file")).expect("it is there");
    assert_eq!(without_header(&file), LINE);
}

/// Regression: a file took the place of a link, and the linked file stayed as it was.
#[test]
fn a_link_stays_and_what_it_names_is_replaced() {
    let server = Server::listed(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let there = folder.path().join("there");
    fs::create_dir(&there).expect("a folder");
    let (target, link) = (there.join("target"), folder.path().join("link"));
    fs::write(&target, "what was there before, and longer than what comes: ".repeat(9)).expect("it can be written");
    symlink("there/target", &link).expect("a link");
    let ended = run(&server, &["export", text(&link)]);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert!(fs::symlink_metadata(&link).expect("it is there").is_symlink());
    assert_eq!(without_header(&fs::read_to_string(&target).expect("it is there")), LINE);
    assert_eq!(fs::read_dir(&there).expect("a folder").count(), 1, "nothing else is left");
    for (name, leads_to) in [("loop", "loop"), ("nowhere", "missing")] {
        symlink(leads_to, folder.path().join(name)).expect("a link");
        expect_failure(&run(&server, &["export", text(&folder.path().join(name))]), &["cannot write", name]);
        assert!(folder.path().join(name).is_symlink());
    }
}

/// Regression: a signal left the unfinished file behind.
#[test]
fn an_export_that_is_interrupted_leaves_nothing() {
    let (head, line) = (format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n"), format!("{:x}\r\n{LINE}\r\n", LINE.len()));
    for (signal, before) in [(Signal::INT, None), (Signal::TERM, Some("before")), (Signal::HUP, None)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("export.ndjson");
        if let Some(before) = before {
            fs::write(&file, before).expect("it can be written");
        }
        // A service that sends a line, and then nothing.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut command = Server::command();
        let url = format!("http://{}", listener.local_addr().expect("it is bound"));
        command.args(["export", text(&file), "--control-url", &url]).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut export = command.spawn().expect("the binary can be run");
        let (mut client, _) = listener.accept().expect("it calls");
        client.write_all(format!("{head}{line}").as_bytes()).expect("it reads");
        let partial = folder.path().join(format!("export.ndjson.{}.partial", export.id()));
        wait_until("the line is written", || fs::read_to_string(&partial).is_ok_and(|text| text == LINE));
        let pid = Pid::from_child(&export);
        kill_process(pid, signal).expect("it runs");
        wait_until("it ends", || export.try_wait().expect("it is ours").is_some());
        let ended = export.wait_with_output().expect("it has ended");
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        assert!(String::from_utf8_lossy(&ended.stderr).contains("interrupted"), "{ended:?}");
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), before);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), usize::from(before.is_some()));
    }
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
        expect_failure(&say(&["export", text(&file), "--control-url", &stub.url()], &[]), &[&stub.url()]);
        assert_eq!(fs::read_to_string(&file).ok().as_deref(), before, "{case}");
        let left = fs::read_dir(folder.path()).expect("a folder").count();
        assert_eq!(left, usize::from(before.is_some()), "{case}");
    }
    // With its last chunk the same export is taken: the others lack only that end.
    let stub = Stub::answering(Vec::leak(format!("{whole}0\r\n\r\n").into_bytes()));
    assert_eq!(expect_quiet(&say(&["export", "-", "--control-url", &stub.url()], &[]), 0), line);
}
