//! One response as it came over the wire. Knows the form of HTTP responses, not the meaning of ours.

use flate2::read::GzDecoder;
use serde_json::Value;
use std::fmt::{self, Debug, Formatter};
use std::io::Read;

/// A response, whole.
#[derive(Clone)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// Header fields in the order received; names as sent.
    pub(crate) headers: Vec<(String, String)>,
    /// The body, with a chunked coding taken off.
    pub(crate) body: Vec<u8>,
    /// Status line and header fields up to and with the empty line, as received.
    pub(crate) raw_head: String,
}

/// The most bytes of a body that are shown: a page would bury the rest.
const SHOWN_BYTES_MAX: usize = 2_000;

/// Shows the bytes as text, for the reader of a failed test.
impl Debug for Response {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(SHOWN_BYTES_MAX)];
        write!(formatter, "{:?}", format!("{}{}", self.raw_head, String::from_utf8_lossy(shown)))
    }
}

impl Response {
    /// The value of the field `name` (any case), if the response has it. Panics when the field is there twice.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(sent, _)| sent.eq_ignore_ascii_case(name));
        let first = found.next().map(|(_, value)| value.as_str());
        assert!(found.next().is_none(), "{name} is there twice: {self:?}");
        first
    }

    /// The body as text. Panics when it is not UTF-8.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("the body is UTF-8")
    }

    /// The body without its `Content-Encoding`, if any. Panics when the coded body is not whole.
    pub(crate) fn content(&self) -> Vec<u8> {
        let Some(coding) = self.header("Content-Encoding") else { return self.body.clone() };
        assert_eq!(coding, "gzip", "{self:?}");
        let mut content = Vec::new();
        GzDecoder::new(&self.body[..]).read_to_end(&mut content).expect("it is gzip, whole");
        content
    }

    /// The body as JSON. Panics when it is not.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("the body is no JSON ({error}): {self:?}"))
    }

    /// Whether the response announces the close of the connection.
    pub(crate) fn says_close(&self) -> bool {
        self.header("Connection") == Some("close")
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// This many bytes.
    Length(usize),
    /// Chunks.
    Chunked,
    /// All bytes until the connection ends.
    UntilClose,
}

/// Splits a head from the front of `bytes`. Gives the response without its body, the length of the
/// head, and the framing of the body. `None` while the head is not whole.
pub(crate) fn parse_head(bytes: &[u8]) -> Option<(Response, usize, Framing)> {
    let length = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let raw_head = std::str::from_utf8(&bytes[..length]).expect("the head is UTF-8").to_owned();
    let mut lines = raw_head.trim_end_matches("\r\n").split("\r\n");
    let status_line = lines.next().expect("a split gives at least one piece");
    let status = parse_status_line(status_line);
    let headers = lines
        .map(|line| {
            let (name, value) =
                line.split_once(": ").unwrap_or_else(|| panic!("a header line without `: `: {raw_head:?}"));
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let response = Response { status, headers, body: Vec::new(), raw_head };
    let framing = framing(&response);
    Some((response, length, framing))
}

fn parse_status_line(line: &str) -> u16 {
    let rest = line.strip_prefix("HTTP/1.1 ").unwrap_or_else(|| panic!("a status line of another kind: {line:?}"));
    // A proxy that knows no reason leaves it empty. The tests of the contract compare our reasons.
    let (code, _) = rest.split_once(' ').unwrap_or_else(|| panic!("a status line without a reason: {line:?}"));
    assert_eq!(code.len(), 3, "{line:?}");
    code.parse().expect("three digits")
}

fn framing(response: &Response) -> Framing {
    let chunked = response.header("Transfer-Encoding");
    let length = response.header("Content-Length");
    if response.status < 200 || response.status == 204 || response.status == 304 {
        return Framing::Length(0);
    }
    match (chunked, length) {
        (Some(coding), None) => {
            assert_eq!(coding, "chunked", "{response:?}");
            Framing::Chunked
        }
        (None, Some(digits)) => Framing::Length(digits.parse().expect("Content-Length is digits")),
        (None, None) => Framing::UntilClose,
        (Some(_), Some(_)) => panic!("both framings in one response: {response:?}"),
    }
}

/// Decodes a chunked body from the front of `bytes`: the content, and how many bytes it took.
/// `None` while the body is not whole. Trailer fields are dropped.
pub(crate) fn decode_chunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    let mut at = 0;
    loop {
        let line_end = at + bytes[at..].windows(2).position(|two| two == b"\r\n")?;
        let line = std::str::from_utf8(&bytes[at..line_end]).expect("a chunk line is ASCII");
        let digits = line.split(';').next().expect("at least one piece");
        let size = usize::from_str_radix(digits, 16).expect("a chunk size is hexadecimal");
        at = line_end + 2;
        if size == 0 {
            let trailer = &bytes[line_end..];
            let end = trailer.windows(4).position(|four| four == b"\r\n\r\n")?;
            return Some((content, line_end + end + 4));
        }
        let data = bytes.get(at..at + size + 2)?;
        assert_eq!(&data[size..], b"\r\n", "a chunk ends with CRLF");
        content.extend_from_slice(&data[..size]);
        at += size + 2;
    }
}
