//! How other threads reach a worker: a letter in its box, and a tap on its poll.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::{Poll, Token, Waker};
use parking_lot::Mutex;

use crate::http::session::Ticket;
use crate::waiting::Bell;

/// A message to a worker.
#[derive(Clone, Debug)]
pub enum Letter {
    /// The wait of this connection's request is over.
    Wake(Ticket),
    /// There may be news for the waiting requests of these connections: one, or very many.
    Ring(Vec<u64>),
    /// All connections together use too much, and one of this worker's uses most.
    Relieve,
    /// Show by this mark that the loop turns.
    Turn(TurnMark),
    /// Stop: answer the requests under way, close idle connections, take newcomers for a while.
    Drain {
        /// How long newcomers are still taken, in milliseconds; `None`: until a second letter ends that.
        accept_ms: Option<u64>,
        /// The time after that until the rest is closed as it is, in milliseconds.
        timeout_ms: u64,
        /// Whether the listening sockets outlive this process. Then newcomers are also taken until all earlier
        /// connections have gone; later ones wait in the sockets for the next process.
        is_held: bool,
    },
}

/// A mark that a loop sets in its next turn.
#[derive(Clone, Debug, Default)]
pub struct TurnMark(Arc<AtomicBool>);

impl TurnMark {
    /// The loop turns.
    pub fn set(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether the loop has turned.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
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

    /// Rings for connections by their tickets.
    #[must_use]
    pub fn bell(&self) -> Bell {
        let mailbox = self.clone();
        Arc::new(move |tickets| mailbox.send(Letter::Ring(tickets)))
    }

    /// Takes all letters.
    pub fn take(&self, into: &mut Vec<Letter>) {
        std::mem::swap(&mut *self.letters.lock(), into);
    }
}
