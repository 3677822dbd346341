//! How other threads reach a worker: a letter in its box, and a tap on its poll.

use std::io;
use std::sync::Arc;

use mio::{Poll, Token, Waker};
use parking_lot::Mutex;

use crate::http::session::Ticket;

/// What can be told to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letter {
    /// What this connection waits for is there.
    Wake(Ticket),
    /// Stop: answer what is under way, close what is idle, take newcomers for a while.
    Drain {
        /// How long newcomers are still taken, in milliseconds.
        accept_ms: u64,
        /// After this the rest is closed as it is, in milliseconds.
        timeout_ms: u64,
    },
}

/// A worker's box. Cheap to clone.
#[derive(Clone)]
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
        let was_empty = {
            let mut letters = self.letters.lock();
            letters.push(letter);
            letters.len() == 1
        };
        if was_empty && let Err(error) = self.waker.wake() {
            // The worker still finds the letter at its next turn.
            log::warn!("a worker could not be woken: {error}");
        }
    }

    /// Takes all letters.
    pub(super) fn take(&self, into: &mut Vec<Letter>) {
        std::mem::swap(&mut *self.letters.lock(), into);
    }
}
