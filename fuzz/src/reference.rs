//! A second reading of a request's head: `httparse` takes the head apart, and the rules that go
//! beyond it are spelled out over its fields. Slow, plain, and written apart from the service's own
//! parser. Knows nothing of chunked bodies, routes or answers.

use std::borrow::Cow;
use std::net::Ipv6Addr;

use httparse::{EMPTY_HEADER, Header, Request, Status};
use vote_status::http::body::Length;
use vote_status::http::head::{HeadLimits, Method};

/// More fields than any limit here allows.
const FIELDS_MAX: usize = 128;

/// The whole content of a head, in a form that can be compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Told<'b> {
    /// See [`Head::method`].
    pub method: Method,
    /// See [`Head::path`].
    pub path: &'b [u8],
    /// See [`Head::query`].
    pub query: Option<&'b [u8]>,
    /// See [`Head::http_1_0`].
    pub http_1_0: bool,
    /// See [`Head::keep_alive`].
    pub keep_alive: bool,
    /// See [`Head::length`].
    pub length: Length,
    /// See [`Head::expects_continue`].
    pub expects_continue: bool,
    /// See [`Head::authorization`].
    pub authorization: Option<&'b [u8]>,
    /// The result of [`HeaderLines::values`](vote_status::http::head::HeaderLines::values) for this field.
    pub accept_encoding: Vec<&'b [u8]>,
}

/// The reference's outcome for some bytes.
#[derive(Debug, PartialEq)]
pub enum Reading<'b> {
    /// A head that must be accepted, and its number of bytes.
    Whole(Told<'b>, usize),
    /// A head that `httparse` accepts and this service refuses.
    Refused,
    /// Not whole, or no head to `httparse` either.
    NotWhole,
}

/// The same bytes with a minor version that `httparse` knows: HTTP/1.2 to 1.9 are read as 1.1.
#[must_use]
pub fn with_known_version(data: &[u8]) -> Cow<'_, [u8]> {
    let skipped = empty_line(data);
    let length = data[skipped..].windows(2).position(|pair| pair == b"\r\n").unwrap_or_default();
    match data[skipped..skipped + length].split_last() {
        Some((b'2'..=b'9', before)) if before.ends_with(b"HTTP/1.") => {
            let mut copy = data.to_vec();
            copy[skipped + length - 1] = b'1';
            Cow::Owned(copy)
        }
        _ => Cow::Borrowed(data),
    }
}

/// Reads the head at the start of the result of [`with_known_version`].
#[must_use]
pub fn read(data: &[u8], limits: HeadLimits) -> Reading<'_> {
    let skipped = empty_line(data);
    let bytes = &data[skipped..];
    let mut fields = [EMPTY_HEADER; FIELDS_MAX];
    let mut request = Request::new(&mut fields);
    let Ok(Status::Complete(used)) = request.parse(bytes) else { return Reading::NotWhole };
    let fits = used <= limits.head_bytes_max && request.headers.len() <= limits.header_lines_max;
    if !fits || !line_ends_are_strict(&bytes[..used]) || matches!(bytes[0], b'\r' | b'\n') {
        return Reading::Refused;
    }
    match tell(&request) {
        Some(told) => Reading::Whole(told, skipped + used),
        None => Reading::Refused,
    }
}

/// The length of the one empty line that is skipped before a request.
fn empty_line(data: &[u8]) -> usize {
    if data.starts_with(b"\r\n") { 2 } else { 0 }
}

/// Whether every CR is followed by an LF, and every LF follows a CR.
fn line_ends_are_strict(section: &[u8]) -> bool {
    let pairs = section.windows(2).filter(|pair| pair == b"\r\n").count();
    let count = |byte| section.iter().filter(|other| **other == byte).count();
    pairs == count(b'\r') && pairs == count(b'\n')
}

fn tell<'b>(request: &Request<'_, 'b>) -> Option<Told<'b>> {
    let fields = &*request.headers;
    let (method, target, http_1_0) = (request.method?, request.path?, request.version? == 0);
    if method == "CONNECT" || !target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#') {
        return None;
    }
    let (path, query) = split_target(method, target)?;
    if !host_is_right(fields, http_1_0) {
        return None;
    }
    let length = length(fields, http_1_0)?;
    let expectations: Vec<&[u8]> = values(fields, "expect").collect();
    if !http_1_0 && !expectations.iter().all(|value| value.eq_ignore_ascii_case(b"100-continue")) {
        return None;
    }
    let connection =
        |option: &str| elements(fields, "connection").iter().any(|element| element.eq_ignore_ascii_case(option));
    let mut authorizations = values(fields, "authorization");
    Some(Told {
        method: method_of(method),
        path: path.as_bytes(),
        query: query.map(str::as_bytes),
        http_1_0,
        keep_alive: !connection("close") && (!http_1_0 || connection("keep-alive")),
        length,
        expects_continue: !http_1_0 && !expectations.is_empty() && length != Length::None,
        authorization: authorizations.next().filter(|_| authorizations.next().is_none()),
        accept_encoding: values(fields, "accept-encoding").collect(),
    })
}

