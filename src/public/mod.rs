//! The public service: one status request in, one answer out. It reads and cannot write.

mod later;
#[cfg(feature = "may_minihttp")]
pub mod may_minihttp;
mod responses;
mod watched;

pub use responses::{Health, PublicDocument, PublicReply};

use std::sync::Arc;

use crate::http::body::Length;
use crate::http::fault::Fault;
use crate::http::head::{Head, HeaderLines, Method};
use crate::http::response::{Framing, Prepared};
use crate::http::route;
use crate::http::session::{Begun, Content, Context, Intake, Service, Step, Ticket};
use crate::metrics::answers::{AnswerCounters, Variant};
use crate::net::counters::ResponseCounters;
use crate::readiness::Readiness;
use crate::vote::answer::{self, Question, ServerKey};
use crate::vote::directory::DirectoryView;
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};
use crate::waiting::{Bell, WaitingList};
use crate::watch::WatchPost;
use later::{Decision, LaterPath, WorkerWaits};
use responses::{ResponseSet, outcome};
use watched::QuestionObserver;

/// Decides requests by views of the state, which it only reads.
#[derive(Clone)]
pub struct StatusReader {
    directory: DirectoryView,
    cooldowns: CooldownView,
    readiness: Readiness,
    counters: PublicCounters,
}

/// The counters of a reader. Each reader has its own: only its thread writes them.
#[derive(Clone, Default)]
pub struct PublicCounters {
    /// Status requests that were answered.
    pub answers: Arc<AnswerCounters>,
    /// All other responses.
    pub responses: Arc<ResponseCounters>,
}

impl StatusReader {
    /// A reader with these views.
    #[must_use]
    pub fn new(directory: DirectoryView, cooldowns: CooldownView, readiness: Readiness) -> Self {
        Self { directory, cooldowns, readiness, counters: PublicCounters::default() }
    }

    /// The counters of this reader.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.counters.clone()
    }

    #[inline]
    fn reply(&mut self, head: &Head<'_>, now: UnixSeconds) -> PublicReply {
        if head.path == b"*" {
            return PublicReply::Options;
        }
        let decoded;
        let question = match head.question {
            Some(question) => question,
            None => {
                decoded = route::decode(head.path);
                match route::question(&decoded) {
                    Some(question) => question,
                    None => return self.aside(&decoded, head.method, head.lines),
                }
            }
        };
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => return PublicReply::Options,
            _ => return PublicReply::Refused(Fault::MethodNotAllowed),
        }
        self.decide(question, now)
    }

    #[inline]
    fn decide(&mut self, question: Question<'_>, now: UnixSeconds) -> PublicReply {
        // The service never guesses: before the state is loaded, it gives no answer.
        if !self.readiness.is_loaded() {
            return PublicReply::Refused(Fault::NotReady);
        }
        let answer = answer::decide(question, self.directory.current(), &self.cooldowns, now);
        let variant = if let ServerKey::Id(_) = question.server { Variant::Id } else { Variant::Token };
        PublicReply::Status(variant, answer)
    }

    /// The reply of now to a request for this decoded path, whose head came earlier.
    #[cold]
    fn reply_again(&mut self, path: &[u8], now: UnixSeconds) -> PublicReply {
        match route::question(path) {
            Some(question) => self.decide(question, now),
            None => self.health_at(path).map_or(PublicReply::Refused(Fault::NotFound), PublicReply::Health),
        }
    }

    /// The pair that a decoded path asks about, if it is a status request for a listed server.
    #[cold]
    fn pair_at(&mut self, path: &[u8]) -> Option<Pair> {
        let pair = answer::asked_pair(route::question(path)?, self.directory.current()).ok()?;
        Some(Pair { address: self.cooldowns.voter(pair.address), ..pair })
    }

    /// The reply to a request other than a status request.
    #[cold]
    fn aside(&self, path: &[u8], method: Method, lines: HeaderLines<'_>) -> PublicReply {
        let found = match (self.health_at(path), PublicDocument::at(path)) {
            (Some(health), _) => PublicReply::Health(health),
            // A page does not depend on the state.
            (None, Some(page)) => PublicReply::Page(page, page.document().form(lines)),
            (None, None) => return PublicReply::Refused(Fault::NotFound),
        };
        match method {
            Method::Get | Method::Head => found,
            Method::Options => PublicReply::Options,
            _ => PublicReply::Refused(Fault::MethodNotAllowed),
        }
    }

    /// The answer to a load balancer, if this is one of its paths.
    fn health_at(&self, path: &[u8]) -> Option<Health> {
        match path {
            b"/healthz" => Some(Health::Alive),
            // The same as on the control listener.
            b"/readyz" => Some(if self.readiness.is_ready() { Health::Ready } else { Health::NotReady }),
            _ => None,
        }
    }

    /// Counts an answer.
    #[inline]
    fn count(&self, reply: PublicReply) {
        let PublicCounters { answers, responses } = &self.counters;
        match reply {
            PublicReply::Status(variant, answer) => answers.request(variant, outcome(answer)),
            other => responses.response(other.status()),
        }
    }
}

