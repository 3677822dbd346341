//! One client: its socket, its session, and the bytes that wait in either direction.
//!
//! An idle connection holds no buffer. Input is kept only while a request is not whole or has to
//! wait, output only while the kernel does not take it.

use std::io::ErrorKind;

use mio::event::Event;

use super::counters::{CloseCause, EngineCounters};
use super::deadline::{Awaited, Class};
use super::stream::Stream;
use crate::http::fault::Fault;
use crate::http::session::{Advanced, Client, Next, Service, Session, SessionCall, Waiting, is_head_method};
use crate::limits::LINGER_BYTES_MAX;

/// The end of the input, as the poll has reported it. After a report, a short read need not be the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputEnd {
    /// Nothing.
    Unseen,
    /// There is urgent data. The kernel ends a read before it, even if more lies behind.
    Urgent,
    /// The peer has shut its sending side, or has gone.
    Shut,
}

/// The next step for a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for the kernel or for a letter.
    Wait,
    /// There is more to do at once: at the next turn, after the others.
    Again,
    /// Close.
    Close(CloseCause),
}

/// The progress of a connection in a turn, for which its deadline may start anew.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnProgress {
    /// An answer was completed: the next input is a new request.
    pub has_answered: bool,
    /// The kernel has taken all unsent output.
    pub has_flushed: bool,
}

/// Buffers and counters that a turn lends to the connection it serves.
pub struct TurnContext<'w, S: Service> {
    /// For its session. All connections of a worker share the output, which is empty between two turns.
    pub call: SessionCall<'w, S>,
    /// The most bytes that the turn reads.
    pub read_bytes_max: usize,
    /// The buffer for reads, which all connections of a worker share.
    pub read_buffer: &'w mut [u8],
    /// The counters of bytes.
    pub counters: &'w EngineCounters,
    /// Filled in by the connection.
    pub progress: TurnProgress,
}

/// A client.
pub struct Connection<S: Service> {
    stream: Stream,
    session: Session<S>,
    /// Input that was read: an unfinished request, or bytes that the session has not looked at yet.
    input: Vec<u8>,
    /// The session's next wish. While a request waits for a vote, nothing behind it is read.
    next: Next,
    /// Bytes that a closing connection may still read and drop.
    linger_bytes: usize,
    /// The kernel may hold more input, or the end of it.
    is_readable: bool,
    input_end: InputEnd,
    /// A request was answered on this connection.
    was_answered: bool,
}