fn method_of(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "OPTIONS" => Method::Options,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        _ => Method::Other,
    }
}

/// The values of all fields of a name, in order.
fn values<'b>(fields: &[Header<'b>], name: &str) -> impl Iterator<Item = &'b [u8]> {
    fields.iter().filter(move |field| field.name.to_ascii_lowercase() == name).map(|field| field.value)
}

/// The elements of all lists of a name, without the blanks around them. Empty ones included.
fn elements(fields: &[Header<'_>], name: &str) -> Vec<String> {
    values(fields, name)
        .flat_map(|value| value.split(|byte| *byte == b','))
        .map(|element| String::from_utf8_lossy(element).trim_matches([' ', '\t']).to_owned())
        .collect()
}

/// Path and query, in origin form, asterisk form or absolute form.
fn split_target<'b>(method: &str, target: &'b str) -> Option<(&'b str, Option<&'b str>)> {
    if target == "*" {
        return (method == "OPTIONS").then_some((target, None));
    }
    let origin = if target.starts_with('/') { target } else { after_authority(target)? };
    let (path, query) = match origin.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (origin, None),
    };
    // The characters that RFC 3986 allows in a path, and brackets, which many callers send.
    let is_path = is_spelled_with(path, "-._~!$&'()*+,;=/:@[]");
    is_path.then_some((if path.is_empty() { "/" } else { path }, query))
}

fn after_authority(target: &str) -> Option<&str> {
    let (scheme, rest) = target.split_once("://")?;
    if !["http", "https"].contains(&scheme.to_ascii_lowercase().as_str()) {
        return None;
    }
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    authority_is_right(&rest[..end]).then_some(&rest[end..])
}

fn host_is_right(fields: &[Header<'_>], http_1_0: bool) -> bool {
    let hosts: Vec<&[u8]> = values(fields, "host").collect();
    match hosts[..] {
        [] => http_1_0,
        [host] => std::str::from_utf8(host).is_ok_and(authority_is_right),
        _ => false,
    }
}

/// Whether this is a name or an address literal, not empty, with or without a port, and without a user.
fn authority_is_right(text: &str) -> bool {
    let (host_is_right, port) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((literal, port)) => (literal.parse::<Ipv6Addr>().is_ok(), port),
            None => return false,
        },
        None => {
            let (name, port) = text.split_at(text.find(':').unwrap_or(text.len()));
            (name_is_right(name), port)
        }
    };
    let port_is_right = match port.strip_prefix(':') {
        Some(digits) => {
            digits.is_empty() || (digits.starts_with(|first| first != '+') && digits.parse::<u16>().is_ok())
        }
        None => port.is_empty(),
    };
    host_is_right && port_is_right
}

/// Whether this is an RFC 3986 "reg-name", not empty, and without the comma, which makes lists elsewhere.
fn name_is_right(name: &str) -> bool {
    !name.is_empty() && is_spelled_with(name, "-._~!$&'()*+;=")
}

/// Letters, digits, these marks, and escapes of a `%` and two hexadecimal digits.
fn is_spelled_with(text: &str, marks: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || marks.contains(letter);
    let mut parts = text.split('%');
    let before_escapes = parts.next().unwrap_or_default();
    before_escapes.chars().all(is_plain)
        && parts.all(|part| {
            part.get(..2).is_some_and(|digits| digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                && part.chars().skip(2).all(is_plain)
        })
}

/// How the content is framed; `None` where two readers could differ, or where the coding is unknown.
fn length(fields: &[Header<'_>], http_1_0: bool) -> Option<Length> {
    let lengths: Vec<&[u8]> = values(fields, "content-length").collect();
    let codings = elements(fields, "transfer-encoding");
    match (&lengths[..], &codings[..]) {
        ([], []) => Some(Length::None),
        ([value], []) => {
            let digits = std::str::from_utf8(value).ok()?;
            let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            match digits.parse::<u64>().ok().filter(|_| plain)? {
                0 => Some(Length::None),
                bytes => Some(Length::Bytes(bytes)),
            }
        }
        ([], [coding]) if coding.eq_ignore_ascii_case("chunked") && !http_1_0 => Some(Length::Chunked),
        _ => None,
    }
}
