//! Listening sockets: IPv6 beside IPv4, and sockets that a service manager passes.
//! Black box; knows the command line and the manager's environment.

use crate::util::client::{Client, get};
use crate::util::endpoint::Endpoint;
use crate::util::server::{Ended, Server, expect_failure, expect_refusal};
use crate::util::watch::Watching;
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::process::Command;

/// A server that gets `socket` as systemd passes one, under `name`. The shell knows the process id
/// for the environment.
fn passing(socket: impl Into<OwnedFd>, name: &str, args: &[&str]) -> Result<Server, Ended> {
    let server = Server::command();
    let mut command = Command::new("sh");
    command.args(["-c", r#"exec 3<&0 </dev/null; LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" serve --in-memory "$@""#]);
    command.arg(server.get_program()).args(args).env("LISTEN_FDNAMES", name);
    command.env("VOTE_STATUS_CONTROL_KEY", Server::KEY);
    command.stdin(socket.into());
    Server::try_spawn(command)
}

fn answers(endpoint: impl Into<Endpoint>) -> bool {
    let mut client = Client::connect(endpoint);
    client.send("GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n");
    client.read_response(false).status == 404
}

#[test]
fn ipv6_takes_ipv4_too() {
    let server = Server::listening(&["--listen", "[::]:0", "--control", "127.0.0.1:0", "--workers", "2"]);
    let port = server.public().port();
    for address in [SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))] {
        assert_eq!(get(address, "/nothing").status, 404, "{address}");
    }
    // The peer of the question is shown as IPv4.
    let mut watching = Watching::begin(&server, "");
    // A worker in the middle of a turn learns of a watcher only in its next turn.
    let line = (0..3).find_map(|_| {
        get(SocketAddr::from((Ipv4Addr::LOCALHOST, port)), "/nothing");
        Some(watching.line()).filter(|line| !line.contains(r#""kind":"alive""#))
    });
    let line = line.expect("the question is told");
    assert!(line.contains(r#""peer":"127.0.0.1:"#), "{line}");
    // The listener also blocks the port for IPv4 alone.
    let taken = format!("0.0.0.0:{port}");
    let command = Server::serve_in_memory(&["--control", "127.0.0.1:0", "--listen", &taken]);
    expect_refusal(command, &[&format!("{taken} is in use: end what listens there, or give another address")]);
}

#[test]
fn ipv6_and_ipv4_have_one_port_each_for_itself() {
    let free = TcpListener::bind("[::]:0").expect("a free port").local_addr().expect("bound").port();
    let (ipv4, ipv6) = (format!("0.0.0.0:{free}"), format!("[::]:{free}"));
    for (first, second) in [(&ipv4, &ipv6), (&ipv6, &ipv4)] {
        let server = Server::listening(&["--listen", first, "--listen", second, "--control", "127.0.0.1:0"]);
        assert!(answers(SocketAddr::from((Ipv4Addr::LOCALHOST, free))), "{first}, {second}");
        assert!(answers(SocketAddr::from((Ipv6Addr::LOCALHOST, free))), "{first}, {second}");
        drop(server);
    }
}

/// The service itself binds a socket that was not passed. `restart` tests that a passed socket outlives the process.
#[test]
fn a_passed_socket_stands_in_for_its_role_alone() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("control");
    let socket = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = socket.local_addr().expect("bound");
    let server = passing(socket, "public", &["--control", "127.0.0.1:0", "--workers", "3"]).expect("it starts");
    assert_eq!(server.public(), address);
    assert!((0..20).all(|_| answers(address)) && answers(server.control()), "every worker has it");
    let socket = UnixListener::bind(&path).expect("bound");
    let server = passing(socket, "control", &["--listen", "127.0.0.1:0"]).expect("it starts");
    assert_eq!(*server.control_endpoint(), Endpoint::Unix(path));
    assert!(answers(server.control_endpoint()) && answers(server.public()));
}

#[test]
fn what_is_passed_must_be_of_use() {
    let socket = || OwnedFd::from(TcpListener::bind("127.0.0.1:0").expect("a free port"));
    let client = || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        OwnedFd::from(TcpStream::connect(listener.local_addr().expect("bound")).expect("connected"))
    };
    let file = || OwnedFd::from(File::open("/dev/null").expect("it is there"));
    for (socket, name, word) in [
        (socket(), "vote-status.socket", "FileDescriptorName="),
        (file(), "public", "a passed socket is of no use"),
        (client(), "control", "passed as control"),
    ] {
        let ended = passing(socket, name, &["--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"]);
        expect_failure(&ended.expect_err("it is refused"), &[word]);
    }
}

#[test]
fn what_is_passed_to_another_process_is_left_alone() {
    let mut command = Server::serve(&["--in-memory"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1").env("LISTEN_FDNAMES", "nonsense");
    assert!(answers(Server::spawn(command).public()));
}
