//! A connected socket, over the network or from this machine, and the output that the kernel has not taken yet. It
//! knows bytes, not their meaning.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, accept_with, getpeername};

use super::counters::EngineCounters;
use crate::http::session::Client;

/// A client's bytes in either direction.
pub struct Stream {
    socket: OwnedFd,
    /// Output that the kernel has not taken yet. The sender bounds it: it asks [`Stream::has_unsent`] before it
    /// answers more.
    unsent: Vec<u8>,
}

impl Stream {
    /// Takes a newcomer from a listening socket.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where there is none, others as the system says.
    #[inline]
    pub fn accept(listener: &OwnedFd) -> io::Result<Self> {
        let socket = accept_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        Ok(Self { socket, unsent: Vec::new() })
    }

    /// The socket, to register it.
    #[must_use]
    pub fn socket(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    /// Whether the kernel has refused bytes.
    #[must_use]
    #[inline]
    pub const fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// The memory of the unsent output, in bytes.
    #[must_use]
    #[inline]
    pub const fn unsent_capacity(&self) -> usize {
        self.unsent.capacity()
    }

    /// Reads once; 0 where the peer has shut its sending side.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] where nothing is there, others where the peer is gone.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8], counters: &EngineCounters) -> io::Result<usize> {
        let (bytes, _) = rustix::net::recv(&self.socket, buffer, RecvFlags::empty())?;
        counters.received_bytes.add(bytes as u64);
        Ok(bytes)
    }

    /// Writes all of `out` in one call, empties it, and keeps what the kernel does not take.
    /// `is_last`: the end of the stream follows at once, and goes out in the same segment.
    ///
    /// # Errors
    /// Where the peer is gone.
    #[inline]
    pub fn send(&mut self, out: &mut Vec<u8>, is_last: bool, counters: &EngineCounters) -> io::Result<()> {
        if out.is_empty() {
            return Ok(());
        }
        let flags = if is_last { SendFlags::MORE } else { SendFlags::empty() };
        // Output that the kernel refused before goes first.
        let sent = if self.has_unsent() { 0 } else { send_once(&self.socket, out, flags)? };
        counters.sent_bytes.add(sent as u64);
        self.unsent.extend_from_slice(&out[sent..]);
        out.clear();
        Ok(())
    }

    /// Offers the unsent output to the kernel once more.
    ///
    /// # Errors
    /// As [`Stream::send`].
    pub fn flush(&mut self, counters: &EngineCounters) -> io::Result<()> {
        let sent = send_once(&self.socket, &self.unsent, SendFlags::empty())?;
        counters.sent_bytes.add(sent as u64);
        self.unsent.drain(..sent);
        if self.unsent.is_empty() {
            self.unsent = Vec::new();
        } else if self.unsent.len() < self.unsent.capacity() / 2 {
            // The budget counts the capacity: sent bytes must not stay in it.
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
}

impl Client for Stream {
    /// An IPv4 peer is given as IPv4, even if a socket of both families (`[::]:8080`) shows it as `::ffff:192.0.2.10`.
    fn peer(&self) -> Option<SocketAddr> {
        let peer = SocketAddr::try_from(getpeername(&self.socket).ok()??).ok()?;
        Some(SocketAddr::new(peer.ip().to_canonical(), peer.port()))
    }

    /// Whether nothing more comes: the peer has shut its sending side and all that it sent was read, or the
    /// connection was reset.
    fn has_ended(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        match rustix::net::recv(&self.socket, &mut [0], flags) {
            Ok((bytes, _)) => bytes == 0,
            Err(error) => !matches!(error, Errno::AGAIN | Errno::INTR),
        }
    }
}

/// Bytes taken; 0 where the kernel's buffer is full. A peer that has gone is an error, not a signal.
#[inline]
fn send_once(socket: &OwnedFd, bytes: &[u8], flags: SendFlags) -> io::Result<usize> {
    match rustix::net::send(socket, bytes, flags | SendFlags::NOSIGNAL) {
        Ok(sent) => Ok(sent),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        Err(error) => Err(error.into()),
    }
}
