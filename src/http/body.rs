//! Takes a request's content out of its framing: by length or chunked (RFC 9112, 6 and 7).

use super::byte;
use super::fault::Fault;
use super::field::{self, Section, Visitor};

/// Longest chunk-size line with its extensions and line end, in bytes.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;
/// Extensions over a whole body, in bytes: they carry nothing, so they may not cost much.
pub const EXTENSION_BYTES_MAX: usize = 4_096;
/// Bytes of a trailer section.
pub const TRAILER_BYTES_MAX: usize = 8_192;
/// Lines of a trailer section.
pub const TRAILER_LINES_MAX: usize = 32;
/// Digits of a chunk size that fit 64 bits.
const SIZE_DIGITS_MAX: usize = 16;

/// How a request's content is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// There is no content.
    None,
    /// This many bytes follow, at least one.
    Bytes(u64),
    /// Chunks follow.
    Chunked,
}

/// The result of one call of [`Decoder::decode`].
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'b> {
    /// Bytes of the input that are used up.
    pub consumed: usize,
    /// Content among them.
    pub content: &'b [u8],
    /// Whether the body ends here.
    pub ended: bool,
}

/// Where in a body the decoder stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DecoderState {
    Bytes { left: u64 },
    ChunkLine,
    ChunkData { left: u64 },
    ChunkEnd,
    Trailer,
}

/// Decodes one body, in pieces as they come.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    state: DecoderState,
    /// Content that may still come; more is [`Fault::ContentTooLarge`].
    allowance: u64,
    extension_bytes: usize,
}

impl Decoder {
    /// A decoder for a body of this framing, of at most `content_bytes_max`.
    ///
    /// # Errors
    /// [`Fault::ContentTooLarge`] where the length is known and too large.
    pub fn new(length: Length, content_bytes_max: u64) -> Result<Self, Fault> {
        let state = match length {
            Length::None => DecoderState::Bytes { left: 0 },
            Length::Bytes(bytes) if bytes > content_bytes_max => return Err(Fault::ContentTooLarge),
            Length::Bytes(bytes) => DecoderState::Bytes { left: bytes },
            Length::Chunked => DecoderState::ChunkLine,
        };
        Ok(Self { state, allowance: content_bytes_max, extension_bytes: 0 })
    }

    /// Takes the next piece from `input`. If nothing is consumed and the body has not ended, more input is needed.
    /// A chunk-size line and a trailer are taken whole or not at all; both are bounded.
    ///
    /// # Errors
    /// The fault that answers the request.
    pub fn decode<'b>(&mut self, input: &'b [u8]) -> Result<Piece<'b>, Fault> {
        match self.state {
            DecoderState::Bytes { left } => {
                let content = self.take(input, left);
                let left = left - content.len() as u64;
                self.state = DecoderState::Bytes { left };
                Ok(Piece { consumed: content.len(), content, ended: left == 0 })
            }
            DecoderState::ChunkLine => self.chunk_line(input),
            DecoderState::ChunkData { left } => {
                let content = self.take(input, left);
                let left = left - content.len() as u64;
                self.state = if left == 0 { DecoderState::ChunkEnd } else { DecoderState::ChunkData { left } };
                Ok(Piece { consumed: content.len(), content, ended: false })
            }
            DecoderState::ChunkEnd => match input {
                [b'\r', b'\n', ..] => {
                    self.state = DecoderState::ChunkLine;
                    Ok(framing(2))
                }
                [] | [b'\r'] => Ok(framing(0)),
                _ => Err(Fault::BadRequest),
            },
            DecoderState::Trailer => trailer(input),
        }
    }

    fn take<'b>(&self, input: &'b [u8], left: u64) -> &'b [u8] {
        &input[..usize::try_from(left).map_or(input.len(), |left| left.min(input.len()))]
    }

    fn chunk_line<'b>(&mut self, input: &[u8]) -> Result<Piece<'b>, Fault> {
        let within = &input[..input.len().min(CHUNK_LINE_BYTES_MAX)];
        let Some(line_feed) = memchr::memchr(b'\n', within) else {
            // The digits so far are checked at once: garbage is refused before its line ends.
            size_digits(within)?;
            return if within.len() < CHUNK_LINE_BYTES_MAX { Ok(framing(0)) } else { Err(Fault::BadRequest) };
        };
        let line = within[..line_feed].strip_suffix(b"\r").ok_or(Fault::BadRequest)?;
        let digits = size_digits(line)?;
        let (size, extensions) = line.split_at(digits);
        if !extensions_are_valid(extensions) {
            return Err(Fault::BadRequest);
        }
        self.extension_bytes += extensions.len();
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(Fault::BadRequest);
        }
        let size = std::str::from_utf8(size).ok().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let size = size.ok_or(Fault::BadRequest)?;
        self.allowance = self.allowance.checked_sub(size).ok_or(Fault::ContentTooLarge)?;
        self.state = if size == 0 { DecoderState::Trailer } else { DecoderState::ChunkData { left: size } };
        Ok(framing(line_feed + 1))
    }
}

/// Bytes that are framing alone.
const fn framing<'b>(consumed: usize) -> Piece<'b> {
    Piece { consumed, content: &[], ended: false }
}

