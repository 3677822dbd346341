//! The process: its start lines, options, environment and key, and its end.

use crate::util::answers::CAN_VOTE;
use crate::util::client::{Client, get};
use crate::util::control::Control;
use crate::util::endpoint::Endpoint;
use crate::util::needs::has;
use crate::util::package::text;
use crate::util::server::{Server, expect_refusal, run_to_end};
use crate::util::{DEADLINE, wait_until};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::hint::spin_loop;
use std::io::{PipeWriter, Write, pipe};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

/// Wrong arguments of `serve`, and a word that the error must contain.
const WRONG: &[(&[&str], &str)] = &[
    (&["--nonsense"], "--nonsense"),
    (&["--listen"], "--listen"),
    (&["--listen", "nonsense"], "nonsense"),
    (&["--control", "nonsense"], "nonsense"),
    (&["--workers", "0"], "--workers"),
    (&["--cooldown-minutes", "10081"], "10081"),
    (&["--header-lines-max", "-5"], "-5"),
    (&["--max-connections", "0"], "--max-connections"),
    (&["--head-timeout", "-1"], "-1"),
    (&["--write-timeout", "NaN"], "NaN"),
    (&["--drain-timeout", "inf"], "inf"),
    (&["--log-level", "loud"], "loud"),
    (&["--log-format", "xml"], "xml"),
];

#[test]
fn wrong_options_are_one_line_and_status_2() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (args, word) in WRONG {
        // If the program accepts one, these variables keep it from harm before the test fails.
        let mut command = Server::command();
        command.env("VOTE_STATUS_LISTEN", "127.0.0.1:0");
        command.env("VOTE_STATUS_CONTROL", "127.0.0.1:0");
        command.env("VOTE_STATUS_DATA_DIR", folder.path());
        command.arg("serve").args(*args);
        expect_refusal(command, &[word]);
    }
    let mut command = Server::command();
    command.arg("nonsense");
    expect_refusal(command, &["nonsense"]);
}

#[test]
fn a_port_in_use_is_refused() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let taken_addr = taken.local_addr().expect("its address");
    // Another server of the same user must not share a port either, though the kernel would allow it.
    let server = Server::in_memory(&["--workers", "2"]);
    for addr in [taken_addr, server.public(), server.control()] {
        let addr = addr.to_string();
        for (public, control) in [(addr.as_str(), "127.0.0.1:0"), ("127.0.0.1:0", &addr)] {
            expect_refusal(Server::serve_in_memory(&["--listen", public, "--control", control]), &[&addr]);
        }
    }
}

#[test]
fn the_start_lines_are_all_of_standard_output() {
    let server = Server::in_memory(&[]);
    get(server.public(), "/nothing");
    let server = server.stop();
    let stdout = server.stdout();
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.sort_unstable();
    let mut expected =
        [format!("listening on {} (public)", server.public()), format!("listening on {} (control)", server.control())];
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert_ne!(server.public().port(), 0);
}

/// Regression: the thread that handles signals wrote the start lines, so a reader that had stopped blocked it for ever.
#[test]
fn a_full_pipe_for_standard_output_delays_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let address = |name: &str| format!("unix:{}", folder.path().join(name).display());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fill(&writer);
    let mut command = Server::serve_in_memory(&["--listen", &address("public"), "--control", &address("control")]);
    let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().expect("it can be run");
    let (pid, control) = (Pid::from_child(&child), Endpoint::parse(&address("control")).expect("an address"));
    let is_ready = || Client::try_connect(control.clone()).is_ok() && get(control.clone(), "/readyz").status == 200;
    wait_until("it is ready", is_ready);
    kill_process(pid, Signal::TERM).expect("it runs");
    let ended = (0..DEADLINE.as_millis()).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1));
        child.try_wait().expect("it can be waited for")
    });
    if ended.is_none() {
        child.kill().and_then(|()| child.wait()).expect("it can be killed");
    }
    assert_eq!(ended.map(|status| status.code()), Some(Some(0)), "it ends by itself, in order");
    drop(reader);
}

