//! The whole way from a connection's bytes to the answers' bytes. Whatever the segments and however
//! little output may wait, the answers are those of `answers`, byte for byte. The connection is kept
//! or closed as said there, and no buffer grows beyond its bound.

use std::cell::RefCell;
use std::sync::Arc;

use httparse::{EMPTY_HEADER, Response, Status};
use vote_status::http::body::TRAILER_BYTES_MAX;
use vote_status::http::fault::Fault;
use vote_status::http::head::HeadLimits;
use vote_status::http::session::{Next, Session, SessionCall, Ticket, Waiting, is_head_method};
use vote_status::pages::{self, DocumentForm};
use vote_status::public::{PublicService, StatusReader};
use vote_status::readiness::Readiness;
use vote_status::vote::directory::{Directory, Snapshot};
use vote_status::vote::id::Token;
use vote_status::vote::table::{CooldownTable, Pair};
use vote_status::vote::time::Cooldown;
use vote_status::waiting::WaitingList;
use vote_status::watch::WatchBoard;

use crate::answers::{
    self, ALIVE, Answers, Bounds, COOLING, COOLING_UNTIL, EXPIRED, IN_COOLDOWN, NOW, READY, SERVER, TOKEN,
};
use crate::cuts;
use crate::head::{ROOMY, TIGHT};

/// The service's defaults, and bounds that small inputs reach.
const BOUNDS: [Bounds; 2] =
    [Bounds { head: ROOMY, skip_body_bytes_max: 64 * 1024 }, Bounds { head: TIGHT, skip_body_bytes_max: 24 }];
/// The longest interim answer.
const INTERIM_BYTES_MAX: usize = 26;
/// The longest input that is tried byte by byte.
const BYTEWISE_BYTES_MAX: usize = 400;

thread_local! {
    /// The same services for all inputs, as a worker has: an answer leaves no trace in them.
    static SERVICES: RefCell<[PublicService; 2]> = RefCell::new(services());
}

fn services() -> [PublicService; 2] {
    let cooldown = Cooldown::from_minutes(90).expect("within a week");
    let mut snapshot = Snapshot::default();
    assert!(snapshot.insert(SERVER, Token::new(TOKEN).expect("a token")));
    let mut directory = Directory::default();
    directory.publish(snapshot);
    let mut table = CooldownTable::default();
    table.insert(Pair { server: SERVER, address: COOLING }, COOLING_UNTIL);
    table.insert(Pair { server: SERVER, address: EXPIRED }, NOW);
    let readiness = Readiness::default();
    readiness.set_loaded();
    BOUNDS.map(|bounds| {
        let reader = StatusReader::new(directory.view(), table.view(), readiness.clone());
        let (list, watch) = (WaitingList::default(), WatchBoard::default().post());
        PublicService::new(reader, cooldown, bounds.skip_body_bytes_max, list, Arc::new(|_| {}), watch)
    })
}

/// Panics where a session breaks a promise over these bytes.
pub fn check(data: &[u8]) {
    SERVICES.with_borrow_mut(|services| {
        for (service, bounds) in services.iter_mut().zip(BOUNDS) {
            for closing in [false, true] {
                check_within(service, bounds, closing, data);
            }
        }
    });
}

fn check_within(service: &mut PublicService, bounds: Bounds, closing: bool, data: &[u8]) {
    let expected = answers::answers(data, bounds, closing);
    let answer_bytes_max = longest_of_the_well_formed(&expected) + INTERIM_BYTES_MAX;
    assert!(!closing || expected.head_only.len() <= 1, "answers after the last answer");
    let client = |unsent_bytes_max| Client::new(bounds.head, unsent_bytes_max, answer_bytes_max, closing);
    client(64 * 1024).hears(service, cuts::whole(data), &expected);
    client(1).hears(service, cuts::whole(data), &expected);
    client(64 * 1024).hears(service, cuts::segments(data, 1), &expected);
    client(600).hears(service, cuts::segments(data, 2), &expected);
    if data.len() <= BYTEWISE_BYTES_MAX && !closing {
        client(64 * 1024).hears(service, cuts::bytewise(data), &expected);
    }
}

/// One connection without its socket, as an engine drives it.
struct Client {
    session: Session<PublicService>,
    limits: HeadLimits,
    unsent_bytes_max: usize,
    /// The longest expected answer.
    answer_bytes_max: usize,
    closing: bool,
    /// Bytes that were sent and that the session has not consumed yet.
    held: Vec<u8>,
    heard: Vec<u8>,
    answered: usize,
    is_closed: bool,
}

impl Client {
    fn new(limits: HeadLimits, unsent_bytes_max: usize, answer_bytes_max: usize, closing: bool) -> Self {
        Self {
            session: Session::default(),
            limits,
            unsent_bytes_max,
            answer_bytes_max,
            closing,
            held: Vec::new(),
            heard: Vec::new(),
            answered: 0,
            is_closed: false,
        }
    }

