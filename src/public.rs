//! The public service: one status request in, one answer out. It reads and cannot write.

use crate::http::fault::Fault;
use crate::http::head::{Head, Method};
use crate::http::response::{Fields, Framing, Prepared};
use crate::http::route;
use crate::http::session::{Context, Service, Step};
use crate::readiness::Readiness;
use crate::vote::answer::{self, Answer};
use crate::vote::directory::DirectoryView;
use crate::vote::table::CooldownView;
use crate::vote::time::{Cooldown, UnixSeconds};

/// What is answered to one request, known once its head is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// To a status request.
    Status(Answer),
    /// To `OPTIONS`.
    Options,
    /// To anything else.
    Refused(Fault),
}

/// Answers the public listener's requests on one thread.
pub struct PublicService {
    directory: DirectoryView,
    cooldowns: CooldownView,
    readiness: Readiness,
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
        Self { directory, cooldowns, readiness, responses: Responses::new(cooldown), skip_body_bytes_max }
    }

    #[inline]
    fn reply(&mut self, head: &Head<'_>, now: UnixSeconds) -> Reply {
        if head.path == b"*" {
            return Reply::Options;
        }
        let path = route::decode(head.path);
        let Some(question) = route::question(&path) else { return Reply::Refused(Fault::NotFound) };
        match head.method {
            Method::Get | Method::Head => {}
            Method::Options => return Reply::Options,
            _ => return Reply::Refused(Fault::MethodNotAllowed),
        }
        // The service never guesses: what is not loaded is not answered.
        if !self.readiness.is_loaded() {
            return Reply::Refused(Fault::NotReady);
        }
        Reply::Status(answer::decide(question, self.directory.current(), &self.cooldowns, now))
    }
}

impl Service for PublicService {
    type Exchange = Reply;

    #[inline]
    fn begin(&mut self, head: &Head<'_>, context: &Context) -> (Reply, u64) {
        (self.reply(head, context.now), self.skip_body_bytes_max)
    }

    fn content(&mut self, _reply: &mut Reply, _bytes: &[u8], _context: &Context) -> Step {
        Step::Done // legal, and of no meaning here: skipped
    }

    #[inline]
    fn finish(&mut self, reply: &mut Reply, framing: Framing, context: &Context, out: &mut Vec<u8>) -> Step {
        self.responses.append(*reply, framing, context.now, out);
        Step::Done
    }

    fn refuse(&mut self, fault: Fault, framing: Framing, context: &Context, out: &mut Vec<u8>) {
        self.responses.append(Reply::Refused(fault), framing, context.now, out);
    }
}

/// Every public response, formatted ahead.
struct Responses {
    cooldown: Cooldown,
    /// What the `Date` fields say.
    date: UnixSeconds,
    can_vote: Prepared,
    in_cooldown: [InCooldown; MINUTES_DIGITS_MAX],
    invalid_ip: Prepared,
    invalid_server_id: Prepared,
    unknown_server: Prepared,
    unknown_token: Prepared,
    options: Prepared,
    faults: [Prepared; Fault::ALL.len()],
}

/// 10,080 minutes, the longest cooldown, have five digits.
const MINUTES_DIGITS_MAX: usize = 5;

const COMMON: [(&str, &str); 4] = [
    ("Content-Type", "application/json; charset=utf-8"),
    ("Cache-Control", "no-store"),
    ("Access-Control-Allow-Origin", "*"),
    ("X-Content-Type-Options", "nosniff"),
];
const ALLOW: (&str, &str) = ("Allow", "GET, HEAD, OPTIONS");

