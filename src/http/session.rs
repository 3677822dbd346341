//! One connection's requests, without its socket: bytes in, responses appended, and what to do next.
//!
//! A [`Service`] says what a request is answered; the session frames, orders and bounds. Answers
//! leave in the order of the requests: a request that waits (parked) holds up those behind it.

use std::net::SocketAddr;

use super::body::{Decoder, Length};
use super::fault::Fault;
use super::field::Section;
use super::head::{self, Head, HeadLimits};
use super::response::{ConnectionField, Framing};
use super::wait::WaitSeconds;
use crate::vote::time::UnixSeconds;

/// Names a connection to whoever will wake it: never one that came later in its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(pub u64);

/// Whether a request may be held until something happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holding {
    /// It may.
    Allowed,
    /// The one under way was held for as long as it asked for, or the service leaves and waits for nothing more:
    /// [`Step::Parked`] would be the end without an answer.
    TimeIsUp,
    /// Not any more: the client sends nothing more, its place is needed, or the service is leaving.
    Ended,
}

/// What a service knows of the moment besides the request.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The wall clock, read once per turn of the loop.
    pub now: UnixSeconds,
    /// The connection that asks.
    pub ticket: Ticket,
    /// Whether it may be kept waiting.
    pub holding: Holding,
}

/// How far a service has come with an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Done.
    Done,
    /// Waits for something outside; call again once the connection is woken.
    Parked,
    /// There is more to append; call again once what is there has been sent.
    More,
}

/// What an engine serves: one request in, one answer out.
pub trait Service {
    /// What a service keeps of one request until it is answered.
    type Exchange;
    /// What it keeps besides, of few requests: to decide again when they are answered later.
    type Kept: Send;

    /// A turn of the loop begins: all that is asked in it is asked at one moment.
    #[inline]
    fn turn_begins(&mut self) {}

    /// How long the loop may rest at most until its next turn, in milliseconds.
    #[inline]
    fn rest_ms_max(&self) -> Option<u64> {
        None
    }

    /// The loop goes away: what has no end of its own has to come to one.
    fn goes_away(&mut self) {}

    /// A connection has gone, whatever it had asked for.
    #[inline]
    fn gone(&mut self, _ticket: Ticket) {}

    /// Whether the head alone decides the answer, so that content could not change it: where there is some
    /// it is not read, and the connection is closed behind the answer instead.
    #[inline]
    fn is_decided(&self, _exchange: &Self::Exchange) -> bool {
        false
    }

    /// Whether who asks has shown the key.
    #[inline]
    fn is_keyed(&self, _exchange: &Self::Exchange) -> bool {
        false
    }

    /// Takes a request's head.
    fn begin(&mut self, head: &Head<'_>, context: &Context) -> Self::Exchange;

    /// How much content is taken in an exchange, in bytes.
    fn content_bytes_max(&self, exchange: &Self::Exchange) -> u64;

    /// For how long the request is held until there is something else to tell, if it is. It is decided again
    /// before that, and once it is woken, or the time is over, or [`Holding`] does not allow it any more.
    #[inline]
    fn waits(&self, _exchange: &Self::Exchange) -> Option<WaitSeconds> {
        None
    }

    /// What is kept of a head whose answer may be given later: where content is waited for, and where it
    /// asks to wait. By default nothing.
    fn keep(&self, _head: &Head<'_>, _exchange: &Self::Exchange) -> Option<Box<Self::Kept>> {
        None
    }

    /// The memory of that, in bytes.
    fn kept_bytes(&self, _kept: &Self::Kept) -> usize {
        0
    }

    /// Takes a piece of content: [`Step::Done`] for more, [`Step::Parked`] to pause the client.
    fn content(&mut self, exchange: &mut Self::Exchange, bytes: &[u8], context: &Context) -> Step;

    /// Told of what was kept when the content is over, and each time that a held request is looked at again:
    /// just before [`Service::finish`].
    fn decide_again(&mut self, _exchange: &mut Self::Exchange, _kept: &mut Self::Kept, _context: &Context) {}

    /// What an exchange holds of the client's content and of its answer, in bytes, roughly.
    #[inline]
    fn held_bytes(&self, _exchange: &Self::Exchange) -> usize {
        0
    }

    /// Whether an answer that has no end of its own ends as soon as the client shuts its sending side: there
    /// is no other sign of its having gone.
    #[inline]
    fn ends_with_input(&self, _exchange: &Self::Exchange) -> bool {
        false
    }

    /// Appends the answer, or the next part of it.
    fn finish(&mut self, exchange: &mut Self::Exchange, framing: Framing, context: &Context, out: &mut Vec<u8>)
    -> Step;

    /// Appends the answer to a request that is refused before it became an exchange.
    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>);

    /// Told before answers leave, for those who want to know to whom.
    #[inline]
    fn answered(&mut self, _peer: impl FnOnce() -> Option<SocketAddr>) {}
}