    /// Sends the segments, then the end of input, and compares what comes back.
    fn hears<'d>(mut self, service: &mut PublicService, segments: impl Iterator<Item = &'d [u8]>, expected: &Answers) {
        for segment in segments {
            self.held.extend_from_slice(segment);
            self.advance(service);
            if self.is_closed {
                break;
            }
        }
        assert_same(&self.heard, &expected.bytes);
        assert_eq!(self.is_closed, expected.is_closed, "keeps or closes");
        assert!(self.answered <= expected.head_only.len(), "counts more answers than it gives");
        let mut at_end = Vec::new();
        if !self.is_closed {
            self.end(service, &mut at_end);
        }
        assert_same(&at_end, &expected.at_end);
    }

    /// Goes on until the session wants more input or closes.
    fn advance(&mut self, service: &mut PublicService) {
        loop {
            let mut out = Vec::new();
            let mut call = call(self.limits, self.unsent_bytes_max, self.closing, service, &mut out);
            let advanced = self.session.advance(&self.held, &None, &mut call);
            assert!(out.len() < self.unsent_bytes_max + self.answer_bytes_max, "lets too much wait");
            self.held.drain(..advanced.consumed);
            self.answered += advanced.answered as usize;
            self.heard.extend_from_slice(&out);
            match advanced.next {
                Next::Output => assert!(!out.is_empty(), "no progress"),
                Next::Parked { .. } | Next::Waiting(_) => panic!("a status request never waits"),
                Next::Close { .. } => return self.is_closed = true,
                Next::Input => {
                    let held_max = TRAILER_BYTES_MAX.max(self.limits.head_bytes_max + 2);
                    assert!(self.held.len() < held_max, "holds more than its longest part");
                    return;
                }
            }
        }
    }

    /// The peer sends no more: a begun request is answered, and an empty line is none.
    fn end(&mut self, service: &mut PublicService, out: &mut Vec<u8>) {
        if !self.session.is_between_requests() || !matches!(self.held[..], [] | [b'\r'] | [b'\r', b'\n']) {
            let mut call = call(self.limits, self.unsent_bytes_max, self.closing, service, out);
            self.session.refuse(Fault::BadRequest, is_head_method(&self.held), &None, &mut call);
        }
    }
}

fn call<'a>(
    limits: HeadLimits,
    unsent_bytes_max: usize,
    closing: bool,
    service: &'a mut PublicService,
    out: &'a mut Vec<u8>,
) -> SessionCall<'a, PublicService> {
    let (now, ticket, waiting) = (NOW, Ticket(1), Waiting::Allowed);
    SessionCall { service, now, ticket, waiting, limits, unsent_bytes_max, closing, out }
}

fn assert_same(heard: &[u8], expected: &[u8]) {
    assert!(heard == expected, "heard:\n{}\nexpected:\n{}", heard.escape_ascii(), expected.escape_ascii());
}

/// Requires that the answers are HTTP to a client's parser too, and that only the one allowed body says
/// `false`; pages and answers to balancers aside. Gives the length of the longest answer.
fn longest_of_the_well_formed(answers: &Answers) -> usize {
    let mut longest = 0;
    let mut rest = &answers.bytes[..];
    let mut head_only = answers.head_only.iter();
    while !rest.is_empty() {
        let mut fields = [EMPTY_HEADER; 16];
        let mut response = Response::new(&mut fields);
        let Ok(Status::Complete(used)) = response.parse(rest) else { panic!("no response: {}", rest.escape_ascii()) };
        rest = &rest[used..];
        if response.code == Some(100) {
            continue;
        }
        let length = response.headers.iter().find(|field| field.name == "Content-Length");
        let length = length.map(|field| std::str::from_utf8(field.value).expect("digits").parse().expect("digits"));
        assert_eq!(length.is_none(), matches!(response.code, Some(204 | 304)));
        let is_head = *head_only.next().expect("an answer to each request");
        let (body, after) = rest.split_at(if is_head { 0 } else { length.unwrap_or(0) });
        rest = after;
        longest = longest.max(used + body.len());
        if [&pages::PUBLIC, &pages::OPENAPI]
            .iter()
            .any(|page| DocumentForm::ALL.iter().any(|form| page.body(*form) == body))
        {
            continue;
        }
        let is_safe = body.is_empty() || body.starts_with(br#"{"success":true,"can_vote":true,"#);
        // A balancer's answers are not for a player's site, and come only at their own paths.
        let is_told = [IN_COOLDOWN, READY, ALIVE].iter().any(|told| body == told.as_bytes());
        assert!(is_safe || is_told, "{}", body.escape_ascii());
    }
    assert_eq!(head_only.next(), None, "an answer to each request");
    longest
}
