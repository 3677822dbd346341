//! The first line of an export: its kind, the settings for reading its votes, its time, and its store (contract,
//! "Settings of a store").

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::body::{Invalid, invalid};
use crate::json;
use crate::vote::ipv6::Ipv6Prefix;
use crate::vote::settings::Settings;
use crate::vote::time::{Cooldown, UnixSeconds};

/// The form of an export that this service makes, and the newest that it reads.
const VERSION: u32 = 1;
/// The service that makes these exports.
const KIND: &str = "vote-status";
/// The first member of a header, which no vote and no server has.
const FIRST_MEMBER: &[u8] = b"\"export\"";
/// The word for an export that was made with other settings, or that cannot be read.
pub const SETTINGS_DIFFER: &str = "settings_differ";
/// The message for a line that is no header.
const NOT_OURS: &str = "this line begins as the header of an export does, and is none of vote-status";

/// The line.
#[derive(Deserialize, Serialize)]
struct ExportHeader<'a> {
    export: Cow<'a, str>,
    version: u32,
    /// Length of the cooldown, 1 to 10,080 minutes.
    cooldown_minutes: u32,
    /// The bits that tell IPv6 voters apart, 32 to 64.
    ipv6_prefix: u8,
    #[serde(default)]
    exported_at: Cow<'a, str>,
    #[serde(default)]
    store: Cow<'a, str>,
}

/// Whether this line is the header of an export.
#[must_use]
pub fn is_header(text: &[u8]) -> bool {
    text.strip_prefix(b"{").is_some_and(|members| members.trim_ascii_start().starts_with(FIRST_MEMBER))
}

/// The settings of the store that was exported.
///
/// # Errors
/// The answer, if the line is no header of this service or is a newer one's.
pub fn read(text: &[u8]) -> Result<Settings, Invalid> {
    let header: ExportHeader<'_> = json::object(text).map_err(|_| refused(NOT_OURS))?;
    if header.export == KIND && header.version > VERSION {
        let version = header.version;
        return Err(refused(format!(
            "the export has form {version}, and this version reads up to {VERSION}: import it with the version that made it"
        )));
    }
    let ExportHeader { cooldown_minutes, ipv6_prefix, .. } = header;
    let settings = Cooldown::from_minutes(cooldown_minutes).zip(Ipv6Prefix::from_bits(ipv6_prefix));
    let settings = settings.filter(|_| header.export == KIND).ok_or_else(|| refused(NOT_OURS))?;
    Ok(Settings { cooldown: settings.0, ipv6_prefix: settings.1 })
}

/// The settings of the store that was exported, for a store with `ours`. They may differ only if `is_accepted`.
///
/// # Errors
/// As [`read`]; also if the settings differ and that is not accepted.
pub fn take(text: &[u8], ours: Settings, is_accepted: bool) -> Result<Settings, Invalid> {
    let theirs = read(text)?;
    if theirs != ours && !is_accepted {
        return Err(refused(format!(
            "the export was made with {theirs}, and this service has {ours}; accept_settings=1 takes it, and each vote \
             counts for the cooldown of this service"
        )));
    }
    Ok(theirs)
}

fn refused(message: impl Into<Cow<'static, str>>) -> Invalid {
    invalid(409, SETTINGS_DIFFER, message)
}

/// Appends the header of an export of `store` that begins now.
pub fn append(settings: Settings, now: UnixSeconds, store: &str, lines: &mut Vec<u8>) {
    let header = ExportHeader {
        export: KIND.into(),
        version: VERSION,
        cooldown_minutes: settings.cooldown.minutes(),
        ipv6_prefix: settings.ipv6_prefix.bits(),
        exported_at: now.to_string().into(),
        store: store.into(),
    };
    // A Vec takes whatever is written to it.
    let _written = serde_json::to_writer(&mut *lines, &header);
    lines.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::{append, is_header, read};
    use crate::vote::ipv6::Ipv6Prefix;
    use crate::vote::settings::Settings;
    use crate::vote::time::{Cooldown, UnixSeconds};

    fn settings(minutes: u32, bits: u8) -> Settings {
        let cooldown = Cooldown::from_minutes(minutes).expect("a length");
        Settings { cooldown, ipv6_prefix: Ipv6Prefix::from_bits(bits).expect("a prefix") }
    }

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let mut line = Vec::new();
        append(settings(120, 56), UnixSeconds(1_795_178_096), "/var/lib/vote-status", &mut line);
        let expected = concat!(
            r#"{"export":"vote-status","version":1,"cooldown_minutes":120,"ipv6_prefix":56,"#,
            r#""exported_at":"2026-11-20T12:34:56Z","store":"/var/lib/vote-status"}"#,
            "\n"
        );
        assert_eq!(std::str::from_utf8(&line), Ok(expected));
        assert!(is_header(&line));
        assert_eq!(read(&line), Ok(settings(120, 56)));
    }

    #[test]
    fn a_line_that_is_no_header_of_ours_is_refused() {
        for (text, expected) in [
            // In the layout of other programs, and with members of a later version.
            (
                r#"{ "export": "vote-status", "version": 1, "cooldown_minutes": 90, "ipv6_prefix": 64, "new": [] }"#,
                None,
            ),
            (r#"{"export":"vote-status","version":2,"cooldown_minutes":90,"ipv6_prefix":64}"#, Some("has form 2")),
            (r#"{"export":"other","version":1,"cooldown_minutes":90,"ipv6_prefix":64}"#, Some("none of vote-status")),
            (r#"{"export":"vote-status","version":1,"cooldown_minutes":0,"ipv6_prefix":64}"#, Some("none of")),
            (r#"{"export":"vote-status","version":1,"cooldown_minutes":90,"ipv6_prefix":31}"#, Some("none of")),
            (r#"{"export":"vote-status"}"#, Some("none of")),
            (r#"{"export":1"#, Some("none of")),
        ] {
            assert!(is_header(text.as_bytes()), "{text}");
            let told = read(text.as_bytes()).err();
            assert_eq!(told.is_some(), expected.is_some(), "{text}: {told:?}");
            if let (Some(told), Some(expected)) = (told, expected) {
                assert_eq!((told.status, told.word), (409, "settings_differ"));
                assert!(told.message.contains(expected), "{text}: {told:?}");
            }
        }
        for text in [r#"{"server_id":28,"token":"export"}"#, r#"{"exported":1}"#, "export", ""] {
            assert!(!is_header(text.as_bytes()), "{text}");
        }
    }
}
