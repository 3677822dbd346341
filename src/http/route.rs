//! The public paths, recognised by hand: two shapes, no router.
//!
//! ```text
//! /api/servers/{token}/vote-status/{ipUser}
//! /api/vote/{serverId}/status/{ipUser}
//! ```

use std::borrow::Cow;

use super::byte;
use crate::vote::address::VoterAddress;
use crate::vote::answer::{Question, ServerKey};
use crate::vote::id::{ServerId, TOKEN_CHARS_MAX, is_token};
use crate::vote::ipv4::Ipv4;

/// Reads a path without its query. `None` where it has neither shape.
///
/// The segments are compared after one decoding, so the decoded bytes must outlive the question:
/// see [`decode`].
#[must_use]
pub fn question(path: &[u8]) -> Option<Question<'_>> {
    match ordinary(path) {
        Some((question, used)) if used == path.len() => Some(question),
        _ => by_segments(path),
    }
}

/// Reads a shape as nearly every client spells it, from left to right at the start of `bytes`. Gives
/// the number of bytes that it took too: none of them is an escape or out of place in a path. The
/// caller judges the rest of `bytes`; `None` says only that [`question`] has to look.
#[must_use]
#[inline(always)]
pub fn ordinary(bytes: &[u8]) -> Option<(Question<'_>, usize)> {
    let (server, rest) = match bytes.strip_prefix(b"/api/vote/") {
        Some(rest) => {
            let (server, digits) = ServerId::parse_prefix(rest)?;
            (ServerKey::Id(Ok(server)), rest[digits..].strip_prefix(b"/status/")?)
        }
        None => {
            let rest = bytes.strip_prefix(b"/api/servers/")?;
            let (token, rest) = rest.split_at(byte::run(rest, byte::SERVER_TOKEN));
            // A shorter token may be `.` or `..`: `by_segments` looks closer.
            let is_token = (3..=TOKEN_CHARS_MAX).contains(&token.len());
            (ServerKey::Token(token), rest.strip_prefix(b"/vote-status/").filter(|_| is_token)?)
        }
    };
    let (address, used) = Ipv4::parse_prefix(rest)?;
    Some((Question { server, address: Some(VoterAddress::V4(address)) }, bytes.len() - rest.len() + used))
}

/// Either shape in any spelling: one trailing slash, odd addresses, empty segments.
fn by_segments(path: &[u8]) -> Option<Question<'_>> {
    let mut segments = path.split(|byte| *byte == b'/');
    let mut next = || segments.next();
    let (root, api, family, key, word, address) = (next()?, next()?, next()?, next()?, next()?, next()?);
    let trailing_slash_at_most = match next() {
        None => true,
        Some(last) => last.is_empty() && next().is_none(),
    };
    if !root.is_empty() || api != b"api" || !trailing_slash_at_most {
        return None;
    }
    let server = match (family, word) {
        (b"vote", b"status") => ServerKey::Id(ServerId::parse(key)),
        (b"servers", b"vote-status") => ServerKey::Token(if is_token(key) { key } else { b"" }),
        _ => return None,
    };
    Some(Question { server, address: VoterAddress::parse_user(address) })
}

/// Undoes the percent-encoding of a path, once. The head's parser has checked that its escapes are
/// whole. `%2F` stays as it is: decoded, it would pass for a separator, and no segment of ours may
/// hold a slash in either spelling.
#[must_use]
pub fn decode(path: &[u8]) -> Cow<'_, [u8]> {
    let Some(first) = memchr::memchr(b'%', path) else { return Cow::Borrowed(path) };
    let mut decoded = Vec::with_capacity(path.len());
    decoded.extend_from_slice(&path[..first]);
    let mut rest = &path[first..];
    while let [byte, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        match escaped.map(|(high, low)| high << 4 | low) {
            None => {
                decoded.push(*byte);
                rest = after;
                continue;
            }
            Some(b'/') => decoded.extend_from_slice(b"%2F"),
            Some(value) => decoded.push(value),
        }
        rest = &rest[3..];
    }
    Cow::Owned(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

#[cfg(test)]
mod tests {
    use super::{by_segments, decode, ordinary, question};
    use crate::vote::ipv4::Ipv4;
    use proptest::prelude::{any, prop_assert, prop_assert_eq, prop_oneof, proptest};
    use proptest::strategy::{Just, Strategy};

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_long_one(
            shape in prop_oneof![Just(("vote", "status")), Just(("servers", "vote-status"))],
            key in prop_oneof![any::<u32>().prop_map(|id| id.to_string()), "[0-9]{0,12}", "[a-z~._+=-]{0,140}", ".{0,3}", "[.]{1,3}"],
            address in prop_oneof![any::<u32>().prop_map(|ip| Ipv4(ip).to_string()), "[0-9.:a-f]{0,16}"],
            end in prop_oneof![Just(""), Just("/"), Just("//"), Just(" ")],
        ) {
            let path = format!("/api/{}/{key}/{}/{address}{end}", shape.0, shape.1);
            if let Some((short, used)) = ordinary(path.as_bytes()) {
                prop_assert_eq!(Some(short), by_segments(&path.as_bytes()[..used]));
            }
        }

        #[test]
        fn escapes_are_undone_once_and_make_no_segment(path in "(/|%|%2[fF]|%4|%41|%25|%zz|[ -~]|\\PC){0,40}") {
            let (path, slashes) = (path.as_bytes(), |text: &[u8]| memchr::memchr_iter(b'/', text).count());
            let decoded = decode(path);
            prop_assert!(decoded.len() <= path.len());
            prop_assert_eq!(slashes(&decoded), slashes(path));
            let escape = |byte: &u8| if *byte == b'/' { "/".to_owned() } else { format!("%{byte:02x}") };
            let escaped: String = path.iter().map(escape).collect();
            prop_assert_eq!(&*decode(escaped.as_bytes()), path);
            let _any_bytes_are_read_or_refused = question(&decoded);
        }
    }
}
