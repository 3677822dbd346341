//! The access log: stands between the engine and a service, and tells of some requests what was
//! asked and what was answered. It knows requests by what their service says of them, and nothing
//! of how or where its lines are written.
//!
//! A worker never waits for the log: finished entries go into a bounded channel, and what finds it
//! full is dropped and counted.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use crate::clock::{Clock, Now};
use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::response::Framing;
use crate::http::session::{Context, Service, Step};
use crate::metrics::Counter;

/// What may be written down of a request.
pub trait Describe {
    /// The path as it was understood: rebuilt from what was recognised in it, never a copy of what
    /// the client sent. No token and no key is in it.
    fn describe(&mut self, head: &Head<'_>) -> String;
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
    log: AccessLog,
    /// Answered in this turn.
    finished: Vec<AccessEntry>,
}

/// A request that was chosen, until it is answered.
pub struct Begun {
    method: &'static str,
    path: String,
    at: Now,
    /// Of the answer so far.
    status: Option<u16>,
    bytes: u64,
}

impl<S> Logged<S> {
    /// `service`, telling `log`.
    #[must_use]
    pub const fn new(service: S, log: AccessLog) -> Self {
        Self { service, log, finished: Vec::new() }
    }
}

impl<S: Service + Describe> Service for Logged<S> {
    type Exchange = (S::Exchange, Option<Box<Begun>>);

    #[inline]
    fn turn_begins(&mut self) {
        self.service.turn_begins();
    }

    #[inline]
    fn holds(&self, exchange: &Self::Exchange) -> bool {
        self.service.holds(&exchange.0)
    }

    #[inline]
    fn is_decided(&self, exchange: &Self::Exchange) -> bool {
        self.service.is_decided(&exchange.0)
    }

    #[inline]
    fn is_keyed(&self, exchange: &Self::Exchange) -> bool {
        self.service.is_keyed(&exchange.0)
    }

    fn begin(&mut self, head: &Head<'_>, context: &Context) -> Self::Exchange {
        let begun = self.log.sampler.hits().then(|| {
            let (method, path) = (method_name(head.method), self.service.describe(head));
            Box::new(Begun { method, path, at: self.log.clock.now(), status: None, bytes: 0 })
        });
        (self.service.begin(head, context), begun)
    }

    fn content_bytes_max(&self, exchange: &Self::Exchange) -> u64 {
        self.service.content_bytes_max(&exchange.0)
    }

    fn keep(&self, head: &Head<'_>, exchange: &Self::Exchange) -> Option<Box<[u8]>> {
        self.service.keep(head, &exchange.0)
    }

    fn content(&mut self, exchange: &mut Self::Exchange, bytes: &[u8], context: &Context) -> Step {
        self.service.content(&mut exchange.0, bytes, context)
    }

    fn decide_again(&mut self, exchange: &mut Self::Exchange, kept: &[u8], context: &Context) {
        self.service.decide_again(&mut exchange.0, kept, context);
    }

    fn held_bytes(&self, exchange: &Self::Exchange) -> usize {
        self.service.held_bytes(&exchange.0)
    }

    fn finish(
        &mut self,
        exchange: &mut Self::Exchange,
        framing: Framing,
        context: &Context,
        out: &mut Vec<u8>,
    ) -> Step {
        let start = out.len();
        let step = self.service.finish(&mut exchange.0, framing, context, out);
        if let Some(begun) = &mut exchange.1 {
            begun.status = begun.status.or_else(|| status(&out[start..]));
            begun.bytes += (out.len() - start) as u64;
        }
        if step == Step::Done
            && let Some(begun) = exchange.1.take()
        {
            let Begun { method, path, at, status, bytes } = *begun;
            let duration_us = self.log.clock.since_us(at);
            let (listener, status) = (self.log.listener, status.unwrap_or_default());
            self.finished.push(AccessEntry { listener, peer: None, method, path, status, bytes, duration_us });
        }
        step
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        let start = out.len();
        self.service.refuse(fault, framing, context, out);
        if self.log.sampler.hits() {
            let (listener, status, bytes) = (self.log.listener, fault.status(), (out.len() - start) as u64);
            let path = "-".to_owned();
            self.finished.push(AccessEntry { listener, peer: None, method: "-", path, status, bytes, duration_us: 0 });
        }
    }

    #[inline]
    fn answered(&mut self, peer: impl FnOnce() -> Option<SocketAddr>) {
        if self.finished.is_empty() {
            return;
        }
        let peer = peer();
        for entry in self.finished.drain(..) {
            let handed_over = self.log.entries.try_send(AccessEntry { peer, ..entry });
            let AccessCounters { logged, dropped } = &*self.log.counters;
            if handed_over.is_ok() { logged.add(1) } else { dropped.add(1) }
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
    use super::{Sampler, status};
    use std::collections::HashSet;
    use std::num::NonZeroU32;

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
