//! JSON objects read field by field, without a copy where none is needed. Knows their form, not
//! what the fields mean.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde_core::de::{Deserialize, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};

/// What the fields of an object are gathered into.
pub trait Fields<'de>: Default {
    /// The names that are known, at most 32.
    const NAMES: &'static [&'static str];
    /// Whether another name is refused; else its value is skipped.
    const OTHERS_REFUSED: bool;

    /// Takes the next value of `object`, which is that of the field `name`: one of the known, once.
    ///
    /// # Errors
    /// The object's, and what is wrong with the value.
    fn take<A: MapAccess<'de>>(&mut self, name: &'static str, object: &mut A) -> Result<(), A::Error>;
}

/// An object, to be read as any value is: `serde_json::from_slice::<Object<T>>`.
pub struct Object<T>(pub T);

impl<'de, T: Fields<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Gatherer(PhantomData))
    }
}

struct Gatherer<T>(PhantomData<T>);

impl<'de, T: Fields<'de>> Visitor<'de> for Gatherer<T> {
    type Value = Object<T>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Object<T>, A::Error> {
        const { assert!(T::NAMES.len() <= 32) };
        let mut fields = T::default();
        let mut seen = 0_u32;
        while let Some(known) = object.next_key_seed(Name { known: T::NAMES, others_refused: T::OTHERS_REFUSED })? {
            let Some(index) = known else {
                object.next_value::<IgnoredAny>()?;
                continue;
            };
            let name = T::NAMES[index];
            if seen & 1 << index != 0 {
                return Err(A::Error::duplicate_field(name));
            }
            seen |= 1 << index;
            fields.take(name, &mut object)?;
        }
        Ok(Object(fields))
    }
}

/// How much of a name that is not known is told, in bytes: the known ones are told behind it.
const NAME_ECHO_BYTES_MAX: usize = 64;

/// Reads a name: its place among the known ones.
struct Name {
    known: &'static [&'static str],
    others_refused: bool,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<usize>, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<usize>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Option<usize>, E> {
        match self.known.iter().position(|known| *known == name) {
            None if self.others_refused => Err(E::unknown_field(&echo(name, NAME_ECHO_BYTES_MAX), self.known)),
            index => Ok(index),
        }
    }
}

/// A string; a copy only where it is written with escapes.
pub struct Text<'a>(pub Cow<'a, str>);

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

impl Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// What stands in an answer, a log or on a terminal of text that somebody sent: its first
/// `bytes_max` bytes, without what would not be seen or would be obeyed.
#[must_use]
pub fn echo(text: &str, bytes_max: usize) -> String {
    const CUT: &str = "…";
    let shown = |character: char| if is_plain(character) { character } else { char::REPLACEMENT_CHARACTER };
    let mut echo = String::with_capacity(text.len().min(bytes_max));
    // Up to here the sign of a cut still has room.
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

/// Whether it is shown as it is: neither a control character nor one that changes how others are laid out.
fn is_plain(character: char) -> bool {
    let is_layout = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}');
    !character.is_control() && !is_layout && character != '\u{feff}'
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a string")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use serde_core::de::MapAccess;

    use super::{Fields, Object, Text, echo};

    #[derive(Debug, Default, PartialEq, Eq)]
    struct Sample<'a, const OTHERS_REFUSED: bool> {
        id: Option<u32>,
        text: Option<Cow<'a, str>>,
    }

    impl<'de, const OTHERS_REFUSED: bool> Fields<'de> for Sample<'de, OTHERS_REFUSED> {
        const NAMES: &'static [&'static str] = &["id", "text"];
        const OTHERS_REFUSED: bool = OTHERS_REFUSED;

        fn take<A: MapAccess<'de>>(&mut self, name: &'static str, object: &mut A) -> Result<(), A::Error> {
            match name {
                "id" => self.id = object.next_value()?,
                _ => self.text = object.next_value::<Option<Text<'de>>>()?.map(|text| text.0),
            }
            Ok(())
        }
    }

    fn read<const OTHERS_REFUSED: bool>(text: &str) -> Result<Sample<'_, OTHERS_REFUSED>, String> {
        let read = serde_json::from_str::<Object<Sample<'_, OTHERS_REFUSED>>>(text);
        read.map(|object| object.0).map_err(|error| error.to_string())
    }

    #[test]
    fn fields_in_any_order() {
        for (json, id, text) in [
            ("{}", None, None),
            (r#"{"id":7}"#, Some(7), None),
            (r#"{"text":"a","id":7}"#, Some(7), Some("a")),
            (r#" { "id" : null , "\u0074ext" : "a\n" } "#, None, Some("a\n")),
        ] {
            let expected = Sample { id, text: text.map(Cow::Borrowed) };
            assert_eq!(read::<true>(json), Ok(expected), "{json}");
        }
    }

    #[test]
    fn what_is_no_such_object() {
        for (json, expected) in [
            ("", "EOF while parsing a value at line 1 column 0"),
            ("[]", "invalid type: sequence, expected an object at line 1 column 0"),
            ("7", "invalid type: integer `7`, expected an object at line 1 column 1"),
            (r#"{"id":-1}"#, "invalid value: integer `-1`, expected u32 at line 1 column 8"),
            (r#"{"text":7}"#, "invalid type: integer `7`, expected a string at line 1 column 9"),
            (r#"{"id":7,"id":7}"#, "duplicate field `id` at line 1 column 12"),
            (r#"{"id":null,"id":7}"#, "duplicate field `id` at line 1 column 15"),
            (r#"{"Id":7}"#, "unknown field `Id`, expected `id` or `text` at line 1 column 5"),
            (r#"{"id":7}7"#, "trailing characters at line 1 column 9"),
        ] {
            assert_eq!(read::<true>(json), Err(expected.to_owned()), "{json}");
        }
    }

    #[test]
    fn other_fields_are_skipped_where_that_is_wanted() {
        assert_eq!(read::<false>(r#"{"a":[{}],"id":7,"a":""}"#), Ok(Sample { id: Some(7), text: None }));
        assert!(read::<false>(r#"{"a":7,"id":7,"id":7}"#).is_err());
        assert!(read::<false>(r#"{"a":7"#).is_err());
    }

    #[test]
    fn an_echo_is_short_and_plain() {
        for (text, expected) in [
            ("", ""),
            ("demo", "demo"),
            ("0123456789", "0123456789"),
            ("0123456789a", "0123456…"),
            ("éééééé", "ééé…"),
            ("ééééé", "ééééé"),
            ("123456789é", "1234567…"),
            ("a\n\0b", "a\u{fffd}\u{fffd}b"),
            ("\u{1b}[31mred", "\u{fffd}[31mred"),
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
    fn a_string_is_borrowed_unless_it_is_escaped() {
        for (json, borrowed) in [(r#"{"text":"demo"}"#, true), (r#"{"text":"d\u0065mo"}"#, false)] {
            let Ok(Sample { text: Some(text), .. }) = read::<true>(json) else { panic!("{json} has a text") };
            assert_eq!((&*text, matches!(text, Cow::Borrowed(_))), ("demo", borrowed), "{json}");
        }
    }
}
