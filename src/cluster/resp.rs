//! Version 2 of the store's protocol (RESP2): a command is a list of texts, and its reply is a value. This module knows no
//! command, and no connection.

use std::io::{self, BufRead, ErrorKind, Read};

/// The longest line of a reply, in bytes: a number, or the text of a refusal.
const LINE_BYTES_MAX: usize = 64 * 1024;
/// The longest text, in bytes: the store itself allows none that is longer.
const TEXT_BYTES_MAX: usize = 512 << 20;
/// The deepest nesting of arrays.
const DEPTH_MAX: usize = 16;
/// The most items of an array to make room for before they come: their count may be wrong.
const ITEMS_AT_ONCE: usize = 1_024;

/// A reply, or a part of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Nil,
    /// A whole number.
    Int(i64),
    /// A text, which may be any bytes.
    Text(Vec<u8>),
    /// A refusal: its code, and more words.
    Error(String),
    /// A list of values.
    Array(Vec<Self>),
}

/// Why there is no reply.
#[derive(Debug)]
pub enum ReadError {
    /// The connection failed, or ended.
    Io(io::Error),
    /// The bytes are no reply.
    Form,
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Adds a command to those that the caller sends together.
pub fn pack(words: &[impl AsRef<str>], packed: &mut Vec<u8>) {
    pack_length(b'*', words.len(), packed);
    for word in words {
        let word = word.as_ref();
        pack_length(b'$', word.len(), packed);
        packed.extend_from_slice(word.as_bytes());
        packed.extend_from_slice(b"\r\n");
    }
}

fn pack_length(kind: u8, length: usize, packed: &mut Vec<u8>) {
    packed.push(kind);
    packed.extend_from_slice(itoa::Buffer::new().format(length).as_bytes());
    packed.extend_from_slice(b"\r\n");
}

/// Reads a reply.
///
/// # Errors
/// Either kind. The connection cannot be read any further then.
pub fn read(reader: &mut impl BufRead) -> Result<Value, ReadError> {
    read_within(reader, &mut Vec::new(), DEPTH_MAX)
}

fn read_within(reader: &mut impl BufRead, line: &mut Vec<u8>, depth: usize) -> Result<Value, ReadError> {
    read_line(reader, line)?;
    let (kind, rest) = line.split_first().ok_or(ReadError::Form)?;
    match kind {
        b'+' => Ok(Value::Text(rest.to_vec())),
        b'-' => Ok(Value::Error(String::from_utf8_lossy(rest).into_owned())),
        b':' => Ok(Value::Int(whole(rest)?)),
        b'$' => match count(rest)? {
            None => Ok(Value::Nil),
            Some(bytes) => read_text(reader, bytes).map(Value::Text),
        },
        b'*' => {
            let Some(count) = count(rest)? else { return Ok(Value::Nil) };
            let depth = depth.checked_sub(1).ok_or(ReadError::Form)?;
            let mut items = Vec::with_capacity(count.min(ITEMS_AT_ONCE));
            for _ in 0..count {
                items.push(read_within(reader, line, depth)?);
            }
            Ok(Value::Array(items))
        }
        _ => Err(ReadError::Form),
    }
}

/// Reads a text of this many bytes, and the end of its line. The buffer grows as bytes come.
fn read_text(reader: &mut impl BufRead, bytes: usize) -> Result<Vec<u8>, ReadError> {
    if bytes > TEXT_BYTES_MAX {
        return Err(ReadError::Form);
    }
    let mut text = Vec::with_capacity((bytes + 2).min(LINE_BYTES_MAX));
    reader.by_ref().take(bytes as u64 + 2).read_to_end(&mut text)?;
    if text.len() < bytes + 2 {
        return Err(ReadError::Io(ErrorKind::UnexpectedEof.into()));
    }
    if !text.ends_with(b"\r\n") {
        return Err(ReadError::Form);
    }
    text.truncate(bytes);
    Ok(text)
}

/// Reads a line without its end.
pub(super) fn read_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> Result<(), ReadError> {
    line.clear();
    reader.by_ref().take(LINE_BYTES_MAX as u64).read_until(b'\n', line)?;
    if !line.ends_with(b"\n") && line.len() < LINE_BYTES_MAX {
        return Err(ReadError::Io(ErrorKind::UnexpectedEof.into()));
    }
    let text = line.strip_suffix(b"\r\n").ok_or(ReadError::Form)?.len();
    line.truncate(text);
    Ok(())
}

/// Reads a length; `None` for -1, which stands for nothing.
fn count(text: &[u8]) -> Result<Option<usize>, ReadError> {
    match whole(text)? {
        -1 => Ok(None),
        count => usize::try_from(count).map(Some).map_err(|_| ReadError::Form),
    }
}

fn whole(text: &[u8]) -> Result<i64, ReadError> {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).ok_or(ReadError::Form)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, ErrorKind};

    use super::{ReadError, Value, pack, read};

    /// Reads `wire` in pieces of any size, all with one outcome.
    fn values(wire: &[u8]) -> Result<Vec<Value>, ReadError> {
        let mut outcomes = (1..=wire.len().max(1)).map(|piece| {
            let mut reader = BufReader::with_capacity(piece, wire);
            let mut values = Vec::new();
            while !reader.buffer().is_empty() || !std::io::BufRead::fill_buf(&mut reader)?.is_empty() {
                values.push(read(&mut reader)?);
            }
            Ok(values)
        });
        let first = outcomes.next().expect("one");
        for other in outcomes {
            assert_eq!(format!("{other:?}"), format!("{first:?}"), "{wire:?}");
        }
        first
    }

    fn text(text: &str) -> Value {
        Value::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn commands_are_packed_one_behind_the_other() {
        let mut packed = Vec::new();
        pack(&["GET", "\u{e9}"], &mut packed);
        pack(&[String::new()], &mut packed);
        assert_eq!(packed, "*2\r\n$3\r\nGET\r\n$2\r\n\u{e9}\r\n*1\r\n$0\r\n\r\n".as_bytes());
    }

    #[test]
    fn replies_of_each_kind() {
        let wire = b"+OK\r\n-ERR no\r\n:-7\r\n$-1\r\n*-1\r\n$4\r\n\r\n\xff\0\r\n*3\r\n*0\r\n$0\r\n\r\n*1\r\n:1\r\n";
        let nested = vec![Value::Array(vec![]), text(""), Value::Array(vec![Value::Int(1)])];
        let expected = [
            text("OK"),
            Value::Error("ERR no".to_owned()),
            Value::Int(-7),
            Value::Nil,
            Value::Nil,
            Value::Text(b"\r\n\xff\0".to_vec()),
            Value::Array(nested),
        ];
        assert_eq!(values(wire).expect("replies"), expected);
    }

    #[test]
    fn anything_else_is_none() {
        let deep = b"*1\r\n".repeat(17);
        for wire in [
            &b"\r\n"[..],
            b"OK\r\n",
            b"+OK\n",
            b":\r\n",
            b":x\r\n",
            b"$-2\r\n",
            b"$x\r\n",
            b"$1\r\nxyz",
            b"$536870913\r\n",
            b"*-2\r\n",
            b"*1\r\n?\r\n",
            &deep,
            &[b'+'; 70_000],
        ] {
            assert!(matches!(read(&mut BufReader::new(wire)), Err(ReadError::Form)), "{wire:?}");
        }
    }

    #[test]
    fn an_end_within_a_reply_is_one_of_the_connection() {
        for wire in ["", "+OK", "$3\r\nab", "$3\r\nabc\r", "*2\r\n:1\r\n", "*1000000000\r\n:1\r\n", "$536870912\r\nx"] {
            let ended = read(&mut BufReader::new(wire.as_bytes()));
            let is_end = matches!(&ended, Err(ReadError::Io(error)) if error.kind() == ErrorKind::UnexpectedEof);
            assert!(is_end, "{wire:?}: {ended:?}");
        }
    }
}
