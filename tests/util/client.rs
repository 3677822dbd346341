//! A raw HTTP client, which sends the bytes it is given and reads responses within a deadline.

use crate::util::DEADLINE;
use crate::util::endpoint::Endpoint;
use crate::util::response::{Framing, Response, decode_chunked, parse_head};
use rustix::net::{RecvFlags, recv};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

/// A connection, and the bytes read from it that no response has taken yet.
#[derive(Debug)]
pub(crate) struct Client {
    socket: Socket,
    buffer: Vec<u8>,
    deadline: Duration,
}

impl Client {
    /// Changes how long each read of a response may take in all.
    #[cfg(feature = "may_minihttp")]
    pub(crate) fn set_deadline(&mut self, deadline: Duration) {
        self.deadline = deadline;
    }

    /// Connects; each `send` leaves as a segment of its own.
    pub(crate) fn connect(endpoint: impl Into<Endpoint>) -> Client {
        let endpoint = endpoint.into();
        Self::try_connect(&endpoint).unwrap_or_else(|error| panic!("no connection to {endpoint}: {error}"))
    }

    /// Connects, or gives the reason of the failure.
    pub(crate) fn try_connect(endpoint: impl Into<Endpoint>) -> io::Result<Client> {
        endpoint.into().connect().map(Client::over)
    }

    /// A client over a connection that was made elsewhere.
    pub(crate) fn over(socket: impl Into<Socket>) -> Client {
        Client { socket: socket.into(), buffer: Vec::new(), deadline: DEADLINE }
    }

    /// The socket itself, for calls that this type does not offer.
    pub(crate) fn socket(&self) -> &Socket {
        &self.socket
    }

    /// Whether the server is known to have closed the connection, or to have sent something unasked.
    pub(crate) fn has_ended(&self) -> bool {
        recv(&self.socket, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT) != Err(rustix::io::Errno::AGAIN)
    }

    /// Sends all of `bytes`. Panics when the connection does not take them.
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.try_send(bytes).unwrap_or_else(|error| panic!("the server took no more bytes: {error}"));
    }

    /// Sends all of `bytes`, or gives the reason of the failure.
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        self.socket.write_all(bytes.as_ref())
    }

    /// Shuts the sending side: the server reads the end of the stream.
    pub(crate) fn shutdown_write(&mut self) {
        self.socket.shutdown(Shutdown::Write).unwrap_or_else(|error| panic!("no half-close: {error}"));
    }

    /// Reads one response, an interim one (1xx) included. `head_only` marks an answer to HEAD, which
    /// has no body whatever `Content-Length` says. Panics on anything else.
    pub(crate) fn read_response(&mut self, head_only: bool) -> Response {
        self.try_read_response(head_only).unwrap_or_else(|error| {
            let buffer = String::from_utf8_lossy(&self.buffer);
            panic!("no whole response ({error}); read so far: {buffer:?}")
        })
    }

    /// Reads one response, or gives `UnexpectedEof` for a connection that ended before its first byte, `InvalidData` for
    /// one that ended within it, `TimedOut` past the deadline, or the socket's own error.
    pub(crate) fn try_read_response(&mut self, head_only: bool) -> io::Result<Response> {
        let until = Instant::now() + self.deadline;
        let (mut response, head_length, framing) = loop {
            if let Some(parsed) = parse_head(&self.buffer) {
                break parsed;
            }
            self.fill(until).map_err(|error| if self.buffer.is_empty() { error } else { half(&error) })?;
        };
        let framing = if head_only { Framing::Length(0) } else { framing };
        self.buffer.drain(..head_length);
        response.body = self.read_body(framing, until).map_err(|error| half(&error))?;
        Ok(response)
    }

    /// Reads all bytes until the server closes. A reset counts as an error.
    pub(crate) fn try_read_to_end(&mut self) -> io::Result<Vec<u8>> {
        let until = Instant::now() + self.deadline;
        loop {
            match self.fill(until) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                    return Ok(std::mem::take(&mut self.buffer));
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Requires that the server closes in order (no reset) and sends nothing more before that.
    pub(crate) fn expect_closed(&mut self) {
        let rest =
            self.try_read_to_end().unwrap_or_else(|error| panic!("the connection was not closed in order: {error}"));
        let rest = String::from_utf8_lossy(&rest);
        assert!(rest.is_empty(), "bytes before the close: {rest:?}");
    }

    /// Requires that the connection still answers. A test could only wait for the absence of a close, so this
    /// asks for a path that each listener answers by itself.
    pub(crate) fn expect_open(&mut self) {
        self.send("GET /healthz HTTP/1.1\r\nHost: probe\r\n\r\n");
        let response = self.read_response(false);
        assert!(response.status == 200 || response.status == 404, "the probe's answer: {response:?}");
        assert!(self.buffer.is_empty(), "bytes after the probe's answer");
    }

    fn read_body(&mut self, framing: Framing, until: Instant) -> io::Result<Vec<u8>> {
        match framing {
            Framing::Length(length) => {
                while self.buffer.len() < length {
                    self.fill(until)?;
                }
                Ok(self.buffer.drain(..length).collect())
            }
            Framing::Chunked => loop {
                if let Some((content, used)) = decode_chunked(&self.buffer) {
                    self.buffer.drain(..used);
                    return Ok(content);
                }
                self.fill(until)?;
            },
            Framing::UntilClose => self.try_read_to_end(),
        }
    }

    /// One read into the buffer; the end of the stream is `UnexpectedEof`.
    fn fill(&mut self, until: Instant) -> io::Result<()> {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        let mut bytes = [0; 16 * 1024];
        match self.socket.read(&mut bytes) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.buffer.extend_from_slice(&bytes[..count]);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(error),
        }
    }
}

fn half(error: &io::Error) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("half an answer: {error}"))
}

/// A client that keeps its connection for as long as the server does, and then takes a new one for the next request.
#[derive(Debug)]
pub(crate) struct Kept {
    endpoint: Endpoint,
    client: Option<Client>,
}

impl Kept {
    pub(crate) fn new(endpoint: impl Into<Endpoint>) -> Kept {
        Kept { endpoint: endpoint.into(), client: None }
    }

    /// Whether the next request takes a new connection. Like any client that keeps connections, this one does not use a closed
    /// one.
    pub(crate) fn is_new(&self) -> bool {
        self.client.as_ref().is_none_or(Client::has_ended)
    }

    /// The next request takes a new connection.
    pub(crate) fn close(&mut self) {
        self.client = None;
    }

    /// One request, sent by `ask`, and its response.
    pub(crate) fn exchange(&mut self, ask: impl FnOnce(&mut Client) -> io::Result<()>) -> io::Result<Response> {
        let kept = if self.is_new() { None } else { self.client.take() };
        let mut client = kept.map_or_else(|| Client::try_connect(&self.endpoint), Ok)?;
        ask(&mut client)?;
        let response = client.try_read_response(false)?;
        self.client = (!response.says_close()).then_some(client);
        Ok(response)
    }
}

/// One `GET` on a connection of its own, as most callers do it.
pub(crate) fn get(endpoint: impl Into<Endpoint>, path: &str) -> Response {
    exchange(endpoint, format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n"))
}

/// Sends `bytes` on a connection of its own and reads the one response (not to a HEAD).
pub(crate) fn exchange(endpoint: impl Into<Endpoint>, bytes: impl AsRef<[u8]>) -> Response {
    let mut client = Client::connect(endpoint);
    client.send(bytes);
    client.read_response(false)
}
