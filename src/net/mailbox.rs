//! How other threads reach a worker: a letter in its box, and a tap on its poll.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use mio::{Poll, Token, Waker};
use parking_lot::Mutex;

use crate::http::session::Ticket;
use crate::waiting::Bell;

/// What can be told to a worker.
#[derive(Clone, Debug)]
pub enum Letter {
    /// What this connection waits for is there.
    Wake(Ticket),
    /// All connections together hold too much, and one of this worker's holds most.
    Relieve,
    /// Stop: answer what is under way, close what is idle, take newcomers for a while.
    Drain {
        /// How long newcomers are still taken, in milliseconds.
        accept_ms: u64,
        /// After this the rest is closed as it is, in milliseconds.
        timeout_ms: u64,
    },
    /// Stop: give away listeners, and clients that wait for nothing; answer the others.
    HandOver {
        /// Who takes them.
        to: Sender<Handed>,
        /// After this the others are closed as they are, in milliseconds.
        timeout_ms: u64,
    },
}

/// What a worker gives away.
#[derive(Debug, Default)]
pub struct Handed {
    /// Sockets that accept.
    pub listeners: Vec<OwnedFd>,
    /// Clients that wait for no answer.
    pub clients: Vec<PassedClient>,
}

/// A client that waits for no answer, and so has nothing here but its socket.
#[derive(Debug)]
pub struct PassedClient {
    /// The connection.
    pub socket: OwnedFd,
    /// The beginning of a request, or nothing.
    pub input: Vec<u8>,
}

/// A worker's box. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Mailbox {
    letters: Arc<Mutex<Vec<Letter>>>,
    waker: Arc<Waker>,
}

impl Mailbox {
    /// A box whose waker reports as `token`.
    ///
    /// # Errors
    /// Where the system gives no descriptor.
    pub fn new(poll: &Poll, token: Token) -> io::Result<Self> {
        let waker = Waker::new(poll.registry(), token)?;
        Ok(Self { letters: Arc::default(), waker: Arc::new(waker) })
    }

    /// Leaves a letter. Only the first one since the worker last looked costs a system call.
    pub fn send(&self, letter: Letter) {
        self.send_all([letter]);
    }

    /// Leaves letters, one at least.
    pub fn send_all(&self, all: impl IntoIterator<Item = Letter>) {
        let was_empty = {
            let mut letters = self.letters.lock();
            let was_empty = letters.is_empty();
            letters.extend(all);
            was_empty
        };
        if was_empty && let Err(error) = self.waker.wake() {
            // The worker still finds the letter at its next turn.
            log::warn!("a worker could not be woken: {error}");
        }
    }

    /// Takes letters to those who hold these tickets.
    #[must_use]
    pub fn bell(&self) -> Bell {
        let mailbox = self.clone();
        Arc::new(move |tickets| mailbox.send_all(tickets.into_iter().map(|word| Letter::Wake(Ticket(word)))))
    }

    /// Takes all letters.
    pub fn take(&self, into: &mut Vec<Letter>) {
        std::mem::swap(&mut *self.letters.lock(), into);
    }
}
