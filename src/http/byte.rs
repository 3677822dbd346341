//! Classes of bytes, by one look-up in a table.

use crate::vote::id::is_token_character;

/// RFC 9110 "tchar": the characters of names and methods.
pub const TOKEN: u8 = 1;
/// The characters of a request target: printable ASCII without `#`, as a fragment is never sent
/// (RFC 9112, 3.2).
pub const TARGET: u8 = 1 << 1;
/// The characters of a path that need no second look: those of a target that RFC 3986 allows in a
/// path, but neither `?` nor `%`.
pub const PLAIN_PATH: u8 = 1 << 2;
/// RFC 3986 "unreserved" and "sub-delims", except the comma: with it, one parser could see a list of
/// hosts and another a single host.
pub const HOST: u8 = 1 << 3;
/// The characters of a server's token.
pub const SERVER_TOKEN: u8 = 1 << 4;

static CLASSES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte: u8 = 0x21;
    while byte <= 0x7e {
        let alphanumeric = byte.is_ascii_alphanumeric();
        let unreserved = is_unreserved(byte);
        let sub_delim = matches!(byte, b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=');
        let mut classes = 0;
        if alphanumeric || is_token_mark(byte) {
            classes |= TOKEN;
        }
        if byte != b'#' {
            classes |= TARGET;
        }
        if unreserved || sub_delim || matches!(byte, b'/' | b':' | b'@' | b'[' | b']') {
            classes |= PLAIN_PATH;
        }
        if (unreserved || sub_delim) && byte != b',' {
            classes |= HOST;
        }
        if is_token_character(byte) {
            classes |= SERVER_TOKEN;
        }
        table[byte as usize] = classes;
        byte += 1;
    }
    table
};

/// RFC 3986 "unreserved": the characters that mean the same encoded or not.
#[must_use]
pub const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

const fn is_token_mark(byte: u8) -> bool {
    matches!(
        byte,
        b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
    )
}

/// Whether a byte is in a class.
#[must_use]
#[inline]
pub fn is(byte: u8, class: u8) -> bool {
    CLASSES[usize::from(byte)] & class != 0
}

/// Number of bytes of a class from the start. A round takes four bytes: a loop over single bytes
/// would need twice the instructions.
#[must_use]
#[inline]
pub fn run(bytes: &[u8], class: u8) -> usize {
    let mut length = 0;
    let (rounds, rest) = bytes.as_chunks::<4>();
    for round in rounds {
        for (place, byte) in round.iter().enumerate() {
            if !is(*byte, class) {
                return length + place;
            }
        }
        length += 4;
    }
    length + rest.iter().take_while(|byte| is(**byte, class)).count()
}

/// Number of bytes before the first control character; a tab counts as one here. Eight at a time.
#[must_use]
#[inline]
pub fn visible_run(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const HIGHS: u64 = ONES << 7;
    let mut length = 0;
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().unwrap_or_default());
        // Each subtraction sets the high bit of the bytes that it looks for: below 0x20, and 0x7F.
        // A borrow can spoil only bytes above the first hit, and only the first hit counts.
        let below_space = word.wrapping_sub(ONES * 0x20) & !word;
        let from_delete = word ^ (ONES * 0x7F);
        let delete = from_delete.wrapping_sub(ONES) & !from_delete;
        let hits = (below_space | delete) & HIGHS;
        if hits != 0 {
            return length + hits.trailing_zeros() as usize / 8;
        }
        length += 8;
    }
    let tail = &bytes[length..];
    length + tail.iter().position(|byte| matches!(byte, ..0x20 | 0x7F)).unwrap_or(tail.len())
}

#[cfg(test)]
mod tests {
    use super::{HOST, PLAIN_PATH, SERVER_TOKEN, TARGET, TOKEN, is, run, visible_run};
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn classes_are_as_in_the_standards() {
        let of = |class| (0..=255_u8).filter(|byte| is(*byte, class)).map(char::from).collect::<String>();
        assert_eq!(of(TOKEN), "!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~");
        assert_eq!(of(TARGET).len(), 93);
        assert!(!of(TARGET).contains(['#', ' ', '\x7f', '\x1f', '\u{80}']));
        assert_eq!(
            of(PLAIN_PATH),
            "!$&'()*+,-./0123456789:;=@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]_abcdefghijklmnopqrstuvwxyz~"
        );
        assert_eq!(of(HOST), "!$&'()*+-.0123456789;=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");
        assert_eq!(of(SERVER_TOKEN), "+-.0123456789=ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz~");
        assert_eq!(run(b"ab:c", TOKEN), 2);
        assert_eq!(run(b"ab", TOKEN), 2);
    }

    proptest! {
        #[test]
        fn visible_runs_end_at_the_first_control(
            text in "[ -~éÿ]{0,40}[\\x00-\\x1f\\x7f]?[ -~\\x00-\\x1f]{0,20}", any: Vec<u8>,
        ) {
            for bytes in [text.as_bytes(), &any] {
                let expected = bytes.iter().position(|byte| *byte < 0x20 || *byte == 0x7F).unwrap_or(bytes.len());
                prop_assert_eq!(visible_run(bytes), expected);
            }
        }
    }
}
