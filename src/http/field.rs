//! Field sections: the header lines of a head and the trailer of a chunked body.
//!
//! Ordinary sections are read in one pass by a scanner of our own, which knows only what is right
//! and gives up on all else. What it gives up on is judged by `httparse`, with one rule on top:
//! `httparse` takes a bare LF for a line end, and two parsers that differ on that can be made to
//! see different requests, so every line end is checked again here.

use httparse::{EMPTY_HEADER, Error, Header, Status};

use super::fault::Fault;

/// Lines that fit the array on the stack; a longer section is read into the heap.
const LINES_ON_STACK: usize = 32;

/// What became of a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section<T> {
    /// Whole and valid: what the visitor made of it, and the bytes that it took with its empty line.
    Complete(T, usize),
    /// Valid so far, and not whole yet.
    Partial,
    /// To be answered with this fault.
    Rejected(Fault),
}

/// Looks at each field of a section in turn.
pub trait Visitor<'b> {
    /// Takes one field, or refuses the whole section.
    ///
    /// # Errors
    /// The fault that answers the request.
    fn field(&mut self, name: &'b str, value: &'b [u8]) -> Result<(), Fault>;
}

/// Reads a field section at the start of `bytes`; `lines_max` bounds its lines.
#[inline]
pub fn parse<'b, V: Visitor<'b> + Default>(bytes: &'b [u8], lines_max: usize) -> Section<V> {
    match scan(bytes, lines_max) {
        Some((visitor, used)) => Section::Complete(visitor, used),
        None => judge(bytes, lines_max),
    }
}

/// The short way: whole and right, or `None`.
#[inline]
fn scan<'b, V: Visitor<'b> + Default>(bytes: &'b [u8], lines_max: usize) -> Option<(V, usize)> {
    let mut visitor = V::default();
    let mut rest = bytes;
    for _ in 0..=lines_max {
        if let [b'\r', b'\n', after @ ..] = rest {
            return Some((visitor, bytes.len() - after.len()));
        }
        let colon = rest.iter().position(|byte| !is_token_byte(*byte))?;
        let (name, after) = rest.split_at(colon);
        let value = match after {
            [b':', b' ', value @ ..] | [b':', value @ ..] if colon > 0 => value,
            _ => return None,
        };
        let end = visible_run(value);
        let (value, after) = value.split_at(end);
        rest = after.strip_prefix(b"\r\n")?;
        if let [b' ', ..] | [.., b' '] = value {
            return None; // more blanks than usual: to be trimmed
        }
        visitor.field(std::str::from_utf8(name).ok()?, value).ok()?;
    }
    None
}

/// Bytes before the first control character; a tab counts as one here. Eight at a time.
#[inline]
fn visible_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let mut at = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        // The subtraction borrows into a byte's high bit where it was below 0x20, or 0x7F itself;
        // a borrow can spoil bytes above the first hit only, and the first is what is looked for.
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let delete = (word ^ (ONES * 0x7F)).wrapping_sub(ONES) & !(word ^ (ONES * 0x7F));
        let hits = (below_space | delete) & HIGHS;
        if hits != 0 {
            return at + hits.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let tail = &bytes[at..];
    at + tail.iter().position(|byte| matches!(byte, ..0x20 | 0x7F)).unwrap_or(tail.len())
}

/// The long way: whatever it is.
#[cold]
fn judge<'b, V: Visitor<'b> + Default>(bytes: &'b [u8], lines_max: usize) -> Section<V> {
    let mut few = [EMPTY_HEADER; LINES_ON_STACK];
    let few_max = lines_max.min(LINES_ON_STACK);
    match httparse::parse_headers(bytes, &mut few[..few_max]) {
        Err(Error::TooManyHeaders) if lines_max > LINES_ON_STACK => {
            let mut many = vec![EMPTY_HEADER; lines_max];
            visit(bytes, httparse::parse_headers(bytes, &mut many))
        }
        parsed => visit(bytes, parsed),
    }
}

type Parsed<'h, 'b> = Result<Status<(usize, &'h [Header<'b>])>, Error>;

