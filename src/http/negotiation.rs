//! Which form of a document a request wants: the codings that it takes (RFC 9110, 12.5.3), and the
//! entity tags that the client has already (13.1.2). Knows values of fields, not documents.

use super::field::list;
use crate::vote::ipv4::trim_blanks;

/// A weight of 1 in thousandths, in which weights are counted.
const WEIGHT_MAX: u16 = 1_000;

/// Whether `Accept-Encoding` accepts gzip, and gives it at least the weight of "no coding".
pub fn wants_gzip<'b>(accept_encoding: impl Iterator<Item = &'b [u8]>) -> bool {
    let (mut gzip, mut identity, mut any) = (None, None, None);
    for element in accept_encoding.flat_map(list) {
        let (coding, weight) = match memchr::memchr(b';', element) {
            None => (element, WEIGHT_MAX),
            Some(at) => (trim_blanks(&element[..at]), weight(trim_blanks(&element[at + 1..]))),
        };
        let is = |name: &[u8]| coding.eq_ignore_ascii_case(name);
        match coding {
            b"*" => any = Some(weight),
            _ if is(b"gzip") || is(b"x-gzip") => gzip = Some(weight),
            _ if is(b"identity") => identity = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    // "No coding" is always acceptable, but has a weight only if the field names it.
    gzip > 0 && gzip >= identity.or(any).unwrap_or(0)
}

/// `q=` and a number from 0 to 1 of at most three decimals; any other weight counts as 0.
fn weight(parameter: &[u8]) -> u16 {
    let [b'q' | b'Q', b'=', lead @ (b'0' | b'1'), decimals @ ..] = parameter else { return 0 };
    let digits = match decimals {
        [] => decimals,
        [b'.', digits @ ..] if digits.len() <= 3 && digits.iter().all(u8::is_ascii_digit) => digits,
        _ => return 0,
    };
    let padded = digits.iter().chain(b"000").take(3);
    let value = padded.fold(u16::from(lead - b'0'), |value, digit| 10 * value + u16::from(digit - b'0'));
    if value <= WEIGHT_MAX { value } else { 0 }
}

/// Whether `If-None-Match` names this entity tag, compared weakly.
pub fn names_tag<'b>(if_none_match: impl Iterator<Item = &'b [u8]>, tag: &str) -> bool {
    let mut tags = if_none_match.flat_map(list);
    tags.any(|named| named == b"*" || named.strip_prefix(b"W/").unwrap_or(named) == tag.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::wants_gzip;

    fn values(lines: &'static [&'static str]) -> impl Iterator<Item = &'static [u8]> {
        lines.iter().map(|line| line.as_bytes())
    }

    #[test]
    fn codings_are_weighed() {
        let wanted: &[&[&str]] = &[
            &["GZip"],
            &["x-gzip"],
            &["gzip, deflate, br, zstd"],
            &["br;q=1.0, gzip;q=0.001"],
            &["gzip;q=0.5, *;q=0"],
            &["gzip;q=1.000,identity;q=1"],
            &["identity;q=0, gzip\t;\tQ=0.2"],
            &[", ,gzip,"],
        ];
        for lines in wanted {
            assert!(wants_gzip(values(lines)), "{lines:?}");
        }
        let unwanted: &[&[&str]] = &[
            &[],
            &["br, deflate"],
            &["gzip;q=0.000"],
            &["gzip;q=0, *"],
            &["*;q=0"],
            &["gzip;q=0.5, identity"],
            &["gzip;q=0.5, *;q=0.6"],
            &["gzipped"],
            // Not a valid weight.
            &["gzip;q=1.001"],
            &["gzip;q=2"],
            &["gzip;q=0.1234"],
            &["gzip;q=.5"],
            &["gzip;q="],
            &["gzip;q= 1"],
            &["gzip;"],
            &["gzip;level=9"],
            &["gzip;q=1;q=1"],
        ];
        for lines in unwanted {
            assert!(!wants_gzip(values(lines)), "{lines:?}");
        }
    }
}
