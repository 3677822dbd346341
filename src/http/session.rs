//! One connection's requests, without its socket: bytes in, responses appended, and the next step.
//!
//! A [`Service`] answers requests; the session frames, orders and bounds. Answers leave in the order
//! of the requests: a request that waits holds up those behind it.

use std::net::SocketAddr;
use std::ops::ControlFlow::{self, Break, Continue};

use super::body::{Decoder, Length};
use super::fault::Fault;
use super::field::Section;
use super::head::{self, Head, HeadLimits};
use super::response::{ConnectionField, Framing};
use super::wait::WaitSeconds;
use crate::vote::time::UnixSeconds;

/// Names a connection to the thread that will wake it, and never a later connection in its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Whether a request may wait until something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// The request may wait.
    Allowed,
    /// The request under way has waited for as long as it asked, or the loop goes away and waits for nothing more. The
    /// service has to answer now: after [`Step::Parked`] the connection would be closed without an answer.
    TimeIsUp,
    /// The request may not wait any more: the client sends nothing more, its slot or memory is needed, or the loop
    /// goes away.
    Ended,
}

/// A client's connection, as a service sees it.
pub trait Client {
    /// The address of the client; `None` over a Unix socket, and once the client has gone.
    fn peer(&self) -> Option<SocketAddr>;

    /// Whether the client has closed its sending side, or has gone.
    fn has_ended(&self) -> bool;
}

/// A client that is known by its address alone, and never closes.
impl Client for Option<SocketAddr> {
    fn peer(&self) -> Option<SocketAddr> {
        *self
    }

    fn has_ended(&self) -> bool {
        false
    }
}

/// The circumstances of a request, for the service.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The wall clock, read once per turn of the loop.
    pub now: UnixSeconds,
    /// The connection that asks.
    pub ticket: Ticket,
    /// Whether the request may wait.
    pub waiting: Waiting,
    /// The client.
    pub client: &'a dyn Client,
}

/// The use of a request's content, if there is some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Read before the answer, up to this many bytes; more is refused.
    Read(u64),
    /// Not read, as it could not change the answer. The connection is closed behind the answer instead.
    Unread,
}

/// A request whose head a service has taken.
pub struct Begun<E> {
    /// The service's state for the request until it is answered.
    pub exchange: E,
    /// Whether the client has shown the key.
    pub is_keyed: bool,
    /// The use of the content.
    pub content: Content,
}

/// Whether a service takes more content at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Intake {
    /// The service takes more.
    Open,
    /// Another thread has to finish earlier content first; the connection is woken then.
    Parked,
}

/// How far a service has come with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The answer is whole.
    Done,
    /// The request waits for another thread. The session calls again once the connection is woken.
    Parked {
        /// The answer has no end of its own. It ends as soon as the client shuts its sending side: there is no
        /// other sign that the client has gone.
        ends_with_input: bool,
    },
    /// The request waits until there is another answer. The session calls again once the connection is woken, the time
    /// is over, or [`Waiting`] does not allow it any more.
    Wait(WaitSeconds),
    /// There is more to append. The session calls again once the output has been sent.
    More,
}

/// The part that an engine serves: one request in, one answer out.
pub trait Service {
    /// The service's state for one request until it is answered.
    type Exchange;

    /// Takes a request's head.
    fn begin(&mut self, head: &Head<'_>, context: &Context<'_>) -> Begun<Self::Exchange>;

    /// Takes a piece of content.
    fn content(&mut self, exchange: &mut Self::Exchange, bytes: &[u8], context: &Context<'_>) -> Intake;

    /// Appends the answer, or the next part of it. The answer tells the state of now, however long ago the request
    /// began.
    fn answer(
        &mut self,
        exchange: &mut Self::Exchange,
        framing: Framing,
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Step;

    /// Appends the answer to a request that is refused before it became an exchange.
    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context<'_>, out: &mut Vec<u8>);

    /// The memory that an exchange uses for the client's content and for its answer, in bytes, roughly.
    fn used_bytes(&self, exchange: &Self::Exchange) -> usize;

    /// A turn of the loop begins: all requests of a turn are asked at one moment.
    fn turn_begins(&mut self) {}

    /// The longest rest of the loop until its next turn, in milliseconds.
    fn rest_ms(&self) -> Option<u64> {
        None
    }

    /// A connection has gone, whatever its client had asked for.
    fn gone(&mut self, _ticket: Ticket) {}

    /// The loop goes away: an answer without an end of its own has to end.
    fn goes_away(&mut self) {}
}

/// Everything that a session is lent to handle some input.
pub struct SessionCall<'a, S: Service> {
    /// Answers requests.
    pub service: &'a mut S,
    /// The wall clock.
    pub now: UnixSeconds,
    /// The name of the connection.
    pub ticket: Ticket,
    /// Whether its request may wait.
    pub waiting: Waiting,
    /// Bounds on a head.
    pub limits: HeadLimits,
    /// The session stops before the next request while this many bytes wait in the output.
    pub unsent_bytes_max: usize,
    /// The next answer is the last.
    pub closing: bool,
    /// The output, to which answers are appended.
    pub out: &'a mut Vec<u8>,
}

impl<S: Service> SessionCall<'_, S> {
    #[inline]
    fn context<'c>(&self, client: &'c dyn Client) -> Context<'c> {
        Context { now: self.now, ticket: self.ticket, waiting: self.waiting, client }
    }
}

