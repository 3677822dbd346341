//! A request's head, straight from the read buffer: method, target, version, and the few fields
//! that decide how the rest is framed. Strict where two parsers could differ (RFC 9112, 11.2).

use super::body::Length;
use super::fault::Fault;
use super::field::{self, Section, Visitor, is_token_byte};

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
    /// What follows the `?`, if there is one.
    pub query: Option<&'b [u8]>,
    /// Whether the client speaks HTTP/1.0 (no chunked answers, no `100 Continue`).
    pub http_1_0: bool,
    /// Whether the connection may serve another request.
    pub keep_alive: bool,
    /// How the content is framed.
    pub length: Length,
    /// Whether the client waits for `100 Continue` before it sends the content.
    pub expects_continue: bool,
    /// `Authorization`, if there is exactly one.
    pub authorization: Option<&'b [u8]>,
    /// `Accept-Encoding`, the last if there are more.
    pub accept_encoding: Option<&'b [u8]>,
}

/// Reads the head at the start of `bytes`. Re-reading a growing partial head costs at most its
/// bound squared; the deadline on a head bounds how often.
pub fn parse(bytes: &[u8], limits: HeadLimits) -> Section<Head<'_>> {
    // RFC 9112, 2.2: an empty line before the request line is skipped; one, not any number.
    let skipped = if bytes.starts_with(b"\r\n") { 2 } else { 0 };
    // Only what is within the bound is looked at, so that the outcome is the same however the
    // bytes were cut on their way.
    let within = &bytes[skipped..bytes.len().min(limits.head_bytes_max + skipped)];
    let is_full = within.len() == limits.head_bytes_max;
    let line = match RequestLine::parse(within) {
        Ok(Some(line)) => line,
        Ok(None) if is_full => return Section::Rejected(Fault::UriTooLong),
        Ok(None) => return Section::Partial,
        Err(fault) => return Section::Rejected(fault),
    };
    match field::parse::<Fields<'_>>(&within[line.bytes..], limits.header_lines_max) {
        Section::Complete(fields, used) => match fields.into_head(&line) {
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
    target: &'b [u8],
    http_1_0: bool,
    /// Bytes of the line with its end.
    bytes: usize,
}

impl<'b> RequestLine<'b> {
    /// One space between the parts, nothing around them, CR LF behind. `None` while it is not whole.
    fn parse(bytes: &'b [u8]) -> Result<Option<Self>, Fault> {
        if bytes == b"\r" {
            return Ok(None); // may become the empty line that is skipped
        }
        let Some((name, at)) = word(bytes, 0, is_token_byte)? else { return Ok(None) };
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
        let Some((target, at)) = word(bytes, at, is_target_byte)? else { return Ok(None) };
        let Some(http_1_0) = version(&bytes[at..])? else { return Ok(None) };
        Ok(Some(Self { method, target, http_1_0, bytes: at + VERSION_BYTES }))
    }
}

/// The run of bytes of a class from `at` and where the next word begins; a space must end it.
#[inline]
fn word(bytes: &[u8], at: usize, class: impl Fn(u8) -> bool) -> Result<Option<(&[u8], usize)>, Fault> {
    let rest = &bytes[at..];
    match rest.iter().position(|byte| !class(*byte)) {
        Some(length) if length > 0 && rest[length] == b' ' => Ok(Some((&rest[..length], at + length + 1))),
        Some(_) => Err(Fault::BadRequest),
        None => Ok(None),
    }
}

/// Printable ASCII without `#`: a fragment is never sent (RFC 9112, 3.2), the rest has no place in a URI.
const fn is_target_byte(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && byte != b'#'
}

/// What of a target may stand in a path: not what RFC 3986 keeps out of one. Queries are not looked
/// into, and browsers send some of these there.
const fn is_path_byte(byte: u8) -> bool {
    !matches!(byte, b'"' | b'<' | b'>' | b'\\' | b'^' | b'`' | b'{' | b'|' | b'}')
}

