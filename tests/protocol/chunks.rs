//! The syntax of a chunked body: sizes, extensions, data, trailers (RFC 9112 7.1).
//! Rows only; must not know how they are sent.

use super::case::{BAD, Case, OK, Outcome, Row, around, from_chunks, table};

/// A section over its bound: the RFC asks for an error and leaves open for which.
const OVER_A_BOUND: Outcome = Outcome::Closed(&[400, 413, 431]);

#[rustfmt::skip]
const CHUNKS: &[Row] = &[
    ("empty body", b"0\r\n\r\n", OK),
    ("one chunk", b"5\r\nhello\r\n0\r\n\r\n", OK),
    ("two chunks", b"2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n", OK),
    ("chunks of one byte", b"1\r\nh\r\n1\r\ne\r\n1\r\nl\r\n1\r\nl\r\n1\r\no\r\n0\r\n\r\n", OK),
    ("lower-case size", b"a\r\n0123456789\r\n0\r\n\r\n", OK),
    ("upper-case size", b"A\r\n0123456789\r\n0\r\n\r\n", OK),
    ("two digits", b"10\r\n0123456789abcdef\r\n0\r\n\r\n", OK),
    ("zeros before the size", b"0005\r\nhello\r\n0\r\n\r\n", OK),
    ("size of 16 digits", b"0000000000000005\r\nhello\r\n0\r\n\r\n", OK),
    ("last chunk of zeros", b"5\r\nhello\r\n000\r\n\r\n", OK),
    ("line ends as data", b"4\r\n\r\n\r\n\r\n0\r\n\r\n", OK),
    ("a last chunk as data", b"5\r\n0\r\n\r\n\r\n0\r\n\r\n", OK),
    ("a request as data", b"1f\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\n\r\n0\r\n\r\n", OK),
    ("NUL as data", b"2\r\n\0\xff\r\n0\r\n\r\n", OK),

    ("empty size", b"\r\nhello\r\n0\r\n\r\n", BAD),
    ("empty line first", b"\r\n5\r\nhello\r\n0\r\n\r\n", BAD),
    ("minus zero", b"-0\r\n\r\n", BAD),
    ("blank inside the size", b"0 5\r\nhello\r\n0\r\n\r\n", BAD),
    ("17 digits", b"10000000000000005\r\nhello\r\n0\r\n\r\n", BAD),
    ("17 digits f", b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n", BAD),
    ("16 digits f", b"ffffffffffffffff\r\nhello\r\n0\r\n\r\n", OVER_A_BOUND),
    ("15 digits f", b"fffffffffffffff\r\nhello\r\n0\r\n\r\n", OVER_A_BOUND),
    ("a size over every bound", b"7fffffff\r\nhello\r\n0\r\n\r\n", OVER_A_BOUND),

    ("bare LF behind the size", b"5\nhello\r\n0\r\n\r\n", BAD),
    ("bare CR behind the size", b"5\rhello\r\n0\r\n\r\n", BAD),
    ("CR CR LF behind the size", b"5\r\r\nhello\r\n0\r\n\r\n", BAD),
    ("LF CR behind the size", b"5\n\rhello\r\n0\r\n\r\n", BAD),
    ("bare LF behind the data", b"5\r\nhello\n0\r\n\r\n", BAD),
    ("bare CR behind the data", b"5\r\nhello\r0\r\n\r\n", BAD),
    ("CR and a letter behind the data", b"5\r\nhello\rX0\r\n\r\n", BAD),
    ("two letters behind the data", b"5\r\nhelloXX0\r\n\r\n", BAD),
    ("nothing behind the data", b"5\r\nhello0\r\n\r\n", BAD),
    ("data a byte too long", b"5\r\nhello!\r\n0\r\n\r\n", BAD),
    ("data a byte too short", b"6\r\nhello\r\n0\r\n\r\n", BAD),
    ("blank behind the data", b"5\r\nhello \r\n0\r\n\r\n", BAD),
    ("bare LF behind the last chunk", b"0\n\r\n", BAD),
    ("bare LF at the end", b"0\r\n\n", BAD),
    ("bare LF twice at the end", b"0\n\n", BAD),
    ("bare CR at the end", b"0\r\n\rX", BAD),
    ("a request line as size", b"GET / HTTP/1.1\r\n\r\n", BAD),

    ("extension", b"5;a=b\r\nhello\r\n0\r\n\r\n", OK),
    ("extension without a value", b"5;a\r\nhello\r\n0\r\n\r\n", OK),
    ("several extensions", b"5;a;b=c;d=\"e\"\r\nhello\r\n0\r\n\r\n", OK),
    ("quoted extension", b"5;a=\"b;c\"\r\nhello\r\n0\r\n\r\n", OK),
    ("quoted quote", b"5;a=\"b\\\"c\"\r\nhello\r\n0\r\n\r\n", OK),
    ("empty quoted extension", b"5;a=\"\"\r\nhello\r\n0\r\n\r\n", OK),
    ("extension on the last chunk", b"5\r\nhello\r\n0;a=b\r\n\r\n", OK),
    ("extension of 100 bytes", b"5;abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv\r\nhello\r\n0\r\n\r\n", OK),
    ("blanks around an extension", b"5 ; a = b\r\nhello\r\n0\r\n\r\n", OK),
    ("semicolon and nothing", b"5;\r\nhello\r\n0\r\n\r\n", BAD),
    ("two semicolons", b"5;;a\r\nhello\r\n0\r\n\r\n", BAD),
    ("extension without a name", b"5;=b\r\nhello\r\n0\r\n\r\n", BAD),
    ("extension with an open quote", b"5;a=\"b\r\nhello\r\n0\r\n\r\n", BAD),
    ("bare LF in an extension", b"5;a\nhello\r\n0\r\n\r\n", BAD),
    ("bare CR in an extension", b"5;a\rb\r\nhello\r\n0\r\n\r\n", BAD),
    ("NUL in an extension", b"5;a\0\r\nhello\r\n0\r\n\r\n", BAD),
    ("control character in an extension", b"5;a\x01\r\nhello\r\n0\r\n\r\n", BAD),
    ("DEL in an extension", b"5;a\x7f\r\nhello\r\n0\r\n\r\n", BAD),
    ("line end in a quoted extension", b"5;a=\"\r\nhello\r\n0\r\n\r\n", BAD),
    ("bare LF in a quoted extension", b"5;a=\"\n\"\r\nhello\r\n0\r\n\r\n", BAD),
    ("size and extension without a semicolon", b"5 a=b\r\nhello\r\n0\r\n\r\n", BAD),
    ("extension without a size", b";a=b\r\nhello\r\n0\r\n\r\n", BAD),

    ("trailer", b"5\r\nhello\r\n0\r\nX: y\r\n\r\n", OK),
    ("two trailers", b"5\r\nhello\r\n0\r\nX: y\r\nZ: w\r\n\r\n", OK),
    ("trailer without a body", b"0\r\nX: y\r\n\r\n", OK),
    ("empty trailer value", b"0\r\nX:\r\n\r\n", OK),
    ("Latin-1 in a trailer", b"0\r\nX: caf\xe9\r\n\r\n", OK),
    ("trailer without a colon", b"0\r\nX\r\n\r\n", BAD),
    ("folded trailer", b"0\r\nX: y\r\n z\r\n\r\n", BAD),
    ("bare LF behind a trailer", b"0\r\nX: y\n\r\n", BAD),
    ("bare LF behind the trailers", b"0\r\nX: y\r\n\n", BAD),
    ("data behind the last chunk", b"0\r\nhello\r\n\r\n", BAD),
];

/// Fields that must not come in a trailer: refused, or dropped without any effect.
#[rustfmt::skip]
const FORBIDDEN_TRAILERS: &[(&str, &[u8])] = &[
    ("Content-Length", b"0\r\nContent-Length: 5\r\n\r\n"),
    ("Transfer-Encoding", b"0\r\nTransfer-Encoding: chunked\r\n\r\n"),
    ("Host", b"0\r\nHost: other\r\n\r\n"),
    ("Connection", b"0\r\nConnection: close\r\n\r\n"),
    ("Authorization", b"0\r\nAuthorization: Bearer x\r\n\r\n"),
    ("Expect", b"0\r\nExpect: 100-continue\r\n\r\n"),
];

pub(super) fn cases() -> Vec<Case> {
    let mut cases = table(CHUNKS, from_chunks);
    cases.extend(around("5", b"+-.,_xhg\" \t\0\x0b\xef\xff").into_iter().map(|(name, size)| {
        let body = [&size[..], b"\r\nhello\r\n0\r\n\r\n"].concat();
        Case::new(format!("size with {name}"), from_chunks(&body), BAD)
    }));
    for &(name, bytes) in FORBIDDEN_TRAILERS {
        let name = format!("trailer {name} has no effect");
        cases.push(Case::new(name, from_chunks(bytes), OK));
    }
    cases.extend(bounds());
    cases.extend(sums().into_iter().map(Case::public_only));
    for case in &mut cases {
        case.name.insert_str(0, "chunked: ");
    }
    cases
}

/// Sections without a length of their own must not go on for ever.
fn bounds() -> Vec<Case> {
    let extension = [b"5;".to_vec(), vec![b'x'; 70_000], b"\r\nhello\r\n0\r\n\r\n".to_vec()];
    let many = [b"5".to_vec(), b";x=y".repeat(20_000), b"\r\nhello\r\n0\r\n\r\n".to_vec()];
    let zeros = [vec![b'0'; 70_000], b"5\r\nhello\r\n0\r\n\r\n".to_vec()];
    let trailer = [b"0\r\nX: ".to_vec(), vec![b'x'; 70_000], b"\r\n\r\n".to_vec()];
    let trailers = [b"0\r\n".to_vec(), b"X: y\r\n".repeat(20_000), b"\r\n".to_vec()];
    let in_each = [b"1;xxxxxxxxxxxxxxxx\r\nh\r\n".repeat(10_000), b"0\r\n\r\n".to_vec()];
    vec![
        Case::new("extension of 70,000 bytes", from_chunks(&extension.concat()), OVER_A_BOUND),
        Case::new("20,000 extensions", from_chunks(&many.concat()), OVER_A_BOUND),
        Case::new("size of 70,001 digits", from_chunks(&zeros.concat()), OVER_A_BOUND),
        Case::new("trailer of 70,000 bytes", from_chunks(&trailer.concat()), OVER_A_BOUND),
        Case::new("20,000 trailers", from_chunks(&trailers.concat()), OVER_A_BOUND),
        Case::new("10,000 chunks with an extension", from_chunks(&in_each.concat()), OVER_A_BOUND),
    ]
}

/// The bound of the body counts the data of all chunks.
fn sums() -> Vec<Case> {
    const TOO_LARGE: Outcome = Outcome::Closed(&[413]);
    let chunk = |size: usize| [format!("{size:x}\r\n").into_bytes(), vec![b'c'; size], b"\r\n".to_vec()].concat();
    let body = |sizes: &[usize]| {
        let chunks: Vec<u8> = sizes.iter().flat_map(|&size| chunk(size)).collect();
        from_chunks(&[chunks, b"0\r\n\r\n".to_vec()].concat())
    };
    vec![
        Case::new("65,536 bytes in one", body(&[65_536]), OK),
        Case::new("65,536 bytes in sixteen", body(&[4_096; 16]), OK),
        Case::new("65,537 bytes in one", body(&[65_537]), TOO_LARGE),
        Case::new("65,537 bytes in two", body(&[65_536, 1]), TOO_LARGE),
        Case::new("1 byte, then 65,536", body(&[1, 65_536]), TOO_LARGE),
    ]
}
