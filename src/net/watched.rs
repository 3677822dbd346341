//! Stands between the engine and the public service, and tells watchers what is asked and what is answered.
//! It knows a question by what the service says of it.
//!
//! A worker never waits for a watcher. While nobody watches, it learns so once a turn and does nothing else.

use std::collections::HashMap;
use std::net::SocketAddr;

use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::Framing;
use crate::http::session::{Context, Service, Step, Ticket};
use crate::http::wait::WaitSeconds;
use crate::vote::time::UnixSeconds;
use crate::watch::{Seen, WatchPost, WatchedQuestion};

/// What watchers may be told of a request. No token that a server has and no key is in it.
pub trait Watchable: Service {
    /// What was asked; `None` for what is nothing to watch.
    fn watched(&mut self, head: &Head<'_>) -> Option<WatchedQuestion>;

    /// What was answered, in a word, and with which status.
    fn watched_answer(&self, exchange: &Self::Exchange) -> Option<(&'static str, u16)>;
}

/// A service whose questions watchers are told of.
pub struct WatchedService<S> {
    service: S,
    watch: WatchPost,
    /// Whether anybody is told anything in this turn, or waits to be.
    is_telling: bool,
    /// Questions that are told of and not answered yet, by their connection. Beside the exchanges: those would
    /// carry something for nobody with each request.
    begun: HashMap<Ticket, WatchedQuestion>,
    /// Answered in this turn, and told once it is known to whom the answer goes.
    answered: Vec<WatchedAnswer>,
}

struct WatchedAnswer {
    at: UnixSeconds,
    asked: WatchedQuestion,
    answer: &'static str,
    status: u16,
}

impl<S> WatchedService<S> {
    /// `service`, telling who watches.
    #[must_use]
    pub fn new(service: S, watch: WatchPost) -> Self {
        Self { service, watch, is_telling: false, begun: HashMap::new(), answered: Vec::new() }
    }
}

impl<S: Watchable> WatchedService<S> {
    #[cold]
    fn note(&mut self, head: &Head<'_>, ticket: Ticket) {
        // What is left of a request that was never answered makes room.
        self.begun.remove(&ticket);
        if self.watch.look()
            && let Some(asked) = self.service.watched(head)
        {
            self.begun.insert(ticket, asked);
        }
    }

    #[cold]
    fn finish_told(
        &mut self,
        exchange: &mut S::Exchange,
        framing: Framing,
        context: &Context,
        out: &mut Vec<u8>,
    ) -> Step {
        let step = self.service.finish(exchange, framing, context, out);
        if step == Step::Done
            && let Some(asked) = self.begun.remove(&context.ticket)
            && let Some((answer, status)) = self.service.watched_answer(exchange)
        {
            self.answered.push(WatchedAnswer { at: context.now, asked, answer, status });
        }
        step
    }
}

impl<S: Watchable> Service for WatchedService<S> {
    type Exchange = S::Exchange;
    type Kept = S::Kept;

    #[inline]
    fn turn_begins(&mut self) {
        self.is_telling = self.watch.look() || !self.begun.is_empty();
        self.service.turn_begins();
    }

    #[inline]
    fn rest_ms_max(&self) -> Option<u64> {
        self.service.rest_ms_max()
    }

    fn goes_away(&mut self) {
        self.service.goes_away();
    }

    #[inline]
    fn gone(&mut self, ticket: Ticket) {
        if self.is_telling {
            self.begun.remove(&ticket);
        }
        self.service.gone(ticket);
    }

    #[inline]
    fn ends_with_input(&self, exchange: &Self::Exchange) -> bool {
        self.service.ends_with_input(exchange)
    }

    #[inline]
    fn is_decided(&self, exchange: &Self::Exchange) -> bool {
        self.service.is_decided(exchange)
    }

    #[inline]
    fn is_keyed(&self, exchange: &Self::Exchange) -> bool {
        self.service.is_keyed(exchange)
    }

    #[inline]
    fn begin(&mut self, head: &Head<'_>, context: &Context) -> Self::Exchange {
        if self.is_telling {
            self.note(head, context.ticket);
        }
        self.service.begin(head, context)
    }

    fn content_bytes_max(&self, exchange: &Self::Exchange) -> u64 {
        self.service.content_bytes_max(exchange)
    }

    fn keep(&self, head: &Head<'_>, exchange: &Self::Exchange) -> Option<Box<S::Kept>> {
        self.service.keep(head, exchange)
    }

    fn kept_bytes(&self, kept: &S::Kept) -> usize {
        self.service.kept_bytes(kept)
    }

    #[inline]
    fn waits(&self, exchange: &Self::Exchange) -> Option<WaitSeconds> {
        self.service.waits(exchange)
    }

    fn content(&mut self, exchange: &mut Self::Exchange, bytes: &[u8], context: &Context) -> Step {
        self.service.content(exchange, bytes, context)
    }

    fn decide_again(&mut self, exchange: &mut Self::Exchange, kept: &mut S::Kept, context: &Context) {
        self.service.decide_again(exchange, kept, context);
    }

    fn held_bytes(&self, exchange: &Self::Exchange) -> usize {
        self.service.held_bytes(exchange)
    }

    #[inline]
    fn finish(
        &mut self,
        exchange: &mut Self::Exchange,
        framing: Framing,
        context: &Context,
        out: &mut Vec<u8>,
    ) -> Step {
        if self.is_telling {
            return self.finish_told(exchange, framing, context, out);
        }
        self.service.finish(exchange, framing, context, out)
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        self.service.refuse(fault, framing, context, out);
    }

    #[inline]
    fn answered(&mut self, peer: impl FnOnce() -> Option<SocketAddr>) {
        if self.answered.is_empty() {
            return;
        }
        let peer = peer();
        for WatchedAnswer { at, asked, answer, status } in self.answered.drain(..) {
            self.watch.note(at, Seen::Question { asked, answer, status, peer });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Watchable, WatchedService};
    use crate::http::fault::Fault;
    use crate::http::field::Section;
    use crate::http::head::{self, Head, HeadLimits};
    use crate::http::response::Framing;
    use crate::http::session::{Context, Holding, Service, Step, Ticket};
    use crate::vote::time::UnixSeconds;
    use crate::watch::{WatchBoard, WatchFilter, WatchedQuestion};

    /// Never answers.
    struct Silent;

    impl Service for Silent {
        type Exchange = ();
        type Kept = ();

        fn begin(&mut self, _: &Head<'_>, _: &Context) {}

        fn content_bytes_max(&self, (): &()) -> u64 {
            0
        }

        fn content(&mut self, (): &mut (), _: &[u8], _: &Context) -> Step {
            Step::Done
        }

        fn finish(&mut self, (): &mut (), _: Framing, _: &Context, _: &mut Vec<u8>) -> Step {
            Step::Parked
        }

        fn refuse(&mut self, _: Fault, _: Framing, _: &Context, _: &mut Vec<u8>) {}
    }

    impl Watchable for Silent {
        fn watched(&mut self, _: &Head<'_>) -> Option<WatchedQuestion> {
            Some(WatchedQuestion::default())
        }

        fn watched_answer(&self, (): &()) -> Option<(&'static str, u16)> {
            None
        }
    }

    #[test]
    fn what_would_be_told_of_a_request_goes_with_its_connection() {
        let board = WatchBoard::default();
        let _watcher = board.sit(WatchFilter::default()).expect("a place");
        let mut watched = WatchedService::new(Silent, board.post());
        let limits = HeadLimits { head_bytes_max: 1_024, header_lines_max: 10 };
        let Section::Complete(head, _) = head::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", limits) else {
            panic!("it is whole");
        };
        for number in 0..3 {
            let context = Context { now: UnixSeconds(0), ticket: Ticket(number), holding: Holding::Allowed };
            watched.turn_begins();
            watched.begin(&head, &context);
            assert_eq!(watched.finish(&mut (), Framing::last(false), &context, &mut Vec::new()), Step::Parked);
        }
        assert_eq!(watched.begun.len(), 3);
        for number in 0..3 {
            watched.gone(Ticket(number));
        }
        assert_eq!(watched.begun.len(), 0);
    }
}
