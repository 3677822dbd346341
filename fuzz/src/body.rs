//! The body framing's promises: however the bytes are cut it gives the same content, ends at the
//! same byte or finds the same fault, stays within its bound, and takes what the rules allow.
//!
//! An input is one byte for the framing (`C`: chunked; any other: that many bytes), one for the
//! bound on content (in units of [`BOUND_UNIT`]), and the bytes that follow the head.

use httparse::{EMPTY_HEADER, Status};
use vote_status::http::body::{Decoder, Length, TRAILER_BYTES_MAX, TRAILER_LINES_MAX};
use vote_status::http::fault::Fault;

use crate::cuts::{self, Choices};
use crate::reference;

/// What the second byte of an input counts.
pub const BOUND_UNIT: u64 = 4;
/// Longer inputs are not tried byte by byte.
const BYTEWISE_BYTES_MAX: usize = 400;
/// Content that is put into chunks and taken out again: little, so that its extensions stay within their bound.
const ROUND_TRIP_BYTES_MAX: usize = 512;

/// What became of a body.
#[derive(Debug, PartialEq)]
struct Decoded {
    content: Vec<u8>,
    consumed: usize,
    end: End,
}

#[derive(Debug, PartialEq)]
enum End {
    Ended,
    NotWhole,
    Faulty(Fault),
}

/// Panics where the decoder breaks a promise over these bytes.
pub fn check(data: &[u8]) {
    let [framing, bound, bytes @ ..] = data else { return };
    let length = match framing {
        b'C' => Length::Chunked,
        0 => Length::None,
        count => Length::Bytes(u64::from(*count)),
    };
    let bound = u64::from(*bound) * BOUND_UNIT;
    match Decoder::new(length, bound) {
        Ok(decoder) => check_decoder(decoder, length, bound, bytes),
        Err(fault) => {
            assert_eq!(fault, Fault::ContentTooLarge);
            assert!(matches!(length, Length::Bytes(count) if count > bound));
        }
    }
    check_round_trip(bytes);
}

fn check_decoder(decoder: Decoder, length: Length, bound: u64, bytes: &[u8]) {
    let decoded = decode(decoder, cuts::whole(bytes));
    assert!(decoded.content.len() as u64 <= bound, "content beyond its bound");
    match length {
        Length::None => assert_eq!(decoded, Decoded { content: Vec::new(), consumed: 0, end: End::Ended }),
        Length::Bytes(count) => assert_eq!(decoded, counted(bytes, count)),
        Length::Chunked => match (dechunked(bytes), &decoded.end) {
            (reading, End::Ended) => assert_eq!(Some((decoded.content.clone(), decoded.consumed)), reading),
            (Some(_), End::NotWhole) => panic!("waits for more of what is whole"),
            (_, End::NotWhole | End::Faulty(_)) => {}
        },
    }
    for salt in 0..3 {
        assert_eq!(decode(decoder, cuts::segments(bytes, salt)), decoded, "cut by {salt}");
    }
    if bytes.len() <= BYTEWISE_BYTES_MAX {
        assert_eq!(decode(decoder, cuts::bytewise(bytes)), decoded, "cut at every byte");
    }
}

/// Decodes as a session does: what is not consumed is held until more has come.
fn decode<'d>(mut decoder: Decoder, segments: impl Iterator<Item = &'d [u8]>) -> Decoded {
    let mut held = Vec::new();
    let mut decoded = Decoded { content: Vec::new(), consumed: 0, end: End::NotWhole };
    // A session asks once before anything has come.
    for segment in cuts::whole(b"").chain(segments) {
        held.extend_from_slice(segment);
        loop {
            let piece = match decoder.decode(&held) {
                Ok(piece) => piece,
                Err(fault) => return Decoded { end: End::Faulty(fault), ..decoded },
            };
            assert!(piece.content.len() <= piece.consumed && piece.consumed <= held.len());
            decoded.content.extend_from_slice(piece.content);
            decoded.consumed += piece.consumed;
            let (consumed, ended) = (piece.consumed, piece.ended);
            held.drain(..consumed);
            if ended {
                return Decoded { end: End::Ended, ..decoded };
            }
            if consumed == 0 {
                break;
            }
        }
        assert!(held.len() < TRAILER_BYTES_MAX, "holds more than its longest part");
    }
    decoded
}

