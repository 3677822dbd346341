//! The address of a listener, and a connection to it. Knows sockets, not the bytes on them.

use crate::util::DEADLINE;
use socket2::{Domain, Socket, Type};
use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

/// A listener, as its start line names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl Endpoint {
    /// Parses the text between `listening on ` and the kind.
    pub(crate) fn parse(text: &str) -> Option<Endpoint> {
        match text.strip_prefix("unix:") {
            Some(path) => Some(Endpoint::Unix(path.into())),
            None => text.parse().ok().map(Endpoint::Tcp),
        }
    }

    /// The internet address. Panics on a Unix socket.
    pub(crate) fn addr(&self) -> SocketAddr {
        match self {
            Endpoint::Tcp(addr) => *addr,
            Endpoint::Unix(_) => panic!("{self} is no internet address"),
        }
    }

    /// Connects; over TCP each write leaves as a segment of its own.
    pub(crate) fn connect(&self) -> io::Result<Socket> {
        let socket = match self {
            Endpoint::Tcp(addr) => {
                let socket = Socket::new(Domain::for_address(*addr), Type::STREAM, None)?;
                socket.connect_timeout(&(*addr).into(), DEADLINE)?;
                socket.set_nodelay(true)?;
                socket
            }
            Endpoint::Unix(path) => Socket::from(UnixStream::connect(path)?),
        };
        socket.set_write_timeout(Some(DEADLINE))?;
        Ok(socket)
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

/// Connects with a receive buffer so small that answers wait on the server's side: in the server itself where segments are
/// small too.
pub(crate) fn connect_narrow(addr: SocketAddr, segment_bytes: Option<u32>) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None)?;
    socket.set_recv_buffer_size(4 * 1024)?;
    if let Some(bytes) = segment_bytes {
        // The kernel's buffer on that side follows the size of a segment, which is 64 KB on the loopback network.
        socket.set_mss(bytes)?;
    }
    socket.connect_timeout(&addr.into(), DEADLINE)?;
    Ok(socket)
}

/// A port without a listener that no other test of this process has. It is below the ports that the kernel gives to
/// connections. So no other program gets it first, and a program that was killed gets its own again.
pub(crate) fn free_port() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || {
        let count = std::process::id().wrapping_mul(20).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let addr = SocketAddr::from(([127, 0, 0, 1], 12_000 + (count % 20_000) as u16));
        TcpListener::bind(addr).is_ok().then_some(addr)
    };
    std::iter::repeat_with(next).take(1_000).flatten().next().expect("a port from 12000 to 31999 is free")
}
