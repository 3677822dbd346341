//! `health`: ready, not ready or no answer, by the exit status. A container's health check reads
//! nothing else.

use crate::command_line::{expect_failure, expect_quiet, parse, run_keyless, stub};
use crate::util::server::{Ended, Server};
use crate::util::stub::Stub;
use crate::util::wait_until;
use serde_json::json;
use socket2::{Domain, SockAddr, Socket, Type};

fn at(url: &str, more: &[&str]) -> Ended {
    run_keyless(&[&["health", "--control-url", url], more])
}

#[test]
fn a_running_service_is_ready() {
    let server = Server::in_memory(&[]);
    let url = format!("http://{}", server.control());
    assert_eq!(expect_quiet(&at(&url, &[]), 0), "ready\n");
    assert_eq!(parse(expect_quiet(&at(&url, &["--json"]), 0)), json!({"ready": true}));
}

/// The service serves status, so the exit status is that of a ready one.
#[test]
fn one_that_takes_no_votes_says_so() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let key = folder.path().join("site.key");
    let mut command = Server::serve(&["--in-memory", "--control-key-file"]);
    command.arg(&key).env_remove("VOTE_STATUS_CONTROL_KEY");
    let server = Server::spawn(command);
    let url = format!("http://{}", server.control());
    wait_until("it is ready", || at(&url, &[]).status.code() == Some(0));
    let told = at(&url, &[]);
    let told = expect_quiet(&told, 0);
    assert!(told.starts_with("ready, but votes are refused: cannot read the control key file "), "{told}");
    assert!(told.contains(&key.display().to_string()), "{told}");
}

#[test]
fn one_that_is_not_ready_is_status_1_with_its_reason() {
    for (body, line) in [
        (r#"{"ready":false,"reason":"loading","loaded_rows":7}"#, "not ready: loading\n"),
        (
            r#"{"ready":false,"reason":"store_unavailable","message":"no device"}"#,
            "not ready: store_unavailable: no device\n",
        ),
    ] {
        assert_eq!(expect_quiet(&at(&stub("503 Service Unavailable", body).url(), &[]), 1), line);
    }
}

#[test]
fn no_answer_or_another_s_is_status_2() {
    // Status and flag do not agree.
    for (status, body) in [("503 Service Unavailable", r#"{"ready":true}"#), ("200 OK", r#"{"ready":false}"#)] {
        expect_failure(&at(&stub(status, body).url(), &[]), &["is it the control interface?"]);
    }
    let nobody = Stub::nobody();
    expect_failure(&at(&nobody.url(), &[]), &[&nobody.url(), "--control-url"]);
    let server = Server::in_memory(&[]);
    let public = format!("http://{}", server.public());
    expect_failure(&at(&public, &[]), &[&public, "200", "is it the control interface?"]);
}

/// Regression: behind a full backlog of a Unix socket, `health` waited for ever.
#[test]
fn a_listener_without_room_is_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("control");
    let address = SockAddr::unix(&path).expect("an address");
    let socket = || Socket::new(Domain::UNIX, Type::STREAM, None).expect("a socket");
    let (listener, first) = (socket(), socket());
    listener.bind(&address).expect("bound");
    // Linux lets in one more than the backlog.
    listener.listen(0).expect("it listens");
    first.connect(&address).expect("connected");
    let url = format!("unix:{}", path.display());
    expect_failure(&at(&url, &[]), &[&url, "did not answer in time"]);
}
