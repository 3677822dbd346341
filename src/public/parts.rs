//! The public service for an engine that writes heads itself: the same decision, the same answers,
//! given in parts.

use std::sync::Arc;

use super::answers::{Answers, Reply};
use super::{Desk, PublicCounters};
use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::Fields;
use crate::net::may_minihttp::{Parts, PartsService};
use crate::pages::Form;
use crate::vote::time::{Cooldown, UnixSeconds};

/// Answers requests on one event loop of the second engine.
#[derive(Clone)]
pub struct PublicParts {
    desk: Desk,
    answers: Arc<Answers<Ahead>>,
    /// The body that was filled last.
    filled: Vec<u8>,
}

struct Ahead {
    status: u16,
    lines: Vec<&'static str>,
    body: Vec<u8>,
}

impl PublicParts {
    /// A service that answers at this desk.
    #[must_use]
    pub fn new(desk: Desk, cooldown: Cooldown) -> Self {
        let make = |status, fields: Fields<'_>, body: &[u8]| {
            // Lines must live for ever: some hundred short ones, made once.
            let line = |(name, value): &(&str, &str)| &*format!("{name}: {value}").leak();
            Ahead { status, lines: fields.iter().map(line).collect(), body: body.to_owned() }
        };
        Self { desk, answers: Arc::new(Answers::new(cooldown, make)), filled: Vec::new() }
    }
}

impl PublicParts {
    /// The same answers, given at another desk.
    #[must_use]
    pub fn at(&self, desk: Desk) -> Self {
        Self { desk, answers: Arc::clone(&self.answers), filled: Vec::new() }
    }

    /// What this service counts.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.desk.counters()
    }
}

impl PartsService for PublicParts {
    #[inline]
    fn answer(&mut self, request: Result<&Head<'_>, Fault>, now: UnixSeconds) -> Parts<'_> {
        let reply = match request {
            Ok(head) => match self.desk.reply(head, now) {
                // That crate gives every answer a length, which a 304 of none must not have.
                Reply::Page(page, form) => Reply::Page(page, Form { is_known: false, ..form }),
                reply => reply,
            },
            Err(fault) => Reply::Refused(fault),
        };
        match request {
            Ok(_) => self.desk.count(reply),
            Err(fault) => self.desk.counters.responses.refused(fault),
        }
        let (ahead, blanks) = self.answers.find(reply, now);
        let mut body = &ahead.body[..];
        if let Some(blanks) = blanks {
            self.filled.clear();
            self.filled.extend_from_slice(body);
            blanks.fill(&mut self.filled);
            body = &self.filled;
        }
        Parts { status: ahead.status, lines: &ahead.lines, body }
    }
}
