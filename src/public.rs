//! The public service: one status request in, one answer out. It reads and cannot write.

mod answers;
mod describe;
#[cfg(feature = "may_minihttp")]
pub mod parts;

pub use answers::{Health, Page, Reply};

use std::sync::Arc;

use crate::http::fault::Fault;
use crate::http::head::{Head, Lines, Method};
use crate::http::response::{Framing, Prepared};
use crate::http::route;
use crate::http::session::{Context, Service, Step};
use crate::metrics::answers::{AnswerCounters, Outcome, Variant};
use crate::net::counters::ResponseCounters;
use crate::readiness::Readiness;
use crate::recorder::shared::status::Freshness;
use crate::vote::answer::{self, Answer, Question, ServerKey};
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;
use crate::vote::time::{Cooldown, UnixSeconds};
use answers::Answers;

/// Where requests are decided: what is known, to read only.
#[derive(Clone)]
pub struct Desk {
    directory: DirectoryView,
    cooldowns: CooldownView,
    readiness: Readiness,
    /// Where the state comes from a store that is shared with other nodes.
    freshness: Option<Freshness>,
    counters: PublicCounters,
}

/// What a desk counts. Each desk has its own: only its thread writes them.
#[derive(Clone, Default)]
pub struct PublicCounters {
    /// Status requests that were answered.
    pub answers: Arc<AnswerCounters>,
    /// All other responses.
    pub responses: Arc<ResponseCounters>,
}

impl Desk {
    /// A desk with these views.
    #[must_use]
    pub fn new(directory: DirectoryView, cooldowns: CooldownView, readiness: Readiness) -> Self {
        Self { directory, cooldowns, readiness, freshness: None, counters: PublicCounters::default() }
    }

    /// The same, which is not ready while what it knows is too old.
    #[must_use]
    pub fn with_freshness(self, freshness: Option<Freshness>) -> Self {
        Self { freshness, ..self }
    }

    /// What this desk counts.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.counters.clone()
    }

    #[inline]
    fn reply(&mut self, head: &Head<'_>, now: UnixSeconds) -> Reply {
        if head.path == b"*" {
            return Reply::Options;
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
            Method::Options => return Reply::Options,
            _ => return Reply::Refused(Fault::MethodNotAllowed),
        }
        self.decide(question, now)
    }

    #[inline]
    fn decide(&mut self, question: Question<'_>, now: UnixSeconds) -> Reply {
        // The service never guesses: what is not loaded is not answered.
        if !self.readiness.is_loaded() {
            return Reply::Refused(Fault::NotReady);
        }
        let answer = answer::decide(question, self.directory.current(), &self.cooldowns, now);
        let variant = if let ServerKey::Id(_) = question.server { Variant::Id } else { Variant::Token };
        Reply::Status(variant, answer)
    }

    /// The reply, now, to a request for this decoded path that was awaited.
    #[cold]
    fn reply_again(&mut self, path: &[u8], now: UnixSeconds) -> Reply {
        match route::question(path) {
            Some(question) => self.decide(question, now),
            None => self.health_at(path).map_or(Reply::Refused(Fault::NotFound), Reply::Health),
        }
    }

    /// The reply to what is no status request.
    #[cold]
    fn aside(&self, path: &[u8], method: Method, lines: Lines<'_>) -> Reply {
        let found = match (self.health_at(path), Page::at(path)) {
            (Some(health), _) => Reply::Health(health),
            // A page is the same whatever is loaded.
            (None, Some(page)) => Reply::Page(page, page.document().form(lines)),
            (None, None) => return Reply::Refused(Fault::NotFound),
        };
        match method {
            Method::Get | Method::Head => found,
            Method::Options => Reply::Options,
            _ => Reply::Refused(Fault::MethodNotAllowed),
        }
    }

    /// What a balancer is told there, if it is one of its paths.
    fn health_at(&self, path: &[u8]) -> Option<Health> {
        match path {
            b"/healthz" => Some(Health::Alive),
            b"/readyz" => Some(self.health()),
            _ => None,
        }
    }

    /// Whether a balancer should send requests here: the same as the control listener tells.
    fn health(&self) -> Health {
        let is_stale = self.freshness.as_ref().is_some_and(Freshness::is_stale);
        if self.readiness.is_ready() && !is_stale { Health::Ready } else { Health::NotReady }
    }

    /// Counts an answer that is given.
    #[inline]
    fn count(&self, reply: Reply) {
        let PublicCounters { answers, responses } = &self.counters;
        match reply {
            Reply::Status(variant, answer) => answers.request(variant, outcome(answer)),
            Reply::Options => responses.response(204),
            Reply::Page(_, form) => responses.response(form.status()),
            Reply::Health(health) => responses.response(health.status()),
            Reply::Refused(fault) => responses.response(fault.status()),
        }
    }
}

