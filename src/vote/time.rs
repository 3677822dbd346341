//! Instants, the cooldown's arithmetic, and the two spellings of an instant: RFC 3339 in bodies,
//! IMF-fixdate (RFC 9110, 5.6.7) in the `Date` field.

use std::fmt;

/// A wall-clock instant in whole seconds since 1970 UTC, good until February 2106.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnixSeconds(pub u32);

/// A vote may be stamped this far ahead of the service's clock, in seconds (contract).
pub const VOTE_AHEAD_MAX_S: u32 = 5;

impl UnixSeconds {
    /// The instant `seconds` later, and at most the end of the range.
    #[must_use]
    pub const fn plus(self, seconds: u32) -> Self {
        Self(self.0.saturating_add(seconds))
    }

    /// The instant `seconds` earlier, and at least 1970.
    #[must_use]
    pub const fn minus(self, seconds: u32) -> Self {
        Self(self.0.saturating_sub(seconds))
    }

    /// As `2026-11-20T12:34:56Z`.
    #[must_use]
    pub fn rfc3339(self) -> [u8; 20] {
        let civil = Civil::of(self);
        let mut text = *b"0000-00-00T00:00:00Z";
        digits(&mut text[0..4], civil.year);
        digits(&mut text[5..7], civil.month);
        digits(&mut text[8..10], civil.day);
        digits(&mut text[11..13], civil.hour);
        digits(&mut text[14..16], civil.minute);
        digits(&mut text[17..19], civil.second);
        text
    }

    /// As `Fri, 20 Nov 2026 12:34:56 GMT`.
    #[must_use]
    pub fn imf_fixdate(self) -> [u8; 29] {
        let civil = Civil::of(self);
        let mut text = *b"DDD, 00 MMM 0000 00:00:00 GMT";
        text[0..3].copy_from_slice(DAY_NAMES[civil.weekday as usize]);
        digits(&mut text[5..7], civil.day);
        text[8..11].copy_from_slice(MONTH_NAMES[civil.month as usize - 1]);
        digits(&mut text[12..16], civil.year);
        digits(&mut text[17..19], civil.hour);
        digits(&mut text[20..22], civil.minute);
        digits(&mut text[23..25], civil.second);
        text
    }

    /// Reads RFC 3339 **with** an offset (`Z`, `+01:00`), truncated to its second. `None` for a
    /// date without an offset (sites run on local time: a bare date would be a guess), for
    /// anything that is no RFC 3339 instant, and outside 1970 to 2106.
    #[must_use]
    pub fn parse_rfc3339(text: &str) -> Option<Self> {
        let bytes = text.as_bytes();
        if bytes.len() < 20 || bytes[4] != b'-' || bytes[7] != b'-' || bytes[13] != b':' || bytes[16] != b':' {
            return None;
        }
        if !matches!(bytes[10], b'T' | b't' | b' ') {
            return None;
        }
        let (year, month, day) = (number(&bytes[0..4])?, number(&bytes[5..7])?, number(&bytes[8..10])?);
        let (hour, minute, second) = (number(&bytes[11..13])?, number(&bytes[14..16])?, number(&bytes[17..19])?);
        // A leap second is a legal spelling; it is taken as the second that follows.
        let in_range = (1..=12).contains(&month)
            && (1..=31).contains(&day)
            // Month 13 stands for January of the next year.
            && days_from_civil(year, month, day) < days_from_civil(year, month + 1, 1)
            && hour <= 23
            && minute <= 59
            && second <= 60;
        if !in_range {
            return None;
        }
        let offset = parse_offset(skip_fraction(&bytes[19..])?)?;
        let days = i64::from(days_from_civil(year, month, day));
        let local = days * 86_400 + i64::from(hour * 3_600 + minute * 60 + second);
        u32::try_from(local - offset).ok().map(Self)
    }
}

impl fmt::Display for UnixSeconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(std::str::from_utf8(&self.rfc3339()).unwrap_or_default())
    }
}

/// The cooldown's length: whole minutes from 1 to 10,080 (a week).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cooldown {
    minutes: u32,
}

impl Cooldown {
    /// Longest cooldown, in minutes.
    pub const MINUTES_MAX: u32 = 10_080;
    /// The default length.
    pub const USUAL: Self = Self { minutes: 90 };

