//! The bytes that the public listener must send for some input, spelled out request by request. Every
//! answer is formatted from literal text, with the close of the connection and the answer that the end
//! of input adds. Knows nothing of sessions, as it has the whole input.
//!
//! One server is listed, 28 with the token `a+b=`. 203.0.113.7 is in cooldown on it, and
//! 203.0.113.8 was, until this very second.

use std::borrow::Cow;

use vote_status::http::body::{Decoder, Length};
use vote_status::http::fault::Fault;
use vote_status::http::field::Section;
use vote_status::http::head::{self, Head, HeadLimits, Method};
use vote_status::pages::{self, Document, DocumentForm};
use vote_status::vote::address::VoterAddress;
use vote_status::vote::answer::ServerKey;
use vote_status::vote::id::{ServerId, ServerIdError};
use vote_status::vote::ipv4::Ipv4;
use vote_status::vote::time::UnixSeconds;

use crate::target;

/// 2026-11-20T11:04:56Z.
pub const NOW: UnixSeconds = UnixSeconds(1_795_172_696);
/// The only server that is listed.
pub const SERVER: ServerId = ServerId(28);
/// Its token.
pub const TOKEN: &str = "a+b=";
/// An address in cooldown on the server, for another 42 minutes.
pub const COOLING: VoterAddress = VoterAddress::V4(Ipv4(0xCB00_7107));
/// The end of that cooldown: 2026-11-20T11:46:56Z.
pub const COOLING_UNTIL: UnixSeconds = UnixSeconds(NOW.0 + 2_520);
/// An address that may vote: its cooldown ends [`NOW`].
pub const EXPIRED: VoterAddress = VoterAddress::V4(Ipv4(0xCB00_7108));

/// The only body that says `false`.
pub const IN_COOLDOWN: &str = r#"{"success":false,"can_vote":false,"message":"Vous pourrez voter à nouveau dans 42 minutes","next_vote_at":"2026-11-20T11:46:56Z","cooldown_minutes":90}"#;
const CAN_VOTE: &str = r#"{"success":true,"can_vote":true,"message":"Vous pouvez voter maintenant","next_vote_at":null,"cooldown_minutes":90}"#;
/// The answer to a balancer from a loaded service.
pub const READY: &str = r#"{"status":"ready"}"#;
/// The answer to a balancer from any service.
pub const ALIVE: &str = r#"{"status":"alive"}"#;

/// The expected output of the listener.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Answers {
    /// The answers to all whole requests, in order.
    pub bytes: Vec<u8>,
    /// For each final answer, whether it has no body because of `HEAD`.
    pub head_only: Vec<bool>,
    /// Whether the connection closes after the last.
    pub is_closed: bool,
    /// The bytes that the end of input adds where the connection is open: an answer to a request
    /// that cannot become whole any more.
    pub at_end: Vec<u8>,
}

/// One answer.
struct Answer {
    /// The status line behind the version.
    status: &'static str,
    /// The fields between the date and the length, each with its line end.
    fields: String,
    body: Cow<'static, [u8]>,
}

/// Bounds of the listener.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Bounds on a head.
    pub head: HeadLimits,
    /// Bytes of content that are skipped.
    pub skip_body_bytes_max: u64,
}

/// The answers to `data`. With `closing`, the next answer is the last, whatever the request.
#[must_use]
pub fn answers(data: &[u8], bounds: Bounds, closing: bool) -> Answers {
    let mut answers = Answers::default();
    let mut rest = data;
    while !answers.is_closed {
        let (head, used) = match head::parse(rest, bounds.head) {
            Section::Complete(head, used) => (head, used),
            Section::Partial => {
                if !matches!(rest, b"" | b"\r" | b"\r\n") {
                    append(&mut answers.at_end, &refusal(Fault::BadRequest), is_head(rest), "Connection: close\r\n");
                }
                return answers;
            }
            Section::Rejected(fault) => {
                answers.add(&refusal(fault), is_head(rest), "Connection: close\r\n");
                return answers;
            }
        };
        rest = &rest[used..];
        let head_only = head.method == Method::Head;
        match skip_content(&mut rest, &head, bounds, &mut answers.bytes) {
            Content::Skipped => answers.add(&answer(&head), head_only, connection(&head, closing)),
            Content::Faulty(fault) => answers.add(&refusal(fault), head_only, "Connection: close\r\n"),
            Content::NotWhole => {
                append(&mut answers.at_end, &refusal(Fault::BadRequest), head_only, "Connection: close\r\n");
                return answers;
            }
        }
    }
    answers
}

impl Answers {
    fn add(&mut self, answer: &Answer, head_only: bool, connection: &str) {
        append(&mut self.bytes, answer, head_only, connection);
        self.head_only.push(head_only);
        self.is_closed = connection == "Connection: close\r\n";
    }
}

