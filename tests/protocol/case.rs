//! A case of the protocol table, and the templates that keep its rows short.
//! Knows bytes and expectations; must not know how a case is sent or how an answer is read.

use crate::util::answers::{BAD_REQUEST, CAN_VOTE, Outcome};

/// The answer to a row's one request, and whether the request behind it is answered too.
pub(super) type Fate = (&'static Outcome, End);

pub(super) const OK: Fate = (&CAN_VOTE, End::Keep);
pub(super) const BAD: Fate = (&BAD_REQUEST, End::Close);

/// The interim answer, which has only its status line.
pub(super) static CONTINUE: Outcome = Outcome { status: "100 Continue", body: "", extra: "", closes: false };

/// One answer that a case expects.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) outcome: &'static Outcome,
    /// HEAD, 204 and interim answers end with their head.
    pub(super) head_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Keep,
    Close,
}

#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) answers: Vec<Answer>,
    pub(super) end: End,
}

/// Name, the part of the request that the table is about, outcome.
pub(super) type Row = (&'static str, &'static [u8], Fate);

impl Case {
    pub(super) fn new(name: impl Into<String>, bytes: Vec<u8>, (outcome, end): Fate) -> Case {
        Case { name: name.into(), bytes, answers: vec![full(outcome)], end }
    }

    /// A case with any number of answers.
    pub(super) fn exchange(name: &str, bytes: Vec<u8>, answers: &[Answer], end: End) -> Case {
        Case { name: name.into(), bytes, answers: answers.to_vec(), end }
    }
}

/// An answer with a body.
pub(super) const fn full(outcome: &'static Outcome) -> Answer {
    Answer { outcome, head_only: false }
}

/// An answer that ends with its head.
pub(super) const fn head(outcome: &'static Outcome) -> Answer {
    Answer { outcome, head_only: true }
}

/// A whole request from its request line.
pub(super) fn from_line(line: &[u8]) -> Vec<u8> {
    [line, b"\r\nHost: h\r\n\r\n"].concat()
}

/// A whole request from a field line (or several, with their CRLF between them).
pub(super) fn from_field(field: &[u8]) -> Vec<u8> {
    [b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\n".as_slice(), field, b"\r\n\r\n"].concat()
}

/// A whole request from its Host line or lines; nothing is added beside them.
pub(super) fn from_host(host: &[u8]) -> Vec<u8> {
    [b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\n".as_slice(), host, b"\r\n\r\n"].concat()
}

/// A whole request from the bytes of its chunked body.
pub(super) fn from_chunks(body: &[u8]) -> Vec<u8> {
    [b"GET /api/vote/1/status/1.2.3.4 HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice(), body]
        .concat()
}

/// The rows of one table, each put through its template.
pub(super) fn table(rows: &[Row], template: fn(&[u8]) -> Vec<u8>) -> Vec<Case> {
    rows.iter().map(|&(name, part, fate)| Case::new(name, template(part), fate)).collect()
}

/// Each of `bytes` put before `text` and behind it, with a name for both.
pub(super) fn around(text: &str, bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let named = |byte: &u8| {
        let shown = byte.escape_ascii();
        [
            (format!("{shown} before"), [&[*byte], text.as_bytes()].concat()),
            (format!("{shown} behind"), [text.as_bytes(), &[*byte]].concat()),
        ]
    };
    bytes.iter().flat_map(named).collect()
}