impl Responses {
    fn new(cooldown: Cooldown) -> Self {
        let safe = |status, word: &str, message: &str, fields: Fields<'_>| {
            Prepared::new(status, fields, answer::safe_body(cooldown, message, word).as_bytes())
        };
        let options = [
            COMMON[1],
            COMMON[2],
            COMMON[3],
            ALLOW,
            ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
            ("Access-Control-Allow-Headers", "*"),
            ("Access-Control-Max-Age", "86400"),
        ];
        let mut responses = Self {
            cooldown,
            date: UnixSeconds(0),
            can_vote: Prepared::new(200, &COMMON, answer::can_vote_body(cooldown).as_bytes()),
            in_cooldown: std::array::from_fn(|index| InCooldown::new(cooldown, index + 1)),
            invalid_ip: safe(400, "invalid_ip", "Adresse IPv4 invalide", &COMMON),
            invalid_server_id: safe(400, "invalid_server_id", "Identifiant de serveur invalide", &COMMON),
            unknown_server: safe(404, "unknown_server", "Serveur inconnu", &COMMON),
            unknown_token: safe(404, "unknown_token", "Token inconnu", &COMMON),
            options: Prepared::new(204, &options, b""),
            faults: Fault::ALL.map(|fault| {
                let mut fields = COMMON.to_vec();
                fields.extend(extra_field(fault));
                safe(fault.status(), fault.word(), message(fault), &fields)
            }),
        };
        responses.set_date(UnixSeconds(0));
        responses
    }

    #[inline]
    fn append(&mut self, reply: Reply, framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
        if self.date != now {
            self.set_date(now);
        }
        match reply {
            Reply::Status(Answer::CanVote) => self.can_vote.append(out, framing),
            Reply::Status(Answer::InCooldown { expires_at }) => {
                let minutes = self.cooldown.minutes_remaining(expires_at, now);
                let mut number = itoa::Buffer::new();
                let digits = number.format(minutes);
                self.in_cooldown[digits.len() - 1].append(digits, expires_at, framing, out);
            }
            Reply::Status(Answer::InvalidIp) => self.invalid_ip.append(out, framing),
            Reply::Status(Answer::InvalidServerId) => self.invalid_server_id.append(out, framing),
            Reply::Status(Answer::UnknownServer) => self.unknown_server.append(out, framing),
            Reply::Status(Answer::UnknownToken) => self.unknown_token.append(out, framing),
            Reply::Options => self.options.append(out, framing),
            Reply::Refused(fault) => self.faults[fault as usize].append(out, framing),
        }
    }

    /// Once a second at most.
    fn set_date(&mut self, now: UnixSeconds) {
        self.date = now;
        let date = now.imf_fixdate();
        let cooling = self.in_cooldown.iter_mut().map(|template| &mut template.response);
        let single = [
            &mut self.can_vote,
            &mut self.invalid_ip,
            &mut self.invalid_server_id,
            &mut self.unknown_server,
            &mut self.unknown_token,
            &mut self.options,
        ];
        for response in cooling.chain(single).chain(&mut self.faults) {
            response.set_date(&date);
        }
    }
}

/// The "in cooldown" response for one number of digits: its length is known, two places are patched.
struct InCooldown {
    response: Prepared,
    /// Places of the minutes and of the instant, counted from the end.
    minutes_from_end: usize,
    instant_from_end: usize,
}

impl InCooldown {
    fn new(cooldown: Cooldown, digits: usize) -> Self {
        let largest = 10_u32.pow(u32::try_from(digits).unwrap_or_default()) - 1;
        let placeholder = UnixSeconds(0);
        let body = answer::in_cooldown_body(cooldown, largest, placeholder);
        let response = Prepared::new(200, &COMMON, body.as_bytes());
        let instant_from_end = response.body_place(&placeholder.rfc3339());
        let minutes_from_end = response.body_place(format!("{largest} minutes").as_bytes());
        Self { response, minutes_from_end, instant_from_end }
    }

    #[inline]
    fn append(&self, minutes: &str, expires_at: UnixSeconds, framing: Framing, out: &mut Vec<u8>) {
        self.response.append(out, framing);
        if framing.head_only {
            return;
        }
        let end = out.len();
        let minutes_at = end - self.minutes_from_end;
        out[minutes_at..minutes_at + minutes.len()].copy_from_slice(minutes.as_bytes());
        let instant = expires_at.rfc3339();
        let instant_at = end - self.instant_from_end;
        out[instant_at..instant_at + instant.len()].copy_from_slice(&instant);
    }
}

const fn extra_field(fault: Fault) -> Option<(&'static str, &'static str)> {
    match fault {
        Fault::MethodNotAllowed => Some(ALLOW),
        Fault::NotReady => Some(("Retry-After", "1")),
        _ => None,
    }
}

/// The contract's French text for people.
const fn message(fault: Fault) -> &'static str {
    match fault {
        Fault::BadRequest => "Requête invalide",
        Fault::NotFound => "Ressource introuvable",
        Fault::MethodNotAllowed => "Méthode non autorisée",
        Fault::RequestTimeout => "Délai de requête dépassé",
        Fault::ContentTooLarge => "Corps trop volumineux",
        Fault::UriTooLong => "URI trop longue",
        Fault::ExpectationFailed => "Attente non satisfaite",
        Fault::HeadersTooLarge => "En-têtes trop volumineux",
        Fault::Internal => "Erreur interne",
        Fault::NotImplemented => "Codage de transfert non pris en charge",
        Fault::NotReady => "Service momentanément indisponible",
        Fault::VersionNotSupported => "Version HTTP non prise en charge",
    }
}