fn is_head(rest: &[u8]) -> bool {
    rest.starts_with(b"HEAD ") || rest.starts_with(b"\r\nHEAD ")
}

fn connection(head: &Head<'_>, closing: bool) -> &'static str {
    match (head.keep_alive && !closing, head.http_1_0) {
        (false, _) => "Connection: close\r\n",
        (true, true) => "Connection: keep-alive\r\n",
        (true, false) => "",
    }
}

enum Content {
    Skipped,
    NotWhole,
    Faulty(Fault),
}

/// Skips a request's content, and asks for it where the client waits for `100 Continue`.
fn skip_content(rest: &mut &[u8], head: &Head<'_>, bounds: Bounds, out: &mut Vec<u8>) -> Content {
    if head.length == Length::None {
        return Content::Skipped;
    }
    let mut decoder = match Decoder::new(head.length, bounds.skip_body_bytes_max) {
        Ok(decoder) => decoder,
        Err(fault) => return Content::Faulty(fault),
    };
    if head.expects_continue {
        out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
    }
    loop {
        match decoder.decode(rest) {
            Err(fault) => return Content::Faulty(fault),
            Ok(piece) => {
                *rest = &rest[piece.consumed..];
                if piece.ended {
                    return Content::Skipped;
                }
                if piece.consumed == 0 {
                    return Content::NotWhole;
                }
            }
        }
    }
}

fn answer(head: &Head<'_>) -> Answer {
    if head.path == b"*" {
        return options();
    }
    let path = target::unescaped(head.path);
    let question = target::question(&path);
    if question.is_none() && !matches!(&path[..], b"/" | b"/openapi.json" | b"/readyz" | b"/healthz") {
        return refusal(Fault::NotFound);
    }
    match head.method {
        Method::Get | Method::Head => {}
        Method::Options => return options(),
        _ => return refusal(Fault::MethodNotAllowed),
    }
    let Some(question) = question else {
        return match &path[..] {
            b"/readyz" => json("200 OK", "", READY.to_owned()),
            b"/healthz" => json("200 OK", "", ALIVE.to_owned()),
            _ => page(head, path == b"/"),
        };
    };
    match question.server {
        ServerKey::Id(Ok(SERVER)) => {}
        ServerKey::Token(token) if token == TOKEN.as_bytes() => {}
        ServerKey::Id(Ok(_) | Err(ServerIdError::TooLarge)) => {
            return safe("404 Not Found", "", "Serveur inconnu", "unknown_server");
        }
        ServerKey::Id(Err(ServerIdError::Invalid)) => {
            return safe("400 Bad Request", "", "Identifiant de serveur invalide", "invalid_server_id");
        }
        ServerKey::Token(_) => return safe("404 Not Found", "", "Token inconnu", "unknown_token"),
    }
    match question.address {
        None => safe("400 Bad Request", "", "Adresse IP invalide", "invalid_ip"),
        Some(COOLING) => json("200 OK", "", IN_COOLDOWN.to_owned()),
        Some(_) => json("200 OK", "", CAN_VOTE.to_owned()),
    }
}

/// The answer with the page (`is_html`), or else with its description.
fn page(head: &Head<'_>, is_html: bool) -> Answer {
    let document = if is_html { &pages::PUBLIC } else { &pages::OPENAPI };
    let is_gzipped = likes_gzip(head);
    let tag = made(document, DocumentForm { is_gzipped, is_known: true }, "ETag");
    let named: Vec<String> = elements(head, "if-none-match");
    let is_known = named.iter().any(|name| name == "*" || name.strip_prefix("W/").unwrap_or(name) == tag);
    let kept = format!(
        "Cache-Control: no-cache\r\nX-Content-Type-Options: nosniff\r\nVary: Accept-Encoding\r\nETag: {tag}\r\n"
    );
    let cors = "Access-Control-Allow-Origin: *\r\n";
    if is_known {
        return Answer { status: "304 Not Modified", fields: kept + cors, body: Cow::Borrowed(b"") };
    }
    let content_type = if is_html { "text/html; charset=utf-8" } else { "application/json" };
    let coding = if is_gzipped { "Content-Encoding: gzip\r\n" } else { "" };
    let policy = if is_html {
        let policy = made(document, DocumentForm { is_gzipped, is_known }, "Content-Security-Policy");
        format!("Content-Security-Policy: {policy}\r\nReferrer-Policy: no-referrer\r\n")
    } else {
        String::new()
    };
    // The contract's tests check its content.
    let body = document.body(DocumentForm { is_gzipped, is_known });
    let fields = format!("Content-Type: {content_type}\r\n{kept}{coding}{policy}{cors}");
    Answer { status: "200 OK", fields, body: Cow::Borrowed(body) }
}

/// A field that the build of the service generates, so it is taken from there.
fn made(document: &Document, form: DocumentForm, wanted: &str) -> &'static str {
    document.fields(form).into_iter().find(|(name, _)| *name == wanted).expect("the document has it").1
}

