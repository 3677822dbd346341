//! A streamed answer: NDJSON whose length is not known when it begins.

use std::io::Write;

use super::reply::NOSNIFF;
use crate::http::response::{Framing, append_head};
use crate::vote::time::UnixSeconds;

/// Appends the head. The body follows in chunks. HTTP/1.0 has none: there the body ends with the connection.
pub(super) fn append_stream_head(framing: Framing, now: UnixSeconds, out: &mut Vec<u8>) {
    let fields = [("Content-Type", "application/x-ndjson"), ("Cache-Control", "no-store"), NOSNIFF];
    append_head(out, 200, &now.imf_fixdate(), &fields);
    if framing.http_1_0 {
        out.extend_from_slice(b"Connection: close\r\n");
    } else {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
        out.extend_from_slice(framing.connection.line());
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends lines. Without lines there is no chunk: an empty one would be the end.
pub(super) fn append_lines(framing: Framing, lines: &[u8], out: &mut Vec<u8>) {
    if lines.is_empty() || framing.http_1_0 {
        return out.extend_from_slice(lines);
    }
    // A Vec takes whatever is written to it.
    let _written = write!(out, "{:x}\r\n", lines.len());
    out.extend_from_slice(lines);
    out.extend_from_slice(b"\r\n");
}

/// Appends the end.
pub(super) fn append_stream_end(framing: Framing, out: &mut Vec<u8>) {
    if !framing.http_1_0 {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}