    /// A cooldown of `minutes`, or `None` outside 1 to 10,080.
    #[must_use]
    pub const fn from_minutes(minutes: u32) -> Option<Self> {
        if minutes >= 1 && minutes <= Self::MINUTES_MAX { Some(Self { minutes }) } else { None }
    }

    /// Length in minutes.
    #[must_use]
    pub const fn minutes(self) -> u32 {
        self.minutes
    }

    /// Length in seconds.
    #[must_use]
    pub const fn seconds(self) -> u32 {
        self.minutes * 60
    }

    /// When a vote cast at `voted_at` stops counting: before this instant its pair is in cooldown, from it on the pair
    /// may vote.
    #[must_use]
    pub const fn expires_at(self, voted_at: UnixSeconds) -> UnixSeconds {
        voted_at.plus(self.seconds())
    }

    /// The vote's instant, from the instant at which its cooldown ends.
    #[must_use]
    pub const fn voted_at(self, expires_at: UnixSeconds) -> UnixSeconds {
        expires_at.minus(self.seconds())
    }

    /// The first instant of a vote whose cooldown has not ended by `now`.
    #[must_use]
    pub const fn first_live(self, now: UnixSeconds) -> UnixSeconds {
        now.plus(1).minus(self.seconds())
    }

    /// Minutes until `expires_at`, rounded up: from 1 to the cooldown's length. A vote may be stamped a few seconds
    /// ahead of `now` by its sender's clock: the result is still at most the length.
    #[must_use]
    pub const fn minutes_remaining(self, expires_at: UnixSeconds, now: UnixSeconds) -> u32 {
        let minutes = expires_at.0.saturating_sub(now.0).div_ceil(60);
        if minutes < 1 {
            1
        } else if minutes > self.minutes {
            self.minutes
        } else {
            minutes
        }
    }
}

