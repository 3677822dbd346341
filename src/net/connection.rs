//! One client: its socket, its session, and the bytes that wait in either direction.
//!
//! An idle connection holds no buffer. Input is kept only while a request is not whole or has to
//! wait, output only while the kernel does not take it.

use std::io::ErrorKind;

use mio::event::Event;

use super::counters::EngineCounters;
use super::deadline::Class;
use super::stream::Stream;
use crate::http::fault::Fault;
use crate::http::session::{Advanced, Holding, Next, Service, Session, SessionCall, is_head_method};
use crate::http::wait::WaitSeconds;
use crate::limits::LINGER_BYTES_MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionState {
    /// Reads what the client sends.
    Reading,
    /// Has input that is to be worked through before more is read.
    Working,
    /// Waits to be woken; then it works on.
    Parked,
    /// Has a request that is held, for so long at most; nothing behind it is read meanwhile.
    Waiting(WaitSeconds),
    /// Sends what is left, then closes.
    Closing { linger: bool },
    /// Has shut its side, and drops what still comes in.
    Lingering { dropped_bytes: usize },
    /// The peer went away before its time.
    Broken,
}

/// What the poll has told of the end of the input. A read that is short is not the last one where there is
/// something to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InputEnd {
    /// Nothing.
    Unseen,
    /// There is urgent data, before which the kernel ends a read whatever lies behind.
    Urgent,
    /// The peer has shut its sending side, or has gone.
    Shut,
}

/// What is to become of a connection after its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Wait for the kernel or for a letter.
    Wait,
    /// There is more to do at once: at the next turn, after the others.
    Again,
    /// Close.
    Drop,
}

/// What a connection has done in a turn: its deadline may start anew for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnProgress {
    /// An answer was completed: what comes next is a new request.
    pub has_answered: bool,
    /// All that had waited to be sent was taken.
    pub has_flushed: bool,
}

/// What a turn lends to the connection that it serves.
pub struct TurnContext<'w, S: Service> {
    /// What its session is lent. The output is shared by all connections of a worker, and empty between two.
    pub call: SessionCall<'w, S>,
    /// At most so much is read.
    pub read_bytes_max: usize,
    /// Where reads go, shared likewise.
    pub read_buffer: &'w mut [u8],
    /// Where bytes are counted.
    pub counters: &'w EngineCounters,
    /// Filled in by the connection.
    pub progress: TurnProgress,
}

/// A client.
pub struct Connection<S: Service> {
    stream: Stream,
    session: Session<S>,
    /// Begun and not whole; or, where there is work or will be, not looked at yet.
    input: Vec<u8>,
    state: ConnectionState,
    /// The kernel may hold more input, or the end of it.
    is_readable: bool,
    input_end: InputEnd,
    /// Something was answered on this connection.
    has_asked: bool,
}

