//! A process that begins to take over and does not end it, as far as the running one can tell.

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketType, connect, recv, send, socket};
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::Path;

/// The call.
pub(crate) struct Caller(OwnedFd);

impl Caller {
    /// Calls the process that runs on `data`.
    pub(crate) fn call(data: &Path) -> Caller {
        let wire = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).expect("a socket");
        connect(&wire, &SocketAddrUnix::new(data.join("takeover")).expect("a short path")).expect("it answers");
        Caller(wire)
    }

    /// Says one thing, and gives the answer.
    pub(crate) fn say(&self, message: &str) -> String {
        send(&self.0, format!("{message}\n").as_bytes(), SendFlags::NOSIGNAL).expect("it listens");
        self.hear()
    }

    /// What it says; nothing at the end.
    pub(crate) fn hear(&self) -> String {
        let mut answer = vec![0; 4_096];
        let (bytes, _) = recv(&self.0, &mut answer, RecvFlags::empty()).expect("it answers");
        answer.truncate(bytes);
        String::from_utf8(answer).expect("text").trim_end().to_owned()
    }
}

/// Has the store of `data`, as a process that runs on it has.
pub(crate) fn lock(data: &Path) -> File {
    let lock = OpenOptions::new().read(true).write(true).open(data.join("lock")).expect("it is there");
    lock.try_lock().expect("nobody has it");
    lock
}
