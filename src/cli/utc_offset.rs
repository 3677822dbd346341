//! `import --utc-offset`: dates that are written without an offset, as a site in local time has them.
//! Knows when Europe changes the hour, so that no date is read an hour wrong without a word.

use std::ops::Range;

use crate::vote::time::{Cooldown, UnixSeconds};

/// How long before a change of the hour dates begin to be doubtful: older votes have expired, whatever the
/// cooldown's length.
const DOUBT_SECONDS: u32 = (Cooldown::MINUTES_MAX + 24 * 60) * 60;

/// The offset of dates that have none.
#[derive(Debug)]
pub(super) struct UtcOffset {
    /// As it was typed: `+01:00`.
    text: String,
    /// Instants that are before the last change of the hour, or may be.
    doubtful: Range<u32>,
}

impl UtcOffset {
    /// The offset that the dates of this moment have.
    pub(super) fn new(text: String, now: UnixSeconds) -> Self {
        let end = last_change(now).filter(|change| now.0 < change.0 + DOUBT_SECONDS).map_or(0, |change| change.0);
        Self { text, doubtful: end.saturating_sub(DOUBT_SECONDS)..end }
    }

    /// `date` with the offset behind it, where it has none of its own; `None` where it is anything else.
    ///
    /// # Errors
    /// Where the offset may have been another one at that time.
    pub(super) fn complete(&self, date: &str) -> Result<Option<String>, String> {
        let whole = format!("{date}{}", self.text);
        let Some(instant) = UnixSeconds::parse_rfc3339(&whole) else { return Ok(None) };
        if self.doubtful.contains(&instant.0) {
            return Err(format!(
                "voted_at {date} is ambiguous: the hour has changed in Europe since, or in that hour; write its offset"
            ));
        }
        Ok(Some(whole))
    }
}

/// Reads what `--utc-offset` is given.
///
/// # Errors
/// Where it is no offset.
pub(super) fn parse(text: &str) -> Result<String, &'static str> {
    let is_offset = text.len() == 6 && UnixSeconds::parse_rfc3339(&format!("2026-01-02T12:00:00{text}")).is_some();
    if is_offset { Ok(text.to_owned()) } else { Err("an offset is wanted, such as +01:00") }
}

/// The instant from which on the offset of now surely holds: in March the change itself, in October an hour after it,
/// because the hour before the change comes a second time.
fn last_change(now: UnixSeconds) -> Option<UnixSeconds> {
    let spelled = now.to_string();
    let year: u32 = spelled.get(..4)?.parse().ok()?;
    let sunday = |year: u32, month: u32, seconds: u32| {
        let days = (25..=31).rev().map(move |day| format!("{year}-{month:02}-{day}T01:00:00Z"));
        let mut instants = days.filter_map(|text| UnixSeconds::parse_rfc3339(&text));
        instants.find(|instant| instant.imf_fixdate().starts_with(b"Sun")).map(|instant| instant.plus(seconds))
    };
    let changes = [sunday(year, 10, 3_600), sunday(year, 3, 0), sunday(year - 1, 10, 3_600)];
    changes.into_iter().flatten().find(|change| change.0 - 3_600 <= now.0)
}

#[cfg(test)]
mod tests {
    use super::{UtcOffset, parse};
    use crate::vote::time::UnixSeconds;

    fn offset(text: &str, now: &str) -> UtcOffset {
        UtcOffset::new(text.to_owned(), UnixSeconds::parse_rfc3339(now).expect("an instant"))
    }

    #[test]
    fn a_date_gets_the_offset_that_it_lacks() {
        let paris = offset("+01:00", "2026-11-22T12:00:00Z");
        for (date, expected) in [
            ("2026-11-22 12:34:56", Some("2026-11-22 12:34:56+01:00")),
            ("2026-11-22T12:34:56.789", Some("2026-11-22T12:34:56.789+01:00")),
            ("2026-11-22T12:34:56Z", None),
            ("2026-11-22T12:34:56+02:00", None),
            ("1795178096", None),
            ("", None),
            ("22/11/2026 12:34", None),
        ] {
            assert_eq!(paris.complete(date), Ok(expected.map(str::to_owned)), "{date}");
        }
    }

    #[test]
    fn dates_before_a_change_of_the_hour_are_ambiguous() {
        // Paris: from +02:00 to +01:00 on 25 October 2026 at 01:00 UTC, from +01:00 to +02:00 on 28 March 2027.
        for (text, now, date, is_taken) in [
            ("+01:00", "2026-10-25T01:30:00Z", "2026-10-25 02:15:00", false),
            ("+01:00", "2026-10-25T02:30:00Z", "2026-10-25 01:59:59", false),
            ("+01:00", "2026-10-25T02:30:00Z", "2026-10-25 02:59:59", false),
            ("+01:00", "2026-10-25T02:30:00Z", "2026-10-25 03:00:00", true),
            ("+01:00", "2026-11-01T02:30:00Z", "2026-10-24 23:00:00", false),
            ("+01:00", "2026-11-02T12:00:00Z", "2026-10-24 23:00:00", true),
            ("+02:00", "2027-03-28T01:30:00Z", "2027-03-28 01:59:59", false),
            ("+02:00", "2027-03-28T01:30:00Z", "2027-03-28 03:00:00", true),
            ("+02:00", "2026-10-25T00:59:00Z", "2026-10-25 02:30:00", true),
            ("+01:00", "2027-01-01T00:30:00Z", "2027-01-01 00:59:59", true),
        ] {
            let completed = offset(text, now).complete(date);
            assert_eq!(completed.is_ok(), is_taken, "{date}{text} at {now}: {completed:?}");
        }
    }

    #[test]
    fn what_is_no_offset() {
        for (text, is_one) in
            [("+01:00", true), ("-05:30", true), ("Z", false), ("+1", false), ("", false), (".5+01:00", false)]
        {
            assert_eq!(parse(text).is_ok(), is_one, "{text}");
        }
    }
}