/// Regression: a thread wrote the last words, and five seconds later the service ended without them. A machine that stands
/// still for that time lost them.
#[test]
fn last_words_come_from_a_machine_that_stands_still_before_it_writes_them() {
    if !has(&["strace"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let calls = folder.path().join("calls");
    let strace = ["strace", "-f", "-e", "inject=write:delay_enter=6000000", "-o", text(&calls)];
    let mut refused = Server::command();
    refused.args(["serve", "--workers", "none"]);
    expect_refusal(Server::under(&strace, refused), &["none", "--workers"]);
}

#[test]
fn a_full_pipe_for_standard_error_lets_a_service_that_cannot_start_end() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    fill(&writer);
    let mut refused = Server::command();
    let mut child = refused.args(["serve", "--workers", "none"]).stderr(writer).spawn().expect("it can be run");
    let mut status = None;
    wait_until("it ends by itself", || {
        status = child.try_wait().expect("it can be waited for");
        status.is_some()
    });
    assert_eq!(status.expect("it has ended").code(), Some(2));
    drop(reader);
}

/// Writes until the pipe is full.
fn fill(pipe: &PipeWriter) {
    let flags = fcntl_getfl(pipe).expect("a pipe has flags");
    fcntl_setfl(pipe, flags | OFlags::NONBLOCK).expect("it may be so");
    for piece in [&[b'.'; 4_096][..], b"."] {
        while (&*pipe).write(piece).is_ok() {}
    }
    fcntl_setfl(pipe, flags).expect("it may be so");
}

#[test]
fn a_key_is_generated_once_and_kept() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut keys = Vec::new();
    for round in 0..2 {
        let server = Server::spawn(without_key(&["--data-dir", text(&data)]));
        let path = data.join("control.key");
        let key = fs::read_to_string(&path).expect("the key file is there");
        let key = key.trim_end().to_owned();
        assert!(key.len() >= 22, "128 bits take more than {key:?}");
        let listed = Control::new(server.control(), &key).get("/v1/servers");
        assert_eq!(listed.status, 200, "round {round}: {listed:?}");
        server.wait_for_lines("listening on", 1);
        let stderr = server.stderr();
        assert!(!stderr.contains(&key), "the key is told:\n{stderr}");
        if round == 0 {
            assert!(stderr.contains(text(&path)), "where is the key?\n{stderr}");
        }
        keys.push(key);
    }
    assert_eq!(keys[0], keys[1]);
}

/// A program that waits for `/healthz` reads the key next. Regression: in 11 of 20 first starts, `/healthz` answered before
/// there was a key.
#[test]
fn the_key_is_there_before_a_listener() {
    for round in 0..20 {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let [data, socket] = ["data", "control"].map(|name| folder.path().join(name));
        let more: &[&str] = [&[][..], &["--in-memory"], &["--require-store"]][round % 3];
        if more == ["--require-store"] {
            let mut command = Server::command();
            command.args(["init", "--data-dir", text(&data)]);
            assert!(run_to_end(command).status.success());
        }
        let mut command = Server::command();
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir", text(&data)]).args(more);
        command.args(["--control", &format!("unix:{}", text(&socket))]).env_remove("VOTE_STATUS_CONTROL_KEY");
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program can be run");
        let until = Instant::now() + DEADLINE;
        while !socket.exists() && Instant::now() < until {
            spin_loop();
        }
        let (is_bound, key) = (socket.exists(), fs::read_to_string(data.join("control.key")));
        child.kill().and_then(|()| child.wait()).expect("it can be ended");
        assert!(is_bound, "round {round}: no listener in time");
        assert!(key.as_ref().is_ok_and(|key| key.ends_with('\n')), "round {round}, {more:?}: {key:?}");
    }
}

