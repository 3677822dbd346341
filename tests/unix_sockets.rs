//! Listeners on Unix sockets: the contract over them, their files and permissions, files in their
//! way, and files that are left behind.

use crate::util::answers::{CAN_VOTE, prepare};
use crate::util::checks;
use crate::util::client::{Client, exchange, get};
use crate::util::endpoint::Endpoint;
use crate::util::server::{Server, expect_failure, expect_refusal, run_to_end};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

const GET: &str = "GET /api/vote/28/status/203.0.113.7 HTTP/1.1\r\nHost: a\r\n\r\n";

/// A folder with room for the two sockets, and the arguments that listen on them.
struct Place {
    folder: TempDir,
    public: String,
    control: String,
}

impl Place {
    fn new() -> Place {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let address = |name: &str| format!("unix:{}", folder.path().join(name).display());
        Place { public: address("public"), control: address("control"), folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self, args: &[&str]) -> Server {
        Server::spawn(self.command(args))
    }

    fn command(&self, args: &[&str]) -> Command {
        Server::serve_in_memory(&[&["--listen", self.public.as_str(), "--control", &self.control], args].concat())
    }

    fn left(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder.path()).expect("it is there");
        entries.map(|entry| entry.expect("it can be read").path()).collect()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn the_contract_holds_there() {
    let place = Place::new();
    let server = place.serve(&[]);
    assert_eq!(server.publics(), [Endpoint::Unix(place.path("public"))]);
    assert_eq!(server.control_endpoint(), &Endpoint::Unix(place.path("control")));
    checks::whole_contract(&server.publics()[0], &prepare(&server));
}

#[test]
fn permissions_are_as_told_and_the_files_go_with_the_service() {
    for (args, expected) in [(&[][..], 0o660), (&["--listen-mode", "0600"], 0o600), (&["--listen-mode", "777"], 0o777)]
    {
        let place = Place::new();
        let server = place.serve(args);
        assert_eq!(mode(&place.path("public")), expected);
        assert_eq!(mode(&place.path("control")), expected);
        server.stop();
        assert!(place.left().is_empty(), "{:?}", place.left());
    }
    for wrong in ["", "0888", "1777", "+77", "-1", "rw"] {
        let place = Place::new();
        expect_refusal(place.command(&[&format!("--listen-mode={wrong}")]), &["--listen-mode"]);
    }
}

#[test]
fn a_file_that_was_left_is_replaced() {
    let place = Place::new();
    drop(place.serve(&[]));
    assert_eq!(place.left().len(), 2, "a killed process takes nothing away");
    let server = place.serve(&[]);
    assert_eq!(get(&server.publics()[0], "/nothing").status, 404);
    assert!(server.stderr().contains("was left by a process that has ended"), "{}", server.stderr());
}

#[test]
fn a_socket_that_answers_is_refused_and_goes_on_answering() {
    let place = Place::new();
    let server = place.serve(&["--workers", "2"]);
    let (public, control) = (place.public.as_str(), place.control.as_str());
    for (public, control, taken) in [(public, "127.0.0.1:0", public), ("127.0.0.1:0", control, control)] {
        let command = Server::serve_in_memory(&["--listen", public, "--control", control]);
        expect_refusal(command, &[taken, "is in use: end what listens there"]);
    }
    assert_eq!(get(&server.publics()[0], "/nothing").status, 404);
    assert_eq!(get(server.control_endpoint(), "/healthz").status, 200);
}

#[test]
fn what_is_no_socket_of_ours_is_left_alone() {
    let place = Place::new();
    let path = place.path("public");
    fs::write(&path, "precious").expect("written");
    expect_refusal(place.command(&[]), &[&place.public, "no socket"]);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), "precious");
    fs::remove_file(&path).expect("it is there");
    let listener = UnixListener::bind(place.path("elsewhere")).expect("bound");
    std::os::unix::fs::symlink(place.path("elsewhere"), &path).expect("linked");
    expect_refusal(place.command(&[]), &[&place.public, "no socket"]);
    drop(listener);
    for (address, word) in [
        ("unix:".to_owned(), "path"),
        (format!("unix:/{}", "a".repeat(200)), "cannot listen on unix:/aaa"),
        (format!("unix:{}", place.path("no/folder").display()), "cannot listen on unix:"),
    ] {
        let command = Server::serve_in_memory(&["--control", "127.0.0.1:0", "--listen", &address]);
        expect_refusal(command, &[word]);
    }
    // A socket that was bound before the refusal is removed.
    assert!(!place.path("control").exists());
}

/// The second engine binds by itself, and knows only TCP.
#[cfg(feature = "may_minihttp")]
#[test]
fn the_second_engine_refuses_them() {
    let place = Place::new();
    let command = place.command(&["--engine", "may_minihttp"]);
    expect_refusal(command, &[&place.public, "internet addresses only"]);
    assert!(place.left().is_empty(), "{:?}", place.left());
}

#[test]
fn all_event_loops_take_newcomers_beside_other_addresses() {
    let place = Place::new();
    let server = Server::listening(&[
        "--listen",
        "127.0.0.1:0",
        "--listen",
        &place.public,
        "--control",
        "127.0.0.1:0",
        "--workers",
        "3",
    ]);
    server.control_client().add_server(28, "demo");
    assert_eq!(server.publics().len(), 2);
    // More connections at once than one loop accepts in a turn.
    let mut clients: Vec<Client> = (0..200).map(|_| Client::connect(&server.publics()[1])).collect();
    for client in &mut clients {
        client.send(GET);
    }
    for client in &mut clients {
        assert_eq!(client.read_response(false).text(), CAN_VOTE.body);
    }
    for endpoint in server.publics() {
        assert_eq!(exchange(endpoint, GET).text(), CAN_VOTE.body, "{endpoint}");
    }
}

/// The subcommands take the path in the same form as `serve`.
#[test]
fn the_subcommands_reach_it() {
    let place = Place::new();
    let server = place.serve(&[]);
    let run = |args: &[&str]| {
        let mut command = Server::command();
        command.env("VOTE_STATUS_CONTROL_URL", &place.control).env("VOTE_STATUS_URL", &place.public);
        command.args(args);
        run_to_end(command)
    };
    let backup = place.path("backup");
    let backup = backup.to_str().expect("a temporary path is UTF-8");
    for (args, status) in [
        (&["server", "add", "28", "--token", "demo"][..], 0),
        (&["vote", "28", "203.0.113.8"], 0),
        (&["check", "--server", "28", "203.0.113.8"], 1),
        (&["check", "--token", "demo", "203.0.113.7"], 0),
        (&["export", backup], 0),
        (&["health"], 0),
    ] {
        let ended = run(args);
        assert_eq!(ended.status.code(), Some(status), "{args:?}: {ended:?}");
    }
    assert_eq!(fs::read_to_string(backup).expect("it was written").lines().count(), 3);
    // A killed process leaves socket files without a listener. The second time there are none.
    drop(server);
    for _ in 0..2 {
        let ended = run(&["server", "list"]);
        expect_failure(&ended, &[&format!("nothing listens at {}", place.control)]);
        // The second time the file is gone already.
        let _gone = fs::remove_file(place.path("control"));
    }
}
