//! Every public answer, made ahead: status, fields and body of the contract's tables. This module
//! must not know how an engine writes a response: it makes each as the type that the engine wants.

use crate::http::fault::Fault;
use crate::http::response::HeaderFields;
use crate::metrics::answers::{Outcome, Variant};
use crate::pages::{self, Document, DocumentForm};
use crate::vote::answer::{self, Answer};
use crate::vote::time::{Cooldown, UnixSeconds};

/// The answer to one request, before it has the form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicReply {
    /// To a status request of this variant.
    Status(Variant, Answer),
    /// To `OPTIONS`.
    Options,
    /// To a request for a document.
    Page(PublicDocument, DocumentForm),
    /// To a load balancer.
    Health(Health),
    /// To anything else.
    Refused(Fault),
}

impl PublicReply {
    #[inline]
    pub(super) const fn can_vote(self) -> bool {
        matches!(self, Self::Status(_, Answer::CanVote))
    }

    /// The status of the answer.
    #[inline]
    pub(super) const fn status(self) -> u16 {
        match self {
            Self::Status(_, answer) => outcome(answer).status(),
            Self::Options => 204,
            Self::Page(_, form) => form.status(),
            Self::Health(health) => health.status(),
            Self::Refused(fault) => fault.status(),
        }
    }

    /// The answer in a word, for watchers; `None` if they do not see it.
    pub(super) const fn word(self) -> Option<&'static str> {
        match self {
            Self::Status(_, answer) => Some(outcome(answer).word()),
            Self::Refused(fault) => Some(fault.word()),
            Self::Options | Self::Page(..) | Self::Health(_) => None,
        }
    }

    /// Whether the same request may get another answer a moment later.
    #[inline]
    pub(super) const fn is_of_its_moment(self) -> bool {
        matches!(self, Self::Status(..) | Self::Health(_) | Self::Refused(Fault::NotReady))
    }
}

#[inline]
pub(super) const fn outcome(answer: Answer) -> Outcome {
    match answer {
        Answer::CanVote => Outcome::CanVote,
        Answer::InCooldown { .. } => Outcome::InCooldown,
        Answer::InvalidIp => Outcome::InvalidIp,
        Answer::InvalidServerId => Outcome::InvalidServerId,
        Answer::UnknownServer => Outcome::UnknownServer,
        Answer::UnknownToken => Outcome::UnknownToken,
    }
}

/// The answer to a load balancer: no more than it has to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// The process answers.
    Alive,
    /// Requests may be sent here.
    Ready,
    /// Requests are better sent elsewhere: nothing is loaded, the state is too old, or the service is going away.
    NotReady,
}

impl Health {
    /// Each in its order, with the status and the body of the answer.
    const ALL: [(Self, u16, &'static str); 3] = [
        (Self::Alive, 200, r#"{"status":"alive"}"#),
        (Self::Ready, 200, r#"{"status":"ready"}"#),
        (Self::NotReady, 503, r#"{"status":"not_ready"}"#),
    ];

    const fn status(self) -> u16 {
        Self::ALL[self as usize].1
    }
}

/// The documents of the interface, for people and tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublicDocument {
    /// The documentation, with a form to try it.
    Documentation,
    /// The same for tools.
    OpenApi,
}

impl PublicDocument {
    /// Each in its order, with its path and the page itself.
    const ALL: [(Self, &'static [u8], &'static Document); 2] =
        [(Self::Documentation, b"/", &pages::PUBLIC), (Self::OpenApi, b"/openapi.json", &pages::OPENAPI)];

    /// The document at a decoded path.
    #[must_use]
    pub fn at(path: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|(_, own, _)| *own == path).map(|(page, ..)| page)
    }

    /// The page itself.
    #[must_use]
    pub const fn document(self) -> &'static Document {
        Self::ALL[self as usize].2
    }
}

/// One `T` for each answer. Those that depend on the vote have blanks to fill.
pub(super) struct ResponseSet<T> {
    cooldown: Cooldown,
    can_vote: T,
    in_cooldown: [(T, Blanks); MINUTES_DIGITS_MAX],
    invalid_ip: T,
    invalid_server_id: T,
    unknown_server: T,
    unknown_token: T,
    options: T,
    pages: [[T; DocumentForm::ALL.len()]; PublicDocument::ALL.len()],
    health: [T; Health::ALL.len()],
    faults: [T; Fault::ALL.len()],
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
const RETRY_AFTER: (&str, &str) = ("Retry-After", "1");

impl<T> ResponseSet<T> {
    /// Makes one of each status, fields and body.
    pub(super) fn new(cooldown: Cooldown, make: impl Fn(u16, HeaderFields<'_>, &[u8]) -> T) -> Self {
        let safe = |status, word: &str, message: &str, fields: HeaderFields<'_>| {
            make(status, fields, answer::safe_body(cooldown, message, word).as_bytes())
        };
        let refused = |outcome: Outcome, message| safe(outcome.status(), outcome.word(), message, &COMMON);
        let with = |field: Option<(&'static str, &'static str)>| COMMON.into_iter().chain(field).collect::<Vec<_>>();
        let options = [
            COMMON[1],
            COMMON[2],
            COMMON[3],
            ALLOW,
            ("Access-Control-Allow-Methods", "GET, HEAD, OPTIONS"),
            ("Access-Control-Allow-Headers", "*"),
            ("Access-Control-Max-Age", "86400"),
        ];
        let page = |page: &Document, form: DocumentForm| {
            let mut fields = page.fields(form);
            fields.push(COMMON[2]);
            make(form.status(), &fields, page.body(form))
        };
        Self {
            cooldown,
            can_vote: make(200, &COMMON, answer::can_vote_body(cooldown).as_bytes()),
            in_cooldown: std::array::from_fn(|index| in_cooldown(cooldown, index + 1, &make)),
            invalid_ip: refused(Outcome::InvalidIp, "Adresse IP invalide"),
            invalid_server_id: refused(Outcome::InvalidServerId, "Identifiant de serveur invalide"),
            unknown_server: refused(Outcome::UnknownServer, "Serveur inconnu"),
            unknown_token: refused(Outcome::UnknownToken, "Token inconnu"),
            pages: PublicDocument::ALL.map(|(.., asked)| DocumentForm::ALL.map(|form| page(asked, form))),
            options: make(204, &options, b""),
            health: Health::ALL.map(|(health, status, body)| {
                make(status, &with((health == Health::NotReady).then_some(RETRY_AFTER)), body.as_bytes())
            }),
            faults: Fault::ALL
                .map(|(fault, status, word)| safe(status, word, message(fault), &with(extra_field(fault)))),
        }
    }

