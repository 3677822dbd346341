//! The syntax of a chunked body: sizes, extensions, data, trailers (RFC 9112 7.1).
//! Rows only; must not know how they are sent.

use super::case::{BAD, Case, End, Fate, OK, Row, around, from_chunks, table};
use crate::util::answers::{CONTENT_TOO_LARGE, HEADERS_TOO_LARGE};

const TOO_LARGE: Fate = (&CONTENT_TOO_LARGE, End::Close);
const TRAILERS_TOO_LARGE: Fate = (&HEADERS_TOO_LARGE, End::Close);

#[rustfmt::skip]
const CHUNKS: &[Row] = &[
    ("empty body", b"0\r\n\r\n", OK),
    ("two chunks", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", OK),
    ("lower-case size", b"a\r\n0123456789\r\n0\r\n\r\n", OK),
    ("a request as data", b"1f\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n\r\n", OK),

    ("size of 16 digits", b"0000000000000005\r\nhello\r\n0\r\n\r\n", OK),
    ("17 digits", b"00000000000000005\r\nhello\r\n0\r\n\r\n", BAD),
    ("empty size", b"\r\nhello\r\n0\r\n\r\n", BAD),
    ("16 digits f", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", TOO_LARGE),

    ("bare LF behind the size", b"5\nhello\r\n0\r\n\r\n", BAD),
    ("bare LF behind the data", b"5\r\nhello\n0\r\n\r\n", BAD),
    ("CR and a letter behind the data", b"5\r\nhello\rX0\r\n\r\n", BAD),
    ("bare LF behind the last chunk", b"0\n\r\n", BAD),
    ("bare LF at the end", b"0\r\n\n", BAD),
    ("data a byte too long", b"5\r\nhello!\r\n0\r\n\r\n", BAD),
    ("bare CR at the end", b"0\r\n\rX", BAD),

    ("several extensions", b"5;a;b=c;d=\"e\"\r\nhello\r\n0\r\n\r\n", OK),
    ("blanks around an extension", b"5 ; a = b\r\nhello\r\n0\r\n\r\n", OK),
    ("quoted extension", b"5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", OK),
    ("quoted quote", b"5;a=\"b\\\"c\"\r\nhello\r\n0\r\n\r\n", OK),
    ("empty quoted extension", b"5;a=\"\"\r\nhello\r\n0\r\n\r\n", OK),
    ("extension of 100 bytes", b"5;abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv\r\nhello\r\n0\r\n\r\n", OK),
    ("semicolon and nothing", b"5;\r\nhello\r\n0\r\n\r\n", BAD),
    ("extension with an open quote", b"5;a=\"b\r\nhello\r\n0\r\n\r\n", BAD),
    ("bare CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n", BAD),
    ("two semicolons", b"5;;a\r\nhello\r\n0\r\n\r\n", BAD),
    ("extension without a name", b"5;=b\r\nhello\r\n0\r\n\r\n", BAD),
    ("NUL in an extension", b"5;a\0\r\nhello\r\n0\r\n\r\n", BAD),
    ("DEL in an extension", b"5;a\x7f\r\nhello\r\n0\r\n\r\n", BAD),
    ("size and extension without a semicolon", b"5 a=b\r\nhello\r\n0\r\n\r\n", BAD),

    ("two trailers", b"5\r\nhello\r\n0\r\nX: y\r\nZ: w\r\n\r\n", OK),
    ("bare LF behind a trailer", b"0\r\nX: y\n\r\n", BAD),
    ("folded trailer", b"0\r\nX: y\r\n z\r\n\r\n", BAD),
    ("trailer Content-Length has no effect", b"0\r\nContent-Length: 5\r\n\r\n", OK),
    ("trailer Transfer-Encoding has no effect", b"0\r\nTransfer-Encoding: chunked\r\n\r\n", OK),
    ("trailer Host has no effect", b"0\r\nHost: other\r\n\r\n", OK),
    ("trailer Connection has no effect", b"0\r\nConnection: close\r\n\r\n", OK),
    ("trailer Authorization has no effect", b"0\r\nAuthorization: Bearer x\r\n\r\n", OK),
    ("trailer Expect has no effect", b"0\r\nExpect: 100-continue\r\n\r\n", OK),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(CHUNKS, from_chunks);
    cases.extend(around("5", b"+-.,_xhg\" \t\0\x0b\xef\xff").into_iter().map(|(name, size)| {
        let body = [&size[..], b"\r\nhello\r\n0\r\n\r\n"].concat();
        Case::new(format!("size with {name}"), from_chunks(&body), BAD)
    }));
    cases.extend(bounds());
    cases.extend(sums());
    for case in &mut cases {
        case.name.insert_str(0, "chunked: ");
    }
    cases
}

/// Sections without a length of their own must not go on for ever.
fn bounds() -> Vec<Case> {
    let extension = [b"5;".to_vec(), vec![b'x'; 70_000], b"\r\nhello\r\n0\r\n\r\n".to_vec()];
    let zeros = [vec![b'0'; 70_000], b"5\r\nhello\r\n0\r\n\r\n".to_vec()];
    let trailer = [b"0\r\nX: ".to_vec(), vec![b'x'; 70_000], b"\r\n\r\n".to_vec()];
    let trailers = [b"0\r\n".to_vec(), b"X: y\r\n".repeat(20_000), b"\r\n".to_vec()];
    let in_each = [b"1;xxxxxxxxxxxxxxxx\r\nh\r\n".repeat(10_000), b"0\r\n\r\n".to_vec()];
    vec![
        Case::new("extension of 70,000 bytes", from_chunks(&extension.concat()), BAD),
        Case::new("size of 70,001 digits", from_chunks(&zeros.concat()), BAD),
        Case::new("trailer of 70,000 bytes", from_chunks(&trailer.concat()), TRAILERS_TOO_LARGE),
        Case::new("20,000 trailers", from_chunks(&trailers.concat()), TRAILERS_TOO_LARGE),
        Case::new("10,000 chunks with an extension", from_chunks(&in_each.concat()), BAD),
    ]
}

/// The bound of the body counts the data of all chunks.
fn sums() -> Vec<Case> {
    let chunk = |size: usize| [format!("{size:x}\r\n").into_bytes(), vec![b'c'; size], b"\r\n".to_vec()].concat();
    let body = |sizes: &[usize]| {
        let chunks: Vec<u8> = sizes.iter().flat_map(|&size| chunk(size)).collect();
        from_chunks(&[chunks, b"0\r\n\r\n".to_vec()].concat())
    };
    vec![
        Case::new("65,536 bytes in sixteen", body(&[4_096; 16]), OK),
        Case::new("65,537 bytes in two", body(&[65_536, 1]), TOO_LARGE),
    ]
}