impl<S: Service> Connection<S> {
    /// A connection that was just accepted; it may have sent something already.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            session: Session::default(),
            input: Vec::new(),
            next: Next::Input,
            linger_bytes: 0,
            is_readable: true,
            input_end: InputEnd::Unseen,
            was_answered: false,
        }
    }

    /// The stream, to register its socket and to tell its peer.
    #[must_use]
    pub const fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Notes that the kernel may hold input.
    pub const fn look_again(&mut self) {
        self.is_readable = true;
    }

    /// Notes what the poll reported.
    #[inline]
    pub fn note_event(&mut self, event: &Event) {
        self.is_readable |= event.is_readable() || event.is_read_closed() || event.is_priority();
        if event.is_read_closed() {
            self.input_end = InputEnd::Shut;
        } else if event.is_priority() && self.input_end == InputEnd::Unseen {
            self.input_end = InputEnd::Urgent;
        }
    }

    /// Has the session look at its waiting request again.
    pub fn wake(&mut self) {
        if self.is_parked() || self.is_waiting() {
            self.next = Next::Output;
        }
    }

    /// Whether its request waits for a vote.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.next, Next::Waiting(_))
    }

    /// Whether its request waits for another thread.
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        matches!(self.next, Next::Parked { .. })
    }

    /// Whether the client has shown the key.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.session.is_keyed()
    }

    /// Whether the kernel has refused bytes.
    #[must_use]
    pub const fn has_unsent(&self) -> bool {
        self.stream.has_unsent()
    }

    /// Whether no request is under way. An empty line before a request does not begin one.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.next, Next::Input | Next::Output)
            && matches!(self.input[..], [] | [b'\r'] | [b'\r', b'\n'])
            && !self.has_unsent()
            && self.session.is_between_requests()
    }

    /// Whether a request was answered. A connection without an answer is about to ask.
    #[must_use]
    pub const fn was_answered(&self) -> bool {
        self.was_answered
    }

    /// The memory that the connection uses besides its slot, in bytes.
    #[inline]
    pub fn used_bytes(&self, service: &S) -> usize {
        self.input.capacity() + self.stream.unsent_capacity() + self.session.used_bytes(service)
    }

    /// Whether the client can be sent a refusal. Not behind an answer that it does not take, and not in place of the
    /// answer to a request that may have been carried out already.
    #[must_use]
    pub const fn can_be_refused(&self) -> bool {
        matches!(self.next, Next::Input | Next::Output | Next::Parked { .. })
            && !self.has_unsent()
            && !self.session.owes_an_answer()
    }

    /// The event that the connection has a deadline for; `None` for no deadline.
    #[must_use]
    pub fn awaited(&self) -> Option<Awaited> {
        let class = match self.next {
            _ if self.has_unsent() => Class::Write,
            Next::Close { .. } => Class::Linger,
            Next::Parked { .. } => return None,
            Next::Waiting(seconds) => Class::Waiting(seconds),
            Next::Input | Next::Output => match self.is_idle() {
                true if self.was_answered => Class::Idle,
                true => Class::Fresh,
                false => Class::Request,
            },
        };
        Some(Awaited { class, is_keyed: self.session.is_keyed() })
    }

    /// Whether the deadline for the same event as before starts anew after a turn.
    #[must_use]
    pub const fn starts_anew(&self, awaited: Awaited, progress: TurnProgress) -> bool {
        match awaited.class {
            // A client that has shown the key may take any time for content, as long as more comes.
            Class::Request if awaited.is_keyed => progress.has_answered || !self.session.is_between_requests(),
            Class::Request | Class::Waiting(_) => progress.has_answered,
            Class::Write => progress.has_flushed,
            Class::Idle => true,
            Class::Fresh | Class::Linger => false,
        }
    }

    /// Panics if the connection's fields contradict each other. For builds that check.
    #[cfg(debug_assertions)]
    pub fn check_invariants(&self) {
        let has_input = !self.input.is_empty();
        assert!(has_input || self.input.capacity() == 0, "no memory is used for no input");
        match self.next {
            Next::Input | Next::Output => {}
            Next::Parked { .. } | Next::Waiting(_) => {
                assert!(!self.session.is_between_requests(), "a request is what waits")
            }
            Next::Close { .. } => assert!(!has_input, "nothing more is read"),
        }
    }

    /// One turn: sends the unsent output, reads once, answers all whole requests, writes once.
    pub fn serve(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        if self.has_unsent() {
            match self.stream.flush(turn.counters) {
                Ok(()) if self.has_unsent() => return Verdict::Wait,
                Ok(()) => turn.progress.has_flushed = true,
                Err(_gone) => return Verdict::Close(CloseCause::Broken),
            }
        }
        match self.next {
            Next::Output => self.work(turn),
            Next::Input if self.is_readable => self.read(turn),
            Next::Waiting(_) if turn.call.closing || self.input_end == InputEnd::Shut => {
                self.conclude(Waiting::Ended, turn)
            }
            Next::Parked { ends_with_input: true } if self.input_end != InputEnd::Unseen && self.stream.has_ended() => {
                Verdict::Close(CloseCause::Done)
            }
            Next::Input | Next::Waiting(_) | Next::Parked { .. } => Verdict::Wait,
            Next::Close { .. } if turn.progress.has_flushed => self.shut(turn),
            Next::Close { .. } => self.linger(turn),
        }
    }

    /// Answers a waiting request by the current state.
    pub fn conclude(&mut self, waiting: Waiting, turn: &mut TurnContext<'_, S>) -> Verdict {
        if !self.is_waiting() || self.has_unsent() {
            return self.serve(turn);
        }
        turn.call.waiting = waiting;
        self.work(turn)
    }

    /// Answers the request under way with `fault` and closes.
    pub fn refuse(&mut self, fault: Fault, turn: &mut TurnContext<'_, S>) -> Verdict {
        let head_only = is_head_method(&self.input);
        self.session.refuse(fault, head_only, &self.stream, &mut turn.call);
        self.leave(true, turn)
    }

    fn read(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        let begun = self.input.len();
        let buffer = &mut *turn.read_buffer;
        buffer[..begun].copy_from_slice(&self.input);
        let free_bytes = (buffer.len() - begun).min(turn.read_bytes_max);
        match self.stream.read(&mut buffer[begun..begun + free_bytes], turn.counters) {
            Ok(0) => self.end_of_input(turn),
            Ok(bytes) => {
                // A short read has emptied the kernel's buffer: a second read would give nothing.
                self.is_readable = self.input_end != InputEnd::Unseen || bytes == free_bytes;
                let input = &turn.read_buffer[..begun + bytes];
                let advanced = self.session.advance(input, &self.stream, &mut turn.call);
                keep(&mut self.input, &input[advanced.consumed..]);
                self.after(advanced, turn)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Verdict::Wait
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Verdict::Again,
            Err(_gone) => Verdict::Close(CloseCause::Broken),
        }
    }

    /// Goes on with input that had to wait.
    fn work(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        let input = std::mem::take(&mut self.input);
        let advanced = self.session.advance(&input, &self.stream, &mut turn.call);
        keep(&mut self.input, &input[advanced.consumed..]);
        self.after(advanced, turn)
    }

    fn end_of_input(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        if self.is_idle() {
            return Verdict::Close(CloseCause::Done);
        }
        // The request cannot become whole any more. The client may still listen, and gets an answer.
        self.is_readable = false;
        self.refuse(Fault::BadRequest, turn)
    }

    fn after(&mut self, advanced: Advanced, turn: &mut TurnContext<'_, S>) -> Verdict {
        turn.progress.has_answered |= advanced.answered > 0;
        self.was_answered |= advanced.answered > 0;
        self.next = advanced.next;
        if let Next::Close { linger } = advanced.next {
            return self.leave(linger || self.is_readable, turn);
        }
        if self.stream.send(turn.call.out, false, turn.counters).is_err() {
            return Verdict::Close(CloseCause::Broken);
        }
        let may_go_on = match self.next {
            Next::Output => true,
            Next::Input => self.is_readable,
            // A client that sends nothing more may have gone: its request does not wait.
            Next::Waiting(_) => self.input_end == InputEnd::Shut,
            Next::Parked { ends_with_input } => ends_with_input && self.input_end != InputEnd::Unseen,
            Next::Close { .. } => false,
        };
        if may_go_on && !self.has_unsent() { Verdict::Again } else { Verdict::Wait }
    }

    /// Sends the output as the last, and closes. With `linger`, further input is read and dropped first.
    fn leave(&mut self, linger: bool, turn: &mut TurnContext<'_, S>) -> Verdict {
        self.next = Next::Close { linger };
        self.linger_bytes = if linger { LINGER_BYTES_MAX } else { 0 };
        self.input = Vec::new();
        match self.stream.send(turn.call.out, true, turn.counters) {
            Err(_gone) => Verdict::Close(CloseCause::Broken),
            Ok(()) if self.has_unsent() => Verdict::Wait,
            Ok(()) => self.shut(turn),
        }
    }

    fn shut(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        // Needed without lingering too. If input has come since the last read, the kernel resets the connection
        // when it is closed, and drops the answer that is to go out with the end.
        if self.stream.shut().is_err() || self.linger_bytes == 0 {
            return Verdict::Close(CloseCause::Done);
        }
        self.linger(turn)
    }

    fn linger(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        match self.stream.read(turn.read_buffer, turn.counters) {
            Ok(bytes) if bytes > 0 && bytes <= self.linger_bytes => {
                self.linger_bytes -= bytes;
                Verdict::Again
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Verdict::Wait,
            Err(error) if error.kind() == ErrorKind::Interrupted => Verdict::Again,
            Ok(_) | Err(_) => Verdict::Close(CloseCause::Done),
        }
    }
}

/// Replaces the kept input by `rest`, and frees its memory if `rest` is empty.
fn keep(kept: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() {
        if kept.capacity() > 0 {
            *kept = Vec::new();
        }
    } else {
        kept.clear();
        // No spare capacity: very many connections may keep input.
        kept.reserve_exact(rest.len());
        kept.extend_from_slice(rest);
    }
}
