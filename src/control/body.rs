//! The bodies of the control interface: JSON as it comes in, checked into commands.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Expected, Visitor};

use crate::json::{self, Text, echo};
use crate::limits::ECHO_BYTES_MAX;
use crate::recorder::command::{NewServer, ServerName, Vote};
use crate::vote::address::{Voter, VoterAddress};
use crate::vote::id::{ServerId, Token};
use crate::vote::time::UnixSeconds;

/// The message for an invalid token.
const TOKEN_RULE: &str = "a token is 1 to 128 characters of A-Z a-z 0-9 - . _ ~ + =, and neither . nor ..";
/// As [`TOKEN_RULE`], for sites with base64 tokens.
const TOKEN_HAS_SLASH: &str = "a token cannot hold /, which separates the parts of a path: put another character in its \
    place, for example _, and give the new token to the server's owner";
/// The message for a vote that names a server by a token with a slash.
const NO_SERVER_HAS_SLASH: &str = "no server has this token: a token cannot hold /; name the server by server_id";

/// The reason why a body or a line was not taken.
#[derive(Debug, PartialEq, Eq)]
pub struct Invalid {
    /// The status of a single request.
    pub status: u16,
    /// The stable word.
    pub word: &'static str,
    /// For people.
    pub message: Cow<'static, str>,
}

/// The reason to refuse a body or a line.
pub(super) fn invalid(status: u16, word: &'static str, message: impl Into<Cow<'static, str>>) -> Invalid {
    Invalid { status, word, message: message.into() }
}

/// One line or body, a vote or a server, before its rules are applied.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields, expecting = "an object")]
struct Raw<'a> {
    server_id: Option<ServerNumber>,
    #[serde(borrow)]
    token: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "ip")]
    ip: Option<Text<'a>>,
    #[serde(borrow, deserialize_with = "ips")]
    ips: Option<Vec<Text<'a>>>,
    #[serde(deserialize_with = "voted_at")]
    voted_at: Option<Instant>,
}

impl Raw<'_> {
    const fn has_voter(&self) -> bool {
        self.ip.is_some() || self.ips.is_some()
    }
}

/// A value that may be left out but not be null. A database gives null for a time that it does not know, and that
/// must not become a vote of now. Null for the server's number or token only says that the other one names it.
fn said<'de, T: Deserialize<'de>, D: Deserializer<'de>>(name: &str, value: D) -> Result<Option<T>, D::Error> {
    let value = Option::deserialize(value)?;
    if value.is_some() { Ok(value) } else { Err(Error::custom(format_args!("{name} must not be null"))) }
}

fn ip<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Text<'de>>, D::Error> {
    said("ip", value)
}

fn ips<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Vec<Text<'de>>>, D::Error> {
    said("ips", value)
}

fn voted_at<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Instant>, D::Error> {
    said("voted_at", value)
}

/// A server's number, refused in words that name the remedy: PHP's arrays and forms have it as a string.
#[derive(Clone, Copy)]
struct ServerNumber(ServerId);

impl<'de> Deserialize<'de> for ServerNumber {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ServerNumberVisitor)
    }
}

struct ServerNumberVisitor;

impl Visitor<'_> for ServerNumberVisitor {
    type Value = ServerNumber;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("server_id as a whole number from 0 to 4294967295")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<ServerNumber, E> {
        let id = u32::try_from(number).map_err(|_| E::custom("server_id must be at most 4294967295"))?;
        Ok(ServerNumber(ServerId(id)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<ServerNumber, E> {
        Err(E::custom(match ServerId::parse(text.as_bytes()) {
            Ok(id) => format!("server_id must be a number, {id} and not \"{id}\": in PHP, (int) $id"),
            Err(_) => "server_id must be a number, not a string".to_owned(),
        }))
    }
}

/// RFC 3339 with an offset, or Unix seconds.
struct Instant(UnixSeconds);

impl<'de> Deserialize<'de> for Instant {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(InstantVisitor)
    }
}

struct InstantVisitor;

impl Visitor<'_> for InstantVisitor {
    type Value = Instant;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "an RFC 3339 instant with an offset, such as 2026-11-20T12:34:56+01:00, or Unix seconds as a number, \
             which UNIX_TIMESTAMP() gives in MySQL",
        )
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Instant, E> {
        let instant = UnixSeconds::parse_rfc3339(text);
        instant.map(Instant).ok_or_else(|| E::custom(format_args!("voted_at must be {}", &self as &dyn Expected)))
    }

    fn visit_u64<E: Error>(self, seconds: u64) -> Result<Instant, E> {
        let seconds = u32::try_from(seconds);
        seconds.map(|seconds| Instant(UnixSeconds(seconds))).map_err(|_| E::custom("voted_at is after the year 2106"))
    }

    fn visit_i64<E: Error>(self, seconds: i64) -> Result<Instant, E> {
        let seconds = u64::try_from(seconds).map_err(|_| E::custom("voted_at is before 1970"))?;
        self.visit_u64(seconds)
    }

    fn visit_f64<E: Error>(self, seconds: f64) -> Result<Instant, E> {
        // Instants are truncated to their second; the integer's rule refuses others.
        if seconds.is_finite() {
            self.visit_i64(seconds.trunc() as i64)
        } else {
            Err(E::custom("voted_at is no number"))
        }
    }
}

