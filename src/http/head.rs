//! A request's head, straight from the read buffer: method, target, version, and the few fields
//! that frame the rest. The parser is strict where two parsers could differ (RFC 9112, 11.2).

use std::net::Ipv6Addr;

use super::body::Length;
use super::byte;
use super::fault::Fault;
use super::field::{self, Section, Visitor};
use super::route;
use crate::vote::answer::Question;
use crate::vote::ipv4::trim_blanks;

/// Bounds on a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the request line, the header lines and the empty line together.
    pub head_bytes_max: usize,
    /// Header lines.
    pub header_lines_max: usize,
}

/// The method, as far as this service tells them apart. Names are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// `GET`
    Get,
    /// `HEAD`
    Head,
    /// `OPTIONS`
    Options,
    /// `POST`
    Post,
    /// `PUT`
    Put,
    /// `DELETE`
    Delete,
    /// Any other.
    Other,
}

/// A request's head.
#[derive(Clone, Debug)]
pub struct Head<'b> {
    /// The method.
    pub method: Method,
    /// The target's path, with its percent-encoding as it was sent; `*` for the asterisk form.
    pub path: &'b [u8],
    /// The path's question, if the parser saw it while it read; `None` says nothing.
    pub question: Option<Question<'b>>,
    /// The part behind the `?`, if there is one.
    pub query: Option<&'b [u8]>,
    /// How the content is framed.
    pub length: Length,
    /// Whether the client waits for `100 Continue` before it sends the content.
    pub expects_continue: bool,
    /// Whether the client speaks HTTP/1.0 (no chunked answers, no `100 Continue`).
    pub http_1_0: bool,
    /// Whether the connection may serve another request.
    pub keep_alive: bool,
    /// `Authorization`, if there is exactly one.
    pub authorization: Option<&'b [u8]>,
    /// The header lines, for fields that few requests need.
    pub lines: HeaderLines<'b>,
}

/// The header lines of a head, each with its end, and the empty line that ends them. The slice may go on behind it with
/// bytes of no header line.
#[derive(Clone, Copy, Debug)]
pub struct HeaderLines<'b>(&'b [u8]);

impl<'b> HeaderLines<'b> {
    /// The values of the fields with this name, without the blanks around them.
    pub fn values(self, name: &str) -> impl Iterator<Item = &'b [u8]> {
        let lines = self.0.split(|byte| *byte == b'\n').take_while(|line| *line != b"\r");
        lines.filter_map(move |line| {
            let (sent, value) = line.split_at(memchr::memchr(b':', line)?);
            sent.eq_ignore_ascii_case(name.as_bytes()).then(|| trim_blanks(&value[1..value.len() - 1]))
        })
    }
}

/// Reads the head at the start of `bytes`. Re-reading a growing partial head costs at most its
/// bound squared; the deadline on a head bounds how often.
pub fn parse(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
    // RFC 9112, 2.2: an empty line before the request line is skipped; one, not any number.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    // Only the bytes within the bound are looked at: so the outcome does not depend on how the
    // bytes were cut on their way.
    let within = &bytes[skipped..bytes.len().min(limits.head_bytes_max + skipped)];
    match RequestLine::ordinary(within) {
        Some(line) => parse_fields(line, within, skipped, limits),
        None => parse_any(within, skipped, limits),
    }
}

/// The long way, in a function of its own: the parts of an ordinary line then stay in registers.
#[cold]
fn parse_any(within: &[u8], skipped: usize, limits: HeadLimits) -> Section<Head<'_>> {
    match RequestLine::any(within) {
        Ok(Some(line)) => parse_fields(line, within, skipped, limits),
        Ok(None) if within.len() == limits.head_bytes_max => Section::Rejected(Fault::UriTooLong),
        Ok(None) => Section::Partial,
        Err(fault) => Section::Rejected(fault),
    }
}

