//! Field sections: the header lines of a head and the trailer of a chunked body.
//!
//! A scanner of our own reads ordinary sections in one pass. It knows only valid lines and gives
//! up on all else, which `httparse` judges, with one rule on top. `httparse` takes a bare LF for a
//! line end, and two parsers that differ on that can be made to see different requests: so every
//! line end is checked again here.

use httparse::{EMPTY_HEADER, Error, Header, Status};

use super::byte;
use super::fault::Fault;
use crate::vote::ipv4::trim_blanks;

/// Lines that fit the array on the stack; a longer section is read into the heap.
const LINES_ON_STACK: usize = 32;

/// The result of reading a field section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section<T> {
    /// Whole and valid: the result, and the bytes that the section took with its empty line.
    Complete(T, usize),
    /// Valid so far, and not whole yet.
    Partial,
    /// Refused with this fault.
    Rejected(Fault),
}

/// Looks at each field of a section in turn.
pub trait Visitor<'b> {
    /// Takes one field, or refuses the whole section.
    ///
    /// # Errors
    /// The fault that answers the request.
    fn field(&mut self, name: &'b [u8], value: &'b [u8]) -> Result<(), Fault>;
}

/// Reads a field section at the start of `bytes`; `lines_max` bounds its lines. The visitor's
/// result counts only if the section is whole.
#[inline]
pub fn parse<'b, V: Visitor<'b> + Default>(bytes: &'b [u8], lines_max: usize, visitor: &mut V) -> Section<()> {
    match scan(bytes, lines_max, visitor) {
        Some(used) => Section::Complete((), used),
        None => {
            *visitor = V::default();
            judge(bytes, lines_max, visitor)
        }
    }
}

/// The short way: whole and right, or `None`.
#[inline]
fn scan<'b, V: Visitor<'b>>(bytes: &'b [u8], lines_max: usize, visitor: &mut V) -> Option<usize> {
    let mut rest = bytes;
    for _ in 0..=lines_max {
        rest = match rest.first() {
            // Fields of nearly every request, as nearly every client spells them, take one comparison.
            Some(b'H') if let Some(after) = rest.strip_prefix(b"Host: ") => scan_value(b"Host", after, visitor)?,
            Some(b'U') if let Some(after) = rest.strip_prefix(b"User-Agent: ") => {
                scan_value(b"User-Agent", after, visitor)?
            }
            Some(b'A') if let Some(after) = rest.strip_prefix(b"Accept: ") => scan_value(b"Accept", after, visitor)?,
            _ => {
                let (name, after) = rest.split_at(byte::run(rest, byte::TOKEN));
                match after {
                    [b':', b' ', after @ ..] | [b':', after @ ..] if !name.is_empty() => {
                        scan_value(name, after, visitor)?
                    }
                    [b'\r', b'\n', after @ ..] if name.is_empty() => return Some(bytes.len() - after.len()),
                    _ => return None,
                }
            }
        };
    }
    None
}

/// Reads a value to the end of its line, and gives the bytes behind it.
#[inline(always)]
fn scan_value<'b, V: Visitor<'b>>(name: &'b [u8], bytes: &'b [u8], visitor: &mut V) -> Option<&'b [u8]> {
    let (value, after) = bytes.split_at(byte::visible_run(bytes));
    let after = after.strip_prefix(b"\r\n")?;
    if let [b' ', ..] | [.., b' '] = value {
        return None; // more blanks than usual: to be trimmed
    }
    visitor.field(name, value).ok()?;
    Some(after)
}

/// The long way, for any section.
#[cold]
fn judge<'b, V: Visitor<'b>>(bytes: &'b [u8], lines_max: usize, visitor: &mut V) -> Section<()> {
    let mut few = [EMPTY_HEADER; LINES_ON_STACK];
    let few_max = lines_max.min(LINES_ON_STACK);
    match httparse::parse_headers(bytes, &mut few[..few_max]) {
        Err(Error::TooManyHeaders) if lines_max > LINES_ON_STACK => {
            let mut many = vec![EMPTY_HEADER; lines_max];
            visit(bytes, httparse::parse_headers(bytes, &mut many), visitor)
        }
        parsed => visit(bytes, parsed, visitor),
    }
}

type Parsed<'h, 'b> = Result<Status<(usize, &'h [Header<'b>])>, Error>;

fn visit<'b, V: Visitor<'b>>(bytes: &'b [u8], parsed: Parsed<'_, 'b>, visitor: &mut V) -> Section<()> {
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
        if let Err(fault) = visitor.field(field.name.as_bytes(), field.value) {
            return Section::Rejected(fault);
        }
    }
    strict &= fields.is_empty() || bytes[used - 4] == b'\r';
    if strict { Section::Complete((), used) } else { Section::Rejected(Fault::BadRequest) }
}

/// The elements of a comma-separated list, without the blanks around them. Empty ones included.
pub fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(trim_blanks)
}

#[cfg(test)]
mod tests {
    use super::{Section, Visitor, judge, scan};
    use crate::http::fault::Fault;
    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert_eq, prop_oneof, proptest};

    #[derive(Default, Debug, PartialEq)]
    struct Names(Vec<String>);

    impl<'b> Visitor<'b> for Names {
        fn field(&mut self, name: &'b [u8], value: &'b [u8]) -> Result<(), Fault> {
            self.0.push(format!("{}={}", String::from_utf8_lossy(name), String::from_utf8_lossy(value)));
            Ok(())
        }
    }

    fn nearly_a_section() -> impl Strategy<Value = Vec<u8>> {
        let piece = prop_oneof![
            6 => "[A-Za-z-]{1,12}: {0,2}[ -~]{0,20} {0,2}\r\n",
            4 => "(Host|host|User-Agent|Accept|Accept-Encoding)(:|: |: {2}| :)[ -~]{0,20} ?\r\n",
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
            let (mut short, mut long) = (Names::default(), Names::default());
            if let Some(used) = scan(&bytes, 4, &mut short) {
                prop_assert_eq!(judge(&bytes, 4, &mut long), Section::Complete((), used));
                prop_assert_eq!(short, long);
            }
        }
    }
}
