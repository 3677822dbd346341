//! A Rust file as the house rules see it: code alone, without comments, text in quotes, or test
//! modules. The module scans and does not parse, which is enough for formatted code.

use crate::util::package::{files_below, read_text};
use std::path::Path;

/// One source file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Path inside the package, with `/`.
    pub(crate) path: String,
    /// The file as it is.
    pub(crate) text: String,
    /// The file with blanks in place of comments and of text in quotes. Bytes and lines keep their places.
    pub(crate) code: String,
    /// `code` with blanks in place of code that is compiled for tests only.
    pub(crate) product: String,
}

impl Source {
    /// Takes `text` apart.
    pub(crate) fn new(path: &str, text: &str) -> Source {
        let code = strip(text);
        let product = if path.ends_with("tests.rs") || !path.starts_with("src/") {
            blank(&code, 0, code.len())
        } else {
            without_tests(&code)
        };
        Source { path: path.to_owned(), text: text.to_owned(), code, product }
    }

    /// Every `.rs` file below `folders` of this package.
    pub(crate) fn all(folders: &[&str]) -> Vec<Source> {
        let files = folders.iter().flat_map(|folder| files_below(Path::new(folder), "rs"));
        files.map(|file| Source::new(&file.to_string_lossy(), &read_text(&file))).collect()
    }

    /// `path:line` of the byte at `offset`, the line counted from 1.
    pub(crate) fn at(&self, offset: usize) -> String {
        let line = 1 + self.text[..offset].matches('\n').count();
        format!("{}:{line}", self.path)
    }
}

/// Every place of `word` in `code` with no letter, digit or `_` beside it.
pub(crate) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    let in_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let starts_word = in_word(word.as_bytes().first());
    let ends_word = in_word(word.as_bytes().last());
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = starts_word && at > 0 && in_word(bytes.get(at - 1));
        let after = ends_word && in_word(bytes.get(at + word.len()));
        !before && !after
    })
}