/// Where a required store is missing, the right folder may not be mounted yet: the service makes no key in this one.
#[test]
fn no_key_is_made_where_the_store_is_not() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = Server::spawn(without_key(&["--require-store", "--data-dir", text(folder.path())]));
    wait_until("it says why", || get(server.control(), "/readyz").json()["reason"] == "store_unavailable");
    assert_eq!(get(server.control(), "/healthz").status, 200);
    assert!(!folder.path().join("control.key").exists());
}

#[test]
fn a_key_comes_from_a_file_unless_the_environment_has_one() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("key");
    fs::write(&path, "a-key-from-a-file-of-its-own\n").expect("it can be written");
    let args = ["--in-memory", "--control-key-file", text(&path)];
    let accepts = |server: &Server, key: &str| Control::new(server.control(), key).get("/v1/servers").status == 200;
    let server = Server::spawn(without_key(&args));
    assert!(accepts(&server, "a-key-from-a-file-of-its-own"));
    assert!(!accepts(&server, Server::KEY));
    let server = Server::start(&args);
    assert!(!accepts(&server, "a-key-from-a-file-of-its-own"));
    assert!(accepts(&server, Server::KEY));
}

/// An empty key would let any client in.
#[test]
fn an_empty_key_is_refused() {
    let mut command = Server::serve(&["--in-memory"]);
    command.env("VOTE_STATUS_CONTROL_KEY", "");
    expect_refusal(command, &["VOTE_STATUS_CONTROL_KEY"]);
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().is_ok_and(|made| made.success()));
}

/// A key file that cannot be read: its kind, the function that makes it, and a word of the log line.
type Unreadable = (&'static str, fn(&Path), &'static str);

const UNREADABLE: &[Unreadable] = &[
    ("missing", |_| {}, "No such file"),
    ("empty", |path| fs::write(path, "\n").expect("a file"), "is empty"),
    ("a mark", |path| fs::write(path, "\u{feff}a-key-with-a-mark\n").expect("a file"), "byte-order mark"),
    ("UTF-16", |path| fs::write(path, b"\xff\xfek\0e\0y\0").expect("a file"), "byte-order mark"),
    ("two words", |path| fs::write(path, "two words\n").expect("a file"), "visible ASCII characters"),
    ("a pipe", make_pipe, "is no file"),
    ("a directory", |path| fs::create_dir(path).expect("a directory"), "is no file"),
    ("a link to itself", |path| symlink(path, path).expect("a link"), "symbolic link"),
    // A file whose first byte cannot be read.
    ("a broken disk", |path| symlink("/proc/self/mem", path).expect("a link"), "Input/output error"),
];

/// A file that an option names, and one in the data directory. Regression: such a file ended the start with status 2, and a
/// pipe blocked it for ever.
#[test]
fn a_key_file_that_cannot_be_read_is_a_state() {
    let unnamed = UNREADABLE.iter().filter(|row| ["a pipe", "a directory"].contains(&row.0));
    for (number, (what, spoil, word)) in UNREADABLE.iter().chain(unnamed).enumerate() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("control.key");
        spoil(&path);
        let args = match number < UNREADABLE.len() {
            true => vec!["--in-memory", "--control-key-file", text(&path)],
            false => vec!["--data-dir", text(folder.path())],
        };
        expect_refusal(without_key(&[&args[..], &["--check-config"]].concat()), &[text(&path)]);

        let server = Server::spawn(without_key(&args));
        let ready = || get(server.control(), "/readyz");
        wait_until(what, || ready().status == 200);
        assert_eq!(get(server.public(), "/readyz").status, 200, "{what}");
        let body = ready().json();
        assert_eq!((&body["reason"], &body["votes"]), (&"control_key".into(), &false.into()), "{what}: {body}");
        let message = body["message"].as_str().unwrap_or_default();
        for words in [text(&path), word, "looked for again"] {
            assert!(message.contains(words), "{what}: no {words:?} in {message:?}");
        }
        let refused = Control::new(server.control(), "a-key-with-a-mark").get("/v1/servers");
        assert_eq!((refused.status, &refused.json()["error"]), (503, &"not_ready".into()), "{what}: {refused:?}");
        server.wait_for_lines(" ERROR ", 1);
        let stderr = server.stderr();
        let told: Vec<&str> = stderr.lines().filter(|line| line.contains(" ERROR ")).collect();
        assert!(matches!(told[..], [line] if line.contains(message)), "{what}: not told once:\n{stderr}");

        let mended = folder.path().join("mended");
        fs::write(&mended, "a-key-of-its-own\n").expect("a file");
        if path.is_dir() {
            fs::remove_dir(&path).expect("it is empty");
        }
        fs::rename(&mended, &path).expect("it can be put in its place");
        wait_until(what, || ready().json() == serde_json::json!({"ready": true}));
        let listed = Control::new(server.control(), "a-key-of-its-own").get("/v1/servers");
        assert_eq!(listed.status, 200, "{what}: {listed:?}");
    }
    // Opening a pipe would wait for its writer, and the environment has the key.
    let folder = tempfile::tempdir().expect("a temporary folder");
    make_pipe(&folder.path().join("control.key"));
    let server = Server::spawn(Server::on(folder.path()));
    assert_eq!(server.control_client().get("/v1/servers").status, 200);
}