const DAY_NAMES: [&[u8; 3]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
const MONTH_NAMES: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

struct Civil {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
    weekday: u32,
}

impl Civil {
    /// Proleptic Gregorian date of an instant. Years are counted from March, so that the leap day
    /// is the last of its year and a month's start is a linear function of its number.
    fn of(instant: UnixSeconds) -> Self {
        let (days, in_day) = (instant.0 / 86_400, instant.0 % 86_400);
        // Days since 1 March of year 0: the epoch is day 719,468.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
        Self {
            year: era * 400 + year_of_era + u32::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            hour: in_day / 3_600,
            minute: in_day / 60 % 60,
            second: in_day % 60,
            // 1 January 1970 was a Thursday.
            weekday: (days + 4) % 7,
        }
    }
}

/// Days from 1970 to a date of the Gregorian calendar; negative before 1970.
fn days_from_civil(year: u32, month: u32, day: u32) -> i32 {
    let (year, month, day) = (year.cast_signed(), month.cast_signed(), day.cast_signed());
    let march_year = if month <= 2 { year - 1 } else { year };
    let march_month = if month <= 2 { month + 9 } else { month - 3 };
    let leap_days = march_year.div_euclid(4) - march_year.div_euclid(100) + march_year.div_euclid(400);
    march_year * 365 + leap_days + (153 * march_month + 2) / 5 + day - 1 - 719_468
}

/// Writes `value` into all of `text`, with leading zeros.
fn digits(text: &mut [u8], mut value: u32) {
    for digit in text.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

fn number(text: &[u8]) -> Option<u32> {
    text.iter().try_fold(0, |value, byte| byte.is_ascii_digit().then(|| value * 10 + u32::from(byte - b'0')))
}

fn skip_fraction(text: &[u8]) -> Option<&[u8]> {
    let Some(fraction) = text.strip_prefix(b".") else { return Some(text) };
    let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (digits > 0).then(|| &fraction[digits..])
}

/// Seconds east of UTC.
fn parse_offset(text: &[u8]) -> Option<i64> {
    match text {
        b"Z" | b"z" => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let seconds = i64::from(hours * 3_600 + minutes * 60);
            (hours <= 23 && minutes <= 59).then_some(if *sign == b'+' { seconds } else { -seconds })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Cooldown, UnixSeconds};
    use proptest::prelude::{any, prop_assert_eq, proptest};

    fn rfc3339(seconds: u32) -> String {
        String::from_utf8(UnixSeconds(seconds).rfc3339().to_vec()).expect("ASCII")
    }

    fn imf(seconds: u32) -> String {
        String::from_utf8(UnixSeconds(seconds).imf_fixdate().to_vec()).expect("ASCII")
    }

    #[test]
    fn instants_are_spelled_as_in_the_standards() {
        assert_eq!(rfc3339(0), "1970-01-01T00:00:00Z");
        assert_eq!(imf(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        // The example of RFC 9110, 5.6.7.
        assert_eq!(imf(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(rfc3339(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(rfc3339(951_868_799), "2000-02-29T23:59:59Z");
        assert_eq!(rfc3339(951_868_800), "2000-03-01T00:00:00Z");
        assert_eq!(rfc3339(1_795_178_096), "2026-11-20T12:34:56Z");
        assert_eq!(rfc3339(u32::MAX), "2106-02-07T06:28:15Z");
        assert_eq!(imf(u32::MAX), "Sun, 07 Feb 2106 06:28:15 GMT");
    }

    #[test]
    fn rfc3339_is_read_only_with_an_offset() {
        for (text, expected) in [
            ("2026-11-20T12:34:56Z", Some(1_795_178_096)),
            ("2026-11-20t12:34:56z", Some(1_795_178_096)),
            ("2026-11-20 12:34:56Z", Some(1_795_178_096)),
            ("2026-11-20T12:34:56.999Z", Some(1_795_178_096)),
            ("2026-11-20T13:34:56+01:00", Some(1_795_178_096)),
            ("2026-11-20T07:04:56.5-05:30", Some(1_795_178_096)),
            ("1972-06-30T23:59:60Z", Some(78_796_800)),
            ("2026-11-20T12:34:56", None),
            ("2026-11-20", None),
            ("2026-11-20T12:34:56+0100", None),
            ("2026-11-20T12:34:56+24:00", None),
            ("2026-11-20T12:34:56.Z", None),
            ("2026-11-20T12:34:56Zx", None),
            ("2026-11-20T12:34Z", None),
            ("2026-13-20T12:34:56Z", None),
            ("2026-02-29T12:34:56Z", None),
            ("2024-02-29T00:00:00Z", Some(1_709_164_800)),
            ("2026-11-00T12:34:56Z", None),
            ("2026-11-20T24:00:00Z", None),
            ("1969-12-31T23:59:59Z", None),
            ("2106-02-07T06:28:16Z", None),
            ("+026-11-20T12:34:56Z", None),
            ("éééééééééééééééééééé", None),
            ("", None),
        ] {
            assert_eq!(UnixSeconds::parse_rfc3339(text), expected.map(UnixSeconds), "{text}");
        }
    }

    #[test]
    fn every_day_survives_spelling() {
        for seconds in (0..=u32::MAX).step_by(86_400) {
            assert_eq!(UnixSeconds::parse_rfc3339(&rfc3339(seconds)), Some(UnixSeconds(seconds)));
        }
    }

    #[test]
    fn minutes_and_instants_at_every_boundary() {
        let cooldown = Cooldown::from_minutes(90).expect("in range");
        let voted_at = UnixSeconds(1_795_172_696);
        let expires_at = cooldown.expires_at(voted_at);
        assert_eq!(expires_at, UnixSeconds(1_795_178_096));
        assert_eq!(cooldown.voted_at(expires_at), voted_at);
        for (remaining_s, minutes) in [
            (0, 1),
            (1, 1),
            (59, 1),
            (60, 1),
            (61, 2),
            (119, 2),
            (120, 2),
            (2_520, 42),
            (5_399, 90),
            (5_400, 90),
            (5_405, 90),
        ] {
            assert_eq!(
                cooldown.minutes_remaining(expires_at, expires_at.minus(remaining_s)),
                minutes,
                "{remaining_s} s"
            );
        }
        assert_eq!(Cooldown::from_minutes(0), None);
        assert_eq!(Cooldown::from_minutes(10_081), None);
        let longest = Cooldown::from_minutes(10_080).map(|cooldown| (cooldown.minutes(), cooldown.seconds()));
        assert_eq!(longest, Some((10_080, 604_800)));
    }

    proptest! {
        #[test]
        fn every_instant_survives_spelling(seconds in any::<u32>()) {
            prop_assert_eq!(UnixSeconds::parse_rfc3339(&rfc3339(seconds)), Some(UnixSeconds(seconds)));
        }

        #[test]
        fn any_text_is_read_or_refused(text in any::<String>()) {
            let _read = UnixSeconds::parse_rfc3339(&text);
        }
    }
}
