//! The store's replies, and the refusals that more than one command gives.

use std::fmt;

/// A reply in version 2 of the protocol.
#[derive(Clone, PartialEq, Eq)]
pub enum Reply {
    /// Nothing: a field, a key or a list that is not there.
    Nil,
    /// A number.
    Int(i64),
    /// A short word, mostly `OK`.
    Status(String),
    /// Any bytes.
    Bulk(Vec<u8>),
    /// A list.
    Array(Vec<Self>),
    /// An error: its code and its text.
    Refused(String),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nil => f.write_str("nil"),
            Self::Int(number) => number.fmt(f),
            Self::Status(text) => f.write_str(text),
            Self::Bulk(bytes) => fmt::Debug::fmt(&String::from_utf8_lossy(bytes), f),
            Self::Array(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    f.write_str(if at == 0 { "" } else { ", " })?;
                    item.fmt(f)?;
                }
                f.write_str("]")
            }
            Self::Refused(why) => write!(f, "-{why}"),
        }
    }
}

/// A command's reply, or its error if it does nothing.
pub type Answer = Result<Reply, String>;

impl Reply {
    /// Any bytes.
    #[must_use]
    pub fn bulk(bytes: impl AsRef<[u8]>) -> Self {
        Self::Bulk(bytes.as_ref().to_vec())
    }

    /// A count.
    #[must_use]
    pub fn count(count: usize) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    /// `OK`
    #[must_use]
    pub fn ok() -> Self {
        Self::Status("OK".to_owned())
    }
}

/// Bytes as text, for error messages and look-ups.
pub(crate) fn said(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn no_syntax<T>() -> Result<T, String> {
    Err("ERR syntax error".to_owned())
}

/// A whole number, spelled as the store spells it: no sign but a minus, no leading nought.
pub(crate) fn whole(bytes: &[u8]) -> Result<i64, String> {
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let number = text.parse::<i64>().ok().filter(|number| number.to_string() == text);
    number.ok_or_else(|| "ERR value is not an integer or out of range".to_owned())
}

/// Whether this word of a command is that option.
pub(crate) fn is_option(word: &[u8], option: &str) -> bool {
    word.eq_ignore_ascii_case(option.as_bytes())
}
