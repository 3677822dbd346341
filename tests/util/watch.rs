//! A watcher: reads the lines of `GET /v1/watch` one by one.

use crate::util::DEADLINE;
use crate::util::server::Server;
use socket2::Socket;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// A stream of lines, asked for by HTTP/1.0 so that it comes without a chunked coding.
pub(crate) struct Watching(BufReader<TcpStream>);

impl Watching {
    /// Watches by this query. The watcher sees everything that happens from then on.
    pub(crate) fn begin(server: &Server, query: &str) -> Watching {
        Watching::ask(server, query).begun()
    }

    /// Sends the request, and waits for no answer.
    pub(crate) fn ask(server: &Server, query: &str) -> Watching {
        let mut stream = TcpStream::connect(server.control()).expect("the control listener");
        stream.set_read_timeout(Some(DEADLINE)).expect("a deadline");
        let request = format!("GET /v1/watch{query} HTTP/1.0\r\nAuthorization: Bearer {}\r\n\r\n", Server::KEY);
        stream.write_all(request.as_bytes()).expect("sent");
        Watching(BufReader::new(stream))
    }

    /// Waits until the answer has begun.
    pub(crate) fn begun(mut self) -> Watching {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(self.0.read_line(&mut head).expect("a head in time"), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("\r\nConnection: close\r\n"), "{head}");
        assert!(head.contains("\r\nContent-Type: application/x-ndjson\r\n"), "{head}");
        self
    }

    /// Resets the connection, as a machine that has forgotten it does.
    pub(crate) fn reset(self) {
        let socket = Socket::from(self.0.into_inner());
        socket.set_linger(Some(Duration::ZERO)).expect("an open socket");
    }

    /// The next line as it came.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).expect("a line in time"), 0, "the stream has ended");
        line
    }

    /// The next line with an event, its instant and the port of a peer replaced by a dot. On a busy machine the watch
    /// sends `alive` lines meanwhile, which are skipped.
    pub(crate) fn told(&mut self) -> String {
        let until = Instant::now() + DEADLINE;
        let mut line = self.line();
        while line.contains(r#""kind":"alive""#) {
            assert!(Instant::now() < until, "nothing was told but {line}");
            line = self.line();
        }
        let at = line.find(r#""at":""#).map(|at| at + 6).unwrap_or_else(|| panic!("no instant in {line}"));
        assert!(line[at..].starts_with("20") && &line[at + 19..at + 21] == "Z\"", "{line}");
        let told = format!("{}.{}", &line[..at], &line[at + 20..]);
        match told.split_once(r#""peer":"127.0.0.1:"#) {
            Some((before, _)) => format!(r#"{before}"peer":"127.0.0.1:."}}"#),
            None => told.trim_end().to_owned(),
        }
    }

    /// The rest of the stream until its end.
    pub(crate) fn rest(mut self) -> String {
        let mut rest = String::new();
        self.0.read_to_string(&mut rest).expect("an end in time");
        rest
    }
}

/// Waits until there are this many watchers.
#[track_caller]
pub(crate) fn until_watched(server: &Server, watchers: u64) {
    server.await_metric("vote_status_watchers", watchers);
}