#[test]
fn a_data_directory_that_cannot_be_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    fs::write(&file, "").expect("it can be written");
    for path in [file.as_path(), &file.join("below")] {
        let command = without_key(&["--data-dir", text(path)]);
        expect_refusal(command, &[text(path)]);
    }
}

#[test]
fn options_come_from_the_environment_too() {
    let mut command = Server::command();
    command.arg("serve");
    command.env("VOTE_STATUS_LISTEN", "127.0.0.1:0");
    command.env("VOTE_STATUS_CONTROL", "127.0.0.1:0");
    command.env("VOTE_STATUS_IN_MEMORY", "true");
    command.env("VOTE_STATUS_WORKERS", "1");
    command.env("VOTE_STATUS_COOLDOWN_MINUTES", "5");
    let server = Server::spawn(command);
    assert_eq!(cooldown_minutes(&server), 5);
    let mut command = Server::serve(&["--in-memory", "--cooldown-minutes", "6"]);
    command.env("VOTE_STATUS_COOLDOWN_MINUTES", "5");
    assert_eq!(cooldown_minutes(&Server::spawn(command)), 6);
    let mut command = Server::serve(&["--in-memory"]);
    command.env("VOTE_STATUS_COOLDOWN_MINUTES", "0");
    expect_refusal(command, &["0"]);
}

#[test]
fn the_demo_shows_itself() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut command = without_key(&["--demo"]);
    command.current_dir(folder.path());
    let server = Server::spawn(command);
    // The demo's lines come behind the last start line.
    server.wait_for_lines("The operator's page is ", 1);
    for path in ["/api/vote/28/status/203.0.113.7", "/api/servers/demo/vote-status/203.0.113.7"] {
        assert_eq!(get(server.public(), path).text(), CAN_VOTE.body, "{path}");
    }
    let stderr = server.stderr();
    let page = stderr.lines().find_map(|line| line.strip_prefix("The operator's page is ")).expect("it was waited for");
    let (url, key) = page.split_once("/ and asks for the control key, which is ").expect("an address and a key");
    assert_eq!(url, format!("http://{}", server.control()));
    assert_eq!(Control::new(server.control(), key).get("/v1/servers").status, 200, "{page}");
    let curls = stderr.lines().filter(|line| line.contains("curl "));
    let answers: Vec<Value> = curls.map(shell).collect();
    assert_eq!(answers.len(), 3, "three lines to try:\n{stderr}");
    let flags: Vec<_> = answers.iter().map(|json| &json["can_vote"]).collect();
    assert!(flags.contains(&&Value::Bool(true)), "{answers:?}");
    assert!(flags.contains(&&Value::Bool(false)), "{answers:?}");
    // The last line casts a vote for the address of the first one.
    assert_eq!(answers[2]["recorded"], true, "{answers:?}");
    let status = get(server.public(), "/api/vote/28/status/203.0.113.7").json();
    assert_eq!(status["next_vote_at"], answers[2]["next_vote_at"]);
    let left: Vec<_> = fs::read_dir(folder.path()).expect("it is there").collect();
    assert!(left.is_empty(), "the demo writes files: {left:?}");
}