/// The most bytes of an unknown name that the message repeats: the known names follow it.
const NAME_ECHO_BYTES_MAX: usize = 64;
/// The text before such a name in serde's message.
const UNKNOWN: &str = "unknown field `";
/// The text behind it.
const EXPECTED: &str = "`, expected ";

fn read<'a>(text: &'a [u8], word: &'static str) -> Result<Raw<'a>, Invalid> {
    json::object(text).map_err(|error| {
        let reason = error.to_string();
        // Most bodies are one line, so the position adds nothing to the reason.
        let reason = reason.rsplit_once(" at line ").map_or(reason.as_str(), |(reason, _)| reason);
        let reason = match reason.strip_prefix(UNKNOWN).and_then(|reason| reason.rsplit_once(EXPECTED)) {
            Some((name, known)) => format!("{UNKNOWN}{}{EXPECTED}{known}", echo(name, NAME_ECHO_BYTES_MAX)),
            None => echo(reason, ECHO_BYTES_MAX),
        };
        if error.is_data() {
            invalid(422, word, reason)
        } else {
            invalid(400, "invalid_json", format!("the body is no JSON object: {reason}"))
        }
    })
}

/// Reads a vote.
///
/// # Errors
/// The refusal to answer with.
pub fn vote(text: &[u8]) -> Result<Vote, Invalid> {
    into_vote(read(text, "invalid_vote")?)
}

fn into_vote(raw: Raw<'_>) -> Result<Vote, Invalid> {
    let refuse = |message| Err(invalid(422, "invalid_vote", message));
    let server = match (raw.server_id, raw.token) {
        (Some(ServerNumber(id)), None) => ServerName::Id(id),
        (None, Some(token)) => match Token::new(&token) {
            Some(token) => ServerName::Token(token),
            // No server can have such a token.
            None if token.contains('/') => return Err(invalid(404, "unknown_server", NO_SERVER_HAS_SLASH)),
            None => return Err(invalid(404, "unknown_server", "no server has this token")),
        },
        (Some(_), Some(_)) => return refuse("name the server by server_id or by token, not by both"),
        (None, None) => return refuse("name the server by server_id or by token"),
    };
    let voter = match (&raw.ip, &raw.ips) {
        (Some(ip), None) => VoterAddress::parse_user(ip.as_bytes()).map(Voter::from),
        (None, Some(ips)) if ips.is_empty() || ips.len() > Voter::ADDRESSES_MAX => {
            return refuse("ips must hold from 1 to 8 addresses");
        }
        (None, Some(ips)) => {
            let addresses: Option<Vec<_>> = ips.iter().map(|ip| VoterAddress::parse_user(ip.as_bytes())).collect();
            addresses.and_then(|addresses| Voter::new(&addresses))
        }
        (Some(_), Some(_)) => return refuse("name the voter by ip or by ips, not by both"),
        (None, None) => return refuse("ip is missing"),
    };
    let Some(voter) = voter else { return refuse("ip must be an IPv4 or IPv6 address") };
    let voted_at = raw.voted_at.map(|instant| instant.0);
    Ok(Vote { server, voter, voted_at })
}

/// Reads a server to list under `id`; an empty body asks for a token to be made.
///
/// # Errors
/// The refusal to answer with.
pub fn server(id: ServerId, text: &[u8]) -> Result<NewServer, Invalid> {
    let text = if text.trim_ascii().is_empty() { b"{}" } else { text };
    let raw = read(text, "invalid_token")?;
    if raw.has_voter() || raw.voted_at.is_some() || raw.server_id.is_some_and(|ServerNumber(named)| named != id) {
        return Err(invalid(422, "invalid_token", "the body may hold a token, and nothing else"));
    }
    into_server(id, raw.token.as_deref())
}

fn into_server(server: ServerId, token: Option<&str>) -> Result<NewServer, Invalid> {
    let token = match token.map(Token::new) {
        Some(None) => {
            let has_slash = token.is_some_and(|token| token.contains('/'));
            return Err(invalid(422, "invalid_token", if has_slash { TOKEN_HAS_SLASH } else { TOKEN_RULE }));
        }
        Some(token) => token,
        None => None,
    };
    Ok(NewServer { server, token })
}