impl<S: Service> Connection<S> {
    /// A connection that was just accepted; it may have sent something already.
    #[must_use]
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            session: Session::default(),
            input: Vec::new(),
            state: ConnectionState::Reading,
            is_readable: true,
            input_end: InputEnd::Unseen,
            has_asked: false,
        }
    }

    /// The stream, to register its socket.
    pub fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// The kernel may hold input: to be looked for.
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

    /// What the connection waits for is there.
    pub fn wake(&mut self) {
        if matches!(self.state, ConnectionState::Parked | ConnectionState::Waiting(_)) {
            self.state = ConnectionState::Working;
        }
    }

    /// Whether its request is held.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        matches!(self.state, ConnectionState::Waiting(_))
    }

    /// Whether its request waits for another thread.
    #[must_use]
    pub const fn is_parked(&self) -> bool {
        matches!(self.state, ConnectionState::Parked)
    }

    /// Whether the kernel has refused bytes.
    #[must_use]
    pub const fn has_unsent(&self) -> bool {
        self.stream.has_unsent()
    }

    /// Whether nothing was asked that is not answered yet. An empty line before a request is none.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        matches!(self.state, ConnectionState::Reading | ConnectionState::Working)
            && matches!(self.input[..], [] | [b'\r'] | [b'\r', b'\n'])
            && !self.has_unsent()
            && self.session.is_between_requests()
    }

    /// Whether something was answered: a connection without is one that is about to ask.
    #[must_use]
    pub const fn has_asked(&self) -> bool {
        self.has_asked
    }

    /// The memory that it holds besides itself, in bytes.
    #[inline]
    pub fn held_bytes(&self, service: &S) -> usize {
        self.input.capacity() + self.stream.held_bytes() + self.session.held_bytes(service)
    }

    /// Whether it can be told that it is refused: not behind an answer that it does not take, and not in
    /// place of the answer to what may have been done already.
    #[must_use]
    pub const fn can_be_refused(&self) -> bool {
        use ConnectionState::{Parked, Reading, Working};
        matches!(self.state, Reading | Working | Parked) && !self.has_unsent() && !self.session.owes_an_answer()
    }

    /// Whether the peer went away before its time.
    #[must_use]
    pub const fn is_broken(&self) -> bool {
        matches!(self.state, ConnectionState::Broken)
    }

    fn break_off(&mut self) -> Verdict {
        self.state = ConnectionState::Broken;
        Verdict::Drop
    }

    /// What the connection is waited on for; `None` for no deadline.
    #[must_use]
    pub fn deadline_class(&self) -> Option<Class> {
        let class = match self.state {
            _ if self.has_unsent() => Class::Write,
            ConnectionState::Lingering { .. } => Class::Linger,
            ConnectionState::Parked | ConnectionState::Broken => return None,
            ConnectionState::Waiting(seconds) => Class::Waiting(seconds),
            ConnectionState::Reading | ConnectionState::Working | ConnectionState::Closing { .. } => {
                match self.is_idle() {
                    true if self.has_asked => Class::Idle,
                    true => Class::Fresh,
                    false => Class::Request,
                }
            }
        };
        Some(if self.session.is_keyed() { class.keyed() } else { class })
    }

    /// Whether the time that it has for the same as before starts anew after a turn.
    #[must_use]
    pub const fn starts_anew(&self, class: Class, progress: TurnProgress) -> bool {
        match class {
            Class::Request | Class::Waiting(_) => progress.has_answered,
            // Content is waited for as long as it comes, but only that of who has shown the key.
            Class::KeyedRequest => progress.has_answered || !self.session.is_between_requests(),
            Class::Write | Class::KeyedWrite => progress.has_flushed,
            Class::Idle | Class::KeyedIdle => true,
            Class::Fresh | Class::Linger => false,
        }
    }

    /// Panics where what it says of itself does not agree. For builds that check.
    #[cfg(debug_assertions)]
    pub fn check_invariants(&self) {
        let has_input = !self.input.is_empty();
        assert!(has_input || self.input.capacity() == 0, "no room is held for no input");
        match self.state {
            ConnectionState::Reading | ConnectionState::Working | ConnectionState::Broken => {}
            ConnectionState::Parked | ConnectionState::Waiting(_) => {
                assert!(!self.session.is_between_requests(), "a request is what waits")
            }
            ConnectionState::Closing { .. } => assert!(!has_input && self.has_unsent(), "it is there to send"),
            ConnectionState::Lingering { .. } => assert!(!has_input && !self.has_unsent(), "all is said"),
        }
    }

    /// One turn: sends what waits, reads once, answers all that is whole, writes once.
    pub fn serve(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        if self.has_unsent() {
            match self.stream.flush(turn.counters) {
                Ok(()) if self.has_unsent() => return Verdict::Wait,
                Ok(()) => turn.progress.has_flushed = true,
                Err(_gone) => return self.break_off(),
            }
        }
        if self.input_end != InputEnd::Unseen
            && self.session.ends_with_input(turn.call.service)
            && self.stream.has_ended()
        {
            return Verdict::Drop;
        }
        match self.state {
            ConnectionState::Working => self.work(turn),
            ConnectionState::Reading if self.is_readable => self.read(turn),
            ConnectionState::Waiting(_) if turn.call.closing || self.input_end == InputEnd::Shut => {
                self.conclude(Holding::Ended, turn)
            }
            ConnectionState::Reading | ConnectionState::Waiting(_) | ConnectionState::Parked => Verdict::Wait,
            ConnectionState::Closing { linger } => self.close(linger, turn),
            ConnectionState::Lingering { .. } => self.linger(turn),
            ConnectionState::Broken => Verdict::Drop,
        }
    }

    /// Answers a request that is held with what is true now.
    pub fn conclude(&mut self, holding: Holding, turn: &mut TurnContext<'_, S>) -> Verdict {
        if !self.is_waiting() || self.has_unsent() {
            return self.serve(turn);
        }
        turn.call.context.holding = holding;
        self.work(turn)
    }

    /// Answers the request under way with `fault` and closes.
    pub fn refuse(&mut self, fault: Fault, turn: &mut TurnContext<'_, S>) -> Verdict {
        let head_only = is_head_method(&self.input);
        self.session.refuse(fault, head_only, &mut turn.call);
        turn.call.service.answered(|| self.stream.peer());
        self.send_and_close(true, turn)
    }

    /// Says that there is no room, and closes.
    pub fn turn_away(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        turn.counters.turned_away.add(1);
        self.refuse(Fault::NotReady, turn)
    }

    fn read(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        let held = self.input.len();
        let buffer = &mut *turn.read_buffer;
        buffer[..held].copy_from_slice(&self.input);
        let room_bytes = (buffer.len() - held).min(turn.read_bytes_max);
        match self.stream.read(&mut buffer[held..held + room_bytes], turn.counters) {
            Ok(0) => self.end_of_input(turn),
            Ok(bytes) => {
                // A short read has emptied the kernel's buffer: no second read to be told so.
                self.is_readable = self.input_end != InputEnd::Unseen || bytes == room_bytes;
                let input = &turn.read_buffer[..held + bytes];
                let advanced = self.session.advance(input, &mut turn.call);
                keep(&mut self.input, &input[advanced.consumed..]);
                self.after(advanced, turn)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.is_readable = false;
                Verdict::Wait
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => Verdict::Again,
            Err(_gone) => self.break_off(),
        }
    }

    /// Goes on with input that had to wait.
    fn work(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        let input = std::mem::take(&mut self.input);
        let advanced = self.session.advance(&input, &mut turn.call);
        keep(&mut self.input, &input[advanced.consumed..]);
        self.after(advanced, turn)
    }

    fn end_of_input(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        if self.is_idle() {
            return Verdict::Drop;
        }
        // It cannot become whole any more, and an answer is owed to whoever still listens.
        self.is_readable = false;
        self.refuse(Fault::BadRequest, turn)
    }

    fn after(&mut self, advanced: Advanced, turn: &mut TurnContext<'_, S>) -> Verdict {
        turn.call.service.answered(|| self.stream.peer());
        turn.progress.has_answered |= advanced.answered > 0;
        self.has_asked |= advanced.answered > 0;
        self.state = match advanced.next {
            Next::Close { linger } => return self.send_and_close(linger || self.is_readable, turn),
            Next::Input => ConnectionState::Reading,
            Next::Output => ConnectionState::Working,
            Next::Parked => ConnectionState::Parked,
            Next::Waiting(seconds) => ConnectionState::Waiting(seconds),
        };
        if self.stream.send(turn.call.out, false, turn.counters).is_err() {
            return self.break_off();
        }
        let may_go_on = match self.state {
            ConnectionState::Working => true,
            ConnectionState::Reading => self.is_readable,
            // Who sends nothing more may have gone: it is answered and not waited for.
            ConnectionState::Waiting(_) => self.input_end == InputEnd::Shut,
            _ => false,
        };
        if may_go_on && !self.has_unsent() { Verdict::Again } else { Verdict::Wait }
    }

    fn send_and_close(&mut self, linger: bool, turn: &mut TurnContext<'_, S>) -> Verdict {
        self.state = ConnectionState::Closing { linger };
        self.input = Vec::new();
        match self.stream.send(turn.call.out, true, turn.counters) {
            Err(_gone) => self.break_off(),
            Ok(()) if self.has_unsent() => Verdict::Wait,
            Ok(()) => self.close(linger, turn),
        }
    }

    fn close(&mut self, linger: bool, turn: &mut TurnContext<'_, S>) -> Verdict {
        // Also where nobody is waited for: what has come since the last read would have the kernel reset the
        // connection when it is closed, and drop the answer that is to go out with the end.
        if self.stream.shut().is_err() || !linger {
            return Verdict::Drop;
        }
        self.state = ConnectionState::Lingering { dropped_bytes: 0 };
        self.linger(turn)
    }

    fn linger(&mut self, turn: &mut TurnContext<'_, S>) -> Verdict {
        let ConnectionState::Lingering { dropped_bytes } = &mut self.state else { return Verdict::Drop };
        match self.stream.read(turn.read_buffer, turn.counters) {
            Ok(0) => Verdict::Drop,
            Ok(bytes) => {
                *dropped_bytes += bytes;
                if *dropped_bytes > LINGER_BYTES_MAX { Verdict::Drop } else { Verdict::Again }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Verdict::Wait,
            Err(error) if error.kind() == ErrorKind::Interrupted => Verdict::Again,
            Err(_gone) => Verdict::Drop,
        }
    }
}

/// Replaces what is held by `rest`, and gives memory back where there is none.
fn keep(held: &mut Vec<u8>, rest: &[u8]) {
    if rest.is_empty() {
        if held.capacity() > 0 {
            *held = Vec::new();
        }
    } else {
        held.clear();
        // Not a byte more than there is: many may be waited for.
        held.reserve_exact(rest.len());
        held.extend_from_slice(rest);
    }
}
