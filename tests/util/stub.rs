//! A server that answers every connection with the same bytes and closes it. Of HTTP it knows only
//! the end of a request's head.

use crate::util::DEADLINE;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{Builder, JoinHandle};

/// A running stub. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Stub {
    addr: SocketAddr,
    thread: Option<JoinHandle<()>>,
    /// Bound and not listening: connections are refused, and no other program gets the port.
    _refusing: Option<Socket>,
}

impl Stub {
    /// Answers with `bytes`, whatever is asked.
    pub(crate) fn answering(bytes: &'static [u8]) -> Stub {
        Stub::answering_in_turn(&[], bytes)
    }

    /// Answers with each of `first`, and then with `bytes`.
    pub(crate) fn answering_in_turn(first: &'static [&'static [u8]], bytes: &'static [u8]) -> Stub {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let addr = listener.local_addr().expect("its address");
        let serve = move || {
            let mut first = first.iter();
            for stream in listener.incoming() {
                let stream = stream.expect("a connection");
                if !answer(stream, first.next().unwrap_or(&bytes)) {
                    return;
                }
            }
        };
        let thread = Builder::new().name("stub".to_owned()).spawn(serve).expect("a thread can be started");
        Stub { addr, thread: Some(thread), _refusing: None }
    }

    /// An address without a listener.
    pub(crate) fn nobody() -> Stub {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
        socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        let addr = socket.local_addr().expect("its address").as_socket().expect("it is IPv4");
        Stub { addr, thread: None, _refusing: Some(socket) }
    }

    /// The stub's address.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// That address as a URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

/// Answers one connection. `false` for a connection without a byte, which ends the stub.
fn answer(mut stream: TcpStream, bytes: &[u8]) -> bool {
    stream.set_read_timeout(Some(DEADLINE)).expect("a time-out can be set");
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            _ => return !head.is_empty(),
        }
    }
    // The client may have gone.
    let _gone = stream.write_all(bytes);
    true
}

impl Drop for Stub {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        drop(TcpStream::connect(self.addr));
        let ended = thread.join();
        assert!(ended.is_ok() || std::thread::panicking(), "the stub panicked");
    }
}
