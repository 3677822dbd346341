//! Where a listener is, and a connection to it. Knows sockets, not what goes over them.

use crate::util::DEADLINE;
use socket2::{Domain, Socket, Type};
use std::fmt::{self, Display, Formatter};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A listener, as its start line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    /// What stands between `listening on ` and the kind, if it is one.
    pub(crate) fn parse(text: &str) -> Option<Endpoint> {
        match text.strip_prefix("unix:") {
            Some(path) => Some(Endpoint::Unix(path.into())),
            None => text.parse().ok().map(Endpoint::Tcp),
        }
    }

    /// The address, where it is one of the internet. Panics where it is none.
    pub(crate) fn addr(&self) -> SocketAddr {
        match self {
            Endpoint::Tcp(addr) => *addr,
            Endpoint::Unix(_) => panic!("{self} is no internet address"),
        }
    }
}

impl Display for Endpoint {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Endpoint::Tcp(addr) => addr.fmt(formatter),
            Endpoint::Unix(path) => write!(formatter, "unix:{}", path.display()),
        }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(addr: SocketAddr) -> Endpoint {
        Endpoint::Tcp(addr)
    }
}

impl From<&Endpoint> for Endpoint {
    fn from(endpoint: &Endpoint) -> Endpoint {
        endpoint.clone()
    }
}

/// A connection to an endpoint.
#[derive(Debug)]
pub(crate) enum Transport {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Transport {
    /// Connects.
    pub(crate) fn connect(endpoint: &Endpoint) -> io::Result<Transport> {
        let transport = match endpoint {
            Endpoint::Tcp(addr) => Transport::Tcp(connect_tcp(*addr)?),
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(DEADLINE))?;
                Transport::Unix(stream)
            }
        };
        Ok(transport)
    }

    /// The socket of a connection over TCP. Panics where it is another.
    pub(crate) fn tcp(&self) -> &TcpStream {
        match self {
            Transport::Tcp(stream) => stream,
            other => panic!("{other:?} is no TCP connection"),
        }
    }

    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> io::Result<()> {
        match self {
            Transport::Tcp(stream) => stream.set_read_timeout(Some(timeout)),
            Transport::Unix(stream) => stream.set_read_timeout(Some(timeout)),
        }
    }

    /// Shuts the sending side.
    pub(crate) fn shutdown_write(&self) -> io::Result<()> {
        match self {
            Transport::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Transport::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }
}

/// Connects with `TCP_NODELAY`, so that each write leaves as a segment of its own.
pub(crate) fn connect_tcp(addr: SocketAddr) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&addr, DEADLINE)?;
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(DEADLINE))?;
    Ok(stream)
}

/// Connects with so little room for what comes that answers wait on the other side: in the server itself where segments
/// are small too.
pub(crate) fn connect_narrow(addr: SocketAddr, segment_bytes: Option<u32>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_recv_buffer_size(4 * 1024)?;
    if let Some(bytes) = segment_bytes {
        // The kernel's buffer there follows the size of a segment, which is 64 KB on this machine's own network.
        socket.set_mss(bytes)?;
    }
    socket.connect_timeout(&addr.into(), DEADLINE)?;
    Ok(socket)
}

impl Read for Transport {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => stream.read(buffer),
            Transport::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Transport::Tcp(stream) => stream.write(bytes),
            Transport::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Transport::Tcp(stream) => stream.flush(),
            Transport::Unix(stream) => stream.flush(),
        }
    }
}

/// A port that nobody listens on and that no other test of this process was given. It is below those that the kernel gives
/// to connections: no other program gets it first, and a program that was killed gets its own again.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || {
        let count = std::process::id().wrapping_mul(20).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let addr = SocketAddr::from(([127, 0, 0, 1], 12_000 + (count % 20_000) as u16));
        TcpListener::bind(addr).is_ok().then_some(addr)
    };
    std::iter::repeat_with(next).take(1_000).flatten().next().expect("a port from 12000 to 31999 is free")
}