/// The next wish of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Input,
    /// To be woken; see [`Step::Parked`].
    Parked {
        /// Or the end of the input.
        ends_with_input: bool,
    },
    /// To be woken, or called again after this time.
    Waiting(WaitSeconds),
    /// The output sent, then to be called again with the rest of the input.
    Output,
    /// The output sent, then the connection closed.
    Close {
        /// The client may still be sending. Its bytes are read and dropped for a while: otherwise a reset could
        /// overtake the answer (RFC 9112, 9.6).
        linger: bool,
    },
}

/// The result of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    /// Bytes of the input that are used up.
    pub consumed: usize,
    /// Requests whose answer is complete.
    pub answered: u32,
    /// The next step.
    pub next: Next,
}

enum Phase<S: Service> {
    Head,
    Content {
        exchange: S::Exchange,
        decoder: Decoder,
        framing: Framing,
    },
    /// `is_begun` once the head of the answer has been appended.
    Answer {
        exchange: S::Exchange,
        framing: Framing,
        is_begun: bool,
    },
    Closed,
}

/// State of one connection between its requests and inside them.
pub struct Session<S: Service> {
    phase: Phase<S>,
    /// Bytes of the output that belong to whole answers.
    whole_bytes: usize,
    /// A request on this connection had the key.
    is_keyed: bool,
    /// The last request was answered at its head: its content is not read, and may still be coming.
    leaves_content: bool,
}

impl<S: Service> Default for Session<S> {
    fn default() -> Self {
        Self { phase: Phase::Head, whole_bytes: 0, is_keyed: false, leaves_content: false }
    }
}

impl<S: Service> Session<S> {
    /// Whether the session stands between two requests, apart from bytes that were not consumed.
    #[must_use]
    pub const fn is_between_requests(&self) -> bool {
        matches!(self.phase, Phase::Head)
    }

    /// Whether a request has been taken whole and not been answered yet.
    #[must_use]
    pub const fn owes_an_answer(&self) -> bool {
        matches!(self.phase, Phase::Answer { .. })
    }

    /// The memory that the exchange under way uses, in bytes.
    #[inline]
    pub fn used_bytes(&self, service: &S) -> usize {
        match &self.phase {
            Phase::Content { exchange, .. } | Phase::Answer { exchange, .. } => service.used_bytes(exchange),
            Phase::Head | Phase::Closed => 0,
        }
    }

    /// Whether a request on this connection had the key.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    /// Handles every whole request in `input`, up to the bound on waiting output.
    #[inline]
    pub fn advance(&mut self, input: &[u8], client: &dyn Client, call: &mut SessionCall<'_, S>) -> Advanced {
        let mut rest = input;
        let mut answered = 0;
        self.whole_bytes = call.out.len();
        let next = loop {
            if call.out.len() >= call.unsent_bytes_max {
                break Next::Output;
            }
            let flow = match &mut self.phase {
                Phase::Head if rest.is_empty() => break Next::Input,
                Phase::Head => self.head(&mut rest, client, call),
                Phase::Content { .. } => self.content(&mut rest, client, call),
                Phase::Answer { .. } => self.answer(client, call),
                // A client that did not ask for the end may be sending the next request, or content that is not read.
                Phase::Closed => break Next::Close { linger: call.closing || self.leaves_content || !rest.is_empty() },
            };
            if matches!(self.phase, Phase::Head | Phase::Closed) && flow.is_continue() {
                answered += 1;
                self.whole_bytes = call.out.len();
            }
            if let Break(next) = flow {
                break next;
            }
        };
        Advanced { consumed: input.len() - rest.len(), answered, next }
    }

    /// Ends the session with `fault` in answer to the request under way. Takes back the part of an
    /// answer that a panic may have left.
    pub fn refuse(&mut self, fault: Fault, head_only: bool, client: &dyn Client, call: &mut SessionCall<'_, S>) {
        let head_only = match &self.phase {
            Phase::Content { framing, .. } | Phase::Answer { framing, .. } => framing.head_only,
            Phase::Head | Phase::Closed => head_only,
        };
        self.phase = Phase::Closed;
        call.out.truncate(self.whole_bytes);
        let context = call.context(client);
        call.service.refuse(fault, Framing::last(head_only), &context, call.out);
    }