    /// The answer, and the blanks to fill in it.
    #[inline]
    pub(super) fn find(&self, reply: PublicReply, now: UnixSeconds) -> (&T, Option<Blanks>) {
        let ahead = match reply {
            PublicReply::Status(_, Answer::CanVote) => &self.can_vote,
            PublicReply::Status(_, Answer::InCooldown { expires_at }) => {
                let minutes = self.cooldown.minutes_remaining(expires_at, now);
                let digits = minutes.checked_ilog10().unwrap_or_default() as usize + 1;
                let (ahead, blanks) = &self.in_cooldown[digits - 1];
                return (ahead, Some(Blanks { minutes, expires_at, ..*blanks }));
            }
            PublicReply::Status(_, Answer::InvalidIp) => &self.invalid_ip,
            PublicReply::Status(_, Answer::InvalidServerId) => &self.invalid_server_id,
            PublicReply::Status(_, Answer::UnknownServer) => &self.unknown_server,
            PublicReply::Status(_, Answer::UnknownToken) => &self.unknown_token,
            PublicReply::Options => &self.options,
            PublicReply::Page(page, form) => &self.pages[page as usize][form.index()],
            PublicReply::Health(health) => &self.health[health as usize],
            PublicReply::Refused(fault) => &self.faults[fault as usize],
        };
        (ahead, None)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let cooling = self.in_cooldown.iter_mut().map(|(ahead, _)| ahead);
        let single = [
            &mut self.can_vote,
            &mut self.invalid_ip,
            &mut self.invalid_server_id,
            &mut self.unknown_server,
            &mut self.unknown_token,
            &mut self.options,
        ];
        let aside = self.pages.iter_mut().flatten().chain(&mut self.health);
        cooling.chain(single).chain(aside).chain(&mut self.faults)
    }
}

/// "In cooldown" for one number of digits: its length is known, and two places are left blank.
fn in_cooldown<T>(cooldown: Cooldown, digits: usize, make: impl Fn(u16, HeaderFields<'_>, &[u8]) -> T) -> (T, Blanks) {
    let (minutes, expires_at) = (10_u32.pow(u32::try_from(digits).unwrap_or_default()) - 1, UnixSeconds(0));
    let body = answer::in_cooldown_body(cooldown, minutes, expires_at);
    let from_end = |pattern: &str| body.len() - body.find(pattern).unwrap_or_default();
    let minutes_from_end = from_end(&format!("{minutes} minutes"));
    let instant_from_end = from_end(&expires_at.to_string());
    let blanks = Blanks { minutes, expires_at, minutes_from_end, instant_from_end };
    (make(200, &COMMON, body.as_bytes()), blanks)
}

/// The parts that depend on the vote.
#[derive(Clone, Copy)]
pub(super) struct Blanks {
    minutes: u32,
    expires_at: UnixSeconds,
    /// Where the minutes begin, counted from the end of the body.
    minutes_from_end: usize,
    instant_from_end: usize,
}

impl Blanks {
    /// Fills the blanks in `bytes`, which end with the body.
    #[inline]
    pub(super) fn fill(&self, bytes: &mut [u8]) {
        let end = bytes.len();
        let mut number = itoa::Buffer::new();
        let minutes = number.format(self.minutes).as_bytes();
        let minutes_at = end - self.minutes_from_end;
        bytes[minutes_at..minutes_at + minutes.len()].copy_from_slice(minutes);
        let instant = self.expires_at.rfc3339();
        let instant_at = end - self.instant_from_end;
        bytes[instant_at..instant_at + instant.len()].copy_from_slice(&instant);
    }
}

const fn extra_field(fault: Fault) -> Option<(&'static str, &'static str)> {
    match fault {
        Fault::MethodNotAllowed => Some(ALLOW),
        Fault::NotReady => Some(RETRY_AFTER),
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
