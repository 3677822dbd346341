//! Bytes to and from one machine of the store, in the clear or under TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::access::Security;
use super::address::Host;
use super::reason::Reason;

/// An open connection.
pub enum StoreSocket {
    /// Bytes as they are.
    Clear(TcpStream),
    /// Under TLS.
    #[cfg(feature = "tls")]
    Tls(Box<rustls::StreamOwned<rustls::ClientConnection, TcpStream>>),
}

impl StoreSocket {
    /// Connects within `timeout` to the first address of this name that takes it.
    ///
    /// # Errors
    /// Of what kind, and why.
    pub fn connect(host: &Host, security: &Security, timeout: Duration) -> Result<Self, (Reason, String)> {
        let fail = |error: io::Error| (reason_of(&error), say(&error));
        let found = (host.name.as_str(), host.port).to_socket_addrs().map_err(fail)?;
        let mut why = (Reason::Unreachable, "there is no such host".to_owned());
        for address in found {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => return Self::greet(stream, host, security, timeout),
                Err(error) => why = fail(error),
            }
        }
        Err(why)
    }

    fn greet(stream: TcpStream, host: &Host, security: &Security, timeout: Duration) -> Result<Self, (Reason, String)> {
        let prepare = || {
            // A question is one small packet: it must not wait for a second one.
            stream.set_nodelay(true)?;
            stream.set_write_timeout(Some(timeout))?;
            stream.set_read_timeout(Some(timeout))
        };
        prepare().map_err(|error| (reason_of(&error), say(&error)))?;
        match security {
            Security::Clear => Ok(Self::Clear(stream)),
            #[cfg(feature = "tls")]
            Security::Tls(files) => {
                files.secure(stream, &host.name).map(Self::Tls).map_err(|why| (Reason::Tls, format!("TLS: {why}")))
            }
        }
        .inspect(|_| debug_assert!(!host.name.is_empty()))
    }

    /// Waits so long for bytes from now on.
    ///
    /// # Errors
    /// Of the system.
    pub fn set_timeout(&mut self, timeout: Duration) -> io::Result<()> {
        let stream = match self {
            Self::Clear(stream) => stream,
            #[cfg(feature = "tls")]
            Self::Tls(stream) => &mut stream.sock,
        };
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))
    }
}

/// What kind of reason an error of a connection is.
#[must_use]
pub fn reason_of(error: &io::Error) -> Reason {
    #[cfg(feature = "tls")]
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return Reason::Tls;
    }
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Reason::TimeOut,
        ErrorKind::InvalidData => Reason::Garbled,
        _ => Reason::Unreachable,
    }
}

/// The error in a few words.
#[must_use]
pub fn say(error: &io::Error) -> String {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "it takes too long".into(),
        ErrorKind::UnexpectedEof => "it has closed the connection".into(),
        _ => error.to_string(),
    }
}

/// Calls again where a call was interrupted: a process that was stopped and goes on finds its calls
/// so, and nothing has happened to the connection.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

impl Read for StoreSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Clear(stream) => stream.read(buffer),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.read(buffer),
        })
    }
}

impl Write for StoreSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| match self {
            Self::Clear(stream) => stream.write(bytes),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.write(bytes),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        uninterrupted(|| match self {
            Self::Clear(stream) => stream.flush(),
            #[cfg(feature = "tls")]
            Self::Tls(stream) => stream.flush(),
        })
    }
}