#[inline(always)]
fn parse_fields<'b>(line: RequestLine<'b>, within: &'b [u8], skipped: usize, limits: HeadLimits) -> Section<Head<'b>> {
    let is_full = within.len() == limits.head_bytes_max;
    let lines = &within[line.bytes..];
    let mut fields = FieldSummary::default();
    match field::parse(lines, limits.header_lines_max, &mut fields) {
        Section::Complete((), used) => match fields.into_head(&line, lines) {
            Ok(head) => Section::Complete(head, skipped + line.bytes + used),
            Err(fault) => Section::Rejected(fault),
        },
        Section::Partial if is_full && line.bytes > limits.head_bytes_max / 2 => Section::Rejected(Fault::UriTooLong),
        Section::Partial if is_full => Section::Rejected(Fault::HeadersTooLarge),
        Section::Partial => Section::Partial,
        Section::Rejected(fault) => Section::Rejected(fault),
    }
}

struct RequestLine<'b> {
    method: Method,
    path: &'b [u8],
    question: Option<Question<'b>>,
    query: Option<&'b [u8]>,
    http_1_0: bool,
    /// Bytes of the line with its end.
    bytes: usize,
}

impl<'b> RequestLine<'b> {
    /// The short way: a `GET` of a path without escapes or query.
    #[inline(always)]
    fn ordinary(bytes: &'b [u8]) -> Option<Self> {
        const END: &[u8] = b" HTTP/1.1\r\n";
        let target = bytes.strip_prefix(b"GET ")?;
        let line = |path: &'b [u8], question| {
            let bytes = b"GET ".len() + path.len() + END.len();
            Self { method: Method::Get, path, question, query: None, http_1_0: false, bytes }
        };
        if let Some((question, used)) = route::ordinary(target)
            && target[used..].starts_with(END)
        {
            return Some(line(&target[..used], Some(question)));
        }
        let (path, rest) = target.split_at(byte::run(target, byte::PLAIN_PATH));
        (path.starts_with(b"/") && rest.starts_with(END)).then(|| line(path, None))
    }

    /// The long way, for any line. One space between the parts, nothing around them, CR LF behind.
    /// `None` while the line is not whole.
    fn any(bytes: &'b [u8]) -> Result<Option<Self>, Fault> {
        if bytes == b"\r" {
            return Ok(None); // may become the empty line that is skipped
        }
        let Some((name, at)) = word(bytes, 0, byte::TOKEN)? else { return Ok(None) };
        let method = match name {
            b"GET" => Method::Get,
            b"HEAD" => Method::Head,
            b"OPTIONS" => Method::Options,
            b"POST" => Method::Post,
            b"PUT" => Method::Put,
            b"DELETE" => Method::Delete,
            b"CONNECT" => return Err(Fault::BadRequest), // no proxy here
            _ => Method::Other,
        };
        let Some((target, at)) = word(bytes, at, byte::TARGET)? else { return Ok(None) };
        let (path, query) = split_target(method, target)?;
        let Some(http_1_0) = version(&bytes[at..])? else { return Ok(None) };
        Ok(Some(Self { method, path, question: None, query, http_1_0, bytes: at + VERSION_BYTES }))
    }
}

/// The run of bytes of a class from `at`, and where the next word begins. A space must end the run.
fn word(bytes: &[u8], at: usize, class: u8) -> Result<Option<(&[u8], usize)>, Fault> {
    let (word, rest) = bytes[at..].split_at(byte::run(&bytes[at..], class));
    match rest {
        [b' ', ..] if !word.is_empty() => Ok(Some((word, at + word.len() + 1))),
        [] => Ok(None),
        _ => Err(Fault::BadRequest),
    }
}

const VERSION_BYTES: usize = b"HTTP/1.1\r\n".len();

/// Whether the version is HTTP/1.0; every other minor of 1 is read as 1.1 (RFC 9110, 2.5).
fn version(bytes: &[u8]) -> Result<Option<bool>, Fault> {
    if bytes.starts_with(b"HTTP/1.1\r\n") {
        return Ok(Some(false));
    }
    for (byte, expected) in bytes.iter().zip(b"HTTP/0.0\r\n") {
        let fits = if *expected == b'0' { byte.is_ascii_digit() } else { byte == expected };
        if !fits {
            return Err(Fault::BadRequest);
        }
    }
    if bytes.len() < VERSION_BYTES {
        return Ok(None);
    }
    if bytes[5] == b'1' { Ok(Some(bytes[7] == b'0')) } else { Err(Fault::VersionNotSupported) }
}

