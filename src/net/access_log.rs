//! What is told of requests: stands between the engine and a service, and tells of some requests what was
//! asked and what was answered, to the access log and to whoever watches. It knows requests by what their
//! service says of them, and nothing of how or where its lines are written.
//!
//! A worker never waits for either: what is told goes into a bounded queue, and what finds it full is
//! dropped and counted. Where there is no log and nobody watches, that is known once a turn.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::clock::{Clock, Now};
use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::response::Framing;
use crate::http::session::{Context, Service, Step, Ticket};
use crate::http::wait::WaitSeconds;
use crate::metrics::Counter;
use crate::vote::time::UnixSeconds;
use crate::watch::{Seen, WatchPost, WatchedQuestion};

/// What may be told of a request. No token that a server has and no key is in it.
pub trait Describe: Service {
    /// The path as it was understood: rebuilt from what was recognised in it, never a copy of what
    /// the client sent.
    fn describe(&mut self, head: &Head<'_>) -> String;

    /// What watchers are told that was asked; `None` for what they do not watch.
    fn watched(&mut self, _head: &Head<'_>) -> Option<WatchedQuestion> {
        None
    }

    /// What they are told that was answered, in a word, and with which status.
    fn watched_answer(&self, _exchange: &Self::Exchange) -> Option<(&'static str, u16)> {
        None
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessEntry {
    /// The listener, by its label.
    pub listener: &'static str,
    /// Who was connected; a proxy where one stands in front. Unknown once the peer has gone.
    pub peer: Option<SocketAddr>,
    /// The method; `-` for what has none of ours.
    pub method: &'static str,
    /// See [`Describe::describe`]; `-` for what was no request.
    pub path: String,
    /// The status answered.
    pub status: u16,
    /// Bytes of the answer, its head included.
    pub bytes: u64,
    /// From the end of the request's head to the end of the answer, in microseconds.
    pub duration_us: u64,
}

/// Counters of one worker's log; only that worker writes them.
#[derive(Debug, Default)]
pub struct AccessCounters {
    /// Entries handed over.
    pub logged: Counter,
    /// Entries that found the channel full.
    pub dropped: Counter,
}

/// Where a worker's entries go, and which requests get one.
pub struct AccessLog {
    /// The listener, by its label.
    pub listener: &'static str,
    /// Measures durations.
    pub clock: Clock,
    /// Chooses.
    pub sampler: Sampler,
    /// Where entries go.
    pub entries: SyncSender<AccessEntry>,
    /// What is counted.
    pub counters: Arc<AccessCounters>,
}

/// A service whose requests are told of.
pub struct Logged<S> {
    service: S,
    log: Option<AccessLog>,
    watch: WatchPost,
    /// Whether anybody is told anything in this turn, or waits to be.
    is_telling: bool,
    /// Requests that are told of and not answered yet, by their connection. Beside the exchanges: those would
    /// carry something for nobody with each request.
    begun: HashMap<Ticket, Begun>,
    /// Answered in this turn.
    finished: Vec<Finished>,
}

/// A request that is told of, until it is answered.
#[derive(Default)]
struct Begun {
    /// For the log, if it was chosen.
    request: Option<BegunRequest>,
    /// For watchers.
    asked: Option<WatchedQuestion>,
}

struct BegunRequest {
    method: &'static str,
    path: String,
    at: Now,
    /// Of the answer so far.
    status: Option<u16>,
    bytes: u64,
}

/// What is told once it is known to whom the answer goes.
enum Finished {
    Entry(AccessEntry),
    Question { at: UnixSeconds, asked: WatchedQuestion, answer: &'static str, status: u16 },
}

impl<S> Logged<S> {
    /// `service`, telling `log` if there is one, and who watches.
    #[must_use]
    pub fn new(service: S, log: Option<AccessLog>, watch: WatchPost) -> Self {
        Self { service, log, watch, is_telling: false, begun: HashMap::new(), finished: Vec::new() }
    }
}

impl<S: Describe> Logged<S> {
    fn is_chosen(&mut self) -> bool {
        self.log.as_mut().is_some_and(|log| log.sampler.hits())
    }

    #[cold]
    fn note(&mut self, head: &Head<'_>, ticket: Ticket) {
        let mut begun = Begun::default();
        if self.is_chosen()
            && let Some(log) = &self.log
        {
            let (method, path, at) = (method_name(head.method), self.service.describe(head), log.clock.now());
            begun.request = Some(BegunRequest { method, path, at, status: None, bytes: 0 });
        }
        if self.watch.look() {
            begun.asked = self.service.watched(head);
        }
        // What is left of a request that was never answered makes room.
        self.begun.remove(&ticket);
        if begun.request.is_some() || begun.asked.is_some() {
            self.begun.insert(ticket, begun);
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
        let start = out.len();
        let step = self.service.finish(exchange, framing, context, out);
        if let Some(request) = self.begun.get_mut(&context.ticket).and_then(|begun| begun.request.as_mut()) {
            request.status = request.status.or_else(|| status(&out[start..]));
            request.bytes += (out.len() - start) as u64;
        }
        if step == Step::Done
            && let Some(begun) = self.begun.remove(&context.ticket)
        {
            self.told(exchange, begun, context.now);
        }
        step
    }

    fn told(&mut self, exchange: &S::Exchange, begun: Begun, at: UnixSeconds) {
        if let (Some(BegunRequest { method, path, at, status, bytes }), Some(log)) = (begun.request, &self.log) {
            let duration_us = log.clock.since_us(at);
            let (listener, status) = (log.listener, status.unwrap_or_default());
            let entry = AccessEntry { listener, peer: None, method, path, status, bytes, duration_us };
            self.finished.push(Finished::Entry(entry));
        }
        if let (Some(asked), Some((answer, status))) = (begun.asked, self.service.watched_answer(exchange)) {
            self.finished.push(Finished::Question { at, asked, answer, status });
        }
    }
}

impl<S: Describe> Service for Logged<S> {
    type Exchange = S::Exchange;
    type Kept = S::Kept;

    #[inline]
    fn turn_begins(&mut self) {
        self.is_telling = self.watch.look() || self.log.is_some() || !self.begun.is_empty();
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
        let start = out.len();
        self.service.refuse(fault, framing, context, out);
        if self.is_chosen()
            && let Some(log) = &self.log
        {
            let (listener, status, bytes) = (log.listener, fault.status(), (out.len() - start) as u64);
            let (method, path) = ("-", "-".to_owned());
            let entry = AccessEntry { listener, peer: None, method, path, status, bytes, duration_us: 0 };
            self.finished.push(Finished::Entry(entry));
        }
    }

    #[inline]
    fn answered(&mut self, peer: impl FnOnce() -> Option<SocketAddr>) {
        if self.finished.is_empty() {
            return;
        }
        let peer = peer();
        for finished in self.finished.drain(..) {
            match (finished, &self.log) {
                (Finished::Entry(entry), Some(log)) => {
                    let handed_over = log.entries.try_send(AccessEntry { peer, ..entry });
                    let AccessCounters { logged, dropped } = &*log.counters;
                    if handed_over.is_ok() { logged.add(1) } else { dropped.add(1) }
                }
                (Finished::Entry(_), None) => {}
                (Finished::Question { at, asked, answer, status }, _) => {
                    self.watch.note(at, Seen::Question { asked, answer, status, peer });
                }
            }
        }
    }
}

const fn method_name(method: Method) -> &'static str {
    match method {
        Method::Get => "GET",
        Method::Head => "HEAD",
        Method::Options => "OPTIONS",
        Method::Post => "POST",
        Method::Put => "PUT",
        Method::Delete => "DELETE",
        Method::Other => "-",
    }
}

/// The status of a response that begins here.
fn status(response: &[u8]) -> Option<u16> {
    std::str::from_utf8(response.strip_prefix(b"HTTP/1.1 ")?.get(..3)?).ok()?.parse().ok()
}

/// Chooses one request in so many, by gaps of random length: what comes in a rhythm is neither
/// always met nor always missed.
#[derive(Clone, Debug)]
pub struct Sampler {
    one_in: NonZeroU32,
    /// Requests until the next one that is chosen, at least one.
    left: u64,
    /// Never 0.
    random: u64,
}

impl Sampler {
    /// A sampler whose gaps follow from `seed`.
    #[must_use]
    pub fn new(one_in: NonZeroU32, seed: u64) -> Self {
        let mut sampler = Self { one_in, left: 1, random: seed | 1 };
        sampler.left = sampler.gap();
        sampler
    }

    /// Whether this request is chosen.
    #[inline]
    pub fn hits(&mut self) -> bool {
        self.left -= 1;
        if self.left > 0 {
            return false;
        }
        self.left = self.gap();
        true
    }

    /// From 1 to one less than twice the mean, by xorshift64*.
    fn gap(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        let random = self.random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        1 + random % (2 * u64::from(self.one_in.get()) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{AccessCounters, AccessLog, Describe, Logged, Sampler, status};
    use crate::clock::Clock;
    use crate::http::fault::Fault;
    use crate::http::field::Section;
    use crate::http::head::{self, Head, HeadLimits};
    use crate::http::response::Framing;
    use crate::http::session::{Context, Holding, Service, Step, Ticket};
    use crate::vote::time::UnixSeconds;
    use crate::watch::WatchPost;
    use std::collections::HashSet;
    use std::num::NonZeroU32;
    use std::sync::Arc;
    use std::sync::mpsc::sync_channel;

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

    impl Describe for Silent {
        fn describe(&mut self, _: &Head<'_>) -> String {
            "/".to_owned()
        }
    }

    #[test]
    fn what_would_be_told_of_a_request_goes_with_its_connection() {
        let (entries, _received) = sync_channel(1);
        let sampler = Sampler::new(NonZeroU32::MIN, 7);
        let log = AccessLog {
            listener: "public",
            clock: Clock::default(),
            sampler,
            entries,
            counters: Arc::new(AccessCounters::default()),
        };
        let mut logged = Logged::new(Silent, Some(log), WatchPost::default());
        let limits = HeadLimits { head_bytes_max: 1_024, header_lines_max: 10 };
        let Section::Complete(head, _) = head::parse(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", limits) else {
            panic!("it is whole");
        };
        for number in 0..3 {
            let context = Context { now: UnixSeconds(0), ticket: Ticket(number), holding: Holding::Allowed };
            logged.turn_begins();
            logged.begin(&head, &context);
            assert_eq!(logged.finish(&mut (), Framing::last(false), &context, &mut Vec::new()), Step::Parked);
        }
        assert_eq!(logged.begun.len(), 3);
        for number in 0..3 {
            logged.gone(Ticket(number));
        }
        assert_eq!(logged.begun.len(), 0);
    }

    fn gaps(one_in: u32, requests: u32) -> Vec<u32> {
        let mut sampler = Sampler::new(NonZeroU32::new(one_in).expect("not 0"), 7);
        let hits: Vec<u32> = (0..requests).filter(|_| sampler.hits()).collect();
        hits.windows(2).map(|two| two[1] - two[0]).collect()
    }

    #[test]
    fn one_in_so_many_is_chosen_and_in_no_rhythm() {
        assert_eq!(gaps(1, 100), [1; 99]);
        let gaps = gaps(1_000, 1_000_000);
        assert!((900..=1_100).contains(&gaps.len()), "{}", gaps.len());
        assert!(gaps.iter().all(|gap| (1..2_000).contains(gap)), "{gaps:?}");
        assert!(gaps.iter().collect::<HashSet<_>>().len() > 600, "{gaps:?}");
    }

    #[test]
    fn a_status_is_read_off_a_response() {
        assert_eq!(status(b"HTTP/1.1 404 Not Found\r\n"), Some(404));
        for other in ["", "HTTP/1.1 40", "1f\r\n{"] {
            assert_eq!(status(other.as_bytes()), None, "{other}");
        }
    }
}