#[inline]
const fn outcome(answer: Answer) -> Outcome {
    match answer {
        Answer::CanVote => Outcome::CanVote,
        Answer::InCooldown { .. } => Outcome::InCooldown,
        Answer::InvalidIp => Outcome::InvalidIp,
        Answer::InvalidServerId => Outcome::InvalidServerId,
        Answer::UnknownServer => Outcome::UnknownServer,
        Answer::UnknownToken => Outcome::UnknownToken,
    }
}

/// Answers the public listener's requests on one thread.
pub struct PublicService {
    desk: Desk,
    responses: Responses,
    skip_body_bytes_max: u64,
}

impl PublicService {
    /// A service that answers from these views.
    #[must_use]
    pub fn new(
        directory: DirectoryView,
        cooldowns: CooldownView,
        readiness: Readiness,
        cooldown: Cooldown,
        skip_body_bytes_max: u64,
    ) -> Self {
        let desk = Desk::new(directory, cooldowns, readiness);
        Self { desk, responses: Responses::new(cooldown), skip_body_bytes_max }
    }
}

impl PublicService {
    /// The same, which is not ready while what it knows is too old.
    #[must_use]
    pub fn with_freshness(self, freshness: Option<Freshness>) -> Self {
        Self { desk: self.desk.with_freshness(freshness), ..self }
    }

    /// What this service counts.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.desk.counters()
    }
}

impl Service for PublicService {
    type Exchange = Reply;

    #[inline]
    fn begin(&mut self, head: &Head<'_>, context: &Context) -> Reply {
        self.desk.reply(head, context.now)
    }

    fn content_bytes_max(&self, _reply: &Reply) -> u64 {
        self.skip_body_bytes_max
    }

    /// The path: content may come minutes later, and a vote that was cancelled meanwhile must not be told.
    fn keep(&self, head: &Head<'_>, reply: &Reply) -> Option<Box<[u8]>> {
        reply.is_of_its_moment().then(|| route::decode(head.path).into())
    }

    fn content(&mut self, _reply: &mut Reply, _bytes: &[u8], _context: &Context) -> Step {
        Step::Done // legal, and of no meaning here: skipped
    }

    fn decide_again(&mut self, reply: &mut Reply, path: &[u8], context: &Context) {
        *reply = self.desk.reply_again(path, context.now);
    }

    #[inline]
    fn finish(&mut self, reply: &mut Reply, framing: Framing, context: &Context, out: &mut Vec<u8>) -> Step {
        self.desk.count(*reply);
        self.responses.append(*reply, framing, context.now, out);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        self.desk.counters.responses.refused(fault);
        self.responses.append(Reply::Refused(fault), framing, context.now, out);
    }
}

/// Every public response, formatted ahead.
struct Responses {
    /// What the `Date` fields say.
    date: UnixSeconds,
    answers: Answers<Prepared>,
}

impl Responses {
    fn new(cooldown: Cooldown) -> Self {
        let mut responses = Self { date: UnixSeconds(0), answers: Answers::new(cooldown, Prepared::new) };
        responses.set_date(UnixSeconds(0));
        responses
    }

    #[inline]
    fn append(&mut self, reply: Reply, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
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