/// Regression: a demonstration beside a real service printed the key of that service.
#[test]
fn a_demonstration_tells_no_key_of_the_operator() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("vote-status-data");
    fs::create_dir(&data).expect("a folder");
    let of_service = data.join("control.key");
    fs::write(&of_service, "the-key-of-the-real-service").expect("a file");
    let named = folder.path().join("named.key");
    fs::write(&named, "the-key-that-an-option-names").expect("a file");
    let start = |mut command: Command| {
        command.current_dir(folder.path());
        let server = Server::spawn(command);
        server.wait_for_lines("The operator's page is ", 1);
        let said = server.stderr();
        for key in ["the-key-of-the-real-service", "the-key-that-an-option-names", Server::KEY] {
            assert!(!said.contains(key), "{key} is told:\n{said}");
        }
        (server, said)
    };
    let (server, said) = start(Server::serve(&["--demo"]));
    assert!(said.contains(r#""Authorization: Bearer $VOTE_STATUS_CONTROL_KEY""#), "{said}");
    assert_eq!(Control::new(server.control(), Server::KEY).get("/v1/servers").status, 200);
    let (server, said) = start(without_key(&["--demo", "--control-key-file", text(&named)]));
    assert!(said.contains(&format!("Bearer $(cat '{}')", text(&named))), "{said}");
    assert_eq!(Control::new(server.control(), "the-key-that-an-option-names").get("/v1/servers").status, 200);
    let (server, _said) = start(without_key(&["--demo"]));
    assert_eq!(Control::new(server.control(), "the-key-of-the-real-service").get("/v1/servers").status, 401);
}

/// Regression: where the reader of standard error or standard output had gone, a command ended with a panic's status.
#[test]
fn a_closed_output_is_no_panic() {
    let ended = |prepare: &dyn Fn(&mut Command)| {
        let mut command = Server::command();
        prepare(&mut command);
        command.stdin(Stdio::null()).status().expect("it runs").code()
    };
    let full = || File::options().write(true).open("/dev/full").expect("it is there");
    let help = |command: &mut Command| {
        command.arg("--help").stdout(full()).stderr(Stdio::null());
    };
    assert_eq!(ended(&help), Some(2));
    let warned = |command: &mut Command| {
        let (reader, writer) = pipe().expect("a pipe");
        drop(reader);
        command.args(["health", "--control-url", "http://127.0.0.1:1"]).env("VOTE_STATUS_LISTN", "1");
        command.stdout(Stdio::null()).stderr(writer);
    };
    assert_eq!(ended(&warned), Some(2));
}

#[test]
fn help_and_version_are_no_errors() {
    for (args, word) in [
        (&["--help"][..], "serve"),
        (&["serve", "--help"], "--cooldown-minutes"),
        (&["--version"], env!("CARGO_PKG_VERSION")),
    ] {
        let mut command = Server::command();
        command.args(args);
        let ended = run_to_end(command);
        assert_eq!(ended.status.code(), Some(0), "{args:?}: {ended:?}");
        assert!(ended.stdout.contains(word), "{args:?}: {}", ended.stdout);
    }
}

/// Runs one line of the demo as its reader would, and reads what it prints.
fn shell(line: &str) -> Value {
    let output = Command::new("sh").args(["-c", line]).output();
    let output = output.expect("a shell can be run");
    let body = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{line}: {error}: {output:?}"))
}

/// `serve` without a key in the environment.
fn without_key(args: &[&str]) -> Command {
    let mut command = Server::serve(args);
    command.env_remove("VOTE_STATUS_CONTROL_KEY");
    command
}

fn cooldown_minutes(server: &Server) -> i64 {
    let json = get(server.public(), "/nothing").json();
    json["cooldown_minutes"].as_i64().expect("it is a number")
}