fn counted(bytes: &[u8], count: u64) -> Decoded {
    let count = count as usize;
    let content = bytes[..count.min(bytes.len())].to_vec();
    let end = if bytes.len() < count { End::NotWhole } else { End::Ended };
    Decoded { consumed: content.len(), content, end }
}

/// Content and length of a chunked body as `httparse` reads it; `None` where it is not whole or not right.
fn dechunked(bytes: &[u8]) -> Option<(Vec<u8>, usize)> {
    let mut content = Vec::new();
    let mut rest = bytes;
    loop {
        rest.first().filter(|byte| byte.is_ascii_hexdigit())?;
        let Ok(Status::Complete((line, size))) = httparse::parse_chunk_size(rest) else { return None };
        if size == 0 {
            let mut fields = [EMPTY_HEADER; TRAILER_LINES_MAX];
            let trailer = &rest[line..];
            let Ok(Status::Complete((used, _))) = httparse::parse_headers(trailer, &mut fields) else { return None };
            let is_strict = reference::line_ends_are_strict(&trailer[..used]);
            return is_strict.then_some((content, bytes.len() - trailer.len() + used));
        }
        let (chunk, after) = rest[line..].split_at_checked(usize::try_from(size).ok()?)?;
        content.extend_from_slice(chunk);
        rest = after.strip_prefix(b"\r\n")?;
    }
}

/// Content that was put into chunks, with all that the rules allow around them, comes out again.
fn check_round_trip(bytes: &[u8]) {
    let content = &bytes[..bytes.len().min(ROUND_TRIP_BYTES_MAX)];
    let chunked = chunked(content);
    let bound = content.len() as u64;
    let decoder = |bound| Decoder::new(Length::Chunked, bound).expect("a chunked body's length is not known ahead");
    for salt in 0..2 {
        let decoded = decode(decoder(bound), cuts::segments(&chunked, salt));
        assert_eq!(decoded, Decoded { content: content.to_vec(), consumed: chunked.len(), end: End::Ended });
    }
    if bound > 0 {
        let decoded = decode(decoder(bound - 1), cuts::whole(&chunked));
        assert_eq!(decoded.end, End::Faulty(Fault::ContentTooLarge));
        assert!((decoded.content.len() as u64) < bound);
    }
}

fn chunked(content: &[u8]) -> Vec<u8> {
    let mut choices = Choices::of(content, 0);
    let mut out = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(rest.len().min(8 + choices.below(80)));
        let size = match choices.below(3) {
            0 => format!("{:x}", chunk.len()),
            1 => format!("{:X}", chunk.len()),
            _ => format!("{:016x}", chunk.len()),
        };
        out.extend_from_slice(size.as_bytes());
        out.extend_from_slice(
            choices.pick(&["", "", ";a", ";a=b;c", " ; a = b", "\t;a=\"q;\\\" \"", ";a=\"\""]).as_bytes(),
        );
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(chunk);
        out.extend_from_slice(b"\r\n");
        rest = after;
    }
    out.extend_from_slice(choices.pick(&["0", "000", "0;last"]).as_bytes());
    out.extend_from_slice(b"\r\n");
    out.extend_from_slice(choices.pick(&["", "", "A: 1\r\n", "A:\r\nB: 2\r\n"]).as_bytes());
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::{Decoded, End, chunked, counted, dechunked};

    #[test]
    fn the_second_opinions() {
        assert_eq!(dechunked(b"5\r\nhello\r\n0\r\n\r\nGET"), Some((b"hello".to_vec(), 15)));
        assert_eq!(dechunked(b"A;x=y\r\n0123456789\r\n0\r\nA: 1\r\n\r\n"), Some((b"0123456789".to_vec(), 30)));
        for not_right in
            [&b"5\r\nhello\r\n0\r\n"[..], b"5\nhello\r\n0\r\n\r\n", b"\r\n\r\n", b"0\r\nA: 1\n\r\n", b"0\r\n\n"]
        {
            assert_eq!(dechunked(not_right), None, "{}", not_right.escape_ascii());
        }
        assert_eq!(counted(b"hello", 3), Decoded { content: b"hel".to_vec(), consumed: 3, end: End::Ended });
        assert_eq!(counted(b"he", 3), Decoded { content: b"he".to_vec(), consumed: 2, end: End::NotWhole });
        let content = [b'x'; 300];
        let chunked = chunked(&content);
        assert_eq!(dechunked(&chunked), Some((content.to_vec(), chunked.len())));
    }
}
