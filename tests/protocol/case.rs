//! What a case of the protocol table is, and the templates that keep its rows short.
//! Knows bytes and expectations; must not know how a case is sent or how an answer is read.

/// The target that every ordinary row asks for on the public listener.
pub(super) const PUBLIC_TARGET: &[u8] = b"/api/vote/1/status/1.2.3.4";
/// What stands in for it when the same row is sent to the control listener; as long, since some
/// rows are about sizes.
pub(super) const CONTROL_TARGET: &[u8] = b"/healthz?filled-up-with-xx";

const _: () = assert!(PUBLIC_TARGET.len() == CONTROL_TARGET.len());

/// What must happen to a row's one request.
#[derive(Clone, Copy)]
pub(super) enum Outcome {
    /// Answered with this status; the request behind it is answered too.
    Kept(u16),
    /// Answered with one of these statuses, then closed; nothing behind it is answered.
    Closed(&'static [u16]),
}

pub(super) const OK: Outcome = Outcome::Kept(200);
pub(super) const BAD: Outcome = Outcome::Closed(&[400]);
/// A version that is not ours, or something that is no version at all.
pub(super) const BAD_VERSION: Outcome = Outcome::Closed(&[400, 505]);

/// One answer that a case expects.
#[derive(Clone, Copy)]
pub(super) struct Answer {
    pub(super) statuses: &'static [u16],
    /// HEAD, 204 and interim answers end with their head.
    pub(super) head_only: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Keep,
    Close,
}

/// Which listeners a case holds on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Where {
    Both,
    PublicOnly,
}

#[derive(Clone)]
pub(super) struct Case {
    pub(super) name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) answers: Vec<Answer>,
    pub(super) end: End,
    pub(super) on: Where,
}

/// Name, the part of the request that the table is about, outcome.
pub(super) type Row = (&'static str, &'static [u8], Outcome);

impl Case {
    pub(super) fn new(name: impl Into<String>, bytes: Vec<u8>, outcome: Outcome) -> Case {
        let (statuses, end) = match outcome {
            Outcome::Kept(status) => (one(status), End::Keep),
            Outcome::Closed(statuses) => (statuses, End::Close),
        };
        Case { name: name.into(), bytes, answers: vec![Answer { statuses, head_only: false }], end, on: Where::Both }
    }

    /// A case with any number of answers, each with one status.
    pub(super) fn exchange(name: &str, bytes: Vec<u8>, answers: &[Answer], end: End) -> Case {
        Case { name: name.into(), bytes, answers: answers.to_vec(), end, on: Where::Both }
    }

    pub(super) fn public_only(mut self) -> Case {
        self.on = Where::PublicOnly;
        self
    }

    /// What the row means on the control listener, where its paths take no content: the head decides the
    /// answer, so that is given at the head, and the connection closed. The content is not awaited, since
    /// whoever has no key could hold a place with it; it is not asked for; and whatever is wrong with it,
    /// or too much of it, is not found.
    pub(super) fn on_control(&self) -> Case {
        let mut case = self.clone();
        let Some(number) = first_with_content(&self.bytes) else { return case };
        let is_final = |answer: &&Answer| answer.statuses != [100];
        let Some(&answer) = self.answers.iter().filter(is_final).nth(number) else { return case };
        let head_only = answer.head_only;
        let decided = match answer.statuses {
            [200] | [404] | [405] => answer,
            [413] => Answer { head_only, ..full(200) },
            // The one head of all rows about chunks: the fault is in those.
            _ if self.bytes.starts_with(&from_chunks(b"")) => Answer { head_only, ..full(200) },
            _ => return case,
        };
        case.answers = self.answers.iter().filter(is_final).take(number).copied().chain([decided]).collect();
        case.end = End::Close;
        case
    }
}

/// How many requests without content stand before the first one with some; `None` where there is none with
/// content that is framed as it should be.
fn first_with_content(mut bytes: &[u8]) -> Option<usize> {
    for number in 0.. {
        bytes = bytes.strip_prefix(b"\r\n").unwrap_or(bytes);
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
        let lines = bytes[..head].to_ascii_lowercase();
        let values = |name: &[u8]| -> Vec<Vec<u8>> {
            let fields = lines.split(|byte| *byte == b'\n').filter_map(|line| line.strip_prefix(name));
            fields.map(|value| value.trim_ascii().to_vec()).collect()
        };
        match (&values(b"content-length:")[..], &values(b"transfer-encoding:")[..]) {
            ([length], []) if length.iter().any(|digit| *digit != b'0') => return Some(number),
            ([], [coding]) if coding == b"chunked" => return Some(number),
            _ => bytes = &bytes[head + 4..],
        }
    }
    None
}

/// An answer with a body.
pub(super) const fn full(status: u16) -> Answer {
    Answer { statuses: one(status), head_only: false }
}

/// An answer that ends with its head.
pub(super) const fn head(status: u16) -> Answer {
    Answer { statuses: one(status), head_only: true }
}

const fn one(status: u16) -> &'static [u16] {
    match status {
        100 => &[100],
        200 => &[200],
        204 => &[204],
        400 => &[400],
        404 => &[404],
        405 => &[405],
        413 => &[413],
        414 => &[414],
        417 => &[417],
        431 => &[431],
        501 => &[501],
        505 => &[505],
        _ => panic!("a status that no row expects"),
    }
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
    rows.iter().map(|&(name, part, outcome)| Case::new(name, template(part), outcome)).collect()
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

/// The letters, digits and marks that a token may have (RFC 9110 5.6.2).
pub(super) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