const VERSION_BYTES: usize = b"HTTP/1.1\r\n".len();

/// Whether it is HTTP/1.0; every other minor of 1 is read as 1.1 (RFC 9110, 2.5).
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

/// What the header lines say, gathered line by line.
#[derive(Default)]
struct Fields<'b> {
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
    accept_encoding: Option<&'b [u8]>,
}

impl<'b> Visitor<'b> for Fields<'b> {
    #[inline]
    fn field(&mut self, name: &'b str, value: &'b [u8]) -> Result<(), Fault> {
        let is = |expected: &str| name.eq_ignore_ascii_case(expected);
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
            15 if is("accept-encoding") => {
                self.accept_encoding = Some(value);
                Ok(())
            }
            17 if is("transfer-encoding") => self.transfer_encoding(value),
            _ => Ok(()),
        }
    }
}

impl<'b> Fields<'b> {
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
            let name_end = coding.iter().position(|byte| !is_token_byte(*byte)).unwrap_or(coding.len());
            let (name, parameters) = coding.split_at(name_end);
            let is_chunked = name.eq_ignore_ascii_case(b"chunked");
            let has_parameters = field::trim(parameters).starts_with(b";");
            let malformed = name.is_empty() || (!parameters.is_empty() && (is_chunked || !has_parameters));
            if self.is_chunked || malformed {
                return Err(Fault::BadRequest);
            }
            self.is_chunked = is_chunked;
            self.unknown_coding |= !is_chunked;
        }
        Ok(())
    }

    fn into_head(self, line: &RequestLine<'b>) -> Result<Head<'b>, Fault> {
        let (path, query) = split_target(line)?;
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
            path,
            query,
            http_1_0: line.http_1_0,
            keep_alive: !self.close && (!line.http_1_0 || self.keep_alive),
            length,
            expects_continue,
            authorization: self.authorization.filter(|_| self.authorizations == 1),
            accept_encoding: self.accept_encoding,
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

/// Path and query of the target in origin form, absolute form, or asterisk form (RFC 9112, 3.2).
fn split_target<'b>(line: &RequestLine<'b>) -> Result<(&'b [u8], Option<&'b [u8]>), Fault> {
    let target = line.target;
    let origin = match target {
        [b'/', ..] => target,
        b"*" if line.method == Method::Options => return Ok((target, None)),
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
    if !path.iter().all(|byte| is_path_byte(*byte)) || !escapes_are_whole(path) {
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
    let (host, port) = match text {
        [b'[', rest @ ..] => {
            let Some(end) = rest.iter().position(|byte| *byte == b']') else { return false };
            let literal = std::str::from_utf8(&rest[..end]).unwrap_or_default();
            if literal.parse::<std::net::Ipv6Addr>().is_err() {
                return false;
            }
            (&b"literal"[..], &rest[end + 1..])
        }
        _ => text.split_at(text.iter().position(|byte| !is_host_byte(*byte)).unwrap_or(text.len())),
    };
    let port_is_valid = match port {
        [] => true,
        [b':'] => true,
        [b':', digits @ ..] => {
            let number = std::str::from_utf8(digits).ok().map(str::parse::<u16>);
            digits.iter().all(u8::is_ascii_digit) && matches!(number, Some(Ok(_)))
        }
        _ => false,
    };
    !host.is_empty() && port_is_valid && escapes_are_whole(host)
}

/// "unreserved", "sub-delims" and `%` of RFC 3986, but for the comma: it would let one parser see
/// a list of hosts where another sees one.
#[inline]
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~' | b'%')
        || matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=')
}

fn escapes_are_whole(text: &[u8]) -> bool {
    memchr::memchr_iter(b'%', text)
        .all(|at| matches!(text.get(at + 1..at + 3), Some(digits) if digits.iter().all(u8::is_ascii_hexdigit)))
}