/// Number of hexadecimal digits at the start of a chunk-size line.
fn size_digits(line: &[u8]) -> Result<usize, Fault> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let followed_well = matches!(line.get(digits), None | Some(b';' | b' ' | b'\t' | b'\r'));
    let fits = digits <= SIZE_DIGITS_MAX && (digits > 0 || line.is_empty());
    if fits && followed_well { Ok(digits) } else { Err(Fault::BadRequest) }
}

/// `*( BWS ";" BWS name [ BWS "=" BWS value ] )`, value a token or a quoted string.
fn extensions_are_valid(mut text: &[u8]) -> bool {
    while !text.is_empty() {
        let Some(rest) = skip_blanks(text).strip_prefix(b";") else { return false };
        let Some(rest) = skip_token(skip_blanks(rest)) else { return false };
        text = rest;
        if let Some(value) = skip_blanks(rest).strip_prefix(b"=") {
            let value = skip_blanks(value);
            let rest = if value.starts_with(b"\"") { skip_quoted(value) } else { skip_token(value) };
            let Some(rest) = rest else { return false };
            text = rest;
        }
    }
    true
}

fn skip_blanks(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count()..]
}

fn skip_token(text: &[u8]) -> Option<&[u8]> {
    let length = byte::run(text, byte::TOKEN);
    (length > 0).then(|| &text[length..])
}

fn skip_quoted(text: &[u8]) -> Option<&[u8]> {
    let mut at = 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(&text[at + 1..]),
            b'\\' if matches!(text.get(at + 1)?, b'\t' | 0x20..=0x7e | 0x80..) => at += 2,
            b'\t' | 0x20..=0x5b | 0x5d..=0x7e | 0x80.. => at += 1,
            _ => return None,
        }
    }
}

/// Trailer fields are checked and dropped: nothing here has a use for them.
#[derive(Default)]
struct Ignored;

impl Visitor<'_> for Ignored {
    fn field(&mut self, _name: &[u8], _value: &[u8]) -> Result<(), Fault> {
        Ok(())
    }
}

fn trailer<'b>(input: &[u8]) -> Result<Piece<'b>, Fault> {
    let within = &input[..input.len().min(TRAILER_BYTES_MAX)];
    match field::parse(within, TRAILER_LINES_MAX, &mut Ignored) {
        Section::Complete((), used) => Ok(Piece { consumed: used, content: &[], ended: true }),
        Section::Partial if within.len() == TRAILER_BYTES_MAX => Err(Fault::HeadersTooLarge),
        Section::Partial => Ok(framing(0)),
        Section::Rejected(fault) => Err(fault),
    }
}

#[cfg(test)]
mod tests {
    use super::{Decoder, Length, TRAILER_BYTES_MAX};
    use crate::http::fault::Fault;
    use proptest::prelude::{any, prop_assert_eq, proptest};
    use proptest::sample::select;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum End {
        Ended,
        NotWhole,
        Faulty(Fault),
    }

    /// Decodes as a session does: keeps bytes that are not consumed until more have come. Gives the content, the number
    /// of consumed bytes, and the end.
    fn decode(bytes: &[u8], bound: u64, cuts: &[usize]) -> (Vec<u8>, usize, End) {
        let mut decoder = Decoder::new(Length::Chunked, bound).expect("chunks tell no length");
        let (mut content, mut consumed, mut arrived, mut cuts) = (Vec::new(), 0, 0, cuts.iter().cycle());
        loop {
            let held = &bytes[consumed..arrived];
            match decoder.decode(held) {
                Err(fault) => return (content, consumed, End::Faulty(fault)),
                Ok(piece) => {
                    content.extend_from_slice(piece.content);
                    consumed += piece.consumed;
                    if piece.ended {
                        return (content, consumed, End::Ended);
                    }
                    if piece.consumed > 0 {
                        continue;
                    }
                    assert!(held.len() < TRAILER_BYTES_MAX, "holds more than its longest part");
                }
            }
            if arrived == bytes.len() {
                return (content, consumed, End::NotWhole);
            }
            arrived = bytes.len().min(arrived + cuts.next().expect("cuts repeat"));
        }
    }

    proptest! {
        #[test]
        fn content_put_into_chunks_comes_out_again(
            chunks in proptest::collection::vec(
                (proptest::collection::vec(any::<u8>(), 1..60), 1usize..17, select(&["", ";a=b;c", "\t;a=\"q;\\\" \""][..])), 0..6,
            ),
            end in select(&["0\r\n\r\n", "000;last\r\nA: 1\r\n\r\n", "0\r\nA:\r\nB: 2\r\n\r\n"][..]),
            cuts in proptest::collection::vec(1usize..90, 1..4),
        ) {
            let (mut content, mut framed) = (Vec::new(), Vec::new());
            for (data, digits, extension) in chunks {
                framed.extend_from_slice(format!("{:0digits$X}{extension}\r\n", data.len()).as_bytes());
                framed.extend_from_slice(&[&data[..], b"\r\n"].concat());
                content.extend_from_slice(&data);
            }
            framed.extend_from_slice(end.as_bytes());
            let (bound, length) = (content.len() as u64, framed.len());
            framed.extend_from_slice(b"GET / HTTP/1.1\r\n");
            if bound > 0 {
                prop_assert_eq!(decode(&framed, bound - 1, &cuts).2, End::Faulty(Fault::ContentTooLarge));
            }
            prop_assert_eq!(decode(&framed, bound, &cuts), (content, length, End::Ended));
        }
    }
}