/// A line of a batch or of an export.
#[derive(Debug, PartialEq, Eq)]
pub enum BodyLine {
    /// A vote.
    Vote(Vote),
    /// A server.
    Server(NewServer),
}

/// Reads a line; its members tell its kind.
///
/// # Errors
/// The reason to report for the line. `word` is the word for a line of neither kind.
pub fn line(text: &[u8], word: &'static str) -> Result<BodyLine, Invalid> {
    let raw = read(text, word).map_err(|error| Invalid { word, ..error })?;
    let names_server = raw.server_id.filter(|_| !raw.has_voter() && raw.voted_at.is_none());
    match names_server {
        Some(id) if word == "invalid_server" || raw.token.is_some() => {
            into_server(id.0, raw.token.as_deref()).map(BodyLine::Server)
        }
        _ => into_vote(raw).map(BodyLine::Vote),
    }
}

#[cfg(test)]
mod tests {
    use super::{BodyLine, Invalid, NO_SERVER_HAS_SLASH, TOKEN_HAS_SLASH, TOKEN_RULE, line, server, vote};
    use crate::recorder::command::{NewServer, ServerName, Vote};
    use crate::vote::address::VoterAddress;
    use crate::vote::id::{ServerId, Token};
    use crate::vote::ipv4::Ipv4;
    use crate::vote::time::UnixSeconds;

    fn outcome<T>(read: Result<T, Invalid>) -> Result<T, (u16, &'static str)> {
        read.map_err(|error| (error.status, error.word))
    }

