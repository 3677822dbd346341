//! Responses as bytes: heads written once, and whole responses formatted ahead.

use super::fault::reason;
use super::head::{Head, Method};

/// The `Connection` field of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// HTTP/1.1 goes on: nothing to say.
    Persistent,
    /// `keep-alive`, to an HTTP/1.0 client that asked for it.
    KeepAlive,
    /// `close`: the server closes after this response.
    Close,
}

impl ConnectionField {
    /// The whole line, or nothing.
    #[must_use]
    pub const fn line(self) -> &'static [u8] {
        match self {
            Self::Persistent => b"",
            Self::KeepAlive => b"Connection: keep-alive\r\n",
            Self::Close => b"Connection: close\r\n",
        }
    }
}

/// The parts of a request that decide the form of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Framing {
    /// The answer to `HEAD`: the same head, no body.
    pub head_only: bool,
    /// The client knows no chunked coding.
    pub http_1_0: bool,
    /// The `Connection` field.
    pub connection: ConnectionField,
}

impl Framing {
    /// Form of the response to `head`; `closing`: the connection closes, whatever was asked.
    #[must_use]
    #[inline]
    pub fn of(head: &Head<'_>, closing: bool) -> Self {
        let connection = match (head.keep_alive && !closing, head.http_1_0) {
            (false, _) => ConnectionField::Close,
            (true, true) => ConnectionField::KeepAlive,
            (true, false) => ConnectionField::Persistent,
        };
        Self { head_only: head.method == Method::Head, http_1_0: head.http_1_0, connection }
    }

    /// Form of the last response on a connection.
    #[must_use]
    pub const fn last(head_only: bool) -> Self {
        Self { head_only, http_1_0: false, connection: ConnectionField::Close }
    }
}

/// Bytes of an IMF-fixdate.
pub const DATE_BYTES: usize = 29;

/// The fields of a response besides `Date`, `Content-Length` and `Connection`.
pub type HeaderFields<'a> = &'a [(&'a str, &'a str)];

/// Appends status line, `Date` and `fields`; the length and the empty line follow.
pub fn append_head(out: &mut Vec<u8>, status: u16, date: &[u8; DATE_BYTES], fields: HeaderFields<'_>) {
    let mut number = itoa::Buffer::new();
    for part in ["HTTP/1.1 ", number.format(status), " ", reason(status), "\r\nDate: "] {
        out.extend_from_slice(part.as_bytes());
    }
    out.extend_from_slice(date);
    out.extend_from_slice(b"\r\n");
    for (name, value) in fields {
        for part in [name, ": ", value, "\r\n"] {
            out.extend_from_slice(part.as_bytes());
        }
    }
}

/// Appends a whole response of a known length.
pub fn append(
    out: &mut Vec<u8>,
    status: u16,
    date: &[u8; DATE_BYTES],
    fields: HeaderFields<'_>,
    body: &[u8],
    framing: Framing,
) {
    append_head(out, status, date, fields);
    // RFC 9110, 8.6: a 204 has no Content-Length, and a 304 none but that of the 200.
    if !matches!(status, 204 | 304) {
        out.extend_from_slice(b"Content-Length: ");
        out.extend_from_slice(itoa::Buffer::new().format(body.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
    }
    out.extend_from_slice(framing.connection.line());
    out.extend_from_slice(b"\r\n");
    if !framing.head_only {
        out.extend_from_slice(body);
    }
}

/// A response formatted ahead: appending it is one copy.
pub struct Prepared {
    bytes: Vec<u8>,
    /// Bytes before the empty line: where a `Connection` field goes.
    fields_end: usize,
    date_at: usize,
}

impl Prepared {
    /// Formats a response; its date is set before it is first used.
    #[must_use]
    pub fn new(status: u16, fields: HeaderFields<'_>, body: &[u8]) -> Self {
        let mut bytes = Vec::new();
        let framing = Framing { head_only: false, http_1_0: false, connection: ConnectionField::Persistent };
        append(&mut bytes, status, &[b'0'; DATE_BYTES], fields, body, framing);
        let fields_end = bytes.len() - body.len() - 2;
        let date_at = "HTTP/1.1 200 ".len() + reason(status).len() + "\r\nDate: ".len();
        Self { bytes, fields_end, date_at }
    }

    /// Sets the `Date` field.
    pub fn set_date(&mut self, date: &[u8; DATE_BYTES]) {
        self.bytes[self.date_at..self.date_at + DATE_BYTES].copy_from_slice(date);
    }

    /// Appends the response.
    #[inline]
    pub fn append(&self, out: &mut Vec<u8>, framing: Framing) {
        let end = if framing.head_only { self.fields_end + 2 } else { self.bytes.len() };
        if framing.connection == ConnectionField::Persistent {
            out.extend_from_slice(&self.bytes[..end]);
        } else {
            out.extend_from_slice(&self.bytes[..self.fields_end]);
            out.extend_from_slice(framing.connection.line());
            out.extend_from_slice(&self.bytes[self.fields_end..end]);
        }
    }
}