/// The byte behind the bracket that closes the one at `open`, or the end of `code`.
pub(crate) fn behind_bracket(code: &str, open: usize) -> usize {
    let mut depth = 0;
    for (at, byte) in code.bytes().enumerate().skip(open) {
        match byte {
            b'{' | b'(' | b'[' => depth += 1,
            b'}' | b')' | b']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    code.len()
}

/// The first of `wanted` at or behind `from` outside of brackets that open behind `from`.
pub(crate) fn find_flat(code: &str, from: usize, wanted: &[u8]) -> Option<usize> {
    let mut at = from;
    while let Some(&byte) = code.as_bytes().get(at) {
        if wanted.contains(&byte) {
            return Some(at);
        }
        at = match byte {
            b'{' | b'(' | b'[' => behind_bracket(code, at),
            _ => at + 1,
        };
    }
    None
}

/// Every path in `code` behind one of the roots, groups in braces taken apart, each with the place of its last part.
pub(crate) fn paths<'c>(code: &'c str, roots: &[&'c str]) -> Vec<(usize, Vec<&'c str>)> {
    let mut paths = Vec::new();
    for root in roots {
        for at in words(code, root) {
            follow(code, at + root.len(), &[], &mut paths);
        }
    }
    paths
}

/// The path, or all paths of the group, that begins at `at`, each with the place of its last part.
pub(crate) fn follow<'c>(code: &'c str, at: usize, before: &[&'c str], paths: &mut Vec<(usize, Vec<&'c str>)>) {
    if code[at..].starts_with('{') {
        let end = behind_bracket(code, at) - 1;
        let mut item = at + 1;
        while item < end {
            item += code[item..].len() - code[item..].trim_start().len();
            if item < end {
                follow(code, item, before, paths);
            }
            item = find_flat(code, item, b",}").map_or(end, |comma| comma + 1);
        }
        return;
    }
    let name = name_at(code, at);
    let path = [before, &[name]].concat();
    match code[at + name.len()..].strip_prefix("::") {
        Some(_) if !name.is_empty() => follow(code, at + name.len() + 2, &path, paths),
        _ => paths.push((at, path)),
    }
}

pub(crate) fn name_at(code: &str, at: usize) -> &str {
    let end = code[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    &code[at..at + end.unwrap_or(code.len() - at)]
}

/// Blanks every item behind a `#[cfg(test)]`.
fn without_tests(code: &str) -> String {
    let mut product = code.to_owned();
    for (at, attribute) in code.match_indices("#[cfg(test)]") {
        let from = at + attribute.len();
        // Further attributes are in brackets, which the search steps over.
        let end = match find_flat(code, from, b"{;") {
            Some(open) if code.as_bytes()[open] == b'{' => behind_bracket(code, open),
            Some(semicolon) => semicolon,
            None => code.len(),
        };
        product = blank(&product, at, end);
    }
    product
}

/// Blanks everything from `start` to `end` except line ends.
fn blank(code: &str, start: usize, end: usize) -> String {
    let mut bytes = code.as_bytes().to_vec();
    for byte in &mut bytes[start..end] {
        if *byte != b'\n' {
            *byte = b' ';
        }
    }
    String::from_utf8(bytes).expect("whole characters became blanks")
}

/// Blanks comments and the inside of quotes; every other byte stays where it was.
fn strip(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = text.to_owned();
    let mut at = 0;
    while at < bytes.len() {
        let end = quoted_or_comment_end(text, at);
        match end {
            Some((inner, end, close)) => {
                code = blank(&code, inner, end - close);
                at = end;
            }
            None => at += 1,
        }
    }
    code
}

/// If a comment or text in quotes begins at `at`: the start of its inside, its end, and the number
/// of bytes at its end that stay.
fn quoted_or_comment_end(text: &str, at: usize) -> Option<(usize, usize, usize)> {
    let rest = &text.as_bytes()[at..];
    let end_of = |pattern: &str, from: usize| {
        let found = text[from..].find(pattern);
        found.map_or(text.len(), |found| from + found + pattern.len())
    };
    if rest.starts_with(b"//") {
        let line = text[at..].find('\n').map_or(text.len(), |found| at + found);
        return Some((at, line, 0));
    }
    if rest.starts_with(b"/*") {
        return Some((at, end_of("*/", at + 2), 0));
    }
    if rest.starts_with(b"r\"") || rest.starts_with(b"r#") {
        let hashes = rest[1..].iter().take_while(|&&byte| byte == b'#').count();
        if rest.get(1 + hashes) != Some(&b'"') {
            return None;
        }
        let close = format!("\"{}", "#".repeat(hashes));
        let inner = at + 2 + hashes;
        return Some((inner, end_of(&close, inner), close.len()));
    }
    match rest[0] {
        b'"' => Some((at + 1, end_of_quote(text, at, b'"'), 1)),
        // A lifetime has no second quote behind its first character.
        b'\'' if rest.get(1) == Some(&b'\\') => Some((at + 1, end_of_quote(text, at, b'\''), 1)),
        b'\'' => {
            let inside = text[at + 1..].chars().next()?;
            let close = at + 1 + inside.len_utf8();
            let closed = text.as_bytes().get(close) == Some(&b'\'');
            closed.then_some((at + 1, close + 1, 1))
        }
        _ => None,
    }
}

/// The byte behind the quote that closes the one at `open`, escapes considered.
fn end_of_quote(text: &str, open: usize, quote: u8) -> usize {
    let bytes = text.as_bytes();
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[test]
fn comments_and_quotes_are_no_code() {
    let text = "a(\"{ // \\\" \", '{', '\\'', b\"}\", r#\"\"}\"#) // }\n/* { */ fn f<'a>(x: &'a T) {}";
    let source = Source::new("src/x.rs", text);
    assert_eq!(source.code.len(), text.len());
    let expected = "a(\"        \", ' ', '  ', b\" \", r#\"  \"#)     \n        fn f<'a>(x: &'a T) {}";
    assert_eq!(source.code, expected);
}
