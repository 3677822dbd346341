//! Memory that holders of the key can make the control listener use: uploads that do not end, batches, exports
//! that are not read. All of it is within one bound, and votes go on meanwhile.

use super::ask;
use crate::util::DEADLINE;
use crate::util::client::Client;
use crate::util::endpoint::connect_narrow;
use crate::util::figures::{one_worker, peak_kib, resident_kib};
use crate::util::server::Server;
use std::fmt::Write as _;
use std::io::{ErrorKind, Write};
use std::net::TcpStream;

const BUDGET_KIB: u64 = 8 * 1024;
/// Other memory of the process for a moment, at most: a batch on its way to the table, and an answer being gathered.
const BESIDES_KIB: u64 = 16 * 1024;

/// Sends `head` and as much of `content` as the server takes at once, from a client that takes little itself.
fn begin(server: &Server, head: &str, content: &[u8]) -> TcpStream {
    let mut socket = TcpStream::from(connect_narrow(server.control(), None).expect("the server listens"));
    let key = Server::KEY;
    let head = head.replace("\r\n\r\n", &format!("\r\nHost: a\r\nAuthorization: Bearer {key}\r\n\r\n"));
    socket.write_all(head.as_bytes()).expect("a head is taken");
    socket.set_write_timeout(Some(DEADLINE)).expect("a deadline");
    match socket.write_all(content) {
        Ok(()) => {}
        // The server cut the upload off.
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {}
        Err(error) => panic!("neither taken nor refused: {error}"),
    }
    socket
}

fn held_kib(server: &Server) -> u64 {
    server.metric("vote_status_buffer_bytes") / 1024
}

/// Regression: 512 uploads of a megabyte took 512 MB. A batch holds millions of votes before its first commit.
#[test]
fn what_the_control_listener_holds_has_a_bound() {
    let budget = (BUDGET_KIB * 1024).to_string();
    let server = one_worker(&["--buffer-bytes-max", &budget, "--head-timeout", "600", "--write-timeout", "600"]);
    let control = server.control_client();
    let mut servers = String::new();
    for id in 2..6_000 {
        writeln!(servers, r#"{{"server_id":{id},"token":"{id}-{}"}}"#, "t".repeat(100)).expect("a string takes all");
    }
    assert_eq!(control.post("/v1/servers/batch", &servers).status, 200);
    let vote = vec![b' '; 900_000];
    let lines = r#"{"server_id":1,"ip":"203.0.113.7"}"#.to_owned() + "\n";
    let lines = lines.repeat(8_000);
    let kinds: [(&str, &str, &[u8]); 3] = [
        ("votes that do not end", "POST /v1/votes HTTP/1.1\r\nContent-Length: 1000000\r\n\r\n", &vote),
        (
            "batches that do not end",
            "POST /v1/votes/batch?mode=cast HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n",
            lines.as_bytes(),
        ),
        ("exports that are not read", "GET /v1/export HTTP/1.1\r\n\r\n", b""),
    ];
    for (number, (what, head, content)) in kinds.into_iter().enumerate() {
        const COUNT: usize = 60;
        let before = resident_kib(server.pid());
        let mut most = 0;
        let begun: Vec<TcpStream> = (0..COUNT)
            .map(|_| {
                let socket = begin(&server, head, content);
                most = most.max(held_kib(&server));
                socket
            })
            .collect();
        let cast = control.cast(1, std::net::Ipv4Addr::new(198, 51, 100, number as u8));
        assert_eq!(cast.status, 201, "{what}: {cast:?}");
        ask(&mut Client::connect(server.public()));
        let grown = peak_kib(server.pid()).saturating_sub(before);
        assert!(most <= BUDGET_KIB, "{what}: {most} KiB held");
        assert!(grown <= BUDGET_KIB + BESIDES_KIB, "{what}: {grown} KiB more");
        drop(begun);
    }
    assert!(
        server.metric(r#"vote_status_buffer_cuts_total{listener="control",how="answered"}"#) > 0,
        "nobody had to go"
    );
    // Regression: the alert on newcomers without a place went off for uploads that were cut for want of memory.
    assert_eq!(server.metric(r#"vote_status_turned_away_total{listener="control"}"#), 0);
    ask(&mut Client::connect(server.public()));
}