/// The meaning of the header lines, gathered line by line.
#[derive(Default)]
struct FieldSummary<'b> {
    host: Option<&'b [u8]>,
    content_length: Option<u64>,
    transfer_encoding: bool,
    is_chunked: bool,
    unknown_coding: bool,
    close: bool,
    keep_alive: bool,
    expects_continue: bool,
    expects_unknown: bool,
    authorization: Option<&'b [u8]>,
    authorizations: u8,
}

impl<'b> Visitor<'b> for FieldSummary<'b> {
    /// Most fields have no meaning here, and length and first letter tell most of those.
    #[inline]
    fn field(&mut self, name: &'b [u8], value: &'b [u8]) -> Result<(), Fault> {
        let initial = name.first().map_or(0, |byte| byte | 0x20);
        match (name.len(), initial) {
            (4, b'h') | (6, b'e') | (10 | 14, b'c') | (13, b'a') | (17, b't') => self.decisive(name, value),
            _ => Ok(()),
        }
    }
}

impl<'b> FieldSummary<'b> {
    fn decisive(&mut self, name: &'b [u8], value: &'b [u8]) -> Result<(), Fault> {
        let is = |expected: &str| name.eq_ignore_ascii_case(expected.as_bytes());
        match name.len() {
            4 if is("host") => self.host(value),
            6 if is("expect") => {
                self.expects_continue = true;
                self.expects_unknown |= !value.eq_ignore_ascii_case(b"100-continue");
                Ok(())
            }
            10 if is("connection") => {
                for option in field::list(value) {
                    self.close |= option.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
                }
                Ok(())
            }
            13 if is("authorization") => {
                self.authorization = Some(value);
                self.authorizations = self.authorizations.saturating_add(1);
                Ok(())
            }
            14 if is("content-length") => self.content_length(value),
            17 if is("transfer-encoding") => self.transfer_encoding(value),
            _ => Ok(()),
        }
    }

    fn host(&mut self, value: &'b [u8]) -> Result<(), Fault> {
        if self.host.is_some() || !is_authority(value) {
            return Err(Fault::BadRequest);
        }
        self.host = Some(value);
        Ok(())
    }

    /// Plain digits, once.
    fn content_length(&mut self, value: &[u8]) -> Result<(), Fault> {
        if self.content_length.is_some() || value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
            return Err(Fault::BadRequest);
        }
        let length = std::str::from_utf8(value).ok().and_then(|digits| digits.parse().ok());
        self.content_length = Some(length.ok_or(Fault::BadRequest)?);
        Ok(())
    }

    /// `chunked` at most once and last, over all lines together (RFC 9112, 6.1).
    fn transfer_encoding(&mut self, value: &[u8]) -> Result<(), Fault> {
        self.transfer_encoding = true;
        for coding in field::list(value) {
            let (name, parameters) = coding.split_at(byte::run(coding, byte::TOKEN));
            let is_chunked = name.eq_ignore_ascii_case(b"chunked");
            let has_parameters = trim_blanks(parameters).starts_with(b";");
            let malformed = name.is_empty() || (!parameters.is_empty() && (is_chunked || !has_parameters));
            if self.is_chunked || malformed {
                return Err(Fault::BadRequest);
            }
            self.is_chunked = is_chunked;
            self.unknown_coding |= !is_chunked;
        }
        Ok(())
    }

    fn into_head(self, line: &RequestLine<'b>, lines: &'b [u8]) -> Result<Head<'b>, Fault> {
        if self.host.is_none() && !line.http_1_0 {
            return Err(Fault::BadRequest);
        }
        let length = self.length(line.http_1_0)?;
        // HTTP/1.0 knows no expectations: they are ignored (RFC 9110, 10.1.1).
        if self.expects_unknown && !line.http_1_0 {
            return Err(Fault::ExpectationFailed);
        }
        let expects_continue = self.expects_continue && !line.http_1_0 && length != Length::None;
        Ok(Head {
            method: line.method,
            path: line.path,
            question: line.question,
            query: line.query,
            http_1_0: line.http_1_0,
            keep_alive: !self.close && (!line.http_1_0 || self.keep_alive),
            length,
            expects_continue,
            authorization: self.authorization.filter(|_| self.authorizations == 1),
            lines: HeaderLines(lines),
        })
    }

    fn length(&self, http_1_0: bool) -> Result<Length, Fault> {
        match (self.transfer_encoding, self.content_length) {
            (true, Some(_)) => Err(Fault::BadRequest),
            (true, None) if http_1_0 => Err(Fault::BadRequest),
            (true, None) if self.unknown_coding => Err(Fault::NotImplemented),
            (true, None) => Ok(Length::Chunked),
            (false, None | Some(0)) => Ok(Length::None),
            (false, Some(bytes)) => Ok(Length::Bytes(bytes)),
        }
    }
}

