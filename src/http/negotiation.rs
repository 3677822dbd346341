//! Which form of a document a request wants: the codings that it takes (RFC 9110, 12.5.3), and the
//! entity tags of what it has already (13.1.2). Knows values of fields, not documents.

use super::field::list;
use crate::vote::ipv4::trim_blanks;

/// Whether `Accept-Encoding` takes gzip: it is named, and not with a weight of 0.
pub fn wants_gzip<'b>(accept_encoding: impl Iterator<Item = &'b [u8]>) -> bool {
    let mut elements = accept_encoding.flat_map(list);
    elements.any(|element| {
        let (coding, weight) = element.split_at(memchr::memchr(b';', element).unwrap_or(element.len()));
        let is_gzip = [&b"gzip"[..], b"x-gzip"].iter().any(|name| trim_blanks(coding).eq_ignore_ascii_case(name));
        is_gzip && (weight.is_empty() || weight.iter().any(|byte| matches!(byte, b'1'..=b'9')))
    })
}

/// Whether `If-None-Match` names this entity tag, compared weakly.
pub fn names_tag<'b>(if_none_match: impl Iterator<Item = &'b [u8]>, tag: &str) -> bool {
    let mut tags = if_none_match.flat_map(list);
    tags.any(|named| named == b"*" || named.strip_prefix(b"W/").unwrap_or(named) == tag.as_bytes())
}