/// Bounds on a session.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Bounds on a head.
    pub head: HeadLimits,
    /// Stop before the next request while so many bytes wait in the output.
    pub unsent_bytes_max: usize,
}

/// What a session is lent to handle some input.
pub struct SessionCall<'a, S: Service> {
    /// Who answers.
    pub service: &'a mut S,
    /// The moment, and who asks.
    pub context: Context,
    /// Bounds on the session.
    pub limits: &'a SessionLimits,
    /// The next answer is the last.
    pub closing: bool,
    /// Where answers are appended.
    pub out: &'a mut Vec<u8>,
}

/// What a session wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// More input.
    Input,
    /// To be woken.
    Parked,
    /// To be woken, or called again after so long.
    Waiting(WaitSeconds),
    /// The output sent, then to be called again with the rest of the input.
    Output,
    /// The output sent, then the connection closed; `linger` where the client may still be sending.
    Close {
        /// Read and drop for a while, lest a reset overtakes the answer (RFC 9112, 9.6).
        linger: bool,
    },
}

/// What became of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Advanced {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    /// Requests whose answer is complete.
    pub answered: u32,
    /// What comes next.
    pub next: Next,
}

enum Phase<S: Service> {
    Head,
    Content {
        exchange: S::Exchange,
        decoder: Decoder,
        framing: Framing,
        kept: Option<Box<S::Kept>>,
    },
    /// `is_begun` once the head of the answer has been appended.
    Finish {
        exchange: S::Exchange,
        framing: Framing,
        is_begun: bool,
        kept: Option<Box<S::Kept>>,
    },
    Closed,
}

/// State of one connection between its requests and inside them.
pub struct Session<S: Service> {
    phase: Phase<S>,
    /// How much of the output is answers that are whole.
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

/// How one step of the session left it.
enum Flow {
    Again,
    Stop(Next),
}

impl<S: Service> Session<S> {
    /// Whether the session stands between two requests, but for bytes that were not consumed.
    #[must_use]
    pub const fn is_between_requests(&self) -> bool {
        matches!(self.phase, Phase::Head)
    }

    /// Whether a request has been taken whole and not been answered yet.
    #[must_use]
    pub const fn owes_an_answer(&self) -> bool {
        matches!(self.phase, Phase::Finish { .. })
    }

    /// What the exchange under way holds, in bytes.
    #[inline]
    pub fn held_bytes(&self, service: &S) -> usize {
        match &self.phase {
            Phase::Content { exchange, kept, .. } | Phase::Finish { exchange, kept, .. } => {
                service.held_bytes(exchange) + kept.as_ref().map_or(0, |kept| service.kept_bytes(kept))
            }
            Phase::Head | Phase::Closed => 0,
        }
    }

    /// Whether there is nothing left to do once the client has shut its sending side.
    pub fn ends_with_input(&self, service: &S) -> bool {
        matches!(&self.phase, Phase::Finish { exchange, .. } if service.ends_with_input(exchange))
    }

    /// Whether a request on this connection had the key.
    #[must_use]
    pub const fn is_keyed(&self) -> bool {
        self.is_keyed
    }

    /// Handles every whole request in `input`, up to the bound on waiting output.
    #[inline]
    pub fn advance(&mut self, input: &[u8], call: &mut SessionCall<'_, S>) -> Advanced {
        let mut consumed = 0;
        let mut answered = 0;
        self.whole_bytes = call.out.len();
        let next = loop {
            if call.out.len() >= call.limits.unsent_bytes_max {
                break Next::Output;
            }
            let rest = &input[consumed..];
            let flow = match &mut self.phase {
                Phase::Head if rest.is_empty() => break Next::Input,
                Phase::Head => self.head(rest, call, &mut consumed),
                Phase::Content { .. } => self.content(rest, call, &mut consumed),
                Phase::Finish { .. } => self.finish(call),
                // Who did not ask for the end may be sending the next request, or content that is not read.
                Phase::Closed => break Next::Close { linger: call.closing || self.leaves_content || !rest.is_empty() },
            };
            if matches!(self.phase, Phase::Head | Phase::Closed) && matches!(flow, Flow::Again) {
                answered += 1;
                self.whole_bytes = call.out.len();
            }
            if let Flow::Stop(next) = flow {
                break next;
            }
        };
        Advanced { consumed, answered, next }
    }

    /// Ends the session with `fault` in answer to the request that is under way. What a panic may
    /// have left of an answer is taken back.
    pub fn refuse(&mut self, fault: Fault, head_only: bool, call: &mut SessionCall<'_, S>) {
        let head_only = match &self.phase {
            Phase::Content { framing, .. } | Phase::Finish { framing, .. } => framing.head_only,
            Phase::Head | Phase::Closed => head_only,
        };
        self.phase = Phase::Closed;
        call.out.truncate(self.whole_bytes);
        call.service.refuse(fault, Framing::last(head_only), &call.context, call.out);
    }

    fn refuse_and_close(&mut self, fault: Fault, head_only: bool, call: &mut SessionCall<'_, S>) -> Flow {
        self.refuse(fault, head_only, call);
        Flow::Stop(Next::Close { linger: true })
    }

