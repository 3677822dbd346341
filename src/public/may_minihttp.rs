//! The public service for an engine that writes heads itself: the same decision, the same answers,
//! given in parts.

use std::sync::Arc;

use super::responses::{PublicReply, ResponseSet};
use super::{PublicCounters, StatusReader};
use crate::http::fault::Fault;
use crate::http::head::Head;
use crate::http::response::HeaderFields;
use crate::net::may_minihttp::{PartsService, ResponseParts};
use crate::pages::DocumentForm;
use crate::vote::time::{Cooldown, UnixSeconds};

/// ResponseSet requests on one event loop of the second engine.
#[derive(Clone)]
pub struct PublicParts {
    reader: StatusReader,
    answers: Arc<ResponseSet<Ahead>>,
    /// The body that was filled last.
    filled: Vec<u8>,
}

struct Ahead {
    status: u16,
    lines: Vec<&'static str>,
    body: Vec<u8>,
}

impl PublicParts {
    /// A service that answers at this reader.
    #[must_use]
    pub fn new(reader: StatusReader, cooldown: Cooldown) -> Self {
        let make = |status, fields: HeaderFields<'_>, body: &[u8]| {
            // Lines must live for ever: some hundred short ones, made once.
            let line = |(name, value): &(&str, &str)| &*format!("{name}: {value}").leak();
            Ahead { status, lines: fields.iter().map(line).collect(), body: body.to_owned() }
        };
        Self { reader, answers: Arc::new(ResponseSet::new(cooldown, make)), filled: Vec::new() }
    }
}

impl PublicParts {
    /// The same answers, given at another reader.
    #[must_use]
    pub fn at(&self, reader: StatusReader) -> Self {
        Self { reader, answers: Arc::clone(&self.answers), filled: Vec::new() }
    }

    /// What this service counts.
    #[must_use]
    pub fn counters(&self) -> PublicCounters {
        self.reader.counters()
    }
}

impl PartsService for PublicParts {
    #[inline]
    fn answer(&mut self, request: Result<&Head<'_>, Fault>, now: UnixSeconds) -> ResponseParts<'_> {
        let reply = match request {
            Ok(head) => match self.reader.reply(head, now) {
                // That crate gives every answer a length, which a 304 of none must not have.
                PublicReply::Page(page, form) => PublicReply::Page(page, DocumentForm { is_known: false, ..form }),
                reply => reply,
            },
            Err(fault) => PublicReply::Refused(fault),
        };
        match request {
            Ok(_) => self.reader.count(reply),
            Err(fault) => self.reader.counters.responses.refused(fault),
        }
        let (ahead, blanks) = self.answers.find(reply, now);
        let mut body = &ahead.body[..];
        if let Some(blanks) = blanks {
            self.filled.clear();
            self.filled.extend_from_slice(body);
            blanks.fill(&mut self.filled);
            body = &self.filled;
        }
        ResponseParts { status: ahead.status, lines: &ahead.lines, body }
    }
}