/// Answers the public listener's requests on one thread.
pub struct PublicService {
    reader: StatusReader,
    responses: DatedResponses,
    skip_body_bytes_max: u64,
    waits: WorkerWaits,
    observer: QuestionObserver,
    /// The observer wants to know of this turn's requests.
    is_observed: bool,
}

impl PublicService {
    /// A service that answers by `reader`. Its requests wait in `list`, and `bell` wakes them. Watchers learn of them
    /// through `watch`.
    #[must_use]
    pub fn new(
        reader: StatusReader,
        cooldown: Cooldown,
        skip_body_bytes_max: u64,
        list: WaitingList,
        bell: Bell,
        watch: WatchPost,
    ) -> Self {
        let (waits, responses) = (WorkerWaits::new(list, bell), DatedResponses::new(cooldown));
        let observer = QuestionObserver::new(watch);
        Self { reader, responses, skip_body_bytes_max, waits, observer, is_observed: false }
    }
}

/// One public request until it is answered.
pub enum PublicExchange {
    /// The reply was known at the head.
    Ready(PublicReply),
    /// The service decides when it answers, which may be minutes later.
    Later(Box<LaterPath>),
}

impl Service for PublicService {
    type Exchange = PublicExchange;

    #[inline]
    fn begin(&mut self, head: &Head<'_>, context: &Context<'_>) -> Begun<PublicExchange> {
        let reply = self.reader.reply(head, context.now);
        if self.is_observed {
            self.observer.begun(head, context.ticket, &mut self.reader);
        }
        let has_content = head.length != Length::None;
        let exchange = if has_content || head.query.is_some() {
            later::exchange(head.path, head.query, has_content, reply)
        } else {
            PublicExchange::Ready(reply)
        };
        Begun { exchange, is_keyed: false, content: Content::Read(self.skip_body_bytes_max) }
    }

    fn content(&mut self, _exchange: &mut PublicExchange, _bytes: &[u8], _context: &Context<'_>) -> Intake {
        Intake::Open // legal, and of no meaning here: skipped
    }

    // The session calls it in two places, and only one of them serves every request.
    #[inline(always)]
    fn answer(
        &mut self,
        exchange: &mut PublicExchange,
        framing: Framing,
        context: &Context<'_>,
        out: &mut Vec<u8>,
    ) -> Step {
        let reply = match exchange {
            PublicExchange::Ready(reply) => *reply,
            PublicExchange::Later(later) => match self.waits.decide(later, &mut self.reader, context) {
                Decision::Wait(seconds) => return Step::Wait(seconds),
                Decision::Reply(reply) => {
                    *exchange = PublicExchange::Ready(reply);
                    reply
                }
            },
        };
        self.reader.count(reply);
        self.responses.append(reply, framing, context.now, out);
        if self.is_observed {
            self.observer.done(reply, context);
        }
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context<'_>, out: &mut Vec<u8>) {
        self.reader.counters.responses.refused(fault);
        self.responses.append(PublicReply::Refused(fault), framing, context.now, out);
    }

    #[inline]
    fn used_bytes(&self, exchange: &PublicExchange) -> usize {
        match exchange {
            PublicExchange::Ready(_) => 0,
            PublicExchange::Later(later) => later.used_bytes(),
        }
    }

    fn turn_begins(&mut self) {
        self.is_observed = self.observer.turn_begins();
    }

    #[inline]
    fn gone(&mut self, ticket: Ticket) {
        if self.is_observed {
            self.observer.gone(ticket);
        }
    }
}

/// Every public response, formatted ahead.
struct DatedResponses {
    /// The time in the `Date` fields.
    date: UnixSeconds,
    answers: ResponseSet<Prepared>,
}

impl DatedResponses {
    fn new(cooldown: Cooldown) -> Self {
        let mut responses = Self { date: UnixSeconds(0), answers: ResponseSet::new(cooldown, Prepared::new) };
        responses.set_date(UnixSeconds(0));
        responses
    }

    #[inline]
    fn append(&mut self, reply: PublicReply, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
        if self.date != now {
            self.set_date(now);
        }
        let (response, blanks) = self.answers.find(reply, now);
        response.append(out, framing);
        if let Some(blanks) = blanks.filter(|_| !framing.head_only) {
            blanks.fill(out);
        }
    }

    /// Once a second at most.
    fn set_date(&mut self, now: UnixSeconds) {
        self.date = now;
        let date = now.imf_fixdate();
        for response in self.answers.iter_mut() {
            response.set_date(&date);
        }
    }
}
