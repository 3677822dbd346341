//! A connected socket of either kind, and what the kernel has not taken of its output yet. It
//! knows bytes, not what they say. Where TLS is built in, `tls::layer` is the other half.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown};

use super::counters::EngineCounters;
#[cfg(feature = "tls")]
use super::tls::session::Layer;

/// A connected socket.
#[derive(Debug)]
pub enum ClientSocket {
    /// Over the network.
    Tcp(TcpStream),
    /// From this machine.
    Unix(UnixStream),
}

impl AsFd for ClientSocket {
    #[inline]
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(socket) => socket.as_fd(),
            Self::Unix(socket) => socket.as_fd(),
        }
    }
}

impl Source for ClientSocket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.register(registry, token, interests),
            Self::Unix(socket) => socket.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.reregister(registry, token, interests),
            Self::Unix(socket) => socket.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(socket) => socket.deregister(registry),
            Self::Unix(socket) => socket.deregister(registry),
        }
    }
}

impl From<ClientSocket> for OwnedFd {
    fn from(socket: ClientSocket) -> Self {
        match socket {
            ClientSocket::Tcp(socket) => socket.into(),
            ClientSocket::Unix(socket) => socket.into(),
        }
    }
}

/// What a read came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// So many bytes of the client; 0 where all that came was for TLS.
    Input {
        /// At the front of the buffer.
        bytes: usize,
        /// There may be more to read at once.
        may_be_more: bool,
    },
    /// The peer has shut its sending side.
    End,
    /// So many bytes of a client that does not speak TLS where it has to. The stream is a plain
    /// one from here on.
    Foreign {
        /// At the front of the buffer.
        bytes: usize,
    },
    /// TLS cannot go on, and the peer has been told why.
    Broken,
}

/// A client's bytes in either direction.
pub struct Stream {
    pub(super) socket: ClientSocket,
    /// Not taken by the kernel yet, as it goes over the wire. Bounded by who sends: it asks
    /// [`Stream::has_unsent`] before it answers more.
    pub(super) unsent: Vec<u8>,
    #[cfg(feature = "tls")]
    pub(super) layer: Layer,
}

impl Stream {
    /// The bytes of a socket that was just accepted.
    #[must_use]
    pub const fn new(socket: ClientSocket) -> Self {
        Self {
            socket,
            unsent: Vec::new(),
            #[cfg(feature = "tls")]
            layer: Layer::Plain,
        }
    }

    /// The socket, to register it.
    pub fn socket(&mut self) -> &mut ClientSocket {
        &mut self.socket
    }

    /// Who is connected over the network, unless it has gone: by IPv4 also where a socket of both families, as
    /// `[::]:8080` is, shows it as `::ffff:192.0.2.10`.
    #[must_use]
    pub fn peer(&self) -> Option<SocketAddr> {
        match &self.socket {
            ClientSocket::Tcp(socket) => {
                socket.peer_addr().ok().map(|peer| SocketAddr::new(peer.ip().to_canonical(), peer.port()))
            }
            ClientSocket::Unix(_) => None,
        }
    }