/// Path and query of a target in origin form, absolute form, or asterisk form (RFC 9112, 3.2).
fn split_target(method: Method, target: &[u8]) -> Result<(&[u8], Option<&[u8]>), Fault> {
    let origin = match target {
        [b'/', ..] => target,
        b"*" if method == Method::Options => return Ok((target, None)),
        _ => {
            let after_scheme = strip_scheme(target).ok_or(Fault::BadRequest)?;
            let end = after_scheme.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after_scheme.len());
            let (authority, rest) = after_scheme.split_at(end);
            if !is_authority(authority) {
                return Err(Fault::BadRequest);
            }
            rest
        }
    };
    let (path, query) = match memchr::memchr(b'?', origin) {
        Some(at) => (&origin[..at], Some(&origin[at + 1..])),
        None => (origin, None),
    };
    // Queries are not checked: browsers send characters in them that RFC 3986 keeps out of a path.
    if !is_escaped(path, byte::PLAIN_PATH) {
        return Err(Fault::BadRequest);
    }
    // An absolute form without a path means the root.
    Ok((if path.is_empty() { b"/" } else { path }, query))
}

fn strip_scheme(target: &[u8]) -> Option<&[u8]> {
    ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = target.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme.as_bytes()).then_some(rest)
    })
}

/// RFC 3986 `host [":" port]`, host not empty (RFC 9110, 4.2.1), no user information.
fn is_authority(text: &[u8]) -> bool {
    let (host, rest) = text.split_at(byte::run(text, byte::HOST));
    match rest {
        [] => !host.is_empty(),
        [b':', port @ ..] if !host.is_empty() => is_port(port),
        [b'[', literal @ ..] if host.is_empty() => {
            let Some(end) = literal.iter().position(|byte| *byte == b']') else { return false };
            let address = std::str::from_utf8(&literal[..end]).map(str::parse::<Ipv6Addr>);
            let after = &literal[end + 1..];
            matches!(address, Ok(Ok(_))) && (after.is_empty() || after.strip_prefix(b":").is_some_and(is_port))
        }
        [b'%', ..] => {
            let end = text.iter().position(|byte| *byte == b':').unwrap_or(text.len());
            let port = text[end..].strip_prefix(b":").unwrap_or_default();
            is_escaped(&text[..end], byte::HOST) && is_port(port)
        }
        _ => false,
    }
}

/// `*DIGIT`, and a port up to 65535.
fn is_port(text: &[u8]) -> bool {
    let zeros = text.iter().take_while(|byte| **byte == b'0').count();
    let digits = &text[zeros..];
    digits.len() <= 5
        && digits.iter().all(u8::is_ascii_digit)
        && digits.iter().fold(0, |port, digit| port * 10 + u32::from(digit - b'0')) < 65_536
}

/// Whether `text` consists of bytes of a class and of whole percent-escapes.
fn is_escaped(mut text: &[u8], class: u8) -> bool {
    loop {
        match &text[byte::run(text, class)..] {
            [] => return true,
            [b'%', high, low, rest @ ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => text = rest,
            _ => return false,
        }
    }
}