    fn refuse_and_close(
        &mut self,
        fault: Fault,
        head_only: bool,
        client: &dyn Client,
        call: &mut SessionCall<'_, S>,
    ) -> ControlFlow<Next> {
        self.refuse(fault, head_only, client, call);
        Break(Next::Close { linger: true })
    }

    #[inline]
    fn head(&mut self, rest: &mut &[u8], client: &dyn Client, call: &mut SessionCall<'_, S>) -> ControlFlow<Next> {
        let input = *rest;
        // A reference, not a move: the processor stalls on a copy of fields that were written one by one just before.
        let parsed = head::parse(input, call.limits);
        let (head, bytes) = match &parsed {
            Section::Complete(head, bytes) => (head, *bytes),
            Section::Partial => return Break(Next::Input),
            Section::Rejected(fault) => return self.refuse_and_close(*fault, is_head_method(input), client, call),
        };
        let context = call.context(client);
        let Begun { mut exchange, is_keyed, content } = call.service.begin(head, &context);
        *rest = &input[bytes..];
        let mut framing = Framing::of(head, call.closing);
        self.is_keyed |= is_keyed;
        match content {
            _ if head.length == Length::None => {}
            Content::Read(bytes_max) => {
                match Decoder::new(head.length, bytes_max) {
                    Ok(decoder) => self.phase = Phase::Content { exchange, decoder, framing },
                    Err(fault) => return self.refuse_and_close(fault, framing.head_only, client, call),
                }
                if head.expects_continue {
                    call.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                    self.whole_bytes = call.out.len();
                }
                return Continue(());
            }
            Content::Unread => {
                self.leaves_content = true;
                framing.connection = ConnectionField::Close;
            }
        }
        let step = call.service.answer(&mut exchange, framing, &context, call.out);
        if step != Step::Done {
            self.phase = Phase::Answer { exchange, framing, is_begun: step == Step::More };
        }
        self.after(step, framing)
    }

    #[inline(never)]
    fn content(&mut self, rest: &mut &[u8], client: &dyn Client, call: &mut SessionCall<'_, S>) -> ControlFlow<Next> {
        let Phase::Content { exchange, decoder, framing, .. } = &mut self.phase else { return Continue(()) };
        let piece = match decoder.decode(rest) {
            Ok(piece) => piece,
            Err(fault) => return self.refuse_and_close(fault, false, client, call),
        };
        *rest = &rest[piece.consumed..];
        let intake = if piece.content.is_empty() {
            Intake::Open
        } else {
            let context = call.context(client);
            call.service.content(exchange, piece.content, &context)
        };
        if piece.ended {
            let framing = *framing;
            if let Phase::Content { exchange, .. } = std::mem::replace(&mut self.phase, Phase::Closed) {
                self.phase = Phase::Answer { exchange, framing, is_begun: false };
            }
            return Continue(());
        }
        match intake {
            Intake::Parked => Break(Next::Parked { ends_with_input: false }),
            Intake::Open if piece.consumed == 0 => Break(Next::Input),
            Intake::Open => Continue(()),
        }
    }

    /// Answers a request that had to wait, or goes on with an answer that has parts. A function of its own, like
    /// `content`: so an ordinary request takes fewer instructions.
    #[inline(never)]
    fn answer(&mut self, client: &dyn Client, call: &mut SessionCall<'_, S>) -> ControlFlow<Next> {
        let Phase::Answer { exchange, framing, is_begun } = &mut self.phase else { return Continue(()) };
        if call.closing && !*is_begun {
            framing.connection = ConnectionField::Close;
        }
        let framing = *framing;
        let context = call.context(client);
        let step = call.service.answer(exchange, framing, &context, call.out);
        *is_begun |= step == Step::More;
        if step == Step::Done && call.waiting == Waiting::TimeIsUp {
            // Only this request's time was up. The next one has its own time.
            call.waiting = Waiting::Allowed;
        }
        self.after(step, framing)
    }

    #[inline]
    fn after(&mut self, step: Step, framing: Framing) -> ControlFlow<Next> {
        match step {
            Step::Done => {}
            Step::Parked { ends_with_input } => return Break(Next::Parked { ends_with_input }),
            Step::Wait(seconds) => return Break(Next::Waiting(seconds)),
            Step::More => return Break(Next::Output),
        }
        if framing.connection == ConnectionField::Close {
            self.phase = Phase::Closed;
        } else if !matches!(self.phase, Phase::Head) {
            // Most requests are answered at their head, and are in this phase already.
            self.phase = Phase::Head;
        }
        Continue(())
    }
}

/// Whether the refused input begins as a `HEAD` request: its answer has no body.
#[must_use]
pub fn is_head_method(input: &[u8]) -> bool {
    input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ")
}
