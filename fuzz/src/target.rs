//! A second reading of a request's path: the slashes split it into segments, the standard library reads
//! server ids and IPv4 addresses, and each escape is undone once.

use std::net::Ipv4Addr;

use vote_status::vote::address::VoterAddress;
use vote_status::vote::answer::{Question, ServerKey};
use vote_status::vote::id::{ServerId, ServerIdError};
use vote_status::vote::ipv4::Ipv4;

/// The question of a path, by splitting and by the standard library.
#[must_use]
pub fn question(path: &[u8]) -> Option<Question<'_>> {
    let segments: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    let (server, address) = match segments[..] {
        [b"", b"api", b"vote", id, b"status", address] | [b"", b"api", b"vote", id, b"status", address, b""] => {
            (ServerKey::Id(server_id(id)), address)
        }
        [b"", b"api", b"servers", token, b"vote-status", address]
        | [b"", b"api", b"servers", token, b"vote-status", address, b""] => (ServerKey::Token(a_token(token)), address),
        _ => return None,
    };
    Some(Question { server, address: address_of(address) })
}

fn server_id(text: &[u8]) -> Result<ServerId, ServerIdError> {
    let text = std::str::from_utf8(text).map_err(|_not_digits| ServerIdError::Invalid)?;
    let is_number = !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit());
    if !is_number || (text.starts_with('0') && text != "0") {
        return Err(ServerIdError::Invalid);
    }
    text.parse().map(ServerId).map_err(|_too_large| ServerIdError::TooLarge)
}

/// A token of the contract's form, or the empty one, which no server has.
fn a_token(text: &[u8]) -> &[u8] {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+=".contains(byte);
    if text.len() <= 128 && text.iter().all(allowed) && text != b"." && text != b".." { text } else { b"" }
}

/// A dotted quad by the standard library. An address with a colon is read as in the service, by the standard library too.
fn address_of(text: &[u8]) -> Option<VoterAddress> {
    if text.contains(&b':') {
        return VoterAddress::parse_user(text);
    }
    let address: Ipv4Addr = std::str::from_utf8(text).ok()?.trim_matches([' ', '\t']).parse().ok()?;
    Some(VoterAddress::V4(Ipv4(u32::from(address))))
}

/// Undoes every whole escape once, from left to right, except for an escaped slash.
#[must_use]
pub fn unescaped(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < path.len() {
        let digits = path.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let value = digits.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match value.filter(|_| path[at] == b'%') {
            Some(b'/') => out.extend_from_slice(b"%2F"),
            Some(value) => out.push(value),
            None => out.push(path[at]),
        }
        at += if path[at] == b'%' && value.is_some() { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{question, unescaped};
    use vote_status::vote::address::VoterAddress;
    use vote_status::vote::answer::{Question, ServerKey};
    use vote_status::vote::id::{ServerId, ServerIdError};
    use vote_status::vote::ipv4::Ipv4;
    use vote_status::vote::ipv6::Ipv6Network;

    #[test]
    fn the_second_opinions() {
        let address = Some(VoterAddress::V4(Ipv4(0xCB00_7107)));
        let network = Some(VoterAddress::V6(Ipv6Network(0x2001_0DB8_0000_0000)));
        for (path, server, address) in [
            ("/api/vote/28/status/203.0.113.7", ServerKey::Id(Ok(ServerId(28))), address),
            ("/api/vote/28/status/::ffff:cb00:7107/", ServerKey::Id(Ok(ServerId(28))), address),
            ("/api/vote/028/status/2001:db8::1", ServerKey::Id(Err(ServerIdError::Invalid)), network),
            ("/api/vote/28/status/2001:db8::1%1", ServerKey::Id(Ok(ServerId(28))), None),
            ("/api/vote/4294967296/status/", ServerKey::Id(Err(ServerIdError::TooLarge)), None),
            ("/api/servers/demo/vote-status/ 203.0.113.7\t", ServerKey::Token(b"demo"), address),
            ("/api/servers/d mo/vote-status/203.0.113.07", ServerKey::Token(b""), None),
        ] {
            assert_eq!(question(path.as_bytes()), Some(Question { server, address }), "{path}");
        }
        for path in
            ["/api/vote/28/status", "/api/vote/28/status/1.2.3.4//", "/api/vote/28/vote-status/1.2.3.4", "", "/"]
        {
            assert_eq!(question(path.as_bytes()), None, "{path}");
        }
        assert_eq!(unescaped(b"/a%20%2541%2f%4"), b"/a %41%2F%4");
    }
}
