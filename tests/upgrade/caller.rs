//! A process that begins to take over and does not end it, as far as the running one can tell, and
//! one that is to be taken over from.

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recv, send, socket_with,
};
use std::fs::{File, OpenOptions};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Not for the processes that other tests start.
fn seqpacket() -> OwnedFd {
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).expect("a socket")
}

/// The call.
pub(crate) struct Caller(OwnedFd);

impl Caller {
    /// Calls the process that runs on `data`.
    pub(crate) fn call(data: &Path) -> Caller {
        let wire = seqpacket();
        connect(&wire, &SocketAddrUnix::new(data.join("takeover")).expect("a short path")).expect("it answers");
        Caller(wire)
    }

    /// Says one thing, and gives the answer.
    pub(crate) fn say(&self, message: &str) -> String {
        send(&self.0, format!("{message}\n").as_bytes(), SendFlags::NOSIGNAL).expect("it listens");
        self.hear()
    }

    /// Says something that is not answered.
    pub(crate) fn tell(&self, message: &str) {
        send(&self.0, format!("{message}\n").as_bytes(), SendFlags::NOSIGNAL).expect("it listens");
    }

    /// Hears it out to `last`, and gives the first word of each message.
    pub(crate) fn hear_until(&self, last: &str) -> Vec<String> {
        let mut heard = Vec::new();
        while heard.last().is_none_or(|word| word != last) {
            let said = self.hear();
            assert!(!said.is_empty(), "the end, after {heard:?}");
            heard.push(said.split([' ', '\n']).next().expect("a word").to_owned());
        }
        heard
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

/// A running process, as far as a new one can tell.
pub(crate) struct Callee(OwnedFd);

impl Callee {
    /// Opens its gate.
    pub(crate) fn open(data: &Path) -> Callee {
        let gate = seqpacket();
        bind(&gate, &SocketAddrUnix::new(data.join("takeover")).expect("a short path")).expect("bound");
        listen(&gate, 8).expect("it listens");
        Callee(gate)
    }

    /// Answers what the first caller says, one after the other, and hangs up when it is ready.
    pub(crate) fn answer(&self, answers: &[&str]) {
        let wire = Caller(accept_with(&self.0, SocketFlags::CLOEXEC).expect("a caller"));
        for answer in answers {
            assert_ne!(wire.hear(), "");
            wire.tell(answer);
        }
        while wire.hear() != "ready" {}
    }
}
