//! Bytes to and from one machine of the store, in the clear or under TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use super::access::Security;
use super::address::Host;
use super::reason::Reason;

trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// An open connection.
pub struct StoreSocket {
    wire: Box<dyn Wire>,
    /// Below the wire: for its time-outs.
    stream: TcpStream,
}

impl StoreSocket {
    /// Connects within `timeout` to the first address of this name that takes it.
    ///
    /// # Errors
    /// Of what kind, and why.
    pub fn connect(host: &Host, security: &Security, timeout: Duration) -> Result<Self, (Reason, String)> {
        let fail = |error| fault(&error);
        let found = (host.name.as_str(), host.port).to_socket_addrs().map_err(fail)?;
        let mut why = (Reason::Unreachable, "there is no such host".to_owned());
        for address in found {
            let stream = match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => stream,
                Err(error) => {
                    why = fail(error);
                    continue;
                }
            };
            // A question is one small packet: it must not wait for a second one.
            stream.set_nodelay(true).map_err(fail)?;
            set_timeouts(&stream, timeout).map_err(fail)?;
            let below = stream.try_clone().map_err(fail)?;
            let wire: Box<dyn Wire> = match security {
                Security::Clear => Box::new(below),
                #[cfg(feature = "tls")]
                Security::Tls(files) => {
                    let secured = files.secure(below, &host.name);
                    Box::new(secured.map_err(|why| (Reason::Tls, format!("TLS: {why}")))?)
                }
            };
            return Ok(Self { wire, stream });
        }
        Err(why)
    }

    /// Waits so long for bytes from now on.
    ///
    /// # Errors
    /// Of the system.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        set_timeouts(&self.stream, timeout)
    }
}

fn set_timeouts(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// Of what kind an error of a connection is, and what it is in a few words.
#[must_use]
pub fn fault(error: &io::Error) -> (Reason, String) {
    let told = || error.to_string();
    #[cfg(feature = "tls")]
    if error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>()) {
        return (Reason::Tls, told());
    }
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => (Reason::TimeOut, "it takes too long".into()),
        ErrorKind::UnexpectedEof => (Reason::Unreachable, "it has closed the connection".into()),
        ErrorKind::InvalidData => (Reason::Garbled, told()),
        _ => (Reason::Unreachable, told()),
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
        uninterrupted(|| self.wire.read(buffer))
    }
}

impl Write for StoreSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        uninterrupted(|| self.wire.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        uninterrupted(|| self.wire.flush())
    }
}