/// RFC 9110, 12.5.3, by floating point.
fn likes_gzip(head: &Head<'_>) -> bool {
    let weights: Vec<(String, f32)> =
        elements(head, "accept-encoding").iter().map(|element| weighed(element)).collect();
    let weight = |names: &[&str]| weights.iter().rfind(|(name, _)| names.contains(&&**name)).map(|(_, weight)| *weight);
    let any = weight(&["*"]);
    let gzip = weight(&["gzip", "x-gzip"]).or(any).unwrap_or(0.0);
    gzip > 0.0 && weight(&["identity"]).or(any).is_none_or(|identity| identity <= gzip)
}

/// A coding's name and weight. The weight is 0 where it is not spelled correctly.
fn weighed(element: &str) -> (String, f32) {
    let Some((name, weight)) = element.split_once(';') else { return (element.to_ascii_lowercase(), 1.0) };
    let weight = weight.trim_matches([' ', '\t']);
    let number = weight.strip_prefix("q=").or(weight.strip_prefix("Q=")).unwrap_or("no weight");
    let is_short = number.len() <= 5 && (number.len() == 1 || number.get(1..2) == Some("."));
    let is_plain = is_short && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let weight = number.parse().ok().filter(|weight| is_plain && *weight <= 1.0).unwrap_or(0.0);
    (name.trim_matches([' ', '\t']).to_ascii_lowercase(), weight)
}

/// The elements of all lists in the fields of a name.
fn elements(head: &Head<'_>, name: &str) -> Vec<String> {
    let lists = head.lines.values(name).map(|value| String::from_utf8_lossy(value).into_owned());
    lists
        .flat_map(|list| list.split(',').map(|part| part.trim_matches([' ', '\t']).to_owned()).collect::<Vec<_>>())
        .collect()
}

fn options() -> Answer {
    let fields = format!(
        "{COMMON}Allow: GET, HEAD, OPTIONS\r\nAccess-Control-Allow-Methods: GET, HEAD, OPTIONS\r\n\
         Access-Control-Allow-Headers: *\r\nAccess-Control-Max-Age: 86400\r\n"
    );
    Answer { status: "204 No Content", fields, body: Cow::Borrowed(b"") }
}

fn refusal(fault: Fault) -> Answer {
    let (status, message, word) = match fault {
        Fault::BadRequest => ("400 Bad Request", "Requête invalide", "bad_request"),
        Fault::NotFound => ("404 Not Found", "Ressource introuvable", "not_found"),
        Fault::MethodNotAllowed => ("405 Method Not Allowed", "Méthode non autorisée", "method_not_allowed"),
        Fault::ContentTooLarge => ("413 Content Too Large", "Corps trop volumineux", "content_too_large"),
        Fault::UriTooLong => ("414 URI Too Long", "URI trop longue", "uri_too_long"),
        Fault::ExpectationFailed => ("417 Expectation Failed", "Attente non satisfaite", "expectation_failed"),
        Fault::HeadersTooLarge => {
            ("431 Request Header Fields Too Large", "En-têtes trop volumineux", "headers_too_large")
        }
        Fault::NotImplemented => ("501 Not Implemented", "Codage de transfert non pris en charge", "not_implemented"),
        Fault::VersionNotSupported => {
            ("505 HTTP Version Not Supported", "Version HTTP non prise en charge", "http_version_not_supported")
        }
        Fault::RequestTimeout | Fault::Internal | Fault::NotReady => panic!("no bytes lead to {fault:?}"),
    };
    let fields = if fault == Fault::MethodNotAllowed { "Allow: GET, HEAD, OPTIONS\r\n" } else { "" };
    safe(status, fields, message, word)
}

fn safe(status: &'static str, fields: &str, message: &str, word: &str) -> Answer {
    let body = format!(
        r#"{{"success":true,"can_vote":true,"message":"{message}","next_vote_at":null,"cooldown_minutes":90,"error":"{word}"}}"#
    );
    json(status, fields, body)
}

const COMMON: &str = "Cache-Control: no-store\r\nAccess-Control-Allow-Origin: *\r\nX-Content-Type-Options: nosniff\r\n";

fn json(status: &'static str, fields: &str, body: String) -> Answer {
    let fields = format!("Content-Type: application/json; charset=utf-8\r\n{COMMON}{fields}");
    Answer { status, fields, body: Cow::Owned(body.into_bytes()) }
}

fn append(out: &mut Vec<u8>, answer: &Answer, head_only: bool, connection: &str) {
    let Answer { status, fields, body } = answer;
    let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
    let head = format!("HTTP/1.1 {status}\r\nDate: Fri, 20 Nov 2026 11:04:56 GMT\r\n{fields}{length}{connection}\r\n");
    out.extend_from_slice(head.as_bytes());
    if !head_only {
        out.extend_from_slice(body);
    }
}
