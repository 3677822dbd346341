//! Messages with open sockets in them, from one process to another on the same machine. It must
//! not know what they say.
//!
//! Message for message over a Unix socket (`SOCK_SEQPACKET`): a message and the sockets that
//! belong to it arrive together or not at all.

use std::fs::{self, Permissions};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen, recvmsg, sendmsg,
    shutdown, socket_with,
};

use crate::limits::{PASSED_BYTES_MAX, PASSED_SOCKETS_MAX};

/// Longest message: what is passed, and what is said about it.
const MESSAGE_BYTES_MAX: usize = 2 * PASSED_BYTES_MAX;
/// Callers that the kernel holds.
const BACKLOG: i32 = 4;
/// The kernel bounds the sockets that are on their way; after so long some have arrived.
const FULL_PAUSE: Duration = Duration::from_millis(1);

/// One end of a connection to another process.
#[derive(Debug)]
pub struct FdChannel(OwnedFd);

impl FdChannel {
    /// Calls whoever has opened a [`Gate`] there; `None` where nobody has. Nothing that is done with
    /// it takes longer than `patience`: then it fails.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect(path: &Path, patience: Duration) -> io::Result<Option<Self>> {
        let socket = socket()?;
        set_socket_timeout(&socket, Timeout::Recv, Some(patience))?;
        set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
        match SocketAddrUnix::new(path).and_then(|address| connect(&socket, &address)) {
            Ok(()) => Ok(Some(Self(socket))),
            // A path that is too long is too long for everybody.
            Err(Errno::NOENT | Errno::CONNREFUSED | Errno::NAMETOOLONG) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Another handle of the same end.
    ///
    /// # Errors
    /// Where the system gives no descriptor.
    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }

    /// From now on waits no longer than this for room for a message; then it is not sent.
    ///
    /// # Errors
    /// What the system says.
    pub fn set_sending_patience(&self, patience: Duration) -> io::Result<()> {
        Ok(set_socket_timeout(&self.0, Timeout::Send, Some(patience))?)
    }

    /// Ends the connection, for every handle of either end. What was sent before is received still.
    pub fn hang_up(&self) {
        // Where it has ended already, that is what is wanted.
        let _ended = shutdown(&self.0, Shutdown::Both);
    }

    /// Sends a message with at most [`PASSED_SOCKETS_MAX`] sockets. Waits for room.
    ///
    /// # Errors
    /// Where the other end is gone, or has no room for too long.
    pub fn send(&self, message: &[u8], sockets: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_SOCKETS_MAX))];
        loop {
            let mut rights = SendAncillaryBuffer::new(&mut space);
            if !sockets.is_empty() && !rights.push(SendAncillaryMessage::ScmRights(sockets)) {
                return Err(io::Error::other("too many sockets in a message"));
            }
            match sendmsg(&self.0, &[IoSlice::new(message)], &mut rights, SendFlags::NOSIGNAL) {
                Ok(_whole) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::TOOMANYREFS) => thread::sleep(FULL_PAUSE),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits for the next message; `None` at the end. Where this process may open no more files, the
    /// last of the sockets are missing.
    ///
    /// # Errors
    /// What the system says, or where the message is longer than any of ours.
    pub fn receive(&self) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut message = vec![0; MESSAGE_BYTES_MAX];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED_SOCKETS_MAX))];
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let into = &mut [IoSliceMut::new(&mut message)];
            match recvmsg(&self.0, into, &mut rights, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                // It has ended without a look at what was sent last.
                Err(Errno::CONNRESET) => return Ok(None),
                received => break received?,
            }
        };
        if received.flags.intersects(rustix::net::ReturnFlags::TRUNC) {
            return Err(io::Error::other("a message that does not fit"));
        }
        let mut sockets = Vec::new();
        for right in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(passed) = right {
                sockets.extend(passed);
            }
        }
        message.truncate(received.bytes);
        // No message of ours is empty.
        Ok((!message.is_empty()).then_some((message, sockets)))
    }
}

/// Where other processes of the same user can call.
#[derive(Debug)]
pub struct Gate(OwnedFd);

impl Gate {
    /// Opens one; what is left of an earlier one goes. The caller sees to it that it is nobody else's.
    ///
    /// # Errors
    /// What the system says; a path of over 107 bytes is too long for it.
    pub fn open(path: &Path) -> io::Result<Self> {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let socket = socket()?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        // Nobody can call before it listens.
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listen(&socket, BACKLOG)?;
        Ok(Self(socket))
    }

    /// Waits for the next caller.
    ///
    /// # Errors
    /// What the system says.
    pub fn accept(&self) -> io::Result<FdChannel> {
        loop {
            match accept_with(&self.0, SocketFlags::CLOEXEC) {
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                accepted => return Ok(FdChannel(accepted?)),
            }
        }
    }
}

fn socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

#[cfg(test)]
mod tests {
    use std::io::{ErrorKind, Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::Duration;

    use super::{FdChannel, Gate};

    const PATIENCE: Duration = Duration::from_secs(10);

    #[test]
    fn a_socket_works_on_the_other_side() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("gate");
        assert!(FdChannel::connect(&path, PATIENCE).expect("no error").is_none(), "no file");
        drop(Gate::open(&path).expect("a gate"));
        assert!(FdChannel::connect(&path, PATIENCE).expect("no error").is_none(), "nobody there");
        let too_long = folder.path().join("x".repeat(108));
        assert!(FdChannel::connect(&too_long, PATIENCE).expect("no error").is_none(), "nobody can be");
        assert_eq!(Gate::open(&too_long).expect_err("too long").kind(), ErrorKind::InvalidFilename);
        let gate = Gate::open(&path).expect("in place of the first");
        let (mut here, there) = UnixStream::pair().expect("a pair");
        let sender = thread::spawn(move || {
            let wire = FdChannel::connect(&path, PATIENCE).expect("no error").expect("the gate is open");
            wire.send(b"with", &[there.as_fd()]).expect("sent");
            wire.send(b"without", &[]).expect("sent");
        });
        let wire = gate.accept().expect("a caller");
        let (message, sockets) = wire.receive().expect("received").expect("a message");
        assert_eq!(message, b"with");
        let [socket] = <[_; 1]>::try_from(sockets).expect("one socket");
        here.write_all(b"x").expect("written");
        let mut byte = [0];
        UnixStream::from(socket).read_exact(&mut byte).expect("read");
        assert_eq!(byte, *b"x");
        let (message, sockets) = wire.receive().expect("received").expect("a message");
        assert_eq!((message.as_slice(), sockets.len()), (b"without".as_slice(), 0));
        assert!(wire.receive().expect("the end").is_none());
        sender.join().expect("no panic");
    }
}
