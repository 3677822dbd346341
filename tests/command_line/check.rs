//! `check`: its three outcomes by the exit status, over both variants of the interface.

use crate::command_line::{expect_failure, expect_quiet, parse, run, run_keyless, stub};
use crate::util::server::{Ended, Server};
use crate::util::stub::Stub;
use crate::util::time::{now_unix, rfc3339};
use serde_json::json;
use std::net::Ipv4Addr;
use std::thread::spawn;

const CAN_VOTE: &str = "Vous pouvez voter maintenant\n";

fn at(url: &str, more: &[&str]) -> Ended {
    run_keyless(&[&["check", "203.0.113.7", "--url", url], more])
}

#[test]
fn a_player_can_vote_or_is_in_cooldown() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let voted_at = now_unix() - 48 * 60 - 30;
    // A vote after a cancellation would get a later second, so each vote has a server of its own.
    control.add_server(29, "a+b==");
    for (id, name) in [(28, ["--server", "28"]), (29, ["--token", "a+b=="])] {
        let url = format!("http://{}", server.public());
        assert_eq!(expect_quiet(&at(&url, &name), 0), CAN_VOTE);
        assert_eq!(expect_quiet(&at(&format!("{url}/"), &name), 0), CAN_VOTE);
        let can = at(&url, &[name[0], name[1], "--json"]);
        let expected = json!({
            "success": true, "can_vote": true, "message": "Vous pouvez voter maintenant",
            "next_vote_at": null, "cooldown_minutes": 90,
        });
        assert_eq!(parse(expect_quiet(&can, 0)), expected);

        assert_eq!(control.cast_at(id, "203.0.113.7", voted_at).status, 201);
        let message = "Vous pourrez voter à nouveau dans 42 minutes";
        assert_eq!(expect_quiet(&at(&url, &name), 1), format!("{message}\n"));
        let cooling = at(&url, &[name[0], name[1], "--json"]);
        let expected = json!({
            "success": false, "can_vote": false, "message": message,
            "next_vote_at": rfc3339(voted_at + 90 * 60), "cooldown_minutes": 90,
        });
        assert_eq!(parse(expect_quiet(&cooling, 1)), expected);
    }
}

/// Without the vote, `check` would wait for 50 s, past the deadline of a test.
#[test]
fn a_check_that_waits_is_told_of_the_vote() {
    let server = Server::listed(&[]);
    let control = server.control_client();
    let url = format!("http://{}", server.public());
    let checking = spawn(move || at(&url, &["--server", "28", "--wait", "50"]));
    server.await_metric("vote_status_waiting", 1);
    assert_eq!(control.cast(28, Ipv4Addr::new(203, 0, 113, 7)).status, 201);
    let ended = checking.join().expect("it has ended");
    assert_eq!(expect_quiet(&ended, 1), "Vous pourrez voter à nouveau dans 90 minutes\n");
}

#[test]
fn an_error_answer_is_status_2() {
    let server = Server::listed(&[]);
    for (args, message, word) in [
        (["--server", "29", "203.0.113.7"], "Serveur inconnu", "unknown_server"),
        (["--server", "x/y", "203.0.113.7"], "Identifiant de serveur invalide", "invalid_server_id"),
        (["--token", "secret-of-another", "203.0.113.7"], "Token inconnu", "unknown_token"),
        (["--server", "28", "203.0.113.7/x?y"], "Adresse IP invalide", "invalid_ip"),
    ] {
        let ended = run(&server, &[&["check"], &args[..]].concat());
        expect_failure(&ended, &[message, word]);
        assert_eq!(ended.stdout, format!("{message}\n"), "{args:?}");
        assert!(!ended.stderr.contains("secret-of-another"), "{ended:?}");
    }
    let ended = run(&server, &["check", "--server", "29", "203.0.113.7", "--json"]);
    expect_failure(&ended, &["404"]);
    assert_eq!(parse(&ended.stdout)["error"], "unknown_server");
    let wrong_port = at(&format!("http://{}", server.control()), &["--server", "28"]);
    expect_failure(&wrong_port, &["is it the control interface? name the public listener by --url"]);
}

#[test]
fn a_body_that_is_no_json_object_is_an_invalid_answer() {
    let answers: &[&[u8]] = &[
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 13\r\n\r\n<html></html>",
        b"HTTP/1.1 301 Moved Permanently\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 5\r\n\r\nMoved",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{\"can_vote\":true",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[]",
    ];
    for bytes in answers {
        let stub = Stub::answering(bytes);
        let ended = at(&stub.url(), &["--server", "28"]);
        expect_failure(&ended, &["Réponse invalide"]);
        assert_eq!(ended.stdout, "Réponse invalide\n");
        let ended = at(&stub.url(), &["--token", "demo", "--json"]);
        assert_eq!(ended.status.code(), Some(2));
        assert_eq!(parse(&ended.stdout), json!({"success": false, "can_vote": false, "message": "Réponse invalide"}));
    }
}

#[test]
fn one_flag_is_enough_and_none_or_an_error_tells_nothing() {
    for (status, body, exit) in [
        ("200 OK", r#"{"success":false,"message":"b"}"#, 1),
        ("200 OK", r#"{"can_vote":true,"message":"a"}"#, 0),
        ("200 OK", r#"{"success":true,"can_vote":true,"message":"c","error":"x"}"#, 2),
        ("503 Service Unavailable", r#"{"success":true,"can_vote":true,"message":"d"}"#, 2),
        ("200 OK", r#"{"message":"e"}"#, 2),
        ("200 OK", "{}", 2),
    ] {
        let ended = at(&stub(status, body).url(), &["--server", "28"]);
        assert_eq!((ended.status.code(), ended.stdout.trim().is_empty()), (Some(exit), false), "{body}: {ended:?}");
    }
}

#[test]
fn a_network_failure_is_status_2() {
    let nobody = Stub::nobody();
    let failed = at(&nobody.url(), &["--token", "secret"]);
    expect_failure(&failed, &[&nobody.url(), "--url"]);
    assert_eq!(failed.stdout, "");
    assert!(!failed.stderr.contains("secret"), "{failed:?}");
    let answers: &[&[u8]] =
        &[b"", b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{\"can_vote\":true}"];
    for bytes in answers {
        let stub = Stub::answering(bytes);
        let failed = at(&stub.url(), &["--server", "28"]);
        expect_failure(&failed, &[&stub.url()]);
        assert_eq!(failed.stdout, "", "{failed:?}");
    }
}