    #[test]
    fn votes() {
        let by_id = |voted_at: Option<u32>| Vote {
            server: ServerName::Id(ServerId(28)),
            voter: VoterAddress::V4(Ipv4(0xCB00_7107)).into(),
            voted_at: voted_at.map(UnixSeconds),
        };
        for (text, expected) in [
            (r#"{"server_id":28,"ip":"203.0.113.7"}"#, Ok(by_id(None))),
            (r#"{"server_id":28,"ip":"::ffff:203.0.113.7"}"#, Ok(by_id(None))),
            (r#"{"server_id":28,"token":null,"ip":"203.0.113.7"}"#, Ok(by_id(None))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":null}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":null}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":null,"token":null,"ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (
                r#"{"server_id":28,"ip":"203.0.113.7","voted_at":"2026-11-20T12:34:56Z"}"#,
                Ok(by_id(Some(1_795_178_096))),
            ),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":1795178096}"#, Ok(by_id(Some(1_795_178_096)))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":1795178096.9}"#, Ok(by_id(Some(1_795_178_096)))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":"1795178096"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":-1}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":4294967296}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"2001:db8::1%1"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":"2026-11-20T12:34:56"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.07"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":-1,"ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":"28","ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7","votedAt":1}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7"} x"#, Err((400, "invalid_json"))),
            (r#"{"server_id":28}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"token":"demo","ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (r#"{"ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (r#"{"token":"no such form!","ip":"203.0.113.7"}"#, Err((404, "unknown_server"))),
            (r#"{"server_id":28,"\u0069p":"203.0.113\u002e7"}"#, Ok(by_id(None))),
            (r#"{"server_id":28.0,"ip":"203.0.113.7"}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ip":"203.0.113.7","voted_at":1e300}"#, Err((422, "invalid_vote"))),
            (&format!("{{\"voted_at\":{}", "[".repeat(500_000)), Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ips":["203.0.113.7"," ::ffff:203.0.113.7"]}"#, Ok(by_id(None))),
            (r#"{"server_id":28,"ips":[]}"#, Err((422, "invalid_vote"))),
            (r#"{"server_id":28,"ips":["203.0.113.7","2001:db8::g"]}"#, Err((422, "invalid_vote"))),
            (
                r#"{"server_id":28,"ips":["::","1::","2::","3::","4::","5::","6::","7::","8::"]}"#,
                Err((422, "invalid_vote")),
            ),
            (r#"{"server_id":28,"ip":"203.0.113.7","ips":["203.0.113.7"]}"#, Err((422, "invalid_vote"))),
        ] {
            assert_eq!(outcome(vote(text.as_bytes())), expected, "{text:.99}");
        }
    }

    /// Regression: PHP's strings were refused as `invalid type: string "28", expected u32`.
    #[test]
    fn a_server_s_number_is_asked_for_in_the_words_of_the_interface() {
        let vote_of = |id: &str| vote(format!(r#"{{"server_id":{id},"ip":"203.0.113.7"}}"#).as_bytes());
        for (id, expected) in [
            (r#""28""#, r#"server_id must be a number, 28 and not "28": in PHP, (int) $id"#),
            (r#""028""#, "server_id must be a number, not a string"),
            ("4294967296", "server_id must be at most 4294967295"),
            ("-1", "invalid type: integer `-1`, expected server_id as a whole number from 0 to 4294967295"),
        ] {
            assert_eq!(vote_of(id).expect_err(id).message, expected);
        }
    }

    #[test]
    fn what_is_wrong_with_a_body_is_said_in_these_words() {
        let fields = "expected one of `server_id`, `token`, `ip`, `ips`, `voted_at`";
        let long = "x".repeat(100_000);
        for (text, status, expected) in [
            ("7", 422, "invalid type: integer `7`, expected an object"),
            // The fields in their order are no object.
            (r#"[28,null,"203.0.113.7"]"#, 422, "invalid type: sequence, expected an object"),
            (r#"{"ip":7}"#, 422, "invalid type: integer `7`, expected a string"),
            (r#"{"ips":"203.0.113.7"}"#, 422, "invalid type: string \"203.0.113.7\", expected a sequence"),
            (r#"{"ips":null}"#, 422, "ips must not be null"),
            (r#"{"ips":[null]}"#, 422, "invalid type: null, expected a string"),
            (r#"{"ip":"203.0.113.7","ip":"203.0.113.7"}"#, 422, "duplicate field `ip`"),
            (r#"{"token":null,"\u0074oken":"a"}"#, 422, "duplicate field `token`"),
            (r#"{"server_id":28,"Ip":7}"#, 422, &format!("unknown field `Ip`, {fields}")),
            (r#"{"`, expected ":7}"#, 422, &format!("unknown field ``, expected `, {fields}")),
            (&format!("{{\"{long}\":7}}"), 422, &format!("unknown field `{}…`, {fields}", &long[..61])),
            (r#"{"a\u001b":7}"#, 422, &format!("unknown field `a\u{fffd}`, {fields}")),
            (r#"{"token":"a/b","ip":"203.0.113.7"}"#, 404, NO_SERVER_HAS_SLASH),
            (r#"{"ip":"203.0.113.7",}"#, 400, "the body is no JSON object: trailing comma"),
            (r#"{"ip":"203.0.113.7"}7"#, 400, "the body is no JSON object: trailing characters"),
            ("", 400, "the body is no JSON object: EOF while parsing a value"),
        ] {
            let told = vote(text.as_bytes()).expect_err(text);
            assert_eq!((told.status, &*told.message), (status, expected), "{text:.99}");
        }
    }

    #[test]
    fn servers() {
        let listed = |token: Option<&str>| NewServer { server: ServerId(28), token: token.and_then(Token::new) };
        for (text, expected) in [
            ("", Ok(listed(None))),
            (r#"{"token":null}"#, Ok(listed(None))),
            (r#"{"ip":null}"#, Err((422, "invalid_token"))),
            (r#"{"token":"demo"}"#, Ok(listed(Some("demo")))),
            (r#"{"token":"a+b=="}"#, Ok(listed(Some("a+b==")))),
            (r#"{"server_id":28,"token":"demo"}"#, Ok(listed(Some("demo")))),
            (r#"{"server_id":29,"token":"demo"}"#, Err((422, "invalid_token"))),
            (r#"{"token":"de mo"}"#, Err((422, "invalid_token"))),
            (r#"{"token":""}"#, Err((422, "invalid_token"))),
            (r#"{"token":7}"#, Err((422, "invalid_token"))),
        ] {
            assert_eq!(outcome(server(ServerId(28), text.as_bytes())), expected, "{text}");
        }
    }

    #[test]
    fn a_refused_token_is_told_what_to_do() {
        for (token, expected) in [("a/b", TOKEN_HAS_SLASH), ("..", TOKEN_RULE), ("a b", TOKEN_RULE)] {
            let text = format!(r#"{{"server_id":28,"token":"{token}"}}"#);
            let told = [server(ServerId(28), text.as_bytes()).err(), line(text.as_bytes(), "invalid_server").err()];
            assert_eq!(told.map(|told| told.expect("refused").message), [expected; 2], "{token}");
        }
    }

    #[test]
    fn a_line_says_itself_what_it_is() {
        let read = |text: &str, word| outcome(line(text.as_bytes(), word));
        assert!(matches!(read(r#"{"server_id":1,"token":"a"}"#, "invalid_vote"), Ok(BodyLine::Server(_))));
        assert!(matches!(read(r#"{"server_id":1}"#, "invalid_server"), Ok(BodyLine::Server(_))));
        assert!(matches!(read(r#"{"server_id":1,"ip":"1.2.3.4"}"#, "invalid_server"), Ok(BodyLine::Vote(_))));
        // A vote without a known address lists no server.
        assert_eq!(read(r#"{"server_id":1,"ip":null}"#, "invalid_server"), Err((422, "invalid_server")));
        assert_eq!(read(r#"{"server_id":1}"#, "invalid_vote"), Err((422, "invalid_vote")));
        assert_eq!(read("garbage", "invalid_vote"), Err((400, "invalid_vote")));
    }
}
