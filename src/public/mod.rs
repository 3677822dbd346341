//! The public service: one status request in, one answer out. It reads and cannot write.

pub mod held;
#[cfg(feature = "may_minihttp")]
pub mod may_minihttp;
mod responses;
mod watched;

pub use responses::{Health, PublicDocument, PublicReply};

use std::sync::Arc;

use crate::http::fault::Fault;
use crate::http::head::{Head, HeaderLines, Method};
use crate::http::response::{Framing, Prepared};
use crate::http::route;
use crate::http::session::{Context, Service, Step};
use crate::http::wait::WaitSeconds;
use crate::metrics::answers::{AnswerCounters, Outcome, Variant};
use crate::net::counters::ResponseCounters;
use crate::readiness::Readiness;
use crate::vote::answer::{self, Answer, Question, ServerKey};
use crate::vote::directory::DirectoryView;
use crate::vote::table::{CooldownView, Pair};
use crate::vote::time::{Cooldown, UnixSeconds};
use crate::waiting::{Bell, WaitingRoom};
use held::{HeldPath, WorkerWaits};
use responses::ResponseSet;

/// Where requests are decided: what is known, to read only.
#[derive(Clone)]
pub struct StatusReader {
    directory: DirectoryView,
    cooldowns: CooldownView,
    readiness: Readiness,
    counters: PublicCounters,
}

/// What a reader counts. Each reader has its own: only its thread writes them.
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

    /// What this reader counts.
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
        // The service never guesses: what is not loaded is not answered.
        if !self.readiness.is_loaded() {
            return PublicReply::Refused(Fault::NotReady);
        }
        let answer = answer::decide(question, self.directory.current(), &self.cooldowns, now);
        let variant = if let ServerKey::Id(_) = question.server { Variant::Id } else { Variant::Token };
        PublicReply::Status(variant, answer)
    }

    /// The reply, now, to a request for this decoded path that was awaited.
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

    /// The reply to what is no status request.
    #[cold]
    fn aside(&self, path: &[u8], method: Method, lines: HeaderLines<'_>) -> PublicReply {
        let found = match (self.health_at(path), PublicDocument::at(path)) {
            (Some(health), _) => PublicReply::Health(health),
            // A page is the same whatever is loaded.
            (None, Some(page)) => PublicReply::Page(page, page.document().form(lines)),
            (None, None) => return PublicReply::Refused(Fault::NotFound),
        };
        match method {
            Method::Get | Method::Head => found,
            Method::Options => PublicReply::Options,
            _ => PublicReply::Refused(Fault::MethodNotAllowed),
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
        if self.readiness.is_ready() { Health::Ready } else { Health::NotReady }
    }

    /// Counts an answer that is given.
    #[inline]
    fn count(&self, reply: PublicReply) {
        let PublicCounters { answers, responses } = &self.counters;
        match reply {
            PublicReply::Status(variant, answer) => answers.request(variant, outcome(answer)),
            PublicReply::Waiting(_) => {}
            PublicReply::Options => responses.response(204),
            PublicReply::Page(_, form) => responses.response(form.status()),
            PublicReply::Health(health) => responses.response(health.status()),
            PublicReply::Refused(fault) => responses.response(fault.status()),
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

/// ResponseSet the public listener's requests on one thread.
pub struct PublicService {
    reader: StatusReader,
    responses: DatedResponses,
    skip_body_bytes_max: u64,
    waiting: WorkerWaits,
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
        let reader = StatusReader::new(directory, cooldowns, readiness);
        // Until it is given a room nobody waits.
        let waiting = WorkerWaits::new(WaitingRoom::default(), Arc::new(|_| {}));
        Self { reader, responses: DatedResponses::new(cooldown), skip_body_bytes_max, waiting }
    }
}

impl PublicService {
    /// The same, whose requests wait there and are woken by that bell.
    #[must_use]
    pub fn with_waiting(self, room: WaitingRoom, bell: Bell) -> Self {
        Self { waiting: WorkerWaits::new(room, bell), ..self }
    }

    /// What this service counts.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.reader.counters()
    }
}

impl Service for PublicService {
    type Exchange = PublicReply;
    type Kept = HeldPath;

    #[inline]
    fn begin(&mut self, head: &Head<'_>, context: &Context) -> PublicReply {
        let reply = self.reader.reply(head, context.now);
        match head.query {
            Some(query) => held::wish(query, reply),
            None => reply,
        }
    }

    fn content_bytes_max(&self, _reply: &PublicReply) -> u64 {
        self.skip_body_bytes_max
    }

    #[inline]
    fn waits(&self, reply: &PublicReply) -> Option<WaitSeconds> {
        if let PublicReply::Waiting(seconds) = reply { Some(*seconds) } else { None }
    }

    /// The path: content may come minutes later, and a vote that was cancelled meanwhile must not be told.
    #[inline]
    fn keep(&self, head: &Head<'_>, reply: &PublicReply) -> Option<Box<HeldPath>> {
        reply.is_of_its_moment().then(|| HeldPath::of(head.path, head.query))
    }

    fn kept_bytes(&self, kept: &HeldPath) -> usize {
        kept.bytes()
    }

    fn content(&mut self, _reply: &mut PublicReply, _bytes: &[u8], _context: &Context) -> Step {
        Step::Done // legal, and of no meaning here: skipped
    }

    fn decide_again(&mut self, reply: &mut PublicReply, kept: &mut HeldPath, context: &Context) {
        *reply = self.waiting.decide(kept, &mut self.reader, context);
    }

    #[inline]
    fn finish(&mut self, reply: &mut PublicReply, framing: Framing, context: &Context, out: &mut Vec<u8>) -> Step {
        self.reader.count(*reply);
        self.responses.append(*reply, framing, context.now, out);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        self.reader.counters.responses.refused(fault);
        self.responses.append(PublicReply::Refused(fault), framing, context.now, out);
    }
}

/// Every public response, formatted ahead.
struct DatedResponses {
    /// What the `Date` fields say.
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
