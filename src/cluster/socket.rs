//! Bytes to and from one machine of the store, in the clear or under TLS.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use super::access::Security;
use super::address::Host;
use super::reason::Reason;

trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// An open connection.
pub struct StoreSocket {
    wire: Box<dyn Wire>,
    /// The stream below the wire: for its time-outs and its end.
    stream: TcpStream,
}

impl StoreSocket {
    /// Connects to the first address of this host that accepts, within `timeout` for each address.
    ///
    /// # Errors
    /// The kind of the failure, and its cause.
    pub fn connect(host: &Host, security: &Security, timeout: Duration) -> Result<Self, (Reason, String)> {
        let fail = |error| fault(&error);
        let found = resolve(host, timeout)?;
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

    /// The handle that closes the connection from another thread. A waiting read fails at once.
    ///
    /// # Errors
    /// The system's error.
    pub fn closer(&self) -> io::Result<SocketCloser> {
        self.stream.try_clone().map(SocketCloser)
    }

    /// Sets the longest wait for bytes.
    ///
    /// # Errors
    /// The system's error.
    pub fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        set_timeouts(&self.stream, timeout)
    }
}

/// Closes a connection on which another thread waits.
pub struct SocketCloser(TcpStream);

impl SocketCloser {
    /// Closes the connection.
    pub fn close(self) {
        // A connection that is gone needs no end.
        let _gone = self.0.shutdown(Shutdown::Both);
    }
}

/// The addresses of this host. A broken resolver may take half a minute for one name.
fn resolve(host: &Host, timeout: Duration) -> Result<Vec<SocketAddr>, (Reason, String)> {
    if let Ok(address) = host.name.parse::<IpAddr>() {
        return Ok(vec![(address, host.port).into()]);
    }
    let (name, port) = (host.name.clone(), host.port);
    within(timeout, move || Ok((name.as_str(), port).to_socket_addrs()?.collect()))
}

/// The outcome of `look_up` within `timeout`. A slower look-up goes on in its own thread, and its outcome is dropped.
fn within<T: Send + 'static>(
    timeout: Duration,
    look_up: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, (Reason, String)> {
    let (sender, found) = sync_channel(1);
    let looked = thread::Builder::new().name("resolve".into()).spawn(move || drop(sender.send(look_up())));
    looked.map_err(|error| fault(&error))?;
    match found.recv_timeout(timeout) {
        Ok(found) => found.map_err(|error| fault(&error)),
        Err(_) => Err((Reason::TimeOut, format!("its name is not resolved within {} ms", timeout.as_millis()))),
    }
}

fn set_timeouts(stream: &TcpStream, timeout: Duration) -> io::Result<()> {
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))
}

/// The kind of a connection's error, and the error in a few words.
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

/// Repeats an interrupted call: a process that was stopped and continued finds its calls interrupted, and the connection is
/// unharmed.
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

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::time::Duration;

    use super::{Reason, within};

    /// Regression: a resolver that did not answer held the node up for as long as it liked.
    #[test]
    fn a_resolver_that_does_not_answer_is_not_waited_for() {
        let (sender, never) = channel::<()>();
        let looked = within(Duration::from_millis(20), move || Ok(never.recv()));
        let (reason, why) = looked.expect_err("nothing was found");
        assert_eq!((reason, why.as_str()), (Reason::TimeOut, "its name is not resolved within 20 ms"));
        drop(sender);
        assert_eq!(within(Duration::from_secs(60), || Ok(7)), Ok(7));
    }
}