fn visit<'b, V: Visitor<'b> + Default>(bytes: &'b [u8], parsed: Parsed<'_, 'b>) -> Section<V> {
    let mut visitor = V::default();
    let (used, fields) = match parsed {
        Ok(Status::Complete(complete)) => complete,
        Ok(Status::Partial) => return Section::Partial,
        Err(Error::TooManyHeaders) => return Section::Rejected(Fault::HeadersTooLarge),
        Err(_) => return Section::Rejected(Fault::BadRequest),
    };
    // The first line starts the section; every later one, and the empty one, must follow a CR LF.
    let mut strict = used >= 2 && bytes[used - 2] == b'\r';
    for (index, field) in fields.iter().enumerate() {
        let start = field.name.as_ptr() as usize - bytes.as_ptr() as usize;
        strict &= if index == 0 { start == 0 } else { bytes[start - 2] == b'\r' };
        if let Err(fault) = visitor.field(field.name, field.value) {
            return Section::Rejected(fault);
        }
    }
    strict &= fields.is_empty() || bytes[used - 4] == b'\r';
    if strict { Section::Complete(visitor, used) } else { Section::Rejected(Fault::BadRequest) }
}

/// RFC 9110 "tchar": what names and methods are made of.
#[must_use]
#[inline]
pub const fn is_token_byte(byte: u8) -> bool {
    TOKEN[byte as usize]
}

static TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = (byte as u8).is_ascii_alphanumeric();
        byte += 1;
    }
    let marks = b"!#$%&'*+-.^_`|~";
    let mut at = 0;
    while at < marks.len() {
        table[marks[at] as usize] = true;
        at += 1;
    }
    table
};

/// The elements of a comma-separated list, without the blanks around them. Empty ones included.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim)
}

/// Without the spaces and tabs at both ends.
#[must_use]
pub fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::{Section, Visitor, judge, parse, scan};
    use crate::http::fault::Fault;
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    #[derive(Default, Debug, PartialEq)]
    struct Names(Vec<String>);

    impl<'b> Visitor<'b> for Names {
        fn field(&mut self, name: &'b str, value: &'b [u8]) -> Result<(), Fault> {
            self.0.push(format!("{name}={}", String::from_utf8_lossy(value)));
            Ok(())
        }
    }

    fn read(text: &str) -> Section<Names> {
        parse(text.as_bytes(), 40)
    }

    #[test]
    fn sections() {
        let names = |list: &[&str]| Names(list.iter().map(ToString::to_string).collect());
        assert_eq!(read("\r\nrest"), Section::Complete(names(&[]), 2));
        assert_eq!(read("A: 1\r\nB:\r\n\r\n"), Section::Complete(names(&["A=1", "B="]), 12));
        for partial in ["", "\r", "A", "A:", "A: 1\r", "A: 1\r\n", "A: 1\r\n\r"] {
            assert_eq!(read(partial), Section::Partial, "{partial:?}");
        }
        for bad in [
            "\n",
            "A: 1\n\r\n",
            "A: 1\nB: 2\r\n\r\n",
            "A: 1\r\n\n",
            "A: 1\r\nB: 2\n\r\n",
            "A : 1\r\n\r\n",
            ": 1\r\n\r\n",
            "A: 1\r\n B\r\n\r\n",
            " A: 1\r\n\r\n",
            "A: \x01\r\n\r\n",
            "A: 1\rB: 2\r\n\r\n",
            "A\r\n\r\n",
            "A B: 1\r\n\r\n",
        ] {
            assert_eq!(read(bad), Section::Rejected(Fault::BadRequest), "{bad:?}");
        }
    }

    #[test]
    fn lines_are_bounded() {
        let lines = |count: usize| "A: 1\r\n".repeat(count) + "\r\n";
        assert!(matches!(read(&lines(33)), Section::Complete(_, 200)));
        assert!(matches!(read(&lines(40)), Section::Complete(_, 242)));
        assert_eq!(read(&lines(41)), Section::Rejected(Fault::HeadersTooLarge));
    }

    fn nearly_a_section() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => "[A-Za-z-]{1,12}: {0,2}[ -~]{0,20} {0,2}\r\n",
            2 => "[ -~]{0,12}",
            1 => "(\r\n|\n|\r|:|\t)",
        ];
        let text = vec(piece, 0..6).prop_map(|pieces| pieces.concat() + "\r\n\r\n");
        (text, any::<(u16, u8)>(), any::<bool>()).prop_map(|(text, (at, byte), spoil)| {
            let mut bytes = text.into_bytes();
            let at = usize::from(at) % bytes.len();
            if spoil {
                bytes[at] = byte;
            }
            bytes
        })
    }

    proptest! {
        #[test]
        fn the_short_way_agrees_with_the_long_one(bytes in prop_oneof![nearly_a_section(), vec(any::<u8>(), 0..64)]) {
            if let Some((names, used)) = scan::<Names>(&bytes, 4) {
                prop_assert_eq!(judge::<Names>(&bytes, 4), Section::Complete(names, used));
            }
        }
    }
}
