//! The lines of a file with their numbers, within bounded memory.

use std::io::{self, BufRead, Read};

use crate::limits::BATCH_LINE_BYTES_MAX;

/// The mark that some programs write before the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Reads lines one by one.
pub(super) struct Lines<R> {
    reader: R,
    number: u64,
    /// The line at hand, without its end: at most `bytes_max` and a byte.
    line: Vec<u8>,
    bytes_max: usize,
    bytes_read: u64,
}

/// One line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TextLine<'a> {
    /// Counted from 1.
    pub number: u64,
    /// Without its end; `None` if the line is too long.
    pub text: Option<&'a [u8]>,
}

impl<R: BufRead> Lines<R> {
    /// The lines of `reader`.
    pub(super) const fn new(reader: R) -> Self {
        Self { reader, number: 0, line: Vec::new(), bytes_max: BATCH_LINE_BYTES_MAX, bytes_read: 0 }
    }

    /// Takes lines of up to `bytes_max` bytes from here on, in place of `BATCH_LINE_BYTES_MAX`.
    pub(super) const fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// The bytes that were read in all.
    pub(super) const fn bytes_read(&self) -> u64 {
        self.bytes_read
    }

    /// The next line, or `None` at the end.
    ///
    /// # Errors
    /// The reader's.
    pub(super) fn next(&mut self) -> io::Result<Option<TextLine<'_>>> {
        self.line.clear();
        let room = self.bytes_max as u64 + 1;
        let mut read = self.reader.by_ref().take(room).read_until(b'\n', &mut self.line)?;
        if read == 0 {
            return Ok(None);
        }
        let is_whole = self.line.pop_if(|last| *last == b'\n').is_some();
        let is_overlong = !is_whole && self.line.len() > self.bytes_max;
        if is_overlong {
            read += self.reader.skip_until(b'\n')?;
        }
        self.bytes_read += read as u64;
        self.number += 1;
        let mut text = self.line.strip_suffix(b"\r").unwrap_or(&self.line);
        if self.number == 1 {
            text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text);
        }
        Ok(Some(TextLine { number: self.number, text: (!is_overlong).then_some(text) }))
    }
}
