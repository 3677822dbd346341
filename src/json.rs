//! Reads JSON objects without a copy where none is needed, and quotes texts that a client sent. Knows their form, not
//! what the fields mean.

use std::borrow::Cow;
use std::ops::Deref;

use serde::Deserialize;
use serde::de::Error;

/// Reads an object, and nothing else: a derived `Deserialize` would take an array of the fields in their order too.
///
/// # Errors
/// What is wrong with the text, and where.
pub fn object<'a, T: Deserialize<'a>>(text: &'a [u8]) -> serde_json::Result<T> {
    if text.trim_ascii_start().starts_with(b"[") {
        return Err(Error::custom("invalid type: sequence, expected an object"));
    }
    serde_json::from_slice(text)
}

/// A string, copied only where it is written with escapes.
#[derive(Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// Quotes a client's text for an answer, a log or a terminal: its first `bytes_max` bytes, without characters that are
/// invisible or that a terminal would obey.
#[must_use]
pub fn echo(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "…";
    let shown = |character: char| if is_plain(character) { character } else { char::REPLACEMENT_CHARACTER };
    let mut echo = String::with_capacity(text.len().min(bytes_max));
    // The length of the echo that still leaves room for the sign of a cut.
    let mut room = 0;
    for character in text.chars().map(shown) {
        if echo.len() + CUT.len() <= bytes_max {
            room = echo.len();
        }
        if echo.len() + character.len_utf8() > bytes_max {
            echo.truncate(room);
            echo.push_str(CUT);
            break;
        }
        echo.push(character);
    }
    echo
}

/// `text` made safe for one line of a terminal or a log. A character that is invisible, or that a terminal would obey,
/// becomes a JSON escape, so JSON on one line stays the same JSON. A tab stays.
#[must_use]
pub fn escaped(text: &str) -> Cow<'_, str> {
    let stays = |character: char| character == '\t' || is_plain(character);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if stays(character) {
            shown.push(character);
        } else {
            // None of these characters is beyond four digits.
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        }
    }
    shown.into()
}

/// Whether a character is shown as it is: neither a control character nor one that changes how others are laid out.
fn is_plain(character: char) -> bool {
    let is_layout =
        matches!(character, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    !character.is_control() && !is_layout && character != '\u{feff}'
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::{Text, echo, escaped, object};

    #[test]
    fn an_echo_is_short_and_plain() {
        for (text, expected) in [
            ("0123456789", "0123456789"),
            ("0123456789a", "0123456…"),
            ("éééééé", "ééé…"),
            ("123456789é", "1234567…"),
            ("a\n\0b", "a\u{fffd}\u{fffd}b"),
            ("\u{1b}[31mred!", "\u{fffd}[31m…"),
            ("\u{9b}2J\u{202e}", "\u{fffd}2J\u{fffd}"),
            ("\u{10ffff}\u{10ffff}\u{10ffff}", "\u{10ffff}…"),
        ] {
            let told = echo(text, 10);
            assert!(told.len() <= 10, "{text:?}: {told:?}");
            assert_eq!(told, expected, "{text:?}");
        }
    }

    #[test]
    fn what_a_terminal_would_obey_is_escaped_as_in_json() {
        for (text, expected) in [
            ("à\t\"b\\", "à\t\"b\\"),
            ("\u{1b}]0;a\u{7}\u{9b}2J\u{7f}", r"\u001b]0;a\u0007\u009b2J\u007f"),
            ("a\r\nb\u{2028}\u{202e}\u{61c}\u{feff}", r"a\u000d\u000ab\u2028\u202e\u061c\ufeff"),
        ] {
            assert_eq!(escaped(text), expected);
        }
        let body = "{\"message\":\"\u{9b}31m\u{202e}\"}";
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert_eq!(value(&escaped(body)), value(body));
    }

    #[test]
    fn a_string_is_borrowed_unless_it_is_escaped() {
        for (json, borrowed) in [(r#""demo""#, true), (r#""d\u0065mo""#, false)] {
            let text: Text<'_> = object(json.as_bytes()).expect(json);
            assert_eq!((&*text, matches!(text.0, Cow::Borrowed(_))), ("demo", borrowed), "{json}");
        }
    }
}