    /// Whether the peer has shut its sending side, and all that it sent was read.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        let mut byte = [0];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        // Whatever is wrong with the socket is found out by who writes to it.
        rustix::net::recv(&self.socket, &mut byte, flags).is_ok_and(|(bytes, _)| bytes == 0)
    }

    /// Whether its socket is all that there is: no bytes that wait, and no TLS.
    #[must_use]
    pub const fn is_bare(&self) -> bool {
        #[cfg(feature = "tls")]
        if !matches!(self.layer, Layer::Plain) {
            return false;
        }
        !self.has_unsent()
    }

    /// The socket, where it is all that there is.
    #[must_use]
    pub fn into_socket(self) -> Option<ClientSocket> {
        if self.is_bare() { Some(self.socket) } else { None }
    }

    /// Whether the kernel has refused bytes.
    #[must_use]
    #[inline]
    pub const fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Whether bytes stand between the client and the wire, on either side.
    #[must_use]
    #[inline]
    pub fn is_idle(&self) -> bool {
        #[cfg(feature = "tls")]
        if !self.is_layer_idle() {
            return false;
        }
        !self.has_unsent()
    }

    /// Whether what is sent now reaches the client.
    #[must_use]
    #[inline]
    pub fn is_established(&self) -> bool {
        #[cfg(feature = "tls")]
        if !self.is_layer_established() {
            return false;
        }
        true
    }

    /// The memory that it holds, in bytes.
    #[must_use]
    #[inline]
    pub fn held_bytes(&self) -> usize {
        #[cfg(feature = "tls")]
        if !matches!(self.layer, Layer::Plain) {
            return self.unsent.capacity() + self.layer_held_bytes();
        }
        self.unsent.capacity()
    }

    /// Reads once, at most `bytes_max` from the socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing is there, others where the peer is gone.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8], bytes_max: usize, counters: &EngineCounters) -> io::Result<Received> {
        #[cfg(feature = "tls")]
        if !matches!(self.layer, Layer::Plain) {
            return self.read_layer(buffer, bytes_max, counters);
        }
        let room_bytes = buffer.len().min(bytes_max);
        let buffer = &mut buffer[..room_bytes];
        match receive(&self.socket, buffer, counters)? {
            0 => Ok(Received::End),
            // A short read has emptied the kernel's buffer: no second read to be told so.
            bytes => Ok(Received::Input { bytes, may_be_more: bytes == buffer.len() }),
        }
    }

    /// Reads once what nobody will look at, as it came over the wire; 0 at its end.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_past(&mut self, buffer: &mut [u8], counters: &EngineCounters) -> io::Result<usize> {
        receive(&self.socket, buffer, counters)
    }

    /// Writes all of `out` in one call, empties it, and keeps what the kernel does not take.
    /// `is_last` where the end of the stream follows at once: it goes out in the same segment.
    ///
    /// # Errors
    /// Where the peer is gone.
    #[inline]
    pub fn send(&mut self, out: &mut Vec<u8>, is_last: bool, counters: &EngineCounters) -> io::Result<()> {
        #[cfg(feature = "tls")]
        if !matches!(self.layer, Layer::Plain) {
            return self.send_layer(out, is_last, counters);
        }
        if out.is_empty() {
            return Ok(());
        }
        let flags = if is_last { SendFlags::MORE } else { SendFlags::empty() };
        // What the kernel refused before goes first.
        let sent = if self.has_unsent() { 0 } else { send_once(&self.socket, out, flags)? };
        counters.sent_bytes.add(sent as u64);
        self.unsent.extend_from_slice(&out[sent..]);
        out.clear();
        Ok(())
    }

    /// Offers the kernel once more what it has refused.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn flush(&mut self, counters: &EngineCounters) -> io::Result<()> {
        self.flush_as(SendFlags::empty(), counters)
    }

    pub(super) fn flush_as(&mut self, flags: SendFlags, counters: &EngineCounters) -> io::Result<()> {
        let sent = send_once(&self.socket, &self.unsent, flags)?;
        counters.sent_bytes.add(sent as u64);
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        } else if self.unsent.len() < self.unsent.capacity() / 2 {
            // What is held is what is counted: not the room of what has gone.
            self.unsent.shrink_to_fit();
        }
        Ok(())
    }

    /// Shuts the sending side: the peer reads the end behind all that was sent.
    ///
    /// # Errors
    /// Where the peer is gone.
    pub fn shut(&mut self) -> io::Result<()> {
        Ok(rustix::net::shutdown(&self.socket, Shutdown::Write)?)
    }

    /// Says what is to be said before the socket is closed.
    #[inline]
    pub fn part(&mut self, counters: &EngineCounters) {
        #[cfg(feature = "tls")]
        self.part_layer(counters);
        #[cfg(not(feature = "tls"))]
        let _nothing_is_sent = counters;
    }
}

#[inline]
pub(super) fn receive(socket: &ClientSocket, buffer: &mut [u8], counters: &EngineCounters) -> io::Result<usize> {
    let (bytes, _) = rustix::net::recv(socket, buffer, RecvFlags::empty())?;
    counters.received_bytes.add(bytes as u64);
    Ok(bytes)
}

/// Bytes taken; 0 where the kernel's buffer is full. A peer that has gone is an error, not a signal.
#[inline]
fn send_once(socket: &ClientSocket, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    match rustix::net::send(socket, bytes, flags | SendFlags::NOSIGNAL) {
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