    #[inline]
    fn head(&mut self, input: &[u8], call: &mut SessionCall<'_, S>, consumed: &mut usize) -> Flow {
        // Looked at where it lies: a copy of what was written in smaller parts waits for each of them.
        let parsed = head::parse(input, call.limits.head);
        let (head, bytes) = match &parsed {
            Section::Complete(head, bytes) => (head, *bytes),
            Section::Partial => return Flow::Stop(Next::Input),
            Section::Rejected(fault) => return self.refuse_and_close(*fault, is_head_method(input), call),
        };
        let mut exchange = call.service.begin(head, &call.context);
        *consumed += bytes;
        let mut framing = Framing::of(head, call.closing);
        self.is_keyed |= call.service.is_keyed(&exchange);
        let has_content = head.length != Length::None;
        if has_content && call.service.is_decided(&exchange) {
            self.leaves_content = true;
            framing.connection = ConnectionField::Close;
        } else if has_content {
            match Decoder::new(head.length, call.service.content_bytes_max(&exchange)) {
                Ok(decoder) => {
                    let kept = call.service.keep(head, &exchange);
                    self.phase = Phase::Content { exchange, decoder, framing, kept };
                }
                Err(fault) => return self.refuse_and_close(fault, framing.head_only, call),
            }
            if head.expects_continue {
                call.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
                self.whole_bytes = call.out.len();
            }
            return Flow::Again;
        }
        if call.service.waits(&exchange).is_some() {
            // Whether it has to is seen as it is finished, like the others that wait.
            let kept = call.service.keep(head, &exchange);
            self.phase = Phase::Finish { exchange, framing, is_begun: false, kept };
            return Flow::Again;
        }
        match call.service.finish(&mut exchange, framing, &call.context, call.out) {
            Step::Done => self.answered(framing),
            Step::Parked => {
                self.phase = Phase::Finish { exchange, framing, is_begun: false, kept: None };
                Flow::Stop(Next::Parked)
            }
            Step::More => {
                self.phase = Phase::Finish { exchange, framing, is_begun: true, kept: None };
                Flow::Stop(Next::Output)
            }
        }
    }

    fn content(&mut self, input: &[u8], call: &mut SessionCall<'_, S>, consumed: &mut usize) -> Flow {
        let Phase::Content { exchange, decoder, framing, .. } = &mut self.phase else { return Flow::Again };
        let piece = match decoder.decode(input) {
            Ok(piece) => piece,
            Err(fault) => return self.refuse_and_close(fault, false, call),
        };
        *consumed += piece.consumed;
        let step = if piece.content.is_empty() {
            Step::Done
        } else {
            call.service.content(exchange, piece.content, &call.context)
        };
        if piece.ended {
            let framing = *framing;
            if let Phase::Content { exchange, kept, .. } = std::mem::replace(&mut self.phase, Phase::Closed) {
                self.phase = Phase::Finish { exchange, framing, is_begun: false, kept };
            }
            return Flow::Again;
        }
        match step {
            Step::Parked => Flow::Stop(Next::Parked),
            Step::Done | Step::More if piece.consumed == 0 => Flow::Stop(Next::Input),
            Step::Done | Step::More => Flow::Again,
        }
    }

    /// Answers a request that had to wait, or goes on with an answer that has parts.
    fn finish(&mut self, call: &mut SessionCall<'_, S>) -> Flow {
        let Phase::Finish { exchange, framing, is_begun, kept } = &mut self.phase else { return Flow::Again };
        if let Some(kept) = kept {
            call.service.decide_again(exchange, kept, &call.context);
        }
        if let Some(seconds) = call.service.waits(exchange) {
            return Flow::Stop(Next::Waiting(seconds));
        }
        if call.closing && !*is_begun {
            framing.connection = ConnectionField::Close;
        }
        let framing = *framing;
        match call.service.finish(exchange, framing, &call.context, call.out) {
            Step::Done => {
                if call.context.holding == Holding::TimeIsUp {
                    // That was for this request. The next one has its own time.
                    call.context.holding = Holding::Allowed;
                }
                self.answered(framing)
            }
            Step::Parked => Flow::Stop(Next::Parked),
            Step::More => {
                *is_begun = true;
                Flow::Stop(Next::Output)
            }
        }
    }

    #[inline]
    fn answered(&mut self, framing: Framing) -> Flow {
        if framing.connection == ConnectionField::Close {
            self.phase = Phase::Closed;
        } else if !matches!(self.phase, Phase::Head) {
            // Only then: what a phase holds is not given up for nothing with each request.
            self.phase = Phase::Head;
        }
        Flow::Again
    }
}

/// Whether what was refused had come far enough to be a `HEAD`, whose answer has no body.
#[must_use]
pub fn is_head_method(input: &[u8]) -> bool {
    input.strip_prefix(b"\r\n").unwrap_or(input).starts_with(b"HEAD ")
}
